//! `wingbeat live`.

use std::{fs, process::Command, thread, time::Duration};

use nix::sched::{CloneFlags, unshare};
use rustix::process::{Pid, Signal, kill_process};
use wingbeat_bpf_loader::{fd_holders::Owners, program::StatisticsOn};

use crate::{
    live::{
        network::{Network, sender},
        support::{
            Dropper, LIVE, Ran, check_attached, check_statistics, live, program_in, result, run,
            started, statistics, turn, wait_for, wingbeat,
        },
    },
    ran::without_rights,
};

#[test]
fn every_packet_is_counted() {
    let Some(_turn) = turn() else { return };
    let before = statistics();
    let _network = Network::enter();
    let dropper = Dropper::attached("drop_every_packet");
    let folder = tempfile::tempdir().expect("temporary folder");
    let file = folder.path().join("result.json");
    let mut command = live(&["drop_every_packet", "--format", "json", "-o"]);
    command.arg(&file).arg("--").args(sender(300));
    let child = started(command);
    let pid = child.id();
    result(child).ended_with(0);
    check_statistics(&before, pid);

    let text = fs::read_to_string(&file).expect("the result");
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(report["schema_version"], 2);
    assert_eq!(report["ended_by"], "command");
    assert_eq!(report["command"]["exit_code"], 0);
    let program = program_in(&report, dropper.id);
    assert_eq!(program["runs"], 300, "{program}");
    assert_eq!(program["type"], "xdp");
    // The kernel truncates names to 15 bytes.
    assert_eq!(program["name"], "drop_every_packet");
    // A command that another test has just started has the descriptors of this process until it executes.
    let owners = program["owners"].as_array().expect("owners");
    assert!(owners.iter().any(|owner| owner["pid"] == std::process::id()), "{program}");
    assert!(owners.iter().all(|owner| owner["pid"] != pid), "not wingbeat itself: {program}");
    check_attached(&program);
    assert!(
        program["time_per_run_ns"].as_f64().is_some_and(|ns| ns > 1.0 && ns < 1e6),
        "{program}"
    );
    assert_eq!(report["programs"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_command_speaks_for_itself() {
    let Some(_turn) = turn() else { return };
    let _network = Network::enter();
    let _dropper = Dropper::attached("speaks");
    let [bash, flag, script] = sender(20);
    let mut command = live(&["speaks", "--"]);
    command.args([bash, flag, format!("{script}; echo out; echo err >&2; exit 7")]);
    let found = run(command).ended_with(7);
    assert!(found.stdout.starts_with("out\n"), "{}", found.stdout);
    assert!(found.stderr.starts_with("err\n"), "{}", found.stderr);
    // A warning about few runs.
    found.prints("ended with exit code 7").tells("speaks (id ");
}

#[test]
fn a_program_that_never_ran_is_an_error() {
    let Some(_turn) = turn() else { return };
    let before = statistics();
    let network = Network::enter();
    let busy = Dropper::attached("busy");
    let idle = Dropper::load("idle");
    let never_ran = |found: &str| {
        let advice = "is it attached? No link attaches it";
        found.contains("idle (id ") && found.contains("never ran in ") && found.contains(advice)
    };

    let found = run(live(&["idle", "-d", "200ms"])).ended_with(1);
    assert!(never_ran(&found.stderr), "{}", found.stderr);
    assert!(!found.stdout.contains("0.0 ns"), "{}", found.stdout);

    // The others are still reported.
    let child = started(live(&["busy", &idle.id.to_string(), "-d", "1s", "--format", "json"]));
    let pid = child.id();
    while !has_ended(pid) {
        network.send(10);
        thread::sleep(Duration::from_millis(20));
    }
    let found = result(child).ended_with(1);
    assert!(never_ran(&found.stderr), "{}", found.stderr);
    let report = found.json();
    assert_eq!(program_in(&report, busy.id)["outcome"], "ran");
    let idle = program_in(&report, idle.id);
    assert_eq!((&idle["outcome"], &idle["runs"]), (&"never_ran".into(), &0.into()));
    assert!(idle["time_per_run_ns"].is_null());
    check_statistics(&before, pid);
}

/// Whether a child is a zombie.
fn has_ended(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_none_or(|rest| rest.trim_start().starts_with('Z'))
}

#[test]
fn what_is_not_there_is_told_with_what_is() {
    let Some(_turn) = turn() else { return };
    let _dropper = Dropper::load("classify_source");
    let check = |word: &str, code, expected: &str| {
        run(live(&[word, "-d", "100ms"])).ended_with(code).tells(expected);
    };
    check("clasify_source", 1, "did you mean classify_source?");
    check("/no/such/pin", 1, "cannot take the program from /no/such/pin: ");
    run(live(&["classify_source", "--", "/no/such/command"]))
        .ended_with(1)
        .tells("cannot start /no/such/command: ");
}

#[test]
fn a_signal_ends_it_with_a_result() {
    let Some(_turn) = turn() else { return };
    let before = statistics();
    let network = Network::enter();
    let dropper = Dropper::attached("until_signal");
    let child = started(live(&["until_signal", "-d", "60s", "--format", "json"]));
    let pid = child.id();
    wait_for("statistics to be on", || {
        let holders = Owners::scan().expect("/proc").keep_statistics_on;
        holders.iter().any(|owner| owner.pid == pid)
    });
    // It measures the empty program first.
    thread::sleep(Duration::from_millis(300));
    network.send(500);
    thread::sleep(Duration::from_millis(100));
    let child_pid = Pid::from_raw(pid.cast_signed()).expect("a PID");
    kill_process(child_pid, Signal::TERM).expect("SIGTERM");
    let found = result(child).ended_with(0);
    let report = found.json();
    assert_eq!(report["ended_by"], "signal");
    assert_eq!(program_in(&report, dropper.id)["runs"], 500);
    check_statistics(&before, pid);
}

#[test]
fn a_program_survives_its_owner_while_it_is_measured() {
    let Some(_turn) = turn() else { return };
    let network = Network::enter();
    let dropper = Dropper::attached("orphan");
    let id = dropper.id;
    let child = started(live(&["orphan", "-d", "2s", "--format", "json"]));
    thread::sleep(Duration::from_secs(1));
    network.send(50);
    drop(dropper);
    let found = result(child).ended_with(0);
    assert_eq!(program_in(&found.json(), id)["runs"], 50);
}

#[test]
fn pins_lead_to_programs() {
    let Some(_turn) = turn() else { return };
    // Mounts of this thread and its children only.
    unshare(CloneFlags::CLONE_NEWNS).expect("a mount namespace");
    let folder = tempfile::tempdir().expect("temporary folder");
    let mount = |words: &[&str]| {
        let status = Command::new("mount").args(words).arg(folder.path()).status().expect("mount");
        assert!(status.success(), "mount {words:?}");
    };
    assert!(
        Command::new("mount").args(["--make-rprivate", "/"]).status().expect("mount").success()
    );
    mount(&["-t", "bpf", "bpf"]);
    let mut dropper = Dropper::load("pinned");
    let pin = folder.path().join("pin");
    dropper.pin(&pin);
    let found = run(live(&[pin.to_str().expect("text"), "-d", "100ms", "--format", "json"]));
    assert_eq!(program_in(&found.json(), dropper.id)["name"], "pinned", "{}", found.stderr);
    // Not a program.
    run(live(&[folder.path().to_str().expect("text"), "-d", "100ms"]))
        .ended_with(1)
        .tells("cannot take the program from ");
}

#[test]
fn statistics_that_were_on_stay_on_and_are_told() {
    let Some(_turn) = turn() else { return };
    let _dropper = Dropper::load("idle");
    let _on = StatisticsOn::new().expect("statistics");
    let found = run(live(&["idle", "-d", "100ms", "--format", "json"]));
    let report = found.json();
    let warnings = report["warnings"].as_array().expect("warnings");
    let warning = warnings.iter().find(|warning| warning["code"] == "statistics-were-on");
    let text = warning.and_then(|warning| warning["cause"].as_str()).expect("a warning");
    assert!(text.contains(&format!("process {} (", std::process::id())), "{text}");
    assert!(statistics().1, "still on");
}

#[test]
fn without_the_right_it_says_which() {
    let Some(_turn) = turn() else { return };
    let folder = tempfile::tempdir().expect("temporary folder");
    for verb in [LIVE, &["top", "--once"]] {
        let found = Ran::of(without_rights(folder.path()).args(verb)).ended_with(1);
        found.tells("CAP_SYS_ADMIN is missing: ").tells_in_one_line();
    }
}

#[test]
fn the_former_spelling_works_with_a_note() {
    let found = run(wingbeat(&["bench", "no-such-program", "--live", "--time", "100ms"]));
    assert!(found.stderr.starts_with("note: `wingbeat bench --live` is now"), "{found}");
}
