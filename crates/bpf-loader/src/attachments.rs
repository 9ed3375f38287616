//! Where loaded programs are attached: by links, and to network interfaces by netlink, the older mechanism: XDP (`ip
//! link set dev X xdp …`) and tc filters (`tc filter add dev X ingress bpf …`).
//!
//! Netlink covers the interfaces of this process's network namespace. For tc it covers ingress and egress
//! (qdiscs `clsact` and `ingress`), but not filters of other qdiscs, and not actions (`act_bpf`).

use std::{collections::BTreeSet, fmt, io, os::fd::AsFd as _};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketType, netdevice::index_to_name, recv, send, socket,
};

use crate::sys::{self, LoadedObject};

/// Numbers of requests and replies (include/uapi/linux/rtnetlink.h, Linux 6.18).
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWTFILTER: u16 = 44;
const RTM_GETTFILTER: u16 = 46;

/// Lengths of `struct ifinfomsg` and `struct tcmsg`, in bytes.
const LINK_LEN: usize = 16;
const FILTER_LEN: usize = 20;

/// Interface attributes (include/uapi/linux/if_link.h, Linux 6.18): name; XDP programs, and nested
/// in these the ids of a single program, and of those of driver, kernel and hardware.
const IFLA_IFNAME: u16 = 3;
const IFLA_XDP: u16 = 43;
const XDP_PROGRAM_IDS: std::ops::RangeInclusive<u16> = 4..=7;

/// Filter attributes (include/uapi/linux/rtnetlink.h and pkt_cls.h, Linux 6.18).
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_BPF_ID: u16 = 11;

/// Parents of filters that see every packet: `TC_H_CLSACT` with `TC_H_MIN_INGRESS` and
/// `TC_H_MIN_EGRESS` (include/uapi/linux/pkt_sched.h, Linux 6.18).
const PARENTS: [u32; 2] = [0xffff_fff2, 0xffff_fff3];

/// Maximum number of interfaces whose filters are read.
const INTERFACES_MAX: usize = 4096;

/// A program attached to an interface.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attached {
    pub program_id: u32,
    pub interface: u32,
    pub name: String,
    pub by: By,
}

/// Kind of attachment to an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum By {
    /// XDP; programs attached by a link appear here too and cannot be distinguished.
    Xdp,
    Filter,
}

/// `xdp on interface 3 (eth0)`, in the format of links.
impl fmt::Display for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = match self.by {
            By::Xdp => "xdp",
            By::Filter => "tc filter",
        };
        write!(f, "{by} on interface {} ({})", self.interface, self.name)
    }
}

/// All programs attached by netlink to interfaces of this network namespace. Needs no privileges.
pub fn by_netlink() -> io::Result<Vec<Attached>> {
    let mut found = BTreeSet::new();
    let mut interfaces = Vec::new();
    for message in dump(RTM_GETLINK, &[0; LINK_LEN])? {
        if let Some(interface) = Interface::read(&message) {
            found.extend(interface.programs());
            interfaces.push(interface);
        }
    }
    for interface in interfaces.iter().take(INTERFACES_MAX) {
        for parent in PARENTS {
            // An interface may have disappeared, and a kernel may lack tc.
            let answer = dump(RTM_GETTFILTER, &filter_request(interface.number, parent));
            let ids = answer.iter().flatten().filter_map(filter_program);
            found.extend(ids.map(|program_id| interface.runs(program_id, By::Filter)));
        }
    }
    Ok(found.into_iter().collect())
}

struct Interface {
    number: u32,
    name: String,
    xdp: Vec<u32>,
}

impl Interface {
    fn read(message: &Message) -> Option<Self> {
        let header = message.body.get(..LINK_LEN).filter(|_| message.kind == RTM_NEWLINK)?;
        let number = header.get(4..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))?;
        let mut interface = Self { number, name: String::new(), xdp: Vec::new() };
        for attribute in attributes(message.body.get(LINK_LEN..)?) {
            match attribute.kind {
                IFLA_IFNAME => interface.name = attribute.text(),
                IFLA_XDP => {
                    let ids = attributes(attribute.value);
                    let ids = ids.filter(|id| XDP_PROGRAM_IDS.contains(&id.kind));
                    interface.xdp.extend(ids.filter_map(|id| id.number()));
                }
                _ => {}
            }
        }
        Some(interface)
    }

    fn programs(&self) -> impl Iterator<Item = Attached> {
        self.xdp.iter().map(|&program_id| self.runs(program_id, By::Xdp))
    }

    fn runs(&self, program_id: u32, by: By) -> Attached {
        Attached { program_id, interface: self.number, name: self.name.clone(), by }
    }
}

