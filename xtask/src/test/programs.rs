//! Test programs: built by cargo, and what cargo says of them.

use std::path::{Path, PathBuf};

use serde_json::Value;
use wingbeat_steps::command::{captured, cargo, display, repository};

/// A test program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    /// For people, `wingbeat/profile`.
    pub(super) name: String,
    /// The folder that cargo would run it in, that of its package.
    pub(super) folder: PathBuf,
    pub(super) path: PathBuf,
    /// Whether its tests load something into the kernel and mostly wait.
    pub(super) is_of_kernel: bool,
}

/// Programs whose tests record on the running kernel, the longest first: they run one after the other as long as there
/// are others to run beside them.
const OF_KERNEL: &[&str] = &[
    "wingbeat/profile",
    "wingbeat/off_cpu",
    "wingbeat/heap",
    "wingbeat/agent",
    "wingbeat/bench",
    "wingbeat/live",
    "wingbeat-profile/wingbeat_profile",
    "wingbeat-bench/kernel",
    "wingbeat-bpf/loader",
    "fun-xdp/fun_xdp",
    "profiler/profiler",
];

pub(super) fn build(arguments: &[&str]) -> anyhow::Result<Vec<Program>> {
    let mut command = cargo();
    command.args(["test", "--profile", "quick", "--no-run", "--workspace", "--message-format"]);
    command.arg("json-render-diagnostics").args(arguments);
    eprintln!("==> {}", display(&command));
    let mut programs: Vec<_> = captured(&mut command)?.lines().filter_map(read).collect();
    let place = |program: &Program| OF_KERNEL.iter().position(|name| *name == program.name);
    programs.sort_by_key(|program| place(program).unwrap_or(usize::MAX));
    Ok(programs)
}

/// The program that a message of cargo is about, if it is a test.
fn read(line: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(line).ok()?;
    let path = PathBuf::from(message["executable"].as_str()?);
    if message["profile"]["test"] != true {
        return None;
    }
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    // `path+file:///…/crates/bench#wingbeat-bench@0.1.0`, or without the name if it is that of the folder.
    let id = message["package_id"].as_str()?.rsplit(['#', '/']).next()?;
    let package =
        id.split('@').next().filter(|name| !name.starts_with(|c: char| c.is_ascii_digit()));
    let package = package.or_else(|| folder.file_name()?.to_str())?.to_owned();
    let name = format!("{package}/{}", message["target"]["name"].as_str()?);
    let is_of_kernel = OF_KERNEL.contains(&name.as_str());
    debug_assert!(folder.starts_with(repository()), "{}", folder.display());
    Some(Program { name, folder, path, is_of_kernel })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_read_from_messages() {
        let check = |id: &str, target: &str, is_test: bool, expected: Option<(&str, bool)>| {
            let root = repository().display().to_string();
            let line = format!(
                r#"{{"reason":"compiler-artifact","package_id":"path+file://{root}/{id}",
                "manifest_path":"{root}/crates/wingbeat/Cargo.toml","target":{{"name":"{target}"}},
                "profile":{{"test":{is_test}}},"executable":"/t/debug/deps/{target}-1"}}"#
            );
            let found = read(&line.replace('\n', " "));
            let found = found.as_ref().map(|it| (it.name.as_str(), it.is_of_kernel));
            assert_eq!(found, expected, "{id}");
        };
        check("crates/wingbeat#0.1.0", "heap", true, Some(("wingbeat/heap", true)));
        check(
            "crates/bench#wingbeat-bench@0.1.0",
            "report",
            true,
            Some(("wingbeat-bench/report", false)),
        );
        check("crates/wingbeat#0.1.0", "wingbeat", false, None);
        assert_eq!(read(r#"{"reason":"build-finished","success":true}"#), None);
        assert_eq!(read("no JSON"), None);
    }
}
