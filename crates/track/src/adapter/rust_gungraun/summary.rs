//! Summaries as JSON: a document per benchmark, on one line or several (`--output-format`).
//!
//! Version 6 has `Left` and `Both` around the values, version 7 `new` and `old`. The name is that of the text,
//! `file::group::benchmark id:arguments`; Bencher has `file::group::benchmark::id`. Unlike in the text, all counts are
//! present.

use std::collections::BTreeMap;

use serde::{Deserialize, de::IgnoredAny};

use super::measure;
use crate::adapter::prelude::*;

/// Text at the beginning of a summary that is rare elsewhere.
const MARKS: [&str; 2] = ["\"benchmark_exe\"", "\"baselines\""];

#[derive(Deserialize)]
struct Summary {
    module_path: String,
    id: Option<String>,
    /// The arguments, truncated as in the text.
    #[serde(alias = "details")]
    description: Option<String>,
    version: String,
    profiles: Vec<Profile>,
}

#[derive(Deserialize)]
struct Profile {
    tool: String,
    /// Version 6.
    summaries: Option<Parts<TotalOf6>>,
    /// Version 7.
    data: Option<Parts<TotalOf7>>,
}

#[derive(Deserialize)]
struct Parts<T> {
    total: T,
}

#[derive(Deserialize)]
struct TotalOf6 {
    summary: ToolSummary,
}

#[derive(Deserialize)]
enum ToolSummary {
    None,
    #[serde(alias = "Cachegrind", alias = "Dhat", alias = "ErrorTool")]
    Callgrind(BTreeMap<String, MetricOf6>),
}

#[derive(Deserialize)]
struct MetricOf6 {
    metrics: Sides,
}

#[derive(Deserialize)]
enum Sides {
    Left(Number),
    Both(Number, IgnoredAny),
    Right(IgnoredAny),
}

#[derive(Deserialize)]
enum Number {
    Int(f64),
    Float(f64),
}

#[derive(Deserialize)]
struct TotalOf7 {
    metrics: BTreeMap<String, MetricOf7>,
}

#[derive(Deserialize)]
struct MetricOf7 {
    values: Values,
}

#[derive(Deserialize)]
struct Values {
    new: Option<f64>,
}

/// The summaries in a text. Empty if it contains no JSON of Gungraun.
pub(super) fn parse(text: &str) -> Parsed {
    let mut results = Results::default();
    let mut once = Once::default();
    for document in objects::<Summary>(Adapter::RustGungraun, text) {
        let at = document.at;
        match document.content {
            Ok(summary) => add(&mut results, &mut once, at, summary)?,
            Err(error) if MARKS.iter().all(|mark| document.head.contains(mark)) => {
                return Err(at.malformed(format!("the summary is broken: {error}")));
            }
            // From another tool, such as Cargo.
            Err(_) => {}
        }
    }
    Ok(results)
}

fn add(results: &mut Results, once: &mut Once, at: At, summary: Summary) -> Parsed<()> {
    if !matches!(summary.version.as_str(), "6" | "7") {
        let version = summary.version;
        return Err(at.malformed(format!("the summary has version {version}; 6 and 7 can be read")));
    }
    let path = &summary.module_path;
    let (own, theirs) = match (summary.id.as_deref(), summary.description.as_deref()) {
        (None | Some(""), _) => (path.clone(), path.clone()),
        (Some(id), None | Some("")) => (format!("{path} {id}"), format!("{path}::{id}")),
        (Some(id), Some(told)) => (format!("{path} {id}:{told}"), format!("{path}::{id}")),
    };
    let name = at.name(&in_one_line(&own))?;
    results.set_bencher_name(&name, &theirs);
    let has_callgrind = summary.profiles.iter().any(|profile| profile.tool == "Callgrind");
    if summary.profiles.is_empty() {
        results.fail(name, "it has no result; the runner gives the reason on stderr");
        return Ok(());
    }
    let mut is_measured = false;
    for profile in summary.profiles {
        let tool = profile.tool;
        for (metric, value) in values(profile.summaries, profile.data) {
            let measure = measure(&tool, &metric, has_callgrind);
            let added = match std::mem::replace(&mut is_measured, true) {
                true => Ok(()),
                false => once.benchmark(at, results, name.as_str()).map(drop),
            };
            let added =
                added.and_then(|()| Ok(results.add(name.clone(), measure, Metric::new(value))?));
            added.unwrap_or_else(|error| at.lose(results, name.as_str(), error));
        }
    }
    Ok(())
}

