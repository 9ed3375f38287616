//! Accepts connections, a bounded number of them, and gives clients that send slowly or nothing a bounded time.
//!
//! Each connection takes a file descriptor, so without a bound some hundred half requests would stop the server. When
//! all are in use, the one whose client has kept the server waiting the longest makes room for the next.

use std::{
    collections::HashMap,
    convert::Infallible,
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{ConnectInfo, Request, State},
    http::{HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http_body::{Body as _, Frame, SizeHint};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Notify, oneshot, watch},
    task::JoinSet,
    time,
};
use tower::ServiceExt as _;

use crate::{ApiError, App};

/// How long a connection waits for the next request's head: longer than proxies keep idle connections, 60 s in nginx,
/// because a proxy would otherwise send requests into a closing connection.
const HEAD_MAX: Duration = Duration::from_secs(75);

/// Clients that have kept the server waiting for less than this are not closed to make room.
const WAITED_MIN: Duration = Duration::from_secs(1);

/// Pause between attempts to make room, and after an error.
const PAUSE: Duration = Duration::from_millis(100);

/// Time between two warnings of a kind.
const WARNINGS: Duration = Duration::from_secs(60);

/// An open connection.
#[derive(Debug)]
struct Connection {
    /// Since when its client has kept the server waiting; `None` while the server works for it.
    waits_since: Mutex<Option<Instant>>,
    close: Notify,
}

impl Connection {
    fn set_waiting(&self, is_waiting: bool) {
        let mut since = self.waits_since.lock().unwrap_or_else(PoisonError::into_inner);
        *since = is_waiting.then(Instant::now);
    }

    fn waits_since(&self) -> Option<Instant> {
        *self.waits_since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves connections until `stop` resolves, then finishes requests in progress.
pub(super) async fn accept(
    listener: TcpListener,
    router: Router,
    connections_max: usize,
    stop: impl Future<Output = ()>,
) {
    let (stopping, stopped) = watch::channel(());
    let mut open: HashMap<u64, Arc<Connection>> = HashMap::new();
    let mut tasks = JoinSet::new();
    let (mut full, mut failed) = (Seldom::default(), Seldom::default());
    let mut stop = pin!(stop);
    for id in 0_u64.. {
        let (stream, peer) = loop {
            let is_full = tasks.len() >= connections_max;
            if is_full {
                full.warn(|| {
                    format!(
                        "all {connections_max} connections are open: closing those whose clients are slowest \
                         (`connections_max`)"
                    )
                });
                close_slowest(&mut open);
            }
            tokio::select! {
                () = &mut stop => {
                    drop(listener);
                    drop(stopping);
                    while tasks.join_next().await.is_some() {}
                    return;
                }
                Some(ended) = tasks.join_next() => {
                    if let Ok(id) = ended {
                        open.remove(&id);
                    }
                }
                accepted = listener.accept(), if !is_full => match accepted {
                    Ok(accepted) => break accepted,
                    Err(error) if is_of_client(&error) => {}
                    Err(error) => {
                        failed.warn(|| format!("cannot accept connections: {error}"));
                        close_slowest(&mut open);
                        time::sleep(PAUSE).await;
                    }
                },
                () = time::sleep(PAUSE), if is_full => {}
            }
        };
        let waits_since = Mutex::new(Some(Instant::now()));
        let connection = Arc::new(Connection { waits_since, close: Notify::new() });
        open.insert(id, Arc::clone(&connection));
        let served = serve(stream, peer, router.clone(), connection, stopped.clone());
        tasks.spawn(async move {
            served.await;
            id
        });
    }
}

/// Whether a client is the cause that it cannot be accepted.
fn is_of_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Closes the connection that waits for its client the longest, if any waits long enough.
fn close_slowest(open: &mut HashMap<u64, Arc<Connection>>) {
    let waiting = open.iter().filter_map(|(id, it)| it.waits_since().map(|since| (since, *id)));
    if let Some((since, id)) = waiting.min()
        && since.elapsed() >= WAITED_MIN
        && let Some(slowest) = open.remove(&id)
    {
        slowest.close.notify_one();
    }
}

async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    connection: Arc<Connection>,
    mut stopped: watch::Receiver<()>,
) {
    let answer = |request: hyper::Request<hyper::body::Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(peer));
        request.extensions_mut().insert(Arc::clone(&connection));
        connection.set_waiting(false);
        let (router, connection) = (router.clone(), Arc::clone(&connection));
        async move {
            let response = router.oneshot(request).await;
            // Until the client has taken the response, and sent another request.
            connection.set_waiting(true);
            response
        }
    };
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_MAX);
    let mut served = pin!(builder.serve_connection(TokioIo::new(stream), service_fn(answer)));
    let mut is_stopping = false;
    loop {
        tokio::select! {
            // Errors are the client's, such as a closed connection.
            _ = &mut served => return,
            () = connection.close.notified() => return,
            // The sender is dropped, and never sends.
            _ = stopped.changed(), if !is_stopping => {
                is_stopping = true;
                served.as_mut().graceful_shutdown();
            }
        }
    }
}

/// Answers 408 to a request whose body takes too long.
pub(super) async fn body_in_time(State(app): State<App>, request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let (end, ended) = oneshot::channel();
    let connection = request.extensions().get::<Arc<Connection>>().cloned();
    let arriving = Arriving::of(connection, end);
    let request = request.map(|body| Body::new(Arrival { body, arriving: Some(arriving) }));
    let limit = app.settings.body_time_max;
    let late = async {
        // The sender is dropped at the end of the body.
        if time::timeout(limit, ended).await.is_ok() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        response = next.run(request) => response,
        () = late => {
            let message = format!(
                "the request did not arrive within {} s: send less at once, or raise `body_seconds_max` on the server",
                limit.as_secs()
            );
            let mut response = ApiError::new(StatusCode::REQUEST_TIMEOUT, message).into_response();
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            response
        }
    }
}

/// The body of a request, until its end or nobody reads on.
struct Arrival {
    body: Body,
    arriving: Option<Arriving>,
}

/// Lives while a body arrives.
struct Arriving {
    connection: Option<Arc<Connection>>,
    _end: oneshot::Sender<Infallible>,
}

impl Arriving {
    fn of(connection: Option<Arc<Connection>>, end: oneshot::Sender<Infallible>) -> Self {
        if let Some(connection) = &connection {
            connection.set_waiting(true);
        }
        Self { connection, _end: end }
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        if let Some(connection) = &self.connection {
            connection.set_waiting(false);
        }
    }
}

impl http_body::Body for Arrival {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        let is_more = matches!(polled, Poll::Pending | Poll::Ready(Some(Ok(_))));
        if !is_more || self.body.is_end_stream() {
            self.arriving = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Warns, but not each time.
#[derive(Debug, Default)]
struct Seldom(Option<Instant>);

impl Seldom {
    fn warn(&mut self, text: impl FnOnce() -> String) {
        if self.0.is_none_or(|last| last.elapsed() >= WARNINGS) {
            self.0 = Some(Instant::now());
            tracing::warn!("{}", text());
        }
    }
}
