//! Artifacts of a cargo build, from its JSON messages.

use std::path::{Path, PathBuf};

use serde_json::Value;
use wingbeat_steps::command::{captured, cargo, display};

/// A program built by cargo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Artifact {
    /// Folder of its package, in which cargo runs tests.
    pub(crate) folder: PathBuf,
    pub(crate) target: String,
    /// Cargo's name: `bin`, `lib` for unit tests, `test` for integration tests.
    pub(crate) kind: String,
    pub(crate) is_test: bool,
    pub(crate) program: PathBuf,
}

impl Artifact {
    /// For display, `wingbeat/profile`.
    pub(crate) fn name(&self) -> String {
        name(&self.folder, &self.target)
    }

    fn read(line: &str) -> Option<Self> {
        let message: Value = serde_json::from_str(line).ok()?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Some(Self {
            folder: Path::new(message["manifest_path"].as_str()?).parent()?.to_owned(),
            target: text(&message["target"]["name"])?,
            kind: text(&message["target"]["kind"][0])?,
            is_test: message["profile"]["test"] == true,
            program: message["executable"].as_str()?.into(),
        })
    }
}

/// Name of a target, given the folder of its package.
pub(crate) fn name(folder: &Path, target: &str) -> String {
    format!("{}/{target}", folder.file_name().unwrap_or_default().to_string_lossy())
}

pub(crate) fn artifacts(messages: &str) -> Vec<Artifact> {
    messages.lines().filter_map(Artifact::read).collect()
}

/// Builds tests, in the profile of all tests, and the programs that they start.
///
/// Always builds the whole workspace: with fewer packages their dependencies get other features, and everything is
/// recompiled.
pub(crate) fn build_tests<'a>(
    arguments: impl IntoIterator<Item = &'a str>,
) -> anyhow::Result<Vec<Artifact>> {
    let mut command = cargo();
    command.args(["test", "--profile", "quick", "--workspace", "--no-run"]);
    command.args(["--message-format", "json-render-diagnostics"]).args(arguments);
    eprintln!("==> {}", display(&command));
    Ok(artifacts(&captured(&mut command)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn artifacts_are_read_and_named() {
        #[track_caller]
        fn check(folder: &str, kind: &str, is_test: bool, expected: &str) {
            let line = format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/r/{folder}/Cargo.toml","target":{{"name":"t","kind":["{kind}"]}},"profile":{{"test":{is_test}}},"executable":"/t/a"}}"#
            );
            let found = artifacts(&line);
            let found = found.first().map(|it| (it.name(), it.kind.as_str(), it.is_test));
            assert_eq!(found, Some((expected.to_owned(), kind, is_test)));
        }
        check("crates/wingbeat", "bin", false, "wingbeat/t");
        check("crates/profiler", "lib", true, "profile/t");
        let others =
            "{\"reason\":\"build-finished\",\"success\":true}\nno JSON\n{\"executable\":null}";
        assert_eq!(artifacts(others), []);
    }
}
