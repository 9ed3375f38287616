//! Thresholds that judge nothing: a typing error in one must not look like a report without alerts.

use std::collections::BTreeSet;

use crate::model::{
    Notice, NoticeText, Report, Slug, Threshold,
    threshold::{Test, matches_glob},
};

/// Measures that are listed at most.
const LISTED_MAX: usize = 8;

/// A notice for each threshold that has no boundary, or that no metric of the report fits.
pub(super) fn notices(thresholds: &[Threshold], report: &Report) -> Vec<Notice> {
    let benchmarks = || report.iterations.iter().flat_map(|results| &results.benchmarks);
    let measures: BTreeSet<&Slug> =
        benchmarks().flat_map(|it| &it.metrics).map(|(measure, _)| &measure.slug).collect();
    // Without metrics that is what the user reads of.
    if measures.is_empty() {
        return Vec::new();
    }
    let fits = |threshold: &Threshold| {
        let glob = threshold.benchmark.as_deref();
        benchmarks().any(|it| {
            glob.is_none_or(|glob| matches_glob(glob, it.name.as_str()))
                && it.metrics.iter().any(|(measure, _)| measure.slug == threshold.measure)
        })
    };
    let text = |threshold: &Threshold| {
        let Threshold { measure, benchmark, model } = threshold;
        let needs_boundary = !matches!(model.test, Test::Auto | Test::ChangePoint);
        let (cause, next_step) = match benchmark {
            _ if needs_boundary
                && model.lower_boundary.is_none()
                && model.upper_boundary.is_none() =>
            {
                let step = "set the upper or the lower one (--threshold-upper-boundary, or upper-boundary \
                            in wingbeat.toml)";
                (format!("{} needs a boundary", model.test), step.to_owned())
            }
            _ if fits(threshold) => return None,
            Some(glob) if measures.contains(measure) => (
                format!("no benchmark with the measure {measure} matches {glob:?}"),
                "correct the glob, or remove the threshold".to_owned(),
            ),
            _ => (
                format!("no benchmark has the measure {measure}"),
                format!("use a measure of the results: {}", listed(&measures)),
            ),
        };
        let effect = format!("the threshold for {measure} judges nothing");
        Some(NoticeText { cause, effect, next_step })
    };
    let notice = |threshold: &Threshold| {
        let text = text(threshold)?;
        let Threshold { measure, benchmark, .. } = threshold.clone();
        Some(Notice::IdleThreshold { measure, benchmark, text })
    };
    thresholds.iter().filter_map(notice).collect()
}

/// Measures in a sentence.
fn listed(measures: &BTreeSet<&Slug>) -> String {
    let mut texts: Vec<String> =
        measures.iter().take(LISTED_MAX).map(ToString::to_string).collect();
    if measures.len() > LISTED_MAX {
        texts.push(format!("{} more", measures.len() - LISTED_MAX));
    }
    texts.join(", ")
}
