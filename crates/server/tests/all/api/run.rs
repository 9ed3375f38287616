//! `POST /v0/run`: creation, judgement and errors.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;
use wingbeat_server::{
    access::Role,
    api::shapes::{
        JsonAlert, JsonBenchmark, JsonMeasure, JsonProject, JsonReport, JsonThreshold,
        JsonVisibility,
    },
    database::Visibility,
};
use wingbeat_track::{
    model::{Outcome, ReasonKind, Report, threshold::Test},
    store::Document,
};

use crate::support::{Server, alert_counts, run, with};

#[tokio::test]
async fn the_first_run_makes_everything_it_names() {
    let server = Server::new().and_member();
    let report = server.report("main", 0, 10.0).await;
    assert_eq!((report.project.slug.as_str(), report.branch.name.as_str()), ("parser", "main"));
    assert_eq!((report.testbed.slug.as_str(), report.adapter.as_str()), ("ci", "json"));
    assert_eq!(report.project.visibility, JsonVisibility::Private);
    assert!(report.project.claimed.is_some(), "the client would say that it is to be claimed");
    assert_eq!(report.user.as_ref().map(|user| user.slug.as_str()), Some("ann"));
    let version = report.branch.head.version.clone().expect("a version");
    assert_eq!((version.number, version.hash.map(|hash| hash.len())), (0, Some(40)));
    assert_eq!(alert_counts(&report).0, 0);
    let results = report.results.expect("results");
    assert_eq!((results.len(), results[0].len()), (1, 1));
    let measure = &results[0][0].measures[0];
    assert_eq!((results[0][0].benchmark.name.as_str(), measure.metric.value), ("parse", 10.0));
    assert_eq!(measure.measure.units, "nanoseconds (ns)");
    assert_eq!(report.counts.as_ref().expect("counts").results.len(), 1);
    assert_eq!(report.counts.as_ref().expect("counts").results[0].benchmarks, 1);
}

#[tokio::test]
async fn the_same_run_twice_is_one_report() {
    let server = Server::new().and_member();
    let key = Uuid::now_v7();
    let body = with(run("main", 0, 10.0), json!({ "idempotency_key": key }));
    let first: JsonReport = server.post("/v0/run", &body).await;
    let second: JsonReport = server.post("/v0/run", &body).await;
    assert_eq!(first.uuid, key);
    assert_eq!(first, second);
    let (reports, count) = server.list::<JsonReport>("/v0/projects/parser/reports").await;
    assert_eq!((reports.len(), count), (1, 1));
    let other = with(body, json!({ "project": "other" })).to_string();
    let path = "/v0/run";
    let why = server.refused(Method::POST, path, Some(&other), StatusCode::CONFLICT).await;
    assert!(why.contains("another project"), "{why}");
}

#[tokio::test]
async fn what_the_client_leaves_out_comes_from_its_context() {
    let server = Server::new().and_member();
    let context = json!({
        "bencher.dev/v0/repo/name": "My Parser",
        "bencher.dev/v0/repo/hash": "0123456789abcdef",
        "bencher.dev/v0/branch/ref/name": "feature/x",
        "bencher.dev/v0/branch/hash": "a".repeat(40),
        "bencher.dev/v0/testbed/os": "Linux",
        "bencher.dev/v0/testbed/fingerprint": "fedcba9876543210",
    });
    let nothing = json!({ "project": null, "branch": null, "testbed": null, "hash": null });
    let body = with(with(run("", 0, 1.0), nothing.clone()), json!({ "context": context }));
    let report: JsonReport = server.post("/v0/run", &body).await;
    assert_eq!(report.project.slug, "my-parser-0123456-fedcba9876543");
    assert_eq!((report.branch.name.as_str(), report.testbed.name.as_str()), ("feature/x", "Linux"));
    let hash = report.branch.head.version.and_then(|version| version.hash);
    assert_eq!(hash, Some("a".repeat(40)));
    let again: JsonReport = server.post("/v0/run", &body).await;
    assert_eq!(again.project.uuid, report.project.uuid, "one repository is one project");
    let nothing = with(run("", 0, 1.0), nothing);
    let named = with(nothing.clone(), json!({ "project": "parser" }));
    let report: JsonReport = server.post("/v0/run", &named).await;
    assert_eq!((report.branch.name.as_str(), report.testbed.name.as_str()), ("main", "localhost"));
    let nothing = nothing.to_string();
    let why = server.refused(Method::POST, "/v0/run", Some(&nothing), StatusCode::BAD_REQUEST);
    assert!(why.await.contains("--project"));
}

