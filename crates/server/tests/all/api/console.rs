//! Behaviour of pages and forms beyond their layout.

use axum::http::StatusCode;
use serde_json::json;
use wingbeat_server::{
    access::Role,
    api::shapes::{JsonReport, JsonThreshold},
};

use crate::support::{Ask, Server, alert_counts, run, with};

#[tokio::test]
async fn a_branch_is_compared_with_the_report_that_it_began_from() {
    let server = Server::new().and_member();
    let start = server.report("main", 0, 100.0).await;
    let begun = json!({ "branch": "main", "hash": format!("{:040x}", 0) });
    let feature = with(run("feature", 1, 101.0), json!({ "start_point": begun }));
    let feature: JsonReport = server.post("/v0/run", &feature).await;
    let newest = server.report("main", 2, 102.0).await;
    let check = async |before: &str, expected: &JsonReport, has_note: bool| {
        let path = format!("/perf/parser/compare/{before}..feature");
        let page = server.page(&path, StatusCode::OK).await;
        // The link that swaps both sides names the reports compared.
        let sides = format!("compare/{}..{}", feature.uuid, expected.uuid);
        assert!(page.contains(&sides), "{before}: {page}");
        let note = format!("compare/{}..{}", newest.uuid, feature.uuid);
        assert_eq!(page.contains(&note), has_note, "{before}: {page}");
    };
    check("main", &start, true).await;
    // A report or commit resolves to itself.
    check(&newest.uuid.to_string(), &newest, false).await;
    check(&format!("{:040x}", 2), &newest, false).await;
    let page = server.page("/perf/parser/compare/feature..main", StatusCode::OK).await;
    assert!(page.contains(&newest.uuid.to_string()), "{page}");
}

#[tokio::test]
async fn a_start_point_without_reports_is_named() {
    let server = Server::new().and_member();
    let begun = json!({ "start_point": { "branch": "ghost" } });
    let report: JsonReport = server.post("/v0/run", with(run("feature", 1, 1.0), begun)).await;
    let page = server.page(&format!("/perf/parser/reports/{}", report.uuid), StatusCode::OK).await;
    assert!(page.contains("ghost") && page.contains("nothing to compare with"), "{page}");
}

#[tokio::test]
async fn an_address_asks_for_a_bounded_work() {
    let server = Server::new().and_member();
    server.report("main", 0, 1.0).await;
    for page in ["", "/plot", "/badge.svg", "/benchmarks"] {
        let check = async |parameter: &str, count: usize, expected: StatusCode| {
            let query = vec![parameter; count].join("&");
            server.page(&format!("/perf/parser{page}?{query}"), expected).await;
        };
        check("benchmark=parse", 512, StatusCode::OK).await;
        check("benchmark=parse", 513, StatusCode::BAD_REQUEST).await;
        check("benchmark=pa*", 16, StatusCode::OK).await;
        check("benchmark=pa*", 17, StatusCode::BAD_REQUEST).await;
        let long = format!("benchmark={}", "x".repeat(16 << 10));
        check(&long, 1, StatusCode::BAD_REQUEST).await;
    }
}

#[tokio::test]
async fn an_old_alert_is_not_too_new_to_tell() {
    let server = Server::new().and_member();
    let value = |day: i64| if day == 20 { 150.0 } else { 100.0 + (day % 5) as f64 * 0.2 };
    for (days, is_new) in [(0..21, true), (21..30, false)] {
        for day in days {
            let report = server.report("main", day, value(day)).await;
            assert_eq!(alert_counts(&report).0, u64::from(day == 20), "{day}");
        }
        let page = server.page("/perf/parser", StatusCode::OK).await;
        assert!(page.contains(">alert<"), "{page}");
        assert_eq!(page.contains("too new to tell"), is_new, "{page}");
    }
}

