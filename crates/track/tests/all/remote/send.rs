//! `--host`: the request, the handling of the response, and error messages.

use std::{collections::BTreeMap, net::TcpListener, time::Duration};

use super::*;
use serde_json::{Value, json};
use wingbeat_track::{output::Style, remote};

use super::stub::{Reply, Stub};

fn host(url: &str) -> Host {
    Host { url: url.to_owned(), key: None, has_public_links: false, patience: QUICK }
}

fn send(host: &Host) -> Result<Answer, RemoteError> {
    send_as(host, &report(), &[], &mut |_| {})
}

fn send_as(
    host: &Host,
    report: &Report,
    thresholds: &[Threshold],
    on_retry: &mut dyn FnMut(&Retry),
) -> Result<Answer, RemoteError> {
    host.send(&Submission { thresholds, ..Submission::of(report) }, on_retry)
}

fn server(report: Value) -> Stub {
    Stub::start(move |asked, _| match asked.line.as_str() {
        "POST /v0/run" => Reply::Text(201, report.to_string()),
        "GET /v0/server/config/console" => {
            Reply::Text(200, json!({ "url": "http://console:3000/" }).to_string())
        }
        _ => Reply::Text(404, json!({ "request_id": "1", "message": "not here" }).to_string()),
    })
}

fn threshold(test: Test, benchmark: Option<&str>) -> Threshold {
    Threshold {
        measure: Slug::of("latency"),
        benchmark: benchmark.map(str::to_owned),
        model: ThresholdModel::new(test).within(None, Some(0.99)),
    }
}

#[test]
fn what_is_sent() {
    let stub = server(bare());
    let key = Key::new("bencher_run_0123456789abcdefghijABCDEFGHIJ").expect("a key");
    let host = Host { key: Some(key), url: format!("{}/", stub.url), ..host("") };
    let context = BTreeMap::from([("bencher.dev/v0/testbed/os".to_owned(), "Linux".to_owned())]);
    let (report, thresholds) = (report(), [threshold(Test::TTest, None)]);
    let submission = Submission {
        thresholds_reset: true,
        clone_thresholds: true,
        start_point_reset: true,
        thresholds: &thresholds,
        context: &context,
        ..Submission::of(&report)
    };
    host.send(&submission, &mut |_| {}).expect("sent");
    assert_eq!(stub.lines(), ["POST /v0/run", "GET /v0/server/config/console"]);
    let [run, console] = &stub.asked()[..] else { panic!("two requests") };
    let bearer = "Bearer bencher_run_0123456789abcdefghijABCDEFGHIJ";
    assert_eq!(run.header("authorization"), Some(bearer));
    assert_eq!(run.header("content-type"), Some("application/json"));
    // The server of the console's address must not get the key.
    assert_eq!(console.header("authorization"), None);
    let results = json!({
        "a::b": {
            "latency": { "value": 1.5, "lower_value": 1.0, "upper_value": 2.0 },
            "instructions": { "value": 120.0 },
        },
        "skip_bencher_ignore": { "latency": { "value": 3.0 } },
    });
    let mut sent = run.json();
    let bmf = sent["results"][0].take();
    let bmf: Value = serde_json::from_str(bmf.as_str().expect("a string")).expect("BMF");
    assert_eq!(bmf, results);
    let expected = json!({
        "project": "my-proj",
        "idempotency_key": id(7),
        "branch": "feature/x",
        "hash": HASH,
        "testbed": "ci-box",
        "start_point": {
            "branch": "main", "hash": HASH, "max_versions": 255, "clone_thresholds": true,
            "reset": true,
        },
        "thresholds": {
            "models": { "latency": { "test": "t_test", "upper_boundary": 0.99 } },
            "reset": true,
        },
        "start_time": "2026-01-01T00:00:00Z",
        "end_time": "2026-01-01T00:00:05Z",
        "results": [null],
        "settings": { "adapter": "json" },
        "context": { "bencher.dev/v0/testbed/os": "Linux" },
    });
    assert_eq!(sent, expected);
}

#[test]
fn what_bencher_cannot_take_is_told() {
    let stub = server(bare());
    let mut report = report();
    report.hash = Some("0123abc".to_owned());
    let failed = BenchmarkName::new("broken").expect("a name");
    report.iterations[0].fail(failed, "exit code 1");
    let thresholds = [threshold(Test::Auto, None), threshold(Test::Iqr, Some("a*"))];
    let answer = send_as(&host(&stub.url), &report, &thresholds, &mut |_| {}).expect("sent");
    let sent = stub.asked()[0].json();
    assert_eq!((sent.get("thresholds"), sent.get("hash")), (None, None));
    let warnings = answer.warnings.join("\n");
    for words in ["no test auto", "\"a*\"", "1 benchmark failed", "full SHA-1"] {
        assert!(warnings.contains(words), "{words:?} is not in {warnings}");
    }
    assert_eq!(answer.warnings.len(), 4);
}

