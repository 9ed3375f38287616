//! Reduces an excess of candidates to the changes by repeatedly removing the weakest.

use std::{cmp::Ordering, collections::BinaryHeap};

use super::{
    Change, LENGTH_MIN,
    clean::Clean,
    evidence::{Evidence, Judge, WINDOW, around},
};

/// How far a boundary may move when its place is searched again.
const MOVE_MAX: usize = 40;

/// Minimum distance of a moved boundary from its neighbours, in points. Less than the minimum length of a level:
/// otherwise an outage would be stretched until it is long enough.
const RUN_MIN: usize = 2;

/// Maximum length of an outage, in points.
const STAY_MAX: usize = 8;

/// The levels of a series.
#[derive(Debug, Default)]
pub(super) struct Segments {
    boundaries: Vec<usize>,
    p_values: Vec<f64>,
}

/// A boundary in the queue, weakest first; stale if its version is.
#[derive(Debug, PartialEq)]
struct Queued {
    t: f64,
    at: usize,
    version: u32,
}

impl Eq for Queued {}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Queued {
    fn cmp(&self, other: &Self) -> Ordering {
        other.t.total_cmp(&self.t).then(other.at.cmp(&self.at))
    }
}

impl Segments {
    /// The first points of the new levels, ascending.
    pub(super) fn boundaries(&self) -> &[usize] {
        &self.boundaries
    }

    /// Finds the changes among candidates, which are ascending.
    pub(super) fn find(judge: &Judge<'_>, candidates: &[usize]) -> Self {
        let mut boundaries = candidates.to_vec();
        loop {
            let count = boundaries.len();
            boundaries = without_weak(judge, &boundaries);
            relocate(judge, &mut boundaries);
            boundaries = without_weak(judge, &boundaries);
            if remove_outages(judge, &mut boundaries) {
                continue;
            }
            remove_weakest_of_no_steps(judge, &mut boundaries);
            if boundaries.len() == count {
                break;
            }
        }
        let evidence = all_evidence(judge, &boundaries);
        let p_values = evidence.iter().map(|evidence| judge.p_value(evidence)).collect();
        Self { boundaries, p_values }
    }

    /// Drops the boundaries that are too probable for another judge. The others keep their probability, which is that
    /// among all boundaries found, whatever is dropped next to them.
    pub(super) fn pruned(mut self, judge: &Judge<'_>) -> Self {
        let evidence = all_evidence(judge, &self.boundaries);
        self.p_values = evidence.iter().map(|one| judge.p_value(one)).collect();
        let mut is_clear: Vec<bool> =
            evidence.iter().map(|one| judge.is_significant(one)).collect();
        loop {
            let evidence = all_evidence(judge, &self.boundaries);
            for (at, one) in evidence.iter().enumerate().filter(|(at, _)| !is_clear[*at]) {
                self.p_values[at] = judge.p_value(one);
            }
            let is_step = neighbours(&self.boundaries, judge.clean.len())
                .map(|(start, place, end)| judge.is_step(start, place, end));
            let stays: Vec<bool> = is_step
                .zip(&evidence)
                .zip(&is_clear)
                .map(|((is_step, one), is_clear)| *is_clear || is_step && judge.is_significant(one))
                .collect();
            let goes = weaker(&evidence, &stays);
            if !goes.contains(&true) {
                return self;
            }
            retain(&mut self.boundaries, &goes);
            retain(&mut self.p_values, &goes);
            retain(&mut is_clear, &goes);
        }
    }

    /// Merges what a laxer judge found with the probabilities of a stricter one's findings. Any other boundary is at
    /// least as probable as the stricter one allows, however clear it is between these levels.
    pub(super) fn combined_with(mut self, severe: &Self, chance: f64) -> Self {
        for (place, p_value) in self.boundaries.iter().zip(&mut self.p_values) {
            let known = severe.boundaries.iter().zip(&severe.p_values);
            let near = known.min_by_key(|(known, _)| known.abs_diff(*place));
            *p_value = match near {
                Some((known, p)) if known.abs_diff(*place) < LENGTH_MIN => *p,
                _ => p_value.max(chance),
            };
        }
        self
    }

    /// The changes with levels and probabilities, at places in the cleaned series.
    pub(super) fn changes(&self, clean: &Clean) -> Vec<Change> {
        let neighbours = neighbours(&self.boundaries, clean.len());
        let changes =
            neighbours.zip(&self.p_values).map(|((start, index, end), &p_value)| Change {
                index,
                before: clean.mean(start, index) + clean.origin,
                after: clean.mean(index, end) + clean.origin,
                p_value,
            });
        changes.collect()
    }
}

/// Each boundary with the one before it, or the beginning, and the one after it, or the end.
fn neighbours(
    boundaries: &[usize],
    len: usize,
) -> impl Iterator<Item = (usize, usize, usize)> + '_ {
    boundaries.iter().enumerate().map(move |(at, &place)| {
        let start = at.checked_sub(1).map_or(0, |before| boundaries[before]);
        (start, place, boundaries.get(at + 1).copied().unwrap_or(len))
    })
}

