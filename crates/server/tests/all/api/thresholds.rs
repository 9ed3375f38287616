//! Thresholds.

use axum::http::{Method, StatusCode};
use serde_json::json;
use uuid::Uuid;
use wingbeat_server::{
    access::Role,
    api::shapes::{JsonMeasure, JsonThreshold},
    database::Visibility,
};
use wingbeat_track::model::threshold::Test;

use crate::support::Server;

const THRESHOLDS: &str = "/v0/projects/parser/thresholds";

/// A server with a project that has names, but no reports.
async fn parser() -> Server {
    let server = Server::new().and_member();
    server.project("parser", Visibility::Public);
    for (names, name, units) in [
        ("branches", "main", None),
        ("branches", "next", None),
        ("testbeds", "ci", None),
        ("measures", "Latency", Some("nanoseconds (ns)")),
        ("measures", "Throughput", Some("operations / second (ops/s)")),
    ] {
        let new = json!({ "name": name, "units": units });
        let path = format!("/v0/projects/parser/{names}");
        let _: serde_json::Value = server.post(&path, new).await;
    }
    server
}

#[tokio::test]
async fn a_threshold_from_its_making_to_its_end() {
    let server = parser().await;
    let new = json!({
        "branch": "main", "testbed": "ci", "measure": "latency",
        "test": "t_test", "max_sample_size": 64, "upper_boundary": 0.99,
    });
    let made: JsonThreshold = server.post(THRESHOLDS, &new).await;
    let model = made.model.as_ref().expect("a model");
    assert_eq!((model.test.name(), model.max_sample_size), ("t_test", Some(64)));
    assert_eq!(made.measure.units, "nanoseconds (ns)");
    let one = format!("{THRESHOLDS}/{}", made.uuid);
    assert_eq!(server.get::<JsonThreshold>(&one).await, made);
    let conflict = StatusCode::CONFLICT;
    server.refused(Method::POST, THRESHOLDS, Some(&new.to_string()), conflict).await;
    let change = json!({ "test": "percentage", "upper_boundary": 0.2 });
    let changed: JsonThreshold = server.put(&one, change).await;
    assert_eq!(changed.model.as_ref().and_then(|model| model.upper_boundary), Some(0.2));
    let old = format!("{one}?model={}", model.uuid);
    let old: JsonThreshold = server.get(&old).await;
    assert_eq!(old.model.as_ref().map(|model| model.uuid), Some(model.uuid));
    assert!(old.model.expect("a model").replaced.is_some());
    let ended: JsonThreshold = server.put(&one, json!({ "test": null })).await;
    assert_eq!((ended.uuid, ended.model), (made.uuid, None));
    let again: JsonThreshold = server.post(THRESHOLDS, &new).await;
    assert_eq!(again.uuid, made.uuid, "the threshold is there, and gets a model again");
    server.delete(&one).await;
    server.refused(Method::GET, &one, None, StatusCode::NOT_FOUND).await;
}

#[tokio::test]
async fn a_test_that_the_client_does_not_know_stands_apart() {
    let server = parser().await;
    let new = json!({ "branch": "main", "testbed": "ci", "measure": "latency", "test": "auto" });
    let made: JsonThreshold = server.post(THRESHOLDS, new).await;
    assert_eq!(made.model, None);
    assert_eq!(made.wingbeat.map(|model| model.test.name()), Some("auto"));
}

#[tokio::test]
async fn lists_can_be_narrowed() {
    let server = parser().await;
    for (branch, measure) in [("main", "latency"), ("main", "throughput"), ("next", "latency")] {
        let new = json!({
            "branch": branch, "testbed": "ci", "measure": measure,
            "test": "static", "upper_boundary": 1.0,
        });
        let _: JsonThreshold = server.post(THRESHOLDS, new).await;
    }
    let check = async |query: &str, expected: &[&str], count: u64| {
        let (found, all) = server.list::<JsonThreshold>(&format!("{THRESHOLDS}?{query}")).await;
        let found: Vec<_> =
            found.iter().map(|it| format!("{} {}", it.branch.slug, it.measure.slug)).collect();
        assert_eq!(
            (found, all),
            (expected.iter().map(ToString::to_string).collect(), count),
            "{query}"
        );
    };
    check("", &["next latency", "main throughput", "main latency"], 3).await;
    check("sort=created&direction=asc&per_page=1", &["main latency"], 3).await;
    check("branch=main&measure=latency&testbed=ci", &["main latency"], 1).await;
    let branch = "/v0/projects/parser/branches/next";
    let _: serde_json::Value = server.patch(branch, json!({ "archived": true })).await;
    check("archived=true", &["next latency"], 1).await;
    let why = server.refused(Method::DELETE, branch, None, StatusCode::CONFLICT).await;
    assert!(
        why.contains("thresholds depend on it") || why.contains("thresholds depend on"),
        "{why}"
    );
}

