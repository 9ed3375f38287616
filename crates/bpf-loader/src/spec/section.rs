//! Derives the type of programs from the name of their section.
//!
//! Names are those of libbpf (Documentation/bpf/libbpf/program_types.rst, Linux 6.12) and of Aya
//! (`classifier`, `cgroup_skb/ingress`).

use std::{collections::BTreeSet, str::FromStr};

use super::{
    elf::{Elf, Role},
    functions::Functions,
};
use crate::program_type::ProgramType;

/// A program as defined by the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramSpec {
    pub name: String,
    /// Section that contains it, such as `xdp` or `tracepoint/sched/sched_switch`.
    pub section: String,
    /// Type.
    pub r#type: ProgramType,
    /// `enum bpf_attach_type` for the verifier; 0 if the type has just one.
    pub attach_type: u32,
    /// Flags for `BPF_PROG_LOAD`: `BPF_F_SLEEPABLE`, `BPF_F_XDP_HAS_FRAGS`.
    pub flags: u32,
    /// The attach target: a kernel function, tracepoint or hook.
    pub attachment: Option<Attachment>,
    /// Number of instructions of the entry function alone.
    pub insn_count: usize,
}

impl ProgramSpec {
    /// Whether an XDP program supports packets in several fragments.
    pub fn has_frags(&self) -> bool {
        self.flags & HAS_FRAGS != 0
    }

    /// Whether the kernel can run it on demand. It cannot run XDP programs for map entries
    /// (`bpf_prog_test_run_xdp` in net/bpf/test_run.c, Linux 6.18).
    pub fn runs_on_demand(&self) -> bool {
        let is_for_entries = matches!(self.attach_type, XDP_DEVMAP | XDP_CPUMAP);
        self.r#type.test_run().is_some() && !(self.r#type == ProgramType::XDP && is_for_entries)
    }
}

/// Attach target of a program, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attachment {
    Function(String),
    /// A tracepoint with typed arguments.
    Tracepoint(String),
    Hook(String),
    Iterator(String),
    /// A function of another BPF program, known only at load time.
    Program(String),
    /// A function in a kernel structure (struct_ops).
    Member {
        /// The structure, such as `tcp_congestion_ops`.
        structure: String,
        member: String,
    },
}

const SLEEPABLE: u32 = 1 << 4;
const HAS_FRAGS: u32 = 1 << 5;

/// `BPF_XDP_DEVMAP` and `BPF_XDP_CPUMAP`.
const XDP_DEVMAP: u32 = 33;
const XDP_CPUMAP: u32 = 35;

