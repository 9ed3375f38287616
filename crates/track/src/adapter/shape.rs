//! Lenient JSON: a value that is not the expected number or object can be described, and is not an error. Tools write
//! `null`, `"NaN"` or `""` for figures that they could not compute.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};

use super::unit::number;
use crate::model::Metric;

/// A JSON object in document order.
pub(super) struct Ordered<T>(pub(super) Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Ordered<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Pairs<T> {
            type Value = Ordered<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered<T>, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Ordered(pairs))
            }
        }

        deserializer.deserialize_map(Pairs(PhantomData))
    }
}

/// A value that should be an object or a number, but may be anything.
#[derive(Default, PartialEq)]
pub(crate) enum Shape<T> {
    #[default]
    Missing,
    Object(T),
    Number(f64),
    Text(String),
    Other(&'static str),
}

impl<T> Shape<T> {
    pub(super) fn is_there(&self) -> bool {
        !matches!(self, Self::Missing)
    }

    pub(super) fn text(&self) -> &str {
        if let Self::Text(text) = self { text } else { "" }
    }

    /// The number, or a description of the value found.
    pub(super) fn number(&self) -> Result<f64, String> {
        Err(match self {
            Self::Number(value) => return Ok(*value),
            Self::Missing => "missing".to_owned(),
            Self::Text(text) => format!("the text {text:?}, which is not a number"),
            Self::Object(_) => "an object, which is not a number".to_owned(),
            Self::Other(what) => format!("{what}, which is not a number"),
        })
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Shape<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Any<T> {
            type Value = Shape<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Shape<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Shape::Object)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Shape<T>, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Shape::Other("a list"))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Shape<T>, E> {
                Ok(Shape::Number(value))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Shape<T>, E> {
                Ok(Shape::Number(value as f64))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Shape<T>, E> {
                Ok(Shape::Number(value as f64))
            }

            fn visit_str<E>(self, text: &str) -> Result<Shape<T>, E> {
                Ok(Shape::Text(text.to_owned()))
            }

            fn visit_bool<E>(self, _: bool) -> Result<Shape<T>, E> {
                Ok(Shape::Other("true or false"))
            }

            fn visit_unit<E>(self) -> Result<Shape<T>, E> {
                Ok(Shape::Other("NaN, Infinity or null"))
            }
        }

        deserializer.deserialize_any(Any(PhantomData))
    }
}

/// Half the spread from `± 3`, `+/- 3`, `1.5%` or `3`.
pub(crate) fn spread<T>(value: f64, range: &Shape<T>) -> Option<f64> {
    let text = match range {
        Shape::Number(range) => return Some(range.abs()),
        other => other.text().trim_start_matches(['\u{b1}', '+', '/', '-', ' ']).trim(),
    };
    match text.strip_suffix('%') {
        Some(percent) => Some(value.abs() * number(percent.trim())? / 100.0),
        None => number(text),
    }
}

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