#[tokio::test]
async fn a_regression_raises_an_alert_without_any_threshold() {
    let server = Server::new().and_member();
    // The article's case: steady values, then a slower commit.
    for day in 0..20 {
        let report = server.report("main", day, 100.0 + (day % 5) as f64 * 0.2).await;
        assert_eq!(alert_counts(&report).0, 0, "day {day}");
    }
    let report = server.report("main", 20, 150.0).await;
    let result = &report.results.as_ref().expect("results")[0][0].measures[0];
    let verdict = result.wingbeat.as_ref().expect("a verdict");
    assert_eq!(verdict.verdict, Outcome::Worse);
    let reason = verdict.reason_fields.as_ref().expect("a reason");
    assert!(matches!(reason.kind, ReasonKind::FarFromLevel { .. }), "{reason:?}");
    assert!(verdict.reason.contains("spreads from the usual level"), "{}", verdict.reason);
    assert_eq!(alert_counts(&report), (1, 1));
    let alerts = report.alerts.expect("alerts");
    assert_eq!((alerts.len(), alerts[0].benchmark.name.as_str()), (1, "parse"));
    assert_eq!(alerts[0].metric.value, 150.0);
    let threshold = &alerts[0].threshold;
    assert_eq!(threshold.model, None, "the client does not know the test `auto`");
    assert!(threshold.wingbeat.as_ref().is_some_and(|model| model.test == Test::Auto));
    // The client warns that nothing can raise an alert if a metric has no threshold.
    assert_eq!(result.threshold.as_ref().map(|it| it.uuid), Some(threshold.uuid));
    assert!(alerts[0].boundary.upper_limit.is_some_and(|limit| limit < 150.0));
    let repaired = server.report("main", 21, 100.4).await;
    assert_eq!(alert_counts(&repaired).0, 0);
}

#[tokio::test]
async fn thresholds_are_kept_from_run_to_run() {
    let server = Server::new().and_member();
    let models =
        json!({ "models": { "latency": { "test": "percentage", "upper_boundary": 0.1 } } });
    let first = with(run("main", 0, 100.0), json!({ "thresholds": models }));
    let _: JsonReport = server.post("/v0/run", &first).await;
    // Flags are no longer given.
    let report = server.report("main", 1, 111.0).await;
    assert_eq!(alert_counts(&report).0, 1);
    let alert = &report.alerts.as_deref().expect("alerts")[0];
    let model = alert.threshold.model.as_ref().expect("a model");
    assert_eq!((model.test.name(), model.upper_boundary), ("percentage", Some(0.1)));
    assert_eq!(alert.boundary.upper_limit, Some(110.0));
    let result = &report.results.as_deref().expect("results")[0][0].measures[0];
    let threshold = result.threshold.as_ref().expect("a threshold");
    assert_eq!(threshold.uuid, alert.threshold.uuid);
    let wider = json!({ "models": { "latency": { "test": "percentage", "upper_boundary": 0.5 } } });
    let next = with(run("main", 2, 111.0), json!({ "thresholds": wider }));
    let report: JsonReport = server.post("/v0/run", &next).await;
    assert_eq!(alert_counts(&report).0, 0);
    // The first report was judged by the model active then.
    let first: JsonReport =
        server.get(&format!("/v0/projects/parser/reports/{}", alert.report)).await;
    let first = first.alerts.expect("alerts")[0].threshold.model.clone().expect("a model");
    assert_eq!(first.upper_boundary, Some(0.1));
    assert!(first.replaced.is_some());
}

#[tokio::test]
async fn a_reset_ends_thresholds_that_are_not_named() {
    let server = Server::new().and_member();
    let model = json!({ "test": "static", "upper_boundary": 1e9 });
    let both = json!({ "models": { "latency": model, "throughput": model } });
    let first = with(run("main", 0, 1.0), json!({ "thresholds": both }));
    let _: JsonReport = server.post("/v0/run", &first).await;
    let one = json!({ "models": { "latency": model }, "reset": true });
    let second = with(run("main", 1, 1.0), json!({ "thresholds": one }));
    let _: JsonReport = server.post("/v0/run", &second).await;
    let (all, _) = server.list::<JsonThreshold>("/v0/projects/parser/thresholds").await;
    let mut models: Vec<_> =
        all.iter().map(|it| (it.measure.slug.as_str(), it.model.is_some())).collect();
    models.sort();
    assert_eq!(models, [("latency", true), ("throughput", false)]);
}