/// `section name (or its part before the first '/'), type, attach type, flags`.
type Row = (&'static str, ProgramType, u32, u32);

/// Section names, matched as a whole first, then up to their first slash.
const SECTIONS: &[Row] = &[
    ("socket", ProgramType::SOCKET_FILTER, 0, 0),
    ("sk_reuseport/migrate", ProgramType::SK_REUSEPORT, 40, 0),
    ("sk_reuseport", ProgramType::SK_REUSEPORT, 39, 0),
    ("kprobe", ProgramType::KPROBE, 0, 0),
    ("kprobe.multi", ProgramType::KPROBE, 42, 0),
    ("kretprobe", ProgramType::KPROBE, 0, 0),
    ("kretprobe.multi", ProgramType::KPROBE, 42, 0),
    ("kprobe.session", ProgramType::KPROBE, 56, 0),
    ("ksyscall", ProgramType::KPROBE, 0, 0),
    ("kretsyscall", ProgramType::KPROBE, 0, 0),
    ("uprobe", ProgramType::KPROBE, 0, 0),
    ("uprobe.s", ProgramType::KPROBE, 0, SLEEPABLE),
    ("uprobe.multi", ProgramType::KPROBE, 48, 0),
    ("uprobe.multi.s", ProgramType::KPROBE, 48, SLEEPABLE),
    ("uretprobe.multi", ProgramType::KPROBE, 48, 0),
    ("uretprobe.multi.s", ProgramType::KPROBE, 48, SLEEPABLE),
    ("uretprobe", ProgramType::KPROBE, 0, 0),
    ("uretprobe.s", ProgramType::KPROBE, 0, SLEEPABLE),
    ("uprobe.session", ProgramType::KPROBE, 57, 0),
    ("uprobe.session.s", ProgramType::KPROBE, 57, SLEEPABLE),
    ("usdt", ProgramType::KPROBE, 0, 0),
    ("usdt.s", ProgramType::KPROBE, 0, SLEEPABLE),
    ("tc", ProgramType::SCHED_CLS, 0, 0),
    ("tc/ingress", ProgramType::SCHED_CLS, 46, 0),
    ("tc/egress", ProgramType::SCHED_CLS, 47, 0),
    ("tcx/ingress", ProgramType::SCHED_CLS, 46, 0),
    ("tcx/egress", ProgramType::SCHED_CLS, 47, 0),
    ("netkit/primary", ProgramType::SCHED_CLS, 54, 0),
    ("netkit/peer", ProgramType::SCHED_CLS, 55, 0),
    ("classifier", ProgramType::SCHED_CLS, 0, 0),
    ("action", ProgramType::SCHED_ACT, 0, 0),
    ("tracepoint", ProgramType::TRACEPOINT, 0, 0),
    ("tp", ProgramType::TRACEPOINT, 0, 0),
    ("raw_tracepoint", ProgramType::RAW_TRACEPOINT, 0, 0),
    ("raw_tp", ProgramType::RAW_TRACEPOINT, 0, 0),
    ("raw_tracepoint.w", ProgramType::RAW_TRACEPOINT_WRITABLE, 0, 0),
    ("raw_tp.w", ProgramType::RAW_TRACEPOINT_WRITABLE, 0, 0),
    ("tp_btf", ProgramType::TRACING, 23, 0),
    ("fentry", ProgramType::TRACING, 24, 0),
    ("fentry.s", ProgramType::TRACING, 24, SLEEPABLE),
    ("fmod_ret", ProgramType::TRACING, 26, 0),
    ("fmod_ret.s", ProgramType::TRACING, 26, SLEEPABLE),
    ("fexit", ProgramType::TRACING, 25, 0),
    ("fexit.s", ProgramType::TRACING, 25, SLEEPABLE),
    ("iter", ProgramType::TRACING, 28, 0),
    ("iter.s", ProgramType::TRACING, 28, SLEEPABLE),
    ("freplace", ProgramType::EXT, 0, 0),
    ("lsm", ProgramType::LSM, 27, 0),
    ("lsm.s", ProgramType::LSM, 27, SLEEPABLE),
    ("lsm_cgroup", ProgramType::LSM, 43, 0),
    ("syscall", ProgramType::SYSCALL, 0, SLEEPABLE),
    ("xdp.frags/devmap", ProgramType::XDP, XDP_DEVMAP, HAS_FRAGS),
    ("xdp/devmap", ProgramType::XDP, XDP_DEVMAP, 0),
    ("xdp.frags/cpumap", ProgramType::XDP, XDP_CPUMAP, HAS_FRAGS),
    ("xdp/cpumap", ProgramType::XDP, XDP_CPUMAP, 0),
    ("xdp.frags", ProgramType::XDP, 37, HAS_FRAGS),
    ("xdp", ProgramType::XDP, 37, 0),
    ("perf_event", ProgramType::PERF_EVENT, 0, 0),
    ("lwt_in", ProgramType::LWT_IN, 0, 0),
    ("lwt_out", ProgramType::LWT_OUT, 0, 0),
    ("lwt_xmit", ProgramType::LWT_XMIT, 0, 0),
    ("lwt_seg6local", ProgramType::LWT_SEG6LOCAL, 0, 0),
    ("sockops", ProgramType::SOCK_OPS, 3, 0),
    ("sk_skb/stream_parser", ProgramType::SK_SKB, 4, 0),
    ("sk_skb/stream_verdict", ProgramType::SK_SKB, 5, 0),
    ("sk_skb/verdict", ProgramType::SK_SKB, 38, 0),
    ("sk_skb", ProgramType::SK_SKB, 0, 0),
    ("sk_msg", ProgramType::SK_MSG, 7, 0),
    ("lirc_mode2", ProgramType::LIRC_MODE2, 16, 0),
    ("flow_dissector", ProgramType::FLOW_DISSECTOR, 17, 0),
    ("cgroup_skb/ingress", ProgramType::CGROUP_SKB, 0, 0),
    ("cgroup_skb/egress", ProgramType::CGROUP_SKB, 1, 0),
    ("cgroup/skb", ProgramType::CGROUP_SKB, 0, 0),
    ("cgroup/sock_create", ProgramType::CGROUP_SOCK, 2, 0),
    ("cgroup/sock_release", ProgramType::CGROUP_SOCK, 34, 0),
    ("cgroup/sock", ProgramType::CGROUP_SOCK, 2, 0),
    ("cgroup/post_bind4", ProgramType::CGROUP_SOCK, 12, 0),
    ("cgroup/post_bind6", ProgramType::CGROUP_SOCK, 13, 0),
    ("cgroup/bind4", ProgramType::CGROUP_SOCK_ADDR, 8, 0),
    ("cgroup/bind6", ProgramType::CGROUP_SOCK_ADDR, 9, 0),
    ("cgroup/connect4", ProgramType::CGROUP_SOCK_ADDR, 10, 0),
    ("cgroup/connect6", ProgramType::CGROUP_SOCK_ADDR, 11, 0),
    ("cgroup/connect_unix", ProgramType::CGROUP_SOCK_ADDR, 49, 0),
    ("cgroup/sendmsg4", ProgramType::CGROUP_SOCK_ADDR, 14, 0),
    ("cgroup/sendmsg6", ProgramType::CGROUP_SOCK_ADDR, 15, 0),
    ("cgroup/sendmsg_unix", ProgramType::CGROUP_SOCK_ADDR, 50, 0),
    ("cgroup/recvmsg4", ProgramType::CGROUP_SOCK_ADDR, 19, 0),
    ("cgroup/recvmsg6", ProgramType::CGROUP_SOCK_ADDR, 20, 0),
    ("cgroup/recvmsg_unix", ProgramType::CGROUP_SOCK_ADDR, 51, 0),
    ("cgroup/getpeername4", ProgramType::CGROUP_SOCK_ADDR, 29, 0),
    ("cgroup/getpeername6", ProgramType::CGROUP_SOCK_ADDR, 30, 0),
    ("cgroup/getpeername_unix", ProgramType::CGROUP_SOCK_ADDR, 52, 0),
    ("cgroup/getsockname4", ProgramType::CGROUP_SOCK_ADDR, 31, 0),
    ("cgroup/getsockname6", ProgramType::CGROUP_SOCK_ADDR, 32, 0),
    ("cgroup/getsockname_unix", ProgramType::CGROUP_SOCK_ADDR, 53, 0),
    ("cgroup/sysctl", ProgramType::CGROUP_SYSCTL, 18, 0),
    ("cgroup/getsockopt", ProgramType::CGROUP_SOCKOPT, 21, 0),
    ("cgroup/setsockopt", ProgramType::CGROUP_SOCKOPT, 22, 0),
    ("cgroup/dev", ProgramType::CGROUP_DEVICE, 6, 0),
    ("struct_ops", ProgramType::STRUCT_OPS, 0, 0),
    ("struct_ops.s", ProgramType::STRUCT_OPS, 0, SLEEPABLE),
    ("sk_lookup", ProgramType::SK_LOOKUP, 36, 0),
    ("netfilter", ProgramType::NETFILTER, 45, 0),
];

/// Prefixes with a free suffix without a slash, in old objects: `xdp_drop`, `tc_ingress`.
const LOOSE: &[&str] = &["socket", "xdp", "tc", "classifier", "action"];

/// Type, attach type, flags and attachment.
type Classified = (ProgramType, u32, u32, Option<Attachment>);

fn row(name: &str) -> Option<&'static Row> {
    SECTIONS.iter().find(|row| row.0 == name)
}

