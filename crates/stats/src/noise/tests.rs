//! Probabilities of values, the uncertainty of few values, and newest values that agree with each other.

use super::*;
use crate::random::Random;

fn noise(values: &[f64]) -> (Usual, Noise) {
    let usual = Usual::of(&[values], 1e-9).expect("values");
    let noise = Noise::of(&usual, &Kinds::default(), None);
    (usual, noise)
}

fn values(count: usize, spikes: f64, seed: u64) -> Vec<f64> {
    let mut random = Random::new(seed);
    let mut one = || {
        let value = random.normal();
        let size = 5.0 + 15.0 * random.unit();
        if random.unit() < spikes { value + size } else { value }
    };
    (0..count).map(|_| one()).collect()
}

fn run(errors: &[f64]) -> Vec<Value> {
    errors.iter().map(|&error| Value { error, correlation: 0.0 }).collect()
}

#[test]
fn chances_are_those_of_the_noise() {
    let (_, many) = noise(&values(2_000, 0.0, 1));
    for size in [1.0, 2.0, 3.0] {
        let expected = 2.0 * normal::cdf(-size);
        let found = many.chance_of_usual(size) + many.chance_of_spikes(size, 1);
        assert!((found / expected - 1.0).abs() < 0.3, "{size}: {found} {expected}");
    }
    assert!((many.limit(0.0027) - 3.0).abs() < 0.3, "{}", many.limit(0.0027));
    let (_, spiky) = noise(&values(2_000, 0.15, 2));
    assert!((spiky.limit(0.0027) - 3.0).abs() < 0.4, "{}", spiky.limit(0.0027));
    assert!((spiky.chance_of_spikes(10.0, 1) / 0.1 - 1.0).abs() < 0.3);
    let whole: f64 = spiky.kinds().0.iter().sum();
    assert!((whole - 1.0).abs() < 1e-9, "{whole}");
}

#[test]
fn few_values_doubt_more() {
    let limits: Vec<f64> = [5, 10, 30, 300]
        .iter()
        .map(|&count| noise(&values(count, 0.0, 3)).1.limit(0.002))
        .collect();
    assert!(limits.is_sorted_by(|a, b| a > b), "{limits:?}");
    let unseen = noise(&values(10, 0.0, 4)).1.chance_of_spikes(8.0, 1);
    assert!((0.003..0.05).contains(&unseen), "{unseen}");
    let unlikely = noise(&values(400, 0.0, 4)).1.chance_of_spikes(8.0, 1);
    assert!(unlikely < 0.000_5, "{unlikely}");
}

/// Spikes scatter, values of a new level agree. But spikes that always had one size agree too.
#[test]
fn what_agrees_is_a_level() {
    let (usual, spiky) = noise(&values(400, 0.2, 5));
    let ratio = |errors: &[f64]| spiky.ratio(&run(errors), usual.level_doubt());
    assert!(ratio(&[8.0, 7.5, 8.6]) > 60.0, "{}", ratio(&[8.0, 7.5, 8.6]));
    assert!(ratio(&[8.0, 11.0, 15.0]) < 30.0, "{}", ratio(&[8.0, 11.0, 15.0]));
    assert!(ratio(&[8.0]) < 10.0, "{}", ratio(&[8.0]));
    assert!(ratio(&[0.5, 0.3, -0.2]) < 1.0);
    let two: Vec<f64> = values(100, 0.0, 6)
        .iter()
        .enumerate()
        .map(|(place, value)| if place % 5 == 0 { value + 8.0 } else { *value })
        .collect();
    let (usual, two) = noise(&two);
    let again = [8.0, 7.5, 8.6].map(|value| value / usual.spread);
    let ratio = two.ratio(&run(&again), usual.level_doubt());
    assert!(ratio < 30.0, "{ratio}");
}

#[test]
fn neighbours_that_hang_together_say_less() {
    let (usual, noise) = noise(&values(100, 0.0, 7));
    let ratio = |correlation| {
        let run: Vec<Value> =
            [2.5, 2.2, 2.6].iter().map(|&error| Value { error, correlation }).collect();
        noise.ratio(&run, usual.level_doubt())
    };
    assert!(ratio(0.7) < ratio(0.0) / 5.0, "{} {}", ratio(0.7), ratio(0.0));
}

#[test]
fn others_say_what_is_likely() {
    let (_, spiky) = noise(&values(200, 0.2, 8));
    let (_, clean) = noise(&values(200, 0.0, 9));
    let usual = Usual::of(&[&values(10, 0.0, 10)], 0.0).expect("values");
    let among = |others: &Noise| {
        let (kinds, own) = (others.kinds(), Noise::of(&usual, &Kinds::default(), None).kinds());
        let series: Vec<&Kinds> = [&kinds; 10].into_iter().chain([&own]).collect();
        let common = Common::of(&series);
        assert_eq!(common.count(), 11);
        let expected = common.without(&own);
        assert!((expected.0.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        Noise::of(&usual, &expected, None).chance_of_spikes(8.0, 1)
    };
    assert!(among(&spiky) > 3.0 * among(&clean), "{} {}", among(&spiky), among(&clean));
}

/// Ten short histories together show their share of spikes.
#[test]
fn many_short_histories_are_a_long_one() {
    let kinds: Vec<Kinds> =
        (0..60).map(|seed| noise(&values(12, 0.2, 40 + seed)).1.kinds()).collect();
    let series: Vec<&Kinds> = kinds.iter().collect();
    let clean = Usual::of(&[&values(12, 0.0, 11)], 0.0).expect("values");
    let alone = Noise::of(&clean, &Kinds::default(), None);
    let among = Noise::of(&clean, &Common::of(&series).without(&kinds[0]), None);
    let again = alone.with_kinds(&Kinds::default(), &Common::of(&series).without(&kinds[0]));
    for size in [0.5, 2.0, 8.0, 100.0] {
        let chances = [&among, &again].map(|noise| noise.chance_of_usual(size));
        assert!((chances[0] / chances[1] - 1.0).abs() < 1e-9, "{chances:?}");
    }
    let (alone, among) = (alone.chance_of_spikes(8.0, 3), among.chance_of_spikes(8.0, 3));
    assert!(among > 4.0 * alone, "{alone} {among}");
}