/// A `struct tcmsg` that requests the filters of one parent.
fn filter_request(interface: u32, parent: u32) -> [u8; FILTER_LEN] {
    let mut request = [0; FILTER_LEN];
    request[4..8].copy_from_slice(&interface.to_ne_bytes());
    request[12..16].copy_from_slice(&parent.to_ne_bytes());
    request
}

/// Program id of a filter, if it is an eBPF filter.
fn filter_program(message: &Message) -> Option<u32> {
    let body = message.body.get(FILTER_LEN..).filter(|_| message.kind == RTM_NEWTFILTER)?;
    let find = |kind| attributes(body).find(|attribute: &Attribute<'_>| attribute.kind == kind);
    find(TCA_KIND).filter(|kind| kind.text() == "bpf")?;
    let mut options = attributes(find(TCA_OPTIONS)?.value);
    options.find(|option| option.kind == TCA_BPF_ID)?.number()
}

// Netlink requests, and parsing of the replies (include/uapi/linux/netlink.h, Linux 6.18).

/// Lengths of `struct nlmsghdr` and `struct nlattr`, in bytes; the data after both is aligned to four.
const HEADER_LEN: usize = 16;
const ATTRIBUTE_LEN: usize = 4;
const ALIGNMENT: usize = 4;

/// `NLM_F_REQUEST | NLM_F_DUMP`.
const DUMP: u16 = 0x301;

/// `NLMSG_ERROR` and `NLMSG_DONE`.
const ERROR: u16 = 2;
const DONE: u16 = 3;

/// The upper bits of an attribute's type are flags about its encoding (`NLA_TYPE_MASK`).
const ATTRIBUTE_MASK: u16 = 0x3fff;

/// Buffer for a part of a reply, in bytes: the kernel's parts are at most half of it.
const PART_LEN: usize = 64 << 10;

/// Maximum number of parts of a reply, in case the end never comes.
const PARTS_MAX: usize = 1 << 16;

/// A message without its header.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Message {
    kind: u16,
    body: Vec<u8>,
}

/// Dumps all objects of a kind.
fn dump(kind: u16, body: &[u8]) -> io::Result<Vec<Message>> {
    // Protocol 0 is NETLINK_ROUTE: routes, interfaces and filters.
    let kernel = socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    send(&kernel, &request(kind, body), SendFlags::empty())?;
    let mut part = vec![0; PART_LEN];
    let mut found = Vec::new();
    for _ in 0..PARTS_MAX {
        let (len, _) = recv(&kernel, part.as_mut_slice(), RecvFlags::empty())?;
        for message in messages(part.get(..len).unwrap_or(&[])) {
            match message.kind {
                DONE => return Ok(found),
                ERROR => return Err(error(&message.body)),
                _ => found.push(message),
            }
        }
    }
    Err(io::Error::other("the kernel's answer does not end"))
}

fn request(kind: u16, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(HEADER_LEN + body.len()).unwrap_or(u32::MAX);
    let (sequence, sender) = (1_u32, 0_u32);
    let mut request = len.to_ne_bytes().to_vec();
    request.extend([kind, DUMP].into_iter().flat_map(u16::to_ne_bytes));
    request.extend([sequence, sender].into_iter().flat_map(u32::to_ne_bytes));
    request.extend(body);
    request
}

/// The kernel returns a negative error number.
fn error(body: &[u8]) -> io::Error {
    let code = body.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
    io::Error::from_raw_os_error(code.saturating_neg())
}

/// Messages in a part of a reply. Stops at a truncated one.
fn messages(mut part: &[u8]) -> impl Iterator<Item = Message> {
    std::iter::from_fn(move || {
        let len = part.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))? as usize;
        let kind = part.get(4..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))?;
        let body = part.get(HEADER_LEN..len)?.to_vec();
        part = part.get(len.next_multiple_of(ALIGNMENT)..).unwrap_or(&[]);
        Some(Message { kind, body })
    })
}

/// An attribute of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Attribute<'a> {
    kind: u16,
    value: &'a [u8],
}

impl Attribute<'_> {
    fn number(&self) -> Option<u32> {
        self.value.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
    }

    fn text(&self) -> String {
        let text = self.value.split(|&byte| byte == 0).next().unwrap_or(&[]);
        String::from_utf8_lossy(text).into_owned()
    }
}

