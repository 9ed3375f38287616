//! Makes the linker compress the line tables of an optimized binary, which are most of its size.
//!
//! A flag in `.cargo/config.toml` would not affect `cargo install` from a database.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |key, value| env::var(key).is_ok_and(|it| it == value);
    // Development builds link often.
    if !is("PROFILE", "release") || !is("CARGO_CFG_TARGET_OS", "linux") {
        return;
    }
    // zstd saves 3 MB more, but not every linker supports it; Rust's lld does, which is the default there. Rust's
    // standard library cannot read it: its backtraces have functions, but no lines. Our own symbolizer reads both.
    let has_zstd = is("CARGO_CFG_TARGET_ARCH", "x86_64") && is("CARGO_CFG_TARGET_ENV", "gnu");
    let method = if has_zstd { "zstd" } else { "zlib" };
    println!("cargo::rustc-link-arg-bins=-Wl,--compress-debug-sections={method}");
    // Without this, lld compresses for speed.
    println!("cargo::rustc-link-arg-bins=-Wl,-O2");
}
