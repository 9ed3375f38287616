//! Builds kernel halves written in Rust with the recorded toolchain.
//!
//! `cargo xtask setup` chooses and installs the toolchain, and records its choice in a small file
//! ([`Toolchain::record_path`]). Build scripts read that file and never search or install: builds
//! are reproducible, and a one-sentence error names what is missing.
//!
//! Out of scope: choosing or installing a toolchain (xtask), loading the objects (`wingbeat-bpf-loader`, or Aya).

mod build;
pub mod compiled;
mod toolchain;

pub use build::{Built, KernelHalf, Purpose, build, build_or_exit};
pub use toolchain::{LLVM_MAJORS, Missing, Toolchain, llvm_major};