#[test]
fn the_mandatory_members_are_enough() {
    let answer = send(&host(&server(bare()).url)).expect("sent");
    assert_eq!((answer.alerts_total, answer.alerts_active, answer.metrics), (0, 0, 0));
    assert_eq!(answer.uuid.to_string(), id(1));
    let expected = format!("http://console:3000/perf/my-proj/reports/{}", id(1));
    assert_eq!(answer.report_url, Some(expected));
    assert_eq!((answer.warnings, answer.claim_url), (vec![], None));
}

#[test]
fn alerts_and_links() {
    let answer = send(&host(&server(alarming()).url)).expect("sent");
    assert_eq!((answer.alerts_total, answer.alerts_active, answer.metrics), (1, 1, 1));
    let alert = &answer.alerts[0];
    assert_eq!((alert.benchmark.as_str(), alert.measure.as_str()), ("a-b", "Latency"));
    assert_eq!((alert.limit, alert.status), (Limit::Upper, AlertStatus::Active));
    assert_eq!((alert.value, alert.limit_value), (1500.0, Some(1100.0)));
    let [report, branch, head, testbed, benchmark, measure] = [1, 4, 5, 6, 7, 8].map(id);
    let url = format!(
        "http://console:3000/perf/my-proj?branches={branch}&heads={head}&testbeds={testbed}\
         &benchmarks={benchmark}&measures={measure}&start_time=1764633600000&end_time=1767225605000\
         &report={report}&upper_boundary=true"
    );
    assert_eq!(alert.url.as_ref(), Some(&url));
    assert_eq!(answer.plots, [("a-b Latency".to_owned(), url.clone())]);
    let text = remote::human(&answer, Style { width: 100, has_colours: false, is_verbose: false });
    let expected = format!(
        "report  http://console:3000/perf/my-proj/reports/{report}\n\
         alert  a-b Latency: 1.500 µs is above 1.100 µs, usually 1.000 µs\n       {url}\n\
         the server raised 1 alert in 1 metric\n"
    );
    assert_eq!(text, expected);
}

#[test]
fn counts_come_from_the_alerts_where_the_server_gives_none() {
    let mut json = alarming();
    json["counts"] = Value::Null;
    json["alerts"][0]["status"] = json!("silenced");
    let answer = send(&host(&server(json).url)).expect("sent");
    assert_eq!((answer.alerts_total, answer.alerts_active), (1, 0));
}

#[test]
fn private_and_unclaimed_projects_have_other_links() {
    let mut json = alarming();
    json["project"]["visibility"] = json!("private");
    json["project"]["claimed"] = Value::Null;
    let answer = send(&host(&server(json.clone()).url)).expect("sent");
    let base = "http://console:3000/console/projects/my-proj";
    assert_eq!(answer.report_url, Some(format!("{base}/reports/{}", id(1))));
    assert!(answer.plots[0].1.starts_with(&format!("{base}/perf?")), "{:?}", answer.plots);
    let claim = format!("http://console:3000/auth/signup?claim={}", id(3));
    assert_eq!(answer.claim_url, Some(claim));
    let public = Host { has_public_links: true, ..host(&server(json).url) };
    let answer = send(&public).expect("sent");
    let base = "http://console:3000/perf/my-proj";
    assert_eq!(answer.report_url, Some(format!("{base}/reports/{}", id(1))));
    assert!(answer.plots[0].1.starts_with(&format!("{base}?")), "{:?}", answer.plots);
}

