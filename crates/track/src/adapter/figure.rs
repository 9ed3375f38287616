//! An optional number in a tool's JSON: tools write `null`, `"NaN"` or `""` for figures that they could not compute.
//! Text that is not a number fails only its own benchmark.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};

use super::unit::number;
use crate::model::Metric;

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Figure(pub Option<f64>);

impl Figure {
    /// Converts the number to another unit. `factor` is the size of this unit in the other.
    pub(super) fn scaled(self, factor: f64) -> Option<f64> {
        self.0.map(|value| value * factor)
    }
}

/// Deserializes a required figure.
pub(super) fn required<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Figure, D::Error> {
    Figure::deserialize(deserializer)
}

/// A metric of a value and a symmetric spread, if there is a value. `factor` converts the figures and the samples to
/// units of the measure.
pub(super) fn around(
    value: Figure,
    spread: Figure,
    samples: &[Figure],
    factor: f64,
) -> Option<Metric> {
    let value = value.scaled(factor)?;
    let samples = samples.iter().filter_map(|sample| sample.scaled(factor)).collect();
    Some(Metric::new(value).with_error(spread.scaled(factor)).with_samples(samples))
}

impl<'de> Deserialize<'de> for Figure {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;

        impl<'de> Visitor<'de> for Number {
            type Value = Figure;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Figure, E> {
                Ok(Figure(Some(value).filter(|value| value.is_finite())))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Figure, E> {
                Ok(Figure(Some(value as f64)))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Figure, E> {
                Ok(Figure(Some(value as f64)))
            }

            fn visit_none<E: Error>(self) -> Result<Figure, E> {
                Ok(Figure(None))
            }

            fn visit_some<D: Deserializer<'de>>(self, some: D) -> Result<Figure, D::Error> {
                some.deserialize_any(self)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Figure, E> {
                Ok(Figure(number(text)))
            }
        }

        deserializer.deserialize_option(Number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_as_tools_write_them() {
        let check = |text, expected| {
            let found = serde_json::from_str::<Figure>(text).ok();
            assert_eq!(found, expected, "{text}");
        };
        check("1.5", Some(Figure(Some(1.5))));
        check("-3", Some(Figure(Some(-3.0))));
        check("\"2.5\"", Some(Figure(Some(2.5))));
        for nothing in ["null", "\"\"", "\"NaN\"", "\"Infinity\"", "\"-Inf\"", "\"abc\""] {
            check(nothing, Some(Figure(None)));
        }
        check("true", None);
        check("[1]", None);
    }
}
