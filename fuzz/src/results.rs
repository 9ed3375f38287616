//! Output of benchmark tools, series of values, and rules of the agent.

use std::collections::HashSet;

use wingbeat_agent::Rules;
use wingbeat_track::{adapter::Adapter, model::Average};

use crate::changes::input::{Input, parse};

/// Output of benchmark tools: all adapters on any bytes, and on a file together with printed
/// output. Results must be finite and have unique names.
pub fn adapters(bytes: &[u8]) {
    let (file, printed) = bytes.split_at(bytes.len() / 2);
    for adapter in Adapter::all() {
        if let Ok(results) = adapter.parse_file(file, printed, None) {
            assert!(!results.is_empty());
        }
        for average in [None, Some(Average::Mean), Some(Average::Median)] {
            match adapter.parse(bytes, average) {
                Ok(results) => {
                    assert!(!results.is_empty());
                    let names: HashSet<_> =
                        results.benchmarks.iter().map(|one| &one.name).collect();
                    assert_eq!(names.len(), results.benchmarks.len());
                    let metrics = results.benchmarks.iter().flat_map(|one| &one.metrics);
                    assert!(metrics.clone().all(|(_, metric)| metric.is_finite()));
                    assert!(metrics.count() + results.failures.len() <= bytes.len());
                }
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
    }
}

/// Series in CSV or JSON, as read by `wingbeat changes`: any bytes.
///
/// The parser belongs to the binary, which is not a library, so its file is compiled in here.
pub fn changes_input(bytes: &[u8]) {
    let Ok(Input { series, labels, .. }) = parse(bytes, &[]) else {
        return;
    };
    assert!(!series.is_empty());
    for (at, one) in series.iter().enumerate() {
        assert!(!one.name.is_empty());
        assert!(series.iter().skip(at + 1).all(|other| other.name != one.name));
        assert!(one.values.iter().all(|value| value.is_finite() || value.is_nan()));
        // A value takes at least a byte.
        assert!(one.values.len() <= bytes.len());
        assert!(labels.as_ref().is_none_or(|labels| labels.len() == one.values.len()));
    }
}

/// Rules of the agent: any text gives rules, or a one-line error.
pub fn agent_rules(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match Rules::read(&text) {
        Ok(rules) => assert!(rules.len() <= text.len()),
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
}