fn values(six: Option<Parts<TotalOf6>>, seven: Option<Parts<TotalOf7>>) -> Vec<(String, f64)> {
    let six = match six.map(|parts| parts.total.summary) {
        Some(ToolSummary::Callgrind(metrics)) => metrics,
        Some(ToolSummary::None) | None => BTreeMap::new(),
    };
    let six = six.into_iter().filter_map(|(metric, value)| {
        let new = match value.metrics {
            Sides::Left(new) | Sides::Both(new, _) => new,
            Sides::Right(_) => return None,
        };
        let (Number::Int(new) | Number::Float(new)) = new;
        Some((metric, new))
    });
    let seven = seven.map(|parts| parts.total.metrics).unwrap_or_default();
    let seven = seven.into_iter().filter_map(|(metric, value)| Some((metric, value.values.new?)));
    six.chain(seven).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::{benchmarks, check_error, values};

    fn document(version: &str, profile: &str) -> String {
        format!(
            "{{\"baselines\":[null,null],\"benchmark_exe\":\"/b\",\"module_path\":\"a::b::c\",\"id\":\"x\",\
             \"version\":\"{version}\",\"profiles\":[{profile}]}}"
        )
    }

    #[test]
    fn both_versions_say_the_same() {
        let six = r#"{"tool":"Callgrind","summaries":{"parts":[],"total":{"summary":{"Callgrind":{
            "Ir":{"diffs":null,"metrics":{"Left":{"Int":78}}},
            "L1HitRate":{"diffs":{"diff_pct":"0","factor":"1"},"metrics":{"Both":[{"Float":95.5},{"Float":90.0}]}},
            "Dr":{"diffs":null,"metrics":{"Right":{"Int":9}}}}},"regressions":[]}}},
            {"tool":"Massif","summaries":{"parts":[],"total":{"summary":"None","regressions":[]}}}"#;
        let seven = r#"{"tool":"Callgrind","data":{"parts":[],"total":{"metrics":{
            "Ir":{"values":{"new":78}},
            "L1HitRate":{"change":null,"values":{"new":95.5,"old":90.0}},
            "Dr":{"values":{"old":9}}},"regressions":[]}}},
            {"tool":"Massif","data":{"parts":[],"total":{"metrics":{}}}}"#;
        let results = parse(&document("6", six)).expect("results");
        assert_eq!(results, parse(&document("7", seven)).expect("results"));
        assert_eq!(results.benchmarks[0].name.as_str(), "a::b::c x");
        let found = values(&results.benchmarks[0]);
        assert_eq!(found, [("instructions", 78.0), ("l1-hit-rate", 95.5)]);
    }

    #[test]
    fn what_is_broken() {
        let check = |text: &str, expected: &str| check_error(parse(text), expected);
        check(&format!("text\n{}", document("8", "")), "line 2: the summary has version 8");
        let whole = document("6", "");
        check(&whole[..whole.len() - 2], "the summary is broken: EOF");
    }

    #[test]
    fn names_are_whole_and_come_once() {
        let profile = r#"{"tool":"Callgrind","data":{"parts":[],"total":{"metrics":{"Ir":{"values":{"new":7}}}}}}"#;
        let one = document("7", profile);
        let other = one.replace("\"x\"", "\"x\\ny\"");
        let results = parse(&format!("{one}\n{other}")).expect("results");
        assert_eq!(benchmarks(&results), ["a::b::c x", "a::b::c x y"]);
        assert_eq!(results.bencher_name(&results.benchmarks[1].name), "a::b::c::x\ny");
        check_error(
            parse(&format!("{one}\n\n{one}")),
            "line 3: \"a::b::c x\" has a result in line 1 already",
        );
    }

    #[test]
    fn names_are_those_of_the_text() {
        let profile = r#"{"tool":"Callgrind","data":{"parts":[],"total":{"metrics":{"Ir":{"values":{"new":7}}}}}}"#;
        for field in ["description", "details"] {
            let told = format!("\"id\":\"x\",\"{field}\":\"(\\n    1,\\n)\"");
            let json = document("7", profile).replace("\"id\":\"x\"", &told);
            let text = "a::b::c x:(\n    1,\n)\n  Instructions:  7|N/A  (***)\n";
            let [json, text] = [&json, text].map(|output| {
                let results = Adapter::RustGungraun.parse(output.as_bytes(), None).expect(output);
                (results.benchmarks[0].name.to_string(), values(&results.benchmarks[0])[0].1)
            });
            assert_eq!(json, text, "{field}");
        }
    }

    #[test]
    fn other_documents_are_passed_over() {
        assert!(
            parse("{\"reason\":\"build-finished\",\"success\":true}\n{not json\n")
                .expect("none")
                .is_empty()
        );
    }
}