#[tokio::test]
async fn a_branch_is_compared_with_where_it_starts() {
    let server = Server::new().and_member();
    let models =
        json!({ "models": { "latency": { "test": "percentage", "upper_boundary": 0.1 } } });
    let main = with(run("main", 0, 100.0), json!({ "thresholds": models }));
    let main: JsonReport = server.post("/v0/run", &main).await;
    let start = json!({ "branch": "main", "clone_thresholds": true });
    let body = with(run("feature", 1, 150.0), json!({ "start_point": start }));
    let first: JsonReport = server.post("/v0/run", &body).await;
    assert_eq!(alert_counts(&first).0, 1, "the threshold and the history are those of main");
    let start = first.branch.head.start_point.as_ref().expect("a start point");
    assert_eq!(start.branch, main.branch.uuid);
    assert_eq!(start.head, main.branch.head.uuid);
    assert_eq!(start.version.number, 0);
    let again = server.report("feature", 2, 150.0).await;
    assert_eq!(alert_counts(&again).0, 1, "an earlier push hides nothing");
    let reset = with(run("feature", 3, 150.0), json!({ "start_point": { "reset": true } }));
    let reset: JsonReport = server.post("/v0/run", &reset).await;
    assert_eq!(alert_counts(&reset).0, 0, "it has no history any more");
    let active = "/v0/projects/parser/alerts?status=active";
    let (active, _) = server.list::<JsonAlert>(active).await;
    assert!(active.is_empty(), "those of the head that was replaced are settled: {active:?}");
    assert_ne!(reset.branch.head.uuid, first.branch.head.uuid);
}

#[tokio::test]
async fn a_renamed_benchmark_goes_on_as_the_same_series() {
    let server = Server::new().and_member();
    let models =
        json!({ "models": { "latency": { "test": "percentage", "upper_boundary": 0.1 } } });
    let first = with(run("main", 0, 100.0), json!({ "thresholds": models }));
    let first: JsonReport = server.post("/v0/run", &first).await;
    let benchmark = first.results.expect("results")[0][0].benchmark.clone();
    let renamed: JsonBenchmark = server
        .patch("/v0/projects/parser/benchmarks/parse", json!({ "name": "read", "slug": "read" }))
        .await;
    assert_eq!(renamed.uuid, benchmark.uuid);
    let results = json!({ "read": { "latency": { "value": 150.0 } } }).to_string();
    let second = with(run("main", 1, 0.0), json!({ "results": [results] }));
    let second: JsonReport = server.post("/v0/run", &second).await;
    assert_eq!(alert_counts(&second).0, 1, "its history is that of the old name");
    let found = &second.results.as_deref().expect("results")[0][0].benchmark;
    assert_eq!((found.uuid, found.name.as_str()), (benchmark.uuid, "read"));
    // The old name is available again.
    let third = server.report("main", 2, 1.0).await;
    assert_ne!(third.results.expect("results")[0][0].benchmark.uuid, benchmark.uuid);
}

#[tokio::test]
async fn names_that_share_a_slug_stay_apart() {
    let server = Server::new().and_member();
    let value = json!({ "latency": { "value": 1.0 } });
    let results = json!({ "a b": value, "a-b": value, "a::b": value }).to_string();
    let body = with(run("main", 0, 0.0), json!({ "results": [results] }));
    for _ in 0..2 {
        let report: JsonReport = server.post("/v0/run", &body).await;
        assert_eq!(report.counts.as_ref().expect("counts").results[0].benchmarks, 3);
    }
    let (all, _) = server.list::<JsonBenchmark>("/v0/projects/parser/benchmarks").await;
    let slugs: std::collections::BTreeSet<_> = all.iter().map(|it| it.slug.as_str()).collect();
    assert_eq!((all.len(), slugs.len()), (3, 3), "{slugs:?}");
}

