//! Instrumentation on the real kernel: generated programs do with counters what they do without, and
//! count what the interpreter counts, across tail calls too, and so do generated programs in C; programs that take
//! turns within one run get the turns, the maps and the times that are theirs, and the packet that was asked for.
//!
//! Skipped only when the rights are missing; with `CI=true` that is a failure.

mod alternate;
#[expect(dead_code, reason = "other tests need the rest of it")]
#[path = "../../../base/bpf/tests/spec/support/btf.rs"]
mod btf;
mod compiled;
mod confirm;
#[expect(dead_code, reason = "other tests need the rest of it")]
#[path = "../../../base/bpf/tests/spec/support/elf.rs"]
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
