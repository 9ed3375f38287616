//! Errors in object files.

use std::io;

/// An unusable object file, with its name and the reason.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    #[error("cannot read {file}")]
    Unreadable { file: String, source: io::Error },
    /// The reason says what it is instead, and what is expected.
    #[error("{file} is not an eBPF object: {reason}")]
    NotAnObject { file: String, reason: String },
    /// It is an object, but inconsistent.
    #[error("{file} is damaged: {}{reason}", place(.section))]
    Damaged {
        file: String,
        /// The section at fault; `None` if it is the file as a whole.
        section: Option<String>,
        reason: String,
    },
    /// It is valid, but uses an unsupported feature.
    #[error("{file}: {reason}")]
    Unsupported { file: String, reason: String },
    #[error("{file}: cannot link {program}: {reason}")]
    Link { file: String, program: String, reason: String },
    #[error(
        "{file}: cannot link {program}: it accesses kernel structures by name (CO-RE), which needs the types of the target kernel"
    )]
    NoTargetTypes { file: String, program: String },
    #[error("{file} has no program {name:?}; {}", suggestion(.name, .known))]
    NoSuchProgram { file: String, name: String, known: Vec<String> },
    #[error(
        "{file}: {name:?} is in section {section:?}, which has no known program type; set it with \
         --type {section}=TYPE, or use a section name of libbpf, such as \"xdp\", \"tc\" or \
         \"tracepoint/syscalls/sys_enter_open\""
    )]
    UnknownType { file: String, name: String, section: String },
    #[error("{file} has no code in a section {section:?}, for which a type is given; {}", code_in(.known))]
    NoSuchSection { file: String, section: String, known: Vec<String> },
    #[error("{file} has no map {name:?}")]
    NoSuchMap { file: String, name: String },
    #[error("{file}: cannot set the global {name:?}: {reason}")]
    Global { file: String, name: String, reason: String },
}

fn place(section: &Option<String>) -> String {
    section.as_ref().map_or_else(String::new, |section| format!("section {section}: "))
}

/// Error of a parsing stage, before the file name is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Flaw {
    /// See [`SpecError::NotAnObject`].
    NotAnObject(String),
    /// See [`SpecError::Damaged`]: section, if one is at fault, and reason.
    Damaged(Option<String>, String),
    /// See [`SpecError::Unsupported`].
    Unsupported(String),
}

impl Flaw {
    /// Damage in a section.
    pub(super) fn damaged(section: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Damaged(Some(section.into()), reason.into())
    }

    pub(super) fn in_file(self, file: &str) -> SpecError {
        let file = file.to_owned();
        match self {
            Self::NotAnObject(reason) => SpecError::NotAnObject { file, reason },
            Self::Damaged(section, reason) => SpecError::Damaged { file, section, reason },
            Self::Unsupported(reason) => SpecError::Unsupported { file, reason },
        }
    }
}

/// The name in `known` that is most similar to `name`, or all of them.
fn suggestion(name: &str, known: &[String]) -> String {
    match (nearest(name, known), known) {
        (_, []) => "it has no programs at all".to_owned(),
        (Some(nearest), _) => format!("did you mean {nearest:?}?"),
        (None, known) => format!("it has {}", known.join(", ")),
    }
}

fn code_in(sections: &[String]) -> String {
    match sections {
        [] => "there is none in any".to_owned(),
        some => format!("there is some in {}", some.join(", ")),
    }
}

/// The most similar of `known`, if similar at all: a few edits apart, or one contains the other.
pub fn nearest<'a>(name: &str, known: &'a [String]) -> Option<&'a String> {
    let limit = name.chars().count() / 3 + 1;
    let by_edits = known
        .iter()
        .map(|candidate| (strsim::levenshtein(name, candidate), candidate))
        .filter(|(edits, _)| *edits <= limit)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate);
    let contains = || {
        let mut those =
            known.iter().filter(|candidate| !name.is_empty() && candidate.contains(name));
        those.next().filter(|_| those.next().is_none())
    };
    by_edits.or_else(contains)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name() {
        let known: Vec<String> =
            ["fun_xdp_v3", "fun_xdp_v4", "balancer_ingress"].map(Into::into).into();
        let check = |name, expected: Option<&str>| {
            assert_eq!(nearest(name, &known).map(String::as_str), expected, "{name}");
        };
        check("fun_xdp_v3x", Some("fun_xdp_v3"));
        check("fun-xdp-v4", Some("fun_xdp_v4"));
        check("balancer", Some("balancer_ingress"));
        check("ingress", Some("balancer_ingress"));
        check("firewall", None);
        check("", None);
    }
}
