//! JSON, Bencher Metric Format and CSV, and properties of all formats.

use std::collections::BTreeSet;

use proptest::{collection::vec, option, prelude::*};
use serde_json::Value;
use unicode_width::UnicodeWidthStr as _;
use wingbeat_bpf_bench::{
    conditions::Load,
    counts::Variation,
    report::{Format, Style, bmf, comparison, csv, human, json, write, write_comparison},
    result::{BenchReport, Case, Comparison, PairedVerdict, Part},
};

use super::{golden, sample};

#[test]
fn json_holds_everything() {
    golden::check("typical.json", &json(&sample::typical()).unwrap());
    let mut unavailable = sample::unavailable();
    unavailable.cases.truncate(1);
    golden::check("unavailable.json", &json(&unavailable).unwrap());
    // Its report is like the first.
    let compared = Comparison { report: sample::report(Vec::new()), ..sample::compared() };
    golden::check("comparison.json", &json(&compared).unwrap());
}

#[test]
fn bencher_metric_format_holds_what_was_measured() {
    golden::check("typical.bmf.json", &bmf(&sample::typical()).unwrap());
    golden::check("unavailable.bmf.json", &bmf(&sample::unavailable()).unwrap());
    golden::check("inputs.bmf.json", &bmf(&sample::inputs(2)).unwrap());
    golden::check("verified.bmf.json", &bmf(&sample::only_verified()).unwrap());
    assert_eq!(bmf(&sample::report(Vec::new())).unwrap(), "{}\n");
}

/// Varying values are a range everywhere, and no measure that could be mistaken for an exact one.
#[test]
fn counts_that_vary_are_ranges() {
    let mut case = sample::case("sampled", 63.4, 97);
    let Part::Measured(counts) = &mut case.counts else { unreachable!("it has counts") };
    counts.variation = Some(Variation { lowest: 9, highest: 1_611, runs: 64 });
    counts.unpredictable_calls = vec!["bpf_get_prandom_u32".to_owned()];
    assert_eq!(counts.exact(), None);
    let report = sample::report(vec![case]);
    assert_eq!(benchmarks(&report)[0].1.get("instructions"), None);
    assert!(csv(&report).unwrap().contains(",9-1611,"));
    let value: Value = serde_json::from_str(&json(&report).unwrap()).unwrap();
    let measured = &value["cases"][0]["counts"]["measured"];
    let expected = serde_json::json!({ "lowest": 9, "highest": 1611, "runs": 64 });
    assert_eq!(measured["variation"], expected);
    assert_eq!(measured["unpredictable_calls"][0], "bpf_get_prandom_u32");
    let style = Style { has_colours: false, is_verbose: false, width: 200 };
    let table = write(Format::Human, &report, style).unwrap();
    assert!(table.contains(" 9 … 1,611 "), "{table}");
}

fn benchmarks(report: &BenchReport) -> Vec<(String, Value)> {
    let value: Value = serde_json::from_str(&bmf(report).unwrap()).unwrap();
    let benchmarks = value.as_object().unwrap();
    benchmarks.iter().map(|(name, measures)| (name.clone(), measures.clone())).collect()
}

#[test]
fn benchmarks_of_one_name_are_kept_apart() {
    let long = "é".repeat(600);
    let case = |name: &str| sample::case(name, 63.4, 97);
    let names = ["a", "a", "a#2", "a", &long, &long];
    let found = benchmarks(&sample::report(names.map(case).to_vec()));
    let found: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
    let (cut, numbered) = ("é".repeat(512), format!("{}#2", "é".repeat(511)));
    assert_eq!(found, ["a", "a#2", "a#2#2", "a#3", &numbered, &cut]);
    assert!(found.iter().all(|name| name.len() <= 1024));
}

#[test]
fn no_value_is_anything_but_a_number() {
    let mut case = sample::case("a", f64::NAN, 97);
    if let Part::Measured(single) = &mut case.distribution {
        single.p99_ns = f64::INFINITY;
    }
    let found = benchmarks(&sample::report(vec![case]));
    let measures = found[0].1.as_object().unwrap();
    assert!(!measures.contains_key("latency") && !measures.contains_key("latency-p99"));
    assert!(measures.values().all(|measure| measure["value"].is_number()), "{measures:?}");
}