#[tokio::test]
async fn what_is_refused() {
    let server = parser().await;
    let new = json!({ "branch": "main", "testbed": "ci", "measure": "latency", "test": "static" });
    let made: JsonThreshold = server.post(THRESHOLDS, &new).await;
    let one = format!("{THRESHOLDS}/{}", made.uuid);
    let bad = StatusCode::BAD_REQUEST;
    for (method, path, body, status) in [
        (Method::PUT, one.as_str(), json!({}), bad),
        (Method::PUT, one.as_str(), json!({ "test": "guess" }), bad),
        (Method::PUT, one.as_str(), json!({ "test": "static", "max_sample_size": 2 }), bad),
        (Method::POST, THRESHOLDS, json!({ "branch": "main" }), bad),
    ] {
        server.refused(method, path, Some(&body.to_string()), status).await;
    }
    let unknown = format!("{THRESHOLDS}/{}", Uuid::now_v7());
    server.refused(Method::GET, &unknown, None, StatusCode::NOT_FOUND).await;
    let model = format!("{one}?model={}", Uuid::now_v7());
    server.refused(Method::GET, &model, None, StatusCode::NOT_FOUND).await;
}

#[tokio::test]
async fn what_judges_by_default_can_be_opened_and_replaced() {
    let server = Server::new().and_member();
    let report = server.report("main", 0, 100.0).await;
    let result = &report.results.as_ref().expect("results")[0][0].measures[0];
    let threshold = result.threshold.as_ref().expect("a threshold");
    let path = format!("{THRESHOLDS}/{}", threshold.uuid);
    let with_model = format!("{path}?model={}", threshold.model.uuid);
    let viewed: JsonThreshold = server.get(&with_model).await;
    assert_eq!((viewed.uuid, viewed.model), (threshold.uuid, None));
    assert_eq!(viewed.wingbeat.map(|model| model.test), Some(Test::Auto));
    assert_eq!((viewed.branch.name.as_str(), viewed.testbed.name.as_str()), ("main", "ci"));
    let place = format!("/perf/parser/thresholds/{}", threshold.uuid);
    let page = server.page(&place, StatusCode::OK).await;
    assert!(page.contains("auto, by default") && page.contains("Nothing is set"), "{page}");
    assert!(!page.contains("Remove this threshold"), "{page}");
    let (listed, _) = server.list::<JsonThreshold>(THRESHOLDS).await;
    assert_eq!(listed, [], "a list has what is set");
    // The answer of a measure says the same everywhere.
    let metric = format!("/v0/projects/parser/metrics/{}", result.metric.uuid);
    let metric: serde_json::Value = server.get(&metric).await;
    assert_eq!(metric["threshold"]["uuid"], threshold.uuid.to_string());
    let admin = server.key_of("root", Role::Admin);
    let refused = server.send(Method::DELETE, &path, None, Some(&admin)).await;
    assert!(refused.refusal(StatusCode::CONFLICT).contains("nothing to delete"));
    let share = json!({ "test": "percentage", "upper_boundary": 0.1 });
    let replaced: JsonThreshold = server.put(&path, share).await;
    assert_ne!(replaced.uuid, threshold.uuid);
    // The old link leads to what is set now.
    let viewed: JsonThreshold = server.get(&with_model).await;
    assert_eq!(viewed, replaced);
    let page = server.page(&place, StatusCode::OK).await;
    assert!(page.contains("percentage, upper boundary 0.1"), "{page}");
    let unknown = format!("{THRESHOLDS}/{}", Uuid::now_v7());
    server.refused(Method::GET, &unknown, None, StatusCode::NOT_FOUND).await;
}

#[tokio::test]
async fn a_threshold_of_an_unknown_name_is_refused() {
    let server = Server::new().and_member();
    server.report("main", 0, 100.0).await;
    let check = async |branch: &str, testbed: &str, measure: &str, unknown: Option<&str>| {
        let new = json!({
            "branch": branch, "testbed": testbed, "measure": measure,
            "test": "percentage", "upper_boundary": 0.1,
        });
        let answer =
            server.send(Method::POST, THRESHOLDS, Some(&new.to_string()), Some(&server.key)).await;
        match unknown {
            None => assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.body),
            Some(name) => {
                let why = answer.refusal(StatusCode::NOT_FOUND);
                assert!(why.contains(name), "{why}");
            }
        }
    };
    check("main", "ci", "latancy", Some("latancy")).await;
    check("mian", "ci", "latency", Some("mian")).await;
    check("main", "si", "latency", Some("si")).await;
    check("main", "ci", "latency", None).await;
    let names: Vec<JsonMeasure> = server.get("/v0/projects/parser/measures").await;
    assert_eq!(names.len(), 1, "{names:?}");
}
