//! Job summary, annotations, the comment, and the check run.

use std::{fs, path::PathBuf};

use super::*;
use serde_json::{Value, json};
use tempfile::TempDir;
use wingbeat_track::output::{Page, marker};

use super::stub::{Reply, Stub};

struct Job {
    folder: TempDir,
    actions: Actions,
    report: Report,
    thresholds: Vec<Option<ThresholdModel>>,
}

impl Job {
    fn new(api_url: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let actions = Actions {
            api_url: api_url.to_owned(),
            repository: Some("owner/name".to_owned()),
            commit: Some(CHECKED_OUT.to_owned()),
            event_path: None,
            summary_path: Some(folder.path().join("summary.md")),
            patience: QUICK,
        };
        let mut job = Self { folder, actions, report: report(), thresholds: vec![None; 3] };
        job.thresholds[0] = Some(ThresholdModel::new(Test::Auto));
        job.event("owner/name");
        job
    }

    /// Makes the event a pull request from that repository.
    fn event(&mut self, from: &str) {
        let event = json!({ "pull_request": {
            "number": 12,
            "head": { "repo": { "full_name": from }, "sha": HASH },
            "base": { "repo": { "full_name": "owner/name" } },
        }});
        self.event_text(&event.to_string());
    }

    fn event_text(&mut self, text: &str) {
        let path = self.folder.path().join("event.json");
        fs::write(&path, text).expect("written");
        self.actions.event_path = Some(path);
    }

    fn alarm(mut self) -> Self {
        let benchmark = self.report.iterations[0].benchmarks[0].name.clone();
        let measure = self.report.iterations[0].benchmarks[0].metrics[0].0.slug.clone();
        let note = ReasonNote::EnvironmentChanged { changes: vec!["100 % off: far\n".to_owned()] };
        let verdict = Verdict {
            outcome: Outcome::Worse,
            test: Some(Test::Auto),
            limit: Some(Limit::Upper),
            points: 9,
            reason: Reason { notes: vec![note], ..ReasonKind::WithinLimits.into() },
            ..Verdict::new(0, benchmark, measure)
        };
        self.report.alerts.push(Alert::of(Uuid::from_u128(1), &verdict));
        self.report.verdicts.push(verdict);
        self
    }

