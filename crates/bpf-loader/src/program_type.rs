//! Program types: numbers, names, and support by `BPF_PROG_TEST_RUN`.

/// Defines a type with a constant for each number. Displays like bpftool: the kernel's name in
/// lower case, `type 99` for unknown numbers.
macro_rules! kernel_numbers {
    ($(#[$doc:meta])* $name:ident { $($number:literal = $constant:ident $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            $(pub const $constant: Self = Self($number);)*
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.0 {
                    $($number => f.pad($text),)*
                    other => f.pad(&format!("type {other}")),
                }
            }
        }
    };
}

pub(crate) use kernel_numbers;

kernel_numbers! {
    /// A program type (`enum bpf_prog_type`, include/uapi/linux/bpf.h, Linux 6.18).
    ProgramType {
        0 = UNSPEC "unspec",
        1 = SOCKET_FILTER "socket_filter",
        2 = KPROBE "kprobe",
        3 = SCHED_CLS "sched_cls",
        4 = SCHED_ACT "sched_act",
        5 = TRACEPOINT "tracepoint",
        6 = XDP "xdp",
        7 = PERF_EVENT "perf_event",
        8 = CGROUP_SKB "cgroup_skb",
        9 = CGROUP_SOCK "cgroup_sock",
        10 = LWT_IN "lwt_in",
        11 = LWT_OUT "lwt_out",
        12 = LWT_XMIT "lwt_xmit",
        13 = SOCK_OPS "sock_ops",
        14 = SK_SKB "sk_skb",
        15 = CGROUP_DEVICE "cgroup_device",
        16 = SK_MSG "sk_msg",
        17 = RAW_TRACEPOINT "raw_tracepoint",
        18 = CGROUP_SOCK_ADDR "cgroup_sock_addr",
        19 = LWT_SEG6LOCAL "lwt_seg6local",
        20 = LIRC_MODE2 "lirc_mode2",
        21 = SK_REUSEPORT "sk_reuseport",
        22 = FLOW_DISSECTOR "flow_dissector",
        23 = CGROUP_SYSCTL "cgroup_sysctl",
        24 = RAW_TRACEPOINT_WRITABLE "raw_tracepoint_writable",
        25 = CGROUP_SOCKOPT "cgroup_sockopt",
        26 = TRACING "tracing",
        27 = STRUCT_OPS "struct_ops",
        28 = EXT "ext",
        29 = LSM "lsm",
        30 = SK_LOOKUP "sk_lookup",
        31 = SYSCALL "syscall",
        32 = NETFILTER "netfilter",
    }
}

/// How `BPF_PROG_TEST_RUN` runs a type (net/bpf/test_run.c, Linux 6.18).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TestRunRules {
    /// Whether it takes packet bytes.
    pub takes_data: bool,
    /// Minimum size of a packet in bytes, see also [`ProgramType::data_len_min`].
    pub data_len_min: usize,
    /// Whether the packet begins with its IP header, rather than an Ethernet header.
    pub begins_with_ip: bool,
    /// Whether it repeats the run and reports the mean time. Otherwise one call is one run, and its
    /// time is that of the system call.
    pub repeats: bool,
    /// Whether each call with more than one run costs two RCU grace periods: the kernel adds the
    /// program to the XDP dispatcher and removes it again (`bpf_prog_change_xdp`).
    pub swaps_dispatcher: bool,
    /// Whether the resulting packet is returned.
    pub gives_data: bool,
}

/// Lengths of an Ethernet header, and of the IP headers.
const ETHERNET_LEN: usize = 14;
const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;

/// Size of `struct bpf_sk_lookup` (include/uapi/linux/bpf.h, Linux 6.18).
const SK_LOOKUP_LEN: usize = 72;

impl ProgramType {
    /// The kernel's name in lower case, like bpftool; `type 99` for unknown types.
    pub fn name(self) -> String {
        self.to_string()
    }

    /// How to run it on demand; `None` for types that only an event can run.
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
            // As sent by this machine, before it has an Ethernet header.
            Self::NETFILTER => Some(TestRunRules {
                data_len_min: IPV4_LEN,
                begins_with_ip: true,
                gives_data: false,
                ..packets
            }),
            // The result is the flow's keys, not a packet.
            Self::FLOW_DISSECTOR => Some(TestRunRules { gives_data: false, ..packets }),
            Self::SK_LOOKUP => Some(no_packets),
            Self::SYSCALL | Self::RAW_TRACEPOINT => {
                Some(TestRunRules { repeats: false, ..no_packets })
            }
            _ => None,
        }
    }

    /// Minimum size of a packet that begins with `data`: if it claims to be IP it must have an IP
    /// header, where the kernel makes a socket buffer of it (`bpf_prog_test_run_skb`,
    /// net/bpf/test_run.c, Linux 6.18).
    pub fn data_len_min(self, data: &[u8]) -> usize {
        let least = self.test_run().map_or(0, |rules| rules.data_len_min);
        match data.get(12..ETHERNET_LEN) {
            Some([0x08, 0x00]) if self.takes_socket_buffers() => least + IPV4_LEN,
            Some([0x86, 0xdd]) if self.takes_socket_buffers() => least + IPV6_LEN,
            _ => least,
        }
    }

    /// A context for types that require one; empty for others. The socket lookup is for a TCP
    /// connection over IPv4 from 127.0.0.1, port 40000, to 127.0.0.1, port 8080.
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

    /// Types whose test-run context is a socket buffer.
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
