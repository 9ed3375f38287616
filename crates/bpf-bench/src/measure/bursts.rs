//! Times of bursts that alternated within one run.

use wingbeat_stats::sample::Sample;

use crate::{
    analyse::compare::Pair,
    instrument::wrapper::alternate::{SIDES, neighbours},
};

/// Share of burst pairs trimmed at each end.
const TRIMMED: f64 = 0.25;

/// Quantile of the bursts of a run that counts as undisturbed.
const FASTEST: f64 = 0.05;

/// Times per call of neighbouring bursts of the first and the second side, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Bursts {
    pairs: Vec<[f64; 2]>,
    /// How much smaller the overhead is than the subtracted one when nothing disturbs.
    less_off_ns: f64,
    /// Last return value of the second side, if packets are restored.
    pub(super) returned: Option<u32>,
}

impl Bursts {
    pub(super) fn of(times: &[(u8, f64)]) -> Self {
        Self { pairs: sound(neighbours::<2>(times)), less_off_ns: 0.0, returned: None }
    }

    /// For programs whose packet is restored after each call, without the time of restoring: two
    /// more sides are an empty function with and without it.
    pub(super) fn restored(times: &[(u8, f64)], returned: u32) -> Self {
        let groups: Vec<_> = neighbours::<SIDES>(times).collect();
        let usual = middle(groups.iter().map(|[_, _, restoring, nothing]| restoring - nothing));
        let usual_ns = usual.unwrap_or(0.0).max(0.0);
        let least = |side: usize| fastest(groups.iter().map(|group| group[side]));
        let least_ns = least(2).zip(least(3)).map_or(usual_ns, |(it, nothing)| it - nothing);
        let pairs = groups.iter().map(|&[a, b, ..]| [a - usual_ns, b - usual_ns]);
        let less_off_ns = usual_ns - least_ns;
        Self { pairs: sound(pairs), less_off_ns, returned: Some(returned) }
    }

    /// Time per call of one side: the mean of the middle half of its bursts.
    pub(super) fn side_ns(&self, side: usize) -> Option<f64> {
        middle(self.pairs.iter().map(|pair| pair[side]))
    }

    /// Undisturbed time per call of one side: the 5th percentile of its bursts.
    pub(super) fn floor_ns(&self, side: usize) -> Option<f64> {
        let least_ns = fastest(self.pairs.iter().map(|pair| pair[side]))?;
        Some(least_ns + self.less_off_ns)
    }

    /// Time difference per call between the second and the first side, by neighbours, which are disturbed equally.
    pub(super) fn difference_ns(&self) -> Option<f64> {
        middle(self.pairs.iter().map(|[first, second]| second - first))
    }

    /// One pair of times from all neighbours: their ratio is that of neighbours.
    pub(super) fn pair(&self) -> Option<Pair> {
        let ratio = middle(self.pairs.iter().map(|[first, second]| (second / first).ln()))?.exp();
        let before_ns = self.side_ns(0)?;
        Some(Pair { before_ns, after_ns: before_ns * ratio })
    }
}

fn sound(pairs: impl Iterator<Item = [f64; 2]>) -> Vec<[f64; 2]> {
    pairs.filter(|pair| pair.iter().all(|&ns| ns > 0.0)).collect()
}

fn fastest(values: impl Iterator<Item = f64>) -> Option<f64> {
    Sample::new(values.collect()).ok().map(|sample| sample.quantile(FASTEST))
}

fn middle(values: impl Iterator<Item = f64>) -> Option<f64> {
    Sample::new(values.collect()).ok().map(|sample| sample.trimmed_mean(TRIMMED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_compared() {
        // The machine becomes twice as slow in the middle.
        let times = [
            (0, 10.0),
            (1, 11.0),
            (1, 22.0),
            (0, 20.0),
            (0, 20.0),
            (1, 22.0),
            (1, 11.0),
            (0, 10.0),
        ];
        let bursts = Bursts::of(&times);
        let pair = bursts.pair().expect("a pair");
        assert!((pair.after_ns / pair.before_ns - 1.1).abs() < 1e-9, "{pair:?}");
        assert_eq!(bursts.side_ns(0), Some(15.0));
        assert_eq!(bursts.difference_ns(), Some(1.5));
        assert_eq!(Bursts::of(&[]).pair(), None);
    }

    #[test]
    fn what_puts_packets_back_is_taken_off() {
        // Restoring takes 20 ns, the loop 1.
        let group = [(2, 21.0), (1, 90.0), (3, 1.0), (0, 30.0)];
        let bursts = Bursts::restored(&group.repeat(8), 2);
        assert_eq!((bursts.side_ns(0), bursts.side_ns(1)), (Some(10.0), Some(70.0)));
        assert_eq!(bursts.difference_ns(), Some(60.0));
        let pair = bursts.pair().expect("a pair");
        assert!((pair.after_ns / pair.before_ns - 7.0).abs() < 1e-9, "{pair:?}");
    }
}
