//! Properties of arbitrary results, including ones that no measurement produces.

use proptest::{collection::vec, option, prelude::*};
use unicode_width::UnicodeWidthStr as _;
use wingbeat_bpf_bench::{
    report::{Style, bmf, comparison, csv, human, json},
    result::{BenchReport, Case, PairedVerdict, Part},
};

use super::sample;

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
        let value: serde_json::Value = serde_json::from_str(&json(&report).unwrap()).unwrap();
        prop_assert_eq!(value["cases"].as_array().map(Vec::len), Some(report.cases.len()));
        let value: serde_json::Value = serde_json::from_str(&bmf(&report).unwrap()).unwrap();
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
