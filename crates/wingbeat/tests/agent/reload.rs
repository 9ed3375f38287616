//! Reloading of an agent's configuration, and data that it sends to nobody.

use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use rustix::process::{Pid, Signal, kill_process};
use wingbeat_agent::WindowArchive;

use crate::{
    ran::{Ran, result, started, wait_for},
    support::{Engine, agent, busy},
    target::turn_in_folder,
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
    let engine = Engine::start();
    let mut command = agent(&["--window", "1s", "--push", &format!("wingbeat={}", engine.url())]);
    command.arg("--config").arg(&config).arg("--token-file").arg(&token).arg("--keep").arg(&kept);
    let child = started(command);
    let pid = Pid::from_child(&child);
    let has = |service: &str| services(&kept).iter().any(|it| it == service);
    let tokens = || -> Vec<String> {
        let requests = engine.requests();
        let lines = requests.iter().flat_map(|(head, _)| head.lines());
        let tokens = lines.filter_map(|line| line.split_once("Bearer "));
        tokens.map(|(_, token)| token.to_owned()).collect()
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
