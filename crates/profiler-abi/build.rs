//! Sets `cfg(machine)` to the architecture whose stacks are walked: the target architecture in the user half; in
//! the kernel half, which compiles for "bpf", that of aya's variable, or else the host's.

const TARGET_ARCH: &str = "AYA_BPF_TARGET_ARCH";

fn main() {
    println!("cargo::rerun-if-env-changed={TARGET_ARCH}");
    println!("cargo::rustc-check-cfg=cfg(machine, values(\"x86_64\", \"aarch64\"))");
    let target = std::env::var("CARGO_CFG_TARGET_ARCH").ok().filter(|arch| arch != "bpf");
    let of_kernel_half = || std::env::var(TARGET_ARCH).or_else(|_| std::env::var("HOST"));
    let machine = target.or_else(|| of_kernel_half().ok()).unwrap_or_default();
    let arch = machine.split('-').next().unwrap_or_default();
    println!("cargo::rustc-cfg=machine=\"{arch}\"");
}
