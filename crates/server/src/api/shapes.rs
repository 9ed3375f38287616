//! Request and response formats: the members that the `bencher` client requires, and a few additional ones, which it
//! ignores.

mod new;
mod perf;
mod plot;
mod report;
mod thing;
mod threshold;

pub use self::{new::*, perf::*, plot::*, report::*, thing::*, threshold::*};

use serde::{Deserialize, Deserializer, de};

/// Distinguishes a `null` member from an absent one.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(deserializer).map(Some)
}

/// An integer, also in the JSON form `60.0`.
pub(super) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    let Some(number) = Option::<serde_json::Number>::deserialize(deserializer)? else {
        return Ok(None);
    };
    let exact = number.as_u64().or_else(|| {
        let float = number.as_f64()?;
        (float.fract() == 0.0 && float >= 0.0).then_some(float as u64)
    });
    let exact = exact.and_then(|number| u32::try_from(number).ok());
    let expected = || de::Error::custom(format!("{number} is no whole number below 2^32"));
    exact.map(Some).ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_may_have_a_fraction_of_zero() {
        #[derive(Debug, Deserialize)]
        struct Ttl {
            #[serde(default, deserialize_with = "whole")]
            ttl: Option<u32>,
        }
        let check = |text, expected: Option<Option<u32>>| {
            let read = serde_json::from_str::<Ttl>(text).map(|it| it.ttl);
            assert_eq!(read.ok(), expected, "{text}");
        };
        check("{}", Some(None));
        check(r#"{"ttl": null}"#, Some(None));
        check(r#"{"ttl": 60}"#, Some(Some(60)));
        check(r#"{"ttl": 63388.0}"#, Some(Some(63_388)));
        check(r#"{"ttl": 0.5}"#, None);
        check(r#"{"ttl": -1}"#, None);
        check(r#"{"ttl": 4294967296}"#, None);
        check(r#"{"ttl": 1e300}"#, None);
    }
}
