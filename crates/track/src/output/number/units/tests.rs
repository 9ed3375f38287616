//! Values of all sizes in units of all kinds.

use super::*;
use crate::model::Direction;

fn custom(units: &str, kind: Kind) -> Measure {
    Measure::custom("thing", units.to_owned(), Direction::Unknown, kind)
}

#[test]
fn units_are_scaled() {
    let check = |slug: &str, value, expected| {
        assert_eq!(Units::of(&Measure::named(slug)).format(value), expected, "{slug} {value}");
    };
    check("latency", 0.0, "0 ns");
    check("latency", 0.25, "250.0 ps");
    check("latency", 63.412, "63.41 ns");
    check("latency", 999.9, "999.9 ns");
    check("latency", 999.96, "1.000 µs");
    check("latency", 12_345.6, "12.35 µs");
    check("latency", -1_234_567.0, "−1.235 ms");
    check("latency", 7.2e12, "7,200 s");
    check("latency", 1e300, "1.000e300 ns");
    check("latency", 1e-300, "1.000e−297 ps");
    check("build-time", 1e-5, "10.00 µs");
    check("build-time", 61.5, "61.50 s");
    check("throughput", 12.0, "12.00 ops/s");
    check("throughput", 2_500_000.0, "2.500 M ops/s");
    check("bytes-per-second", 1_073_741_824.0, "1.000 GiB/s");
    check("file-size", 1_536.0, "1,536 B");
    check("file-size", 52_428_800.0, "50.00 MiB");
    check("instructions", 1234.0, "1,234");
    check("instructions", 12_345_678.0, "12.35 M");
    check("verified-instructions", 212.0, "212");
    check("score", 88.0, "88.00");
    check("score", 42_000.0, "42.00 k");
}

#[test]
fn custom_units() {
    let check = |units: &str, kind, value, expected: &str| {
        assert_eq!(Units::of(&custom(units, kind)).format(value), expected, "{units} {value}");
    };
    check("widgets", Kind::Exact, 3.0, "3 widgets");
    check("widgets", Kind::Noisy, 3e6, "3.000 M widgets");
    check("things", Kind::Exact, 3.0, "3 things");
    check("thing", Kind::Exact, 3.0, "3");
    check("units", Kind::Exact, 3.0, "3");
    check("thing (units)", Kind::Noisy, 3.0, "3.000");
    check("microseconds (us)", Kind::Noisy, 1500.0, "1.500 ms");
    check("clock (Hz)", Kind::Noisy, 3.2e9, "3.200 GHz");
    check("%", Kind::Noisy, 12.5, "12.50 %");
    check("m", Kind::Noisy, 1e300, "1.000e300 m");
    check("m", Kind::Noisy, 1e-300, "1.000e−300 m");
}

#[test]
fn what_differs_looks_different() {
    let check = |measure: &str, value, other, expected: [&str; 2]| {
        let scale = Scale::of(&Measure::named(measure), value, Some(other));
        assert_eq!([scale.with_unit(value), scale.with_unit(other)], expected);
    };
    check("latency", 1000.0, 1010.0, ["1.000 µs", "1.010 µs"]);
    check("latency", 1000.0, 1000.1, ["1.0000 µs", "1.0001 µs"]);
    check("latency", 1500.0, 2e6, ["1.500 µs", "2,000.000 µs"]);
    check("latency", 0.0, 2e6, ["0.000 ms", "2.000 ms"]);
    check("latency", 523.1e6, 12.0, ["523.1 ms", "0.000012 ms"]);
    check("latency", 523.1e6, 0.012, ["523.1 ms", "1.200e−8 ms"]);
    check("file-size", 52_428_800.0, 52_428_801.0, ["52,428,800 B", "52,428,801 B"]);
}

#[test]
fn spreads() {
    let check = |value, lower, upper, expected: &str| {
        let scale = Scale::of(&Measure::latency(), value, None);
        assert_eq!(scale.with_spread(value, (lower, upper)), expected);
    };
    check(1000.0, Some(950.0), Some(1050.0), "1.000 ± 0.050 µs");
    check(1000.0, Some(999.9), Some(1000.1), "1.000 ± 0.0001 µs");
    check(1000.0, Some(1000.0), Some(1000.0), "1.000 ± 0.000 µs");
    check(1000.0, Some(990.0), Some(1300.0), "1.000 (0.990 to 1.300) µs");
    check(1000.0, Some(1001.0), Some(1002.0), "1.000 (1.001 to 1.002) µs");
    check(1000.0, None, Some(1300.0), "1.000 µs");
}

#[test]
fn nothing_panics() {
    let values = [0.0, -0.0, 1e-308, f64::MIN_POSITIVE / 8.0, f64::MAX, -f64::MAX, 999.999_999];
    for measure in ["latency", "build-time", "file-size", "throughput", "x"] {
        let measure = Measure::named(measure);
        for value in values {
            for other in values {
                let scale = Scale::of(&measure, value, Some(other));
                assert!(!scale.with_spread(value, (Some(other), Some(value))).is_empty());
            }
        }
    }
}
