//! Links, which attach programs since Linux 5.7. Older mechanisms (tc filters, XDP by netlink,
//! cgroups and sockets without a link) are not listed here.

use std::{fmt, io, os::fd::AsFd as _};

use rustix::net::{AddressFamily, SocketType, netdevice::index_to_name, socket};

use crate::sys::{self, LoadedObject};

/// Names of link types by number (`enum bpf_link_type`, include/uapi/linux/bpf.h, Linux 6.18), in bpftool's spelling.
const NAMES: [&str; 15] = [
    "unspec",
    "raw_tracepoint",
    "tracing",
    "cgroup",
    "iter",
    "netns",
    "xdp",
    "perf_event",
    "kprobe_multi",
    "struct_ops",
    "netfilter",
    "tcx",
    "uprobe_multi",
    "netkit",
    "sockmap",
];

/// Types that attach to a network interface; their details begin with its number.
const OF_INTERFACES: [u32; 3] = [6, 11, 13];

/// Maximum number of links read. A kernel has some thousand at most.
const LINKS_MAX: usize = 1 << 20;

/// One link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    pub id: u32,
    pub program_id: u32,
    pub kind: u32,
    /// Number of its network interface, in any network namespace; `None` for other types, and if the interface is gone.
    pub interface: Option<u32>,
}

impl Link {
    /// Name of its type; `link type 99` for unknown types.
    pub fn kind_name(&self) -> String {
        let known = usize::try_from(self.kind).ok().and_then(|kind| NAMES.get(kind));
        known.map_or_else(|| format!("link type {}", self.kind), |&name| name.to_owned())
    }
}

/// `xdp on interface 3 (eth0 here)`. A link does not identify the network namespace of its
/// interface, so the name is that of this number in our own namespace.
impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind_name())?;
        let Some(number) = self.interface else { return Ok(()) };
        write!(f, " on interface {number}")?;
        interface_name(number).map_or(Ok(()), |name| write!(f, " ({name} here)"))
    }
}

/// All links. May miss links that come and go meanwhile. Fails with `PermissionDenied` without
/// `CAP_SYS_ADMIN`; `InvalidInput` before Linux 5.8.
pub fn all() -> io::Result<Vec<Link>> {
    let mut links = Vec::new();
    for id in sys::ids(LoadedObject::LINK).take(LINKS_MAX) {
        // It may be gone.
        let link = sys::open_id(LoadedObject::LINK, id?);
        let Ok(info) = link.and_then(|link| sys::link_info(link.as_fd())) else { continue };
        let interface = OF_INTERFACES.contains(&info.r#type).then_some(info.details[0]);
        links.push(Link {
            id: info.id,
            program_id: info.prog_id,
            kind: info.r#type,
            interface: interface.filter(|&number| number != 0),
        });
    }
    Ok(links)
}

/// Name of network interface `number` in our network namespace.
fn interface_name(number: u32) -> Option<String> {
    let any = socket(AddressFamily::INET, SocketType::DGRAM, None).ok()?;
    index_to_name(any, number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        let check = |kind, interface, expected: &str| {
            let link = Link { id: 1, program_id: 2, kind, interface };
            assert_eq!(link.to_string(), expected);
        };
        // The loopback interface is number 1 in every network namespace.
        check(6, Some(1), "xdp on interface 1 (lo here)");
        check(11, Some(4_000_000), "tcx on interface 4000000");
        check(6, None, "xdp");
        check(3, None, "cgroup");
        check(99, None, "link type 99");
    }

    #[test]
    fn listing_needs_rights_only() {
        if let Err(error) = all() {
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
        }
    }
}
