//! Alerts.

use axum::http::{Method, StatusCode};
use serde_json::json;
use uuid::Uuid;
use wingbeat_server::api::shapes::{JsonAlert, JsonReport};
use wingbeat_track::model::AlertStatus;

use crate::support::{Server, alert_counts, run, with};

const ALERTS: &str = "/v0/projects/parser/alerts";

/// A server with three alerts, one per day.
async fn server() -> Server {
    let server = Server::new().and_member();
    let models = json!({ "models": { "latency": { "test": "static", "upper_boundary": 10.0 } } });
    let first = with(run("main", 0, 1.0), json!({ "thresholds": models }));
    let _: JsonReport = server.post("/v0/run", first).await;
    for day in 1..4 {
        let report = server.report("main", day, 10.0 + day as f64).await;
        assert_eq!(alert_counts(&report).0, 1);
    }
    server
}

#[tokio::test]
async fn alerts_are_listed_and_viewed() {
    let server = server().await;
    let (all, count) = server.list::<JsonAlert>(ALERTS).await;
    let values: Vec<_> = all.iter().map(|alert| alert.metric.value).collect();
    assert_eq!((values.as_slice(), count), ([13.0, 12.0, 11.0].as_slice(), 3));
    let (page, count) = server
        .list::<JsonAlert>(&format!("{ALERTS}?sort=created&direction=asc&per_page=1&page=2"))
        .await;
    assert_eq!((page[0].metric.value, count), (12.0, 3));
    let viewed: JsonAlert = server.get(&format!("{ALERTS}/{}", all[0].uuid)).await;
    assert_eq!(viewed, all[0]);
    let report: JsonReport =
        server.get(&format!("/v0/projects/parser/reports/{}", viewed.report)).await;
    assert_eq!(report.alerts.expect("alerts"), std::slice::from_ref(&viewed));
    let metric = report.results.expect("results")[0][0].measures[0].metric;
    assert_eq!(metric, viewed.metric, "one metric has one UUID everywhere");
    let unknown = format!("{ALERTS}/{}", Uuid::now_v7());
    server.refused(Method::GET, &unknown, None, StatusCode::NOT_FOUND).await;
}

#[tokio::test]
async fn alerts_are_dismissed_silenced_and_made_active_again() {
    let server = server().await;
    let (all, _) = server.list::<JsonAlert>(ALERTS).await;
    let path = format!("{ALERTS}/{}", all[1].uuid);
    let body = json!({ "status": "dismissed", "reason": "a slow machine" });
    let changed: JsonAlert = server.patch(&path, body).await;
    assert_eq!(changed.status, AlertStatus::Dismissed);
    assert_eq!(changed.reason.as_deref(), Some("a slow machine"));
    assert!(changed.modified > changed.created);
    let check = async |query: &str, expected: u64| {
        let (_, count) = server.list::<JsonAlert>(&format!("{ALERTS}?{query}")).await;
        assert_eq!(count, expected, "{query}");
    };
    check("status=active", 2).await;
    check("status=dismissed", 1).await;
    check("status=silenced", 0).await;
    let (newest, _) = server.list::<JsonAlert>(&format!("{ALERTS}?sort=modified&per_page=1")).await;
    assert_eq!(newest[0].uuid, changed.uuid);
    let report: JsonReport =
        server.get(&format!("/v0/projects/parser/reports/{}", changed.report)).await;
    assert_eq!(alert_counts(&report), (1, 0));
    let active: JsonAlert = server.patch(&path, json!({ "status": "active" })).await;
    assert_eq!(active.status, AlertStatus::Active);
    let _: JsonAlert = server.patch(&path, json!({ "status": "silenced" })).await;
    let next = server.report("main", 4, 20.0).await;
    assert_eq!(alert_counts(&next), (1, 0), "its series is");
    let wrong = json!({ "status": "gone" }).to_string();
    server.refused(Method::PATCH, &path, Some(&wrong), StatusCode::BAD_REQUEST).await;
}
