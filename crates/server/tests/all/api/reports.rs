//! Reports: pagination, views, deletion.

use axum::http::{Method, StatusCode};
use serde_json::json;
use uuid::Uuid;
use wingbeat_server::{api::shapes::JsonReport, database::Visibility};
use wingbeat_track::model::NoticeKind;

use crate::support::{Server, alert_counts, run, with};

const REPORTS: &str = "/v0/projects/parser/reports";

#[tokio::test]
async fn lists_come_in_pages() {
    let server = Server::new().and_member();
    for day in 0..10 {
        server.report(if day < 7 { "main" } else { "next" }, day, 1.0).await;
    }
    let check = async |query: &str, days: &[i64], expected: u64| {
        let (page, count) = server.list::<JsonReport>(&format!("{REPORTS}?{query}")).await;
        let found: Vec<_> = page
            .iter()
            .map(|report| report.start_time.unix_timestamp() / 86_400 - 20_000)
            .collect();
        assert_eq!((found.as_slice(), count), (days, expected), "{query}");
    };
    check("", &[9, 8, 7, 6, 5, 4, 3, 2], 10).await;
    check("page=2", &[1, 0], 10).await;
    check("page=9", &[], 10).await;
    check("direction=asc&per_page=2&page=2", &[2, 3], 10).await;
    check("branch=next&per_page=255", &[9, 8, 7], 3).await;
    check("branch=next&testbed=ci&sort=date_time&per_page=1", &[9], 3).await;
    let ms = (20_000_i64 + 8) * 86_400_000;
    check(&format!("start_time={ms}"), &[9, 8], 2).await;
    check(&format!("end_time={ms}&per_page=1"), &[8], 9).await;
    check("archived=true", &[], 0).await;
    let refused = |query: &str| format!("{REPORTS}?{query}");
    for (query, status) in [
        ("sort=size", StatusCode::BAD_REQUEST),
        ("per_page=256", StatusCode::BAD_REQUEST),
        ("direction=up", StatusCode::BAD_REQUEST),
        ("branch=unknown", StatusCode::NOT_FOUND),
        ("start_time=9223372036854775807", StatusCode::BAD_REQUEST),
    ] {
        server.refused(Method::GET, &refused(query), None, status).await;
    }
}

#[tokio::test]
async fn only_expanded_lists_have_results() {
    let server = Server::new().and_member();
    let whole = server.report("main", 0, 1.0).await;
    let (short, _) = server.list::<JsonReport>(REPORTS).await;
    assert_eq!((&short[0].results, &short[0].alerts), (&None, &None));
    assert_eq!(short[0].counts, whole.counts);
    assert_eq!(short[0].branch, whole.branch);
    let (long, _) = server.list::<JsonReport>(&format!("{REPORTS}?expand=true")).await;
    assert_eq!(long, [whole]);
}

#[tokio::test]
async fn reports_are_viewed_by_uuid_in_their_project() {
    let server = Server::new().and_member();
    let report = server.report("main", 0, 1.0).await;
    let viewed: JsonReport = server.get(&format!("{REPORTS}/{}", report.uuid)).await;
    assert_eq!(viewed, report);
    server.project("other", Visibility::Public);
    for path in [
        format!("/v0/projects/other/reports/{}", report.uuid),
        format!("{REPORTS}/{}", Uuid::now_v7()),
        format!("{REPORTS}/latest"),
        format!("/v0/projects/unknown/reports/{}", report.uuid),
    ] {
        server.refused(Method::GET, &path, None, StatusCode::NOT_FOUND).await;
    }
}

#[tokio::test]
async fn a_report_is_made_of_a_project_too() {
    let server = Server::new().and_member();
    server.project("parser", Visibility::Public);
    let report: JsonReport = server.post(REPORTS, run("main", 0, 1.0)).await;
    assert_eq!(report.project.slug, "parser");
    let nameless = with(run("main", 0, 1.0), json!({ "testbed": null })).to_string();
    let status = StatusCode::BAD_REQUEST;
    server.refused(Method::POST, REPORTS, Some(&nameless), status).await;
}

