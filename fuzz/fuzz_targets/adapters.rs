//! Output of benchmark tools: all adapters on any bytes, and on a file together with printed
//! output. Results must be finite and have unique names.
#![no_main]

use std::collections::HashSet;

use libfuzzer_sys::fuzz_target;
use wingbeat_track::{adapter::Adapter, model::Average};

fuzz_target!(|bytes: &[u8]| {
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
});
