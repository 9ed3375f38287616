//! A repository for one round: its benchmark does as much work as a file of the commit says.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::Context as _;
use serde::Serialize;
use serde_json::Value;
use tempfile::TempDir;

use xtask::command::{captured, cargo, display};

use crate::comparison::output;

/// Runs the benchmark for a second or two: ten samples of each.
const SCRIPT: &str = "exec \"$PEERS_AA\" --bench --noplot --sample-size 10 --nresamples 1001 \\\n    \
                      --warm-up-time 0.1 --measurement-time 0.2\n";

/// Builds the benchmark, and returns its path.
pub(super) fn build() -> anyhow::Result<PathBuf> {
    let mut command = cargo();
    command.args(["bench", "--no-run", "-p", "wingbeat-stats", "--bench", "aa"]);
    command.args(["--message-format", "json-render-diagnostics"]);
    let lines = captured(&mut command)?;
    let messages = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let executable = |message: Value| message["executable"].as_str().map(PathBuf::from);
    let built = messages.filter_map(executable).next_back();
    built.with_context(|| format!("`{}` built no benchmark", display(&command)))
}

/// A repository with an empty store, in a temporary folder.
#[derive(Debug)]
pub(super) struct Scratch<'a> {
    folder: TempDir,
    wingbeat: &'a Path,
    bench: &'a Path,
}

/// What `wingbeat run --err` said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Said {
    /// Whether an alert is active, for which `--err` fails.
    pub(super) failed: bool,
    /// Whether something looked worse by its samples.
    pub(super) looked_worse: bool,
    pub(super) is_open: bool,
}

impl<'a> Scratch<'a> {
    pub(super) fn new(wingbeat: &'a Path, bench: &'a Path) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
        fs::create_dir(folder.path().join("repository")).context("cannot create a folder")?;
        let scratch = Self { folder, wingbeat, bench };
        scratch.git(&["init", "--quiet", "--initial-branch", "main"])?;
        scratch.write("bench.sh", SCRIPT)?;
        Ok(scratch)
    }

    /// Commits that the benchmark does so many times its work.
    pub(super) fn commit(&self, work: u32, message: &str) -> anyhow::Result<()> {
        self.write("work", &work.to_string())?;
        self.git(&["add", "--all"])?;
        self.git(&["commit", "--quiet", "--allow-empty", "--message", message])
    }

    /// Goes back by a commit.
    pub(super) fn forget_commit(&self) -> anyhow::Result<()> {
        self.git(&["reset", "--quiet", "--hard", "HEAD~1"])
    }

    /// Measures what is checked out. A dry run leaves no report.
    pub(super) fn measure(&self, is_dry: bool) -> anyhow::Result<Said> {
        let mut command = self.command(self.wingbeat);
        let fixed = ["run", "--quiet", "--err", "--format", "json", "--adapter", "rust_criterion"];
        command.args(fixed).args(["--project", "aa", "--branch", "main", "--testbed", "here"]);
        command.args(is_dry.then_some("--dry-run")).args(["--", "sh", "bench.sh"]);
        let said =
            command.output().with_context(|| format!("cannot run `{}`", display(&command)))?;
        let report: Value = serde_json::from_slice(&said.stdout).with_context(|| {
            let stderr = String::from_utf8_lossy(&said.stderr).into_owned();
            format!("`{}` gave no report: {stderr}", display(&command))
        })?;
        said_of(&report).with_context(|| format!("`{}` gave another report", display(&command)))
    }

    fn git(&self, arguments: &[&str]) -> anyhow::Result<()> {
        output(self.command(Path::new("git")).args(arguments)).map(drop)
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        let root = self.folder.path();
        command
            .current_dir(root.join("repository"))
            .stdin(Stdio::null())
            .env("TMPDIR", root)
            .env("PEERS_AA", self.bench)
            .env("CRITERION_HOME", root.join("criterion"))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null");
        for role in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{role}_NAME"), "peers");
            command.env(format!("GIT_{role}_EMAIL"), "peers@localhost");
        }
        // What a job's environment says of its own repository.
        for name in ["GITHUB_ACTIONS", "GITHUB_HEAD_REF", "GIT_DIR", "GIT_WORK_TREE"] {
            command.env_remove(name);
        }
        command
    }

    fn write(&self, name: &str, content: &str) -> anyhow::Result<()> {
        let file = self.folder.path().join("repository").join(name);
        fs::write(&file, content).with_context(|| format!("cannot write {}", file.display()))
    }
}

/// What a report says of metrics that became worse or looked so; `None` if it counts no alerts. The exit
/// code would not do: with `--err` it is also that of benchmarks that failed.
fn said_of(report: &Value) -> Option<Said> {
    let active = report["counts"]["alerts"]["active"].as_u64()?;
    let of = &report["wingbeat"];
    let notices = of["notices"].as_array().into_iter().flatten();
    let is_open = notices
        .into_iter()
        .any(|notice| notice["code"] == "looks-changed" && notice["outcome"] == "worse");
    let mut remarks = of["remarks"].as_array().into_iter().flatten();
    let is_in_turns = |remark: &Value| {
        remark.as_str().is_some_and(|text| text.starts_with("measured again, alternating with"))
    };
    let looked_worse = is_open || remarks.any(is_in_turns);
    Some(Said { failed: active > 0, looked_worse, is_open })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reports_are_understood() {
        let check = |notices: Value, remarks: Value, looked_worse, is_open| {
            for active in [0, 2] {
                let report = json!({
                    "counts": {"alerts": {"total": 3, "active": active}},
                    "wingbeat": {"notices": notices, "remarks": remarks},
                });
                let expected = Said { failed: active > 0, looked_worse, is_open };
                assert_eq!(said_of(&report), Some(expected), "{report}");
            }
        };
        let looks = |outcome| json!([{"code": "looks-changed", "outcome": outcome}]);
        check(json!([]), json!([]), false, false);
        check(looks("worse"), json!([]), true, true);
        check(looks("better"), json!(["something else"]), false, false);
        check(json!([]), json!(["measured again, alternating with 0a: …"]), true, false);
        assert_eq!(said_of(&json!({})), None, "no report");
    }
}
