//! Pushed requests, decoded with third-party schemas.

use std::{path::Path, process::Command, sync::Arc, time::Duration};

use serde_json::json;
use wingbeat_agent::{Kind, Series, Target, Window, encode};
use wingbeat_pprof::{
    pprof::pack,
    proto::{Function, Line, Location, Profile, Sample, ValueType},
};
use xtask::fetched;

use crate::backend::{at, labels};

/// A window in which `main` spent three times as long in `hot` as in itself.
fn window() -> Arc<Window> {
    let text = ["", "samples", "count", "cpu", "nanoseconds", "main", "hot"];
    let line = |function_id| Line { function_id, line: 0 };
    let location = |id| Location { id, line: vec![line(id)], ..Location::default() };
    let sample = |ids: &[u64], count: i64| Sample {
        location_id: ids.to_vec(),
        value: vec![count, count * 52_631_578],
        label: Vec::new(),
    };
    let message = Profile {
        sample_type: vec![ValueType { r#type: 1, unit: 2 }, ValueType { r#type: 3, unit: 4 }],
        sample: vec![sample(&[2, 1], 3), sample(&[1], 1)],
        location: vec![location(1), location(2)],
        function: [(1, 5), (2, 6)]
            .map(|(id, name)| Function { id, name, ..Function::default() })
            .to_vec(),
        string_table: text.map(str::to_owned).to_vec(),
        period_type: Some(ValueType { r#type: 3, unit: 4 }),
        period: 52_631_578,
        ..Profile::default()
    };
    let mut pprof = Vec::new();
    pack(&message, &mut pprof).expect("packed");
    let labels = labels(&[("service_name", "web"), ("host_name", "here")]);
    let series = vec![Series { kind: Kind::Cpu, labels, pprof }];
    Arc::new(Window { start: at(0), duration: Duration::from_secs(15), series })
}

#[test]
fn opentelemetry_by_its_own_package() {
    let Some(packages) = fetched::python_packages() else { return };
    let target: Target = "otlp=http://localhost".parse().expect("a target");
    let body = encode(&target, &window()).expect("encoded").body;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/decode_otlp.py");
    let mut python = Command::new("python3");
    let found = decoded(python.arg(script).env("PYTHONPATH", packages), body);
    // Readers compute the CPU time: samples times the period.
    let expected = json!([{
        "labels": {"service.name": "web", "host.name": "here"},
        "type": ["samples", "count"],
        "duration": 15_000_000_000_u64,
        "stacks": [[["hot", "main"], [3]], [["main"], [1]]],
    }]);
    assert_eq!(found, expected);
}

/// The labels that every backend expects, and the file of the window's only series.
fn expected(window: &Window) -> (serde_json::Value, String) {
    let labels = json!({"__name__": "process_cpu", "service_name": "web", "host_name": "here"});
    (labels, window.series[0].pprof.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Output of a program that decodes a request body.
fn decoded(command: &mut Command, body: Vec<u8>) -> serde_json::Value {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("request");
    std::fs::write(&file, body).expect("written");
    let output = command.arg(file).output().expect("run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn parca_by_the_client_of_its_pages() {
    let schemas = Path::new("crates/agent/tests/schemas");
    let Some(schemas) = fetched::npm_package(schemas, "@parca/client") else { return };
    let (target, window) = ("parca=http://localhost".parse().expect("a target"), window());
    let body = encode(&target, &window).expect("encoded").body;
    let mut node = Command::new("node");
    let found = decoded(node.arg(schemas.join("decode_parca.mjs")), body);
    let (labels, pprof) = expected(&window);
    let series = json!([{"labels": labels, "profiles": [pprof]}]);
    assert_eq!(found, json!({"normalized": true, "series": series}));
}

#[test]
fn pyroscope_by_its_own_client() {
    let Some(client) = fetched::rust_client() else { return };
    let (target, window) = ("pyroscope=http://localhost".parse().expect("a target"), window());
    let body = encode(&target, &window).expect("encoded").body;
    let found = decoded(Command::new(client).arg("decode"), body);
    let (labels, _) = expected(&window);
    // Samples, and nanoseconds of CPU time.
    let stacks = json!([[["hot", "main"], [3, 157_894_734]], [["main"], [1, 52_631_578]]]);
    let types = json!([["samples", "count"], ["cpu", "nanoseconds"]]);
    assert_eq!(found, json!([{"labels": labels, "types": types, "stacks": stacks}]));
}
