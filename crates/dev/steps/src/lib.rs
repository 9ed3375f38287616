//! What the developers' commands share: running other programs, rows of timed steps, where something was
//! measured, and the parts of pages that a command writes.

pub mod command;
pub mod conditions;
pub mod folders;
pub mod marked;
pub mod steps;
