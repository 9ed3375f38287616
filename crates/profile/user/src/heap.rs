//! The heap of targets: which functions of a file allocate (`allocator`), where to probe them (`place`) and the ways
//! out of them (`exits`, in the code that `text` has by address), and what becomes of the blocks (`blocks`), in sums by
//! the place that allocated (`sums`). `mapped` is about the address space that they ask the kernel for. [`places`] says
//! which function of the program a block is for.

pub(crate) mod allocator;
pub(crate) mod blocks;
pub(crate) mod exits;
pub(crate) mod mapped;
pub(crate) mod place;
pub mod places;
pub(crate) mod sums;
pub(crate) mod text;
