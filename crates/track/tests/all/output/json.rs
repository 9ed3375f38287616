//! Bencher's `JsonReport`: members required by its client, and stable values.

use super::*;
use serde_json::{Value, json};

/// A path in the JSON, and the type that Bencher's client requires there. Applies to every element of an array.
const MANDATORY: &[(&str, &str)] = &[
    ("", "uuid project branch testbed start_time end_time adapter results alerts counts created"),
    ("project", "uuid organization name slug visibility created modified"),
    ("branch", "uuid project name slug head created modified"),
    ("branch/head", "uuid created"),
    ("branch/head/version", "number"),
    ("branch/head/start_point", "branch head version"),
    ("branch/head/start_point/version", "number"),
    ("testbed", "uuid project name slug created modified"),
    ("results/*/*", "iteration benchmark measures"),
    ("results/*/*/benchmark", "uuid project name slug created modified"),
    ("results/*/*/measures/*", "measure metric"),
    ("results/*/*/measures/*/measure", "uuid project name slug units created modified"),
    ("results/*/*/measures/*/metric", "uuid value"),
    ("results/*/*/measures/*/threshold", "uuid project model created"),
    ("results/*/*/measures/*/threshold/model", "uuid test created"),
    (
        "alerts/*",
        "uuid report iteration benchmark metric threshold boundary limit status created modified",
    ),
    ("alerts/*/benchmark", "uuid project name slug created modified"),
    ("alerts/*/metric", "uuid value"),
    ("alerts/*/threshold", "uuid project branch testbed measure created modified"),
    ("alerts/*/threshold/branch/head", "uuid created"),
    ("alerts/*/threshold/measure", "uuid project name slug units created modified"),
    ("counts", "results alerts"),
    ("counts/results/*", "benchmarks measures"),
    ("counts/alerts", "total active"),
];

/// All values at a path. Nulls on the way are absent members.
fn at<'a>(json: &'a Value, place: &str) -> Vec<&'a Value> {
    let mut found = vec![json];
    for step in place.split('/').filter(|step| !step.is_empty()) {
        found = found
            .into_iter()
            .flat_map(|value| match step {
                "*" => value.as_array().expect("an array").iter().collect(),
                member => value.get(member).into_iter().collect::<Vec<_>>(),
            })
            .filter(|value| !value.is_null())
            .collect();
    }
    found
}

#[test]
fn every_mandatory_member_is_there() {
    let json = json(&mixed().page());
    for (place, members) in MANDATORY {
        let values = at(&json, place);
        assert!(!values.is_empty(), "nothing at {place:?}");
        for value in values {
            for member in members.split(' ') {
                let found = value.get(member).unwrap_or(&Value::Null);
                assert!(!found.is_null(), "{place:?} lacks {member}: {value:#}");
            }
        }
    }
}

#[test]
fn slugs_are_valid_and_times_are_rfc_3339() {
    fn walk(value: &Value, path: &str) {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    match (name.as_str(), value.as_str()) {
                        ("slug", Some(slug)) => {
                            assert!(Slug::new(slug).is_ok(), "{path}: {slug}");
                        }
                        (
                            "created" | "modified" | "claimed" | "start_time" | "end_time",
                            Some(time),
                        ) => {
                            assert!(time.starts_with("2026-01-01T00:00:0") && time.ends_with('Z'));
                        }
                        _ => {}
                    }
                    walk(value, &format!("{path}/{name}"));
                }
            }
            Value::Array(values) => values.iter().for_each(|value| walk(value, path)),
            _ => {}
        }
    }
    let long: &'static str = "bencher::mock_0/".repeat(8).leak();
    let mut sample = mixed();
    sample.add(0, Case::new(long, "latency", 1.0, Outcome::NoChange));
    walk(&json(&sample.page()), "");
}

