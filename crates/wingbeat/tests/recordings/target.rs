//! Small C programs as targets, in separate folders, one test at a time. Shared by the suites that record on the real
//! kernel.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{LazyLock, MutexGuard},
};

use serde_json::Value;
use wingbeat_bpf_loader::{
    Verb,
    probe::{can, findings},
};

use crate::ran::{Ran, without_rights};

/// Acquires the test lock; `None` if profiling is impossible here.
pub(crate) fn turn() -> Option<MutexGuard<'static, ()>> {
    /// Computed once: a probe reads the kernel's types, and this program is not optimized.
    static CAN_PROFILE: LazyLock<bool> = LazyLock::new(|| can(Verb::Profile, &findings()));
    let can = CAN_PROFILE.then_some(());
    crate::ran::turn(can.ok_or("`wingbeat doctor` says that profiling is impossible here"))
}

/// The same with a folder for the test.
pub(crate) fn turn_in_folder() -> Option<(MutexGuard<'static, ()>, tempfile::TempDir)> {
    turn().map(|turn| (turn, folder()))
}

/// Flags for a target with frame pointers.
pub(crate) const WITH_FRAME_POINTERS: &[&str] =
    &["-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"];

/// A temporary folder. World-readable, for tests without privileges.
pub(crate) fn folder() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("temporary folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
    folder
}

/// Compiles C with debug information; returns the program's path.
pub(crate) fn compile(folder: &Path, name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let (code, program) = (folder.join(format!("{name}.c")), folder.join(name));
    fs::write(&code, source).expect("write source");
    let output = Command::new("cc")
        .args(["-O1", "-g", "-D_GNU_SOURCE", "-o"])
        .args([&program, &code])
        .args(["-pthread"])
        .args(flags)
        .output()
        .expect("cc");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Shared code of several targets: a busy loop that is not optimized away.
pub(crate) const SPIN: &str = "
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#define OWN __attribute__((noinline, noclone))
OWN void spin(long turns) { for (volatile long i = 0; i < turns; i++); }
static double cpu_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}
";

/// Clocks, and a line `KEY NUMBER` on stdout for each value; flushed immediately, because some targets are killed.
const CLOCKS: &str = r#"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
static long clock_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}
static long now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }
static long thread_cpu_ns(void) { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }
static void say(const char *key, long value) { dprintf(1, "%s %ld\n", key, value); }
static void say_of(const char *who, const char *what, long value) {
    char key[64];
    snprintf(key, sizeof key, "%s.%s", who, what);
    say(key, value);
}
static void doze(long ns) {
    struct timespec t = {ns / 1000000000, ns % 1000000000};
    nanosleep(&t, 0);
}
"#;

/// Compiles a target with frame pointers; its source may use [`SPIN`] and [`CLOCKS`].
pub(crate) fn build(folder: &Path, name: &str, source: &str) -> PathBuf {
    build_with(folder, name, source, WITH_FRAME_POINTERS)
}

/// The same with custom flags.
pub(crate) fn build_with(folder: &Path, name: &str, source: &str, flags: &[&str]) -> PathBuf {
    compile(folder, name, &[SPIN, CLOCKS, source].concat(), flags)
}

/// Additional tolerance in percent when `cargo xtask vm` emulates the machine: thousands of instructions lie between
/// the clock reads of target and kernel, and each takes 2 ns.
pub(crate) fn emulation_percent() -> f64 {
    if std::env::var_os("WINGBEAT_TEST_EMULATED").is_some() { 3.0 } else { 0.0 }
}

/// Collapsed stacks with their weights; empty without a file.
pub(crate) fn read_folded(path: &Path) -> Vec<(String, u64)> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let parse = |line: &str| {
        let (stack, count) = line.rsplit_once(' ').expect("a count");
        (stack.to_owned(), count.parse().expect("a number"))
    };
    text.lines().map(parse).collect()
}

/// A process that is killed at the end of the test.
pub(crate) struct Background(pub Child);

impl Background {
    pub(crate) fn start(program: &Path, words: &[&str]) -> Self {
        let child = Command::new(program).args(words).stdout(Stdio::null()).spawn();
        Self(child.expect("start target"))
    }

    pub(crate) fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Results of a wingbeat run.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stderr: String,
    pub(crate) folded: Vec<(String, u64)>,
    pub(crate) summary: Value,
    /// Values printed by the launched target, `KEY NUMBER` per line.
    pub(crate) said: BTreeMap<String, u64>,
}

