//! Runs interrupted by signals: they are repeated, counted, and shortened if that does not help.

use std::{
    io, mem, ptr,
    sync::{
        Once,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use wingbeat_bpf_loader::{
    ProgramType,
    loader::{Alarm, Loaded, ProgramRun},
};

use crate::support::{asm, can_load, load as load_program, program, run};

/// Runs that take some hundredths of a second.
const RUNS: u32 = 3_000_000;

/// Counts its runs in the first bytes of the packet and returns the count. Each call begins with a
/// fresh packet, so the result counts only the runs of the last call.
fn counter() -> Loaded {
    let insns = asm(
        "r2 = *(u32 *)(r1 + 0); r3 = *(u32 *)(r1 + 4); r4 = r2; r4 += 4; r0 = 0; if r4 > r3 goto +3; \
         r0 = *(u32 *)(r2 + 0); r0 += 1; *(u32 *)(r2 + 0) = r0; exit",
    );
    load_program(&program(ProgramType::XDP), &insns, &[]).expect("it loads")
}

/// Runs the counter while another thread sends this many signals to this one, at this interval.
fn run_in_storm(signals: u32, every: Duration) -> (ProgramRun, u32) {
    static HANDLER: Once = Once::new();
    HANDLER.call_once(install_handler);
    let program = counter();
    let (is_over, sent) = (AtomicBool::new(false), AtomicU32::new(0));
    // SAFETY: the call has no conditions.
    let target = unsafe { libc::pthread_self() };
    let found = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) && sent.load(Relaxed) < signals {
                thread::sleep(every);
                // SAFETY: the scope keeps that thread alive until this one has ended.
                let result = unsafe { libc::pthread_kill(target, libc::SIGUSR1) };
                assert_eq!(result, 0);
                sent.fetch_add(1, Relaxed);
            }
        });
        let found = run(&program, ProgramType::XDP, &[0; 64], RUNS);
        is_over.store(true, Relaxed);
        found
    });
    (found.expect("it runs"), sent.into_inner())
}

/// Installs an empty handler, after which system calls are not restarted.
fn install_handler() {
    extern "C" fn nothing(_signal: libc::c_int) {}
    // SAFETY: all zero is a valid structure: no flags, no signals blocked.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the structure is complete, and the handler is async-signal-safe.
    let result = unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, ptr::null_mut()) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}

/// Checks that the reported batch is the one that finished.
fn check_batch(found: &ProgramRun) {
    assert_eq!(found.return_value, found.runs, "runs of the last call");
    assert_eq!(found.data[..4], found.runs.to_le_bytes());
    assert_eq!(found.data.len(), 64);
    // The kernel's mean is of elapsed time, whether or not this thread was running.
    let batch_ns = u64::from(found.mean_ns) * u64::from(found.runs);
    assert!(batch_ns > 0 && found.elapsed_ns >= batch_ns, "{found:?}");
}

#[test]
fn a_few_signals_cost_a_few_retries() {
    let Some(()) = can_load() else { return };
    let (found, sent) = run_in_storm(2, Duration::from_millis(3));
    check_batch(&found);
    assert_eq!(found.runs, RUNS, "as many as asked for");
    assert_eq!(sent, 2, "the run was over before the signals came");
    assert!((1..=2).contains(&found.retries), "{found:?}");
}

#[test]
fn signals_that_never_cease_make_batches_shorter() {
    let Some(()) = can_load() else { return };
    let (found, sent) = run_in_storm(u32::MAX, Duration::from_millis(1));
    check_batch(&found);
    assert!((1..RUNS).contains(&found.runs), "{found:?}");
    assert!(found.retries >= 4 && found.retries <= sent, "{found:?}, {sent} signals");
}

#[test]
fn a_thread_that_blocks_signals_is_not_interrupted() {
    let Some(()) = can_load() else { return };
    // Only for this thread, which ends with the test.
    Alarm::never().settle().expect("blocked");
    let (found, sent) = run_in_storm(u32::MAX, Duration::from_millis(1));
    check_batch(&found);
    assert_eq!((found.runs, found.retries), (RUNS, 0));
    assert!(sent > 1, "the run was over before the signals came");
}
