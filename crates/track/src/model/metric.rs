//! A metric: a value of a measure of a benchmark, with its spread.

use serde::{Deserialize, Serialize};

/// One measurement of a benchmark. All values are finite and in the units of the measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// The benchmark's figure: a mean or a median, by the choice of the tool or the user.
    pub value: f64,
    /// Lower end of the spread reported by the tool. Its meaning depends on the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower_value: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upper_value: Option<f64>,
    /// The raw samples in order of measurement, if the tool reports them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<f64>,
}

impl Metric {
    pub fn new(value: f64) -> Self {
        Self { value, lower_value: None, upper_value: None, samples: Vec::new() }
    }

    pub fn within(self, lower: f64, upper: f64) -> Self {
        Self { lower_value: Some(lower), upper_value: Some(upper), ..self }
    }

    /// Sets both ends of the spread, if known.
    pub(crate) fn with_ends(self, ends: Option<(f64, f64)>) -> Self {
        let Some((lower, upper)) = ends else { return self };
        self.within(lower, upper)
    }

    /// Sets a symmetric spread, if known.
    pub(crate) fn with_error(self, error: Option<f64>) -> Self {
        let value = self.value;
        self.with_ends(error.map(|error| (value - error, value + error)))
    }

    /// Sets the raw samples.
    pub fn with_samples(self, samples: Vec<f64>) -> Self {
        Self { samples, ..self }
    }

    /// Converts to other units. `factor` is the size of these in the new ones.
    pub(crate) fn scaled(mut self, factor: f64) -> Self {
        let ends = self.lower_value.iter_mut().chain(&mut self.upper_value);
        ends.chain(&mut self.samples).chain([&mut self.value]).for_each(|it| *it *= factor);
        self
    }

    pub fn is_finite(&self) -> bool {
        let ends = [self.lower_value, self.upper_value];
        self.value.is_finite()
            && ends.iter().flatten().chain(&self.samples).all(|value| value.is_finite())
    }
}
