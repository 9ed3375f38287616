//! A GitHub job through the binary: requests to GitHub, with the store and with a Bencher server.

use std::fs;

use serde_json::{Value, json};
use wingbeat_http::testing::{Reply, Server};

use crate::{
    ran::Ran,
    repository::{Repository, instructions},
};

/// GitHub and a Bencher server in one.
fn services() -> Server {
    Server::start(|line, _| Reply::answer(200, "", answer(line).to_string()))
}

fn answer(line: &str) -> Value {
    let id = "00000000-0000-0000-0000-000000000001";
    let time = "2026-01-01T00:00:05Z";
    match line {
        "POST /v0/run" => json!({
            "uuid": id,
            "project": {
                "uuid": id, "organization": id, "name": "p", "slug": "p", "visibility": "private",
                "created": time, "modified": time, "claimed": time,
            },
            "branch": {
                "uuid": id, "project": id, "name": "b", "slug": "b", "created": time, "modified": time,
                "head": { "uuid": id, "created": time },
            },
            "testbed": {
                "uuid": id, "project": id, "name": "t", "slug": "t", "created": time, "modified": time,
            },
            "start_time": time, "end_time": time, "adapter": "json", "created": time,
            "counts": { "results": [], "alerts": { "total": 1, "active": 1 } },
        }),
        "GET /v0/server/config/console" => json!({ "url": "http://console" }),
        _ if line.starts_with("GET ") => json!([]),
        _ => json!({ "html_url": "http://github/x" }),
    }
}

/// Runs as a job of a pull request; also returns the job summary.
fn job(repository: &Repository, services: &Server, flags: &[&str]) -> (Ran, String) {
    let event = json!({ "pull_request": {
        "number": 12,
        "head": { "repo": { "full_name": "o/n" }, "sha": "abc" },
        "base": { "repo": { "full_name": "o/n" } },
    }});
    repository.write("event.json", event.to_string());
    repository.write("summary.md", "");
    let line = instructions(6);
    let fixed = ["run", "--project", "p", "--err", "--github-actions", "token"];
    let mut command = repository.wingbeat(&[&fixed, flags, &[line.as_str()]].concat());
    command.env("GITHUB_ACTIONS", "true").env("GITHUB_API_URL", &services.url);
    command.env("GITHUB_REPOSITORY", "o/n").env("GITHUB_SHA", "def");
    command.env("GITHUB_EVENT_PATH", repository.path().join("event.json"));
    command.env("GITHUB_STEP_SUMMARY", repository.path().join("summary.md"));
    let ran = Ran::of(&mut command);
    (ran, fs::read_to_string(repository.path().join("summary.md")).expect("a summary"))
}

/// Expected requests to GitHub.
const TOLD: [&str; 3] = [
    "GET /repos/o/n/issues/12/comments?per_page=100&page=1",
    "POST /repos/o/n/issues/12/comments",
    "POST /repos/o/n/check-runs",
];

#[test]
fn with_the_store() {
    let (repository, services) = (Repository::new(), services());
    repository.run(&["--project", "p", &instructions(5)]).ended_with(0);
    let (ran, summary) = job(&repository, &services, &["--format", "json"]);
    let ran = ran.ended_with(1);
    assert_eq!(ran.json()["counts"]["alerts"]["active"], 1, "stdout is the report alone");
    for text in ["::error title=", "comment: http://github/x", "check run: http://github/x"] {
        assert!(ran.stderr.contains(text), "{text}: {}", ran.stderr);
    }
    assert!(summary.contains("1 of 1 metric is worse"), "{summary}");
    assert_eq!(services.lines(), TOLD);
}

#[test]
fn with_a_server() {
    let repository = Repository::new();
    let check = |flags: &[&str], page: &str| {
        let services = services();
        let host = ["--host", services.url.as_str()];
        let (ran, summary) = job(&repository, &services, &[&host, flags].concat());
        assert!(summary.contains(&format!("<a href=\"{page}\">")), "{summary}");
        let server = ["GET /v0/server/version", "POST /v0/run", "GET /v0/server/config/console"];
        assert_eq!(services.lines(), [&server[..], &TOLD].concat());
        ran.ended_with(1).prints(page)
    };
    let report = "reports/00000000-0000-0000-0000-000000000001";
    let page = format!("http://console/console/projects/p/{report}");
    check(&["--confirm", "2"], &page).tells("--confirm measured nothing again");
    check(
        &["--ci-public-links", "--format", "markdown"],
        &format!("http://console/perf/p/{report}"),
    );
    assert!(!repository.store_path().exists());
}
