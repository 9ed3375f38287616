//! pprof profiles, packed or not: any bytes. Bytes that are text are collapsed stacks.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wingbeat_pprof::{Metric, Side, compare};
use wingbeat_profiler::diff::functions;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(side) = Side::read("earlier", bytes) {
        let metric = Metric { before: 10.0, after: 20.0, before_sd: 0.1, after_sd: 0.1 };
        let found = compare(&side, &side, metric).expect("a profile is comparable with itself");
        let sum: f64 = found.blame.iter().map(|(_, change)| change.difference()).sum();
        assert!((sum - 10.0).abs() < 1e-6, "{sum}");
    }
    let Ok((explanation, _)) = functions([("fuzz.pb.gz", bytes), ("fuzz.pb.gz", bytes)]) else {
        return;
    };
    assert!(explanation.whole().after > 0.0);
});
