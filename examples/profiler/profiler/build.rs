//! Builds the kernel half, which the profiler embeds.

use wingbeat_bpf_build::{KernelHalf, build_or_exit};

fn main() {
    build_or_exit(KernelHalf {
        dir: "../profiler-ebpf",
        binary: "profiler-ebpf",
        features: &[],
        shared: &["../profiler-common"],
        compiled: None,
    });
}
