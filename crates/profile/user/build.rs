//! Builds the kernel half, which the crate embeds.

use wingbeat_ebpf_build::{KernelHalf, build_or_exit};

fn main() {
    build_or_exit(KernelHalf {
        dir: "../ebpf",
        binary: "profile-ebpf",
        features: &[],
        shared: &["../common"],
        compiled: Some("kernel-half"),
    });
}
