//! Tells the code which machine's registers it reads: those of the machine that the user half is built
//! for, in the variable that aya reads too, or else of the host.

const TARGET_ARCH: &str = "AYA_BPF_TARGET_ARCH";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={TARGET_ARCH}");
    println!("cargo::rustc-check-cfg=cfg(bpf_target_arch, values(\"x86_64\", \"aarch64\"))");
    let machine = std::env::var(TARGET_ARCH).or_else(|_| std::env::var("HOST"));
    let machine = machine.unwrap_or_default();
    let arch = machine.split('-').next().unwrap_or_default();
    println!("cargo::rustc-cfg=bpf_target_arch=\"{arch}\"");
}
