//! Shared code of the developers' commands: running programs, timed steps, measurement conditions, generated parts of
//! pages, and test dependencies that cargo does not build.

pub mod command;
pub mod conditions;
pub mod fetched;
pub mod folders;
pub mod marked;
pub mod steps;