#[test]
fn csv_begins_with_the_columns_of_veristat() {
    golden::check("typical.csv", &csv(&sample::typical()).unwrap());
    golden::check("verified.csv", &csv(&sample::only_verified()).unwrap());
    golden::check("unavailable.csv", &csv(&sample::unavailable()).unwrap());
    golden::check("inputs.csv", &csv(&sample::inputs(3)).unwrap());
}

#[test]
fn all_rows_of_a_csv_are_equally_long() {
    for report in [sample::typical(), sample::unavailable(), sample::long_names()] {
        let text = csv(&report).unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let rows = reader.records().collect::<Result<Vec<_>, _>>().unwrap();
        // A program that was only loaded is also listed as skipped, but has only one row.
        assert_eq!(rows.len(), report.cases.len() + report.failures.len() + report.skipped.len());
    }
}

#[test]
fn every_form_can_be_written() {
    for format in [Format::Human, Format::Json, Format::Bmf, Format::Csv] {
        let text = write(format, &sample::typical(), Style::default()).unwrap();
        assert!(text.ends_with('\n') && !text.ends_with("\n\n"), "{format:?}: {text}");
        let text = write_comparison(format, &sample::compared(), Style::default()).unwrap();
        assert!(text.ends_with('\n') && !text.ends_with("\n\n"), "{format:?}: {text}");
    }
}

// `docs/bench.md` and `docs/bench-json.md` must name every field, measure and column that is written.

const DOCS: &str = concat!(
    include_str!("../../../../../docs/bench.md"),
    include_str!("../../../../../docs/bench-json.md")
);

#[track_caller]
fn check(names: impl IntoIterator<Item = String>) {
    let missing: Vec<_> =
        names.into_iter().filter(|name| !DOCS.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "docs do not name {missing:?}");
}

/// Names of all fields at any depth.
fn fields(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            found.extend(members.keys().cloned());
            members.values().for_each(|member| fields(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| fields(item, found)),
        _ => {}
    }
}

#[test]
fn fields_of_json() {
    let mut found = BTreeSet::new();
    for text in [json(&sample::compared()), json(&sample::unavailable())] {
        fields(&serde_json::from_str(&text.unwrap()).unwrap(), &mut found);
    }
    fields(&serde_json::to_value(Load::default()).unwrap(), &mut found);
    assert!(found.len() > 100, "{found:?}");
    // The two forms of optional values are documented as JSON.
    for form in ["measured", "unavailable"] {
        assert!(found.remove(form) && DOCS.contains(&format!("`{{\"{form}\": ")), "{form}");
    }
    check(found);
}

#[test]
fn measures_of_bencher_metric_format() {
    let value: Value = serde_json::from_str(&bmf(&sample::typical()).unwrap()).unwrap();
    let measures = value["fun_xdp_v3"].as_object().unwrap();
    assert_eq!(measures.len(), 12);
    check(measures.keys().cloned());
}

#[test]
fn columns_of_csv() {
    let text = csv(&sample::typical()).unwrap();
    let header = text.lines().next().unwrap();
    check(header.split(',').map(str::to_owned));
}

// Properties of arbitrary results, including ones that no measurement produces.

/// Names of any length, with characters that are special in some format.
fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{1,12}", "[a-z_/#]{1,200}", any::<String>(), Just(String::new())]
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![0.0..1e3, 0.0..1e7, Just(f64::NAN), Just(f64::INFINITY), Just(0.0)]
}

