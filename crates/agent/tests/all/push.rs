//! Each window arrives once, or is counted, whatever the backend does.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use wingbeat_agent::{
    Counts, Credentials, Kind, PushOptions, Pusher, Series, Target, Window, encode,
};
use wingbeat_pprof::{
    pprof::{Strings, pack},
    proto::{Profile, Sample, ValueType},
};

use wingbeat_http::testing::{Asked, Reply, Server};

use crate::backend::{PROTO, at, hang, is_taken, labels, numbered, status, taken, wait_for};

/// Longer than any test takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Pauses short enough for tests.
pub(crate) fn quick() -> PushOptions {
    PushOptions {
        pause_min: Duration::from_millis(4),
        pause_max: Duration::from_millis(16),
        ..PushOptions::default()
    }
}

pub(crate) fn start(url: &str, options: PushOptions) -> Pusher {
    let target = format!("pyroscope={url}").parse().expect("a target");
    Pusher::start(&target, Credentials::default(), options).expect("a pusher")
}

/// Every lost window is counted.
#[track_caller]
pub(crate) fn check_sum(counts: &Counts) {
    let settled = counts.pushed + counts.rejected + counts.dropped + counts.damaged;
    assert_eq!(counts.offered + counts.restored, settled + counts.waiting, "{counts:?}");
}

/// Offers this many windows, and waits until they have arrived.
fn all_pushed(backend: &Server, windows: u64, options: PushOptions) -> Counts {
    let pusher = start(&backend.url, options);
    for number in 0..windows {
        pusher.offer(&numbered(number, 500));
    }
    let counts = pusher.finish(PATIENCE);
    check_sum(&counts);
    assert_eq!(taken(backend), (0..windows).collect::<Vec<_>>(), "{counts:?}");
    assert_eq!((counts.offered, counts.pushed, counts.waiting), (windows, windows, 0));
    counts
}

#[test]
fn transient_failures_are_retried() {
    let check = |reactions: &[Reply], retries, reason: &str| {
        let script = reactions.to_vec();
        let backend = Server::start(move |_, request| {
            script.get(request).cloned().unwrap_or_else(|| status(200))
        });
        let counts = all_pushed(&backend, 5, quick());
        assert_eq!(counts.retries, retries, "{reactions:?}");
        let last_error = counts.last_error.unwrap_or_default();
        assert!(last_error.contains(reason), "{last_error}");
        assert_eq!(last_error.is_empty(), reason.is_empty());
    };
    check(&[], 0, "");
    check(&[status(202), status(204)], 0, "");
    check(&[status(500)], 1, "status 500");
    check(&[status(408), status(200), status(502), status(503)], 3, "status 503");
    check(&[status(200), Reply::CutRequest], 1, "did not accept a window: ");
    check(
        &[Reply::Cut(vec![b'.'; 100], 4), Reply::Cut(vec![b'.'; 100], 4)],
        2,
        "did not accept a window: ",
    );
    check(&[Reply::answer(429, "retry-after: 0\r\n", b"slower".to_vec())], 1, "slower");
}

#[test]
fn a_silent_backend_times_out() {
    let backend = Server::start(|_, request| match request {
        1 => hang(),
        _ => status(200),
    });
    let counts =
        all_pushed(&backend, 3, PushOptions { request_timeout: Duration::from_secs(2), ..quick() });
    assert!(counts.retries >= 1);
    assert!(counts.last_error.expect("a reason").contains("no answer came in time"));
}

#[test]
fn a_demanded_pause_is_respected() {
    let check = |refusal, header| {
        let backend = Server::start(move |_, request| match request {
            0 => Reply::answer(refusal, header, Vec::new()),
            _ => status(200),
        });
        all_pushed(&backend, 2, quick());
        let received = backend.asked();
        let pause = received[1].at - received[0].at;
        assert!(pause >= Duration::from_millis(990), "{pause:?}");
    };
    check(429, "Retry-After: 1\r\n");
    check(503, "retry-after: 1\r\n");
}

