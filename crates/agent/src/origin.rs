//! Determines a process's container or unit from its cgroup path.

/// Origin of a process, from a cgroup path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    /// The path; of several, that of the container or unit.
    pub cgroup: String,
    /// All 64 digits, as in runtimes and Kubernetes; for LXC the name, for BuildKit the step id.
    pub container_id: Option<String>,
    /// The systemd unit; `None` in a container, except LXC.
    pub unit: Option<String>,
    /// For Kubernetes.
    pub pod_uid: Option<String>,
}

/// Digits of a container id.
const ID_LEN: usize = 64;

/// Characters of a BuildKit step id, and its parent folder.
const STEP_LEN: usize = 25;
const BUILDKIT: &str = "buildkit";

/// Separator of the systemd driver's slice, prefix and name when another driver used them as a single name:
/// `kubepods-pod<uid>.slice:cri-containerd:<id>`.
const SEPARATOR: char = ':';

impl Origin {
    /// Parses `/proc/PID/cgroup`: a line for each hierarchy. Containers are found in any of them.
    pub(crate) fn parse(text: &str) -> Self {
        let path = |line: &str| Some(line.splitn(3, ':').nth(2)?.to_owned());
        let origins = || text.lines().filter_map(path).map(|path| Self::of_path(&path));
        origins()
            .find(|origin| origin.container_id.is_some())
            .or_else(|| origins().find(|origin| origin.unit.is_some()))
            .or_else(|| origins().next_back())
            .unwrap_or_default()
    }

    /// Whether nothing is known.
    pub(crate) fn is_unknown(&self) -> bool {
        self.container_id.is_none() && self.unit.is_none() && self.cgroup.len() <= 1
    }

    /// Parses one path. The innermost container or unit counts: a runtime is a unit itself.
    pub(crate) fn of_path(path: &str) -> Self {
        // In a cgroup namespace, outer paths begin with parent folders.
        let path = path.trim_start_matches("/..").trim_end_matches(" (deleted)");
        let mut origin = Self { cgroup: path.to_owned(), ..Self::default() };
        let mut outer = path.split('/').rev().skip(1);
        for part in path.split('/').rev() {
            let outer = outer.next().unwrap_or_default();
            if origin.container_id.is_none() {
                origin.container_id = container_id(part, outer);
            }
            if origin.pod_uid.is_none() {
                origin.pod_uid = part.split(SEPARATOR).find_map(pod_uid);
            }
            // The unit outside a container is the one that started it.
            let is_inner = origin.unit.is_none() && origin.container_id.is_none();
            if is_inner && part.ends_with(".service") {
                origin.unit = Some(part.to_owned());
            }
        }
        // Only LXC containers are machines with their own services.
        if origin.container_id.as_deref().is_some_and(|id| is_id(id) || is_step(id)) {
            origin.unit = None;
        }
        origin
    }

    /// Human-readable name if there is no better one: the unit without its suffix, the first digits of the
    /// container id, or the container's name. The manager of a user's units does not count as a service: it covers
    /// everything that the user runs.
    pub(crate) fn name(&self) -> Option<String> {
        let unit = self.unit.as_ref().filter(|unit| !unit.starts_with("user@"));
        let unit = unit.map(|unit| unit.trim_end_matches(".service").to_owned());
        unit.or_else(|| match self.container_id.as_deref()? {
            id if is_id(id) => Some(id.chars().take(12).collect()),
            id if is_step(id) && self.cgroup.contains(BUILDKIT) => Some(BUILDKIT.to_owned()),
            name => Some(name.to_owned()),
        })
    }
}

/// Detects a container by a folder and its parent: `docker-<id>.scope` and similar, `libpod-payload-<id>`, `<id>`;
/// `lxc.payload.NAME`, `lxc/NAME`; `buildkit/<step>`.
fn container_id(part: &str, outer: &str) -> Option<String> {
    let is_lxc = |name: &&str| !name.is_empty() && outer == "lxc";
    let plain = part.strip_suffix(".scope").unwrap_or(part);
    let (before, id) = plain.rsplit_once(['-', SEPARATOR]).unwrap_or(("", plain));
    // A container's monitor is not part of it.
    let id = Some(id).filter(|id| is_id(id) && !before.ends_with("conmon"));
    let id = id.or_else(|| part.strip_prefix("lxc.payload.").or(Some(part).filter(is_lxc)));
    id.or(Some(part).filter(|step| outer == BUILDKIT && is_step(step))).map(str::to_owned)
}

