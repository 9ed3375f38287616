//! Types of programs: their numbers, names, and which of them `BPF_PROG_TEST_RUN` can run.

use std::fmt;

/// A type of program (`enum bpf_prog_type`, include/uapi/linux/bpf.h, Linux 6.18).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProgramType(pub u32);

/// Names by number, as bpftool writes them.
const NAMES: [&str; 33] = [
    "unspec",
    "socket_filter",
    "kprobe",
    "sched_cls",
    "sched_act",
    "tracepoint",
    "xdp",
    "perf_event",
    "cgroup_skb",
    "cgroup_sock",
    "lwt_in",
    "lwt_out",
    "lwt_xmit",
    "sock_ops",
    "sk_skb",
    "cgroup_device",
    "sk_msg",
    "raw_tracepoint",
    "cgroup_sock_addr",
    "lwt_seg6local",
    "lirc_mode2",
    "sk_reuseport",
    "flow_dissector",
    "cgroup_sysctl",
    "raw_tracepoint_writable",
    "cgroup_sockopt",
    "tracing",
    "struct_ops",
    "ext",
    "lsm",
    "sk_lookup",
    "syscall",
    "netfilter",
];

impl ProgramType {
    pub const SOCKET_FILTER: Self = Self(1);
    pub const KPROBE: Self = Self(2);
    pub const SCHED_CLS: Self = Self(3);
    pub const SCHED_ACT: Self = Self(4);
    pub const TRACEPOINT: Self = Self(5);
    pub const XDP: Self = Self(6);
    pub const PERF_EVENT: Self = Self(7);
    pub const CGROUP_SKB: Self = Self(8);
    pub const CGROUP_SOCK: Self = Self(9);
    pub const LWT_IN: Self = Self(10);
    pub const LWT_OUT: Self = Self(11);
    pub const LWT_XMIT: Self = Self(12);
    pub const SOCK_OPS: Self = Self(13);
    pub const SK_SKB: Self = Self(14);
    pub const CGROUP_DEVICE: Self = Self(15);
    pub const SK_MSG: Self = Self(16);
    pub const RAW_TRACEPOINT: Self = Self(17);
    pub const CGROUP_SOCK_ADDR: Self = Self(18);
    pub const LWT_SEG6LOCAL: Self = Self(19);
    pub const LIRC_MODE2: Self = Self(20);
    pub const SK_REUSEPORT: Self = Self(21);
    pub const FLOW_DISSECTOR: Self = Self(22);
    pub const CGROUP_SYSCTL: Self = Self(23);
    pub const RAW_TRACEPOINT_WRITABLE: Self = Self(24);
    pub const CGROUP_SOCKOPT: Self = Self(25);
    pub const TRACING: Self = Self(26);
    pub const STRUCT_OPS: Self = Self(27);
    pub const EXT: Self = Self(28);
    pub const LSM: Self = Self(29);
    pub const SK_LOOKUP: Self = Self(30);
    pub const SYSCALL: Self = Self(31);
    pub const NETFILTER: Self = Self(32);
}

/// How `BPF_PROG_TEST_RUN` runs a type (net/bpf/test_run.c, Linux 6.18).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TestRunRules {
    /// Whether it takes packet bytes.
    pub takes_data: bool,
    /// Fewest bytes of packet that it accepts, see also [`ProgramType::data_len_min`].
    pub data_len_min: usize,
    /// Whether the packet begins with its IP header, instead of an Ethernet header.
    pub begins_with_ip: bool,
    /// Whether it repeats the run and tells the mean time. Otherwise one call is one run, and its time
    /// is that of the system call.
    pub repeats: bool,
    /// Whether each call with more than one run costs two grace periods of RCU: the kernel puts the
    /// program into the XDP dispatcher and takes it out again (`bpf_prog_change_xdp`).
    pub swaps_dispatcher: bool,
    /// Whether the packet, as the program left it, comes back.
    pub gives_data: bool,
}

/// Bytes of an Ethernet header, and of the IP headers.
const ETHERNET_LEN: usize = 14;
const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;

/// Bytes of `struct bpf_sk_lookup` (include/uapi/linux/bpf.h, Linux 6.18).
const SK_LOOKUP_LEN: usize = 72;

impl ProgramType {
    /// The kernel's name in lower case, as bpftool writes it; `type 99` for one that is not known.
    pub fn name(self) -> String {
        NAMES.get(self.0 as usize).map_or_else(|| self.to_string(), |&name| name.to_owned())
    }

