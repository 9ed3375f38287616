//! Descriptions of measures: from `wingbeat.toml`, or from the JSON printed by a program.

use serde::Deserialize;

use super::{Direction, InvalidName, Measure, MeasureKind, MeasureName};

/// Description of a measure. `None` keeps the known value.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct Description {
    #[serde(default, alias = "unit")]
    pub units: Option<MeasureName>,
    pub direction: Option<Direction>,
    pub kind: Option<MeasureKind>,
}

/// The units of a known measure are fixed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionError {
    #[error("{0}")]
    Name(#[from] InvalidName),
    #[error(
        "the measure {measure} is in {known}, which {given:?} cannot be converted to; give the measure another name"
    )]
    Units { measure: String, known: String, given: String },
}

impl Description {
    /// The measure of a name with this description, and the factor from the given units to its own: a known measure
    /// keeps its units.
    pub fn of(&self, name: &str) -> Result<(Measure, f64), DescriptionError> {
        MeasureName::new(name)?;
        let mut measure = Measure::named(name);
        let factor = self.describe(&mut measure)?;
        Ok((measure, factor))
    }

    /// Applies the description to a measure. Returns the factor from the given units to its own.
    pub fn describe(&self, measure: &mut Measure) -> Result<f64, DescriptionError> {
        measure.direction = self.direction.unwrap_or(measure.direction);
        measure.kind = self.kind.unwrap_or(measure.kind);
        let Some(units) = &self.units else { return Ok(1.0) };
        if !measure.is_known() {
            measure.units = units.as_str().to_owned().into();
            return Ok(1.0);
        }
        let own = measure.ladder();
        let given = Measure { units: units.as_str().to_owned().into(), ..measure.clone() }.ladder();
        let factor = if own == given { Some(1.0) } else { own.factor_from(&given) };
        factor.ok_or_else(|| DescriptionError::Units {
            measure: measure.name.to_string(),
            known: measure.units.to_string(),
            given: units.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_are_described() {
        let check = |name: &str, json: &str, expected: Result<(&str, Direction, f64), &str>| {
            let description: Description = serde_json::from_str(json).expect(json);
            let found = description.of(name);
            match (found, expected) {
                (Ok((measure, factor)), Ok(expected)) => {
                    assert_eq!((&*measure.units, measure.direction, factor), expected, "{json}");
                }
                (Err(error), Err(expected)) => {
                    assert!(error.to_string().contains(expected), "{error}");
                }
                (found, _) => panic!("{name} {json}: {found:?}"),
            }
        };
        let (lower, higher) = (Direction::LowerIsBetter, Direction::HigherIsBetter);
        check("p99", "{}", Ok(("p99 (units)", Direction::Unknown, 1.0)));
        check("p99", r#"{"unit": "ms", "direction": "smaller"}"#, Ok(("ms", lower, 1.0)));
        check("rps", r#"{"direction": "higher-is-better"}"#, Ok(("rps (units)", higher, 1.0)));
        check("latency", r#"{"unit": "ms"}"#, Ok(("nanoseconds (ns)", lower, 1e6)));
        check("Latency", r#"{"units": "nanoseconds (ns)"}"#, Ok(("nanoseconds (ns)", lower, 1.0)));
        check("file-size", r#"{"unit": "B"}"#, Ok(("bytes (B)", lower, 1.0)));
        check("latency", r#"{"unit": "MB"}"#, Err("is in nanoseconds (ns), which \"MB\""));
        check("a\u{7}", "{}", Err("control character"));
        check("", "{}", Err("it is empty"));
        for wrong in [r#"{"unit": ""}"#, r#"{"unit": "m\ns"}"#, r#"{"direction": "up"}"#] {
            serde_json::from_str::<Description>(wrong).expect_err(wrong);
        }
    }
}
