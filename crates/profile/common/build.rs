//! Tells the code which machine's stacks it walks, for the two crates that it builds: that of the user half,
//! or in the kernel half, whose own architecture is "bpf", that of the variable that aya reads too, or else
//! the host.

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