#[tokio::test]
async fn a_deleted_report_is_in_no_list_and_no_history() {
    let server = Server::new().and_member();
    let models =
        json!({ "models": { "latency": { "test": "percentage", "upper_boundary": 0.1 } } });
    let first = with(run("main", 0, 100.0), json!({ "thresholds": models }));
    let first: JsonReport = server.post("/v0/run", first).await;
    let wrong = server.report("main", 1, 1e6).await;
    let path = format!("{REPORTS}/{}", wrong.uuid);
    server.delete(&path).await;
    server.refused(Method::GET, &path, None, StatusCode::NOT_FOUND).await;
    server.refused(Method::DELETE, &path, None, StatusCode::NOT_FOUND).await;
    let (left, count) = server.list::<JsonReport>(REPORTS).await;
    assert_eq!((left.len(), left[0].uuid, count), (1, first.uuid, 1));
    let (alerts, _) = server.list::<serde_json::Value>("/v0/projects/parser/alerts").await;
    assert_eq!(alerts.len(), 0);
    let next = server.report("main", 2, 120.0).await;
    assert_eq!(alert_counts(&next).0, 1, "it is compared with 100 alone");
    let version = next.branch.head.version.expect("a version");
    assert_eq!(version.number, 1, "it does not count");
    let other = with(run("other", 3, 1.0), json!({ "testbed": "attic" }));
    let other: JsonReport = server.post("/v0/run", other).await;
    server.delete(&format!("{REPORTS}/{}", other.uuid)).await;
    server.delete("/v0/projects/parser/branches/other").await;
    server.delete("/v0/projects/parser/testbeds/attic").await;
}

#[tokio::test]
async fn what_was_noticed_is_answered_and_shown() {
    let server = Server::new().and_member();
    let of = |benchmarks: &[&str]| {
        let results: serde_json::Map<_, _> = benchmarks
            .iter()
            .map(|name| ((*name).to_owned(), json!({ "latency": { "value": 1.0 } })))
            .collect();
        json!({ "results": [serde_json::Value::from(results).to_string()] })
    };
    let gone = "a/\u{202e}render";
    let first: JsonReport =
        server.post("/v0/run", with(run("main", 0, 1.0), of(&["parse", gone]))).await;
    assert_eq!(first.notices, []);
    let second: JsonReport =
        server.post("/v0/run", with(run("main", 1, 1.0), of(&["parse"]))).await;
    let [notice] = &second.notices[..] else { panic!("{:?}", second.notices) };
    let NoticeKind::Missing { benchmarks, of: 2 } = &notice.kind else { panic!("{notice:?}") };
    assert_eq!(benchmarks.iter().map(|it| it.as_str()).collect::<Vec<_>>(), [gone]);
    let path = format!("{REPORTS}/{}", second.uuid);
    assert_eq!(server.get::<JsonReport>(&path).await, second);
    let (list, _) = server.list::<JsonReport>(REPORTS).await;
    assert!(list.iter().all(|report| report.notices.is_empty()));
    let page = server.page(&format!("/perf/parser/reports/{}", second.uuid), StatusCode::OK).await;
    let told = "1 of 2 benchmarks of the last report at 0000000000 is missing";
    assert!(page.contains(told) && page.contains("a/\\u202erender"), "{page}");
    for page in
        ["/perf/parser", "/perf/parser/plot", "/perf/parser/benchmarks", "/perf/parser/alerts"]
    {
        let text = server.page(page, StatusCode::OK).await;
        let shown = text.split('<').map(|it| it.split_once('>').map_or(it, |(_, text)| text));
        assert!(shown.clone().all(|text| !text.contains('\u{202e}')), "{page}: {text}");
        assert!(page.ends_with("alerts") || text.contains("\\u202erender"), "{page}: {text}");
    }
}

#[tokio::test]
async fn slow_drift_is_noticed_and_drawn() {
    let server = Server::new().and_member();
    let mut told = Vec::new();
    for day in 0..70 {
        let noise = f64::from(i32::try_from(day * 7 % 5).expect("small")) * 0.002;
        let value = 100.0 * 1.006_f64.powi(i32::try_from(day).expect("small")) * (1.0 + noise);
        told.extend(server.report("main", day, value).await.notices);
    }
    let [notice] = &told[..] else { panic!("{told:?}") };
    let text = notice.text.to_string();
    assert!(
        text.contains("parse latency has risen by") && text.contains("over 50 reports"),
        "{text}"
    );
    let page = server.page("/perf/parser/plot?benchmark=parse", StatusCode::OK).await;
    assert!(page.contains("parse · Latency of main has risen by"), "{page}");
}
