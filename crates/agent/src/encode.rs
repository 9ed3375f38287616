//! Encodes a window as a request of a backend's protocol. Pure: equal windows give equal bytes.

mod otlp;

use std::collections::BTreeMap;

use prost::Message;
use wingbeat_pprof::pyroscope::{LabelPair, PushRequest, RawProfileSeries, RawSample};

use crate::{
    target::{Protocol, Target},
    window::{Series, Window},
};

/// An unsent POST request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Path below the target's root, with a leading slash.
    pub path: &'static str,
    /// Excluding credentials.
    pub headers: Vec<(&'static str, &'static str)>,
    pub body: Vec<u8>,
}

/// Creates the request that pushes a window to a target.
///
/// Series with the same start, kind, labels and profile have the same identifier in each request.
pub fn encode(target: &Target, window: &Window) -> anyhow::Result<Request> {
    match target.protocol() {
        Protocol::Pyroscope | Protocol::Wingbeat => Ok(pyroscope(window)),
        Protocol::Otlp => otlp::request(window),
        Protocol::Parca => Ok(parca(window)),
    }
}

/// The sorted labels of a series for Pyroscope and Parca: with the kind as `__name__`, with a service, and without
/// empty values, which they treat as absent.
fn labels(series: &Series) -> BTreeMap<String, String> {
    let filled = series.labels.iter().filter(|(_, value)| !value.is_empty());
    let mut labels: BTreeMap<_, _> =
        filled.map(|(name, value)| (legal(name), value.clone())).collect();
    labels.entry("service_name".to_owned()).or_insert_with(|| series.service().to_owned());
    labels.insert("__name__".to_owned(), series.kind.name().to_owned());
    labels
}

/// Converts to a valid Prometheus name: `[a-zA-Z_][a-zA-Z0-9_]*`.
fn legal(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = name.chars().map(plain).collect();
    match name.starts_with(|c: char| c.is_ascii_digit()) || name.is_empty() {
        true => format!("_{name}"),
        false => name,
    }
}

/// Pyroscope's `push.v1.PusherService/Push`.
fn pyroscope(window: &Window) -> Request {
    let raw = |series: &Series| {
        let labels = labels(series).into_iter().map(|(name, value)| LabelPair { name, value });
        let id = series.id(window.start).to_string();
        let samples = vec![RawSample { raw_profile: series.pprof.clone(), id }];
        RawProfileSeries { labels: labels.collect(), samples }
    };
    let series = window.series.iter().map(raw).collect();
    Request {
        path: "/push.v1.PusherService/Push",
        headers: vec![("content-type", "application/proto"), ("connect-protocol-version", "1")],
        body: PushRequest { series }.encode_to_vec(),
    }
}

/// Flags and length of a frame of gRPC-Web.
const FRAME_HEAD_BYTES: usize = 5;

/// Parca's `ProfileStoreService/WriteRaw`, called by gRPC-Web.
///
/// `profilestore.proto` gives the call a JSON path, `/profiles/writeraw`. But Parca mounts that gateway at `/api`
/// without stripping the prefix (`pkg/server/server.go`, `r.Mount("/api", grpcWebMux)`), so neither path works,
/// and its web UI responds with 200 to any other path. Its own pages use gRPC-Web: HTTP/1.1, no base64, and a
/// response that says whether the profile was accepted.
fn parca(window: &Window) -> Request {
    let raw = |series: &Series| ParcaSeries {
        labels: Some(ParcaLabels {
            labels: labels(series)
                .into_iter()
                .map(|(name, value)| LabelPair { name, value })
                .collect(),
        }),
        samples: vec![ParcaSample { raw_profile: series.pprof.clone() }],
    };
    let message =
        WriteRawRequest { series: window.series.iter().map(raw).collect(), normalized: true };
    let mut body = vec![0; FRAME_HEAD_BYTES];
    body.extend_from_slice(&message.encode_to_vec());
    let length = u32::try_from(body.len() - FRAME_HEAD_BYTES).unwrap_or(u32::MAX);
    body[1..FRAME_HEAD_BYTES].copy_from_slice(&length.to_be_bytes());
    Request {
        path: "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw",
        headers: vec![
            ("content-type", "application/grpc-web+proto"),
            ("accept", "application/grpc-web+proto"),
            ("x-grpc-web", "1"),
        ],
        body,
    }
}

