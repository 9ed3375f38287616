//! The possible kinds of noise.

/// Degrees of freedom of Student's t distribution that usual values have, with their prior
/// probabilities: normal to very heavy.
pub(super) const TAILS: [(f64, f64); 4] =
    [(f64::INFINITY, 0.4), (5.0, 0.3), (3.0, 0.2), (2.0, 0.1)];

/// Shares of values that are spikes, with their prior probabilities. A share of 0 has no spike size.
pub(super) const SHARES: [(f64, f64); 6] =
    [(0.0, 0.4), (0.01, 0.12), (0.03, 0.12), (0.08, 0.12), (0.15, 0.12), (0.22, 0.12)];

/// How many times as wide as usual values spikes are.
pub(super) const SIZES: [f64; 3] = [4.0, 12.0, 40.0];

/// Prior probabilities of [`SIZES`]: in public histories hardly any spike is beyond 30 spreads.
const SIZE_PRIORS: [f64; SIZES.len()] = [0.1, 0.85, 0.05];

/// Degrees of freedom of spikes: any size is possible, larger ones are rarer.
pub(super) const SPIKE_DEGREES: f64 = 3.0;

/// Kinds with the same tail.
const OF_TAIL: usize = 1 + (SHARES.len() - 1) * SIZES.len();

/// The number of kinds.
pub(super) const KINDS: usize = TAILS.len() * OF_TAIL;

/// Probabilities of the kinds of noise.
#[derive(Debug, Clone, PartialEq)]
pub struct Kinds(pub(super) [f64; KINDS]);

/// One kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Kind {
    /// Place in [`TAILS`].
    pub(super) tail: usize,
    pub(super) share: f64,
    /// Place in [`SIZES`].
    pub(super) size: usize,
}

impl Kind {
    pub(super) fn at(place: usize) -> Self {
        let (tail, rest) = (place / OF_TAIL, place % OF_TAIL);
        match rest.checked_sub(1) {
            None => Self { tail, share: SHARES[0].0, size: 0 },
            Some(rest) => {
                Self { tail, share: SHARES[1 + rest / SIZES.len()].0, size: rest % SIZES.len() }
            }
        }
    }
}

impl Default for Kinds {
    /// The prior.
    fn default() -> Self {
        Self(std::array::from_fn(|place| {
            let tail = TAILS[place / OF_TAIL].1;
            match (place % OF_TAIL).checked_sub(1) {
                None => tail * SHARES[0].1,
                Some(rest) => {
                    let share = SHARES[1 + rest / SIZES.len()].1;
                    tail * share * SIZE_PRIORS[rest % SIZES.len()]
                }
            }
        }))
    }
}

/// What the series of a report have in common.
#[derive(Debug, Clone, PartialEq)]
pub struct Common {
    /// Probabilities of the kinds, by all series.
    kinds: Kinds,
    /// Their prior probabilities.
    prior: Kinds,
    count: usize,
}

/// Number of EM rounds between the kinds of each series and those of all. After these they hardly change.
const ROUNDS: usize = 20;

impl Common {
    /// From series whose kinds were computed separately, from [`Kinds::default`] (empirical Bayes,
    /// by the EM algorithm). The prior counts as one more series.
    #[must_use]
    pub fn of(series: &[&Kinds]) -> Self {
        let prior = Kinds::default();
        let mut common = Self { kinds: prior.clone(), prior, count: series.len() };
        for _ in 0..ROUNDS {
            let factors = common.factors();
            // The common factors are applied at the end.
            let mut sum = [0.0; KINDS];
            for one in series {
                let part = 1.0 / product(&factors, one);
                sum.iter_mut().zip(&one.0).for_each(|(sum, chance)| *sum += part * chance);
            }
            let all = common.count as f64 + 1.0;
            let prior = &common.prior.0;
            common.kinds =
                Kinds(std::array::from_fn(|at| (prior[at] + factors[at] * sum[at]) / all));
        }
        common
    }

    /// How many series there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The kinds expected of one of the series, given all others.
    #[must_use]
    pub fn without(&self, one: &Kinds) -> Kinds {
        let factors = self.factors();
        let part = 1.0 / product(&factors, one);
        let all = self.count as f64 + 1.0;
        let others = self.count.max(1) as f64;
        Kinds(std::array::from_fn(|at| {
            // Posterior of the series itself, given all others.
            let own = factors[at] * one.0[at] * part;
            // Never below the prior, against rounding.
            ((self.kinds.0[at] * all - own) / others).max(self.prior.0[at] / all)
        }))
    }

    /// Ratio of posterior to prior of each kind, by all series.
    fn factors(&self) -> [f64; KINDS] {
        std::array::from_fn(|at| self.kinds.0[at] / self.prior.0[at])
    }
}

fn product(factors: &[f64; KINDS], one: &Kinds) -> f64 {
    factors.iter().zip(&one.0).map(|(factor, chance)| factor * chance).sum()
}
