//! Runs wingbeat, and reads its output.

use std::path::{Path, PathBuf};

use serde_json::Value;

pub(crate) use crate::target::{
    Background, Run, WITH_FRAME_POINTERS, build, build_with, command, compile, finished, folder,
    turn, turn_in_folder,
};

/// Spins in `busy_work` for a number of CPU seconds, counted from the call.
pub(crate) const SPINNER: &str = r#"
OWN void busy_work(double seconds) { double begun = cpu_s(); while (cpu_s() - begun < seconds) spin(200000); }
int main(int count, char **words) {
    busy_work(count > 1 ? atof(words[1]) : 1.0);
    return 0;
}"#;

/// A target that spins.
pub(crate) fn spinner(folder: &Path, name: &str) -> PathBuf {
    build(folder, name, SPINNER)
}

/// Runs it to completion.
pub(crate) fn profile(folder: &Path, flags: &[&str], words: &[&str]) -> Run {
    let output = command(folder, flags).args(words).output().expect("run wingbeat");
    finished(folder, output)
}

/// Runs it on a program, to completion.
pub(crate) fn launch(folder: &Path, flags: &[&str], program: &Path, words: &[&str]) -> Run {
    let program = program.to_str().expect("UTF-8");
    profile(folder, flags, &[&["--", program], words].concat())
}

/// Builds a program and records it to completion; `None` if profiling is impossible here.
pub(crate) fn recorded(name: &str, source: &str, flags: &[&str]) -> Option<Run> {
    let (_turn, folder) = turn_in_folder()?;
    let program = build(folder.path(), name, source);
    Some(launch(folder.path(), flags, &program, &[]))
}

pub(crate) fn check(summary: &Value, folded: &[(String, u64)]) {
    let stacks = &summary["stacks"];
    let kinds = ["complete", "truncated", "broken"];
    let by_kind: u64 = kinds.iter().map(|kind| stacks[*kind].as_u64().expect("a count")).sum();
    let samples: u64 = folded.iter().map(|(_, count)| count).sum();
    assert_eq!(by_kind, samples, "every sample has a stack of one kind");
}

impl Run {
    /// Samples whose stack contains a text.
    pub(crate) fn samples_with(&self, text: &str) -> u64 {
        self.folded.iter().filter(|(stack, _)| stack.contains(text)).map(|(_, count)| count).sum()
    }

    pub(crate) fn samples(&self) -> u64 {
        self.samples_with("")
    }

    /// Percentage of samples whose stack contains a text.
    pub(crate) fn percent_with(&self, text: &str) -> f64 {
        100.0 * self.samples_with(text) as f64 / self.samples().max(1) as f64
    }
}
