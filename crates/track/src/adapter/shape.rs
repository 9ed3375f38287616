//! JSON of any shape: a value that is not the expected number or object can be described, and is not an error.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};

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
