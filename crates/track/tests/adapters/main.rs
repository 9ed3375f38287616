//! The adapters on what the tools print: real outputs of current versions, and the traps in them.

mod criterion_dir;
mod golden;
mod outline;
mod traps;
