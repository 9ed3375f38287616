//! The test of paired differences by their signed ranks.

use super::{EXACT_MAX, RankTest, ranks};
use crate::sample::Sample;

/// Do differences lie to one side of 0? Two-sided.
///
/// `W⁺`: the sum of the ranks, by amount, of the positive differences. Differences of 0 are left out,
/// as Wilcoxon did. Exact for up to [`EXACT_MAX`] differences if none is 0 and no two are equal by
/// amount, else normal with variance `n (n + 1) (2n + 1) / 24 − Σ(t³ − t) / 48` over groups of t equal
/// amounts, and continuity correction ½. Wilcoxon, Biometrics Bulletin 1 (1945).
///
/// Assumes differences that are symmetric about their middle. Chance 1 for a single difference, and
/// if all are 0.
pub fn wilcoxon(differences: &Sample) -> RankTest {
    let others = differences.values().iter().filter(|difference| **difference != 0.0);
    let mut others: Vec<f64> = others.copied().collect();
    others.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let amounts: Vec<f64> = others.iter().map(|difference| difference.abs()).collect();
    let (ranks, ties) = ranks(&amounts);
    let positive = ranks.iter().zip(&others).filter(|(_, difference)| **difference > 0.0);
    let statistic: f64 = positive.map(|(rank, _)| rank).sum();
    let has_zeros = others.len() < differences.len();
    if ties == 0.0 && !has_zeros && others.len() <= EXACT_MAX {
        return RankTest::exact(statistic as usize, &signs(others.len()));
    }
    let n = others.len() as f64;
    let mean = n * (n + 1.0) / 4.0;
    RankTest::normal(statistic, mean, n * (n + 1.0) * (2.0 * n + 1.0) / 24.0 - ties / 48.0)
}

/// In how many of the 2ⁿ ways to sign the ranks 1 to n the positive ones sum to 0, 1, 2 …
fn signs(n: usize) -> Vec<f64> {
    let mut ways = vec![0.0; n * (n + 1) / 2 + 1];
    if let Some(none) = ways.first_mut() {
        *none = 1.0;
    }
    for rank in 1..=n {
        let before = ways.clone();
        for (way, add) in ways.iter_mut().skip(rank).zip(before) {
            *way += add;
        }
    }
    ways
}
