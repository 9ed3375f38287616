//! Each protocol's request, as seen by a server.

use std::{sync::Arc, time::Duration};

use wingbeat_agent::{Credentials, Kind, Pusher, Series, Target, Window, encode};
use wingbeat_pprof::{
    pprof::{Strings, pack},
    proto::{Profile, Sample, ValueType},
};

use crate::{
    backend::{Backend, Reaction, Received},
    push::{PATIENCE, check_sum, quick},
    windows::{at, labels},
};

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
fn pushed(protocol: &str, headers: &'static str, body: &[u8]) -> Received {
    let body = body.to_vec();
    let backend = Backend::start(move |_| Reaction::Answer(200, headers, body.clone()));
    let target: Target = format!("{protocol}={}/below/", backend.url()).parse().expect("a target");
    let credentials = Credentials::default().with_token("secret").expect("a token");
    let credentials = credentials.with_tenant("team").expect("a tenant");
    let pusher = Pusher::start(&target, credentials, quick()).expect("a pusher");
    assert!(!format!("{pusher:?} {target:?} {target}").contains("secret"));
    pusher.offer(&window());
    let counts = pusher.finish(PATIENCE);
    check_sum(&counts);
    assert_eq!(counts.pushed, 1, "{counts:?}");
    let received = backend.received().remove(0);
    assert_eq!(received.body, encode(&target, &window()).expect("encoded").body);
    received
}

#[track_caller]
fn check_head(received: &Received, path: &str, headers: &[&str]) {
    let lines: Vec<_> = received.head.lines().collect();
    assert_eq!(lines[0], format!("post /below{} http/1.1", path.to_ascii_lowercase()));
    for header in headers.iter().chain(&["authorization: bearer secret", "x-scope-orgid: team"]) {
        assert!(lines.contains(header), "{header} in {lines:?}");
    }
}

#[test]
fn pyroscope() {
    let received = pushed("pyroscope", "content-type: application/proto\r\n", b"");
    let headers = ["content-type: application/proto", "connect-protocol-version: 1"];
    check_head(&received, "/push.v1.PusherService/Push", &headers);
    let ours = pushed("wingbeat", "content-type: application/proto\r\n", b"");
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