fn case() -> impl Strategy<Value = Case> {
    let numbers = (number(), number(), number(), number());
    let counts = (0..u64::MAX / 4, option::of(any::<u64>()), any::<u32>());
    let missing = (any::<bool>(), any::<bool>(), any::<bool>());
    (name(), name(), numbers, counts, missing, vec("[a-z]{1,20}", 1..9)).prop_map(
        |(program, input, numbers, counts, missing, reason)| {
            let mut case = sample::case_on(&program, &input, 63.4, 97);
            let reason = reason.join(" ");
            if let Part::Measured(latency) = &mut case.latency {
                let net_ns;
                (latency.median_ns, latency.lower_ns, latency.upper_ns, net_ns) = numbers;
                latency.net_ns = Some(net_ns).filter(|_| !missing.1);
            }
            if let Part::Measured(single) = &mut case.distribution {
                (single.p50_ns, single.p99_ns, single.p999_ns, single.wrapper_ns) = numbers;
            }
            if let Part::Measured(found) = &mut case.counts {
                (found.instructions, found.steady_instructions) = (counts.0, counts.1);
            }
            (case.outcome.return_value, case.outcome.return_name) = (counts.2, None);
            case.verifier.total_states = counts.1;
            if missing.0 {
                case.latency = Part::Unavailable(reason.clone());
            }
            if missing.1 {
                case.distribution = Part::Unavailable(reason.clone());
            }
            if missing.2 {
                case.counts = Part::Unavailable(reason);
            }
            case
        },
    )
}

fn report() -> impl Strategy<Value = BenchReport> {
    let several = (name(), vec(case(), 0..30)).prop_map(|(program, mut cases)| {
        cases.iter_mut().for_each(|case| case.program.clone_from(&program));
        cases
    });
    let cases = prop_oneof![vec(case(), 0..4), several];
    (cases, vec(name(), 0..3)).prop_map(|(cases, verified)| {
        let mut report = sample::report(cases);
        report.verified = verified.iter().map(|name| sample::verified(name)).collect();
        report
    })
}

fn style() -> impl Strategy<Value = Style> {
    (any::<bool>(), 60_usize..250).prop_map(|(is_verbose, width)| Style {
        has_colours: false,
        is_verbose,
        width,
    })
}

/// A single word may be wider than the line: names and paths must not be split.
fn is_too_wide(line: &str, style: Style) -> bool {
    line.width() > style.width && line.trim().contains(' ')
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn tables_fit(report in report(), style in style()) {
        let text = human(&report, style);
        prop_assert!(text.ends_with('\n') && !text.ends_with("\n\n"));
        for line in text.lines() {
            prop_assert!(!is_too_wide(line, style), "wider than {}: {}", style.width, line);
            prop_assert_eq!(line, line.trim_end());
            prop_assert!(!line.chars().any(char::is_control), "{line:?}");
        }
        if style.is_verbose || report.cases.len() <= 20 {
            let lines = report.cases.len() + report.baselines.len();
            let lines = if report.cases.is_empty() { 1 } else { lines };
            prop_assert!(text.lines().count() >= lines);
        }
    }

    #[test]
    fn comparisons_fit(report in report(), name in name(), style in style()) {
        let mut found = sample::compared();
        found.report = report;
        found.cases[0].name.clone_from(&name);
        found.cases[1].measures[0].measure = name;
        found.cases[1].measures[0].verdict = PairedVerdict::Better;
        let text = comparison(&found, style);
        prop_assert!(text.ends_with('\n') && !text.ends_with("\n\n"));
        for line in text.lines() {
            prop_assert!(!line.chars().any(char::is_control), "{line:?}");
            prop_assert_eq!(line, line.trim_end());
        }
    }

    #[test]
    fn files_are_well_formed(report in report()) {
        let value: Value = serde_json::from_str(&json(&report).unwrap()).unwrap();
        prop_assert_eq!(value["cases"].as_array().map(Vec::len), Some(report.cases.len()));
        let value: Value = serde_json::from_str(&bmf(&report).unwrap()).unwrap();
        let benchmarks = value.as_object().unwrap();
        prop_assert_eq!(benchmarks.len(), report.cases.len() + report.verified.len());
        for measure in benchmarks.values().flat_map(|one| one.as_object().unwrap().values()) {
            prop_assert!(measure["value"].is_number(), "{measure}");
        }
        let csv = csv(&report).unwrap();
        let rows = csv::Reader::from_reader(csv.as_bytes()).records().collect::<Result<Vec<_>, _>>();
        prop_assert_eq!(rows.unwrap().len(), report.cases.len() + report.verified.len());
    }
}
