//! Alerts that nobody has answered, until their level became the usual one. From then on the same value
//! raises no alert, which is to be said once.

use wingbeat_stats::sample;

use crate::{
    decide::{Notice, Outcome, Point, Verdict},
    model::{Kind, Measure, threshold::Test},
    output::{number, short_hash},
};

/// Newest points before the alerts that tell the level from which they rose.
const BEFORE_MAX: usize = 20;

/// A notice, if this report is the first without an alert at the level of the alerts before it. Each
/// series comes with its points and how many of the newest have open alerts.
pub(super) fn notices<'a>(
    series: impl Iterator<Item = (&'a Measure, &'a [Point<'a>], usize, &'a Verdict)>,
) -> Vec<Notice> {
    let found: Vec<String> = series
        .filter(|(measure, _, _, verdict)| {
            measure.kind == Kind::Noisy
                && verdict.test == Some(Test::Auto)
                && verdict.outcome == Outcome::NoChange
        })
        .filter_map(|(_, points, open_alerts, verdict)| {
            let baseline = verdict.boundary?.baseline?;
            let (change, since) = absorbed(points, open_alerts, baseline)?;
            let since = since.map(|hash| format!(" since {}", short_hash(hash)));
            let (name, change) = (&verdict.benchmark, number::change(change));
            Some(format!("{name} {} {change}{}", verdict.measure, since.unwrap_or_default()))
        })
        .collect();
    let metrics = found.len();
    if metrics == 0 {
        return Vec::new();
    }
    let reason = format!(
        "the level of alerts that nobody has answered is the usual one from now on, and raises no alert any \
         more: {}",
        number::first_few(found.into_iter())
    );
    vec![Notice::AlertIsUsual { metrics, reason }]
}

/// How far the alerts at the end of history lie from what was before them, and the commit of the first,
/// if the baseline is nearer to them.
fn absorbed<'a>(
    points: &[Point<'a>],
    open_alerts: usize,
    baseline: f64,
) -> Option<(f64, Option<&'a str>)> {
    let first = points.len().checked_sub(open_alerts).filter(|&first| first > 0)?;
    let (before, alerts) = points.split_at(first);
    let oldest = alerts.first()?;
    let old = median(&before[before.len().saturating_sub(BEFORE_MAX)..]);
    let new = median(alerts);
    let change = (new - old) / old.abs();
    let is_nearer = (baseline - new).abs() < (baseline - old).abs();
    (is_nearer && change.is_finite()).then_some((change, oldest.hash))
}

fn median(points: &[Point<'_>]) -> f64 {
    sample::median(points.iter().map(|point| point.value).collect())
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;

    use super::*;

    #[test]
    fn alerts_that_became_the_level() {
        let point = |(report, value): (usize, f64)| Point {
            report,
            value,
            repeats: &[],
            samples: &[],
            start_time: OffsetDateTime::UNIX_EPOCH,
            environment: None,
            hash: Some(if value == 150.0 { "new" } else { "old" }),
        };
        let check = |values: &[f64], open_alerts, baseline, expected: Option<f64>| {
            let points: Vec<Point<'_>> = values.iter().copied().enumerate().map(point).collect();
            let found = absorbed(&points, open_alerts, baseline);
            assert_eq!(found.map(|(change, _)| change), expected, "{values:?}");
            assert!(found.is_none_or(|(_, hash)| hash == Some("new")));
        };
        let (old, new) = (100.0, 150.0);
        check(&[old, old, new, new, new], 3, new, Some(0.5));
        check(&[old, old, new, new, new], 3, old, None);
        check(&[old, 80.0, old], 0, old, None);
        check(&[new, new], 2, new, None);
        check(&[old, new, new], 0, new, None);
        check(&[0.0, new], 1, new, None);
        check(&[], 0, 1.0, None);
    }
}
