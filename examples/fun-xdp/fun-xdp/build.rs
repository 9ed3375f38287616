//! Builds the kernel half twice, with and without logging, and sets the path of the runner of the instruction counts.

use std::env;

use wingbeat_bpf_build::{KernelHalf, Toolchain, build_or_exit};

fn main() {
    for (binary, features) in [("fun-xdp", &[][..]), ("fun-xdp-log", &["log"])] {
        build_or_exit(KernelHalf {
            dir: "../fun-xdp-ebpf",
            binary,
            features,
            shared: &["../fun-xdp-common"],
            compiled: None,
        });
    }
    // Gungraun looks for its runner at compile time. This variable, documented by Gungraun, overrides the path.
    println!("cargo::rerun-if-env-changed=GUNGRAUN_RUNNER");
    if env::var_os("GUNGRAUN_RUNNER").is_none() {
        let runner = Toolchain::cache_dir().join("gungraun-runner-0.20.0/bin/gungraun-runner");
        println!("cargo::rustc-env=GUNGRAUN_RUNNER={}", runner.display());
    }
}
