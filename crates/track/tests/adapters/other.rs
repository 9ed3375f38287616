//! Adapters of tools outside of Rust: real outputs of current versions, and the traps in them.

mod golden;
pub(crate) mod outline;
mod traps;
