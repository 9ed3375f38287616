//! `docs/bench.md` and `docs/bench-json.md` must name every field, measure and column that is written.

use std::collections::BTreeSet;

use serde_json::Value;
use wingbeat_bpf_bench::{
    conditions::Load,
    report::{bmf, csv, json},
};

use crate::sample;

const DOCS: &str = concat!(
    include_str!("../../../../docs/bench.md"),
    include_str!("../../../../docs/bench-json.md")
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
