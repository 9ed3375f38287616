//! Series and single metrics.

use axum::http::{Method, StatusCode};
use serde_json::json;
use wingbeat_server::api::shapes::{JsonOneMetric, JsonPerf, JsonReport};

use crate::support::{Server, run, with};

/// Two branches with three reports each of two benchmarks.
async fn server() -> (Server, JsonReport, JsonReport) {
    let server = Server::new().and_member();
    let mut last = Vec::new();
    for branch in ["main", "next"] {
        for day in 0..3 {
            let value =
                |value: i64| json!({ "latency": { "value": value, "upper_value": value + 1 } });
            let results = json!({ "a": value(day), "b": value(10 + day) }).to_string();
            let body = with(run(branch, day, 0.0), json!({ "results": [results] }));
            last.push(server.post::<JsonReport>("/v0/run", body).await);
        }
    }
    (server, last[2].clone(), last[5].clone())
}

fn query(reports: &[&JsonReport], benchmarks: &[usize]) -> String {
    let join = |uuids: Vec<String>| uuids.join(",");
    let of_results = |index: usize| {
        let result = &reports[0].results.as_deref().expect("results")[0][index];
        (result.benchmark.uuid.to_string(), result.measures[0].measure.uuid)
    };
    format!(
        "branches={}&heads=,&testbeds={}&specs=,&benchmarks={}&measures={}",
        join(reports.iter().map(|report| report.branch.uuid.to_string()).collect()),
        reports[0].testbed.uuid,
        join(benchmarks.iter().map(|index| of_results(*index).0).collect()),
        of_results(0).1,
    )
}

#[tokio::test]
async fn every_permutation_comes_in_the_order_asked() {
    let (server, main, next) = server().await;
    let path = format!("/v0/projects/parser/perf?{}", query(&[&next, &main], &[1, 0]));
    let perf: JsonPerf = server.get(&path).await;
    let order: Vec<_> = perf
        .results
        .iter()
        .map(|it| {
            let values: Vec<_> = it.metrics.iter().map(|metric| metric.metric.value).collect();
            (it.branch.slug.as_str(), it.benchmark.name.as_str(), values)
        })
        .collect();
    let (low, high) = (vec![0.0, 1.0, 2.0], vec![10.0, 11.0, 12.0]);
    let expected = [
        ("next", "b", high.clone()),
        ("next", "a", low.clone()),
        ("main", "b", high),
        ("main", "a", low),
    ];
    assert_eq!(order, expected);
    let text = server.send(Method::GET, &path, None, Some(&server.key)).await.body;
    assert_eq!(serde_json::to_string(&perf).expect("JSON"), text, "as the type of the API");
    let metric = &perf.results[2].metrics[2];
    assert_eq!((metric.report, metric.version.number), (main.uuid, 2));
    assert_eq!((metric.start_time, metric.end_time), (main.start_time, main.end_time));
    let of_report = main.results.expect("results")[0][1].measures[0].metric;
    assert_eq!(metric.metric, of_report, "one metric has one UUID everywhere");
}

#[tokio::test]
async fn times_narrow_series() {
    let (server, main, _) = server().await;
    let day = |day: i64| (20_000 + day) * 86_400_000;
    let check = async |times: &str, expected: &[f64]| {
        let path = format!("/v0/projects/parser/perf?{}{times}", query(&[&main], &[0]));
        let perf: JsonPerf = server.get(&path).await;
        let values: Vec<_> =
            perf.results[0].metrics.iter().map(|metric| metric.metric.value).collect();
        assert_eq!(values, expected, "{times}");
    };
    check("", &[0.0, 1.0, 2.0]).await;
    check(&format!("&start_time={}", day(1)), &[1.0, 2.0]).await;
    check("&start_time=-62167219200000&end_time=253402300799999", &[0.0, 1.0, 2.0]).await;
    check(&format!("&start_time={}&end_time={}", day(1), day(1)), &[1.0]).await;
}

#[tokio::test]
async fn at_most_255_series_come() {
    let (server, main, _) = server().await;
    let (uuid, query) = (main.branch.uuid.to_string(), query(&[&main], &[0, 1]));
    let many = vec![uuid.as_str(); 200].join(",");
    let query = query.replacen(&uuid, &many, 1);
    let perf: JsonPerf = server.get(&format!("/v0/projects/parser/perf?{query}")).await;
    assert_eq!(perf.results.len(), 255);
}

#[tokio::test]
async fn a_metric_is_found_by_its_uuid() {
    let (server, main, _) = server().await;
    let metric = main.results.expect("results")[0][1].measures[0].metric;
    let path = format!("/v0/projects/parser/metrics/{}", metric.uuid);
    let one: JsonOneMetric = server.get(&path).await;
    assert_eq!((one.metric, one.report, one.benchmark.name.as_str()), (metric, main.uuid, "b"));
    let forged = format!("/v0/projects/parser/metrics/{}", main.uuid);
    server.refused(Method::GET, &forged, None, StatusCode::NOT_FOUND).await;
}

#[tokio::test]
async fn a_picture_of_series() {
    let (server, main, _) = server().await;
    let query = query(&[&main], &[0]);
    let path = format!("/v0/projects/parser/perf/img?{query}&title=Parser%20%3C1%3E");
    let picture = async || {
        let answer = server.send(Method::GET, &path, None, Some(&server.key)).await;
        assert_eq!(answer.headers["content-type"], "image/svg+xml");
        answer.body
    };
    let svg = picture().await;
    assert!(svg.contains("<svg") && svg.contains("Parser &lt;1&gt;"), "{svg}");
    for (path, name) in [("branches/main", "trunk"), ("benchmarks/a", "read")] {
        assert!(!svg.contains(name), "{svg}");
        let path = format!("/v0/projects/parser/{path}");
        server.patch::<serde_json::Value>(&path, serde_json::json!({ "name": name })).await;
        assert!(picture().await.contains(name), "{path} is called {name} now");
    }
}

#[tokio::test]
async fn what_is_refused() {
    let (server, main, _) = server().await;
    let check = async |query: &str| {
        let path = format!("/v0/projects/parser/perf?{query}");
        server.refused(Method::GET, &path, None, StatusCode::BAD_REQUEST).await;
    };
    check("").await;
    check(&query(&[&main], &[0]).replacen("branches=", "branches=main,", 1)).await;
    check(&format!("{}&start_time=now", query(&[&main], &[0]))).await;
    // A millisecond before the year 0, which a response could not represent.
    check(&format!("{}&end_time=-62167219200001", query(&[&main], &[0]))).await;
}
