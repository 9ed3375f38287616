//! Pinned plots.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;
use wingbeat_server::{
    access::Role,
    api::shapes::{JsonPlot, JsonReport},
};

use crate::support::{Ask, Server};

const PLOTS: &str = "/v0/projects/parser/plots";

fn new(report: &JsonReport, title: &str) -> Value {
    let result = &report.results.as_deref().expect("results")[0][0];
    json!({
        "title": title,
        "lower_value": false, "upper_value": true, "lower_boundary": false, "upper_boundary": true,
        "x_axis": "date_time", "y_axis": "log", "window": 2_592_000,
        "branches": [report.branch.uuid], "testbeds": [report.testbed.uuid],
        "benchmarks": [result.benchmark.uuid], "measures": [result.measures[0].measure.uuid],
    })
}

#[tokio::test]
async fn plots_are_pinned_moved_renamed_and_deleted() {
    let server = Server::new().and_member();
    let report = server.report("main", 0, 1.0).await;
    let mut made: Vec<JsonPlot> = Vec::new();
    for title in ["one", "two"] {
        made.push(server.post(PLOTS, new(&report, title)).await);
    }
    let mut first = new(&report, "zero");
    first["index"] = json!(0);
    let _: JsonPlot = server.post(PLOTS, first).await;
    let check = async |query: &str, expected: &[&str]| {
        let (plots, count) = server.list::<JsonPlot>(&format!("{PLOTS}?{query}")).await;
        let titles: Vec<_> =
            plots.iter().filter_map(|plot| plot.settings.title.as_deref()).collect();
        assert_eq!((titles.as_slice(), count), (expected, expected.len() as u64), "{query}");
    };
    check("", &["zero", "one", "two"]).await;
    check("sort=title&direction=desc", &["zero", "two", "one"]).await;
    check("search=o&title=two", &["two"]).await;
    assert_eq!(made[0].branches, [report.branch.uuid]);
    let one = format!("{PLOTS}/{}", made[1].uuid);
    let moved: JsonPlot =
        server.patch(&one, json!({ "index": 0, "title": null, "window": 60 })).await;
    assert_eq!((moved.settings.title, moved.settings.window_s), (None, 60));
    let (plots, _) = server.list::<JsonPlot>(PLOTS).await;
    assert_eq!(plots[0].uuid, made[1].uuid);
}

#[tokio::test]
async fn axes_of_a_plot_are_those_of_its_page() {
    let server = Server::new().and_member();
    let report = server.report("main", 0, 1.0).await;
    let made: JsonPlot = server.post(PLOTS, new(&report, "one")).await;
    let key = server.key_of("Eve", Role::Reader);
    let check = async |expected: &str| {
        let page = format!("/perf/parser/plots/{}", made.uuid);
        let answer = server.ask(Ask::get(&page).key(&key)).await;
        let location = answer.header("location");
        let query = location.split('&').filter(|it| it.starts_with("x=") || it.starts_with("y="));
        assert_eq!(query.collect::<Vec<_>>().join("&"), expected, "{location}");
        server.page(location, StatusCode::OK).await;
    };
    check("y=log").await;
    let one = format!("{PLOTS}/{}", made.uuid);
    let changed = json!({ "x_axis": "version", "y_axis": "linear" });
    let _: JsonPlot = server.patch(&one, changed).await;
    check("y=linear&x=version").await;
    let _: JsonPlot = server.patch(&one, json!({ "y_axis": "auto" })).await;
    check("x=version").await;
}

#[tokio::test]
async fn a_deleted_plot_is_gone() {
    let server = Server::new().and_member();
    let report = server.report("main", 0, 1.0).await;
    let made: JsonPlot = server.post(PLOTS, new(&report, "one")).await;
    let one = format!("{PLOTS}/{}", made.uuid);
    assert_eq!(server.get::<JsonPlot>(&one).await, made);
    server.delete(&one).await;
    server.refused(Method::GET, &one, None, StatusCode::NOT_FOUND).await;
    let mut unknown = new(&report, "two");
    unknown["branches"] = json!([Uuid::now_v7()]);
    let status = StatusCode::NOT_FOUND;
    server.refused(Method::POST, PLOTS, Some(&unknown.to_string()), status).await;
    let key = server.key_of_project("parser");
    let body = new(&report, "three").to_string();
    let answer = server.send(Method::POST, PLOTS, Some(&body), Some(&key)).await;
    answer.refusal(StatusCode::FORBIDDEN);
}