/// The attributes after an object, or nested in an attribute.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = Attribute<'_>> {
    std::iter::from_fn(move || {
        let len = bytes.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))?;
        let kind = bytes.get(2..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))?;
        let value = bytes.get(ATTRIBUTE_LEN..usize::from(len))?;
        bytes = bytes.get(usize::from(len).next_multiple_of(ALIGNMENT)..).unwrap_or(&[]);
        Some(Attribute { kind: kind & ATTRIBUTE_MASK, value })
    })
}

// Links, which attach programs since Linux 5.7. Older mechanisms (tc filters, XDP by netlink,
// cgroups and sockets without a link) are not listed here.

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
pub fn links() -> io::Result<Vec<Link>> {
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
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn programs_of_an_interface() {
        let check = |xdp: &[(u16, u32)], expected: &[u32]| {
            let ids = xdp.iter().flat_map(|(kind, id)| attribute(*kind, &id.to_ne_bytes()));
            let ids = ids.collect::<Vec<_>>();
            let mut body = vec![0; LINK_LEN];
            body[4] = 3;
            body.extend(attribute(IFLA_IFNAME, b"eth0\0"));
            body.extend(attribute(IFLA_XDP, &ids));
            let found = Interface::read(&Message { kind: RTM_NEWLINK, body }).expect("a link");
            let found: BTreeSet<_> = found.programs().collect();
            assert!(found.iter().all(|it| it.to_string() == "xdp on interface 3 (eth0)"));
            assert_eq!(found.iter().map(|it| it.program_id).collect::<Vec<_>>(), expected);
        };
        check(&[], &[]);
        // Attached in one mode: the id appears twice. 2 is the mode, 3 the flags.
        check(&[(2, 1), (4, 77), (5, 77)], &[77]);
        check(&[(3, 9), (5, 77), (6, 78)], &[77, 78]);
    }

    #[test]
    fn the_program_of_a_filter() {
        let check = |kind: &[u8], id: &[u8], expected| {
            let mut body = vec![0; FILTER_LEN];
            body.extend(attribute(TCA_KIND, kind));
            body.extend(attribute(TCA_OPTIONS, id));
            assert_eq!(filter_program(&Message { kind: RTM_NEWTFILTER, body }), expected);
        };
        let id = attribute(TCA_BPF_ID, &5_u32.to_ne_bytes());
        check(b"bpf\0", &id, Some(5));
        check(b"flower\0", &id, None);
        check(b"bpf\0", &[], None);
        let short = Message { kind: RTM_NEWTFILTER, body: vec![0; 3] };
        assert_eq!(filter_program(&short), None);
    }

    #[test]
    fn anybody_may_ask() {
        // There may be no program, but there is always a reply.
        by_netlink().expect("interfaces");
        let is_loopback = |message: &Message| {
            Interface::read(message).is_some_and(|it| (it.number, &*it.name) == (1, "lo"))
        };
        assert!(dump(RTM_GETLINK, &[0; LINK_LEN]).expect("interfaces").iter().any(is_loopback));
    }

    /// Serializes an attribute.
    pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let len = (ATTRIBUTE_LEN + value.len()) as u16;
        let mut bytes: Vec<u8> = [len, kind].into_iter().flat_map(u16::to_ne_bytes).collect();
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
        bytes
    }

    #[test]
    fn attributes_follow_each_other() {
        let bytes = [attribute(3, b"lo\0"), attribute(1 << 15 | 43, &7_u32.to_ne_bytes())].concat();
        let found: Vec<_> = attributes(&bytes).collect();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].kind, &*found[0].text()), (3, "lo"));
        assert_eq!((found[1].kind, found[1].number()), (43, Some(7)));
        assert_eq!(attributes(&bytes[..9]).count(), 1);
    }

    #[test]
    fn messages_follow_each_other() {
        let part = [request(16, &[1, 2, 3, 4]), request(3, &[])].concat();
        let found: Vec<_> = messages(&part).collect();
        assert_eq!(found[0], Message { kind: 16, body: vec![1, 2, 3, 4] });
        assert_eq!(found[1], Message { kind: DONE, body: Vec::new() });
        assert_eq!(found.len(), 2);
        assert_eq!(messages(&part[..18]).count(), 0);
        assert_eq!(error(&(-1_i32).to_ne_bytes()).raw_os_error(), Some(libc::EPERM));
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_much(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            _ = messages(&bytes).count();
            _ = attributes(&bytes).count();
        }
    }

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
        if let Err(error) = links() {
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
        }
    }
}
