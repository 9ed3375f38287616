//! The noisy measures of a report, judged together: they share one budget of false alarms, and tell each
//! other what their noise is like.
//!
//! `case` cuts a history into levels, `evidence` weighs what the newest value and those shortly before it
//! say, with `run` for several of them together and `neighbours` for how much they hang together; `write`
//! makes a verdict of it.

mod case;
mod evidence;
mod neighbours;
mod run;
mod write;

use std::collections::HashSet;

use self::case::Pieces;
use super::{
    Change, Outcome, Series, Settings, Verdict,
    history::History,
    level::{crossed, least_changes},
    samples,
};
use crate::{model::ThresholdModel, output::number};

/// Reports that a level has at least.
const POINTS_MIN: usize = 5;

/// A thread is not worth its start for fewer cases.
const THREAD_CASES_MIN: usize = 64;

/// A metric that is to be judged.
pub(super) struct Case<'a> {
    pub(super) index: usize,
    pub(super) series: &'a Series<'a>,
    pub(super) model: &'a ThresholdModel,
    pub(super) history: History<'a>,
}

/// How far a metric moved.
pub(super) struct Judged<'a> {
    pub(super) index: usize,
    pub(super) series: &'a Series<'a>,
    pub(super) log_ratio: f64,
    /// Spread as a share of the baseline.
    pub(super) log_spread: f64,
    /// Distance from the baseline in spreads.
    pub(super) error: f64,
    /// What is new about the environment.
    pub(super) news: Vec<String>,
}

/// A case with its history cut into levels.
struct Ready<'a> {
    case: &'a Case<'a>,
    pieces: Pieces,
    /// Whether it is the first iteration of its series: the others have the same history.
    is_first: bool,
}

/// Judges all cases, each of which has enough history, and says how far they moved.
pub(super) fn judge<'a>(
    cases: &'a [Case<'a>],
    settings: &Settings,
    verdicts: &mut [Verdict],
) -> Vec<Judged<'a>> {
    let mut seen = HashSet::new();
    let cut = |cases: &[Case<'_>]| -> Vec<Pieces> {
        cases.iter().map(|case| Pieces::cut(case, settings)).collect()
    };
    let ready: Vec<Ready<'_>> = cases
        .iter()
        .zip(in_threads(cases, &cut))
        .map(|(case, pieces)| {
            let is_first = seen.insert((case.series.benchmark, &case.series.measure.slug));
            Ready { case, pieces, is_first }
        })
        .collect();
    let counts = |case: &Case<'_>| usize::from(!case.series.is_ignored);
    let judged_count = ready.iter().map(|ready| counts(ready.case)).sum();
    let share = settings.share(judged_count);
    let mut judged = Vec::with_capacity(ready.len());
    for (ready, evidence) in ready.iter().zip(evidence::weigh(&ready, &share)) {
        let Some(evidence) = evidence else { continue };
        let case = ready.case;
        write::write(ready, &evidence, &share, judged_count, &mut verdicts[case.index]);
        let (usual, ratio) = (&evidence.usual, evidence.value / evidence.usual.level);
        if !case.series.is_ignored {
            judged.push(Judged {
                index: case.index,
                series: case.series,
                // Without a ratio it is in no crowd.
                log_ratio: if ratio > 0.0 && ratio.is_finite() { ratio.ln() } else { 0.0 },
                log_spread: usual.scale() / usual.level.abs(),
                error: evidence.error * usual.level.signum(),
                news: case.history.news.clone(),
            });
        }
    }
    judged
}

/// Works something out for all cases; large reports in several threads.
fn in_threads<T: Sync, R: Send>(all: &[T], work: &(impl Fn(&[T]) -> Vec<R> + Sync)) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let part = all.len().div_ceil(threads).max(THREAD_CASES_MIN);
    if all.len() <= part {
        return work(all);
    }
    let mut results = Vec::with_capacity(all.len());
    std::thread::scope(|scope| {
        let started: Vec<_> =
            all.chunks(part).map(|part| (part, scope.spawn(move || work(part)))).collect();
        for (part, thread) in started {
            // What panicked there panics again here, where it is seen.
            results.extend(thread.join().unwrap_or_else(|_| work(part)));
        }
    });
    results
}

/// The chance that any of so many metrics shows this.
fn corrected(p: f64, count: usize) -> f64 {
    let p = p.min(1.0);
    // 1 − (1 − p)^B, also where that is tiny.
    -(count as f64 * (-p).ln_1p()).exp_m1()
}
