//! Compiling targets, running wingbeat, reading what it wrote.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
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

/// Waits for this test's turn; `None` if profiling is impossible here, which in CI is a failure.
pub(crate) fn turn() -> Option<MutexGuard<'static, ()>> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if can(Verb::Profile, &findings()) {
        return Some(turn);
    }
    assert!(std::env::var_os("CI").is_none(), "CI must be able to profile: see `wingbeat doctor`");
    eprintln!("skipped: `wingbeat doctor` says that profiling is impossible here");
    None
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

/// A target that spins in `busy_work` for a number of CPU seconds.
pub(crate) fn spinner(folder: &Path, name: &str) -> PathBuf {
    let source = format!(
        "{SPIN}
OWN void busy_work(double seconds) {{ while (cpu_s() < seconds) spin(200000); }}
int main(int count, char **words) {{
    busy_work(count > 1 ? atof(words[1]) : 1.0);
    return 0;
}}"
    );
    compile(folder, name, &source, WITH_FRAME_POINTERS)
}

/// What a run of wingbeat left.
pub(crate) struct Run {
    pub code: Option<i32>,
    pub stderr: String,
    pub folded: Vec<(String, u64)>,
    pub summary: Value,
}

/// `wingbeat profile` with collapsed stacks and a summary in `folder`, and more flags.
pub(crate) fn command(folder: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wingbeat"));
    command.arg("profile").arg("-o").arg(folder.join("out.folded"));
    command.arg("--summary-json").arg(folder.join("out.json")).args(flags);
    command
}

/// Runs it to its end.
pub(crate) fn profile(folder: &Path, flags: &[&str], words: &[&str]) -> Run {
    let output = command(folder, flags).args(words).output().expect("run wingbeat");
    finished(folder, output)
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
        let stacks = &summary["stacks"];
        let by_kind: u64 = ["complete", "truncated", "broken"]
            .iter()
            .map(|kind| stacks[*kind].as_u64().expect("a count"))
            .sum();
        let samples: u64 = folded.iter().map(|(_, count)| count).sum();
        assert_eq!(by_kind, samples, "every sample has a stack of one kind");
    }
    Run { code: output.status.code(), stderr, folded, summary }
}

fn read_folded(path: &Path) -> Vec<(String, u64)> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let parse = |line: &str| {
        let (stack, count) = line.rsplit_once(' ').expect("a count");
        (stack.to_owned(), count.parse().expect("a number"))
    };
    text.lines().map(parse).collect()
}

impl Run {
    /// Samples whose stack contains a text.
    pub(crate) fn samples_with(&self, text: &str) -> u64 {
        self.folded.iter().filter(|(stack, _)| stack.contains(text)).map(|(_, count)| count).sum()
    }

    /// All samples.
    pub(crate) fn samples(&self) -> u64 {
        self.samples_with("")
    }

    /// Share of samples whose stack contains a text, in percent.
    pub(crate) fn percent_with(&self, text: &str) -> f64 {
        100.0 * self.samples_with(text) as f64 / self.samples().max(1) as f64
    }

    /// A number of the summary, by its path.
    pub(crate) fn number(&self, path: &str) -> u64 {
        let value = self.summary.pointer(path).and_then(Value::as_u64);
        value.unwrap_or_else(|| panic!("{path} in {}\n{}", self.summary, self.stderr))
    }
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
