//! The spread of a series expected from other series, before its own values are considered.

use crate::sample::quantile_of_sorted;

/// Minimum number of series.
const SERIES_MIN: usize = 5;

/// Variance of the logarithm of a spread, times the number of values less one, for normal values.
const LOG_SPREAD_VARIANCE: f64 = 0.7;

/// The prior of a series' spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpreadPrior {
    /// Logarithm of the spread as a share of the level.
    pub log_share: f64,
    /// Its variance between series.
    pub variance: f64,
}

impl SpreadPrior {
    /// Computes the prior from spreads of several series, as shares of their levels, with the number of values of each.
    ///
    /// Shares of 0 contain no information and are ignored. `None` if fewer than five remain.
    #[must_use]
    pub fn from_shares(shares: impl IntoIterator<Item = (f64, usize)>) -> Option<Self> {
        let by_chance = |values: usize| LOG_SPREAD_VARIANCE / (values as f64 - 1.0);
        let known = shares.into_iter().filter(|&(share, values)| share.is_normal() && values > 1);
        let known: Vec<(f64, f64)> =
            known.map(|(share, values)| (share.abs().ln(), by_chance(values))).collect();
        if known.len() < SERIES_MIN {
            return None;
        }
        let mut logs: Vec<f64> = known.iter().map(|(log, _)| *log).collect();
        logs.sort_unstable_by(f64::total_cmp);
        let quantile = |q| quantile_of_sorted(&logs, q);
        // Quartiles of normal values lie 1.349 standard deviations apart.
        let seen = ((quantile(0.75) - quantile(0.25)) / 1.349).powi(2);
        let by_chance = known.iter().map(|(_, variance)| variance).sum::<f64>() / logs.len() as f64;
        // The median of few series is uncertain, too.
        let doubt = (seen.max(by_chance)) / logs.len() as f64;
        Some(Self { log_share: quantile(0.5), variance: (seen - by_chance).max(0.0) + doubt })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_that_are_alike_say_more() {
        let alike = SpreadPrior::from_shares((0..20).map(|_| (0.05, 10))).expect("enough");
        assert!((alike.log_share.exp() - 0.05).abs() < 1e-9 && alike.variance < 0.01, "{alike:?}");
        let shares = (0..20).map(|i| (0.001 * 1.6_f64.powi(i), 10));
        assert!(SpreadPrior::from_shares(shares).is_some_and(|unlike| unlike.variance > 3.0));
        assert_eq!(SpreadPrior::from_shares([(0.0, 10), (0.1, 10)]), None);
    }
}
