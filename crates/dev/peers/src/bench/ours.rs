//! Our side: `wingbeat bench` and `annotate`, run as a user runs them, and the parts of their JSON
//! that are compared. docs/bench.md describes the JSON.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};

use crate::comparison::output;

/// The program, and where it measures.
#[derive(Debug, Clone)]
pub(super) struct Wingbeat {
    pub(super) program: PathBuf,
    /// The CPU that it runs programs on.
    pub(super) cpu: usize,
}

/// A figure, or the reason why there is none.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Part<T> {
    Measured(T),
    Unavailable(String),
}

impl<T> Part<T> {
    fn measured(self) -> anyhow::Result<T> {
        match self {
            Self::Measured(value) => Ok(value),
            Self::Unavailable(reason) => bail!("wingbeat measured nothing: {reason}"),
        }
    }
}

/// What `wingbeat bench` says about a program.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Figures {
    /// What a run takes while nothing disturbs.
    pub(super) floor_ns: f64,
    pub(super) median_ns: f64,
    /// Without what an empty program takes; `None` where none could be measured.
    pub(super) net_ns: Option<f64>,
    /// Median of the single runs less the clock; `None` where they could not be timed.
    pub(super) net_p50_ns: Option<f64>,
    /// Mean of the single runs less that of an empty program; `None` where one of them is missing.
    pub(super) net_mean_ns: Option<f64>,
}

/// How a comparison came out, in the words of the JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    Better,
    Worse,
    NoChangeSeen,
    Same,
    Unknown,
}

/// What `wingbeat bench --against` says about the time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Change {
    /// The object's time ÷ that of the other, − 1.
    pub(super) change: Option<f64>,
    /// The smallest change that would have been seen nine times in ten.
    pub(super) smallest_visible: Option<f64>,
    pub(super) pairs: usize,
    pub(super) verdict: Verdict,
}

impl Wingbeat {
    /// Measures the only program of an object.
    pub(super) fn bench(&self, object: &Path, time: &str) -> anyhow::Result<Figures> {
        figures(&output(self.command().arg(object).args(["--time", time]))?)
    }

    /// Compares the only program of an object with that of another.
    pub(super) fn against(
        &self,
        (object, other): (&Path, &Path),
        time: &str,
        seed: u64,
    ) -> anyhow::Result<Change> {
        let mut command = self.command();
        command.arg(object).arg("--against").arg(other);
        command.args(["--time", time, "--seed", &seed.to_string()]);
        change(&output(&mut command)?)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        let cpu = self.cpu.to_string();
        command.args(["--quiet", "bench", "--format", "json", "--cpu", &cpu]);
        command
    }

    /// Annotates a program over inputs, all in one load; the JSON as it is.
    pub(super) fn annotate(
        &self,
        object: &Path,
        program: &str,
        inputs: &[String],
    ) -> anyhow::Result<String> {
        let mut command = Command::new(&self.program);
        command.args(["--quiet", "annotate", "--json"]).arg(object).arg(program);
        command.args(inputs.iter().flat_map(|input| ["--input", input]));
        output(&mut command)
    }
}

fn figures(json: &str) -> anyhow::Result<Figures> {
    #[derive(Deserialize)]
    struct Report {
        rulers: Vec<Ruler>,
        cases: Vec<Case>,
    }
    #[derive(Deserialize)]
    struct Ruler {
        distribution: Part<Distribution>,
    }
    #[derive(Deserialize)]
    struct Case {
        latency: Part<Latency>,
        distribution: Part<Distribution>,
    }
    #[derive(Deserialize)]
    struct Latency {
        floor_ns: f64,
        median_ns: f64,
        net_ns: Option<f64>,
    }
    #[derive(Deserialize)]
    struct Distribution {
        mean_ns: f64,
        net_p50_ns: Option<f64>,
    }
    let report: Report = serde_json::from_str(json).context("wingbeat's JSON is not understood")?;
    let Ok([case]) = <[Case; 1]>::try_from(report.cases) else {
        bail!("wingbeat was to measure one program with one input, and measured another number");
    };
    let latency = case.latency.measured()?;
    // All rulers are of the type of the one program.
    let ruler = report.rulers.into_iter().next().and_then(|it| it.distribution.measured().ok());
    let single = case.distribution.measured().ok();
    let mean = |found: &Option<Distribution>| found.as_ref().map(|found| found.mean_ns);
    Ok(Figures {
        floor_ns: latency.floor_ns,
        median_ns: latency.median_ns,
        net_ns: latency.net_ns,
        net_mean_ns: mean(&single).zip(mean(&ruler)).map(|(own, ruler)| own - ruler),
        net_p50_ns: single.and_then(|found| found.net_p50_ns),
    })
}

