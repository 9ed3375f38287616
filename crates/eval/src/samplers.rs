//! What sampling profilers print about their samples. Text in, numbers out.

use std::{path::Path, process::Command};

use anyhow::Context as _;
use serde_json::Value;

use crate::{child::output, comparison::read_json};

/// Samples of an event in a recording of perf, and lost ones.
pub(crate) fn perf_samples(data: &Path, event: &str) -> anyhow::Result<(f64, f64)> {
    let text = output(Command::new("perf").args(["report", "--stats", "-i"]).arg(data))?;
    perf_samples_of(&text, event)
}

fn perf_samples_of(text: &str, event: &str) -> anyhow::Result<(f64, f64)> {
    // First come the records of the file, then each event. A record may stand for many lost samples.
    let parts = text.split_once(&format!("{event} stats:"));
    let (records, events) =
        parts.with_context(|| format!("`perf report --stats` has no {event}"))?;
    let number = |part: &str, name: &str| {
        let line = part.lines().find(|line| line.trim_start().starts_with(name))?;
        line.split(':').nth(1)?.split_whitespace().next()?.parse::<f64>().ok()
    };
    let samples = number(events, "SAMPLE events").unwrap_or(0.0);
    // Kernels before 6.0 do not count lost samples, only the occasions.
    let lost = number(events, "LOST_SAMPLES events").or_else(|| number(records, "LOST events"));
    Ok((samples, lost.unwrap_or(0.0)))
}

/// What samply says it lost, `Lost 592 events.`; it prints nothing when nothing was.
pub(crate) fn samply_lost(messages: &str) -> f64 {
    let counts = messages.lines().filter_map(|line| {
        line.strip_prefix("Lost ")?.strip_suffix(" events.")?.parse::<f64>().ok()
    });
    counts.sum()
}

/// What `wingbeat profile --summary-json` wrote.
pub(crate) struct Summary(Value);

impl Summary {
    pub(crate) fn read(file: &Path) -> anyhow::Result<Self> {
        read_json(file).map(Self).context("wingbeat wrote no summary")
    }

    /// A number by its path, as in `/ticks/lost`.
    pub(crate) fn number(&self, path: &str) -> anyhow::Result<f64> {
        let found = self.0.pointer(path).and_then(Value::as_f64);
        found.with_context(|| format!("wingbeat's summary has no number {path}"))
    }

    pub(crate) fn sum(&self, folder: &str, names: &[&str]) -> anyhow::Result<f64> {
        names.iter().map(|name| self.number(&format!("{folder}/{name}"))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perf() {
        let check = |text: &str, expected| {
            assert_eq!(perf_samples_of(text, "cpu-clock").ok(), expected, "{text}");
        };
        let records = "Aggregated stats:\n  TOTAL events:  14625\n  LOST events:  6  ( 0.0%)\n  SAMPLE events:  12429  (85.0%)\n  LOST_SAMPLES events:  1  ( 0.0%)\n";
        let new = "cpu-clock stats:\n  SAMPLE events:  12429\n  LOST_SAMPLES events:  130\n";
        check(&format!("{records}{new}"), Some((12429.0, 130.0)));
        let old = "cpu-clock stats:\n  SAMPLE events:  12429\n";
        check(&format!("{records}{old}"), Some((12429.0, 6.0)));
        check("TOTAL events: 3\ncpu-clock stats:\n SAMPLE events: 2\n", Some((2.0, 0.0)));
        check("TOTAL events: 3\n", None);
    }

    #[test]
    fn samply() {
        assert_eq!(samply_lost("Lost 592 events.\nLost 8 events.\n"), 600.0);
        assert_eq!(samply_lost("all is well\n"), 0.0);
    }

    #[test]
    fn wingbeat() {
        let json = r#"{"ticks": {"sampled": 228, "lost": 3}, "bytes_per_sample": 136.5}"#;
        let summary = Summary(serde_json::from_str(json).expect("JSON"));
        assert_eq!(summary.sum("/ticks", &["sampled", "lost"]).ok(), Some(231.0));
        assert_eq!(summary.number("/bytes_per_sample").ok(), Some(136.5));
        assert!(summary.number("/ticks/idle").is_err());
    }
}
