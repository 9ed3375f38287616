//! Seeded random numbers for resampling and for the order of measurements.
//!
//! Own code, because a seed must give the same results on every machine and in every later version, which random-number
//! crates guarantee only in part. Not for secrets.

use crate::normal;

/// xoshiro256++ 1.0 by David Blackman and Sebastiano Vigna ("Scrambled linear pseudorandom number
/// generators", ACM TOMS 47, 2021; reference code in the public domain at prng.di.unimi.it), seeded
/// by SplitMix64 as its authors advise. Period 2²⁵⁶ − 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// A generator; the same seed gives the same numbers. Every seed is a good one.
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        // Consecutive outputs of SplitMix64 differ, so not all four words are 0, which is the one
        // state that xoshiro must not have.
        Self { state: [(); 4].map(|()| split_mix(&mut state)) }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// A number from 0 to `n − 1`, each with exactly the same probability. 0 if `n` is 0.
    ///
    /// Lemire, "Fast random integer generation in an interval", ACM TOMACS 29 (2019).
    pub fn below(&mut self, n: usize) -> usize {
        let n = n as u64;
        loop {
            let product = u128::from(self.bits()) * u128::from(n);
            let low = product as u64;
            // `n.wrapping_neg() % n` is 2⁶⁴ mod n, the number of surplus products. The division is needed only when
            // `low < n`.
            if low >= n || low >= n.wrapping_neg().checked_rem(n).unwrap_or(0) {
                return (product >> 64) as usize;
            }
        }
    }

    /// A number from 0 up to, but not, 1; a multiple of 2⁻⁵³.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// A standard normal value.
    pub fn normal(&mut self) -> f64 {
        normal::quantile(self.unit().max(f64::EPSILON))
    }

    /// A fair coin.
    pub fn coin(&mut self) -> bool {
        self.bits() >> 63 == 1
    }

    /// Shuffles values, each order with the same probability. Durstenfeld, Algorithm 235, CACM 7
    /// (1964).
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for last in (1..values.len()).rev() {
            let other = self.below(last + 1);
            values.swap(last, other);
        }
    }
}

/// Numbers from 0 to `n − 1`, each with exactly the same probability, two from each 64 random bits.
///
/// Half the price of [`Random::below`], for resampling. The method is the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    random: Random,
    n: u32,
    /// 2³² mod n, the number of surplus products.
    surplus: u32,
    spare: Option<u32>,
}

impl Places {
    /// Numbers below `n`; all are 0 if `n` is 0.
    pub fn new(n: u32, seed: u64) -> Self {
        let surplus = n.wrapping_neg().checked_rem(n).unwrap_or(0);
        Self { random: Random::new(seed), n, surplus, spare: None }
    }

    /// The next number.
    #[inline]
    pub fn place(&mut self) -> usize {
        loop {
            let bits = self.spare.take().unwrap_or_else(|| {
                let bits = self.random.bits();
                self.spare = Some(bits as u32);
                (bits >> 32) as u32
            });
            let product = u64::from(bits) * u64::from(self.n);
            if product as u32 >= self.surplus {
                return (product >> 32) as usize;
            }
        }
    }
}

