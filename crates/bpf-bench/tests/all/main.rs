//! Tests of whole measurements and whole reports.

/// Instrumentation on the real kernel: generated programs behave the same with counters, and the
/// counts match the interpreter, also across tail calls and for generated C programs; alternating
/// programs get their own slots, maps and times, and the requested packet.
///
/// Skipped only if privileges are missing; with `CI=true` that is a failure.
mod kernel {
    mod alternate;
    mod compiled;
    mod confirm;
    mod feeding;
    mod generated;
    mod methods;
    mod stateful;
    mod support;
    mod tail_calls;
}

/// Results as text: each format against a golden file, and properties of any result.
mod report {
    mod formats;
    #[path = "../../common/golden.rs"]
    mod golden;
    mod human;
    mod sample;
    mod veristat;
}
