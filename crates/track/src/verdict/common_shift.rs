//! Replaces many alerts by one notice if most benchmarks moved alike.

use std::collections::BTreeMap;
use wingbeat_text::share;

use super::{Decision, Settings, auto::Moved};
use crate::model::{Notice, NoticeKind, NoticeText, Outcome, ReasonNote, Verdict, reason::finite};

const BENCHMARKS_MIN: usize = 5;

const MOST: f64 = 0.75;

/// A benchmark has moved if it moved by at least this many spreads, and by this share of the median benchmark's change:
/// noise is not a joint move with a benchmark that doubled.
const MOVED_SPREADS: f64 = 1.0;
const MOVED_SHARE: f64 = 0.5;

/// Finds benchmarks that moved together by iteration and measure, and replaces their alerts by one notice.
pub(super) fn find(moves: &[Moved<'_>], settings: &Settings, decision: &mut Decision) {
    let mut groups: BTreeMap<(u32, &str), Vec<&Moved<'_>>> = BTreeMap::new();
    for one in moves {
        let measure = one.history.series.measure.slug.as_str();
        groups.entry((one.history.series.iteration, measure)).or_default().push(one);
    }
    for group in groups.values() {
        let Some(middle) = common_move(group, settings) else { continue };
        let members: Vec<&&Moved<'_>> =
            group.iter().filter(|one| is_beyond(&decision.verdicts[one.history.index])).collect();
        let members: Vec<&&Moved<'_>> =
            members.into_iter().filter(|one| one.is_like(middle)).collect();
        let Some(first) = members.first() else { continue };
        let news = first.history.news;
        let change = finite(middle.exp_m1());
        let moved = group.iter().filter(|one| one.has_moved(middle)).count();
        let known = match news.is_empty() {
            true => "no change of the environment is known, so look at what they share".to_owned(),
            false => format!("new since then: {}", news.join(", ")),
        };
        let judged = group.len();
        let text = NoticeText {
            cause: format!(
                "{moved} of {judged} benchmarks moved together, the median by {}",
                share::change(change)
            ),
            effect: "the host or the toolchain changed".to_owned(),
            next_step: known,
        };
        for one in &members {
            let verdict = &mut decision.verdicts[one.history.index];
            verdict.outcome = Outcome::MovedTogether;
            let note = ReasonNote::MovedTogether { benchmarks: moved, judged, change };
            verdict.reason.notes.push(note);
        }
        let kind = NoticeKind::MovedTogether {
            iteration: first.history.series.iteration,
            measure: first.history.series.measure.slug.clone(),
            benchmarks: moved,
            judged,
            change,
            environment: news.to_vec(),
        };
        decision.notices.push(Notice { kind, text });
    }
}

fn is_beyond(verdict: &Verdict) -> bool {
    verdict.outcome.is_suspect()
        || matches!(verdict.outcome, Outcome::Worse | Outcome::Better | Outcome::Changed)
}

/// The log ratio by which the median of the group moved, if most of the group did.
fn common_move(group: &[&Moved<'_>], settings: &Settings) -> Option<f64> {
    if group.len() < BENCHMARKS_MIN {
        return None;
    }
    let mut logs: Vec<f64> = group.iter().map(|one| one.log_ratio).collect();
    logs.sort_unstable_by(f64::total_cmp);
    let middle = wingbeat_stats::sample::quantile_of_sorted(&logs, 0.5);
    let moved = group.iter().filter(|one| one.has_moved(middle)).count();
    let is_large = middle.abs() >= settings.change_min;
    (is_large && moved as f64 >= MOST * group.len() as f64).then_some(middle)
}

impl Moved<'_> {
    /// Whether it moved in the direction of the median, beyond its own spread and at least half as far.
    fn has_moved(&self, middle: f64) -> bool {
        let side = middle.signum();
        self.error * side >= MOVED_SPREADS && self.log_ratio * side >= MOVED_SHARE * middle.abs()
    }

    fn is_like(&self, middle: f64) -> bool {
        let is_same_way = self.log_ratio * middle > 0.0;
        let far = (self.log_ratio - middle).abs();
        is_same_way && far <= (middle.abs() / 2.0).max(3.0 * self.log_spread)
    }
}
