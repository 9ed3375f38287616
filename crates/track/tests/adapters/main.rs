//! The adapters on tools' outputs: real ones of current versions, and tricky cases.

mod criterion_dir;
mod golden;
mod outline;
mod traps;
