//! `cargo wingbeat`, and `--open`: users that build, run, own the files, and see the picture.

use std::{
    env, fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
    process::Command,
};

use rustix::process::geteuid;
use tempfile::TempDir;
use wingbeat_bpf_loader::caller::Caller;

use crate::{
    profile::support::{folder, spinner, turn_in_folder},
    ran::{Ran, wait_for},
};

/// A non-root user.
const NOBODY: u32 = 65534;

const MANIFEST: &str = r#"
[package]
name = "own-crate"
version = "0.1.0"
edition = "2021"
[profile.bench]
strip = true
[[bench]]
name = "b-e"
harness = false
[workspace]
"#;

/// Prints its arguments, is busy, and prints a result.
const BENCH: &str = r#"
#[inline(never)]
fn busy_work() {
    let begun = std::time::Instant::now();
    while begun.elapsed().as_millis() < 200 {}
}
fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    println!("{words:?} {:?} {:?}", std::env::var("CARGO_PKG_NAME"), std::env::current_dir());
    busy_work();
    println!("test busy ... bench:         100 ns/iter (+/- 3)");
}
"#;

/// Replaces `xdg-open` with a program that records its user and arguments. Returns the `PATH` that contains it.
fn opener(folder: &Path) -> String {
    let path = folder.join("xdg-open");
    let opened = folder.join("opened");
    let text = "{ id -u; echo \"$DISPLAY\"; head -c 1 \"$1\" >/dev/null && echo \"$1\"; }";
    // Moved, so that it appears atomically.
    let script = format!("#!/bin/sh\n{text} >{0}.part && mv {0}.part {0}\n", opened.display());
    fs::write(&path, script).expect("write");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("permissions");
    let path = env::var("PATH").unwrap_or_default();
    format!("{}:{path}", folder.display())
}

/// What the opener recorded.
fn opened(folder: &Path) -> Vec<String> {
    let path = folder.join("opened");
    wait_for("the opener", || path.exists());
    fs::read_to_string(&path).expect("text").lines().map(str::to_owned).collect()
}

fn own_crate() -> TempDir {
    let folder = folder();
    for name in ["benches", "examples", "src/bin"] {
        fs::create_dir_all(folder.path().join(name)).expect("a folder");
    }
    let files = [
        ("Cargo.toml", MANIFEST),
        ("benches/b-e.rs", BENCH),
        ("src/bin/one.rs", "fn main() {}"),
        ("src/bin/two.rs", "fn main() {}"),
        ("examples/wrong.rs", "fn main() { broken }"),
    ];
    for (name, text) in files {
        fs::write(folder.path().join(name), text).expect("write");
    }
    folder
}

fn cargo_wingbeat(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-wingbeat"));
    command.arg("wingbeat").args(words).current_dir(folder);
    // The folder belongs to the user who runs the tests.
    for name in ["SUDO_UID", "SUDO_GID", "CARGO_TARGET_DIR", "XDG_RUNTIME_DIR"] {
        command.env_remove(name);
    }
    command
}

#[test]
fn a_target_of_ones_own_crate() {
    let Some((_turn, beside)) = turn_in_folder() else { return };
    let own = own_crate();
    let folder = own.path();
    let run = |words: &[&str]| Ran::of(&mut cargo_wingbeat(folder, words));
    // No target, an unknown name, one that does not compile, an unknown flag.
    let text = "several targets can be meant; choose one of --bin one, --bin two";
    run(&["profile"]).ended_with(2).tells(text).tells_in_one_line();
    run(&["profile", "--bin", "b-e"]).ended_with(2).tells("there is --bench b-e");
    run(&["profile", "--bin", "one", "x"]).ended_with(2).tells("unexpected word \"x\"");
    run(&["profile", "--example", "wrong"]).ended_with(101).tells("cannot find value `broken`");

    let stacks = beside.path().join("a.folded");
    let stacks = stacks.to_str().expect("UTF-8");
    let flags = ["profile", "-F", "499", "-o", "a.svg", "-o", stacks, "--open"];
    let words = [&flags[..], &["--bench", "b-e", "--", "a b"]].concat();
    let mut command = cargo_wingbeat(folder, &words);
    let ran = Ran::of(command.env("PATH", opener(beside.path())).env("DISPLAY", ":7"));
    let expected = format!("[\"a b\", \"--bench\"] Ok(\"own-crate\") Ok({folder:?})");
    ran.ended_with(0).prints(&expected);
    // Stripped as in Cargo.toml, it would have no names.
    assert!(fs::read_to_string(stacks).expect("stacks").contains("busy_work"));
    let picture = folder.join("a.svg");
    assert_eq!(opened(beside.path())[1..], [":7", picture.to_str().expect("UTF-8")]);
    assert_eq!(fs::read_to_string(folder.join("Cargo.toml")).expect("text"), MANIFEST);

    run(&["run", "--dry-run", "--format", "json"]).ended_with(0).prints("\"busy\"");
}

#[test]
fn a_command_and_the_files_are_the_callers() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    if !geteuid().is_root() {
        return;
    }
    let folder = folder.path();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).expect("permissions");
    let program = spinner(folder, "spinner");
    let (picture, whose) = (folder.join("a.svg"), folder.join("caller"));
    let mut caller = Caller::this().expect("this process");
    (caller.user, caller.group, caller.groups) = (NOBODY, NOBODY, vec![12]);
    caller.folder = folder.to_owned();
    caller.set("PATH", opener(folder));
    caller.set("DISPLAY", ":8");
    let script =
        "grep -E '^(Uid|Groups):' /proc/self/status; echo \"$DISPLAY\"; pwd; exec \"$0\" 0.2";
    for verb in ["profile", "heap"] {
        fs::write(&whose, caller.to_bytes()).expect("write");
        let mut command = Command::new(env!("CARGO_BIN_EXE_wingbeat"));
        command.args([verb, "--open", "-o"]).arg(&picture).arg("--launch-as").arg(&whose);
        let ran = Ran::of(command.args(["--", "sh", "-c", script]).arg(&program));
        let text = format!("Uid:\t{NOBODY}\t{NOBODY}\t{NOBODY}\t{NOBODY}\nGroups:\t12 \n:8\n");
        let ran = ran.prints(&text).prints(&format!("{}\n", folder.display()));
        assert!(!whose.exists(), "its environment may be secret");
        if verb == "profile" {
            ran.ended_with(0);
            let expected = [&NOBODY.to_string(), ":8", picture.to_str().expect("UTF-8")];
            assert_eq!(opened(folder), expected);
            assert_eq!(fs::metadata(&picture).expect("a file").uid(), NOBODY);
        }
    }
}

#[test]
fn a_picture_that_nothing_opens() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let (folder, picture) = (folder.path(), folder.path().join("a.svg"));
    let program = spinner(folder, "spinner");
    let mut command = Command::new(env!("CARGO_BIN_EXE_wingbeat"));
    command.args(["profile", "-F", "499", "--open", "-o"]).arg(&picture).arg("--").arg(&program);
    let ran = Ran::of(command.arg("0.1").env("PATH", "/nowhere").env_remove("SUDO_UID"));
    let text = "cannot run xdg-open: No such file or directory (os error 2); open ";
    ran.ended_with(0).tells(&format!("{text}{}", picture.display()));
}
