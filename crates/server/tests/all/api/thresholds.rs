//! Thresholds.

use axum::http::{Method, StatusCode};
use serde_json::json;
use uuid::Uuid;
use wingbeat_server::{api::shapes::JsonThreshold, database::Visibility};

use crate::support::Server;

const THRESHOLDS: &str = "/v0/projects/parser/thresholds";

#[tokio::test]
async fn a_threshold_from_its_making_to_its_end() {
    let server = Server::new().and_member();
    server.project("parser", Visibility::Public);
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
    let server = Server::new().and_member();
    server.project("parser", Visibility::Public);
    let new = json!({ "branch": "main", "testbed": "ci", "measure": "latency", "test": "auto" });
    let made: JsonThreshold = server.post(THRESHOLDS, new).await;
    assert_eq!(made.model, None);
    assert_eq!(made.wingbeat.map(|model| model.test.name()), Some("auto"));
}

#[tokio::test]
async fn lists_can_be_narrowed() {
    let server = Server::new().and_member();
    server.project("parser", Visibility::Public);
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
    let server = Server::new().and_member();
    server.project("parser", Visibility::Public);
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
