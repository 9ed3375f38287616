//! Confidence interval of the mean time of a run, from its means over time slices.
//!
//! The statistics only have sums, so a single reading has no spread. Frequent readings give many
//! short intervals, each with runs and time. The overall mean is the ratio of two sums, and its
//! standard error follows from the deviations of the slices from that ratio (W. G. Cochran,
//! Sampling Techniques, 3rd edition, section 6.4); the interval is Student's. It assumes
//! independent slices. If the load changes slowly they are dependent, and the interval is too
//! narrow.

use wingbeat_stats::student;

use super::report::MeanInterval;

/// Minimum number of slices with runs.
const SLICES_MIN: usize = 6;

pub(super) const CONFIDENCE: f64 = 0.95;

/// Maximum number of slices kept. Beyond that, pairs are merged.
const SLICES_MAX: usize = 128;

/// Runs and time of one program over a slice, or since it was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sums {
    pub(super) runs: u64,
    pub(super) time_ns: u64,
}

/// Sums of some programs at the ends of slices: a row per reading.
#[derive(Debug, Default)]
pub(super) struct Slices {
    rows: Vec<Vec<Sums>>,
}

impl Slices {
    /// Adds a reading. Returns true if every second reading was dropped to save space: readings may
    /// then be half as frequent.
    pub(super) fn push(&mut self, row: Vec<Sums>) -> bool {
        self.rows.push(row);
        let is_full = self.rows.len() > SLICES_MAX;
        if is_full {
            let mut index = 0;
            self.rows.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
        is_full
    }

    /// Interval of the mean of the program in column `program`.
    pub(super) fn interval(&self, program: usize) -> Option<MeanInterval> {
        let column: Vec<Sums> =
            self.rows.iter().filter_map(|row| row.get(program)).copied().collect();
        let slices: Vec<Sums> = column
            .windows(2)
            .filter_map(|pair| match pair {
                [from, to] => Some(Sums {
                    runs: to.runs.checked_sub(from.runs).filter(|&runs| runs > 0)?,
                    time_ns: to.time_ns.checked_sub(from.time_ns)?,
                }),
                _ => None,
            })
            .collect();
        interval(&slices)
    }
}

/// Interval of the ratio of the sums; `None` for fewer than six slices.
fn interval(slices: &[Sums]) -> Option<MeanInterval> {
    if slices.len() < SLICES_MIN {
        return None;
    }
    let count = slices.len() as f64;
    let runs: f64 = slices.iter().map(|slice| slice.runs as f64).sum();
    let time: f64 = slices.iter().map(|slice| slice.time_ns as f64).sum();
    let mean = time / runs;
    let squares: f64 =
        slices.iter().map(|slice| (slice.time_ns as f64 - mean * slice.runs as f64).powi(2)).sum();
    let standard_error = (count * squares / (count - 1.0)).sqrt() / runs;
    let half = student::quantile(0.5 + CONFIDENCE / 2.0, count - 1.0) * standard_error;
    let is_sane = mean.is_finite() && half.is_finite();
    is_sane.then(|| MeanInterval {
        lower_ns: (mean - half).max(0.0),
        upper_ns: mean + half,
        confidence: CONFIDENCE,
        slices: slices.len() as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(runs: u64, time_ns: u64) -> Sums {
        Sums { runs, time_ns }
    }

    #[test]
    fn slices_of_equal_length_give_the_textbook_interval() {
        // Means 48, 52, 50, 50, 49, 51 of 100 runs each: mean 50, s = sqrt(2), t(0.975, 5) = 2.570582.
        let slices: Vec<_> =
            [48, 52, 50, 50, 49, 51].map(|mean| sums(100, 100 * mean)).into_iter().collect();
        let found = interval(&slices).expect("enough slices");
        let half = 2.570_582 * (2.0_f64 / 6.0).sqrt();
        assert!((found.lower_ns - (50.0 - half)).abs() < 1e-4, "{found:?}");
        assert!((found.upper_ns - (50.0 + half)).abs() < 1e-4, "{found:?}");
        assert_eq!(found.slices, 6);
    }

    #[test]
    fn constant_cost_is_certain_however_long_the_slices() {
        let slices: Vec<_> = (1..20).map(|runs| sums(runs, 40 * runs)).collect();
        let found = interval(&slices).expect("enough slices");
        assert!(
            (found.upper_ns - found.lower_ns).abs() < 1e-9 && (found.lower_ns - 40.0).abs() < 1e-9
        );
    }

    #[test]
    fn few_slices_tell_nothing() {
        assert_eq!(interval(&[sums(1, 1); 5]), None);
        let mut slices = Slices::default();
        // Ten readings, with runs between only two of them.
        for reading in 0..10 {
            slices.push(vec![sums(u64::from(reading > 4), u64::from(reading > 4))]);
        }
        assert_eq!(slices.interval(0), None);
        assert_eq!(slices.interval(1), None);
    }

    #[test]
    fn many_readings_are_thinned_without_losing_runs() {
        let mut slices = Slices::default();
        let thinned = (0..=1_000_u64).filter(|&i| slices.push(vec![sums(10 * i, 500 * i)])).count();
        assert!(thinned >= 3 && slices.rows.len() <= SLICES_MAX);
        assert_eq!(slices.rows[0][0], sums(0, 0));
        let found = slices.interval(0).expect("enough slices");
        assert!((found.lower_ns - 50.0).abs() < 1e-6 && found.slices >= 32);
    }
}
