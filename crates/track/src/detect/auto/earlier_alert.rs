//! Whether an earlier commit already raised the alert about a value: later commits that keep the value are not to
//! blame.

use super::{
    super::{Settings, level::AGREE},
    Case,
    evidence::Evidence,
    run,
};
use crate::model::{Limit, Outcome, Verdict, short_hash};

/// The commit that became as bad as this one, if all reports since agree. If only four reports together show it, as
/// after a spike, some of those before may be usual.
///
/// A value that deviates further than that by more than noise is news. So is one without a known commit, and a repeated
/// measurement of the commit itself.
pub(super) fn find(
    case: &Case<'_>,
    evidence: &Evidence,
    share: &Settings,
    verdict: &Verdict,
) -> Option<String> {
    if !matches!(verdict.outcome, Outcome::Worse | Outcome::Changed) {
        return None;
    }
    let history = &case.history;
    let side = if verdict.limit? == Limit::Upper { 1.0 } else { -1.0 };
    let baseline = verdict.boundary?.baseline?;
    let is_sudden = evidence.p_value <= share.false_alarm_chance;
    let is_slow = evidence
        .run
        .is_some_and(|run| run.reports == *run::REPORTS.end() && run.are_all_off && !is_sudden);
    let together = if is_slow { run::REPORTS.end() - 1 + AGREE } else { 0 };
    let by_report = history.points.chunk_by(|one, next| one.report == next.report);
    let off = by_report.rev().map(|report| {
        let said = report.iter().filter(|point| point.outcome == Some(verdict.outcome));
        let off = said.map(|point| (point.value - baseline) * side).filter(|&off| off > 0.0);
        Some((report.first()?.report, off.reduce(f64::max)?))
    });
    let since = off.enumerate().take_while(|(ago, off)| off.is_some() || *ago < together);
    let (first, off) = since.filter_map(|(_, off)| off).last()?;
    let hash = history.hash(first).filter(|&hash| history.commit.is_some_and(|it| it != hash))?;
    // Noise grows with the level.
    let usual = &evidence.usual;
    let noise = evidence.limit * usual.scale() * (1.0 + off / usual.level.abs());
    ((evidence.value - baseline) * side <= off + noise).then(|| short_hash(hash).to_owned())
}
