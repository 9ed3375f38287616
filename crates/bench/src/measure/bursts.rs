//! Times of bursts that took turns within one run.

use wingbeat_stats::sample::Sample;

use crate::{analyse::compare::Pair, instrument::wrapper::alternate::neighbours};

/// Share of the pairs of bursts that is cut off at each end.
const TRIMMED: f64 = 0.25;

/// Which of the bursts of a run, from the fastest, is taken for undisturbed.
const FASTEST: f64 = 0.05;

/// Times per call of neighbouring bursts of the first and the second side, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Bursts(Vec<[f64; 2]>);

impl Bursts {
    pub(super) fn of(times: &[(u8, f64)]) -> Self {
        Self(neighbours(times).filter(|pair| pair.iter().all(|&ns| ns > 0.0)).collect())
    }

    /// Time per call of one side: the mean of the middle half of its bursts.
    pub(super) fn side_ns(&self, side: usize) -> Option<f64> {
        middle(self.0.iter().map(|pair| pair[side]))
    }

    /// Time per call of one side while nothing disturbs: its fastest twentieth.
    pub(super) fn floor_ns(&self, side: usize) -> Option<f64> {
        let times = self.0.iter().map(|pair| pair[side]).collect();
        Sample::new(times).ok().map(|sample| sample.quantile(FASTEST))
    }

    /// How much longer a call of the second side takes, by neighbours, which what disturbs meets alike.
    pub(super) fn difference_ns(&self) -> Option<f64> {
        middle(self.0.iter().map(|[first, second]| second - first))
    }

    /// One pair of times from all neighbours: their ratio is that of neighbours.
    pub(super) fn pair(&self) -> Option<Pair> {
        let ratio = middle(self.0.iter().map(|[first, second]| (second / first).ln()))?.exp();
        let before_ns = self.side_ns(0)?;
        Some(Pair { before_ns, after_ns: before_ns * ratio })
    }
}

fn middle(values: impl Iterator<Item = f64>) -> Option<f64> {
    Sample::new(values.collect()).ok().map(|sample| sample.trimmed_mean(TRIMMED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_compared() {
        // The machine became twice as slow in the middle.
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
}
