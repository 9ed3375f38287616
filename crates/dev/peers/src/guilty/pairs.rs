//! Pairs of runs of the same code: whether a function is named although nothing changed, and how far shares of
//! profiles differ from run to run.

use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use wingbeat_difference::{Metric, RUN_TO_RUN, Side, compare};
use wingbeat_track::{
    explain::{relative_sd, spread},
    model::Report,
    store::{ReportFilter, Store},
};

/// Two runs of the same code, one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Pair {
    /// Of the metric, as a share.
    pub(super) change: f64,
    /// The function that is named first.
    pub(super) named: Option<String>,
    /// The largest difference of a function's share, in its standard deviations.
    pub(super) deviations_max: f64,
    pub(super) excess: Excess,
}

/// What shares differ by beyond what the number of samples explains.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Excess {
    /// Squares of differences, less the variance of sampling.
    squares: f64,
    /// Variances of a single sample.
    variances: f64,
}

impl Excess {
    pub(super) fn sum(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter().fold(Self::default(), |sum, it| Self {
            squares: sum.squares + it.squares,
            variances: sum.variances + it.variances,
        })
    }

    /// As a part of the standard deviation of a single sample, as `RUN_TO_RUN` is.
    pub(super) fn run_to_run(self) -> f64 {
        (self.squares.max(0.0) / self.variances.max(f64::MIN_POSITIVE)).sqrt()
    }
}

/// A run with its profile.
struct Run {
    value: f64,
    sd: f64,
    side: Side,
}

/// The pairs of a store: the first and the second report, the third and the fourth.
pub(super) fn of_store(file: &Path) -> anyhow::Result<Vec<Pair>> {
    let store = Store::open_existing(file)?;
    let mut summaries = store.reports(&ReportFilter::default(), usize::MAX)?;
    summaries.reverse();
    let mut runs = Vec::new();
    for summary in summaries {
        let report = store.report(summary.uuid)?.context("a report vanished")?;
        // A confirming measurement has no profile.
        if let Some(profile) = store.profiles(summary.uuid)?.first() {
            let pprof = store.profile_content(profile.sha256)?.context("a profile vanished")?;
            runs.push(run(&report, Side::read("later", &pprof)?)?);
        }
    }
    // As for an alert: what the machine does from report to report is no change.
    let spread = spread(runs.iter().map(|run| run.value).collect()).unwrap_or(0.0);
    for run in &mut runs {
        run.sd = run.sd.max(run.value.abs() * spread);
    }
    runs.as_chunks().0.iter().map(pair).collect()
}

fn run(report: &Report, side: Side) -> anyhow::Result<Run> {
    let (.., measure, metric) = report.metrics().next().context("a report has no metric")?;
    let sd = metric.value.abs() * relative_sd(measure, metric);
    Ok(Run { value: metric.value, sd, side })
}

fn pair([before, after]: &[Run; 2]) -> anyhow::Result<Pair> {
    let metric = Metric {
        before: before.value,
        after: after.value,
        before_sd: before.sd,
        after_sd: after.sd,
    };
    let found = compare(&before.side, &after.side, metric)?;
    // Shares alone, whatever the metric is.
    let one = Metric { before: 1.0, after: 1.0, before_sd: 0.0, after_sd: 0.0 };
    let shares = compare(&before.side, &after.side, one)?;
    let changes = || shares.blame.iter().map(|(_, change)| *change);
    let excess = changes().map(|change| {
        let variances = [change.before, change.after].map(|share| share * (1.0 - share));
        let variances: f64 = variances.iter().sum();
        let sampling = change.sd.powi(2) - RUN_TO_RUN.powi(2) * variances;
        Excess { squares: change.difference().powi(2) - sampling, variances }
    });
    Ok(Pair {
        change: after.value / before.value - 1.0,
        named: found.guilty.first().map(|guilty| guilty.function.clone()),
        deviations_max: changes().map(|change| change.deviations().abs()).fold(0.0, f64::max),
        excess: Excess::sum(excess),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excess_is_a_part_of_a_sample() {
        let check = |all: &[(f64, f64)], expected: f64| {
            let all = all.iter().map(|&(squares, variances)| Excess { squares, variances });
            let found = Excess::sum(all).run_to_run();
            assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
        };
        check(&[(0.0004, 0.5), (0.0014, 0.5)], 0.0018_f64.sqrt());
        // Less than sampling explains.
        check(&[(-0.1, 0.5)], 0.0);
        check(&[], 0.0);
    }
}
