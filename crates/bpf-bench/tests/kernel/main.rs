//! Instrumentation on the real kernel: generated programs behave the same with counters, and the
//! counts match the interpreter, also across tail calls and for generated C programs; alternating
//! programs get their own turns, maps and times, and the requested packet.
//!
//! Skipped only if privileges are missing; with `CI=true` that is a failure.

mod alternate;
#[expect(dead_code, reason = "other tests need the rest of it")]
#[path = "../../../bpf-loader/tests/spec/support/btf.rs"]
mod btf;
mod compiled;
mod confirm;
#[expect(dead_code, reason = "other tests need the rest of it")]
#[path = "../../../bpf-loader/tests/spec/support/elf.rs"]
mod elf;
mod feeding;
mod generate;
mod generated;
mod methods;
#[path = "../../../wingbeat/tests/common/object.rs"]
mod object;
mod stateful;
mod support;
mod tail_calls;
mod time;