fn change(json: &str) -> anyhow::Result<Change> {
    #[derive(Deserialize)]
    struct Comparison {
        cases: Vec<Case>,
    }
    #[derive(Deserialize)]
    struct Case {
        measures: Vec<Measure>,
    }
    #[derive(Deserialize)]
    struct Measure {
        measure: String,
        change: Option<f64>,
        interval: Option<Interval>,
        verdict: Verdict,
    }
    #[derive(Deserialize)]
    struct Interval {
        pairs: usize,
        smallest_visible: Option<f64>,
    }
    let found: Comparison =
        serde_json::from_str(json).context("wingbeat's JSON is not understood")?;
    let mut measures = found.cases.into_iter().flat_map(|case| case.measures);
    let time = measures.find(|measure| measure.measure == "latency");
    let time = time.context("wingbeat compared no times")?;
    Ok(Change {
        change: time.change,
        smallest_visible: time.interval.as_ref().and_then(|interval| interval.smallest_visible),
        pairs: time.interval.map_or(0, |interval| interval.pairs),
        verdict: time.verdict,
    })
}

/// Executed instructions and runs of an annotation.
pub(super) fn counts(json: &str) -> anyhow::Result<(u64, u64)> {
    #[derive(Deserialize)]
    struct Annotation {
        runs: u64,
        instructions: u64,
    }
    let found: Annotation =
        serde_json::from_str(json).context("wingbeat's JSON is not understood")?;
    Ok((found.instructions, found.runs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read() {
        let check = |text: &str, expected: Result<Figures, &str>| {
            let found = figures(text).map_err(|error| error.to_string());
            assert_eq!(found, expected.map_err(str::to_owned), "{text}");
        };
        let report = |cases: &[&str], ruler: &str| {
            let (cases, ruler) = (cases.join(", "), ruler.replace('\'', "\""));
            format!(r#"{{"rulers": [{ruler}], "cases": [{cases}]}}"#)
        };
        let case = |net: &str, distribution: &str| {
            format!(
                r#"{{"latency": {{"measured": {{"floor_ns": 48, "median_ns": 50.5,
                "net_ns": {net}, "more": 1}}}}, "distribution": {distribution}}}"#
            )
        };
        let ruler = "{'distribution': {'measured': {'mean_ns': 30.5, 'net_p50_ns': 0}}}";
        let no_ruler = "{'distribution': {'unavailable': 'no time'}}";
        let full = case("40.25", r#"{"measured": {"net_p50_ns": 41, "mean_ns": 72}}"#);
        let without_ruler = case("null", r#"{"measured": {"net_p50_ns": null, "mean_ns": 72}}"#);
        let part = case("40.25", r#"{"unavailable": "no room"}"#);
        let expected = Figures {
            floor_ns: 48.0,
            median_ns: 50.5,
            net_ns: Some(40.25),
            net_p50_ns: Some(41.0),
            net_mean_ns: Some(41.5),
        };
        let without_single = Figures { net_p50_ns: None, net_mean_ns: None, ..expected };
        check(&report(&[&full], ruler), Ok(expected));
        check(&report(&[&part], ruler), Ok(without_single));
        check(&report(&[&full], no_ruler), Ok(Figures { net_mean_ns: None, ..expected }));
        check(&report(&[&without_ruler], ""), Ok(Figures { net_ns: None, ..without_single }));
        let none =
            "wingbeat was to measure one program with one input, and measured another number";
        check(&report(&[], ruler), Err(none));
        check(&report(&[&full, &part], ruler), Err(none));
        let unmeasured =
            r#"{"latency": {"unavailable": "EPERM"}, "distribution": {"unavailable": ""}}"#;
        let because = "wingbeat measured nothing: EPERM";
        check(&report(&[unmeasured], ruler), Err(because));
        check("{}", Err("wingbeat's JSON is not understood"));
    }

    #[test]
    fn changes_are_read() {
        let check = |text: &str, expected: Option<Change>| {
            assert_eq!(change(text).ok(), expected, "{text}");
        };
        let json = |measure: &str| format!(r#"{{"cases": [{{"measures": [{measure}]}}]}}"#);
        let sizes =
            r#"{"measure": "jited-size", "change": 0.5, "interval": null, "verdict": "worse"}"#;
        let time = r#"{"measure": "latency", "change": 0.01, "verdict": "no_change_seen",
            "interval": {"lower": 0, "upper": 0.02, "pairs": 12, "smallest_visible": 0.015}}"#;
        let short =
            r#"{"measure": "latency", "change": 0.01, "verdict": "unknown", "interval": null}"#;
        let found = Change {
            change: Some(0.01),
            smallest_visible: Some(0.015),
            pairs: 12,
            verdict: Verdict::NoChangeSeen,
        };
        check(&json(&format!("{sizes}, {time}")), Some(found));
        let unknown =
            Change { smallest_visible: None, pairs: 0, verdict: Verdict::Unknown, ..found };
        check(&json(short), Some(unknown));
        check(&json(sizes), None);
        check(&json(&time.replace("no_change_seen", "perhaps")), None);
    }

    #[test]
    fn annotations_are_read() {
        let json = r#"{"schema_version": 1, "runs": 100, "instructions": 5500, "functions": []}"#;
        assert_eq!(counts(json).ok(), Some((5500, 100)));
        assert_eq!(counts("[]").ok(), None);
    }
}
