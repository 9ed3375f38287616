//! Labels of processes: few distinct sets, since backends store a series for each.

use std::{fs, iter};

use rustc_hash::FxHashMap;
use wingbeat_profiler::{model::Process, session::Lineage};

use crate::{
    cgroups::Cgroups,
    facts::{Facts, Labels, label_value},
    origin::Origin,
    pods::{PodCounts, Pods},
    rules::Rules,
};

/// State of processes, kept between windows.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    host: String,
    rules: Rules,
    pods: Option<Pods>,
    known: FxHashMap<u32, Known>,
    /// `None` without cgroup v2.
    cgroups: Option<Cgroups>,
    window: u64,
}

#[derive(Debug, Clone)]
struct Known {
    name: String,
    origin: Origin,
    executable: Executable,
    /// Last window in which it was sampled.
    window: u64,
}

/// Executable of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Executable {
    name: String,
    /// `None` for kernel threads and exited processes.
    path: Option<String>,
}

/// Windows for which an unsampled process is kept, since its children may be sampled.
const REMEMBERED: u64 = 40;

/// Maximum number of ancestors to search for an exited process.
const GENERATIONS_MAX: usize = 64;

/// Container runtimes.
const RUNTIMES: [&str; 6] = ["containerd", "conmon", "runc", "crun", "docker", "lxc-"];

impl Processes {
    /// Creates the state for a host name, rules, and an optional kubelet.
    pub(crate) fn new(host: String, rules: Rules, pods: Option<Pods>) -> Self {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        Self { host, rules, pods, cgroups: Cgroups::mounted(&mounts), ..Self::default() }
    }

    /// Replaces the rules.
    pub(crate) fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// Starts another window.
    pub(crate) fn next_window(&mut self) {
        self.window += 1;
        let window = self.window;
        self.known.retain(|_, known| window - known.window < REMEMBERED);
        if let Some(pods) = &mut self.pods {
            pods.next_window();
        }
        if let Some(cgroups) = &mut self.cgroups {
            cgroups.next_window();
        }
    }

    /// Counts of requests to the kubelet, and the last error since the previous call.
    pub(crate) fn kubelet(&mut self) -> Option<(PodCounts, Option<String>)> {
        self.pods.as_mut().map(|pods| (pods.counts, pods.take_error()))
    }

    /// The labels of a sampled process; `None` if a rule drops it. An exited process has the cgroup in which it
    /// was sampled, or that of its nearest ancestor with a known one.
    pub(crate) fn labels(&mut self, process: &Process, lineage: &Lineage) -> Option<Labels> {
        let Known { origin, executable, .. } = self.known_of(process, lineage);
        let pod = match (&mut self.pods, &origin.pod_uid) {
            (Some(pods), Some(uid)) => pods.get(uid, origin.container_id.as_deref()),
            _ => None,
        };
        let mut labels = Labels::new();
        let mut add = |name: &str, value: Option<&str>| {
            labels.extend(value.map(|value| (name.to_owned(), label_value(value))));
        };
        let service = pod.as_ref().map(|pod| pod.service.clone());
        let service = service.or_else(|| origin.name()).unwrap_or_else(|| executable.name.clone());
        add("host_name", Some(&self.host));
        add("service_name", Some(&service));
        add("process_executable_name", Some(&executable.name));
        add("container_id", origin.container_id.as_deref());
        add("systemd_unit", origin.unit.as_deref());
        add("k8s_pod_uid", origin.pod_uid.as_deref());
        if let Some(pod) = &pod {
            add("k8s_namespace_name", Some(&pod.namespace));
            add("k8s_pod_name", Some(&pod.pod));
            add("k8s_container_name", pod.container.as_deref());
        }
        let facts = Facts {
            executable: &executable.name,
            path: executable.path.as_deref(),
            origin: &origin,
            pod: pod.as_ref(),
        };
        self.rules.apply(&facts, &mut labels).then_some(labels)
    }