/// One step of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
/// OOPSLA 2014; constants of Vigna's reference code).
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    /// Well-known first outputs of SplitMix64 with seed 1234567.
    #[test]
    fn seeds_are_spread_as_published() {
        let mut state = 1_234_567;
        let found = [(); 5].map(|()| split_mix(&mut state));
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(found, expected);
    }

    /// Outputs of the reference code from the state 1, 2, 3, 4, as other implementations test them.
    #[test]
    fn bits_are_those_of_the_reference() {
        let mut random = Random { state: [1, 2, 3, 4] };
        let found = [(); 10].map(|()| random.bits());
        let expected = [
            41_943_041,
            58_720_359,
            3_588_806_011_781_223,
            3_591_011_842_654_386,
            9_228_616_714_210_784_205,
            9_973_669_472_204_895_162,
            14_011_001_112_246_962_877,
            12_406_186_145_184_390_807,
            15_849_039_046_786_891_736,
            10_450_023_813_501_588_000,
        ];
        assert_eq!(found, expected);
    }

    /// 60,000 throws of a die: χ² with 5 degrees of freedom is above 20.5 once in 1,000 seeds.
    #[test]
    fn faces_come_equally_often() {
        let mut random = Random::new(1);
        let mut counts = [0_u32; 6];
        for _ in 0..60_000 {
            counts[random.below(6)] += 1;
        }
        let chi: f64 = counts.iter().map(|&count| (f64::from(count) - 1e4).powi(2) / 1e4).sum();
        assert!(chi < 20.5, "{counts:?}");
    }

    /// For n = 3 · 2⁶² four 64-bit numbers map to three results: the naive method gives every third result twice as
    /// often.
    #[test]
    fn large_ranges_are_fair_too() {
        let mut random = Random::new(2);
        let thirds = (0..30_000).filter(|_| random.below(3 << 62).is_multiple_of(3)).count();
        // Standard deviation 82.
        assert!(thirds.abs_diff(10_000) < 330, "{thirds}");
    }

    #[test]
    fn places_are_fair() {
        let mut places = Places::new(3 << 30, 6);
        let thirds = (0..30_000).filter(|_| places.place().is_multiple_of(3)).count();
        assert!(thirds.abs_diff(10_000) < 330, "{thirds}");
        let mut places = Places::new(6, 6);
        let mut pairs = [0_u32; 36];
        for _ in 0..36_000 {
            // Pairs, because two come from the same bits.
            pairs[places.place() * 6 + places.place()] += 1;
        }
        // χ² with 35 degrees of freedom, above 66.6 once in 1,000 seeds.
        let chi: f64 = pairs.iter().map(|&count| (f64::from(count) - 1e3).powi(2) / 1e3).sum();
        assert!(chi < 66.6, "{pairs:?}");
    }

    #[test]
    fn coins_and_units_are_fair() {
        let mut random = Random::new(3);
        let heads = (0..40_000).filter(|_| random.coin()).count();
        assert!(heads.abs_diff(20_000) < 400, "{heads}");
        let sum: f64 = (0..40_000).map(|_| random.unit()).sum();
        assert!((sum / 40_000.0 - 0.5).abs() < 0.006, "{sum}");
    }

    /// All 24 orders of four values: χ² with 23 degrees of freedom, above 49.7 once in 1,000 seeds.
    #[test]
    fn orders_come_equally_often() {
        let mut random = Random::new(4);
        let mut counts = std::collections::BTreeMap::<[u8; 4], u32>::new();
        for _ in 0..24_000 {
            let mut values = [0, 1, 2, 3];
            random.shuffle(&mut values);
            *counts.entry(values).or_default() += 1;
        }
        assert_eq!(counts.len(), 24);
        let chi: f64 = counts.values().map(|&count| (f64::from(count) - 1e3).powi(2) / 1e3).sum();
        assert!(chi < 49.7, "{counts:?}");
    }

    proptest! {
        #[test]
        fn numbers_stay_below(seed: u64, n: usize) {
            let number = Random::new(seed).below(n);
            prop_assert!(number < n || (n == 0 && number == 0));
        }

        #[test]
        fn places_stay_below(seed: u64, n: u32) {
            let place = Places::new(n, seed).place();
            prop_assert!(place < n as usize || (n == 0 && place == 0));
        }

        #[test]
        fn shuffling_keeps_the_values(seed: u64, values in vec(any::<u8>(), 0..30)) {
            let mut shuffled = values.clone();
            Random::new(seed).shuffle(&mut shuffled);
            let sorted = |mut values: Vec<u8>| {
                values.sort_unstable();
                values
            };
            prop_assert_eq!(sorted(shuffled), sorted(values));
        }

        #[test]
        fn units_stay_below_1(seed: u64) {
            prop_assert!((0.0..1.0).contains(&Random::new(seed).unit()));
        }
    }
}
