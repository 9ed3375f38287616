//! The heap of targets: which functions of a file allocate (`allocator`), where to probe their entries (`probe_site`)
//! and exits (`exits`, in the code that `text` provides by address), what becomes of the blocks (`blocks`), and
//! sums by allocation site (`sums`). `mapped` tracks the address space requested from the kernel. [`attribution`]
//! determines for which function of the program a block is.

pub(crate) mod allocator;
pub mod attribution;
pub(crate) mod blocks;
pub(crate) mod exits;
pub(crate) mod mapped;
pub(crate) mod probe_site;
pub(crate) mod sums;
pub(crate) mod text;
