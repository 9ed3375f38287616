//! Tells the code which machine's registers it reads: that of the host which builds it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(bpf_target_arch, values(\"x86_64\", \"aarch64\"))");
    let host = std::env::var("HOST").unwrap_or_default();
    let arch = host.split('-').next().unwrap_or_default();
    println!("cargo::rustc-cfg=bpf_target_arch=\"{arch}\"");
}