/// Type, attach type, flags and attachment of programs in `section`; `None` for unknown names.
pub(super) fn classify(section: &str) -> Option<Classified> {
    classify_known(section).or_else(|| {
        let section = without_mark(section);
        let is_loose = |name: &&&str| {
            let rest = section.strip_prefix(**name).unwrap_or_default();
            rest.starts_with(|c: char| c == '_' || c == '-' || c.is_ascii_digit())
        };
        let &(_, r#type, attach_type, flags) = row(LOOSE.iter().find(is_loose)?)?;
        Some((r#type, attach_type, flags, None))
    })
}

/// Like `classify`, for names known to libbpf.
fn classify_known(section: &str) -> Option<Classified> {
    let bare = without_mark(section);
    let mut parts = bare.match_indices('/').map(|(at, _)| &bare[..at]).collect::<Vec<_>>();
    parts.push(bare);
    let &(name, r#type, attach_type, flags) = parts.iter().rev().find_map(|name| row(name))?;
    let target = bare.strip_prefix(name).and_then(|rest| rest.strip_prefix('/'));
    let target = target.filter(|target| !target.is_empty()).map(str::to_owned);
    let attachment = match name {
        "tp_btf" => target.map(Attachment::Tracepoint),
        "fentry" | "fentry.s" | "fexit" | "fexit.s" | "fmod_ret" | "fmod_ret.s" => {
            target.map(Attachment::Function)
        }
        "lsm" | "lsm.s" | "lsm_cgroup" => target.map(Attachment::Hook),
        "iter" | "iter.s" => target.map(Attachment::Iterator),
        "freplace" => target.map(Attachment::Program),
        _ => None,
    };
    Some((r#type, attach_type, flags, attachment))
}

/// `?xdp`: the program is only loaded on request.
fn without_mark(section: &str) -> &str {
    section.strip_prefix('?').unwrap_or(section)
}

/// Code other than programs, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OtherCode {
    /// The section's name is unknown; names of the functions in it.
    UnknownType {
        section: String,
        /// Functions that would be programs.
        functions: Vec<String>,
    },
    /// The section has no function symbols, so the start of programs is unknown.
    NoFunctions { section: String },
}

/// The programs in section order, each with the number of its function; and other code. Types
/// `given` for a section override its name; `in_tables` are the names of functions in program
/// tables.
pub(super) fn programs(
    elf: &Elf<'_>,
    functions: &Functions,
    given: &[SectionType],
    in_tables: &BTreeSet<&str>,
) -> (Vec<(ProgramSpec, usize)>, Vec<OtherCode>) {
    let (mut programs, mut others) = (Vec::new(), Vec::new());
    for (index, section) in elf.with_role(Role::Code { is_text: false }) {
        let mut own = functions.in_section(index).peekable();
        let name = || section.name.to_owned();
        if own.peek().is_none() {
            // Compilers always write an empty `.text`, and other sections only with code.
            others.extend((section.size > 0).then(|| OtherCode::NoFunctions { section: name() }));
            continue;
        }
        // Static functions are callees or tail call targets.
        let is_target = |name: &str| in_tables.contains(name) && functions.is_only(name);
        let own = own.filter(|(_, function)| !function.is_local || is_target(&function.name));
        let meaning = given.iter().rfind(|given| given.section == section.name);
        let meaning = meaning.map(|given| given.meaning.clone()).or_else(|| classify(section.name));
        let Some((r#type, attach_type, flags, attachment)) = meaning else {
            let functions = own.map(|(_, function)| function.name.clone()).collect();
            others.push(OtherCode::UnknownType { section: name(), functions });
            continue;
        };
        programs.extend(own.map(|(number, function)| {
            let spec = ProgramSpec {
                name: function.name.clone(),
                section: name(),
                r#type,
                attach_type,
                flags,
                attachment: attachment.clone(),
                insn_count: function.insns.len(),
            };
            (spec, number)
        }));
    }
    (programs, others)
}

// Types given by the user for sections with unknown or different names: `SECTION=TYPE`.

/// bpftool's type names without a libbpf section of that name, with an equivalent section name.
const TYPES: &[(&str, &str)] = &[
    ("socket_filter", "socket"),
    ("sched_cls", "tc"),
    ("sched_act", "action"),
    ("cgroup_skb", "cgroup/skb"),
    ("cgroup_sock", "cgroup/sock"),
    ("cgroup_device", "cgroup/dev"),
    ("cgroup_sysctl", "cgroup/sysctl"),
    ("sock_ops", "sockops"),
    ("raw_tracepoint_writable", "raw_tracepoint.w"),
];

/// Types whose name is ambiguous, with an example of a section that is not.
const AMBIGUOUS: &[(&str, &str)] = &[
    ("cgroup_sock_addr", "cgroup/connect4"),
    ("cgroup_sockopt", "cgroup/getsockopt"),
    ("tracing", "fentry/schedule"),
    ("lsm", "lsm/file_open"),
    ("ext", "freplace/FUNCTION"),
];

/// A type given for a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SectionType {
    section: String,
    meaning: Classified,
}

/// What is wrong with a given type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SectionTypeError {
    /// There is no `=`, or one side is empty.
    #[error(
        "expected SECTION=TYPE, as in \"prog=xdp\": a section of the object, and a type of bpftool \
         or a section name of libbpf"
    )]
    NoPair,
    /// The type alone is not sufficient.
    #[error(
        "programs of type {name} need a target; use libbpf's section name with the target, such as \
         {example:?}"
    )]
    Ambiguous { name: String, example: &'static str },
    /// It is not a type.
    #[error(
        "{0:?} is not a program type; use a type of bpftool (xdp, sched_cls, socket_filter, \
         kprobe, …), or a section name of libbpf (\"tc\", \"fentry/schedule\", …)"
    )]
    Unknown(String),
}

