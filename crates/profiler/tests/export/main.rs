//! Exporters against golden files, independent readers and arbitrary profiles.

mod arbitrary;
mod blocked;
mod firefox;
mod folded;
#[path = "../../../bpf-bench/tests/common/golden.rs"]
mod golden;
mod heap;
mod merge;
mod pprof;
mod properties;
mod small;
mod svg;
mod top;
