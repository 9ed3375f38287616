//! Encodes a window as a request of a backend's protocol. Pure: equal windows give equal bytes.

mod otlp;
mod otlp_proto;
mod parca;
pub mod pyroscope;

use std::collections::BTreeMap;

use wingbeat_pprof::pprof::{Dangling, UnpackError};

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

/// Why a window cannot be encoded.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    #[error("the profile of {service} cannot be converted: it {reason}")]
    Unpack { service: String, reason: UnpackError },
    #[error("the profile of {service} cannot be converted: it is no pprof profile ({reason})")]
    Decode { service: String, reason: prost::DecodeError },
    #[error("the profile of {service} cannot be converted: {reason}")]
    Dangling { service: String, reason: Dangling },
    #[error("the profiles cannot be packed: {0}")]
    Pack(#[from] std::io::Error),
}

/// Creates the request that pushes a window to a target.
///
/// Series with the same start, kind, labels and profile have the same identifier in each request.
pub fn encode(target: &Target, window: &Window) -> Result<Request, EncodeError> {
    match target.protocol() {
        Protocol::Pyroscope | Protocol::Wingbeat => Ok(pyroscope::request(window)),
        Protocol::Otlp => otlp::request(window),
        Protocol::Parca => Ok(parca::request(window)),
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

#[cfg(test)]
mod tests {
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
}
