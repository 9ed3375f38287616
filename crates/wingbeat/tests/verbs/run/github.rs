//! A GitHub job through the binary: requests to GitHub, with the store and with a Bencher server.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use serde_json::{Value, json};

use crate::{
    ran::Ran,
    repository::{Repository, instructions},
};

/// GitHub and a Bencher server in one, which record request lines.
struct Services {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Services {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let line = read(&stream);
                let body = answer(&line).to_string();
                log.lock().expect("the log").push(line);
                let length = body.len();
                let head =
                    format!("HTTP/1.1 200 x\r\ncontent-length: {length}\r\nconnection: close");
                let _ = stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes());
            }
        });
        Self { url, asked }
    }
}

/// Reads a whole request and returns its first line.
fn read(stream: &TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line");
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let length = lines.iter().find_map(|line| {
        let line = line.to_lowercase();
        line.strip_prefix("content-length: ").and_then(|length| length.parse().ok())
    });
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).expect("the body");
    lines[0].trim_end_matches(" HTTP/1.1").to_owned()
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
fn job(repository: &Repository, services: &Services, flags: &[&str]) -> (Ran, String) {
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
    let (repository, services) = (Repository::new(), Services::start());
    repository.run(&["--project", "p", &instructions(5)]).ended_with(0);
    let (ran, summary) = job(&repository, &services, &["--format", "json"]);
    let ran = ran.ended_with(1);
    assert_eq!(ran.json()["counts"]["alerts"]["active"], 1, "stdout is the report alone");
    for text in ["::error title=", "comment: http://github/x", "check run: http://github/x"] {
        assert!(ran.stderr.contains(text), "{text}: {}", ran.stderr);
    }
    assert!(summary.contains("1 of 1 metric is worse"), "{summary}");
    assert_eq!(*services.asked.lock().expect("the log"), TOLD);
}

#[test]
fn with_a_server() {
    let (repository, services) = (Repository::new(), Services::start());
    let check = |flags: &[&str], page: &str| {
        services.asked.lock().expect("the log").clear();
        let (ran, summary) =
            job(&repository, &services, &[&["--host", services.url.as_str()], flags].concat());
        ran.ended_with(1).prints(page);
        assert!(summary.contains(&format!("<a href=\"{page}\">")), "{summary}");
        let expected = [
            &["GET /v0/server/version", "POST /v0/run", "GET /v0/server/config/console"],
            &TOLD[..],
        ]
        .concat();
        assert_eq!(*services.asked.lock().expect("the log"), expected);
    };
    let report = "reports/00000000-0000-0000-0000-000000000001";
    check(&[], &format!("http://console/console/projects/p/{report}"));
    check(&["--ci-public-links"], &format!("http://console/perf/p/{report}"));
    check(&["--format", "markdown"], &format!("http://console/console/projects/p/{report}"));
    let confirming = ["--host", services.url.as_str(), "--confirm", "2"];
    let (ran, _) = job(&repository, &services, &confirming);
    assert!(ran.stderr.contains("--confirm measured nothing again"), "{}", ran.stderr);
    assert!(!repository.store_path().exists());
}
