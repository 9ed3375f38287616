//! JSON, Bencher Metric Format and CSV.

use serde_json::Value;
use wingbeat_bench::{
    report::{Format, Style, bmf, csv, json, write, write_comparison},
    result::{BenchReport, Part},
};

use crate::{golden, sample};

#[test]
fn json_holds_everything() {
    golden::check("typical.json", &json(&sample::typical()).unwrap());
    golden::check("unavailable.json", &json(&sample::unavailable()).unwrap());
    golden::check("comparison.json", &json(&sample::compared()).unwrap());
}

#[test]
fn bencher_metric_format_holds_what_was_measured() {
    golden::check("typical.bmf.json", &bmf(&sample::typical()).unwrap());
    golden::check("unavailable.bmf.json", &bmf(&sample::unavailable()).unwrap());
    golden::check("inputs.bmf.json", &bmf(&sample::inputs(2)).unwrap());
    golden::check("verified.bmf.json", &bmf(&sample::only_verified()).unwrap());
    assert_eq!(bmf(&sample::report(Vec::new())).unwrap(), "{}\n");
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
        // What was only loaded stands among the skipped, too, and has its row just once.
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
