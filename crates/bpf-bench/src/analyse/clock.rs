//! Times of single runs by the clock around the program. Handles coarse clocks: detects the step and interpolates
//! percentiles between steps.
//!
//! Some clocks count in tens of nanoseconds (10 on many AMD machines, 41.7 with a 24 MHz counter).
//! A run of 53 ns then reads 50 in seven cases of ten and 60 in three. A reading stands for all
//! times within half a step around it, as an integer does for a finer clock.

use wingbeat_stats::{
    bootstrap::Bootstrap,
    histogram::{Histogram, bounds},
    interval::Interval,
    sample::{Sample, quantile_of_sorted},
};

use super::{CONFIDENCE, RawRun};
use crate::{
    instrument::wrapper::Recorded,
    result::{Distribution, Part},
};

/// Values below this have one bucket each.
const SINGLE_END: usize = 64;

/// Shorter steps are harmless.
const STEP_MIN_NS: f64 = 4.0;

/// Values with a smaller share of the samples are outliers.
const RARE: f64 = 1e-4;

/// Maximum distance of a value from a multiple of the step: the kernel rounds both clock reads.
const ROUNDING_NS: f64 = 1.0;

/// Step of the clock that filled these histograms; `None` if it is finer than 4 ns or there are too
/// few distinct values.
pub(crate) fn step_ns<'a>(histograms: impl Iterator<Item = &'a [u64]>) -> Option<f64> {
    let mut counts = [0_u64; SINGLE_END];
    for histogram in histograms {
        for (sum, more) in counts.iter_mut().zip(histogram) {
            *sum = sum.saturating_add(*more);
        }
    }
    let total = counts.iter().fold(0, |sum: u64, count| sum.saturating_add(*count)) as f64;
    let occupied = (0..SINGLE_END).filter(|&value| counts[value] as f64 > RARE * total);
    // Merges values that rounding has split, with their weight.
    let mut groups: Vec<Group> = Vec::new();
    for value in occupied {
        let count = counts[value] as f64;
        match groups.last_mut() {
            Some(group) if value == group.last + 1 => {
                group.last = value;
                group.sum += value as f64 * count;
                group.count += count;
            }
            _ => groups.push(Group { first: value, last: value, sum: value as f64 * count, count }),
        }
    }
    let is_blurred = |group: &Group| (group.last - group.first) as f64 > 2.0 * ROUNDING_NS;
    if groups.iter().any(is_blurred) {
        return None;
    }
    let centres: Vec<f64> = groups.iter().map(|group| group.sum / group.count).collect();
    let shortest = centres.windows(2).map(|two| two[1] - two[0]).reduce(f64::min)?;
    // Averages over the whole width to reduce the effect of rounding.
    let width = centres.last()? - centres.first()?;
    let step = width / (width / shortest).round();
    let fits = |centre: &f64| (centre - (centre / step).round() * step).abs() <= ROUNDING_NS;
    (step >= STEP_MIN_NS && centres.iter().all(fits)).then_some((step * 10.0).round() / 10.0)
}

/// A run of consecutive values.
struct Group {
    first: usize,
    last: usize,
    sum: f64,
    count: f64,
}

/// Percentiles of clock samples, interpolated between clock steps.
pub(crate) struct Quantiles<'a> {
    recorded: &'a Recorded,
    histogram: Histogram,
    step_ns: Option<f64>,
}

impl<'a> Quantiles<'a> {
    /// Fails with a reason if nothing was recorded.
    pub(crate) fn new(recorded: &'a Recorded, step_ns: Option<f64>) -> Result<Self, String> {
        let histogram = Histogram::recorded(&recorded.buckets)
            .and_then(|histogram| histogram.with_extremes(recorded.min_ns, recorded.max_ns))
            .map_err(|error| error.to_string())?;
        Ok(Self { recorded, histogram, step_ns })
    }

    /// Quantile `q`, from 0 to 1.
    pub(crate) fn of(&self, q: f64) -> f64 {
        match self.step_ns {
            Some(step_ns) => quantile(self.recorded, step_ns, q),
            None => self.histogram.quantile(q),
        }
    }
}

/// Quantile for a clock with this step. Spreads the count of each multiple evenly over the step
/// around it and clamps to the observed minimum and maximum.
fn quantile(recorded: &Recorded, step_ns: f64, q: f64) -> f64 {
    let rank = q * recorded.count as f64;
    let mut before = 0.0;
    let mut place = recorded.max_ns as f64;
    let mut buckets =
        recorded.buckets.iter().enumerate().filter(|(_, count)| **count > 0).peekable();
    while let Some((bucket, &count)) = buckets.next() {
        let (lower, end) = stands_for(bucket, step_ns);
        let mut count = count as f64;
        let is_same = |next: usize| stands_for(next, step_ns) == (lower, end);
        while let Some((_, &more)) = buckets.next_if(|(next, _)| is_same(*next)) {
            count += more as f64;
        }
        if before + count >= rank {
            place = lower + (end - lower) * ((rank - before) / count);
            break;
        }
        before += count;
    }
    place.clamp(recorded.min_ns as f64, recorded.max_ns as f64)
}

