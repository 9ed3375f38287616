//! Builds kernel halves written in Rust, and knows which toolchain does it.
//!
//! The toolchain is chosen and installed by `cargo xtask setup`, which leaves its choice in a small
//! file ([`Toolchain::record_path`]). Build scripts read that file and never search or install:
//! a build gives the same result on each run, and says in one sentence what is missing.
//!
//! Not for: choosing or installing a toolchain (xtask), loading what was built (`wingbeat-bpf`, or Aya).

mod build;
pub mod compiled;
mod toolchain;

pub use build::{Built, KernelHalf, Purpose, build, build_or_exit};
pub use toolchain::{LLVM_MAJORS, Missing, Toolchain, llvm_major};