#[test]
fn refused_windows_are_counted_with_a_reason() {
    let check = |reaction: Reply, reason: &str| {
        let script = reaction.clone();
        let backend = Server::start(move |_, request| match request {
            1 => script.clone(),
            _ => status(200),
        });
        let pusher = start(&backend.url, quick());
        (0..4).for_each(|number| pusher.offer(&numbered(number, 500)));
        let counts = pusher.finish(PATIENCE);
        check_sum(&counts);
        assert_eq!((counts.pushed, counts.rejected, counts.retries), (3, 1, 0), "{reaction:?}");
        let last_error = counts.last_error.expect("a reason");
        assert!(last_error.contains(reason), "{last_error}");
        assert!(last_error.starts_with("pyroscope=http://127.0.0.1:"), "{last_error}");
        assert_eq!(backend.asked().len(), 4, "not again");
    };
    let json = br#"{"code": "invalid_argument", "message": "no labels"}"#.to_vec();
    check(Reply::answer(400, "", json), "refused a window: status 400: no labels");
    check(status(401), "give a valid token");
    check(status(404), "is the address the root of its API?");
    check(
        Reply::answer(307, "location: http://other/\r\n", Vec::new()),
        "redirects to http://other/",
    );
    let page = Reply::answer(200, "content-type: text/html\r\n", b"<html>".to_vec());
    check(page, "an HTML page");
}

#[test]
fn no_window_is_lost_in_a_storm() {
    let backend = Server::start(|_, request| match request * 7 % 11 {
        0 => Reply::CutRequest,
        1 => status(500),
        2 => Reply::Cut(vec![b'.'; 100], 4),
        3 => Reply::answer(429, "retry-after: 0\r\n", Vec::new()),
        4 => {
            thread::sleep(Duration::from_millis(5));
            status(200)
        }
        _ => status(200),
    });
    let folder = tempfile::tempdir().expect("a folder");
    let options = PushOptions { folder: Some(folder.path().to_owned()), ..quick() };
    let counts = all_pushed(&backend, 60, options);
    assert!(counts.retries > 10, "{counts:?}");
    // Repeated pushes have the same identifier.
    for pair in backend.asked().windows(2).filter(|pair| !is_taken(&pair[0])) {
        assert_eq!(pair[0].body, pair[1].body);
    }
}

#[test]
fn offers_never_wait() {
    let backend = Server::start(|_, _| hang());
    let folder = tempfile::tempdir().expect("a folder");
    let bytes_max = 100_000;
    let folder = Some(folder.path().to_owned());
    let pusher = start(&backend.url, PushOptions { folder, bytes_max, ..quick() });
    pusher.offer(&numbered(0, 900));
    wait_for(&backend, 1);
    // The request hangs for half a minute.
    let begin = Instant::now();
    (1..2_000).for_each(|number| pusher.offer(&numbered(number, 900)));
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    let counts = pusher.counts();
    check_sum(&counts);
    assert!(counts.waiting_bytes <= bytes_max + 2_000, "{counts:?}");
    assert!(counts.dropped > 1_800, "{counts:?}");

    let begin = Instant::now();
    let counts = pusher.finish(Duration::from_millis(50));
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    check_sum(&counts);
    assert_eq!((counts.offered, counts.pushed), (2_000, 0));
    assert!(counts.waiting > 50 && counts.waiting_bytes <= bytes_max, "{counts:?}");
}

#[test]
fn dropped_windows_have_a_reason() {
    let check = |bytes_max, reason: Option<&str>| {
        let backend = Server::start(|_, _| hang());
        let pusher = start(&backend.url, PushOptions { bytes_max, ..quick() });
        pusher.offer(&numbered(0, 900));
        wait_for(&backend, 1);
        (1..5).for_each(|number| pusher.offer(&numbered(number, 900)));
        assert_eq!(pusher.counts().last_error.as_deref(), reason);
        let counts = pusher.finish(Duration::ZERO);
        check_sum(&counts);
        assert_eq!((counts.dropped, counts.waiting), (5, 0), "{counts:?}");
        let reason = counts.last_error.expect("a reason");
        assert_eq!(reason, "it had not answered when the agent stopped");
    };
    check(1 << 20, None);
    check(
        3_000,
        Some("it accepts windows more slowly than they are recorded, and the queue is full"),
    );
}

