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
    /// The types do not hold together, or are of a kind that this program does not know.
    #[error("the types are damaged: {reason}")]
    Damaged { reason: String },
    /// No struct or union of that name.
    #[error("this kernel has no struct or union `{structure}` (looked for its member `{member}`)")]
    NoStructure { structure: String, member: String },
    /// The struct or union has no such member.
    #[error("`{structure}` of this kernel has no member `{member}`")]
    NoMember { structure: String, member: String },
}

impl BtfError {
    pub(super) fn no_structure(structure: &str, member: &str) -> Self {
        Self::NoStructure { structure: structure.to_owned(), member: member.to_owned() }
    }

    pub(super) fn no_member(structure: &str, member: &str) -> Self {
        Self::NoMember { structure: structure.to_owned(), member: member.to_owned() }
    }
}
