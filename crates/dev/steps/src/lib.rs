//! What the developers' commands share: running other programs, rows of timed steps, where something was
//! measured, the parts of pages that a command writes, and what tests need that cargo does not build.

pub mod command;
pub mod conditions;
pub mod fetched;
pub mod folders;
pub mod marked;
pub mod steps;