    fn known_of(&mut self, process: &Process, lineage: &Lineage) -> Known {
        let pid = process.pid;
        // A live process takes precedence: the PID may be reused by another process with the same name.
        let text = read_cgroup(pid);
        let origin = self.of_cgroup(text.as_deref(), lineage.cgroups.get(&pid));
        let origin = text.map(|text| Origin::parse(&text)).or(origin);
        let seen = self.known.get(&pid).filter(|known| known.name == process.name);
        let origin = origin
            .or_else(|| Some(seen?.origin.clone()).filter(|origin| !origin.is_unknown()))
            .or_else(|| self.of_ancestors(process, lineage))
            .unwrap_or_default();
        let executable = read_executable(pid)
            .or_else(|| Some(seen?.executable.clone()))
            .unwrap_or_else(|| Executable::of_thread(&process.name));
        let known = Known { name: process.name.clone(), origin, executable, window: self.window };
        self.known.insert(pid, known.clone());
        known
    }

    /// The origin from the cgroup in which a process was sampled. If cgroup v1 is used too, the container may be
    /// known only there, and this one is the runtime.
    fn of_cgroup(&mut self, text: Option<&str>, id: Option<&u64>) -> Option<Origin> {
        let (cgroups, id) = (self.cgroups.as_mut()?, *id?);
        if let Some(text) = text {
            // A later process may be gone with its folder.
            cgroups.record(id, text.lines().find_map(|line| line.strip_prefix("0::"))?);
            return None;
        }
        let origin = Origin::of_path(cgroups.path(id)?);
        let is_runtime = |unit: &String| RUNTIMES.iter().any(|name| unit.starts_with(name));
        let is_known =
            origin.container_id.is_some() || !origin.unit.as_ref().is_none_or(is_runtime);
        is_known.then_some(origin)
    }

    /// The origin of the nearest known ancestor below container runtimes, which are not part of the containers.
    fn of_ancestors(&self, process: &Process, lineage: &Lineage) -> Option<Origin> {
        let parent = |pid: &u32| lineage.parents.get(pid).copied();
        let first = process.parent.or_else(|| parent(&process.pid));
        for pid in iter::successors(first, parent).take(GENERATIONS_MAX) {
            let known = self.known.get(&pid);
            let executable = read_executable(pid).or_else(|| Some(known?.executable.clone()));
            if executable.is_some_and(|it| RUNTIMES.iter().any(|name| it.name.starts_with(name))) {
                return None;
            }
            let known = known.map(|known| known.origin.clone()).filter(|it| !it.is_unknown());
            let read = || read_cgroup(pid).map(|text| Origin::parse(&text));
            if let Some(origin) = known.or_else(read) {
                return Some(origin);
            }
        }
        None
    }
}

impl Executable {
    /// The executable of a process without a file: a kernel thread, or an exited process. Names of kernel workers
    /// include their current work and CPU (`kworker/u8:4-events_unbound`, `ksoftirqd/1`), so that each would be a
    /// series.
    fn of_thread(name: &str) -> Self {
        let kind = name.split_once('/').map_or(name, |(kind, _)| kind);
        Self { name: kind.to_owned(), path: None }
    }
}

fn read_cgroup(pid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()
}

/// The executable of a process; `None` for kernel threads.
fn read_executable(pid: u32) -> Option<Executable> {
    let path = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let text = path.to_string_lossy();
    let path = text.strip_suffix(" (deleted)").unwrap_or(&text);
    Some(Executable { name: name_of(path).to_owned(), path: Some(path.to_owned()) })
}

