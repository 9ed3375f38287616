//! Values of all sizes in all kinds of units.

use super::*;

#[test]
fn units_are_scaled() {
    let check = |symbol, is_exact, value, expected: &str| {
        assert_eq!(Units::new(symbol, is_exact).format(value), expected, "{symbol} {value}");
    };
    check("ns", false, 0.0, "0 ns");
    check("ns", false, 0.25, "250.0 ps");
    check("ns", false, 63.412, "63.41 ns");
    check("ns", false, 999.9, "999.9 ns");
    check("ns", false, 999.96, "1.000 µs");
    check("ns", false, 12_345.6, "12.35 µs");
    check("ns", false, -1_234_567.0, "−1.235 ms");
    check("ns", false, 7.2e12, "7,200 s");
    check("ns", false, 1e300, "1.000e300 ns");
    check("ns", false, 1e-300, "1.000e−297 ps");
    check("s", false, 1e-5, "10.00 µs");
    check("s", false, 61.5, "61.50 s");
    check("ops/s", false, 12.0, "12.00 ops/s");
    check("ops/s", false, 2_500_000.0, "2.500 M ops/s");
    check("B/s", false, 1_073_741_824.0, "1.000 GiB/s");
    check("B", true, 1_536.0, "1,536 B");
    check("B", true, 52_428_800.0, "50.00 MiB");
    check("", true, 1234.0, "1,234");
    check("", true, 12_345_678.0, "12.35 M");
    check("", false, 88.0, "88.00");
    check("", false, 42_000.0, "42.00 k");
    check("widgets", true, 3.0, "3 widgets");
    check("widgets", false, 3e6, "3.000 M widgets");
    check("µs", false, 1500.0, "1.500 ms");
    check("Hz", false, 3.2e9, "3.200 GHz");
    check("%", false, 12.5, "12.50 %");
    check("m", false, 1e300, "1.000e300 m");
    check("m", false, 1e-300, "1.000e−300 m");
}

#[test]
fn what_differs_looks_different() {
    let check = |symbol, value, other, expected: [&str; 2]| {
        let scale = Units::new(symbol, symbol == "B").scale(value, Some(other));
        assert_eq!([scale.with_unit(value), scale.with_unit(other)], expected);
    };
    check("ns", 1000.0, 1010.0, ["1.000 µs", "1.010 µs"]);
    check("ns", 1000.0, 1000.1, ["1.0000 µs", "1.0001 µs"]);
    check("ns", 1500.0, 2e6, ["1.500 µs", "2,000.000 µs"]);
    check("ns", 0.0, 2e6, ["0.000 ms", "2.000 ms"]);
    check("ns", 523.1e6, 12.0, ["523.1 ms", "0.000012 ms"]);
    check("ns", 523.1e6, 0.012, ["523.1 ms", "1.200e−8 ms"]);
    check("B", 52_428_800.0, 52_428_801.0, ["52,428,800 B", "52,428,801 B"]);
}

#[test]
fn spreads() {
    let check = |value, lower, upper, expected: &str| {
        let scale = Units::new("ns", false).scale(value, None);
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
    for symbol in ["ns", "s", "B", "ops/s", "x"] {
        let units = Units::new(symbol, symbol == "B");
        for value in values {
            for other in values {
                let scale = units.scale(value, Some(other));
                assert!(!scale.with_spread(value, (Some(other), Some(value))).is_empty());
            }
        }
    }
}
