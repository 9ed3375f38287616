//! What a run gave, and what is left behind.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Output,
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

pub(crate) struct Ran {
    /// `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

impl Ran {
    /// Fails unless it ended with this code.
    #[track_caller]
    pub(crate) fn ended_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.stdout, self.stderr);
        self
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}{}", self.stdout, self.stderr))
    }

    /// The remarks of a report in JSON, one a line.
    pub(crate) fn remarks(&self) -> String {
        let remarks = self.json()["wingbeat"]["remarks"].clone();
        let remarks: Vec<String> = serde_json::from_value(remarks).expect("texts");
        remarks.join("\n")
    }
}

/// The worktrees of `wingbeat compare` below its folder for temporary files.
pub(crate) fn worktrees_in(temporary: &Path) -> Vec<PathBuf> {
    let inside = |folder: PathBuf| {
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
    };
    let ours = inside(temporary.to_owned());
    let ours = ours.filter(|path| path.to_string_lossy().contains("wingbeat-compare-"));
    ours.flat_map(inside).flat_map(inside).collect()
}

/// That neither git, which lists these, nor the temporary folder know of a worktree any more.
pub(crate) fn assert_no_worktrees(listed: &str, temporary: &Path) {
    assert_eq!(listed.matches("worktree ").count(), 1, "{listed}");
    assert_eq!(worktrees_in(temporary), Vec::<PathBuf>::new());
}

/// Waits for something.
pub(crate) fn wait_for(what: &str, is_there: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_there() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited in vain for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