#[tokio::test]
async fn a_badge_shows_the_newest_value_of_several_testbeds() {
    let server = Server::new().and_member();
    for (testbed, day, value) in [("old", 0, 1.0), ("new", 2, 3.0), ("middle", 1, 2.0)] {
        let run = with(run("main", day, value), json!({ "testbed": testbed }));
        let _: JsonReport = server.post("/v0/run", run).await;
    }
    let badge = "/perf/parser/badge.svg?benchmark=parse&measure=latency";
    let text = server.page(badge, StatusCode::OK).await;
    assert!(text.contains("<title>parse Latency: 3.000 ns</title>"), "{text}");
}

#[tokio::test]
async fn alerts_have_the_statuses_of_the_list() {
    let server = Server::new().and_member();
    server.report("main", 0, 100.0).await;
    for (status, expected) in
        [("active", StatusCode::OK), ("all", StatusCode::OK), ("bogus", StatusCode::BAD_REQUEST)]
    {
        let path = format!("/perf/parser/alerts?status={status}");
        let page = server.page(&path, expected).await;
        assert_eq!(page.contains("no such status"), expected != StatusCode::OK, "{page}");
    }
}

#[tokio::test]
async fn other_sites_may_show_the_embedded_plot_alone() {
    let server = Server::new().and_member();
    server.report("main", 0, 100.0).await;
    let headers = async |path: &str| {
        let answer = server.ask(Ask::get(path).key(&server.key)).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}");
        let header = |name| answer.header(name).to_owned();
        (header("x-frame-options"), header("content-security-policy"))
    };
    let (frame, policy) = headers("/perf/parser/plot").await;
    assert_eq!(frame, "DENY");
    assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
    let (frame, policy) = headers("/perf/parser/embed").await;
    assert_eq!(frame, "");
    assert!(policy.contains("frame-ancestors *"), "{policy}");
}

#[tokio::test]
async fn what_was_filled_in_stays_where_it_is_refused() {
    let server = Server::new().and_member();
    server.report("main", 0, 100.0).await;
    let given = [
        ("measure", "latency"),
        ("branch", "main"),
        ("testbed", "ci"),
        ("test", "percentage"),
        ("upper_boundary", "a tenth"),
        ("window_days", "30"),
    ];
    let form = |upper| given.map(|it| if it.0 == "upper_boundary" { (it.0, upper) } else { it });
    let path = "/perf/parser/thresholds";
    let refused = server.form(path, &form("a tenth")).await;
    let page = refused.body;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{page}");
    for kept in ["expected a number", r#"value="a tenth""#, r#"value="30""#] {
        assert!(page.contains(kept), "{kept}: {page}");
    }
    let made = server.form(path, &form("0.1")).await;
    assert_eq!(made.status, StatusCode::SEE_OTHER);
    let place = made.header("location").to_owned();
    let refused = server.form(&place, &form("many")).await;
    let page = refused.body;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{page}");
    assert!(page.contains(r#"value="many""#) && page.contains("upper boundary 0.1"), "{page}");
    let (all, _) = server.list::<JsonThreshold>("/v0/projects/parser/thresholds").await;
    assert_eq!(all.len(), 1);
}

#[tokio::test]
async fn an_admin_deletes_a_project_by_its_name() {
    let mut server = Server::new().and_member();
    let report = server.report("main", 0, 100.0).await;
    let member = server.form("/perf/parser/delete", &[("slug", "parser")]).await;
    assert_eq!(member.status, StatusCode::FORBIDDEN);
    server.key = server.key_of("root", Role::Admin);
    assert!(
        server.page("/perf/parser/settings", StatusCode::OK).await.contains("Delete this project")
    );
    let wrong = server.form("/perf/parser/delete", &[("slug", "parse")]).await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    server.page(&format!("/perf/parser/reports/{}", report.uuid), StatusCode::OK).await;
    let right = server.form("/perf/parser/delete", &[("slug", "parser")]).await;
    assert_eq!(right.status, StatusCode::SEE_OTHER);
    server.page("/perf/parser", StatusCode::NOT_FOUND).await;
    // The branch restarts under the same name.
    let again = server.report("main", 1, 100.0).await;
    server.page(&format!("/perf/parser/reports/{}", again.uuid), StatusCode::OK).await;
    server.page(&format!("/perf/parser/reports/{}", report.uuid), StatusCode::NOT_FOUND).await;
}
