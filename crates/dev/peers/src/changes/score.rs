//! How well found changes agree with the truth.

use super::series::Made;

/// A change counts as found up to so many points beside its place.
pub(super) const MARGIN: usize = 5;

/// Counts over any number of series.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Score {
    pub(super) points: usize,
    pub(super) changes: usize,
    pub(super) found: usize,
    pub(super) reported: usize,
    /// Distances of the found from the true places, added up.
    pub(super) off: usize,
}

impl Score {
    /// Of one series: each reported change finds at most one true one, the nearest first.
    pub(super) fn of(points: usize, changes: &[usize], reported: &[usize]) -> Self {
        let mut pairs = Vec::new();
        for (a, &change) in changes.iter().enumerate() {
            let all = reported.iter().enumerate();
            let near = all.map(|(b, &place)| (change.abs_diff(place), a, b));
            pairs.extend(near.filter(|(distance, ..)| *distance <= MARGIN));
        }
        pairs.sort_unstable();
        let (mut is_found, mut is_used) = (vec![false; changes.len()], vec![false; reported.len()]);
        let (mut found, mut off) = (0, 0);
        for (distance, a, b) in pairs {
            if !is_found[a] && !is_used[b] {
                (is_found[a], is_used[b]) = (true, true);
                found += 1;
                off += distance;
            }
        }
        Self { points, changes: changes.len(), found, reported: reported.len(), off }
    }

    /// Of many series, each with what was reported of it.
    pub(super) fn of_all<'a>(
        series: impl IntoIterator<Item = &'a Made>,
        reported: impl Iterator<Item = &'a Vec<usize>>,
    ) -> Self {
        let each = series.into_iter().zip(reported);
        let each = each.map(|(made, found)| Self::of(made.values.len(), &made.changes, found));
        each.fold(Self::default(), Self::and)
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self {
            points: self.points + other.points,
            changes: self.changes + other.changes,
            found: self.found + other.found,
            reported: self.reported + other.reported,
            off: self.off + other.off,
        }
    }

    /// Share of the changes that were found.
    pub(super) fn recall(self) -> f64 {
        self.found as f64 / self.changes as f64
    }

    /// Share of the reported changes that are there.
    pub(super) fn precision(self) -> f64 {
        self.found as f64 / self.reported as f64
    }

    /// 2 · found ÷ (changes + reported), the harmonic mean of precision and recall.
    pub(super) fn f1(self) -> f64 {
        2.0 * self.found as f64 / (self.changes + self.reported) as f64
    }

    /// Reported changes that are not there, per 1,000 points.
    pub(super) fn false_per_1000(self) -> f64 {
        1000.0 * (self.reported - self.found) as f64 / self.points as f64
    }

    /// Mean distance of the found changes from their true place, in points.
    pub(super) fn mean_off(self) -> f64 {
        self.off as f64 / self.found as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_counted_once() {
        let check = |changes: &[usize], reported: &[usize], found, off| {
            let score = Score::of(100, changes, reported);
            assert_eq!((score.found, score.off), (found, off), "{changes:?} {reported:?}");
        };
        check(&[], &[], 0, 0);
        check(&[20], &[20], 1, 0);
        check(&[20], &[25], 1, 5);
        check(&[20], &[14], 0, 0);
        check(&[20], &[18, 21], 1, 1);
        check(&[20, 24], &[22], 1, 2);
        check(&[20, 24], &[21, 23], 2, 2);
        check(&[20, 24], &[24, 28], 1, 0);
    }

    #[test]
    fn figures() {
        let score = Score { points: 2000, changes: 10, found: 6, reported: 8, off: 3 };
        assert_eq!(score.recall(), 0.6);
        assert_eq!(score.precision(), 0.75);
        assert_eq!(score.f1(), 12.0 / 18.0);
        assert_eq!(score.false_per_1000(), 1.0);
        assert_eq!(score.mean_off(), 0.5);
        assert_eq!(score.and(score).found, 12);
    }
}
