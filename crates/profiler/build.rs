//! Builds the kernel half, which the crate embeds.

use wingbeat_bpf_build::{KernelHalf, build_or_exit};

fn main() {
    build_or_exit(KernelHalf {
        dir: "../profiler-ebpf",
        binary: "profile-ebpf",
        features: &[],
        shared: &["../profiler-abi"],
        compiled: Some("kernel-half"),
    });
}
