//! The heap of targets: which functions of a file allocate (`allocator`), where to probe them (`place`), and what
//! becomes of the blocks (`blocks`). [`places`] says which function of the program a block is for.

pub(crate) mod allocator;
pub(crate) mod blocks;
pub(crate) mod place;
pub mod places;
