//! The loader on the real kernel: programs loaded, rejected, run, found and measured; maps created and reset.
//!
//! Programs are hand-written bytecode, so that every figure is known beforehand. Tests are skipped
//! only if the kernel does not even let this process load a minimal program; with `CI` set that is
//! a failure.

mod accesses;
mod arena;
#[expect(dead_code, reason = "other tests need the rest of it")]
#[path = "../spec/support/btf.rs"]
mod btf;
mod bytecode;
#[expect(dead_code, reason = "other tests need the rest of it")]
#[path = "../spec/support/elf.rs"]
mod elf;
mod extended;
mod features;
mod found;
mod globals;
mod interrupted;
mod limits;
mod object;
mod pins;
mod raw;
mod reading;
mod rejected;
mod remarks;
mod reset;
mod reset_large;
mod run;
mod statistics;
mod struct_ops;
mod support;
mod traced;

mod unprivileged;
