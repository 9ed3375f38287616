//! Series in JSON: `{"name": [1.5, null, 1.7]}`.

use std::{collections::HashSet, fmt};

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};

use super::{Input, InputError, Series, check_name};

pub(super) fn parse(text: &str) -> Result<Input, InputError> {
    let Members(series) = serde_json::from_str(text).map_err(|error| {
        let told = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        let problem = told.strip_suffix(&place).unwrap_or(&told);
        // The very first character has column 0.
        InputError::at(error.line() as u64, error.column().max(1), problem)
    })?;
    if series.is_empty() {
        return Err(InputError::new("it has no series: {} is empty"));
    }
    Ok(Input { series, labels: None, remark: None })
}

/// Members of the object in order, which a map would lose.
struct Members(Vec<Series>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with an array of numbers for each series, {\"name\": [1.5, null]}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
        let mut series = Vec::new();
        let mut names = HashSet::new();
        while let Some(name) = map.next_key::<String>()? {
            if name.is_empty() {
                return Err(A::Error::custom("a series has no name"));
            }
            check_name(&name).map_err(A::Error::custom)?;
            if !names.insert(name.clone()) {
                return Err(A::Error::custom(format_args!("two series are called {name:?}")));
            }
            let values: Vec<Option<f64>> = map.next_value()?;
            let values = values.into_iter().map(|value| value.unwrap_or(f64::NAN)).collect();
            series.push(Series { name, values });
        }
        Ok(Members(series))
    }
}