/// Range of times that a bucket stands for: from, to.
fn stands_for(bucket: usize, step_ns: f64) -> (f64, f64) {
    let (first, end) = bounds(bucket);
    let (first, end) = (first as f64, end as f64);
    // Wider than a step, so it may contain several multiples.
    if end - first >= step_ns {
        return (first - 0.5, end - 0.5);
    }
    let multiple = ((first + end - 1.0) / 2.0 / step_ns).round() * step_ns;
    (multiple - step_ns / 2.0, multiple + step_ns / 2.0)
}

#[cfg(feature = "testing")]
/// Medians of two recordings in nanoseconds, interpolated between the steps of their common clock.
/// `None` if either is empty.
pub fn medians_ns(recorded: [&Recorded; 2]) -> Option<[f64; 2]> {
    let step = step_ns(recorded.iter().map(|recorded| &*recorded.buckets));
    let median = |recorded| Some(Quantiles::new(recorded, step).ok()?.of(0.5));
    Some([median(recorded[0])?, median(recorded[1])?])
}

// Times of single runs, from the clock around the program.

/// Minimum clocked batches for an interval of their medians.
const CLOCKINGS_MIN: usize = 6;

/// Statistics of a program's single runs and those of its baseline, which may be the same. Without a
/// clock around the program, the reason.
pub(super) fn distribution(
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

    #[test]
    fn steps_are_found() {
        let check = |values: &[(u64, u64)], expected: Option<f64>| {
            let found = step_ns([Recorded::of(values).buckets.as_slice()].into_iter());
            assert_eq!(found, expected, "{values:?}");
        };
        check(&[(30, 100), (40, 9_000), (50, 800), (60, 40)], Some(10.0));
        // The kernel rounds both clock reads; one value in a hundred thousand is an outlier.
        check(
            &[(20, 5), (39, 80), (40, 90_000), (41, 900), (50, 8_000), (51, 9), (47, 1)],
            Some(10.0),
        );
        check(&[(20, 100), (50, 100), (60, 100)], Some(10.0));
        // 24 MHz.
        check(&[(0, 10), (41, 400), (42, 800), (83, 500)], Some(41.7));
        check(&[(8, 10), (16, 10), (24, 10), (25, 5), (33, 10)], Some(8.3));
        // A fine clock, and too few values.
        check(&[(38, 10), (39, 50), (40, 100), (41, 90), (42, 20)], None);
        check(&[(40, 100), (42, 100), (44, 100)], None);
        check(&[(23, 100), (40, 100)], None);
        check(&[(50, 100)], None);
        check(&[(500, 100), (510, 100)], None);
        check(&[], None);
    }

    #[test]
    fn histograms_are_taken_together() {
        let (short, long) = (Recorded::of(&[(40, 10)]), Recorded::of(&[(50, 10), (200, 90)]));
        let both = [short.buckets.as_slice(), &long.buckets];
        assert_eq!(step_ns(both.into_iter()), Some(10.0));
    }

    #[test]
    fn percentiles_lie_between_steps() {
        let check = |values: &[(u64, u64)], q, expected: f64| {
            let found = quantile(&Recorded::of(values), 10.0, q);
            assert!((found - expected).abs() < 1e-9, "{values:?} {q}: {found}");
        };
        check(&[(50, 50), (60, 50)], 0.5, 55.0);
        check(&[(50, 75), (60, 25)], 0.5, 45.0 + 10.0 * 50.0 / 75.0_f64);
        check(&[(40, 20), (50, 60), (60, 20)], 0.5, 50.0);
        check(&[(40, 20), (49, 10), (50, 40), (51, 10), (60, 20)], 0.5, 50.0);
        // Never beyond the observed range.
        check(&[(50, 100)], 0.99, 50.0);
        check(&[(50, 100)], 0.0, 50.0);
        check(&[(50, 90), (60, 10)], 1.0, 60.0);
        // Buckets span eight values from 320 on, sixteen from 512 on.
        check(&[(330, 50), (340, 50)], 0.5, 335.0);
        check(&[(500, 50), (1024, 25), (1055, 25)], 0.75, 1023.5 + 16.0);
    }

    #[test]
    fn a_constant_time_is_found_to_a_tenth_of_a_step() {
        // The start of a run of 50 ns and more is uniformly distributed within a step.
        for tenths in 0..=100_u64 {
            let ns = 50.0 + tenths as f64 / 10.0;
            let found = quantile(&Recorded::of(&[(50, 100 - tenths), (60, tenths)]), 10.0, 0.5);
            assert!((found - ns).abs() <= 1.0, "{ns}: {found}");
        }
    }

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
            let found = distribution(&run(own), &run(empty), (None, 1), None);
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
            let found = distribution(run, &RawRun::default(), (None, 1), no_clock);
            assert!(found.reason().is_some_and(|reason| reason.contains(expected)), "{found:?}");
        };
        check(&run(&[40]), Some("it throws"), "it throws");
        check(&RawRun::default(), None, "the time ran out");
    }
}
