//! Listens, responds, and shuts down gracefully: in-flight requests are completed, new ones refused.

mod connections;
mod idle;
mod request_log;
mod start;

use std::{future::Future, time::Duration};

use axum::{
    Router,
    extract::{DefaultBodyLimit, Request, State},
    http::{HeaderName, HeaderValue, Method, StatusCode, Uri, header},
    middleware,
    response::IntoResponse as _,
    routing::get,
};
use tokio::{net::TcpListener, sync::watch, time};
use tower_http::{
    catch_panic::CatchPanicLayer, decompression::RequestDecompressionLayer,
    limit::RequestBodyLimitLayer,
};

pub(crate) use self::request_log::request_id;
pub use self::{
    idle::Idle,
    start::{log_to_stderr, run},
};
pub(crate) use crate::api::push::PATH as PUSH_PATH;
use crate::{
    ApiError, App,
    access::{Right, Route},
    api, console,
    database::Database,
    error, profiles, series,
};

/// Time limit of in-flight requests at shutdown.
const GRACE: Duration = Duration::from_secs(30);

/// Merge interval of profiles, and the pause if there is more to do.
const TIDY: Duration = Duration::from_secs(15);
const TIDY_MORE: Duration = Duration::from_secs(1);

/// All routes, each with its right.
pub fn routes() -> Vec<Route> {
    let mut routes = vec![
        Route::api(Method::GET, "/healthz", Right::Open, get(health)),
        Route::api(Method::GET, "/metrics", Right::SignedIn, get(metrics)),
    ];
    routes.extend(api::routes());
    routes.extend(api::native_routes());
    routes.extend(console::routes());
    routes
}

/// All routes with the common middleware.
pub fn router(app: &App) -> Router {
    let bytes_max = app.settings.body_bytes_max;
    let router = Route::mount(routes(), Router::new(), app)
        .fallback(not_found)
        // From the innermost layer outwards. The size is limited before and after decompression.
        .layer(DefaultBodyLimit::max(bytes_max))
        .layer(RequestBodyLimitLayer::new(bytes_max))
        .layer(RequestDecompressionLayer::new())
        .layer(RequestBodyLimitLayer::new(bytes_max))
        .layer(middleware::from_fn(error::plain_text_to_api))
        .layer(CatchPanicLayer::custom(|_| {
            let message = "the server failed unexpectedly; see its log";
            ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, message).into_response()
        }))
        .layer(middleware::from_fn_with_state(app.clone(), connections::body_in_time))
        .layer(middleware::from_fn(api::push::as_connect))
        .layer(middleware::from_fn(console::failure::as_pages))
        .layer(middleware::from_fn_with_state(app.clone(), request_log::log))
        .with_state(app.clone());
    // Must run before routing, so it wraps everything.
    let single_slashes: fn(Request) -> Request = with_single_slashes;
    Router::new().fallback_service(tower::ServiceExt::map_request(router, single_slashes))
}

/// Serves until `stop` resolves, then finishes in-flight requests for up to 30 seconds.
pub async fn serve(
    app: App,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
) {
    serve_with_grace(app, listener, stop, GRACE).await;
}

/// Like [`serve`], with another time limit for in-flight requests.
pub async fn serve_with_grace(
    app: App,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
    grace: Duration,
) {
    let tidying = tokio::spawn(tidy_profiles(app.clone()));
    let looking_after = tokio::spawn(series::look_after(app.clone()));
    let (say, mut heard) = watch::channel(false);
    let stop = async move {
        stop.await;
        tracing::info!("stopping: finishing requests in progress");
        let _ = say.send(true);
    };
    let late = async move {
        if heard.wait_for(|is_stopping| *is_stopping).await.is_err() {
            // The server has stopped.
            std::future::pending::<()>().await;
        }
        time::sleep(grace).await;
    };
    let connections_max = app.settings.connections_max;
    tokio::select! {
        () = connections::accept(listener, router(&app), connections_max, stop) => {}
        () = late => {
            tracing::warn!("requests that took longer than {} s were cut off", grace.as_secs());
        }
    }
    looking_after.abort();
    tidying.abort();
}

/// Merges and deletes profiles while the server runs.
async fn tidy_profiles(app: App) {
    let mut pause = TIDY;
    loop {
        time::sleep(pause).await;
        pause = TIDY;
        let owner = app.clone();
        let tidy = move || owner.profiles.tidy(profiles::now_ns());
        match tokio::task::spawn_blocking(tidy).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => pause = TIDY_MORE,
            Ok(Err(error)) => tracing::warn!("merging profiles failed: {error}"),
            Err(error) => tracing::warn!("merging profiles failed: {error}"),
        }
    }
}

/// Whether the database is readable.
async fn health(State(app): State<App>) -> Result<&'static str, ApiError> {
    app.storage.ask(Database::projects).await?;
    Ok("ok\n")
}

async fn metrics(State(app): State<App>) -> ([(HeaderName, HeaderValue); 1], String) {
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    ([(header::CONTENT_TYPE, kind)], app.metrics.text(&app.storage).await)
}

async fn not_found() -> ApiError {
    ApiError::not_found("this address does not exist")
}

/// The request with single slashes in its path, and none at its end: the `bencher` client requests `//v0/…` if its host
/// ends in a slash, which it always does, and people type `/perf/project/`.
fn with_single_slashes(mut request: Request) -> Request {
    if let Some(uri) = without_surplus(request.uri()) {
        *request.uri_mut() = uri;
    }
    request
}

fn without_surplus(uri: &Uri) -> Option<Uri> {
    let path = uri.path();
    if !path.contains("//") && (path == "/" || !path.ends_with('/')) {
        return None;
    }
    let mut text = String::with_capacity(path.len());
    for c in path.chars() {
        if c != '/' || !text.ends_with('/') {
            text.push(c);
        }
    }
    if text.len() > 1 && text.ends_with('/') {
        text.pop();
    }
    if let Some(query) = uri.query() {
        text.push('?');
        text.push_str(query);
    }
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(text.parse().ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes() {
        let check = |text: &str, expected: Option<&str>| {
            let uri: Uri = text.parse().expect("an address");
            let found = without_surplus(&uri).map(|uri| uri.to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        };
        check("/v0/run", None);
        check("/a?b=//", None);
        check("//v0/server/version", Some("/v0/server/version"));
        check("//", Some("/"));
        check("/", None);
        check("/perf/parser/?a=/", Some("/perf/parser?a=/"));
        check("//v0///run//?next=//a", Some("/v0/run?next=//a"));
    }
}
