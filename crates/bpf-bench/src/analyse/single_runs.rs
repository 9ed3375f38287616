//! Times of single runs, from the clock around the program.

use wingbeat_stats::{
    bootstrap::Bootstrap,
    interval::Interval,
    sample::{Sample, quantile_of_sorted},
};

use super::{CONFIDENCE, RawRun, clock::Quantiles};
use crate::{
    instrument::wrapper::Recorded,
    result::{Distribution, Part},
};

/// Minimum clocked batches for an interval of their medians.
const CLOCKINGS_MIN: usize = 6;

/// Statistics of a program's single runs and those of its baseline, which may be the same. Without a
/// clock around the program, the reason.
pub(super) fn of(
    run: &RawRun,
    baseline: &RawRun,
    (step, seed): (Option<f64>, u64),
    no_clock: Option<&str>,
) -> Part<Distribution> {
    if let Some(reason) = no_clock {
        return Part::Unavailable(reason.to_owned());
    }
    let recorded = run.recorded.as_ref().filter(|recorded| recorded.count > 0);
    let Some(recorded) = recorded else {
        return Part::Unavailable("the time ran out before single runs were clocked".to_owned());
    };
    let quantiles = match Quantiles::new(recorded, step) {
        Ok(quantiles) => quantiles,
        Err(reason) => return Part::Unavailable(reason),
    };
    let quantile = |q| quantiles.of(q);
    let p50_ns = quantile(0.5);
    let mean_ns = recorded.sum_ns as f64 / recorded.count as f64;
    let plain_ns = Sample::new(run.samples_ns.clone()).map_or(0.0, |sample| sample.median());
    let median_ns = |recorded: &Recorded| Some(Quantiles::new(recorded, step).ok()?.of(0.5));
    let clock_ns = baseline.recorded.as_ref().and_then(median_ns);
    let medians =
        |run: &RawRun| -> Vec<f64> { run.clockings.iter().filter_map(median_ns).collect() };
    let (own, empty) = (medians(run), medians(baseline));
    let without_clock: Vec<f64> = own.iter().zip(&empty).map(|(own, empty)| own - empty).collect();
    let (p50, net) = (median_with_interval(own, seed), median_with_interval(without_clock, seed));
    let net_p50_ns = match net {
        Some((median, _)) => Some(median),
        None => clock_ns.map(|clock_ns| (p50_ns - clock_ns).max(0.0)),
    };
    Part::Measured(Distribution {
        runs: recorded.count,
        p50_ns,
        p50_lower_ns: p50.map(|(_, interval)| interval.lower),
        p50_upper_ns: p50.map(|(_, interval)| interval.upper),
        p90_ns: quantile(0.9),
        p99_ns: quantile(0.99),
        p999_ns: quantile(0.999),
        max_ns: recorded.max_ns,
        min_ns: recorded.min_ns,
        mean_ns,
        clock_ns,
        net_p50_ns,
        net_p50_lower_ns: net.map(|(_, interval)| interval.lower),
        net_p50_upper_ns: net.map(|(_, interval)| interval.upper),
        wrapper_ns: (mean_ns - plain_ns).max(0.0),
    })
}

/// Median of some values and its interval; `None` if there are too few.
fn median_with_interval(values: Vec<f64>, seed: u64) -> Option<(f64, Interval)> {
    if values.len() < CLOCKINGS_MIN {
        return None;
    }
    let sample = Sample::new(values).ok()?;
    let bootstrap = Bootstrap { confidence: CONFIDENCE, seed, ..Bootstrap::default() };
    let interval = bootstrap.percentile(&sample, |values| quantile_of_sorted(values, 0.5))?;
    Some((sample.median(), interval))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(medians_ns: &[u64]) -> RawRun {
        let clockings: Vec<Recorded> =
            medians_ns.iter().map(|&ns| Recorded::of(&[(ns, 100)])).collect();
        let sum = clockings.iter().cloned().reduce(|mut sum, more| {
            sum.add(&more);
            sum
        });
        RawRun { recorded: sum, clockings, ..RawRun::default() }
    }

    #[test]
    fn what_the_clock_adds_is_taken_off_by_pairs() {
        let check = |own: &[u64], empty: &[u64], expected: (Option<f64>, Option<[f64; 2]>)| {
            let found = of(&run(own), &run(empty), (None, 1), None);
            let found = found.measured().expect("runs");
            let interval = found.net_p50_lower_ns.zip(found.net_p50_upper_ns);
            let interval = interval.map(|(lower, upper)| [lower, upper]);
            assert_eq!((found.net_p50_ns, interval), expected, "{own:?} {empty:?}");
        };
        // The machine slows down in the middle, equally for both.
        let (own, empty) = ([40, 40, 40, 50, 50, 50], [20, 20, 20, 30, 30, 30]);
        check(&own, &empty, (Some(20.0), Some([20.0, 20.0])));
        // Too few for an interval.
        check(&own[..2], &empty[..2], (Some(20.0), None));
        check(&own, &[], (None, None));
        // The interval may include 0, and the difference may be negative.
        check(&[19; 6], &[20; 6], (Some(-1.0), Some([-1.0, -1.0])));
    }

    #[test]
    fn reasons_for_nothing() {
        let check = |run: &RawRun, no_clock, expected: &str| {
            let found = of(run, &RawRun::default(), (None, 1), no_clock);
            assert!(found.reason().is_some_and(|reason| reason.contains(expected)), "{found:?}");
        };
        check(&run(&[40]), Some("it throws"), "it throws");
        check(&RawRun::default(), None, "the time ran out");
    }
}
