//! Properties of every response, and limits of requests.

use std::io::Write as _;

use axum::http::{Method, StatusCode};
use flate2::{Compression, write::GzEncoder};
use time::Duration;
use tokio::task::JoinSet;
use wingbeat_server::{
    database::{Database, KeyOwner, Role, Visibility},
    storage::StorageError,
};

use crate::support::{Ask, Server, send};

#[tokio::test]
async fn every_answer_has_headers_for_browsers_and_a_number() {
    let server = Server::new();
    let asks = [
        Ask::get("/"),
        Ask::get("/healthz"),
        Ask::get("/nothing"),
        Ask::get("/console/account"),
        Ask::new(Method::DELETE, "/healthz"),
        Ask::get("/v0/server/version").key("bencher_user_wrong"),
    ];
    let mut ids = Vec::new();
    for ask in asks {
        let answer = server.ask(ask).await;
        let policy = answer.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none';"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("referrer-policy"), "same-origin");
        assert_ne!(answer.header("cache-control"), "");
        assert_eq!(answer.header("access-control-allow-origin"), "");
        ids.push(answer.header("x-request-id").to_owned());
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 6);
    assert!(ids.iter().all(|id| uuid::Uuid::try_parse(id).is_ok()));
}

pub(crate) fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(bytes).expect("packed");
    packer.finish().expect("packed")
}

#[tokio::test]
async fn bodies_are_bounded_packed_and_unpacked() {
    let server = Server::with(|settings| settings.body_bytes_max = 10_000);
    server.project("own", Visibility::Public);
    let owner = KeyOwner::User(server.user("ada", Role::Member).id);
    let (key, _) = server.key(owner, Duration::hours(1));
    let body = |length: usize| {
        let space = " ".repeat(length);
        format!("{{\"name\": \"ci\"{space}}}").into_bytes()
    };
    let check = async |body: Vec<u8>, encoding: Option<&str>, expected: StatusCode| {
        let ask = Ask::json(Method::POST, "/v0/projects/own/keys", "").key(key.as_str());
        let ask = encoding.into_iter().fold(ask, |ask, it| ask.header("content-encoding", it));
        let answer = server.ask(ask.body(body)).await;
        assert_eq!(answer.status, expected, "{encoding:?}: {}", answer.body);
        if expected.is_client_error() {
            assert!(!answer.message().is_empty());
        }
        if expected == StatusCode::PAYLOAD_TOO_LARGE {
            assert!(
                answer.message().contains("`body_bytes_max`"),
                "{encoding:?}: {}",
                answer.message()
            );
        }
    };
    check(body(9_000), None, StatusCode::CREATED).await;
    check(body(11_000), None, StatusCode::PAYLOAD_TOO_LARGE).await;
    check(packed(&body(9_000)), Some("gzip"), StatusCode::CREATED).await;
    check(packed(&body(11_000)), Some("gzip"), StatusCode::PAYLOAD_TOO_LARGE).await;
    // 100 MB of spaces in 100 kB: above the limit compressed, and far above it decompressed.
    check(packed(&body(100_000_000)), Some("gzip"), StatusCode::PAYLOAD_TOO_LARGE).await;
    // 8 MB of spaces in 8 kB: only the decompressed body is too large.
    let bomb = packed(&body(8_000_000));
    assert!(bomb.len() < 10_000, "{}", bomb.len());
    check(bomb, Some("gzip"), StatusCode::PAYLOAD_TOO_LARGE).await;
    // A route that reads its own body gives the same error.
    let ask = Ask::json(Method::PATCH, "/v0/projects/own", "").key(key.as_str());
    let answer =
        server.ask(ask.header("content-encoding", "gzip").body(packed(&body(8_000_000)))).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE, "{}", answer.body);
    assert!(answer.message().contains("`body_bytes_max`"), "{}", answer.message());
    check(body(10), Some("br"), StatusCode::UNSUPPORTED_MEDIA_TYPE).await;
    check(body(10), Some("gzip"), StatusCode::BAD_REQUEST).await;
    check(b"{\"name\": 1}".to_vec(), None, StatusCode::UNPROCESSABLE_ENTITY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_beyond_the_queue_are_refused_and_nothing_of_them_stays() {
    let server = Server::new();
    let project = server.project("own", Visibility::Public);
    let owner = KeyOwner::User(server.user("ada", Role::Member).id);
    let (key, _) = server.key(owner, Duration::hours(1));
    let (go_on, wait) = std::sync::mpsc::channel::<()>();
    let (begin, begun) = tokio::sync::oneshot::channel::<()>();
    let app = server.app.clone();
    let stuck = tokio::spawn(async move {
        let stuck = move |_: &mut Database| {
            begin.send(()).expect("the test waits");
            // Until the test sends, or ends.
            let _ = wait.recv();
            Ok::<_, StorageError>(())
        };
        app.storage.write(stuck).await
    });
    begun.await.expect("begun");
    let mut asked = JoinSet::new();
    for n in 0..400 {
        let ask =
            Ask::json(Method::POST, "/v0/projects/own/keys", &format!("{{\"name\": \"{n}\"}}"));
        let (router, ask) = (server.router.clone(), ask.key(key.as_str()));
        asked.spawn(async move { (n.to_string(), send(&router, ask).await) });
    }
    let mut written = Vec::new();
    let mut refused = 0;
    while let Some(answered) = asked.join_next().await {
        let (name, answer) = answered.expect("no panic");
        match answer.status {
            StatusCode::CREATED => written.push(name),
            StatusCode::SERVICE_UNAVAILABLE => {
                refused += 1;
                assert_eq!(answer.header("retry-after"), "1");
                assert!(answer.message().contains("try again"));
                // The queue holds 256 jobs.
                if refused == 144 {
                    go_on.send(()).expect("it waits");
                }
            }
            status => panic!("{status}: {}", answer.body),
        }
    }
    stuck.await.expect("no panic").expect("done");
    assert_eq!((written.len(), refused), (256, 144));
    written.sort();
    let keys = server
        .kept
        .database(|database| database.keys(KeyOwner::Project(project.id)))
        .expect("read");
    let mut kept: Vec<_> = keys.into_iter().map(|key| key.name).collect();
    kept.sort();
    assert_eq!(kept, written);
}

#[tokio::test]
async fn metrics_are_for_users() {
    let server = Server::new();
    let owner = KeyOwner::User(server.user("monitoring", Role::Reader).id);
    let (key, _) = server.key(owner, Duration::hours(1));
    assert_eq!(server.ask(Ask::get("/metrics")).await.status, StatusCode::UNAUTHORIZED);
    server.ask(Ask::get("/auth/invite/secret-token")).await;
    let metrics = server.ask(Ask::get("/metrics").key(key.as_str())).await;
    assert_eq!(metrics.status, StatusCode::OK);
    let line = "wingbeat_http_requests_total{method=\"GET\",route=\"/auth/invite/{token}\",status=\"404\"} 1";
    assert!(metrics.body.contains(line), "{}", metrics.body);
    assert!(!metrics.body.contains("secret-token"));
    for name in
        ["wingbeat_write_queue_length", "wingbeat_database_bytes", "process_resident_memory_bytes"]
    {
        assert!(metrics.body.lines().any(|line| line.starts_with(&format!("{name} "))), "{name}");
    }
}
