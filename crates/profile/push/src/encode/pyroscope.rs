//! Pyroscope's `push.v1.PusherService/Push`, called as Connect does over HTTP: a POST with the message as its body.
//!
//! Names and numbers: <https://github.com/grafana/pyroscope/blob/main/api/push/v1/push.proto> and
//! `api/types/v1/types.proto` beside it.

use prost::Message;

use super::{Request, labels};
use crate::window::{Series, Window};

#[derive(Clone, PartialEq, Message)]
struct PushRequest {
    #[prost(message, repeated, tag = "1")]
    series: Vec<RawProfileSeries>,
}

#[derive(Clone, PartialEq, Message)]
struct RawProfileSeries {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<LabelPair>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<RawSample>,
}

#[derive(Clone, PartialEq, Message)]
struct LabelPair {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct RawSample {
    #[prost(bytes = "vec", tag = "1")]
    raw_profile: Vec<u8>,
    /// A UUID.
    #[prost(string, tag = "2")]
    id: String,
}

pub(super) fn request(window: &Window) -> Request {
    let series = window.series.iter().map(|series| raw(window, series)).collect();
    Request {
        path: "/push.v1.PusherService/Push",
        headers: vec![("content-type", "application/proto"), ("connect-protocol-version", "1")],
        body: PushRequest { series }.encode_to_vec(),
    }
}

fn raw(window: &Window, series: &Series) -> RawProfileSeries {
    let labels = labels(series).into_iter().map(|(name, value)| LabelPair { name, value });
    let id = series.id(window.start).to_string();
    let samples = vec![RawSample { raw_profile: series.pprof.clone(), id }];
    RawProfileSeries { labels: labels.collect(), samples }
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
    fn a_window_becomes_a_request() {
        let labels = BTreeMap::from([("service_name".to_owned(), "web".to_owned())]);
        let series = Series { kind: Kind::OffCpu, labels, pprof: b"pprof".to_vec() };
        let series = vec![series.clone(), Series { kind: Kind::Cpu, ..series }];
        let window = Window { start: UNIX_EPOCH, duration: Duration::from_secs(1), series };
        let request = request(&window);
        let message = PushRequest::decode(request.body.as_slice()).expect("a message");
        let names: Vec<_> = message.series.iter().map(|it| it.labels[0].value.as_str()).collect();
        assert_eq!(names, ["off_cpu", "process_cpu"]);
        assert_eq!(message.series[0].samples[0].raw_profile, b"pprof");
        assert_ne!(message.series[0].samples[0].id, message.series[1].samples[0].id);
        // Field 1 of the request, then field 1 of the series, field 1 of the label.
        assert_eq!(request.body[0], 0x0a);
        assert!(request.body.windows(10).any(|at| at == b"\x0a\x08__name__"));
    }
}
