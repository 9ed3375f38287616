//! Builds the kernel half twice, with and without its log, and says where the runner of the
//! instruction counts lies.

use std::env;

use wingbeat_ebpf_build::{KernelHalf, Toolchain, build_or_exit};

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
    // Gungraun looks for its runner when a benchmark is compiled. Whoever has a runner of her own
    // says so by this variable, as Gungraun's documentation tells.
    println!("cargo::rerun-if-env-changed=GUNGRAUN_RUNNER");
    if env::var_os("GUNGRAUN_RUNNER").is_none() {
        let runner = Toolchain::cache_dir().join("gungraun-runner-0.20.0/bin/gungraun-runner");
        println!("cargo::rustc-env=GUNGRAUN_RUNNER={}", runner.display());
    }
}
