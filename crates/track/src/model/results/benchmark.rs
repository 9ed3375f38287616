//! The metrics of one benchmark, and validation of additions.

use serde::{Deserialize, Serialize};

use crate::model::{
    measure::{Measure, Metric},
    name::{BenchmarkName, MeasureName},
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

/// Why a metric cannot be added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("benchmark {:?} has {problem}", .benchmark.as_str())]
pub struct AddError {
    benchmark: BenchmarkName,
    problem: String,
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
                let (slug, first, second) = (&measure.slug, &known.units, &measure.units);
                let problem = format!(
                    "the measure {slug} twice, once in {first} and once in {second}; values in \
                     different units cannot be one metric"
                );
                return Err(AddError { benchmark: self.name.clone(), problem });
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
    checked.map_err(|why| {
        let problem = format!("a measure that cannot be recorded: {why}");
        AddError { benchmark: benchmark.clone(), problem }
    })
}

pub(super) fn check(
    name: &BenchmarkName,
    measure: &Measure,
    metric: &Metric,
) -> Result<(), AddError> {
    let slug = &measure.slug;
    let problem = match (metric.lower_value, metric.upper_value) {
        _ if !metric.is_finite() => format!("a {slug} that is not a finite number"),
        (Some(lower), Some(upper)) if lower > upper => {
            format!("a {slug} whose lower value {lower} is above its upper value {upper}")
        }
        _ => return Ok(()),
    };
    Err(AddError { benchmark: name.clone(), problem })
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