fn all_evidence(judge: &Judge<'_>, boundaries: &[usize]) -> Vec<Evidence> {
    let all = neighbours(boundaries, judge.clean.len());
    all.map(|(start, place, end)| judge.evidence(start, place, end)).collect()
}

/// Removes the weakest boundary and judges its neighbours again until all are significant.
fn without_weak(judge: &Judge<'_>, boundaries: &[usize]) -> Vec<usize> {
    let none = usize::MAX;
    let count = boundaries.len();
    let mut before: Vec<usize> = (0..count).map(|at| at.checked_sub(1).unwrap_or(none)).collect();
    let mut after: Vec<usize> =
        (0..count).map(|at| if at + 1 < count { at + 1 } else { none }).collect();
    let mut versions = vec![0_u32; count];
    let mut is_there = vec![true; count];
    let judged = |at: usize, before: &[usize], after: &[usize]| {
        let start = boundaries.get(before[at]).copied().unwrap_or(0);
        let end = boundaries.get(after[at]).copied().unwrap_or(judge.clean.len());
        judge.evidence(start, boundaries[at], end)
    };
    let mut queue = BinaryHeap::with_capacity(count);
    let mut evidence: Vec<Evidence> = (0..count).map(|at| judged(at, &before, &after)).collect();
    queue.extend((0..count).map(|at| Queued { t: evidence[at].t, at, version: 0 }));
    while let Some(Queued { at, version, .. }) = queue.pop() {
        if !is_there[at] || versions[at] != version || judge.is_significant(&evidence[at]) {
            continue;
        }
        is_there[at] = false;
        let (left, right) = (before[at], after[at]);
        if left != none {
            after[left] = right;
        }
        if right != none {
            before[right] = left;
        }
        for neighbour in [left, right].into_iter().filter(|&neighbour| neighbour != none) {
            evidence[neighbour] = judged(neighbour, &before, &after);
            versions[neighbour] += 1;
            let (t, version) = (evidence[neighbour].t, versions[neighbour]);
            queue.push(Queued { t, at: neighbour, version });
        }
    }
    let left = boundaries.iter().zip(&is_there).filter(|(_, is_there)| **is_there);
    left.map(|(&place, _)| place).collect()
}

/// Moves each boundary to where its two levels fit best.
fn relocate(judge: &Judge<'_>, boundaries: &mut [usize]) {
    let clean = judge.clean;
    for at in 0..boundaries.len() {
        let start = at.checked_sub(1).map_or(0, |before| boundaries[before]);
        let end = boundaries.get(at + 1).copied().unwrap_or(clean.len());
        let place = boundaries[at];
        let from = (start + RUN_MIN).max(place.saturating_sub(MOVE_MAX));
        let to = (place + MOVE_MAX).min(end.saturating_sub(RUN_MIN));
        let (start, end) = around(start, place, end, WINDOW);
        // The sum of squares explained by a step here.
        let explained = |place: usize| {
            let difference = clean.mean(place, end) - clean.mean(start, place);
            let (before, after) = ((place - start) as f64, (end - place) as f64);
            difference * difference * before * after / (before + after)
        };
        if let Some(best) =
            (from..=to).max_by(|&a, &b| explained(a).total_cmp(&explained(b)).then(b.cmp(&a)))
        {
            boundaries[at] = best;
        }
    }
}

/// Removes the weakest from each run of boundaries that are not steps.
fn remove_weakest_of_no_steps(judge: &Judge<'_>, boundaries: &mut Vec<usize>) {
    let evidence = all_evidence(judge, boundaries);
    let is_step: Vec<bool> = neighbours(boundaries, judge.clean.len())
        .map(|(start, place, end)| judge.is_step(start, place, end))
        .collect();
    retain(boundaries, &weaker(&evidence, &is_step));
}

/// Rejected boundaries that are not stronger than a rejected neighbour. The neighbours of a removed boundary are judged
/// again, so of two only the weaker is removed.
fn weaker(evidence: &[Evidence], stays: &[bool]) -> Vec<bool> {
    let is_weaker = |at: usize, other: Option<usize>| {
        other.is_none_or(|other| {
            stays.get(other).is_none_or(|&stays| stays) || evidence[at].t <= evidence[other].t
        })
    };
    (0..stays.len())
        .map(|at| !stays[at] && is_weaker(at, at.checked_sub(1)) && is_weaker(at, Some(at + 1)))
        .collect()
}

fn retain<T>(all: &mut Vec<T>, goes: &[bool]) {
    let mut goes = goes.iter();
    all.retain(|_| !goes.next().unwrap_or(&false));
}

/// Removes the boundaries of outages: short departures from a level that continues after them, whatever their height,
/// such as a host that was busy for an afternoon. Returns whether there were any.
///
/// Adjacent outages are treated together: levels that alternate every few points are an unstable
/// stretch, not each other's outages. Between two different levels, the clearest step of such a
/// stretch remains.
fn remove_outages(judge: &Judge<'_>, boundaries: &mut Vec<usize>) -> bool {
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