#[test]
fn names_that_begin_alike_have_different_slugs() {
    let names: [&'static str; 2] =
        ["x/a", "x/b"].map(|end| &*format!("{}{end}", "long::".repeat(12)).leak());
    let cases = names.map(|name| Case::new(name, "latency", 1.0, Outcome::NoChange));
    let json = json(&Sample::of(cases.into()).page());
    let slugs = at(&json, "results/*/*/benchmark/slug");
    assert_ne!(slugs[0], slugs[1]);
}

#[test]
fn the_same_name_is_the_same_thing_in_every_report() {
    let first = mixed();
    let mut second = mixed();
    second.report.uuid = Uuid::from_u128(8);
    second.report.start_time += time::Duration::hours(1);
    let (one, two) = (json(&first.page()), json(&second.page()));
    for place in [
        "project/uuid",
        "branch/uuid",
        "branch/head/uuid",
        "testbed/uuid",
        "results/*/*/benchmark/uuid",
        "results/*/*/measures/*/measure/uuid",
        "results/*/*/measures/*/threshold/uuid",
        "results/*/*/measures/*/threshold/model/uuid",
    ] {
        assert_eq!(at(&one, place), at(&two, place), "{place}");
        assert!(!at(&one, place).is_empty(), "{place}");
    }
    let metrics = |json| at(json, "results/*/*/measures/*/metric/uuid").into_iter().cloned();
    assert!(metrics(&one).zip(metrics(&two)).all(|(one, two)| one != two));
    // Pinned: another value would split histories of other tools.
    assert_eq!(one["branch"]["uuid"], "91700244-0aed-5a7e-81a7-6f3e44a421b6");
    second.report.epoch = 1;
    assert_ne!(json(&second.page())["branch"]["head"]["uuid"], one["branch"]["head"]["uuid"]);
}

#[test]
fn closed_sets_of_bencher_hold_only_its_own_names() {
    let json = json(&mixed().page());
    // The report was read by divan's adapter, which Bencher does not have.
    assert_eq!(json["adapter"], "magic");
    assert_eq!(json["wingbeat"]["adapter"], "rust_divan");
    assert_eq!(at(&json, "results/*/*/measures/*/threshold/model/test"), [&json!("t_test")]);
    assert_eq!(at(&json, "alerts/*/threshold/model/test"), [&json!("t_test")]);
    assert_eq!(at(&json, "alerts/*/status"), ["active", "active", "silenced"]);
    assert_eq!(json["counts"]["alerts"], json!({ "total": 3, "active": 2 }));
    assert_eq!(json["counts"]["results"], json!([{ "benchmarks": 4, "measures": 5 }]));
}

#[test]
fn additions() {
    let json = json(&mixed().page());
    let large = &json["results"][0][2];
    assert_eq!(large["benchmark"]["name"], "parse/large");
    let latency = &large["measures"][0];
    assert_eq!(
        latency["boundary"],
        json!({ "baseline": 1000.0, "lower_limit": 950.0, "upper_limit": 1050.0 })
    );
    assert_eq!(latency["metric"]["value"], 1200.0);
    let ours = &latency["wingbeat"];
    let check = |member: &str, expected: Value| assert_eq!(ours[member], expected, "{member}");
    check("verdict", json!("worse"));
    check("test", json!("auto"));
    check("change", json!({ "relative": 0.2, "lower": 0.18, "upper": 0.22 }));
    check("p", json!(0.0001));
    check("smallest_visible", json!(0.03));
    check("points", json!(12));
    check("samples", json!(2));
    check("reason", json!("7.5 spreads from the usual level, where 4.0 are needed (p = 1e−4)"));
    let fields = json!({ "code": "far-from-level", "spreads": 7.5, "limit": 4.0, "p": 0.0001 });
    check("reason_fields", fields);
    check("kind", json!("noisy"));
    assert_eq!(json["wingbeat"]["failures"][0]["benchmark"], "read");
    assert_eq!(json["wingbeat"]["notices"][0]["code"], "environment-changed");
    assert_eq!(json["wingbeat"]["environment"]["kernel"], "Linux 6.18.44");
    assert_eq!(json["wingbeat"]["schema_version"], 2);
    assert_eq!(json["wingbeat"]["outcomes"]["worse"], 3);
}

#[test]
fn the_start_point_is_the_version_that_was_compared_with() {
    let start = &json(&mixed().page())["branch"]["head"]["start_point"];
    let hash = "89abcdef0123456789abcdef0123456789abcdef";
    assert_eq!(start["version"], json!({ "number": 9, "hash": hash }));
    let asked = mixed().report.start_point.and_then(|start| start.hash);
    assert_eq!(start["wingbeat"], json!({ "asked_hash": asked.expect("a commit") }));
}

#[test]
fn what_is_unknown_is_null() {
    let mut sample = Sample::of(vec![
        Case { test: None, ..Case::new("a", "latency", 1.0, Outcome::NotJudged) },
        Case { test: Some(Test::Iqr), ..Case::new("b", "latency", 1.0, Outcome::TooLittleHistory) },
    ]);
    sample.report.hash = Some("abc".to_owned());
    let mut page = sample.page();
    (page.version_number, page.start_point_number) = (None, None);
    let report = json(&page);
    assert_eq!(report["branch"]["head"]["version"], Value::Null);
    assert_eq!(report["branch"]["head"]["start_point"], Value::Null);
    let measures = at(&report, "results/*/*/measures/*");
    assert_eq!(measures[0]["boundary"], Value::Null);
    assert_eq!(measures[0]["threshold"], Value::Null);
    let empty = json!({ "baseline": null, "lower_limit": null, "upper_limit": null });
    assert_eq!(measures[1]["boundary"], empty);
    page.version_number = Some(0);
    // Bencher accepts only full commit hashes.
    assert_eq!(json(&page)["branch"]["head"]["version"], json!({ "number": 0, "hash": null }));
}
