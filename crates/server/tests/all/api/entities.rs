//! Branches, testbeds, benchmarks and measures.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use wingbeat_server::{
    api::shapes::{JsonBranch, JsonMeasure, JsonReport},
    database::Visibility,
};

use crate::support::{Server, alert_counts, run, with};

const KINDS: [&str; 4] = ["branches", "testbeds", "benchmarks", "measures"];

fn new(name: &str) -> Value {
    json!({ "name": name, "units": "widgets" })
}

#[tokio::test]
async fn each_kind_is_made_listed_viewed_changed_and_deleted() {
    let server = Server::new().and_member();
    server.project("parser", Visibility::Public);
    for kind in KINDS {
        let path = format!("/v0/projects/parser/{kind}");
        for name in ["b", "A1", "c"] {
            let made: Value = server.post(&path, new(name)).await;
            assert_eq!(made["slug"], name.to_lowercase(), "{kind}");
        }
        let check = async |query: &str, expected: &[&str], count: u64| {
            let (found, all) = server.list::<Value>(&format!("{path}?{query}")).await;
            let names: Vec<_> = found.iter().map(|it| it["name"].as_str().expect("text")).collect();
            assert_eq!((names.as_slice(), all), (expected, count), "{kind} {query}");
        };
        check("", &["A1", "b", "c"], 3).await;
        check("direction=desc&sort=name&per_page=2", &["c", "b"], 3).await;
        check("per_page=2&page=2", &["c"], 3).await;
        check("search=a", &["A1"], 1).await;
        check("name=b", &["b"], 1).await;
        let one = format!("{path}/b");
        let viewed: Value = server.get(&one).await;
        let by_uuid: Value =
            server.get(&format!("{path}/{}", viewed["uuid"].as_str().expect("text"))).await;
        assert_eq!(viewed, by_uuid);
        let archived: Value = server.patch(&one, json!({ "archived": true })).await;
        assert!(archived["archived"].is_string());
        check("archived=false", &["A1", "c"], 2).await;
        check("archived=true", &["b"], 1).await;
        let back: Value = server.patch(&one, json!({ "archived": false, "name": "d" })).await;
        assert_eq!(
            (&back["archived"], &back["name"], &back["slug"]),
            (&Value::Null, &json!("d"), &json!("b"))
        );
        server.delete(&one).await;
        check("", &["A1", "c"], 2).await;
        for (method, path, body, status) in [
            (Method::GET, one.as_str(), None, StatusCode::NOT_FOUND),
            (Method::DELETE, one.as_str(), None, StatusCode::NOT_FOUND),
            (Method::POST, path.as_str(), Some(new("c").to_string()), StatusCode::CONFLICT),
            (Method::POST, path.as_str(), Some(new("").to_string()), StatusCode::BAD_REQUEST),
            (Method::POST, path.as_str(), Some("{}".to_owned()), StatusCode::BAD_REQUEST),
        ] {
            server.refused(method, path, body.as_deref(), status).await;
        }
        let taken = json!({ "slug": "c" }).to_string();
        let path = format!("{path}/a1");
        server.refused(Method::PATCH, &path, Some(&taken), StatusCode::CONFLICT).await;
    }
}

#[tokio::test]
async fn what_reports_use_is_not_deleted() {
    let server = Server::new().and_member();
    server.report("main", 0, 1.0).await;
    for (kind, name) in KINDS.iter().zip(["main", "ci", "parse", "latency"]) {
        let path = format!("/v0/projects/parser/{kind}/{name}");
        let why = server.refused(Method::DELETE, &path, None, StatusCode::CONFLICT).await;
        assert!(why.contains("archive it instead"), "{why}");
    }
}

#[tokio::test]
async fn what_is_archived_is_in_use_again_after_a_run() {
    let server = Server::new().and_member();
    server.report("main", 0, 1.0).await;
    for (kind, name) in KINDS.iter().zip(["main", "ci", "parse", "latency"]) {
        let path = format!("/v0/projects/parser/{kind}/{name}");
        let _: Value = server.patch(&path, json!({ "archived": true })).await;
    }
    server.report("main", 1, 1.0).await;
    for kind in KINDS {
        let path = format!("/v0/projects/parser/{kind}?archived=true");
        assert_eq!(server.list::<Value>(&path).await.1, 0, "{kind}");
    }
}

#[tokio::test]
async fn a_measure_has_the_units_that_it_was_made_with() {
    let server = Server::new().and_member();
    server.project("parser", Visibility::Public);
    let made: JsonMeasure = server.post("/v0/projects/parser/measures", new("Score")).await;
    let check = async |label: &str| {
        let results = json!({ "a": { (label): { "value": 1.0 } } }).to_string();
        let body = with(run("main", 0, 0.0), json!({ "results": [results] }));
        let report: JsonReport = server.post("/v0/run", body).await;
        let found = report.results.expect("results")[0][0].measures[0].measure.clone();
        assert_eq!((found.uuid, found.units.as_str()), (made.uuid, "widgets"), "{label}");
    };
    for label in ["score", "Score", &made.uuid.to_string()] {
        check(label).await;
    }
    let path = "/v0/projects/parser/measures";
    for new in [json!({ "name": "Nope" }), json!({ "name": "Nope", "units": "a\nb" })] {
        let bad = StatusCode::BAD_REQUEST;
        server.refused(Method::POST, path, Some(&new.to_string()), bad).await;
    }
}

#[tokio::test]
async fn a_new_branch_may_say_where_it_begins() {
    let server = Server::new().and_member();
    let models =
        json!({ "models": { "latency": { "test": "percentage", "upper_boundary": 0.1 } } });
    let main = with(run("main", 0, 100.0), json!({ "thresholds": models }));
    let main: JsonReport = server.post("/v0/run", main).await;
    let start = json!({ "branch": "main", "clone_thresholds": true });
    let branch = json!({ "name": "feature/x", "start_point": start });
    let made: JsonBranch = server.post("/v0/projects/parser/branches", branch).await;
    let report = server.report("feature/x", 1, 150.0).await;
    assert_eq!((report.branch.uuid, alert_counts(&report).0), (made.uuid, 1));
    let start = report.branch.head.start_point.expect("a start point");
    assert_eq!(start.branch, main.branch.uuid);
    let unknown = json!({ "name": "y", "start_point": { "branch": "nope" } }).to_string();
    let path = "/v0/projects/parser/branches";
    server.refused(Method::POST, path, Some(&unknown), StatusCode::NOT_FOUND).await;
}
