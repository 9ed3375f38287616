//! Reloading of an agent's configuration, and data that it sends to nobody.

use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use rustix::process::{Pid, Signal, kill_process};
use wingbeat_agent::{Entry, Kind, WindowArchive};
use wingbeat_http::testing::{Asked, Server};

use crate::{
    agent::support::{accepted, agent, busy, depth_of_most, strings, sum},
    ran::{Ran, result, started, wait_for},
    target::{Background, build, turn_in_folder},
};

fn rules(service: &str) -> String {
    format!("[[rule]]\nexecutable = 'busy'\nservice_name = '{service}'\n")
}

/// The services in a folder of windows.
fn services(kept: &Path) -> Vec<String> {
    let listing = WindowArchive::list(kept, SystemTime::UNIX_EPOCH, SystemTime::now()).ok();
    let entries = listing.map(|listing| listing.entries).unwrap_or_default();
    entries.iter().map(|entry| entry.labels["service_name"].clone()).collect()
}

#[test]
fn rules_and_tokens_are_read_again() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let _busy = busy(folder.path());
    let [kept, config, token] = ["kept", "rules", "token"].map(|name| folder.path().join(name));
    fs::write(&config, rules("before")).expect("rules");
    fs::write(&token, "first").expect("a token");
    let engine = Server::start(accepted);
    let mut command = agent(&["--window", "1s", "--push", &format!("wingbeat={}", engine.url)]);
    command.arg("--config").arg(&config).arg("--token-file").arg(&token).arg("--keep").arg(&kept);
    let child = started(command);
    let pid = Pid::from_child(&child);
    let has = |service: &str| services(&kept).iter().any(|it| it == service);
    let tokens = || -> Vec<String> {
        let token =
            |it: &Asked| Some(it.header("authorization")?.strip_prefix("Bearer ")?.to_owned());
        engine.asked().iter().filter_map(token).collect()
    };
    wait_for("a window", || has("before"));
    fs::write(&config, "[[rule]]\nservice = 'wrong'").expect("rules");
    kill_process(pid, Signal::HUP).expect("sent");
    std::thread::sleep(Duration::from_secs(1));
    fs::write(&config, rules("after")).expect("rules");
    fs::write(&token, "second").expect("a token");
    kill_process(pid, Signal::HUP).expect("sent");
    wait_for("other rules", || has("after"));
    wait_for("another token", || tokens().iter().any(|it| it == "second"));
    kill_process(pid, Signal::TERM).expect("sent");
    result(child).ended_with(0).tells_all(&[
        "line 2: unknown field `service`",
        "the old rules and token stay in use",
        "reloaded rules and token",
    ]);
    assert_eq!(tokens()[0], "first");
}

#[test]
fn a_token_is_not_sent_in_the_open() {
    let check = |target: &str, words: &[&str], expected: &str| {
        let mut agent =
            agent(&[&["-d", "1s", "--keep", "/proc/nowhere", "--push", target], words].concat());
        Ran::of(agent.env("WINGBEAT_PUSH_TOKEN", "secret")).ended_with(1).tells(expected);
    };
    let refusal = "the token would go to parca=http://192.0.2.1:7070 unencrypted";
    check("parca=http://192.0.2.1:7070", &[], refusal);
    // The next argument would be the folder.
    check("parca=http://192.0.2.1:7070", &["--token-over-http"], "/proc/nowhere");
    check("parca=https://192.0.2.1:7070", &[], "/proc/nowhere");
    check("parca=http://127.0.0.1:7070", &[], "/proc/nowhere");
    let mut agent =
        agent(&["-d", "1s", "--keep", "/proc/nowhere", "--push", "parca=http://192.0.2.1:7070"]);
    Ran::of(&mut agent).ended_with(1).tells("/proc/nowhere");
}

// Other data that the agent records: off-CPU time, and page faults.

/// Sleeps for 0.7 s repeatedly, so that windows begin and end in sleeps.
const NAPS: &str = "OWN void nap(void) { doze(700000000); } int main(void) { for (;;) nap(); }";

/// Always idle.
const IDLE: &str = "int main(void) { for (;;) doze(2000000000); }";

