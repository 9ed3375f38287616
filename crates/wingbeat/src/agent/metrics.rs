//! The agent's own metrics over HTTP.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Context as _;
use axum::{Router, http::header::CONTENT_TYPE, routing::get};
use wingbeat_agent::Metrics;

/// Serves `/metrics` and `/healthz` until the process ends; returns the address.
pub(super) fn serve(
    address: SocketAddr,
    metrics: Arc<Mutex<Metrics>>,
) -> anyhow::Result<SocketAddr> {
    let listener = std::net::TcpListener::bind(address)
        .with_context(|| format!("cannot listen on {address} for --metrics"))?;
    let address = listener.local_addr().context("cannot tell the address")?;
    listener.set_nonblocking(true).context("cannot listen")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the server of --metrics")?;
    let text = move || {
        let metrics = metrics.lock().unwrap_or_else(PoisonError::into_inner);
        std::future::ready(([(CONTENT_TYPE, "text/plain; version=0.0.4")], metrics.text()))
    };
    let router =
        Router::new().route("/metrics", get(text)).route("/healthz", get(|| async { "ok\n" }));
    std::thread::Builder::new()
        .name("metrics".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
                let _ = axum::serve(listener, router).await;
            });
        })
        .context("cannot start the server of --metrics")?;
    Ok(address)
}