/// Names and numbers of `proto/parca/profilestore/v1alpha1/profilestore.proto` in
/// <https://github.com/parca-dev/parca>. Its labels are Pyroscope's.
#[derive(Clone, PartialEq, Message)]
struct WriteRawRequest {
    #[prost(message, repeated, tag = "2")]
    series: Vec<ParcaSeries>,
    /// Whether addresses are relative to the file and not to the process.
    #[prost(bool, tag = "3")]
    normalized: bool,
}

#[derive(Clone, PartialEq, Message)]
struct ParcaSeries {
    #[prost(message, optional, tag = "1")]
    labels: Option<ParcaLabels>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<ParcaSample>,
}

#[derive(Clone, PartialEq, Message)]
struct ParcaLabels {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<LabelPair>,
}

#[derive(Clone, PartialEq, Message)]
struct ParcaSample {
    #[prost(bytes = "vec", tag = "1")]
    raw_profile: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::window::Kind;

    #[test]
    fn labels_are_legal_and_complete() {
        let check = |given: &[(&str, &str)], expected: &[(&str, &str)]| {
            let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            let labels = given.iter().map(owned).collect();
            let series = Series { kind: Kind::Pages, labels, pprof: Vec::new() };
            let made: Vec<_> = super::labels(&series).into_iter().collect();
            assert_eq!(made, expected.iter().map(owned).collect::<Vec<_>>());
        };
        let unknown = ("service_name", "unknown_service");
        check(&[], &[("__name__", "memory"), unknown]);
        check(
            &[("service_name", "web"), ("container_id", "")],
            &[("__name__", "memory"), ("service_name", "web")],
        );
        check(
            &[("1.a-ä", "x"), ("__name__", "mine"), ("process_executable_name", "sh")],
            &[
                ("_1_a__", "x"),
                ("__name__", "memory"),
                ("process_executable_name", "sh"),
                ("service_name", "sh"),
            ],
        );
    }

    #[test]
    fn a_window_becomes_a_request_of_pyroscope() {
        let labels = BTreeMap::from([("service_name".to_owned(), "web".to_owned())]);
        let series = Series { kind: Kind::OffCpu, labels, pprof: b"pprof".to_vec() };
        let series = vec![series.clone(), Series { kind: Kind::Cpu, ..series }];
        let window = Window { start: UNIX_EPOCH, duration: Duration::from_secs(1), series };
        let request = pyroscope(&window);
        let message = PushRequest::decode(request.body.as_slice()).expect("a message");
        let names: Vec<_> = message.series.iter().map(|it| it.labels[0].value.as_str()).collect();
        assert_eq!(names, ["off_cpu", "process_cpu"]);
        assert_eq!(message.series[0].samples[0].raw_profile, b"pprof");
        assert_ne!(message.series[0].samples[0].id, message.series[1].samples[0].id);
        // Field 1 of the request, field 1 of the series, field 1 of the label.
        assert_eq!(request.body[0], 0x0a);
        assert!(request.body.windows(10).any(|at| at == b"\x0a\x08__name__"));
    }

    #[test]
    fn a_window_becomes_a_frame_of_parca() {
        let series =
            vec![Series { kind: Kind::Cpu, labels: BTreeMap::new(), pprof: b"pprof".to_vec() }];
        let window = Window { start: UNIX_EPOCH, duration: Duration::from_secs(1), series };
        let request = parca(&window);
        let (head, rest) = request.body.split_at(FRAME_HEAD_BYTES);
        assert_eq!(head, [&[0][..], &(rest.len() as u32).to_be_bytes()].concat());
        let message = WriteRawRequest::decode(rest).expect("a message");
        assert!(message.normalized);
        assert_eq!(message.series[0].samples[0].raw_profile, b"pprof");
        let labels = message.series[0].labels.clone().expect("labels").labels;
        let names: Vec<_> = labels.iter().map(|label| label.name.as_str()).collect();
        assert_eq!(names, ["__name__", "service_name"]);
    }
}
