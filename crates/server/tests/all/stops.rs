//! A stopping server finishes in-flight requests, but does not wait forever.

use std::{
    future::pending,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    time::timeout,
};
use wingbeat_server::{App, service::serve_with_grace, settings::Settings};

/// Starts a request with a body of 100 bytes, of which 10 are sent. Then stops the server, and sends the rest after
/// `pause`, if any. The server finishes requests for `grace`. Returns the response, and how long the server continued.
async fn stop_meanwhile(pause: Option<Duration>, grace: Duration) -> (String, Duration) {
    let folder = tempfile::tempdir().expect("a folder");
    let app = App::open(Settings::of(folder.path())).expect("opened");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let address = listener.local_addr().expect("an address");
    let (stop, stopped) = oneshot::channel::<()>();
    let wait = async { stopped.await.unwrap_or_default() };
    let server = tokio::spawn(serve_with_grace(app, listener, wait, grace));
    let mut client = TcpStream::connect(address).await.expect("connected");
    let head = format!(
        "POST /auth/login HTTP/1.1\r\nHost: {address}\r\nSec-Fetch-Site: same-origin\r\nContent-Length: \
         100\r\nContent-Type: application/x-www-form-urlencoded\r\n\r\nemail=a&pa"
    );
    client.write_all(head.as_bytes()).await.expect("sent");
    tokio::time::sleep(Duration::from_millis(200)).await;
    let begun = Instant::now();
    stop.send(()).expect("told");
    if let Some(pause) = pause {
        tokio::time::sleep(pause).await;
        let rest = format!("ssword={}", "x".repeat(90 - "ssword=".len()));
        client.write_all(rest.as_bytes()).await.expect("sent");
    }
    let ended = timeout(Duration::from_secs(20), server).await;
    ended.expect("in time").expect("no panic");
    let duration = begun.elapsed();
    // A closed connection yields nothing more. The task that holds it ends with the runtime.
    let mut answer = vec![0; 4096];
    let read = timeout(Duration::from_millis(300), client.read(&mut answer)).await;
    let length = read.map_or(0, |read| read.unwrap_or(0));
    (String::from_utf8_lossy(&answer[..length]).into_owned(), duration)
}

#[tokio::test]
async fn a_request_under_way_is_answered() {
    let (answer, _) =
        stop_meanwhile(Some(Duration::from_millis(200)), Duration::from_secs(15)).await;
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
}

#[tokio::test]
async fn a_client_that_stalls_is_not_waited_for() {
    let (answer, duration) = stop_meanwhile(None, Duration::from_millis(700)).await;
    assert_eq!(answer, "");
    assert!(
        (Duration::from_millis(600)..Duration::from_secs(10)).contains(&duration),
        "{duration:?}"
    );
}

#[tokio::test]
async fn a_body_has_a_bounded_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings =
        Settings { body_time_max: Duration::from_millis(300), ..Settings::of(folder.path()) };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let address = listener.local_addr().expect("an address");
    let app = App::open(settings).expect("opened");
    let server = tokio::spawn(serve_with_grace(app, listener, pending(), Duration::ZERO));
    let mut client = TcpStream::connect(address).await.expect("connected");
    let head = format!(
        "POST /auth/login HTTP/1.1\r\nHost: {address}\r\nSec-Fetch-Site: same-origin\r\nContent-Length: \
         100\r\nContent-Type: application/x-www-form-urlencoded\r\n\r\n"
    );
    client.write_all(head.as_bytes()).await.expect("sent");
    let (mut from, mut to) = client.split();
    // A byte now and then does not prolong the time.
    let drip = async {
        while to.write_all(b"a").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let mut answer = Vec::new();
    // Bytes sent after the end reset the connection, after the answer.
    let read = async { drop(from.read_to_end(&mut answer).await) };
    let both = async { tokio::join!(drip, read) };
    timeout(Duration::from_secs(20), both).await.expect("it ends");
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    server.abort();
}