    /// Makes the event a push.
    fn push(mut self) -> Self {
        self.event_text(r#"{"ref": "refs/heads/main"}"#);
        self
    }

    fn tell(&self, options: &Options) -> Told {
        let page = Page::of(&self.report, &self.thresholds);
        self.actions.tell(&Message::of_page(&page, options.id.as_deref()), options)
    }

    fn summary(&self) -> String {
        let path = self.actions.summary_path.as_ref().expect("a path");
        fs::read_to_string(path).unwrap_or_default()
    }
}

fn with_token() -> Options {
    Options { token: Some("ghs_secret".to_owned()), ..Options::default() }
}

/// GitHub with these comments. Returns an address for each write.
fn github(comments: Vec<Value>) -> Stub {
    Stub::start(move |asked, _| match asked.line.split(' ').next() {
        Some("GET") => {
            let page: usize =
                asked.line.rsplit('=').next().and_then(|n| n.parse().ok()).unwrap_or(1);
            let part: Vec<_> = comments.iter().skip((page - 1) * 100).take(100).collect();
            Reply::Text(200, json!(part).to_string())
        }
        _ if asked.line == CHECK => {
            Reply::Text(201, json!({ "html_url": "https://github/runs/2" }).to_string())
        }
        _ => Reply::Text(201, json!({ "html_url": "https://github/c/1" }).to_string()),
    })
}

fn comment(id: u64, body: &str) -> Value {
    json!({ "id": id, "body": body })
}

/// The merge commit that GitHub checks out for a pull request.
const CHECKED_OUT: &str = "fedcba9876543210fedcba9876543210fedcba98";

const CHECK: &str = "POST /repos/owner/name/check-runs";

const LIST: &str = "GET /repos/owner/name/issues/12/comments?per_page=100&page=1";

#[test]
fn the_first_report_makes_a_comment() {
    let stub = github(vec![comment(1, "nice work")]);
    let job = Job::new(&stub.url);
    let told = job.tell(&with_token());
    assert_eq!(told.warnings, Vec::<String>::new());
    assert_eq!(told.comment.as_deref(), Some("https://github/c/1"));
    assert_eq!(told.check.as_deref(), Some("https://github/runs/2"));
    assert_eq!(stub.lines(), [LIST, "POST /repos/owner/name/issues/12/comments", CHECK]);
    let asked = &stub.asked()[1];
    assert_eq!(asked.header("authorization"), Some("Bearer ghs_secret"));
    assert!(asked.header("user-agent").is_some_and(|agent| agent.starts_with("wingbeat/")));
    let body = asked.json()["body"].as_str().expect("a body").to_owned();
    assert!(body.trim_end().ends_with(&marker(&job.report, None)), "{body}");
    // The summary is the same text.
    assert_eq!(job.summary(), format!("{body}\n"));
}

#[test]
fn later_reports_update_it() {
    let own = marker(&report(), None);
    let check = |comments: Vec<Value>, expected: &[&str]| {
        let stub = github(comments);
        assert_eq!(Job::new(&stub.url).tell(&with_token()).warnings, Vec::<String>::new());
        assert_eq!(stub.lines(), [expected, &[CHECK]].concat());
    };
    let update = "PATCH /repos/owner/name/issues/comments/5";
    let post = "POST /repos/owner/name/issues/12/comments";
    check(vec![comment(5, &format!("old\n{own}\r\n")), comment(6, "x")], &[LIST, update]);
    // A quotation, or a comment of another report.
    let other = own.replace("ci-box", "other-box");
    check(vec![comment(5, &format!("> {own}\n\nsee?")), comment(6, &other)], &[LIST, post]);
    // On a later page.
    let mut many: Vec<_> = (100..200).map(|id| comment(id, "x")).collect();
    many.push(comment(5, &own));
    check(many, &[LIST, &LIST.replace("&page=1", "&page=2"), update]);
}

#[test]
fn ids_tell_comments_apart() {
    let stub = github(vec![comment(5, &marker(&report(), None))]);
    let options = Options { id: Some("nightly".to_owned()), number: Some(3), ..with_token() };
    let _ = Job::new(&stub.url).tell(&options);
    assert_eq!(stub.lines()[1], "POST /repos/owner/name/issues/3/comments");
    let body = stub.asked()[1].json();
    assert!(body["body"].as_str().is_some_and(|body| body.contains("wingbeat/my-proj/id/nightly")));
}

#[test]
fn no_comment_where_none_is_wanted() {
    let check = |job: fn(Job) -> Job, options: Options, comments: Vec<Value>, expected: usize| {
        let stub = github(comments);
        let told = job(Job::new(&stub.url)).tell(&options);
        assert_eq!(told.warnings, Vec::<String>::new());
        let mut lines = stub.lines();
        // A token always enables the check run.
        assert_eq!(lines.pop().is_some_and(|last| last == CHECK), options.token.is_some());
        assert_eq!(lines.len(), expected, "{lines:?}");
    };
    let same = |job| job;
    let none = |job: Job| Job { thresholds: vec![None; 3], ..job };
    let on_alert = || Options { only_on_alert: true, ..with_token() };
    let on_thresholds = || Options { only_thresholds: true, ..with_token() };
    check(same, Options::default(), vec![], 0);
    check(Job::push, with_token(), vec![], 0);
    check(same, on_thresholds(), vec![], 2);
    check(none, on_thresholds(), vec![], 0);
    check(same, on_alert(), vec![], 1);
    check(same, on_alert(), vec![comment(5, &marker(&report(), None))], 2);
    check(Job::alarm, on_alert(), vec![], 2);
}

#[test]
fn a_read_only_token_is_a_warning() {
    let stub = Stub::start(|asked, _| match asked.line.starts_with("GET") {
        true => Reply::Text(200, "[]".to_owned()),
        false => {
            let message = "Resource not accessible by integration";
            Reply::Text(403, json!({ "message": message }).to_string())
        }
    });
    let mut job = Job::new(&stub.url);
    let told = job.tell(&with_token());
    assert_eq!(told.comment, None);
    let [warning] = &told.warnings[..] else { panic!("one warning: {:?}", told.warnings) };
    assert!(warning.contains("not accessible by integration"), "{warning}");
    assert!(warning.contains("pull-requests: write") && !warning.contains("fork"), "{warning}");
    job.event("stranger/name");
    let told = job.tell(&with_token());
    assert!(told.warnings[0].contains("comes from a fork"), "{:?}", told.warnings);
    assert!(!job.summary().is_empty());
    assert_eq!((told.check, told.notes.len()), (None, 1));
    assert!(told.notes[0].contains("checks: write"), "{:?}", told.notes);
    // Rejections are not retried.
    assert_eq!(stub.asked().len(), 6);
}

#[test]
fn a_check_run_is_as_good_as_the_exit_code() {
    let check = |job: fn(Job) -> Job, is_strict, commit: &str, conclusion: &str| {
        let stub = github(vec![]);
        let _ = job(Job::new(&stub.url)).tell(&Options { is_strict, ..with_token() });
        let asked = stub.asked().pop().expect("a request");
        assert_eq!(asked.line, CHECK);
        let mut body = asked.json();
        let output = body["output"].take();
        let expected = json!({
            "name": "wingbeat: my-proj on ci-box", "head_sha": commit, "status": "completed",
            "conclusion": conclusion, "output": null,
        });
        assert_eq!(body, expected);
        let summary = output["summary"].as_str().expect("a text");
        assert!(summary.contains(output["title"].as_str().expect("a text")), "{output}");
    };
    let fail = |mut job: Job| {
        let name = BenchmarkName::new("broken").expect("a name");
        job.report.iterations[0].fail(name, "exit code 1");
        job
    };
    let same = |job| job;
    check(same, true, HASH, "success");
    check(Job::alarm, true, HASH, "failure");
    check(Job::alarm, false, HASH, "neutral");
    check(fail, true, HASH, "failure");
    check(fail, false, HASH, "neutral");
    check(Job::push, true, CHECKED_OUT, "success");
    let stub = github(vec![]);
    let options = Options { id: Some("nightly".to_owned()), ..with_token() };
    let _ = Job::new(&stub.url).tell(&options);
    assert_eq!(stub.asked()[2].json()["name"], "wingbeat: nightly");
}

#[test]
fn what_a_server_said_is_told_too() {
    let server = Stub::start(|asked, _| match asked.line.as_str() {
        "POST /v0/run" => Reply::Text(201, alarming().to_string()),
        _ => Reply::Text(200, json!({ "url": "http://console:3000" }).to_string()),
    });
    let stub = github(vec![]);
    let job = Job::new(&stub.url);
    let (url, patience) = (server.url.clone(), job.actions.patience);
    let host = Host { url, key: None, has_public_links: false, patience };
    let answer = host.send(&Submission::of(&job.report), &mut |_| {}).expect("sent");
    let message = Message::of_answer(&answer, &job.report, None);
    let told = job.actions.tell(&message, &Options { is_strict: true, ..with_token() });
    assert_eq!(told.warnings, Vec::<String>::new());
    assert_eq!(
        told.annotations,
        "::error title=wingbeat my-proj%3A alert::a-b Latency: 1.500 µs is above 1.100 µs, usually 1.000 µs\n"
    );
    assert_eq!(stub.lines(), [LIST, "POST /repos/owner/name/issues/12/comments", CHECK]);
    assert_eq!(stub.asked()[2].json()["conclusion"], "failure");
    let summary = job.summary();
    let url = answer.alerts[0].url.as_ref().expect("an address").replace('&', "&amp;");
    for text in [
        "<strong>the server raised 1 alert in 1 metric</strong>".to_owned(),
        format!("<a href=\"{url}\">a-b</a>"),
        format!("<a href=\"{url}\">a-b Latency</a>"),
        format!("{}\n", marker(&job.report, None)),
    ] {
        assert!(summary.contains(&text), "{text}: {summary}");
    }
    let options = Options { only_thresholds: true, ..with_token() };
    assert!(job.actions.tell(&message, &options).comment.is_some(), "a threshold judged");
}

#[test]
fn trouble_is_a_warning() {
    let check = |stub: &Stub, change: fn(&mut Job), expected: &[&str], requests: usize| {
        let mut job = Job::new(&stub.url);
        change(&mut job);
        let told = job.tell(&with_token());
        assert_eq!(told.warnings.len(), expected.len(), "{told:?}");
        for (warning, expected) in told.warnings.iter().zip(expected) {
            assert!(warning.contains(expected), "{told:?}");
        }
        assert_eq!(stub.asked().len(), requests);
    };
    let failing = || Stub::start(|_, _| Reply::Text(502, String::new()));
    let half = || {
        Stub::start(|asked, _| match asked.line.starts_with("GET") {
            true => Reply::Text(200, "[]".to_owned()),
            false => Reply::HangUp,
        })
    };
    // Requests that may have succeeded are not retried.
    check(&failing(), |_| {}, &["comment on pull request 12: ", "no check run: "], 4);
    check(&half(), |_| {}, &["no answer", "no answer"], 3);
    check(&Stub::start(|_, _| Reply::Text(200, "{}".to_owned())), |_| {}, &["not a list"], 2);
    check(&github(vec![]), |job| job.actions.repository = None, &["GITHUB_REPOSITORY"], 0);
    // Then the check run is for the checked-out commit.
    check(&github(vec![]), |job| job.event_text("{"), &["could not be read"], 1);
    let nowhere =
        |job: &mut Job| job.actions.summary_path = Some(PathBuf::from("/no/such/folder/x"));
    check(&github(vec![]), nowhere, &["job summary"], 3);
    let limit = || Stub::start(|_, _| Reply::Text(403, "API rate limit exceeded".to_owned()));
    check(&limit(), |_| {}, &["rate limit exceeded", "rate limit exceeded"], 2);
}

#[test]
fn the_summary_is_appended() {
    let job = Job::new("http://127.0.0.1:1");
    fs::write(job.actions.summary_path.as_ref().expect("a path"), "# before\n").expect("written");
    let _ = job.tell(&Options::default());
    let _ = job.tell(&Options::default());
    let summary = job.summary();
    assert!(summary.starts_with("# before\n"), "{summary}");
    assert_eq!(summary.matches("### wingbeat").count(), 2);
}

#[test]
fn alerts_are_annotations() {
    let check = |is_strict, command: &str| {
        let job = Job::new("http://127.0.0.1:1").alarm();
        let told = job.tell(&Options { is_strict, ..Options::default() });
        let expected = format!(
            "::{command} title=wingbeat my-proj%3A alert::a::b latency: 1.500 ± 0.500 ns; within the \
             limits; new since then: 100 %25 off: far%0A\n"
        );
        assert_eq!(told.annotations, expected);
    };
    check(true, "error");
    check(false, "warning");
    assert_eq!(Job::new("").tell(&Options::default()).annotations, "");
}

#[test]
fn the_environment() {
    let of = |set: &[(&str, &str)]| {
        Actions::from_env(|name| {
            set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    };
    assert_eq!(of(&[]), None);
    assert_eq!(of(&[("GITHUB_ACTIONS", "false")]), None);
    let bare = of(&[("GITHUB_ACTIONS", "true"), ("GITHUB_STEP_SUMMARY", "")]).expect("a job");
    assert_eq!((bare.api_url.as_str(), bare.summary_path), ("https://api.github.com", None));
    assert_eq!(bare.commit, None);
    let own = of(&[
        ("GITHUB_ACTIONS", "true"),
        ("GITHUB_API_URL", "https://git.example/api/v3"),
        ("GITHUB_REPOSITORY", "o/r"),
        ("GITHUB_EVENT_PATH", "/e"),
        ("GITHUB_STEP_SUMMARY", "/s"),
        ("GITHUB_SHA", HASH),
    ])
    .expect("a job");
    assert_eq!(own.api_url, "https://git.example/api/v3");
    assert_eq!(own.repository.as_deref(), Some("o/r"));
    assert_eq!(own.event_path, Some(PathBuf::from("/e")));
    assert_eq!(own.summary_path, Some(PathBuf::from("/s")));
    assert_eq!(own.commit.as_deref(), Some(HASH));
}
