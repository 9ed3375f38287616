//! Listens, answers, and stops in order: requests under way are finished, new ones are refused.

use std::{future::Future, io};

use axum::{Router, extract::State, http::StatusCode};
use tokio::net::TcpListener;
use tower_http::{catch_panic::CatchPanicLayer, limit::RequestBodyLimitLayer};

use crate::{ApiError, App, access::Route, api, console, storage::StorageError};

/// All routes, with what is common to them.
pub fn router(app: &App) -> Router {
    let mut routes = api::routes();
    routes.extend(console::routes());
    let router = Router::new().route("/healthz", axum::routing::get(health));
    let limit = RequestBodyLimitLayer::new(app.settings.body_bytes_max);
    Route::mount(routes, router, app)
        .fallback(not_found)
        .layer(limit)
        .layer(CatchPanicLayer::custom(|_| {
            use axum::response::IntoResponse as _;
            let message = "the server failed in an unforeseen way; its log has more";
            ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, message).into_response()
        }))
        .layer(axum::middleware::from_fn(console::failure::as_pages))
        .with_state(app.clone())
}

/// Serves until `stop` is there, and then until the requests under way are answered.
pub async fn serve(
    app: App,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    axum::serve(listener, router(&app)).with_graceful_shutdown(stop).await
}

/// Whether the databases can be read.
async fn health(State(app): State<App>) -> Result<&'static str, ApiError> {
    app.storage.read(|databases| databases.registry.projects().map_err(StorageError::from)).await?;
    Ok("ok\n")
}

async fn not_found() -> ApiError {
    ApiError::not_found("there is nothing at this address")
}
