//! Recordings on the real kernel: `wingbeat profile`, `heap` and `agent`, on programs of known behaviour.

mod agent;
/// `wingbeat heap` on the real kernel, on programs with known allocations.
///
/// The targets are small C programs with known sums. Results are looked up by the allocating function, so that the C
/// library's own allocations do not count. Tests are skipped only if a probe finds that profiling is impossible here;
/// with `CI=true` that is a failure.
mod heap {
    mod exact;
    mod pages;
    mod running;
    mod support;
    mod viewer;
    mod ways_out;
}
/// `wingbeat profile --mode off-cpu|wall` on the real kernel, on programs that measure themselves.
///
/// The targets are small C programs that print how long they waited, by the kernel's clock. Tests compare with these
/// values, not with the requested ones: a busy machine makes a sleep longer, but not the measurement wrong. Tests run
/// one at a time and are skipped only if a probe finds that profiling is impossible here; with `CI=true` that is a
/// failure.
mod off_cpu {
    pub(crate) mod accounts;
    mod everybody;
    mod failures;
    mod files;
    mod processes;
    mod programs;
    mod sleeps;
    mod stacks;
    mod states;
    pub(crate) mod support;
    mod wall;
}
/// `wingbeat profile` on the real kernel, on programs of known behaviour.
///
/// The targets are small C programs, compiled here with or without frame pointers. Tests run one at a time, because
/// they measure time. They are skipped only if a probe finds that the kernel or missing privileges prevent profiling;
/// with `CI=true` that is a failure.
mod profile {
    mod accuracy;
    mod debuginfod;
    mod failures;
    mod files;
    mod foreign;
    #[cfg(target_arch = "x86_64")]
    mod jit;
    mod own_crate;
    mod processes;
    mod stacks;
    pub(crate) mod support;
    mod unwind;
}
#[expect(dead_code, reason = "other tests need the rest of it")]
#[path = "../common/ran.rs"]
mod ran;
mod target;
