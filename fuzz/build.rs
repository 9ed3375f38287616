//! Declares the condition that `cargo fuzz` sets.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(fuzzing)");
}
