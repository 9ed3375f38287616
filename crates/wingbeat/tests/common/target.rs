//! Small C programs as targets, in folders of their own, one test at a time. Shared by the suites that
//! record on the real kernel.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use wingbeat_bpf::{
    Verb,
    probe::{can, findings},
};

/// One test at a time.
static TURN: Mutex<()> = Mutex::new(());

/// Asked once: a probe reads the kernel's types, and this program is not optimized.
static CAN_PROFILE: LazyLock<bool> = LazyLock::new(|| can(Verb::Profile, &findings()));

/// Waits for this test's turn; `None` if profiling is impossible here, which in CI is a failure.
pub(crate) fn turn() -> Option<MutexGuard<'static, ()>> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if *CAN_PROFILE {
        return Some(turn);
    }
    assert!(std::env::var_os("CI").is_none(), "CI must be able to profile: see `wingbeat doctor`");
    eprintln!("skipped: `wingbeat doctor` says that profiling is impossible here");
    None
}

/// The same with a folder for the test.
pub(crate) fn turn_in_folder() -> Option<(MutexGuard<'static, ()>, tempfile::TempDir)> {
    turn().map(|turn| (turn, folder()))
}

/// Flags for a target that keeps frame pointers.
pub(crate) const WITH_FRAME_POINTERS: &[&str] =
    &["-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"];

/// A folder for one test; gone afterwards. Readable by all, for tests without rights.
pub(crate) fn folder() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("temporary folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
    folder
}

/// Compiles C with debug information and gives the path of the program.
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

/// Code that several targets share: a busy loop that the compiler leaves alone.
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

/// Percent that a figure may be off besides, where `cargo xtask vm` emulates the machine: thousands of
/// instructions lie between two looks at the clock, one of the target and one of the kernel, and each
/// takes 4 ns.
pub(crate) fn emulation_percent() -> f64 {
    if std::env::var_os("WINGBEAT_TEST_EMULATED").is_some() { 3.0 } else { 0.0 }
}

/// Collapsed stacks with their weights; none without a file.
pub(crate) fn read_folded(path: &Path) -> Vec<(String, u64)> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let parse = |line: &str| {
        let (stack, count) = line.rsplit_once(' ').expect("a count");
        (stack.to_owned(), count.parse().expect("a number"))
    };
    text.lines().map(parse).collect()
}

/// A process that is killed when the test is over.
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

/// Waits until something holds, for ten seconds at most.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < deadline, "waited ten seconds until {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// What a run of wingbeat left.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stderr: String,
    pub(crate) folded: Vec<(String, u64)>,
    pub(crate) summary: Value,
    /// What the launched target said of itself, `KEY NUMBER` a line.
    pub(crate) said: BTreeMap<String, u64>,
}

/// `wingbeat profile` with collapsed stacks and a summary in `folder`, and more flags.
pub(crate) fn command(folder: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wingbeat"));
    command.arg("profile").arg("-o").arg(folder.join("out.folded"));
    command.arg("--summary-json").arg(folder.join("out.json")).args(flags);
    command
}

/// Reads what a run wrote, and checks what must hold for each run.
pub(crate) fn finished(folder: &Path, output: Output) -> Run {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    for trace in ["panicked", "RUST_BACKTRACE", "stack backtrace"] {
        assert!(!stderr.contains(trace), "{stderr}");
    }
    let summary = fs::read(folder.join("out.json"))
        .map(|bytes| serde_json::from_slice(&bytes).expect("summary is JSON"))
        .unwrap_or(Value::Null);
    let folded = read_folded(&folder.join("out.folded"));
    if !summary.is_null() {
        crate::support::check(&summary, &folded);
    }
    let said = read_said(&String::from_utf8_lossy(&output.stdout));
    Run { code: output.status.code(), stderr, folded, summary, said }
}

pub(crate) fn read_said(text: &str) -> BTreeMap<String, u64> {
    let parse = |line: &str| {
        let (key, value) = line.split_once(' ')?;
        Some((key.to_owned(), value.parse().ok()?))
    };
    text.lines().filter_map(parse).collect()
}

impl Run {
    /// Fails unless it ended with this code.
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

/// Without rights a run says which are missing and how to get them, in one sentence.
pub(crate) fn check_without_rights(arguments: &[&str]) {
    let folder = folder();
    let copy = folder.path().join("wingbeat");
    // By a child: a descriptor that is open for writing here while another test forks would make
    // the copy "busy" for exec.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_wingbeat")).arg(&copy).status();
    assert!(copied.expect("cp").success());
    let mut wingbeat = Command::new(&copy);
    wingbeat.arg("profile").args(arguments);
    wingbeat.args(["-o", "/tmp/wingbeat-unprivileged.svg", "--", "true"]);
    if rustix::process::geteuid().is_root() {
        wingbeat.uid(65534).gid(65534);
    }
    let texts = ["CAP_BPF and CAP_PERFMON are missing", "sudo", "setcap cap_bpf,cap_perfmon"];
    let stderr = said_by(&mut wingbeat, 1, &texts);
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

/// Runs a command, which has to end with this code, and to say these texts.
#[track_caller]
pub(crate) fn said_by(command: &mut Command, code: i32, texts: &[&str]) -> String {
    let output = command.output().expect("run wingbeat");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{command:?}: {stderr}");
    for text in texts {
        assert!(stderr.contains(text), "{command:?}: {text} in {stderr}");
    }
    stderr
}
