//! The loader on the real kernel: programs loaded, rejected, run, found and measured; maps created and reset.
//!
//! Programs are hand-written bytecode, so that every figure is known beforehand. Tests are skipped
//! only if the kernel does not even let this process load a minimal program; with `CI` set that is
//! a failure.

mod accesses;
mod arena;
mod features;
mod found;
mod globals;
mod interrupted;
mod limits;
mod pins;
mod raw;
mod reading;
mod rejected;
mod remarks;
mod reset;
mod run;
mod statistics;
mod struct_ops;
mod support;
mod traced;
mod unprivileged;
