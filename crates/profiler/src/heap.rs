//! The heap of targets: which functions of a file allocate (`allocator`), where to probe their entries (`probe_site`)
//! and exits (`exits`, in the code that `code` provides by address), what becomes of the blocks (`blocks`), and
//! sums by allocation site (`site_sums`). `mapped` tracks the address space requested from the kernel. [`requester`]
//! determines for which function of the program a block is.

pub(crate) mod allocator;
pub(crate) mod blocks;
pub(crate) mod code;
pub(crate) mod exits;
pub(crate) mod mapped;
pub(crate) mod probe_site;
pub mod requester;
pub(crate) mod site_sums;
