//! What can go wrong with BTF.

use std::{io, path::PathBuf};

/// Why the kernel's types could not be read, or do not hold what was asked for.
#[derive(Debug, thiserror::Error)]
pub enum BtfError {
    /// The file could not be read.
    #[error(
        "cannot read the kernel's types from {path}; a kernel built with CONFIG_DEBUG_INFO_BTF=y has them"
    )]
    Unreadable { path: PathBuf, source: io::Error },
    /// The first bytes are not those of BTF in this machine's byte order.
    #[error("not BTF of this machine's byte order: expected magic 0xeb9f, found {found:#06x}")]
    Magic {
        /// The first two bytes.
        found: u16,
    },
    /// A section or a record reaches past the end.
    #[error("BTF is cut short: {what} at byte {offset} reaches past the end")]
    Truncated {
        what: &'static str,
        /// Where it begins, in bytes from the start.
        offset: usize,
    },
    /// A kind of type that is newer than this reader; what follows it cannot be found.
    #[error(
        "type {type_id} of the kernel's BTF has the unknown kind {kind}; this kernel is newer than this program"
    )]
    UnknownKind { type_id: usize, kind: u32 },
    /// No struct or union of that name.
    #[error("this kernel has no struct or union `{structure}` (looked for its member `{member}`)")]
    NoStructure {
        /// The struct or union that was asked for.
        structure: String,
        member: String,
    },
    /// The struct or union has no such member.
    #[error("`{structure}` of this kernel has no member `{member}`")]
    NoMember {
        /// The struct or union that was asked for.
        structure: String,
        member: String,
    },
}

impl BtfError {
    pub(super) fn no_structure(structure: &str, member: &str) -> Self {
        Self::NoStructure { structure: structure.to_owned(), member: member.to_owned() }
    }

    pub(super) fn no_member(structure: &str, member: &str) -> Self {
        Self::NoMember { structure: structure.to_owned(), member: member.to_owned() }
    }
}
