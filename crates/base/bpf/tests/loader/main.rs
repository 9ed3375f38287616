//! The loader on the real kernel: programs loaded, rejected, run, found and measured; maps created
//! and restored.
//!
//! Programs are bytecode that is written here, so that every figure is known beforehand. Tests are
//! skipped only when the kernel refuses this process the least program; with `CI` set that is a failure.

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
