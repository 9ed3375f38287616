//! A window as a request of an engine's protocol. Pure: the same window gives the same bytes.

mod otlp;
mod otlp_proto;
mod parca;
pub mod pyroscope;

use std::collections::BTreeMap;

use wingbeat_difference::pprof::{Dangling, UnpackError};

use crate::{
    target::{Protocol, Target},
    window::{Series, Window},
};

/// A POST that has not been sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Below the target's root; begins with a slash.
    pub path: &'static str,
    /// Without those that carry credentials.
    pub headers: Vec<(&'static str, &'static str)>,
    pub body: Vec<u8>,
}

/// Why a window cannot be put into the words of a protocol.
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

/// The request that hands a window to a target.
///
/// Series of the same start, kind, labels and profile have the same identifier in each request.
pub fn encode(target: &Target, window: &Window) -> Result<Request, EncodeError> {
    match target.protocol() {
        Protocol::Pyroscope | Protocol::Wingbeat => Ok(pyroscope::request(window)),
        Protocol::Otlp => otlp::request(window),
        Protocol::Parca => Ok(parca::request(window)),
    }
}

/// The labels of a series as Pyroscope and Parca want them, sorted: with the kind's name as `__name__`, with a service,
/// and without empty ones, which mean nothing to them.
fn labels(series: &Series) -> BTreeMap<String, String> {
    let filled = series.labels.iter().filter(|(_, value)| !value.is_empty());
    let mut labels: BTreeMap<_, _> =
        filled.map(|(name, value)| (legal(name), value.clone())).collect();
    labels.entry("service_name".to_owned()).or_insert_with(|| series.service().to_owned());
    labels.insert("__name__".to_owned(), series.kind.name().to_owned());
    labels
}

/// A name as Prometheus allows it: `[a-zA-Z_][a-zA-Z0-9_]*`.
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
