//! Formats values of a sample type: as totals, and as rates, which are comparable between time ranges of different
//! lengths.

use wingbeat_text::{bytes, duration, fixed, grouped, significant_decimals};

use crate::profiles::Series;

/// Prefixes of gauges, whose values are not summed over time.
const STATES: [&str; 4] = ["inuse_", "goroutine", "threads", "heap_live"];

/// Formatting of a sample type's values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Figures {
    /// `process_cpu`.
    profile: String,
    name: String,
    unit: String,
}

impl Figures {
    /// For a sample type of a series.
    pub(super) fn of(series: &Series, at: usize) -> Self {
        let (name, unit) = series.types.get(at).cloned().unwrap_or_default();
        Self { profile: series.name.clone(), name, unit }
    }

    /// CPU time.
    pub(super) fn cpu() -> Self {
        let text = str::to_owned;
        Self { profile: text("process_cpu"), name: text("cpu"), unit: text("nanoseconds") }
    }

    /// In addresses: `process_cpu:cpu`.
    pub(super) fn id(&self) -> String {
        format!("{}:{}", self.profile, self.name)
    }

    /// The sample type.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// For display: `process_cpu: cpu (nanoseconds)`.
    pub(super) fn title(&self) -> String {
        format!("{}: {} ({})", self.profile, self.name, self.unit)
    }

    /// Whether it is a gauge, whose mean counts.
    pub(super) fn is_state(&self) -> bool {
        STATES.iter().any(|state| self.name.starts_with(state))
    }

    fn is_time(&self) -> bool {
        self.unit == "nanoseconds"
    }

    /// Label of a timeline's axis.
    pub(super) fn axis(&self) -> String {
        match (self.is_time(), self.is_state()) {
            (true, _) if self.name == "cpu" => "CPUs in use".to_owned(),
            (true, _) => format!("{}, in threads", self.name),
            (_, true) => self.name.clone(),
            _ => format!("{} per second", self.name),
        }
    }

    /// A sum over a time range.
    pub(super) fn total(&self, value: f64) -> String {
        match self.unit.as_str() {
            "nanoseconds" => sign(value, duration(value.abs() as u64)),
            "bytes" => sign(value, bytes(value.abs() as u64)),
            _ => grouped(value.round()),
        }
    }

    /// A rate per second; for a gauge, the mean.
    pub(super) fn rate(&self, value: f64) -> String {
        match self.unit.as_str() {
            "nanoseconds" => {
                let word = if self.name == "cpu" { "CPU" } else { "threads" };
                parts(value / 1e9, word)
            }
            _ if self.is_state() => self.total(value),
            "bytes" => format!("{}/s", self.total(value)),
            _ => format!("{}/s", three(value)),
        }
    }
}

fn sign(value: f64, size: String) -> String {
    if value < 0.0 { format!("−{size}") } else { size }
}

/// Rounds to three digits.
fn three(value: f64) -> String {
    fixed(value, significant_decimals(value, 3).min(4))
}

/// A number of CPUs, in thousandths below one half.
fn parts(value: f64, word: &str) -> String {
    match value.abs() {
        0.0 => format!("0 {word}"),
        0.5.. => format!("{} {word}", three(value)),
        0.0005.. => format!("{} m{word}", three(value * 1e3)),
        _ => format!("{} µ{word}", three(value * 1e6)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(name: &str, unit: &str) -> Figures {
        Figures { profile: "p".to_owned(), name: name.to_owned(), unit: unit.to_owned() }
    }

    #[test]
    fn values_have_the_words_of_their_type() {
        let check = |name: &str, unit: &str, value: f64, total: &str, rate: &str| {
            let figures = figures(name, unit);
            assert_eq!(
                (figures.total(value).as_str(), figures.rate(value).as_str()),
                (total, rate)
            );
        };
        check("cpu", "nanoseconds", 1.5e9, "1.50 s", "1.50 CPU");
        check("cpu", "nanoseconds", 3.125e8, "312 ms", "312 mCPU");
        check("cpu", "nanoseconds", 2500.0, "2.50 µs", "2.50 µCPU");
        check("cpu", "nanoseconds", 0.0, "0 ns", "0 CPU");
        check("wall", "nanoseconds", -4e9, "−4.00 s", "−4.00 threads");
        check("alloc_space", "bytes", 2e7, "20 MB", "20 MB/s");
        check("inuse_space", "bytes", 2e7, "20 MB", "20 MB");
        check("samples", "count", 1234.0, "1,234", "1,234/s");
    }
}
