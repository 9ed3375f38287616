//! Callgrind files: any bytes. Parsed counts can be written as a profile, and read back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wingbeat_pprof::{Side, callgrind, exact};

fuzz_target!(|bytes: &[u8]| {
    let Ok(counted) = callgrind::instructions(&String::from_utf8_lossy(bytes)) else { return };
    assert!(counted.iter().all(|it| it.count > 0 && it.frames.len() == 1));
    let pprof = exact::instructions(&counted).expect("memory takes all");
    let total: f64 =
        counted.iter().map(|it| i64::try_from(it.count).unwrap_or(i64::MAX) as f64).sum();
    match Side::read("later", &pprof) {
        Ok(side) => assert!(side.is_exact() && (side.total() - total).abs() <= 1e-9 * total),
        Err(error) => assert!(counted.is_empty(), "{error}"),
    }
});
