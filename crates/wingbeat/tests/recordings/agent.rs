//! `wingbeat agent` on the real kernel: saved and pushed windows, limits, wrong usage.

mod from;
mod reload;
mod support;

use std::{
    collections::BTreeMap,
    fs,
    net::TcpListener,
    process::Command,
    time::{Duration, Instant, SystemTime},
};

use wingbeat_agent::{Entry, WindowArchive};
use wingbeat_http::testing::{Asked, Server};

use crate::{
    agent::support::{accepted, agent, busy, busy_program, cpu_time, strings, sum},
    ran::{Ran, without_rights},
    target::{Background, turn_in_folder},
};

const RULES: &str = "\
[[rule]]
executable = 'busy'
path = '/**/*'
service_name = 'load-{executable}'
labels = { team = '{path.2}' }
";

/// The number in a line such as `so far 3 files read for function names, those of 2 were on disk`.
fn loaded(text: &str) -> u64 {
    let found = text.lines().rev().find_map(|line| line.split_once("those of "));
    let figure = found.and_then(|(_, rest)| rest.split(' ').next());
    figure.and_then(|figure| figure.parse().ok()).expect("a figure")
}

#[test]
fn windows_are_kept_and_pushed_by_who_was_sampled() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let busy = busy(folder.path());
    let [kept, names, rules] = ["kept", "names", "rules"].map(|name| folder.path().join(name));
    fs::write(&rules, RULES).expect("rules");
    let engine = Server::start(accepted);
    let target = format!("pyroscope={}", engine.url);
    let run = |words: &[&str]| {
        let mut agent = agent(&["-v", "--max-cpu", "400%", "-F", "99"]);
        agent.args(words).arg("--config").arg(&rules).arg("--names").arg(&names);
        Ran::of(agent.arg("--keep").arg(&kept)).ended_with(0)
    };
    let (begun, before) = (Instant::now(), cpu_time(busy.0.id()));
    let ran = run(&["-d", "5s", "--window", "2s", "--push", &target]);
    let busy_time = cpu_time(busy.0.id()) - before;
    let expected = busy_time.as_secs_f64() / begun.elapsed().as_secs_f64();
    let ran = ran.tells_all(&["99 Hz on each CPU", "windows pushed"]);
    assert_eq!(loaded(&ran.stderr), 0);

    let listing =
        WindowArchive::list(&kept, SystemTime::UNIX_EPOCH, SystemTime::now()).expect("an archive");
    let is_busy = |it: &&Entry| it.labels["process_executable_name"] == "busy";
    let entries: Vec<&Entry> = listing.entries.iter().filter(is_busy).collect();
    // The first may take long: it reads many files.
    let [first, second, ..] = &entries[..] else { panic!("one window: {listing:?}") };
    let mut time = Duration::ZERO;
    let mut sampled_ns = 0;
    for entry in &entries {
        assert!(strings(&entry.path).iter().any(|text| text == "busy_work"), "{entry:?}");
        assert_eq!((&*entry.labels["service_name"], &*entry.labels["team"]), ("load-busy", "busy"));
        sampled_ns += sum(&entry.path);
        time += entry.duration;
    }
    // Windows are contiguous: no sample falls between them.
    let end = first.start + first.duration;
    let apart = second.start.duration_since(end).unwrap_or_else(|early| early.duration());
    assert!(apart < Duration::from_millis(20), "{apart:?}: {listing:?}");
    // Its CPU share before and after the windows is about the same.
    let share = sampled_ns as f64 / time.as_nanos() as f64;
    let is_near = (0.7..1.3).contains(&(share / expected)) && share < 1.05;
    assert!(is_near, "{share}, and the kernel says {expected}: {entries:?}");
    // Every sample has a host and a service.
    let all = listing.entries.iter();
    assert!(all.clone().all(|it| it.labels.contains_key("host_name")), "{listing:?}");
    assert!(all.clone().all(|it| !it.labels["service_name"].is_empty()), "{listing:?}");

    let requests = engine.asked();
    assert!(requests.len() >= entries.len(), "{} requests", requests.len());
    for Asked { line, body, .. } in &requests {
        assert_eq!(line, "POST /push.v1.PusherService/Push");
        let has = |text: &str| body.windows(text.len()).any(|bytes| bytes == text.as_bytes());
        assert!(has("service_name") && has("process_cpu") && has("load-busy"), "{line}");
    }

    // As one profile.
    let folded = folder.path().join("out.folded");
    let mut profile = Command::new(env!("CARGO_BIN_EXE_wingbeat"));
    profile.args(["profile", "--since", "5m", "--label", "team=busy", "--from"]);
    let words = format!("{} windows", entries.len());
    Ran::of(profile.arg(&kept).arg("-o").arg(&folded)).ended_with(0).tells(&words);
    let text = fs::read_to_string(&folded).expect("a file");
    let is_work = |line: &str| line.starts_with("load-busy (busy);") && line.contains("busy_work");
    assert!(text.lines().any(is_work), "{text}");

    // The next agent need not read the file of `busy` again.
    let ran = run(&["-d", "1s", "--window", "1s"]);
    assert!(loaded(&ran.stderr) > 0, "{}", ran.stderr);
}

