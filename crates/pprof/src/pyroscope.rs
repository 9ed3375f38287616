//! The message of Pyroscope's `push.v1.PusherService/Push`, in protobuf and JSON. The call is Connect over HTTP: a POST
//! with the message as its body.
//!
//! Names and numbers: <https://github.com/grafana/pyroscope/blob/main/api/push/v1/push.proto> and
//! `api/types/v1/types.proto` in the same repository.

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use prost::Message;
use serde::{Deserialize, Deserializer};

/// Profiles of several label sets.
#[derive(Clone, PartialEq, Message, Deserialize)]
pub struct PushRequest {
    #[prost(message, repeated, tag = "1")]
    #[serde(default)]
    pub series: Vec<RawProfileSeries>,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default)]
pub struct RawProfileSeries {
    #[prost(message, repeated, tag = "1")]
    pub labels: Vec<LabelPair>,
    #[prost(message, repeated, tag = "2")]
    pub samples: Vec<RawSample>,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default)]
pub struct LabelPair {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
pub struct RawSample {
    /// A profile in pprof's format, gzip'd or not.
    #[prost(bytes = "vec", tag = "1")]
    #[serde(default, rename = "rawProfile", alias = "raw_profile", deserialize_with = "bytes")]
    pub raw_profile: Vec<u8>,
    /// A UUID, which stays the same if a profile is sent again.
    #[prost(string, tag = "2")]
    #[serde(default, rename = "ID")]
    pub id: String,
}

/// Parses bytes from protobuf's JSON: base64 of either alphabet, with or without padding.
fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let is_safe = text.contains(['-', '_']);
    let alphabet = if is_safe { &alphabet::URL_SAFE } else { &alphabet::STANDARD };
    let config =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    GeneralPurpose::new(alphabet, config).decode(&text).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_in_json_are_read() {
        let check = |raw: &str, id: &str, expected: &[u8]| {
            let text = format!(
                r#"{{"series":[{{"labels":[{{"name":"a","value":"b"}}],"samples":[{{{raw},"{id}":"x"}}]}}]}}"#
            );
            let message: PushRequest = serde_json::from_str(&text).expect("a message");
            assert_eq!(message.series[0].labels[0].value, "b");
            assert_eq!(message.series[0].samples[0].raw_profile, expected);
            assert_eq!(message.series[0].samples[0].id, "x");
        };
        check(r#""rawProfile":"+/8=""#, "ID", &[0xfb, 0xff]);
        check(r#""raw_profile":"-_8""#, "ID", &[0xfb, 0xff]);
        assert!(serde_json::from_str::<PushRequest>("{}").expect("empty").series.is_empty());
        let wrong = r#"{"series":[{"samples":[{"rawProfile":"?"}]}]}"#;
        serde_json::from_str::<PushRequest>(wrong).expect_err("no base64");
    }
}
