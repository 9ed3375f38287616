//! Running wingbeat, reading what it wrote.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

use crate::target::read_folded;
pub(crate) use crate::target::{
    Background, SPIN, WITH_FRAME_POINTERS, compile, folder, turn, wait_until,
};

/// A target that spins in `busy_work` for a number of CPU seconds, counted from there.
pub(crate) fn spinner(folder: &Path, name: &str) -> PathBuf {
    let source = format!(
        "{SPIN}
OWN void busy_work(double seconds) {{ double begun = cpu_s(); while (cpu_s() - begun < seconds) spin(200000); }}
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

impl Run {
    /// Samples whose stack contains a text.
    pub(crate) fn samples_with(&self, text: &str) -> u64 {
        self.folded.iter().filter(|(stack, _)| stack.contains(text)).map(|(_, count)| count).sum()
    }

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
