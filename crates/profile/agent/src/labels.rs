//! Labels of processes: few sets, since engines keep a series for each.

use std::{collections::BTreeMap, fs, path::Path};

use rustc_hash::FxHashMap;
use wingbeat_profile::model::Process;

use super::origin::Origin;

/// Labels of a series, as engines name them: those of OpenTelemetry with `_` for `.`.
pub(crate) type Labels = BTreeMap<String, String>;

/// What is known of processes, from one window to the next.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    host: String,
    known: FxHashMap<u32, Known>,
    window: u64,
}

#[derive(Debug, Clone)]
struct Known {
    name: String,
    origin: Origin,
    executable: String,
    /// When it was sampled last.
    window: u64,
}

/// Windows for which a process that is not sampled is remembered: its children may be.
const REMEMBERED: u64 = 40;

impl Processes {
    /// For a machine of this name.
    pub(crate) fn new(host: String) -> Self {
        Self { host, ..Self::default() }
    }

    /// Another window begins.
    pub(crate) fn next_window(&mut self) {
        self.window += 1;
        let window = self.window;
        self.known.retain(|_, known| window - known.window < REMEMBERED);
    }

    /// The labels of a process that was sampled. One that is gone already is where its parent is.
    pub(crate) fn labels(&mut self, process: &Process) -> Labels {
        let known = self.look_at(process);
        let mut labels = Labels::new();
        let mut add = |name: &str, value: &str| {
            labels.insert(name.to_owned(), value.to_owned());
        };
        add("host_name", &self.host);
        let service = known.origin.name().unwrap_or_else(|| known.executable.clone());
        add("service_name", &service);
        add("process_executable_name", &known.executable);
        let Origin { container_id, unit, pod_uid } = &known.origin;
        let more =
            [("container_id", container_id), ("systemd_unit", unit), ("k8s_pod_uid", pod_uid)];
        for (name, value) in more {
            if let Some(value) = value {
                add(name, value);
            }
        }
        labels
    }

    fn look_at(&mut self, process: &Process) -> Known {
        let pid = process.pid;
        let seen = self.known.get(&pid).filter(|known| known.name == process.name);
        let of_parent = process.parent.and_then(|parent| self.known.get(&parent));
        // What is there now comes first: the number may be another process's with the same name.
        let origin = read_origin(pid)
            .or_else(|| Some(seen?.origin.clone()))
            .or_else(|| Some(of_parent?.origin.clone()))
            .or_else(|| read_origin(process.parent?))
            .unwrap_or_default();
        let executable = read_executable(pid)
            .or_else(|| Some(seen?.executable.clone()))
            .unwrap_or_else(|| process.name.clone());
        let known = Known { name: process.name.clone(), origin, executable, window: self.window };
        self.known.insert(pid, known.clone());
        known
    }
}

fn read_origin(pid: u32) -> Option<Origin> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    Some(Origin::parse(&text))
}

/// The name of the program that a process runs; none of a thread of the kernel.
fn read_executable(pid: u32) -> Option<String> {
    let path = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let name = Path::new(&path).file_name()?.to_string_lossy().into_owned();
    Some(name.trim_end_matches(" (deleted)").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, parent: Option<u32>, name: &str) -> Process {
        Process { pid, parent, name: name.to_owned(), start_ns: 0, end_ns: None }
    }

    #[test]
    fn a_live_process() {
        let me = std::process::id();
        let mut processes = Processes::new("box".to_owned());
        let labels = processes.labels(&process(me, None, "me"));
        let own = std::env::current_exe().expect("a path");
        let own = own.file_name().expect("a name").to_string_lossy();
        assert_eq!(labels["process_executable_name"], own);
        assert_eq!(labels["host_name"], "box");
        assert!(!labels["service_name"].is_empty());
    }

    #[test]
    fn a_process_that_is_gone_is_where_its_parent_is() {
        let mut processes = Processes::new("box".to_owned());
        let gone = 5_000_000;
        let origin = Origin { unit: Some("nginx.service".to_owned()), ..Origin::default() };
        let name = "sh".to_owned();
        let parent = Known { name: name.clone(), origin, executable: name, window: 0 };
        processes.known.insert(gone, parent);
        let labels = processes.labels(&process(gone + 1, Some(gone), "gzip"));
        let found = ["service_name", "process_executable_name", "systemd_unit"];
        assert_eq!(found.map(|name| labels[name].as_str()), ["nginx", "gzip", "nginx.service"]);
        // The same number with another name is another program.
        let labels = processes.labels(&process(gone + 1, None, "ls"));
        assert_eq!((labels["service_name"].as_str(), labels.get("systemd_unit")), ("ls", None));
        (0..REMEMBERED).for_each(|_| processes.next_window());
        assert!(processes.known.is_empty());
    }
}
