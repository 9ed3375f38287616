//! Network output: reports for a Bencher server, and messages for GitHub, tested against stub servers on loopback that
//! behave like the real ones.

mod github;
mod names;
mod send;
mod stub;

use std::time::Duration;

use serde_json::{Value, json};
use time::OffsetDateTime;
use uuid::Uuid;
use wingbeat_track::{
    adapter::Adapter,
    github::*,
    model::{threshold::Test, *},
    remote::{Answer, Host, Key, Patience, RemoteError, Retry, Submission},
};

const HASH: &str = "0123456789abcdef0123456789abcdef01234567";

const QUICK: Patience = Patience {
    connect: Duration::from_secs(2),
    attempts: 3,
    pause: Duration::from_millis(5),
    pause_max: Duration::from_millis(20),
    total: Duration::from_secs(10),
};

fn report() -> Report {
    let mut results = Results::default();
    let name = |text: &str| BenchmarkName::new(text).expect("a name");
    let mut add = |benchmark: &str, measure: &str, metric| {
        results.add(name(benchmark), Measure::named(measure), metric).expect("added");
    };
    add("a::b", "latency", Metric::new(1.5).within(1.0, 2.0));
    add("a::b", "instructions", Metric::new(120.0));
    add("skip_bencher_ignore", "latency", Metric::new(3.0));
    let time = OffsetDateTime::from_unix_timestamp(1_767_225_600).expect("a time");
    let (project, branch) = ("my-proj".parse(), "feature/x".parse());
    let (uuid, testbed) = (Uuid::from_u128(7), "ci-box".parse().expect("a name"));
    Report {
        hash: Some(HASH.to_owned()),
        start_point: Some(StartPoint {
            branch: "main".parse().expect("a name"),
            hash: Some(HASH.to_owned()),
            until: None,
            max_versions: 255,
        }),
        end_time: time + time::Duration::seconds(5),
        adapter: Adapter::WingbeatBench,
        iterations: vec![results],
        ..Report::new(uuid, project.expect("a name"), branch.expect("a name"), testbed, time)
    }
}

/// A UUID that is easy to recognize.
fn id(number: u128) -> String {
    Uuid::from_u128(number).to_string()
}

/// The mandatory members of a `JsonReport`.
fn bare() -> Value {
    let time = "2026-01-01T00:00:05Z";
    json!({
        "uuid": id(1),
        "project": {
            "uuid": id(2), "organization": id(3), "name": "My Proj", "slug": "my-proj",
            "visibility": "public", "created": time, "modified": time, "claimed": time,
        },
        "branch": {
            "uuid": id(4), "project": id(2), "name": "feature/x", "slug": "feature-x",
            "head": { "uuid": id(5), "created": time }, "created": time, "modified": time,
        },
        "testbed": {
            "uuid": id(6), "project": id(2), "name": "ci-box", "slug": "ci-box", "created": time,
            "modified": time,
        },
        "start_time": "2026-01-01T00:00:00Z",
        "end_time": time,
        "adapter": "json",
        "created": time,
    })
}

/// The same with a result, its alert, and counts.
fn alarming() -> Value {
    let time = "2026-01-01T00:00:05Z";
    let thing = |number, name: &str| {
        json!({
            "uuid": id(number), "project": id(2), "name": name, "slug": name, "created": time,
            "modified": time,
        })
    };
    let mut measure = thing(8, "Latency");
    measure["slug"] = json!("latency");
    measure["units"] = json!("nanoseconds (ns)");
    let boundary = json!({ "baseline": 1000.0, "lower_limit": null, "upper_limit": 1100.0 });
    let metric = json!({ "uuid": id(9), "value": 1500.0 });
    let mut report = bare();
    report["results"] = json!([[{
        "iteration": 0,
        "benchmark": thing(7, "a-b"),
        "measures": [{ "measure": measure, "metric": metric, "boundary": boundary }],
    }]]);
    let threshold = json!({
        "uuid": id(11), "project": id(2), "branch": report["branch"], "testbed": report["testbed"],
        "measure": measure, "created": time, "modified": time,
    });
    report["alerts"] = json!([{
        "uuid": id(10), "report": id(1), "iteration": 0, "benchmark": thing(7, "a-b"),
        "metric": metric, "threshold": threshold, "boundary": boundary, "limit": "upper",
        "status": "active", "created": time, "modified": time,
    }]);
    report["counts"] = json!({
        "results": [{ "benchmarks": 1, "measures": 1 }],
        "alerts": { "total": 1, "active": 1 },
    });
    report
}
