//! The same reports, as `bencher run` sends them, to `wingbeat serve` and to Bencher's own API server.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::Context as _;
use serde_json::{Value, json};

use super::{
    Figure,
    history::{FIRST_S, Shape, time},
    server::{Server, free_address},
};

/// Reports that judge those that are measured.
const HISTORY: u32 = 64;

/// Anonymous runs make more here in a day than Bencher lets them.
const NO_LIMIT: u32 = 1_000_000_000;

/// Posts reports to both in turn, behind a history that each has got in the same way.
pub(super) fn figures(
    ours: &Server,
    bencher: Option<&(PathBuf, PathBuf)>,
    shape: &Shape,
    rounds: u32,
) -> anyhow::Result<Vec<Figure>> {
    let theirs = bencher.map(|(program, folder)| start_bencher(program, folder)).transpose()?;
    let mut servers = vec![("wingbeat serve", ours, Vec::new())];
    servers.extend(theirs.as_ref().map(|server| ("Bencher's API server", server, Vec::new())));
    for number in 0..HISTORY + rounds {
        let body = run(shape, number).to_string();
        for (_, server, took) in &mut servers {
            let begin = Instant::now();
            server.post("/v0/run", &body)?;
            if number >= HISTORY {
                took.push(begin.elapsed().as_secs_f64() * 1000.0);
            }
        }
        if number + 1 == HISTORY {
            for (_, server, _) in &servers {
                server.wait_until_idle()?;
            }
        }
    }
    let metrics = shape.benchmarks;
    let figure = |(name, _, values): (&str, _, Vec<f64>)| {
        let what =
            format!("post a report of {metrics} metrics as `bencher run`, by a t-test: {name}");
        eprintln!("{what}: {values:.1?} ms");
        Figure { what, unit: "ms", most: None, values }
    };
    Ok(servers.into_iter().map(figure).collect())
}

/// The body of `POST /v0/run`.
fn run(shape: &Shape, number: u32) -> Value {
    let results: serde_json::Map<_, _> = shape
        .values(number)
        .map(|(name, value)| {
            let metric =
                json!({ "value": value, "lower_value": value * 0.99, "upper_value": value * 1.01 });
            (name, json!({ "latency": metric }))
        })
        .collect();
    let begin = FIRST_S + i64::from(number) * 3600;
    json!({
        "project": "as-bencher-run", "branch": "main", "hash": format!("{number:040x}"), "testbed": "box",
        "thresholds": { "models": { "latency": {
            "test": "t_test", "max_sample_size": HISTORY, "lower_boundary": 0.9999,
            "upper_boundary": 0.9999,
        }}},
        "start_time": time(begin), "end_time": time(begin + 60),
        "results": [Value::Object(results).to_string()],
        "settings": { "adapter": "json" },
        // Bencher names a project that it makes by it, also where the request names one.
        "context": { "bencher.dev/v0/repo/name": "as-bencher-run" },
    })
}

/// Starts Bencher's API server with a database of its own in a folder, and without its limits.
fn start_bencher(program: &Path, folder: &Path) -> anyhow::Result<Server> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let address = free_address()?;
    let limits = json!({ "minute": NO_LIMIT, "hour": NO_LIMIT, "day": NO_LIMIT });
    let public = json!({ "requests": limits, "attempts": limits, "runs": limits });
    let project = json!({ "requests": limits, "runs": limits });
    let settings = json!({
        "console": { "url": "http://localhost:3000" },
        "security": { "issuer": "http://localhost:3000", "secret_key": "for a measurement on loopback" },
        "server": { "bind_address": address.to_string(), "request_body_max_bytes": 1 << 24 },
        "database": { "file": folder.join("bencher.db") },
        "logging": { "name": "Bencher API", "log": { "stderr_terminal": { "level": "error" } } },
        "plus": { "rate_limiting": {
            "unclaimed_limit": NO_LIMIT, "claimed_limit": NO_LIMIT, "public": public, "project": project,
        }},
    });
    let log = folder.join("log.txt");
    let log = fs::File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut command = Command::new(program);
    command.current_dir(folder).env("BENCHER_CONFIG", settings.to_string());
    command.env("BENCHER_CONFIG_PATH", folder.join("bencher.json"));
    command.stdout(Stdio::null()).stderr(log);
    Server::start("Bencher's API server", command, address, "/v0/server/version")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_all_metrics() {
        let shape = Shape { project: "p", benchmarks: 3, reports: 2 };
        let body = run(&shape, 7);
        let results: Value =
            serde_json::from_str(body["results"][0].as_str().expect("a text")).expect("JSON");
        assert_eq!(results.as_object().map(serde_json::Map::len), Some(3));
        assert_ne!(run(&shape, 8)["results"], body["results"]);
    }
}
