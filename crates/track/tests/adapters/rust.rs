//! Adapters of tools of Rust and eBPF: real outputs of current versions.

mod criterion_dir;
mod golden;
mod magic;