#[tokio::test]
async fn outputs_of_tools_are_read_and_folded_here() {
    let server = Server::new().and_member();
    let line = |ns| format!("test parse ... bench: {ns} ns/iter (+/- 5)\n");
    let settings = json!({ "adapter": "rust_bench", "fold": "min" });
    let body = with(
        run("main", 0, 0.0),
        json!({ "results": [line(120), line(100)], "settings": settings }),
    );
    let report: JsonReport = server.post("/v0/run", &body).await;
    assert_eq!(report.adapter, "rust_bench");
    let results = report.results.expect("results");
    assert_eq!(results.len(), 1, "two iterations became one");
    let metric = results[0][0].measures[0].metric;
    assert_eq!((metric.value, metric.upper_value), (100.0, Some(105.0)));
    // The language's name, which the client still accepts.
    let unfolded = with(body, json!({ "settings": { "adapter": "rust" } }));
    let report: JsonReport = server.post("/v0/run", &unfolded).await;
    assert_eq!(report.results.expect("results").len(), 2);
}

#[tokio::test]
async fn what_is_refused_and_why() {
    let server = Server::new().and_member();
    let check = async |change: Value, status, expected: &str| {
        let body = with(run("main", 0, 1.0), change.clone()).to_string();
        let why = server.refused(Method::POST, "/v0/run", Some(&body), status).await;
        assert!(why.contains(expected), "{change}: {why}");
    };
    let bad = StatusCode::BAD_REQUEST;
    check(json!({ "results": ["nothing"] }), bad, "iteration 1").await;
    check(json!({ "settings": { "adapter": "fortran" } }), bad, "no adapter \"fortran\"").await;
    let mean = json!({ "adapter": "rust_bench", "average": "mean" });
    check(json!({ "settings": mean }), bad, "cannot give the mean").await;
    check(json!({ "branch": "a b" }), bad, "git would not take it").await;
    check(json!({ "project": "No Slug" }), bad, "no project").await;
    check(json!({ "testbed": ".." }), bad, "it has no page").await;
    let dot = json!({ ".": { "latency": { "value": 1 } } }).to_string();
    check(json!({ "results": [dot] }), bad, "it has no page").await;
    check(json!({ "job": {} }), bad, "no machines").await;
    check(json!({ "hash": "main" }), bad, "not a commit hash").await;
    check(json!({ "start_point": { "branch": "a", "hash": "z" } }), bad, "not a commit hash").await;
    check(json!({ "end_time": "1970-01-01T00:00:00Z" }), bad, "before it begins").await;
    check(json!({ "start_time": "yesterday" }), bad, "cannot be used").await;
    let future = "2999-01-01T00:00:00Z";
    check(json!({ "start_time": future, "end_time": future }), bad, "set the clock").await;
    let model = json!({ "models": { "latency": { "test": "t_test", "upper_boundary": 2.0 } } });
    check(json!({ "thresholds": model }), bad, "upper_boundary").await;
    let unknown = json!({ "project": Uuid::now_v7() });
    check(unknown, StatusCode::NOT_FOUND, "no project with the UUID").await;
    let (reports, _) = server.list::<Value>("/v0/projects").await;
    assert!(reports.is_empty() || reports.len() == 1, "{reports:?}");
}

#[tokio::test]
async fn who_may_send_results() {
    let server = Server::new().and_member();
    server.project("parser", Visibility::Public);
    server.project("secret", Visibility::Internal);
    server.project("other", Visibility::Public);
    let project = server.key_of_project("parser");
    let reader = server.key_of("rob", Role::Reader);
    let check = async |server: &Server, slug: &str, key: Option<&str>, expected| {
        let body = with(run("main", 0, 1.0), json!({ "project": slug })).to_string();
        let answer = server.send(Method::POST, "/v0/run", Some(&body), key).await;
        assert_eq!(answer.status, expected, "{slug} {key:?}");
    };
    let (made, forbidden) = (StatusCode::CREATED, StatusCode::FORBIDDEN);
    check(&server, "parser", Some(&project), made).await;
    check(&server, "other", Some(&project), forbidden).await;
    check(&server, "new", Some(&project), forbidden).await;
    check(&server, "parser", Some(&reader), forbidden).await;
    check(&server, "parser", None, StatusCode::UNAUTHORIZED).await;
    check(&server, "parser", Some("bencher_run_unknown"), StatusCode::UNAUTHORIZED).await;
    let open = Server::with(|settings| settings.allow_anonymous_runs = true).and_member();
    open.project("secret", Visibility::Internal);
    check(&open, "new", None, made).await;
    check(&open, "new", None, made).await;
    // Without a key, results are public, because the sender could not see them otherwise; a keyed run creates an
    // internal project.
    check(&open, "kept", Some(&open.key), made).await;
    let visibility = async |slug: &str| {
        open.get::<JsonProject>(&format!("/v0/projects/{slug}")).await.visibility
    };
    assert_eq!(visibility("new").await, JsonVisibility::Public);
    assert_eq!(visibility("kept").await, JsonVisibility::Private);
    check(&open, "secret", None, StatusCode::UNAUTHORIZED).await;
}

