//! Which container or unit a process belongs to, by the path of its control group.

/// What the path of a control group tells.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    /// The path that tells it; of several, that of the container or unit.
    pub cgroup: String,
    /// All 64 digits, as runtimes and Kubernetes have them.
    pub container_id: Option<String>,
    /// The unit of systemd; none in a container.
    pub unit: Option<String>,
    /// Of Kubernetes.
    pub pod_uid: Option<String>,
}

/// What runtimes put before the id of a container, with the systemd driver: `docker-<id>.scope`.
const PREFIXES: [&str; 5] = ["docker-", "cri-containerd-", "crio-", "libpod-", "containerd-"];

/// Digits of a container's id.
const ID_LEN: usize = 64;

impl Origin {
    /// By the text of `/proc/PID/cgroup`: a line of each hierarchy. Containers are found in any of them.
    pub(crate) fn parse(text: &str) -> Self {
        let path = |line: &str| Some(line.splitn(3, ':').nth(2)?.to_owned());
        let origins = || text.lines().filter_map(path).map(|path| Self::of_path(&path));
        origins()
            .find(|origin| origin.container_id.is_some())
            .or_else(|| origins().find(|origin| origin.unit.is_some()))
            .or_else(|| origins().next_back())
            .unwrap_or_default()
    }

    /// By one path. The innermost container or unit counts: a runtime is a unit itself.
    fn of_path(path: &str) -> Self {
        // In a namespace of control groups, what lies outside is reached by its parents.
        let path = path.trim_start_matches("/..");
        let mut origin = Self { cgroup: path.to_owned(), ..Self::default() };
        for part in path.split('/').rev() {
            if origin.container_id.is_none() {
                origin.container_id = container_id(part);
            }
            if origin.pod_uid.is_none() {
                origin.pod_uid = pod_uid(part);
            }
            if origin.unit.is_none() && part.ends_with(".service") {
                origin.unit = Some(part.to_owned());
            }
        }
        if origin.container_id.is_some() {
            origin.unit = None;
        }
        origin
    }

    /// What a person calls it, if nobody tells more: the unit without its suffix, or the first digits of the container.
    pub(crate) fn name(&self) -> Option<String> {
        let short = |id: &String| id.chars().take(12).collect();
        let unit = self.unit.as_ref().map(|unit| unit.trim_end_matches(".service").to_owned());
        unit.or_else(|| self.container_id.as_ref().map(short))
    }
}

fn container_id(part: &str) -> Option<String> {
    let part = part.strip_suffix(".scope").unwrap_or(part);
    let id = PREFIXES.iter().find_map(|prefix| part.strip_prefix(prefix)).unwrap_or(part);
    let is_id = id.len() == ID_LEN && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| id.to_owned())
}

/// `pod<uid>`, or with the systemd driver `kubepods-burstable-pod<uid>.slice`, in which `_` stands for `-`.
fn pod_uid(part: &str) -> Option<String> {
    let part = part.strip_suffix(".slice").unwrap_or(part);
    let (before, uid) = part.rsplit_once("pod")?;
    let is_pod = before.is_empty() || before.starts_with("kubepods");
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
            let path = path.replace("ID", &id).replace("UID_", &uid.replace('-', "_"));
            let origin = Origin::parse(&format!("0::{}\n", path.replace("UID", uid)));
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
    }

    #[test]
    fn names_for_people() {
        let unit = Origin::parse("0::/system.slice/postgresql@15-main.service");
        assert_eq!(unit.name().as_deref(), Some("postgresql@15-main"));
        let container = Origin::parse(&format!("4:cpu:/docker/{}", "ab".repeat(32)));
        assert_eq!(container.name().as_deref(), Some("abababababab"));
        assert_eq!(Origin::parse("nonsense").name(), None);
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
