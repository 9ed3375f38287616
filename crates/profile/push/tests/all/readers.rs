//! What is pushed, decoded by schemas that others wrote.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use serde_json::json;
use wingbeat_difference::{
    proto::{Function, Line, Location, Profile, Sample, ValueType},
    write::pack,
};
use wingbeat_push::{Kind, Series, Target, Window, encode};

use crate::windows::{at, labels};

/// The folder of Python packages, if they are there.
fn packages() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../xtask/python/.packages");
    if folder.join("requirements.txt").exists() {
        return Some(folder);
    }
    let missing = "the Python packages are missing: `cargo xtask setup` installs them";
    assert!(env::var_os("CI").is_none(), "{missing}");
    eprintln!("skipped: {missing}");
    None
}

/// A window in which `main` called `hot` three times as often as it ran itself.
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
    let Some(packages) = packages() else { return };
    let target: Target = "otlp=http://localhost".parse().expect("a target");
    let body = encode(&target, &window()).expect("encoded").body;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("request");
    std::fs::write(&file, body).expect("written");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/decode_otlp.py");
    let mut python = Command::new("python3");
    let output = python.arg(script).arg(file).env("PYTHONPATH", packages).output().expect("run");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    // CPU time is left to the reader: samples times the period.
    let expected = json!([{
        "labels": {"service.name": "web", "host.name": "here"},
        "type": ["samples", "count"],
        "duration": 15_000_000_000_u64,
        "stacks": [[["hot", "main"], [3]], [["main"], [1]]],
    }]);
    assert_eq!(found, expected);
}
