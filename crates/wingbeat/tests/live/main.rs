//! `wingbeat live` and `wingbeat top` on the real kernel: programs attached to a test network, with a known number of
//! packets.
//!
//! Tests run one at a time, because they toggle statistics, which all programs share. They are skipped only without
//! privileges; with `CI=true` that is a failure.

#[expect(dead_code, reason = "other tests need the rest of it")]
#[path = "../../../bpf-loader/tests/spec/support/btf.rs"]
mod btf;
#[expect(dead_code, reason = "other tests need the rest of it")]
#[path = "../../../bpf-loader/tests/spec/support/elf.rs"]
mod elf;
mod measure;
mod network;
mod object;
mod once;
#[path = "../common/object.rs"]
mod program;
mod pty;
#[expect(dead_code, reason = "other tests need the rest of it")]
#[path = "../common/ran.rs"]
mod ran;
mod screen;
mod single_runs;
mod support;
