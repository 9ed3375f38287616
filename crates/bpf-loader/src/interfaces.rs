//! Programs attached to network interfaces by netlink, the older mechanism without links: XDP (`ip
//! link set dev X xdp …`) and tc filters (`tc filter add dev X ingress bpf …`).
//!
//! Covers the interfaces of this process's network namespace. For tc it covers ingress and egress
//! (qdiscs `clsact` and `ingress`), but not filters of other qdiscs, and not actions (`act_bpf`).

mod netlink;

use std::{collections::BTreeSet, fmt, io};

use netlink::{Attribute, Message, attributes, dump};

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
pub fn attached() -> io::Result<Vec<Attached>> {
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

#[cfg(test)]
mod tests {
    use super::{netlink::tests::attribute, *};

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
        attached().expect("interfaces");
        let is_loopback = |message: &Message| {
            Interface::read(message).is_some_and(|it| (it.number, &*it.name) == (1, "lo"))
        };
        assert!(dump(RTM_GETLINK, &[0; LINK_LEN]).expect("interfaces").iter().any(is_loopback));
    }
}