/// `wingbeat profile` with collapsed stacks and a summary in `folder`, and more flags.
pub(crate) fn command(folder: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wingbeat"));
    command.arg("profile").arg("-o").arg(folder.join("out.folded"));
    command.arg("--summary-json").arg(folder.join("out.json")).args(flags);
    command
}

/// Command prefix that runs the rest in a new PID namespace.
const UNSHARE: [&str; 4] = ["unshare", "--pid", "--fork", "--mount-proc"];

/// Acquires the test lock, in a folder; `None` also if namespaces are not permitted.
pub(crate) fn turn_with_namespaces() -> Option<(MutexGuard<'static, ()>, tempfile::TempDir)> {
    turn_in_folder().filter(|_| has_namespaces())
}

/// Whether namespaces can be created; prints a message if not.
pub(crate) fn has_namespaces() -> bool {
    let refused = match Command::new(UNSHARE[0]).args(&UNSHARE[1..]).arg("true").output() {
        Ok(output) if output.status.success() => return true,
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    eprintln!("skipped: unshare(1) makes no PID namespace here: {refused}");
    false
}

/// A command in a new PID namespace.
pub(crate) fn namespaced<'a>(words: &[&'a str]) -> Vec<&'a str> {
    [&UNSHARE, words].concat()
}

/// `wingbeat profile` with flags and arguments, in a new PID namespace.
pub(crate) fn profile_inside(folder: &Path, flags: &[&str], words: &[&str]) -> Run {
    let mut inside = Command::new(UNSHARE[0]);
    inside.args(&UNSHARE[1..]);
    let wingbeat = command(folder, flags);
    let output = inside.arg(wingbeat.get_program()).args(wingbeat.get_args()).args(words).output();
    finished(folder, output.expect("unshare"))
}

/// The same with a program already running in that namespace, as its only target if `flags` end in `--pid`.
pub(crate) fn profile_beside(folder: &Path, program: &Path, flags: &[&str]) -> Run {
    let mut inside = Command::new(UNSHARE[0]);
    let pid = if flags.ends_with(&["--pid"]) { " $!" } else { "" };
    let script = format!("\"$0\" 20 >/dev/null & sleep 0.2; exec \"$@\"{pid}");
    inside.args(&UNSHARE[1..]).args(["sh", "-c", &script]).arg(program);
    let wingbeat = command(folder, flags);
    let output = inside.arg(wingbeat.get_program()).args(wingbeat.get_args()).output();
    finished(folder, output.expect("unshare"))
}

/// Reads the outputs of a run, and checks the invariants of each run.
pub(crate) fn finished(folder: &Path, output: Output) -> Run {
    let Ran { code, stdout, stderr, .. } = output.into();
    let summary = fs::read(folder.join("out.json"))
        .map(|bytes| serde_json::from_slice(&bytes).expect("summary is JSON"))
        .unwrap_or(Value::Null);
    let folded = read_folded(&folder.join("out.folded"));
    if !summary.is_null() {
        if summary["off_cpu"].is_object() {
            crate::off_cpu::accounts::check(&summary, &folded);
        } else {
            crate::profile::support::check(&summary, &folded);
        }
    }
    Run { code, stderr, folded, summary, said: read_said(&stdout) }
}

pub(crate) fn read_said(text: &str) -> BTreeMap<String, u64> {
    let parse = |line: &str| {
        let (key, value) = line.split_once(' ')?;
        Some((key.to_owned(), value.parse().ok()?))
    };
    text.lines().filter_map(parse).collect()
}

impl Run {
    #[track_caller]
    pub(crate) fn ended_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{:?}\n{}", self.said, self.stderr);
        self
    }

    /// A number of the summary, by its path.
    pub(crate) fn number(&self, path: &str) -> u64 {
        let value = self.summary.pointer(path).and_then(Value::as_u64);
        value.unwrap_or_else(|| panic!("{path} in {}\n{}", self.summary, self.stderr))
    }
}

/// An unprivileged run reports the missing privileges and how to get them, in one sentence.
pub(crate) fn check_without_rights(arguments: &[&str]) {
    let folder = folder();
    let mut wingbeat = without_rights(folder.path());
    wingbeat.arg("profile").args(arguments);
    wingbeat.args(["-o", "/tmp/wingbeat-unprivileged.svg", "--", "true"]);
    let texts = ["CAP_BPF and CAP_PERFMON are missing", "sudo", "setcap cap_bpf,cap_perfmon"];
    Ran::of(&mut wingbeat).ended_with(1).tells_all(&texts).tells_in_one_line();
}
