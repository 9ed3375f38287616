//! Types given by the user for sections with unknown or different names: `SECTION=TYPE`.

use std::str::FromStr;

use super::{Classified, classify_known};

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
    pub(super) section: String,
    pub(super) meaning: Classified,
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
