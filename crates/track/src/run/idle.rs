//! Thresholds that judge nothing: a typing error in one must not look like a report without alerts.

use std::collections::BTreeSet;

use crate::model::{
    Notice, Report, Slug, Threshold,
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
    let reason = |threshold: &Threshold| {
        let Threshold { measure, benchmark, model } = threshold;
        let needs_boundary = !matches!(model.test, Test::Auto | Test::ChangePoint);
        if needs_boundary && model.lower_boundary.is_none() && model.upper_boundary.is_none() {
            return Some(format!(
                "the threshold for {measure} judges nothing: {} needs a boundary; set the upper or the \
                 lower one (--threshold-upper-boundary, or upper-boundary in wingbeat.toml)",
                model.test
            ));
        }
        match benchmark {
            _ if fits(threshold) => None,
            Some(glob) if measures.contains(measure) => Some(format!(
                "the threshold for {measure} of {glob:?} judges nothing: no benchmark with that measure \
                 fits the glob; check its spelling, or remove it"
            )),
            _ => Some(format!(
                "the threshold for {measure} judges nothing: no benchmark has that measure; there is {}",
                listed(&measures)
            )),
        }
    };
    let notice = |threshold: &Threshold| {
        let reason = reason(threshold)?;
        let Threshold { measure, benchmark, .. } = threshold.clone();
        Some(Notice::IdleThreshold { measure, benchmark, reason })
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