/// From the first window on, on an overloaded machine.
#[test]
fn a_window_has_all_samples_of_its_time() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let cpus = std::thread::available_parallelism().expect("CPUs").get();
    let program = busy_program(folder.path());
    let _others: Vec<_> = (0..8 * cpus).map(|_| Background::start(&program, &[])).collect();
    let kept = folder.path().join("kept");
    let words = ["-F", "199", "-d", "3s", "--window", "1s", "--max-cpu", "6400%", "--keep"];
    Ran::of(agent(&words).arg(&kept)).ended_with(0).tells("3 windows kept");
    let listing =
        WindowArchive::list(&kept, SystemTime::UNIX_EPOCH, SystemTime::now()).expect("an archive");
    let mut windows: BTreeMap<SystemTime, (f64, f64)> = BTreeMap::new();
    for entry in &listing.entries {
        let (length_s, cpu_s) = windows.entry(entry.start).or_default();
        *length_s = entry.duration.as_secs_f64();
        *cpu_s += sum(&entry.path) as f64 / 1e9;
    }
    assert_eq!(windows.len(), 3);
    for (length_s, cpu_s) in windows.values() {
        assert!((0.95..1.05).contains(length_s), "{windows:?}");
        // A hypervisor may take some of it.
        assert!((0.9..1.01).contains(&(cpu_s / length_s / cpus as f64)), "{windows:?}");
    }
}

#[test]
fn an_engine_that_is_down_and_an_agent_that_costs_too_much() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let target = format!("pyroscope=http://{address}");
    // A window in which nothing ran is not pushed.
    let _busy = busy(folder.path());
    // The engine starts later.
    drop(listener);
    let spool = folder.path().join("spool");
    let run = |words: &[&str]| {
        let mut agent = agent(&["--window", "1s", "--push", &target]);
        Ran::of(agent.args(words).arg("--spool").arg(&spool)).ended_with(0)
    };
    // The rate is lowered after the third window.
    let ran = run(&["-d", "6s", "--max-cpu", "0.0001%"]);
    let ran =
        ran.tells_all(&["warning: the agent used", "it now records at 9 Hz", "not pushed yet"]);
    // Once in between, and once at the end.
    let warnings = ran.stderr.matches("refused the connection").count();
    assert_eq!(warnings, 2, "{}", ran.stderr);
    // Without a spool folder, all is lost.
    let mut alone = agent(&["--window", "1s", "-d", "1s", "--push", &target]);
    Ran::of(&mut alone).ended_with(1).tells("no window was delivered");
    // A queued window costs nothing else.
    let listener = TcpListener::bind(address).expect("the port is free again");
    let engine = Server::on(listener, accepted);
    run(&["-d", "1s"]).tells("windows pushed");
    assert!(engine.asked().len() >= 4, "{} requests", engine.asked().len());
}

#[test]
fn settings_that_cannot_be_used() {
    let check = |words: &[&str], text: &str| {
        Ran::of(&mut agent(words)).ended_with(1).tells(text);
    };
    let folder = crate::target::folder();
    let rules = folder.path().join("rules").display().to_string();
    fs::write(&rules, "[[rule]]\nexe = 'x'").expect("rules");
    check(&["--keep", "x", "--config", &rules], "line 2: unknown field `exe`, expected one of");
    check(&["--keep", "x", "--config", "/nowhere"], "cannot read the rules in /nowhere");
    check(&["--keep", "x", "--kubelet", "localhost"], "is not the address of a kubelet");
    check(&["--keep", "/proc/nowhere", "-d", "1s"], "/proc/nowhere");
    check(&["--push", "parca=http://localhost:1", "--token-file", "/nowhere"], "/nowhere");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let kept = folder.path().join("kept").display().to_string();
    check(&["--keep", &kept, "--metrics", &address], "--metrics");
}

#[test]
fn without_the_rights() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let mut wingbeat = without_rights(folder.path());
    wingbeat.args(["agent", "-d", "1s", "--push", "parca=http://localhost:1"]);
    Ran::of(&mut wingbeat).ended_with(1).tells("CAP_BPF and CAP_PERFMON").tells_in_one_line();
}