/// The name of a file. Anonymous executable memory, as used by container runtimes, may have a different name each time.
fn name_of(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    if path.starts_with("/memfd:") { "memfd" } else { name }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn process(pid: u32, parent: Option<u32>, name: &str) -> Process {
        Process { pid, parent, name: name.to_owned(), start_ns: 0, end_ns: None }
    }

    #[test]
    fn a_live_process() {
        let me = std::process::id();
        let mut processes = Processes::new("box".to_owned(), Rules::default(), None);
        let labels = processes.labels(&process(me, None, "me"), &Lineage::default());
        let labels = labels.expect("labels");
        let own = std::env::current_exe().expect("a path");
        let own = own.file_name().expect("a name").to_string_lossy();
        assert_eq!(labels["process_executable_name"], own);
        assert_eq!(labels["host_name"], "box");
        assert!(!labels["service_name"].is_empty());
    }

    #[test]
    fn an_exited_process_has_the_origin_of_its_parent() {
        let mut processes = Processes::new("box".to_owned(), Rules::default(), None);
        let gone = 5_000_000;
        let origin = Origin { unit: Some("nginx.service".to_owned()), ..Origin::default() };
        let name = "sh".to_owned();
        let executable = Executable::of_thread(&name);
        let parent = Known { name, origin, executable, window: 0 };
        processes.known.insert(gone, parent);
        let nobody = Lineage::default();
        let mut labels = |process: &Process, lineage: &Lineage| {
            processes.labels(process, lineage).expect("labels")
        };
        let found_of = labels(&process(gone + 1, Some(gone), "gzip"), &nobody);
        let found = ["service_name", "process_executable_name", "systemd_unit"];
        assert_eq!(found.map(|name| found_of[name].as_str()), ["nginx", "gzip", "nginx.service"]);
        // No process in between was sampled, and all have exited.
        let parents = (2..9).map(|age| (gone + age, gone + age - 1)).collect();
        let lineage = Lineage { parents, ..Lineage::default() };
        let far = labels(&process(gone + 8, Some(gone + 7), "cc1"), &lineage);
        assert_eq!(found.map(|name| far[name].as_str()), ["nginx", "cc1", "nginx.service"]);
        // The same PID with another name is another program.
        let labels = labels(&process(gone + 1, None, "ls"), &nobody);
        assert_eq!((labels["service_name"].as_str(), labels.get("systemd_unit")), ("ls", None));
        (0..REMEMBERED).for_each(|_| processes.next_window());
        assert!(processes.known.is_empty());
    }

    #[test]
    fn an_exited_process_has_the_cgroup_of_its_samples() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join(format!("system.slice/docker-{}.scope", "ab".repeat(32)));
        fs::create_dir_all(&folder).expect("a folder");
        let id = fs::metadata(&folder).expect("a folder").ino();
        let mut processes = Processes::new("box".to_owned(), Rules::default(), None);
        processes.cgroups = Some(Cgroups::below(root.path().to_owned()));
        let gone = 5_000_000;
        let mut check = |id: u64, expected: Option<&str>| {
            let cgroups = [(gone, id)].into_iter().collect();
            let lineage = Lineage { cgroups, ..Lineage::default() };
            processes.known.clear();
            let labels = processes.labels(&process(gone, None, "cc1"), &lineage).expect("labels");
            assert_eq!(labels.get("container_id").map(String::as_str), expected);
        };
        check(id, Some(&"ab".repeat(32)));
        check(u64::MAX, None);
    }

    #[test]
    fn kernel_workers_share_a_name() {
        let check =
            |name: &str, expected: &str| assert_eq!(Executable::of_thread(name).name, expected);
        check("kworker/u8:4-events_unbound", "kworker");
        check("ksoftirqd/1", "ksoftirqd");
        check("kcompactd0", "kcompactd0");
        assert_eq!(name_of("/memfd:runc_cloned:/proc/self/exe"), "memfd");
        assert_eq!(name_of("/usr/bin/runc"), "runc");
    }

    #[test]
    fn rules_and_pods_set_labels() {
        let document = include_bytes!("pods/pods.json").to_vec();
        let rules = "[[rule]]\npod = 'etcd-*'\ndrop = true\n[[rule]]\nnamespace = '*'\nlabels = { team = '{namespace}' }";
        let rules = Rules::read(rules).expect("rules");
        let pods = Pods::start(Box::new(move || Ok(document.clone())));
        let mut processes = Processes::new("box".to_owned(), rules, Some(pods));
        let mut labels = |uid: &str, id: &str| {
            let origin = Origin::parse(&format!("0::/kubepods/burstable/pod{uid}/{id}"));
            let executable = Executable::of_thread("app");
            let known = Known { name: "app".to_owned(), origin, executable, window: 0 };
            let gone = 5_000_000;
            processes.known.insert(gone, known);
            processes.labels(&process(gone, None, "app"), &Lineage::default())
        };
        let found =
            labels("5b3c1f0e-6a1d-4a53-9b1f-0a7d3f6c2e11", &"0f".repeat(32)).expect("labels");
        let names =
            ["service_name", "k8s_namespace_name", "k8s_pod_name", "k8s_container_name", "team"];
        let expected = ["cart", "shop", "cart-6f5d8b7c9-x2k4q", "migrate", "shop"];
        assert_eq!(names.map(|name| found[name].as_str()), expected);
        assert_eq!(labels("9f2d1c0b8a7e6f5d4c3b2a1908f7e6d5", &"3c".repeat(32)), None);
        assert_eq!(processes.kubelet().map(|(counts, _)| counts.requests), Some(1));
    }
}
