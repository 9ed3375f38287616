//! Outages: short departures from a level that continues after them, whatever their height.
//!
//! Examples are a host that was busy for an afternoon, or a broken dependency: the values leave their level and return
//! to it. That is not a permanent change, however clear both steps are.

use super::evidence::Judge;

/// Maximum length of an outage, in points.
const STAY_MAX: usize = 8;

/// Removes the boundaries of outages; returns whether there were any.
///
/// Adjacent outages are treated together: levels that alternate every few points are an unstable
/// stretch, not each other's outages. Between two different levels, the clearest step of such a
/// stretch remains.
pub(super) fn remove(judge: &Judge<'_>, boundaries: &mut Vec<usize>) -> bool {
    let levels = boundaries.len() + 1;
    let start = |level: usize| if level == 0 { 0 } else { boundaries[level - 1] };
    let end = |level: usize| boundaries.get(level).copied().unwrap_or(judge.clean.len());
    let range = |level: usize| (start(level), end(level));
    let is_stay = |level: usize| {
        end(level) - start(level) <= STAY_MAX && judge.is_same(range(level - 1), range(level + 1))
    };
    let mut stays = vec![true; boundaries.len()];
    let mut level = 1;
    // The first and the last level may continue outside the series.
    while level + 1 < levels {
        let first = level;
        while level + 1 < levels && is_stay(level) {
            level += 1;
        }
        if level > first {
            // Boundary i is the beginning of level i + 1.
            let stretch = first - 1..level;
            stays[stretch.clone()].fill(false);
            if !judge.is_same(range(first - 1), range(level)) {
                let t = |at: usize| judge.evidence(start(at), boundaries[at], end(at + 1)).t;
                let clearest = stretch.max_by(|&a, &b| t(a).total_cmp(&t(b)));
                clearest.into_iter().for_each(|at| stays[at] = true);
            }
        }
        level += 1;
    }
    let count = boundaries.len();
    let mut stays = stays.into_iter();
    boundaries.retain(|_| stays.next().unwrap_or(true));
    boundaries.len() < count
}