#[tokio::test]
async fn an_anonymous_run_changes_nothing_but_its_report() {
    let server = Server::with(|settings| settings.allow_anonymous_runs = true).and_member();
    server.project("parser", Visibility::Public);
    let model = json!({ "test": "static", "upper_boundary": 10.0 });
    let models = json!({ "models": { "latency": model } });
    let _: JsonReport =
        server.post("/v0/run", with(run("main", 0, 1.0), json!({ "thresholds": models }))).await;
    let alerting = server.report("main", 1, 11.0).await;
    assert_eq!(alert_counts(&alerting), (1, 1));
    let _: JsonReport = server.post("/v0/run", run("old", 2, 1.0)).await;
    let _: Value =
        server.patch("/v0/projects/parser/branches/old", json!({ "archived": true })).await;
    let state = async || {
        let mut state = Vec::new();
        for (list, what) in [
            ("thresholds", "model"),
            ("alerts?status=active", "uuid"),
            ("branches?archived=true", "name"),
        ] {
            let (all, _) = server.list::<Value>(&format!("/v0/projects/parser/{list}")).await;
            assert_eq!(all.len(), 1, "{list}");
            state.push(all[0][what].clone());
        }
        let main: Value = server.get("/v0/projects/parser/branches/main").await;
        state.push(main["head"]["uuid"].clone());
        assert!(state.iter().all(|it| !it.is_null()), "{state:?}");
        state
    };
    let before = state().await;
    let bare = |branch: &str, day: i64| {
        let change = json!({
            "thresholds": { "models": {}, "reset": true },
            "start_point": { "branch": "main", "clone_thresholds": true, "reset": true },
        });
        with(run(branch, day, 5.0), change).to_string()
    };
    for (day, branch) in (3..).zip(["main", "old", "new"]) {
        let answer = server.send(Method::POST, "/v0/run", Some(&bare(branch, day)), None).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.body);
        assert_eq!(state().await, before, "{branch}");
    }
    // The same in our own format.
    let document = |confirms: Option<Uuid>| {
        let start = OffsetDateTime::UNIX_EPOCH + Duration::days(20_007);
        let [project, branch, testbed] = ["parser", "main", "ci"].map(str::to_owned);
        let names = (project.parse(), branch.parse(), testbed.parse());
        let (Ok(project), Ok(branch), Ok(testbed)) = names else { panic!("names") };
        let report = Report {
            epoch: 9,
            confirms,
            ..Report::new(Uuid::now_v7(), project, branch, testbed, start)
        };
        let line = Document::Report(Box::new(report)).line().expect("JSON");
        let line: Value = serde_json::from_str(&line).expect("JSON");
        let reset = json!({ "thresholds_reset": true, "start_point_reset": true });
        with(line, json!({ "run": reset })).to_string()
    };
    for (confirms, stored) in [(None, 1), (Some(alerting.uuid), 0)] {
        let body = document(confirms);
        let answer = server.send(Method::POST, "/v1/reports", Some(&body), None).await;
        assert_eq!(answer.json()["stored"], stored, "{}", answer.body);
        assert_eq!(state().await, before, "{confirms:?}");
    }
    let next = server.report("main", 9, 12.0).await;
    assert_eq!(alert_counts(&next), (1, 1), "the team's threshold still judges");
    // Its own thresholds judge an anonymous report, and no other.
    let own = json!({ "thresholds": { "models": { "latency": { "test": "static", "upper_boundary": 2.0 } } } });
    let body = with(run("new", 10, 5.0), own).to_string();
    let answer = server.send(Method::POST, "/v0/run", Some(&body), None).await;
    assert_eq!(alert_counts(&answer.of::<JsonReport>(StatusCode::CREATED)).0, 1);
    assert_eq!(alert_counts(&server.report("new", 11, 5.0).await).0, 0);
}

/// A run of one benchmark with these measures.
fn measured(day: i64, measures: Value) -> Value {
    let results = json!({ "b": measures }).to_string();
    with(run("main", day, 0.0), json!({ "results": [results] }))
}