/// Touches 1 MiB of new memory 20 times a second.
const GROWS: &str = r#"
#include <sys/mman.h>
OWN void touch(volatile char *memory) { for (long i = 0; i < 1 << 20; i += 4096) memory[i] = 1; }
int main(void) {
    for (;;) {
        char *memory = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        madvise(memory, 1 << 20, MADV_NOHUGEPAGE);
        touch(memory);
        munmap(memory, 1 << 20);
        doze(50000000);
    }
}"#;

fn start(folder: &Path, name: &str, source: &str) -> Background {
    Background::start(&build(folder, name, source), &[])
}

#[test]
fn time_off_the_cpu_and_page_faults_are_kept_beside_samples() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let sources = [("naps", NAPS), ("idle", IDLE), ("grows", GROWS)];
    let _all = sources.map(|(name, source)| start(folder.path(), name, source));
    let kept = folder.path().join("kept");
    let words = ["-d", "4s", "--window", "2s", "--off-cpu", "--pages=16", "--max-cpu", "100%"];
    Ran::of(agent(&words).arg("--keep").arg(&kept)).ended_with(0);
    let listing =
        WindowArchive::list(&kept, SystemTime::UNIX_EPOCH, SystemTime::now()).expect("an archive");
    let of = |name: &str, kind: Kind| -> Vec<&Entry> {
        let is_it = |it: &&Entry| it.labels["process_executable_name"] == name && it.kind == kind;
        listing.entries.iter().filter(is_it).collect()
    };
    let naps = of("naps", Kind::OffCpu);
    assert_eq!(naps.len(), 2, "{naps:?}");
    for entry in naps {
        assert!(strings(&entry.path).iter().any(|text| text == "nap"), "{entry:?}");
        // A sleep is split between the windows that it spans.
        let share = sum(&entry.path) as f64 / entry.duration.as_nanos() as f64;
        assert!((0.95..1.01).contains(&share), "{share} of {entry:?}");
    }
    assert_eq!(of("idle", Kind::OffCpu), Vec::<&Entry>::new());
    let grown = of("grows", Kind::Pages);
    let time: Duration = grown.iter().map(|entry| entry.duration).sum();
    assert!(strings(&grown[0].path).iter().any(|text| text == "touch"), "{grown:?}");
    let bytes: i64 = grown.iter().map(|entry| sum(&entry.path)).sum();
    // 20 MiB a second, as far as the machine keeps up with it.
    let most = time.as_secs_f64() * f64::from(20 << 20);
    assert!((0.5..1.1).contains(&(bytes as f64 / most)), "{bytes} of {most}");
    assert_eq!(of("naps", Kind::Pages), Vec::<&Entry>::new());
}

/// Sleeps for a little more than 100 ms, and much less than 200.
const DOZES: &str =
    "OWN void doze_off(void) { doze(110000000); } int main(void) { for (;;) doze_off(); }";

#[test]
fn an_agent_that_costs_too_much_records_fewer_blocks() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let _dozes = start(folder.path(), "dozes", DOZES);
    let kept = folder.path().join("kept");
    let words =
        ["-d", "6s", "--window", "1s", "--off-cpu=100ms", "--pages", "--max-cpu", "0.0001%"];
    Ran::of(agent(&words).arg("--keep").arg(&kept))
        .ended_with(0)
        .tells("it now records at 9 Hz, blocks of 200 ms or more, one of 128 page faults");
    let listing =
        WindowArchive::list(&kept, SystemTime::UNIX_EPOCH, SystemTime::now()).expect("an archive");
    let is_it =
        |it: &&Entry| it.labels["process_executable_name"] == "dozes" && it.kind == Kind::OffCpu;
    let mut entries: Vec<&Entry> = listing.entries.iter().filter(is_it).collect();
    entries.sort_by_key(|entry| entry.start);
    // Blocks below the limit are aggregated in a single frame.
    let depths: Vec<usize> = entries.iter().map(|entry| depth_of_most(&entry.path)).collect();
    assert!(matches!(depths[..], [first, .., 1] if first > 1), "{depths:?}");
}
