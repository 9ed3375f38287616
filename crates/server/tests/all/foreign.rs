//! The server with programs of others: a browser, and clients that push profiles.

mod browser;
mod clients;
#[path = "../../examples/demo/invented/mod.rs"]
mod invented;
mod pictures;

use std::error::Error;

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{HeaderMap, Request, StatusCode},
};
use tokio::{net::TcpListener, sync::oneshot};
use tower::ServiceExt as _;
use wingbeat_server::{App, service::serve, settings::Settings};

/// A server on a free port, until dropped.
struct Server {
    runtime: tokio::runtime::Runtime,
    app: App,
    folder: tempfile::TempDir,
    stop: Option<oneshot::Sender<()>>,
}

impl Server {
    fn start() -> Result<Self, Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let listen = listener.local_addr()?;
        let public_url = format!("http://{listen}");
        let app = App::open(Settings { listen, public_url, ..Settings::of(folder.path()) })?;
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async { stopped.await.unwrap_or_default() };
        runtime.spawn(serve(app.clone(), listener, stopped));
        Ok(Self { runtime, app, folder, stop: Some(stop) })
    }

    fn url(&self) -> &str {
        &self.app.settings.public_url
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server may have stopped by itself.
        let _ = self.stop.take().map(|stop| stop.send(()));
    }
}

async fn get(router: &Router, path: &str) -> (StatusCode, HeaderMap, String) {
    let request = Request::get(path).body(Body::empty()).expect("a request");
    let (parts, body) = router.clone().oneshot(request).await.expect("answered").into_parts();
    let body = to_bytes(body, usize::MAX).await.expect("read");
    (parts.status, parts.headers, String::from_utf8(body.to_vec()).expect("text"))
}