    /// How it is run; `None` for types that only the event itself can run.
    pub fn test_run(self) -> Option<TestRunRules> {
        let packets = TestRunRules {
            takes_data: true,
            data_len_min: ETHERNET_LEN,
            begins_with_ip: false,
            repeats: true,
            swaps_dispatcher: false,
            gives_data: true,
        };
        let no_packets =
            TestRunRules { takes_data: false, gives_data: false, data_len_min: 0, ..packets };
        match self {
            Self::XDP => Some(TestRunRules { swaps_dispatcher: true, ..packets }),
            kind if kind.takes_socket_buffers() => Some(packets),
            // As if it were sent by this machine, before it has an Ethernet header.
            Self::NETFILTER => Some(TestRunRules {
                data_len_min: IPV4_LEN,
                begins_with_ip: true,
                gives_data: false,
                ..packets
            }),
            // What comes back are the flow's keys.
            Self::FLOW_DISSECTOR => Some(TestRunRules { gives_data: false, ..packets }),
            Self::SK_LOOKUP => Some(no_packets),
            Self::SYSCALL | Self::RAW_TRACEPOINT => {
                Some(TestRunRules { repeats: false, ..no_packets })
            }
            _ => None,
        }
    }

    /// Fewest bytes that the kernel accepts of a packet that begins with `data`: one that says to be IP
    /// must have an IP header, where the kernel makes a socket buffer of it
    /// (`bpf_prog_test_run_skb`, net/bpf/test_run.c, Linux 6.18).
    pub fn data_len_min(self, data: &[u8]) -> usize {
        let least = self.test_run().map_or(0, |rules| rules.data_len_min);
        match data.get(12..ETHERNET_LEN) {
            Some([0x08, 0x00]) if self.takes_socket_buffers() => least + IPV4_LEN,
            Some([0x86, 0xdd]) if self.takes_socket_buffers() => least + IPV6_LEN,
            _ => least,
        }
    }

    /// A context for types that do not run without one; empty for others. A socket is looked up for a
    /// TCP connection over IPv4 from 127.0.0.1, port 40000, to 127.0.0.1, port 8080.
    pub fn default_context(self) -> Vec<u8> {
        if self != Self::SK_LOOKUP {
            return Vec::new();
        }
        const LOCALHOST: [u8; 4] = [127, 0, 0, 1];
        let (family, protocol) = (2_u32.to_ne_bytes(), 6_u32.to_ne_bytes());
        let (remote_port, local_port) = (40_000_u16.to_be_bytes(), 8080_u32.to_ne_bytes());
        let fields: [(usize, &[u8]); 6] = [
            (8, &family),
            (12, &protocol),
            (16, &LOCALHOST),
            (36, &remote_port),
            (40, &LOCALHOST),
            (60, &local_port),
        ];
        let mut context = vec![0; SK_LOOKUP_LEN];
        for (at, bytes) in fields {
            context[at..at + bytes.len()].copy_from_slice(bytes);
        }
        context
    }

    /// Types whose context is a socket buffer, for running on demand.
    fn takes_socket_buffers(self) -> bool {
        matches!(
            self,
            Self::SOCKET_FILTER
                | Self::SCHED_CLS
                | Self::SCHED_ACT
                | Self::CGROUP_SKB
                | Self::LWT_IN
                | Self::LWT_OUT
                | Self::LWT_XMIT
        )
    }
}

impl fmt::Display for ProgramType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.get(self.0 as usize) {
            Some(name) => f.pad(name),
            None => f.pad(&format!("type {}", self.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let check = |r#type: ProgramType, expected| assert_eq!(r#type.to_string(), expected);
        check(ProgramType::XDP, "xdp");
        check(ProgramType::NETFILTER, "netfilter");
        check(ProgramType::SK_LOOKUP, "sk_lookup");
        check(ProgramType(99), "type 99");
    }

    #[test]
    fn packets_that_are_too_short() {
        let check = |r#type: ProgramType, ethertype: [u8; 2], expected| {
            let packet = [&[0; 12], ethertype.as_slice()].concat();
            assert_eq!(r#type.data_len_min(&packet), expected, "{type} {ethertype:?}");
        };
        check(ProgramType::SCHED_CLS, [8, 0], 34);
        check(ProgramType::SCHED_CLS, [0x86, 0xdd], 54);
        check(ProgramType::SCHED_CLS, [8, 6], 14);
        check(ProgramType::XDP, [8, 0], 14);
        check(ProgramType::NETFILTER, [8, 0], 20);
        check(ProgramType::SYSCALL, [8, 0], 0);
        assert_eq!(ProgramType::SCHED_CLS.data_len_min(&[]), 14);
    }

    #[test]
    fn only_one_type_needs_a_context() {
        assert!(ProgramType::XDP.default_context().is_empty());
        let context = ProgramType::SK_LOOKUP.default_context();
        assert_eq!(context.len(), SK_LOOKUP_LEN);
        assert_eq!(context[36..38], [0x9c, 0x40]);
        assert_eq!(context[60..68], [0x90, 0x1f, 0, 0, 0, 0, 0, 0]);
    }
}