fn is_id(text: &str) -> bool {
    text.len() == ID_LEN && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_step(text: &str) -> bool {
    text.len() == STEP_LEN && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// `pod<uid>`, or with the systemd driver `kubepods-burstable-pod<uid>.slice`, with `_` for `-`. On a node that is
/// itself a container, with another folder's name before it.
fn pod_uid(part: &str) -> Option<String> {
    let part = part.strip_suffix(".slice").unwrap_or(part);
    let (before, uid) = part.rsplit_once("pod")?;
    let is_pod = before.is_empty() || before.contains("kubepods");
    let uid = uid.replace('_', "-");
    let is_uid =
        uid.len() >= 32 && uid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    (is_pod && is_uid).then_some(uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_runtimes() {
        let id = "0123456789abcdef".repeat(4);
        let uid = "8f3c2a10-1d2e-4f5a-9b8c-7d6e5f4a3b2c";
        let check = |path: &str, expected: (Option<&str>, Option<&str>, Option<&str>)| {
            let path = path.replace("UID_", &uid.replace('-', "_")).replace("UID", uid);
            let path = path.replace("ID", &id);
            let origin = Origin::parse(&format!("0::{path}\n"));
            let found =
                (origin.container_id.as_deref(), origin.unit.as_deref(), origin.pod_uid.as_deref());
            assert_eq!(found, expected, "{path}");
        };
        let container = Some(id.as_str());
        check("/system.slice/docker-ID.scope", (container, None, None));
        check("/docker/ID", (container, None, None));
        check("/machine.slice/libpod-ID.scope/container", (container, None, None));
        check("/system.slice/containerd.service/kubepods-x/ID", (container, None, None));
        check("/system.slice/nginx.service", (None, Some("nginx.service"), None));
        check("/system.slice/nginx.service/worker", (None, Some("nginx.service"), None));
        check("/user.slice/user-1000.slice/session-2.scope", (None, None, None));
        check("/", (None, None, None));
        check("", (None, None, None));
        check("/docker/0123", (None, None, None));
        check("/../../system.slice/docker-ID.scope", (container, None, None));
        check("/system.slice/docker-ID.scope (deleted)", (container, None, None));
        check("/machine.slice/libpod-conmon-ID.scope", (None, None, None));
        check("/system.slice/web.service/libpod-payload-ID", (container, None, None));
        check("/user.slice/user@1000.service/user.slice/nerdctl-ID.scope", (container, None, None));
        check("/system.slice:docker:ID", (container, None, None));
        let (burstable, pod) = ("kubepods-burstable-podUID_.slice", Some(uid));
        let mismatch = format!("/system.slice/containerd.service/{burstable}:cri-containerd:ID");
        check(&mismatch, (container, None, pod));
        check("/kubepods-podUID.slice:crio:ID", (container, None, pod));
        check(
            "/lxc.payload.web-1/system.slice/nginx.service",
            (Some("web-1"), Some("nginx.service"), None),
        );
        check("/lxc/web/init.scope", (Some("web"), None, None));
        check("/lxc.monitor.web", (None, None, None));
        let step = "tl3bnm7dqdv1cm5fwz2fqsrka";
        check(&format!("/docker/buildkit/{step}"), (Some(step), None, None));
        check("/buildkit/x", (None, None, None));
        check("/a/dbus-:1.3-b@0.service", (None, Some("dbus-:1.3-b@0.service"), None));
    }

    #[test]
    fn pods_of_kubernetes() {
        let id = "fedcba9876543210".repeat(4);
        let uid = "8f3c2a10-1d2e-4f5a-9b8c-7d6e5f4a3b2c";
        let check = |path: String| {
            let origin = Origin::parse(&format!("12:memory:/other\n0::{path}"));
            assert_eq!(
                (origin.container_id, origin.pod_uid),
                (Some(id.clone()), Some(uid.to_owned()))
            );
        };
        let escaped = uid.replace('-', "_");
        check(format!(
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{escaped}.slice/cri-containerd-{id}.scope"
        ));
        check(format!("/kubepods/besteffort/pod{uid}/{id}"));
        check(format!("/kubepods.slice/kubepods-pod{escaped}.slice/crio-{id}.scope"));
        // kind.
        let node = format!("/docker/{}/kubelet.slice", "0".repeat(64));
        check(format!("{node}/kubelet-kubepods-pod{escaped}.slice/cri-containerd-{id}.scope"));
    }

    #[test]
    fn names_for_people() {
        let unit = Origin::parse("0::/system.slice/postgresql@15-main.service");
        assert_eq!(unit.name().as_deref(), Some("postgresql@15-main"));
        let container = Origin::parse(&format!("4:cpu:/docker/{}", "ab".repeat(32)));
        assert_eq!(container.name().as_deref(), Some("abababababab"));
        assert_eq!(Origin::parse("nonsense").name(), None);
        let name = |path: &str| Origin::parse(&format!("0::{path}")).name();
        assert_eq!(name("/lxc.payload.web-1").as_deref(), Some("web-1"));
        let step = "tl3bnm7dqdv1cm5fwz2fqsrka";
        assert_eq!(name(&format!("/buildkit/{step}")).as_deref(), Some("buildkit"));
        let user = "/user.slice/user-1000.slice/user@1000.service/app.slice";
        assert_eq!(name(&format!("{user}/app-firefox-1.scope")), None);
        assert_eq!(name(&format!("{user}/syncthing.service")).as_deref(), Some("syncthing"));
    }

    #[test]
    fn the_path_is_that_of_what_was_found() {
        let check = |text: &str, expected: &str| assert_eq!(Origin::parse(text).cgroup, expected);
        check(
            "12:memory:/other\n1:name=systemd:/system.slice/a.service\n0::/",
            "/system.slice/a.service",
        );
        check("12:memory:/other\n0::/apps/web", "/apps/web");
        check("0::/../../apps/web", "/apps/web");
        check("", "");
    }
}