#[tokio::test]
async fn measures_are_known_by_their_names() {
    let server = Server::new().and_member();
    let (long, value) = ("x".repeat(70), json!({ "value": 1 }));
    let names = [
        "延迟",
        "内存",
        "read_bytes",
        "read-bytes",
        &format!("{long}-read"),
        &format!("{long}-write"),
    ];
    for round in 0..2 {
        for (day, name) in (0..).zip(names) {
            let body = measured(10 * round + day, json!({ name: value }));
            let report: JsonReport = server.post("/v0/run", &body).await;
            assert_eq!(alert_counts(&report).0, 0);
        }
    }
    let path = "/v0/projects/parser/measures";
    let (measures, count) = server.list::<JsonMeasure>(&format!("{path}?per_page=99")).await;
    assert_eq!(count as usize, names.len(), "{measures:#?}");
    let slugs: std::collections::HashSet<_> = measures.iter().map(|it| &it.slug).collect();
    assert_eq!(slugs.len(), names.len());
    // The client accepts names of up to 64 bytes.
    assert!(measures.iter().all(|it| it.name.len() <= 64 && it.units.len() <= 64));
    // A renamed measure continues under its name in the results.
    let one = format!("{path}/read-bytes");
    let renamed: JsonMeasure = server.patch(&one, json!({ "name": "Bytes read" })).await;
    let body = measured(30, json!({ "read_bytes": value, "read-bytes": value }));
    let report: JsonReport = server.post("/v0/run", &body).await;
    let measures = &report.results.expect("results")[0][0].measures;
    let uuids: Vec<_> = measures.iter().map(|it| it.measure.uuid).collect();
    assert!(uuids.len() == 2 && uuids.contains(&renamed.uuid), "{measures:#?}");
    assert_eq!(server.list::<JsonMeasure>(path).await.1 as usize, names.len());
    for (name, expected) in [("", "it is empty"), (" a", "space"), ("a\u{0}b", "control character")]
    {
        let body = measured(31, json!({ name: value })).to_string();
        let status = StatusCode::BAD_REQUEST;
        let why = server.refused(Method::POST, "/v0/run", Some(&body), status).await;
        assert!(why.contains("cannot be the name of a measure") && why.contains(expected), "{why}");
    }
}

#[tokio::test]
async fn results_say_which_direction_is_better() {
    let check = async |said: Value, value: f64, alerts: u64| {
        let server = Server::new().and_member();
        let measure = |value: f64| {
            let mut measure = json!({ "value": value });
            said.as_object()
                .expect("an object")
                .iter()
                .for_each(|(key, it)| measure[key] = it.clone());
            json!({ "p99": measure })
        };
        for day in 0..20 {
            let body = measured(day, measure(100.0 + (day % 5) as f64 * 0.2));
            let _: JsonReport = server.post("/v0/run", &body).await;
        }
        let report: JsonReport = server.post("/v0/run", &measured(20, measure(value))).await;
        assert_eq!(alert_counts(&report).0, alerts, "{said} {value}");
    };
    check(json!({}), 50.0, 1).await;
    check(json!({ "direction": "smaller" }), 50.0, 0).await;
    check(json!({ "direction": "smaller" }), 150.0, 1).await;
    check(json!({ "direction": "higher-is-better", "unit": "MB/s" }), 150.0, 0).await;
    check(json!({ "direction": "higher-is-better", "unit": "MB/s" }), 50.0, 1).await;
}

/// `bencher run --allow-failure` sends what is left when the command failed each time: nothing.
#[tokio::test]
async fn a_run_without_results_is_a_report() {
    let server = Server::new().and_member();
    server.report("main", 0, 10.0).await;
    let empty = with(run("main", 1, 0.0), json!({ "results": [] }));
    let report: JsonReport = server.post("/v0/run", &empty).await;
    assert_eq!((report.results.as_ref().map(Vec::len), alert_counts(&report)), (Some(0), (0, 0)));
    let page = format!("/perf/parser/reports/{}", report.uuid);
    server.page(&page, StatusCode::OK).await;
    for page in [
        "/perf/parser",
        "/perf/parser/reports",
        "/perf/parser/plot",
        "/perf/parser/compare/main..main",
    ] {
        server.page(page, StatusCode::OK).await;
    }
    let next = server.report("main", 2, 10.0).await;
    assert_eq!(next.results.map(|it| it.len()), Some(1));
}
