//! The heap of targets: which functions of a file allocate (`allocator`), where to probe their entries (`place`)
//! and exits (`exits`, in the code that `text` provides by address), what becomes of the blocks (`blocks`), and
//! sums by allocation site (`sums`). `mapped` tracks the address space requested from the kernel. [`places`]
//! determines for which function of the program a block is.

pub(crate) mod allocator;
pub(crate) mod blocks;
pub(crate) mod exits;
pub(crate) mod mapped;
pub(crate) mod place;
pub mod places;
pub(crate) mod sums;
pub(crate) mod text;
