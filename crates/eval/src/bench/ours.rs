//! Our side: `wingbeat bench` and `annotate`, run as a user runs them, and the parts of their JSON
//! that are compared. docs/bench.md describes the JSON.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::comparison::output;

/// The program, and where it measures.
#[derive(Debug, Clone)]
pub(super) struct Wingbeat {
    pub(super) program: PathBuf,
    /// The CPU that it runs programs on.
    pub(super) cpu: usize,
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
    pub(super) pairs: u64,
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

    /// `wingbeat bench` for its JSON.
    pub(super) fn command(&self) -> Command {
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

fn read(json: &str) -> anyhow::Result<Value> {
    serde_json::from_str(json).context("wingbeat's JSON is not understood")
}

fn figures(json: &str) -> anyhow::Result<Figures> {
    let report = read(json)?;
    let Some([case]) = report["cases"].as_array().map(Vec::as_slice) else {
        bail!("wingbeat was to measure one program with one input, and measured another number");
    };
    if let Some(reason) = case["latency"]["unavailable"].as_str() {
        bail!("wingbeat measured nothing: {reason}");
    }
    let (latency, single) = (&case["latency"]["measured"], &case["distribution"]["measured"]);
    // All rulers are of the type of the one program.
    let ruler = &report["baselines"][0]["distribution"]["measured"];
    let needed = |name: &str| latency[name].as_f64().with_context(|| format!("there is no {name}"));
    Ok(Figures {
        floor_ns: needed("floor_ns")?,
        median_ns: needed("median_ns")?,
        net_ns: latency["net_ns"].as_f64(),
        net_mean_ns: single["mean_ns"].as_f64().zip(ruler["mean_ns"].as_f64()).map(|(a, b)| a - b),
        net_p50_ns: single["net_p50_ns"].as_f64(),
    })
}

fn change(json: &str) -> anyhow::Result<Change> {
    let report = read(json)?;
    let cases = report["cases"].as_array().into_iter().flatten();
    let mut measures = cases.filter_map(|case| case["measures"].as_array()).flatten();
    let time = measures.find(|measure| measure["measure"] == "latency");
    let time = time.context("wingbeat compared no times")?;
    let interval = &time["interval"];
    Ok(Change {
        change: time["change"].as_f64(),
        smallest_visible: interval["smallest_visible"].as_f64(),
        pairs: interval["pairs"].as_u64().unwrap_or(0),
        verdict: Verdict::deserialize(&time["verdict"]).context("an unknown verdict")?,
    })
}

/// Executed instructions and runs of an annotation.
pub(super) fn counts(json: &str) -> anyhow::Result<(u64, u64)> {
    let report = read(json)?;
    let count = |name: &str| report[name].as_u64().with_context(|| format!("there is no {name}"));
    Ok((count("instructions")?, count("runs")?))
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
            format!(r#"{{"baselines": [{ruler}], "cases": [{cases}]}}"#)
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
        check("{}", Err(none));
        check("?", Err("wingbeat's JSON is not understood"));
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