impl FromStr for SectionType {
    type Err = SectionTypeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let pair = text.rsplit_once('=');
        let pair = pair.filter(|(section, name)| !section.is_empty() && !name.is_empty());
        let (section, name) = pair.ok_or(SectionTypeError::NoPair)?;
        if let Some(&(_, example)) = AMBIGUOUS.iter().find(|(ambiguous, _)| *ambiguous == name) {
            return Err(SectionTypeError::Ambiguous { name: name.to_owned(), example });
        }
        let same = TYPES.iter().find(|(known, _)| *known == name);
        let meaning = classify_known(same.map_or(name, |(_, section)| section));
        let meaning = meaning.ok_or_else(|| SectionTypeError::Unknown(name.to_owned()))?;
        Ok(Self { section: section.to_owned(), meaning })
    }
}

impl SectionType {
    /// The section that it applies to.
    pub fn section(&self) -> &str {
        &self.section
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{program_type::ProgramType, spec::Attachment};

    #[test]
    fn names_and_what_they_mean() {
        let check = |section: &str, expected: Option<(ProgramType, u32, u32)>| {
            let found = classify(section).map(|(r#type, attach, flags, _)| (r#type, attach, flags));
            assert_eq!(found, expected, "{section}");
        };
        check("xdp", Some((ProgramType::XDP, 37, 0)));
        check("?xdp", Some((ProgramType::XDP, 37, 0)));
        check("xdp.frags", Some((ProgramType::XDP, 37, HAS_FRAGS)));
        check("xdp/devmap", Some((ProgramType::XDP, 33, 0)));
        check("xdp/fun_xdp", Some((ProgramType::XDP, 37, 0)));
        check("xdp_drop", Some((ProgramType::XDP, 37, 0)));
        check("socket1", Some((ProgramType::SOCKET_FILTER, 0, 0)));
        check("tc_ingress", Some((ProgramType::SCHED_CLS, 0, 0)));
        check("tcp_congestion", None);
        check("raw_tp.w/x", Some((ProgramType::RAW_TRACEPOINT_WRITABLE, 0, 0)));
        check("kprobe.multi/tcp_*", Some((ProgramType::KPROBE, 42, 0)));
        check("cgroup/connect_unix", Some((ProgramType::CGROUP_SOCK_ADDR, 49, 0)));
        check("tc", Some((ProgramType::SCHED_CLS, 0, 0)));
        check("tc/egress", Some((ProgramType::SCHED_CLS, 47, 0)));
        check("classifier/ingress", Some((ProgramType::SCHED_CLS, 0, 0)));
        check("cgroup/connect4", Some((ProgramType::CGROUP_SOCK_ADDR, 10, 0)));
        check("cgroup_skb/egress", Some((ProgramType::CGROUP_SKB, 1, 0)));
        check("syscall", Some((ProgramType::SYSCALL, 0, SLEEPABLE)));
        check("uprobe.s//bin/sh:main", Some((ProgramType::KPROBE, 0, SLEEPABLE)));
        check("nonsense", None);
        check("", None);
    }

    #[test]
    fn what_a_program_is_loaded_for() {
        let check = |section: &str, expected: Option<Attachment>| {
            assert_eq!(classify(section).and_then(|found| found.3), expected, "{section}");
        };
        check("fentry/schedule", Some(Attachment::Function("schedule".into())));
        check("tp_btf/sched_switch", Some(Attachment::Tracepoint("sched_switch".into())));
        check("lsm.s/file_open", Some(Attachment::Hook("file_open".into())));
        check("iter/task", Some(Attachment::Iterator("task".into())));
        check("iter/", None);
        check("xdp", None);
    }

    #[test]
    fn types_by_either_name() {
        let check = |text: &str, section: &str, r#type, attach_type, attachment| {
            let found: SectionType = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(found.section(), section, "{text}");
            let (found_type, found_attach_type, _, found_attachment) = found.meaning;
            let found = (found_type, found_attach_type, found_attachment);
            assert_eq!(found, (r#type, attach_type, attachment), "{text}");
        };
        check("prog=xdp", "prog", ProgramType::XDP, 37, None);
        check("1/0x1010=sched_cls", "1/0x1010", ProgramType::SCHED_CLS, 0, None);
        check("maps=socket_filter", "maps", ProgramType::SOCKET_FILTER, 0, None);
        check("a=b=sock_ops", "a=b", ProgramType::SOCK_OPS, 3, None);
        let function = Some(Attachment::Function("schedule".to_owned()));
        check("p=fentry/schedule", "p", ProgramType::TRACING, 24, function);
        check("p=raw_tracepoint", "p", ProgramType::RAW_TRACEPOINT, 0, None);
    }

    #[test]
    fn all_names_mean_something() {
        let known = TYPES.iter().map(|(_, section)| section);
        for section in known.chain(AMBIGUOUS.iter().map(|(_, example)| example)) {
            assert!(classify_known(section).is_some(), "{section}");
        }
    }

    #[test]
    fn what_is_no_type() {
        let check = |text: &str, expected: &str| {
            let error = text.parse::<SectionType>().expect_err(text).to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("xdp", "expected SECTION=TYPE");
        check("=xdp", "expected SECTION=TYPE");
        check("prog=", "expected SECTION=TYPE");
        check("prog=socket_filer", "\"socket_filer\" is not a program type");
        check("prog=xdp_drop", "\"xdp_drop\" is not a program type");
        check("prog=tracing", "such as \"fentry/schedule\"");
    }
}
