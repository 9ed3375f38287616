//! Alerts.

use axum::http::{Method, StatusCode};
use serde_json::json;
use uuid::Uuid;
use wingbeat_server::api::shapes::{JsonAlert, JsonReport};
use wingbeat_track::model::AlertStatus;

use crate::support::{Ask, Server, alert_counts, run, with};

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

/// A server whose benchmark `parse` is slower from day 12 on, and whose benchmark `write` was slow once.
async fn slower() -> Server {
    let server = Server::new().and_member();
    let models =
        json!({ "models": { "latency": { "test": "percentage", "upper_boundary": 0.2 } } });
    for day in 0..17 {
        let noise = (day % 3) as f64 * 0.1;
        let parse = if day < 12 { 100.0 } else { 150.0 } + noise;
        let write = if day == 12 { 90.0 } else { 50.0 } + noise;
        let results = json!({
            "parse": { "latency": { "value": parse } },
            "write": { "latency": { "value": write } },
        });
        let sent = json!({ "results": [results.to_string()], "thresholds": models });
        let run = with(run("main", day, parse), sent);
        let report: JsonReport = server.post("/v0/run", run).await;
        let expected = if day == 12 { 2 } else { u64::from(day > 12) };
        assert_eq!(alert_counts(&report).0, expected, "{day}");
    }
    server
}

/// Number of active alerts.
async fn active(server: &Server) -> u64 {
    server.list::<JsonAlert>(&format!("{ALERTS}?status=active")).await.1
}

/// The names of the causes in a page's form.
fn causes(page: &str) -> Vec<String> {
    let boxes = page.split(r#"name="cause" value=""#).skip(1);
    boxes.map(|rest| rest.split('"').next().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn alerts_of_one_cause_are_one_row_and_settled_at_once() {
    let server = slower().await;
    let page = server.page("/perf/parser/alerts", StatusCode::OK).await;
    assert!(page.contains("2 causes, 6 alerts"), "{page}");
    assert!(page.contains("Its 5 alerts") && page.contains("100.1 ns → </span>150.1 ns"), "{page}");
    let all = causes(&page);
    assert_eq!(all.len(), 2, "{page}");
    assert_eq!(page.matches(" checked").count(), 0, "{page}");
    let selected = server.page("/perf/parser/alerts?select=all", StatusCode::OK).await;
    assert_eq!(selected.matches(" checked").count(), 2, "{selected}");
    // Nobody else may settle them.
    let form = Ask::form("/perf/parser/alerts", &[("cause", &all[0])]);
    let refused = server.ask(form).await.status;
    assert!(refused == StatusCode::UNAUTHORIZED || refused == StatusCode::SEE_OTHER, "{refused}");
    assert_eq!(active(&server).await, 6);
    let fields = [("cause", all[0].as_str()), ("reason", "a new parser")];
    let answer = server.form("/perf/parser/alerts?status=all", &fields).await;
    let place = answer.header("location").to_owned();
    assert_eq!(place, "/perf/parser/alerts?status=all&settled=5");
    let page = server.page(&place, StatusCode::OK).await;
    assert!(page.contains("5 alerts dismissed.") && page.contains("a new parser"), "{page}");
    assert_eq!(active(&server).await, 1);
    // The button of one cause ignores the boxes.
    let fields = [("cause", all[0].as_str()), ("only", all[1].as_str())];
    server.form("/perf/parser/alerts", &fields).await;
    assert_eq!(active(&server).await, 0);
    let page = server.page("/perf/parser/alerts", StatusCode::OK).await;
    assert!(page.contains("No alert is active."), "{page}");
    let wrong = server.form("/perf/parser/alerts", &[("cause", "all")]).await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_cause_of_another_project_is_not_settled() {
    let server = slower().await;
    server.project("other", wingbeat_server::database::Visibility::Public);
    let all = causes(&server.page("/perf/parser/alerts", StatusCode::OK).await);
    server.form("/perf/other/alerts", &[("cause", &all[0])]).await;
    assert_eq!(active(&server).await, 6);
}

#[tokio::test]
async fn causes_are_filtered() {
    let server = slower().await;
    let check = async |query: &str, expected: &str| {
        let page = server.page(&format!("/perf/parser/alerts?{query}"), StatusCode::OK).await;
        assert!(page.contains(expected), "{query}: {page}");
    };
    check("benchmark=parse", "1 cause, 5 alerts").await;
    check("benchmark=w*", "1 cause, 1 alert").await;
    check("branch=main&testbed=ci", "2 causes, 6 alerts").await;
    check("measure=latency", "2 causes, 6 alerts").await;
    check("measure=none", "This project has no measure “none”.").await;
    check("status=dismissed", "There are no such alerts.").await;
    check("branch=none", "This project has no branch “none”.").await;
    check("testbed=none", "This project has no testbed “none”.").await;
}

#[tokio::test]
async fn archiving_takes_alerts_and_reports_along() {
    let server = slower().await;
    let check = async |is_archived: bool, kind: &str| {
        let listed =
            async |query: &str| server.list::<JsonAlert>(&format!("{ALERTS}{query}")).await.1;
        let reports = async |query: &str| {
            let path = format!("/v0/projects/parser/reports{query}");
            server.list::<JsonReport>(&path).await.1
        };
        // Of the two benchmarks, `parse` is archived.
        let (gone, rest) = match kind {
            "benchmarks/parse" => (5, 1),
            _ => (6, 0),
        };
        let (gone, rest) = if is_archived { (gone, rest) } else { (0, 6) };
        assert_eq!((listed("").await, listed("?archived=true").await), (rest, gone), "{kind}");
        let has_reports = matches!(kind, "branches/main" | "testbeds/ci");
        let gone_reports = if is_archived && has_reports { 17 } else { 0 };
        let counts = (reports("").await, reports("?archived=true").await);
        assert_eq!(counts, (17 - gone_reports, gone_reports), "{kind}");
        let badge = server.page("/perf/parser/badge.svg", StatusCode::OK).await;
        let words = match rest {
            0 => "no regression".to_owned(),
            1 => "1 alert".to_owned(),
            _ => format!("{rest} alerts"),
        };
        assert!(badge.contains(&words), "{kind}: {badge}");
        let projects = server.page("/", StatusCode::OK).await;
        let expected =
            if rest == 0 { r#"class="quiet">0<"#.to_owned() } else { format!(">{rest}</a>") };
        assert!(projects.contains(&expected), "{kind}: {projects}");
        for (path, is_empty) in [("alerts", rest == 0), ("reports", gone_reports == 17)] {
            let words =
                if path == "alerts" { "No alert is active." } else { "There are no reports." };
            let page = server.page(&format!("/perf/parser/{path}"), StatusCode::OK).await;
            assert_eq!(page.contains(words), is_empty, "{kind} {path}: {page}");
            let archived = format!("/perf/parser/{path}?archived=yes");
            let page = server.page(&archived, StatusCode::OK).await;
            let is_there = if path == "alerts" { gone > 0 } else { gone_reports > 0 };
            assert_eq!(page.contains(words), !is_there, "{kind} {archived}: {page}");
        }
    };
    for kind in ["branches/main", "testbeds/ci", "benchmarks/parse", "measures/latency"] {
        for is_archived in [true, false] {
            let path = format!("/v0/projects/parser/{kind}");
            let _: serde_json::Value =
                server.patch(&path, json!({ "archived": is_archived })).await;
            check(is_archived, kind).await;
        }
    }
}