#[test]
fn the_end_does_not_wait_for_a_long_pause() {
    let backend = Server::start(|_, request| status(if request == 0 { 500 } else { 200 }));
    let minute = Duration::from_secs(60);
    let options = PushOptions { pause_min: minute, pause_max: minute, ..quick() };
    let pusher = start(&backend.url, options);
    (0..3).for_each(|number| pusher.offer(&numbered(number, 500)));
    while pusher.counts().retries == 0 {
        thread::sleep(Duration::from_millis(2));
    }
    let begin = Instant::now();
    let counts = pusher.finish(PATIENCE);
    check_sum(&counts);
    assert_eq!((counts.pushed, counts.retries), (3, 1));
    assert!(begin.elapsed() < minute / 3, "{:?}", begin.elapsed());
}

#[test]
fn empty_windows_are_not_sent_and_large_ones_in_parts() {
    let backend = Server::start(|_, _| status(200));
    let pusher = start(&backend.url, quick());
    let large = numbered(7, 1_500_000);
    let mut window = (*large).clone();
    window.series.clear();
    pusher.offer(&Arc::new(window.clone()));
    window.series = vec![large.series[0].clone(); 3];
    pusher.offer(&Arc::new(window));
    let counts = pusher.finish(PATIENCE);
    check_sum(&counts);
    assert_eq!((counts.offered, counts.pushed), (3, 3));
    assert_eq!(taken(&backend), [7, 7, 7]);
}

// Each protocol's request, as seen by a server.

fn window() -> Arc<Window> {
    let mut strings = Strings::default();
    let r#type =
        ValueType { r#type: strings.number("off_cpu"), unit: strings.number("nanoseconds") };
    let message = Profile {
        sample_type: vec![r#type],
        sample: vec![Sample { value: vec![5], ..Sample::default() }],
        string_table: strings.into_table(),
        ..Profile::default()
    };
    let mut pprof = Vec::new();
    pack(&message, &mut pprof).expect("packed");
    let labels = labels(&[("service_name", "web"), ("host_name", "here")]);
    let series = vec![Series { kind: Kind::OffCpu, labels, pprof }];
    Arc::new(Window { start: at(0), duration: Duration::from_secs(15), series })
}

/// Pushes a window to a server with this response, below a path.
fn pushed(protocol: &str, headers: &'static str, body: &[u8]) -> Asked {
    let body = body.to_vec();
    let backend = Server::start(move |_, _| Reply::answer(200, headers, body.clone()));
    let target: Target = format!("{protocol}={}/below/", backend.url).parse().expect("a target");
    let credentials = Credentials::default().with_token("secret").expect("a token");
    let credentials = credentials.with_tenant("team").expect("a tenant");
    let pusher = Pusher::start(&target, credentials, quick()).expect("a pusher");
    assert!(!format!("{pusher:?} {target:?} {target}").contains("secret"));
    pusher.offer(&window());
    let counts = pusher.finish(PATIENCE);
    check_sum(&counts);
    assert_eq!(counts.pushed, 1, "{counts:?}");
    let received = backend.asked().remove(0);
    assert_eq!(received.body, encode(&target, &window()).expect("encoded").body);
    received
}

#[track_caller]
fn check_head(received: &Asked, path: &str, headers: &[&str]) {
    assert_eq!(received.line, format!("POST /below{path}"));
    let ours = ["authorization: Bearer secret", "x-scope-orgid: team"];
    for header in headers.iter().chain(&ours) {
        let (name, value) = header.split_once(": ").expect("a header");
        assert_eq!(received.header(name), Some(value));
    }
}

#[test]
fn pyroscope() {
    let received = pushed("pyroscope", PROTO, b"");
    let headers = ["content-type: application/proto", "connect-protocol-version: 1"];
    check_head(&received, "/push.v1.PusherService/Push", &headers);
    let ours = pushed("wingbeat", PROTO, b"");
    check_head(&ours, "/push.v1.PusherService/Push", &headers);
    assert_eq!(ours.body, received.body);
}

#[test]
fn opentelemetry() {
    let received = pushed("otlp", "content-type: application/x-protobuf\r\n", b"");
    let headers = ["content-type: application/x-protobuf", "content-encoding: gzip"];
    check_head(&received, "/v1development/profiles", &headers);
}

#[test]
fn parca() {
    let trailer = b"\0\0\0\0\0\x80\0\0\0\x10grpc-status: 0\r\n";
    let received = pushed("parca", "content-type: application/grpc-web+proto\r\n", trailer);
    let path = "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw";
    check_head(&received, path, &["content-type: application/grpc-web+proto", "x-grpc-web: 1"]);
}
