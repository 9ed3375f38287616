//! Judges the noisy measures of a report together: they share one false-positive rate, and inform each other about
//! their noise.
//!
//! `case` divides a history into levels. `evidence` weighs the newest values, with `run` for several of them together.
//! `write` creates the verdict, and finds the commit that already raised the alert.

mod case;
mod evidence;
mod run;
mod write;

use std::collections::HashSet;

use self::case::Pieces;
use super::{Settings, history::History};
use crate::model::Verdict;

const POINTS_MIN: usize = 5;

/// Minimum number of cases for which starting a thread pays.
const THREAD_CASES_MIN: usize = 64;

pub(super) struct Moved<'a> {
    pub(super) history: History<'a>,
    pub(super) log_ratio: f64,
    pub(super) log_spread: f64,
    pub(super) error: f64,
    /// The commit that raised the alert about it, if it is not this one.
    pub(super) alert_of: Option<String>,
}

/// A metric with its history divided into levels.
struct Case<'a> {
    history: History<'a>,
    pieces: Pieces,
    /// Whether it is the first iteration of its series: the others have the same history.
    is_first: bool,
}

/// Judges all metrics, each of which has enough history, and returns how far they moved.
pub(super) fn judge<'a>(
    histories: Vec<History<'a>>,
    settings: &Settings,
    verdicts: &mut [Verdict],
) -> Vec<Moved<'a>> {
    let mut seen = HashSet::new();
    let cut = |histories: &[History<'_>]| -> Vec<Pieces> {
        histories.iter().map(|history| Pieces::cut(history, settings)).collect()
    };
    let pieces = in_threads(&histories, &cut);
    let cases = histories.into_iter().zip(pieces).map(|(history, pieces)| {
        let is_first = seen.insert((history.series.benchmark, &history.series.measure.slug));
        Case { history, pieces, is_first }
    });
    let cases: Vec<Case<'_>> = cases.collect();
    let judged_count = cases.iter().filter(|case| !case.history.series.is_ignored).count();
    let share = settings.share(judged_count);
    let evidence = evidence::weigh(&cases, &share);
    let mut moves = Vec::with_capacity(cases.len());
    for (case, evidence) in cases.into_iter().zip(evidence) {
        let Some(evidence) = evidence else { continue };
        let verdict = &mut verdicts[case.history.index];
        write::write(&case, &evidence, &share, judged_count, verdict);
        let alert_of = write::earlier_alert(&case, &evidence, &share, verdict);
        let (usual, ratio) = (&evidence.usual, evidence.value / evidence.usual.level);
        if !case.history.series.is_ignored {
            moves.push(Moved {
                history: case.history,
                // Without a ratio it cannot be part of a common move.
                log_ratio: if ratio > 0.0 && ratio.is_finite() { ratio.ln() } else { 0.0 },
                log_spread: usual.scale() / usual.level.abs(),
                error: evidence.error * usual.level.signum(),
                alert_of,
            });
        }
    }
    moves
}

/// Applies a function to all cases, in several threads for large reports.
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
            // A panic in a thread is repeated here, where it is visible.
            results.extend(thread.join().unwrap_or_else(|_| work(part)));
        }
    });
    results
}

/// The probability that any of that many metrics shows this.
fn corrected(p: f64, count: usize) -> f64 {
    let p = p.min(1.0);
    // 1 − (1 − p)^B, accurate for tiny values.
    -(count as f64 * (-p).ln_1p()).exp_m1()
}
