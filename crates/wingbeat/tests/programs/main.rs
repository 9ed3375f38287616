//! eBPF programs on the real kernel: `wingbeat bench`, `annotate`, `live` and `top`.

/// `wingbeat bench` and `wingbeat annotate` on the real kernel, with a generated object.
///
/// Tests run one at a time, because they measure. They are skipped only without privileges; with `CI=true` that is a
/// failure. Tests of invalid files need no privileges and are never skipped.
mod bench {
    mod against;
    mod bad_input;
    mod measure;
    mod support;
}
/// `wingbeat live` and `wingbeat top` on the real kernel: programs attached to a test network, with a known number of
/// packets.
///
/// Tests run one at a time, because they toggle statistics, which all programs share. They are skipped only without
/// privileges; with `CI=true` that is a failure.
mod live {
    mod measure;
    mod network;
    mod pty;
    mod single_runs;
    mod support;
    mod top;
}
#[expect(dead_code, reason = "other tests need the rest of it")]
#[path = "../common/ran.rs"]
mod ran;
