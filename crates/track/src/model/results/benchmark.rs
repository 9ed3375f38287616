//! The metrics of one benchmark, and validation of additions.

use serde::{Deserialize, Serialize};

use crate::model::{
    measure::{Measure, Metric},
    name::{BenchmarkName, InvalidName, MeasureName, Slug},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchmarkResults {
    /// Its name, without the opt-out suffix.
    pub name: BenchmarkName,
    /// Whether it opted out of being judged: its boundary is computed, but no alert is raised.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_ignored: bool,
    /// In the order of the output; each measure once.
    pub metrics: Vec<(Measure, Metric)>,
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AddError {
    #[error(
        "benchmark {benchmark:?} has the measure {measure} twice, once in {first} and once in {second}; \
         values in different units cannot be one metric"
    )]
    Units { benchmark: String, measure: Slug, first: String, second: String },
    #[error(
        "benchmark {benchmark:?} has a {measure} whose lower value {lower} is above its upper value {upper}"
    )]
    Ends { benchmark: String, measure: Slug, lower: f64, upper: f64 },
    #[error("benchmark {benchmark:?} has a {measure} that is not a finite number")]
    NotFinite { benchmark: String, measure: Slug },
    #[error("benchmark {benchmark:?} has a measure that cannot be recorded: {source}")]
    Measure { benchmark: String, source: Box<InvalidName> },
}

impl BenchmarkResults {
    /// Reserves room for that many metrics, if there are none yet.
    pub(crate) fn expect_metrics(&mut self, count: usize) {
        if self.metrics.is_empty() {
            self.metrics.reserve_exact(count);
        }
    }

    /// Adds a metric, or a repetition of one, like `Results::add`. But the measure is cloned only if it is new, and the
    /// name is looked up once for all metrics.
    pub(crate) fn add(&mut self, measure: &Measure, metric: Metric) -> Result<(), AddError> {
        check(&self.name, measure, &metric)?;
        let known = self.metrics.iter_mut().find(|(known, _)| known.is(measure));
        match known {
            None => {
                check_name(&self.name, measure)?;
                // Most benchmarks have one metric. A vector would allocate room for four.
                self.expect_metrics(1);
                self.metrics.push((measure.clone(), metric));
            }
            Some((known, _)) if known.units != measure.units => {
                return Err(AddError::Units {
                    benchmark: self.name.to_string(),
                    measure: measure.slug.clone(),
                    first: known.units.to_string(),
                    second: measure.units.to_string(),
                });
            }
            Some((_, first)) => repeat(first, metric),
        }
        Ok(())
    }
}

/// Names and units of unknown measures come from outputs as well, so they are validated.
pub(super) fn check_name(benchmark: &BenchmarkName, measure: &Measure) -> Result<(), AddError> {
    if measure.is_known() {
        return Ok(());
    }
    // The default units of an undescribed measure repeat its name.
    let units = measure.has_units().then_some(&measure.units);
    let checked = MeasureName::new(&measure.name)
        .and_then(|_| units.map_or(Ok(()), |units| MeasureName::new(units).map(drop)));
    let benchmark = || benchmark.to_string();
    checked.map_err(|source| AddError::Measure { benchmark: benchmark(), source: Box::new(source) })
}

pub(super) fn check(
    name: &BenchmarkName,
    measure: &Measure,
    metric: &Metric,
) -> Result<(), AddError> {
    let (benchmark, measure) = (|| name.to_string(), || measure.slug.clone());
    match (metric.lower_value, metric.upper_value) {
        _ if !metric.is_finite() => {
            Err(AddError::NotFinite { benchmark: benchmark(), measure: measure() })
        }
        (Some(lower), Some(upper)) if lower > upper => {
            Err(AddError::Ends { benchmark: benchmark(), measure: measure(), lower, upper })
        }
        _ => Ok(()),
    }
}

fn repeat(first: &mut Metric, mut second: Metric) {
    let ends = |metric: &Metric| {
        (metric.lower_value.unwrap_or(metric.value), metric.upper_value.unwrap_or(metric.value))
    };
    let ((low, high), (other_low, other_high)) = (ends(first), ends(&second));
    let known = first.samples.len().max(1) as f64;
    let new = second.samples.len().max(1) as f64;
    if first.samples.is_empty() {
        first.samples.push(first.value);
    }
    match second.samples.is_empty() {
        true => first.samples.push(second.value),
        false => first.samples.append(&mut second.samples),
    }
    // A running mean: a tool may repeat a result a million times. Scaled first, so that two huge values do not
    // overflow.
    let share = new / (known + new);
    first.value += second.value * share - first.value * share;
    first.lower_value = Some(low.min(other_low));
    first.upper_value = Some(high.max(other_high));
}
