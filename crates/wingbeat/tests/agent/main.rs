//! `wingbeat agent` on the real kernel: windows that are kept and pushed, its limits, wrong usage.

mod beside;
mod from;
#[expect(dead_code, reason = "other tests need the rest of it")]
#[path = "../common/ran.rs"]
mod ran;
mod support;
#[expect(dead_code, reason = "other tests need the rest of it")]
#[path = "../common/target.rs"]
mod target;

use std::{
    fs,
    process::Command,
    time::{Duration, Instant, SystemTime},
};

use wingbeat_push::{Entry, Ring};

use crate::{
    ran::{Ran, without_rights},
    support::{Engine, agent, busy, cpu_time, strings, sum},
    target::turn_in_folder,
};

#[test]
fn windows_are_kept_by_who_was_sampled() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let busy = busy(folder.path());
    let kept = folder.path().join("kept");
    let words = ["-d", "4s", "--window", "2s", "-F", "99", "--max-cpu", "100%", "--keep"];
    let (begun, before) = (Instant::now(), cpu_time(busy.0.id()));
    Ran::of(agent(&words).arg(&kept)).ended_with(0).tells("99 Hz on each CPU");
    let ran = cpu_time(busy.0.id()) - before;
    let expected = ran.as_secs_f64() / begun.elapsed().as_secs_f64();
    let listing = Ring::list(&kept, SystemTime::UNIX_EPOCH, SystemTime::now()).expect("a ring");
    let is_busy = |it: &&Entry| it.labels["process_executable_name"] == "busy";
    let entries: Vec<&Entry> = listing.entries.iter().filter(is_busy).collect();
    assert_eq!(entries.len(), 2, "{listing:?}");
    let mut time = Duration::ZERO;
    let mut sampled_ns = 0;
    for entry in &entries {
        assert!(strings(&entry.path).iter().any(|text| text == "busy_work"), "{entry:?}");
        sampled_ns += sum(&entry.path);
        time += entry.duration;
    }
    assert!((Duration::from_secs(3)..Duration::from_secs(6)).contains(&time), "{time:?}");
    // One window begins where the other ended: nothing that is sampled is in neither's time.
    let end = entries[0].start + entries[0].duration;
    let apart = entries[1].start.duration_since(end).unwrap_or_else(|early| early.duration());
    assert!(apart < Duration::from_millis(20), "{apart:?}: {listing:?}");
    // It had about as much of a CPU before and after the windows.
    let share = sampled_ns as f64 / time.as_nanos() as f64;
    let is_near = (0.7..1.3).contains(&(share / expected)) && share < 1.05;
    assert!(is_near, "{share}, and the kernel says {expected}: {entries:?}");
    // All that was sampled has a host and a service.
    let all = listing.entries.iter();
    assert!(all.clone().all(|it| it.labels.contains_key("host_name")), "{listing:?}");
    assert!(all.clone().all(|it| !it.labels["service_name"].is_empty()), "{listing:?}");
    // As one profile.
    let folded = folder.path().join("out.folded");
    let mut profile = Command::new(env!("CARGO_BIN_EXE_wingbeat"));
    profile.args(["profile", "--since", "1m", "--label", "process_executable_name=busy", "--from"]);
    Ran::of(profile.arg(&kept).arg("-o").arg(&folded)).ended_with(0).tells("2 windows");
    let text = fs::read_to_string(&folded).expect("a file");
    assert!(text.lines().any(|line| line.contains("busy_work")), "{text}");
}

#[test]
fn windows_are_pushed_and_counted() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let _busy = busy(folder.path());
    let engine = Engine::start();
    let target = format!("pyroscope={}", engine.url());
    let words = ["-d", "4s", "--window", "2s", "-F", "99", "--push", &target];
    Ran::of(&mut agent(&words)).ended_with(0).tells("2 windows pushed");
    let requests = engine.requests();
    assert_eq!(requests.len(), 2);
    for (head, body) in &requests {
        assert!(head.starts_with("POST /push.v1.PusherService/Push HTTP/1.1"), "{head}");
        let has = |text: &str| body.windows(text.len()).any(|bytes| bytes == text.as_bytes());
        assert!(has("service_name") && has("process_cpu") && has("busy"), "{head}");
    }
}

#[test]
fn an_engine_that_is_down_costs_no_window_that_has_room() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let _busy = busy(folder.path());
    let engine = Engine::start();
    let target = format!("pyroscope={}", engine.url());
    // Nobody listens there any more, and who comes next does.
    let address = engine.stop();
    let spool = folder.path().join("spool");
    let words = ["-d", "1s", "--window", "1s", "--push", &target, "--spool"];
    let ran = Ran::of(agent(&words).arg(&spool)).ended_with(0);
    ran.tells_all(&["warning", "not pushed yet", "refused"]);
    let engine = Engine::at(&address);
    Ran::of(agent(&words).arg(&spool)).ended_with(0).tells("2 windows pushed");
    assert_eq!(engine.requests().len(), 2);
}

#[test]
fn an_engine_that_refuses_is_told_of_while_the_agent_runs() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let _busy = busy(folder.path());
    let engine = Engine::start();
    let target = format!("pyroscope={}", engine.url());
    let _address = engine.stop();
    let words = ["-d", "4s", "--window", "1s", "--push", &target];
    let ran = Ran::of(&mut agent(&words)).ended_with(0);
    // Once meanwhile, and once at the end.
    let warnings = ran.stderr.matches("refused the connection").count();
    assert_eq!(warnings, 2, "{}", ran.stderr);
}

#[test]
fn an_agent_that_costs_too_much_samples_less_often() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let words = ["-d", "6s", "--window", "1s", "--max-cpu", "0.0001%", "--keep"];
    let ran = Ran::of(agent(&words).arg(folder.path().join("kept"))).ended_with(0);
    ran.tells_all(&["warning: the agent used", "it samples at 9 Hz from now on"]);
}

#[test]
fn wrong_usage() {
    let check = |words: &[&str], code: i32, text: &str| {
        Ran::of(&mut agent(words)).ended_with(code).tells(text);
    };
    check(&[], 2, "--push");
    check(&["--push", "nonsense"], 2, "pyroscope=URL");
    check(&["--push", "influx=http://localhost"], 2, "pyroscope=URL");
    check(&["--push", "wingbeat=localhost"], 2, "wingbeat=http://localhost:6610");
    check(&["--keep", "x", "-F", "0"], 2, "0");
    check(&["--keep", "x", "--window", "1ms"], 2, "1s to 10m");
    check(&["--keep", "x", "--max-cpu", "0"], 2, "above 0");
    check(&["--keep", "x", "--unwind-memory", "1G"], 2, "64M");
    check(&["--keep", "x", "--keep-size", "many"], 2, "many");
    check(&["--keep", "/proc/nowhere", "-d", "1s"], 1, "/proc/nowhere");
    check(&["--push", "parca=http://localhost:1", "--token-file", "/nowhere"], 1, "/nowhere");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let folder = target::folder();
    let kept = folder.path().join("kept").display().to_string();
    check(&["--keep", &kept, "--metrics", &address], 1, "--metrics");
}

#[test]
fn without_the_rights() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let mut wingbeat = without_rights(folder.path());
    wingbeat.args(["agent", "-d", "1s", "--push", "parca=http://localhost:1"]);
    Ran::of(&mut wingbeat).ended_with(1).tells("CAP_BPF and CAP_PERFMON").tells_in_one_line();
}
