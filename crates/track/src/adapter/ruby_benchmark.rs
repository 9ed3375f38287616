//! Ruby's `benchmark` (`bm`, `bmbm`, `benchmark`) and `benchmark-ips`.

use crate::adapter::prelude::*;

const NS_PER_SECOND: f64 = 1e9;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Table {
    None,
    /// `user system total real`
    Times,
    /// Below `Calculating ---`: iterations per second.
    Rates,
}

pub(super) fn parse(text: &str, _: Option<Average>) -> Parsed {
    let mut results = Results::default();
    let (latency, cpu_time) = (Measure::latency(), Measure::named("cpu-time"));
    let throughput = Measure::throughput();
    let mut table = Table::None;
    for (at, text) in lines(Adapter::RubyBenchmark, text) {
        if text.split_whitespace().eq(["user", "system", "total", "real"]) {
            table = Table::Times;
        } else if text.starts_with("Calculating ---") {
            table = Table::Rates;
        } else if table == Table::Times {
            match times(text) {
                // `x.report` without a label has no name.
                Some(("", _, _)) => {}
                Some((name, cpu_ns, real_ns)) => {
                    let benchmark = at.benchmark(&mut results, name)?;
                    benchmark.expect_metrics(2);
                    benchmark.add(&latency, Metric::new(real_ns))?;
                    benchmark.add(&cpu_time, Metric::new(cpu_ns))?;
                }
                None => table = Table::None,
            }
        } else if table == Table::Rates {
            match rate(text) {
                Some((name, metric)) => {
                    at.benchmark(&mut results, name)?.add(&throughput, metric)?;
                }
                None if text.trim().is_empty() => table = Table::None,
                // The benchmark's own output.
                None => {}
            }
        }
    }
    Ok(results)
}

/// Name, CPU time and real time from `name  0.004187   0.000000   0.004187 (  0.008197)`.
fn times(line: &str) -> Option<(&str, f64, f64)> {
    let (rest, real) = line.trim_end().strip_suffix(')')?.rsplit_once('(')?;
    let real = number(real.trim())?;
    let mut rest = rest.trim_end();
    let mut columns = [0.0; 3];
    for column in columns.iter_mut().rev() {
        let at = rest.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        *column = number(&rest[at..])?;
        rest = rest[..at].trim_end();
    }
    Some((rest.trim_start(), columns[2] * NS_PER_SECOND, real * NS_PER_SECOND))
}

/// Name and rate from `name  13.190M (±13.0%) i/s -  1.376M in  0.106252s`. Newer versions write the time per
/// iteration, `(75.81 ns/i)`, after `i/s`.
fn rate(line: &str) -> Option<(&str, Metric)> {
    let (rest, _) = split_once(line, "%) i/s")?;
    let (rest, percent) = rsplit_once(rest, "(\u{b1}")?;
    let rest = rest.trim_end();
    let at = rest.rfind(char::is_whitespace)?;
    let value = with_prefix(&rest[at + 1..])?;
    let error = value * number(percent.trim())? / 100.0;
    Some((rest[..at].trim(), Metric::new(value).within(value - error, value + error)))
}

/// `13.190M`
fn with_prefix(text: &str) -> Option<f64> {
    match power("kMBTQ", text.chars().last()?) {
        Some(power) => Some(number(&text[..text.len() - 1])? * 1000_f64.powi(power)),
        None => number(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_times() {
        let check = |line, expected| assert_eq!(times(line), expected, "{line:?}");
        check("for:  0.004 0.001   0.005 (  0.5)", Some(("for:", 5e6, 5e8)));
        check("a 1 (b)  0.004 0.001   0.005 (  0.5)", Some(("a 1 (b)", 5e6, 5e8)));
        check("  0.004 0.001   0.005 (  0.5)", Some(("", 5e6, 5e8)));
        check("0.001   0.005 (  0.5)", None);
        check("a 0.004 b   0.005 (  0.5)", None);
    }

    #[test]
    fn rows_of_rates() {
        let check = |line, expected: Option<(&str, f64)>| {
            let found = rate(line).map(|(name, metric)| (name, metric.value));
            assert_eq!(found, expected, "{line:?}");
        };
        check("  a b  13.5M (±13.0%) i/s -      1.376M in   0.106252s", Some(("a b", 13.5e6)));
        check("  sleep  94.5  (± 4.2%) i/s -     18.000  in   0.190147s", Some(("sleep", 94.5)));
        check("  a  1.5k (± 4.2%) i/s  (666.67 μs/i) -  18.0k in 0.19s", Some(("a", 1500.0)));
        check("  a: 13190392.6 i/s", None);
    }
}
