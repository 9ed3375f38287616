//! The step of rounded values, which bounds their spread from below.

/// The smallest difference between two values, ignoring `f64` rounding.
///
/// `None` if the values do not show it: all are equal, or there are two different ones of which one occurs once
/// (possibly a spike) or stays once it occurs (possibly a change).
#[must_use]
pub fn smallest_step(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let (first, last) = (*sorted.first()?, *sorted.last()?);
    let least = first.abs().max(last.abs()) * 1e-12;
    let steps = sorted.windows(2).map(|pair| pair[1] - pair[0]).filter(|&step| step > least);
    if steps.clone().count() == 1 {
        let is_upper = |value: f64| last - value <= least;
        let upper = values.iter().filter(|value| is_upper(**value)).count();
        let pairs = values.windows(2);
        let turns = pairs.filter(|pair| is_upper(pair[0]) != is_upper(pair[1])).count();
        if upper.min(values.len() - upper) < 2 || turns < 2 {
            return None;
        }
    }
    steps.reduce(f64::min)
}

/// The largest power of ten that divides the value: the step suggested by its digits. 0 for 0.
#[must_use]
pub fn decimal_step(value: f64) -> f64 {
    let size = value.abs();
    if !size.is_normal() {
        return 0.0;
    }
    let top = size.log10().floor() as i32;
    let is_multiple = |step: f64| {
        let times = size / step;
        (times - times.round()).abs() <= 1e-9 * times.max(1.0)
    };
    (0..=15).map(|digits| 10_f64.powi(top - digits)).find(|&step| is_multiple(step)).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_values() {
        assert_eq!(smallest_step(&[3.0, 1.0, 1.5, 3.0]), Some(0.5));
        assert_eq!(smallest_step(&[3.0, 1.0, 3.0]), None);
        assert_eq!(smallest_step(&[3.0, 1.0, 3.0, 1.0]), Some(2.0));
        assert_eq!(smallest_step(&[3.0, 3.0, 1.0, 1.0]), None);
        assert_eq!(smallest_step(&[3.0, 3.0]), None);
        assert_eq!(smallest_step(&[]), None);
        let check = |value, expected: f64| {
            let found = decimal_step(value);
            assert!((found - expected).abs() <= 1e-9 * expected, "{value}: {found}");
        };
        check(100.0, 100.0);
        check(51.0, 1.0);
        check(0.25, 0.01);
        check(2e6, 1e6);
        check(0.0, 0.0);
        check(-20.0, 10.0);
    }
}