#[test]
fn a_console_that_fails_costs_the_links_only() {
    for reply in [
        Reply::Text(404, String::new()),
        Reply::Text(200, "<html>".to_owned()),
        Reply::Text(200, r#"{"url": "javascript:alert(1)"}"#.to_owned()),
        Reply::HangUp,
    ] {
        let stub = Stub::start(move |asked, _| match asked.line.as_str() {
            "POST /v0/run" => Reply::Text(201, alarming().to_string()),
            _ => reply.clone(),
        });
        let answer = send(&host(&stub.url)).expect("sent");
        assert_eq!((answer.report_url, answer.alerts_total), (None, 1));
        assert!(answer.warnings[0].contains("there are no links"), "{:?}", answer.warnings);
    }
}

#[test]
fn refusals_are_not_repeated() {
    let check = |status, message: &str, expected: &str| {
        let body = json!({ "request_id": "1", "message": message }).to_string();
        let stub = Stub::start(move |_, _| Reply::Text(status, body.clone()));
        let error = send(&host(&stub.url)).expect_err("refused").to_string();
        assert!(error.contains(message) && error.contains(expected), "{error}");
        assert_eq!(stub.asked().len(), 1);
    };
    check(401, "this project is claimed", "--key, WINGBEAT_API_KEY or BENCHER_API_KEY");
    check(403, "no", "status 403");
    check(400, "Are you sure?", "status 400");
    check(404, "gone", "root of the API");
}

#[test]
fn failures_of_the_server_are_repeated() {
    let check = |replies: &'static [u16], attempts: usize, is_sent: bool| {
        let stub = Stub::start(move |asked, before| match replies.get(before) {
            Some(0) => Reply::HangUp,
            Some(status) => Reply::Text(*status, bare().to_string()),
            None if asked.line.starts_with("GET") => Reply::Text(404, String::new()),
            None => Reply::Text(500, "{}".to_owned()),
        });
        let mut retries = Vec::new();
        let result = send_as(&host(&stub.url), &report(), &[], &mut |retry: &Retry| {
            retries.push((retry.attempt, retry.pause));
        });
        assert_eq!(result.is_ok(), is_sent, "{result:?}");
        let runs: Vec<_> =
            stub.asked().into_iter().filter(|asked| asked.line == "POST /v0/run").collect();
        assert_eq!(runs.len(), attempts);
        // The same key each time, so that the server stores it once.
        assert!(runs.iter().all(|run| run.json()["idempotency_key"] == id(7)));
        let pause = |attempt: u32| (attempt, QUICK.pause * 2u32.pow(attempt - 1));
        let expected: Vec<_> = (1..u32::try_from(attempts).expect("few")).map(pause).collect();
        assert_eq!(retries, expected);
    };
    check(&[500, 201], 2, true);
    check(&[0, 503, 201], 3, true);
    check(&[200], 1, true);
    check(&[500, 500, 502, 201], 3, false);
    check(&[0, 0, 0, 0], 3, false);
}

#[test]
fn what_is_no_report_is_told() {
    let check = |body: String, expected: &str| {
        let stub = Stub::start(move |_, _| Reply::Text(200, body.clone()));
        let error = send(&host(&stub.url)).expect_err("no report");
        assert!(matches!(error, RemoteError::NotAReport { .. }), "{error:?}");
        let error = error.to_string();
        assert!(error.contains(expected) && error.contains("is it a Bencher server"), "{error}");
    };
    check("<!doctype html>".to_owned(), "doctype");
    check(String::new(), "EOF");
    let mut json = bare();
    json["branch"]["head"] = json!({});
    check(json.to_string(), "missing field `uuid`");
    let mut json = alarming();
    json["alerts"][0]["status"] = json!("angry");
    check(json.to_string(), "angry");
}

#[test]
fn nobody_there() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    let error = send(&host(&url)).expect_err("nobody there").to_string();
    assert!(error.contains("3 attempts") && error.contains("refused the connection"), "{error}");
    assert!(!error.contains("may have been stored"), "{error}");
}

#[test]
fn time_is_bounded() {
    let stub = Stub::start(|_, _| Reply::Silence(Duration::from_secs(5)));
    let total = Duration::from_millis(300);
    let host = Host { patience: Patience { total, attempts: 100, ..QUICK }, ..host(&stub.url) };
    let begin = std::time::Instant::now();
    let error = send(&host).expect_err("no answer").to_string();
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
    assert!(error.contains("no answer came in time"), "{error}");
    assert!(error.contains("may have been stored"), "{error}");
}

#[test]
fn redirections_are_not_followed() {
    let stub = Stub::start(|_, _| Reply::Header(301, "location: https://elsewhere.example/"));
    let error = send(&host(&stub.url)).expect_err("redirected").to_string();
    assert!(error.contains("https://elsewhere.example/"), "{error}");
    assert_eq!(stub.lines(), ["POST /v0/run"]);
}

#[test]
fn hosts_have_to_be_urls() {
    for url in ["", "localhost:6610", "ftp://x", "http://", "http://a b", "http://x?y=1"] {
        let error = send(&host(url)).expect_err(url);
        assert!(matches!(error, RemoteError::InvalidHost { .. }), "{url:?}: {error:?}");
    }
}
