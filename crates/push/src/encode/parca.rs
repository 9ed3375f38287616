//! Parca's `ProfileStoreService/WriteRaw`, called by gRPC-Web.
//!
//! `profilestore.proto` gives the call a JSON path, `/profiles/writeraw`. But Parca mounts that gateway at `/api`
//! without stripping the prefix (`pkg/server/server.go`, `r.Mount("/api", grpcWebMux)`), so neither path works,
//! and its web UI responds with 200 to any other path. Its own pages use gRPC-Web: HTTP/1.1, no base64, and a
//! response that says whether the profile was accepted.
//!
//! Names and numbers: `proto/parca/profilestore/v1alpha1/profilestore.proto` in
//! <https://github.com/parca-dev/parca>.

use prost::Message;

use super::{Request, labels};
use crate::window::{Series, Window};

/// Flags and length of a frame.
const FRAME_HEAD_BYTES: usize = 5;

#[derive(Clone, PartialEq, Message)]
struct WriteRawRequest {
    #[prost(message, repeated, tag = "2")]
    series: Vec<RawProfileSeries>,
    /// Whether addresses are relative to the file and not to the process.
    #[prost(bool, tag = "3")]
    normalized: bool,
}

#[derive(Clone, PartialEq, Message)]
struct RawProfileSeries {
    #[prost(message, optional, tag = "1")]
    labels: Option<LabelSet>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<RawSample>,
}

#[derive(Clone, PartialEq, Message)]
struct LabelSet {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct RawSample {
    #[prost(bytes = "vec", tag = "1")]
    raw_profile: Vec<u8>,
}

pub(super) fn request(window: &Window) -> Request {
    let series = window.series.iter().map(raw).collect();
    let message = WriteRawRequest { series, normalized: true };
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

fn raw(series: &Series) -> RawProfileSeries {
    let labels = labels(series).into_iter().map(|(name, value)| Label { name, value });
    let samples = vec![RawSample { raw_profile: series.pprof.clone() }];
    RawProfileSeries { labels: Some(LabelSet { labels: labels.collect() }), samples }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        time::{Duration, UNIX_EPOCH},
    };

    use super::*;
    use crate::window::Kind;

    #[test]
    fn a_window_becomes_a_frame() {
        let series =
            vec![Series { kind: Kind::Cpu, labels: BTreeMap::new(), pprof: b"pprof".to_vec() }];
        let window = Window { start: UNIX_EPOCH, duration: Duration::from_secs(1), series };
        let request = request(&window);
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
