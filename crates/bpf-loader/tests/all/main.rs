//! Object files, and programs that are loaded from them.

/// The loader on the real kernel: programs loaded, rejected, run, found and measured; maps created and reset.
///
/// Programs are hand-written bytecode, so that every figure is known beforehand. Tests are skipped
/// only if the kernel does not even let this process load a minimal program; with `CI` set that is
/// a failure.
mod loader {
    mod arena;
    mod features;
    mod found;
    mod objects;
    mod observed;
    mod raw;
    mod reading;
    mod reset;
    mod run;
    mod support;
    mod unprivileged;
    mod verifier;
}

/// Parses generated object files: valid ones of every style, and damaged ones, which must be
/// rejected with the reason and never cause a panic. Needs neither kernel nor privileges.
mod spec {
    mod accesses;
    mod calls;
    mod externs;
    mod globals;
    mod maps;
    mod resilience;
    mod sample;
    mod sections;
    mod struct_ops;
    mod structure;
    mod support;
    mod toolchains;
    mod types;
}
