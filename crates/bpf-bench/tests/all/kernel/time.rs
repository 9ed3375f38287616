//! The requested time is kept, even if a run, a batch or a load takes longer.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use wingbeat_bpf_bench::{
    measure::{Watcher, bench},
    plan::Plan,
    result::{BenchReport, Method},
};
use wingbeat_bpf_loader::{
    code::{Insn, op},
    spec::Spec,
};
use wingbeat_bpf_testing::assemble::Assembler;

use super::{
    support::{ask_for_quiet, can_load, is_at_least},
    tail_calls::object,
};

/// Held by the test that uses the CPU.
static TURN: Mutex<()> = Mutex::new(());

fn plan(time: Duration) -> Plan {
    Plan {
        programs: vec!["looping".to_owned()],
        time: Some(time),
        allow_statistics: true,
        ..Plan::default()
    }
}

/// An object with a program that runs for `quarters` quarters of a second, at most eight: the
/// kernel terminates a loop after one (since Linux 6.15; before that after eight million
/// iterations), and then a tail call continues with the next.
fn looping(quarters: i32) -> Spec {
    let names = ["looping", "b", "c", "d", "e", "f", "g", "h"];
    let program = |(number, &name): (i32, &&'static str)| {
        let mut it = Assembler::new();
        it.copy(6, 1);
        // Exits an endless loop.
        it.emit(Insn::new(op::JCOND, 0, 0, 1, 0)).emit(Insn::new(op::JA, 0, 0, -2, 0));
        it.copy(1, 6).load_double(2, 0, 0, 0).mov(3, number + 1);
        it.call(op::HELPER_TAIL_CALL).mov(0, 1).exit();
        let slot = (number > 0).then_some(number.cast_unsigned());
        ("socket", name, slot, it.finish().insns)
    };
    let programs: Vec<_> = (0..quarters).zip(&names).map(program).collect();
    object(&programs)
}

/// Measures, and returns the report and the duration. Requests a stop after `stop_after`.
fn measured(spec: &Spec, time: Duration, stop_after: Option<Duration>) -> (BenchReport, Duration) {
    ask_for_quiet();
    let stop = AtomicBool::new(false);
    let begun = Instant::now();
    let report = thread::scope(|scope| {
        if let Some(after) = stop_after {
            let stop = &stop;
            scope.spawn(move || {
                thread::sleep(after);
                stop.store(true, Ordering::Relaxed);
            });
        }
        bench(spec, &plan(time), &Watcher { show: &|_| {}, stop: &stop })
    });
    (report.expect("a report"), begun.elapsed())
}

fn can_time_loops() -> Option<()> {
    let is_timed = is_at_least(6, 15);
    if !is_timed {
        eprintln!("skipped: the kernel ends loops by time since Linux 6.15");
    }
    can_load().filter(|()| is_timed)
}

#[test]
fn runs_of_a_quarter_of_a_second_are_timed_one_by_one() {
    let Some(()) = can_time_loops() else { return };
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (report, took) = measured(&looping(1), Duration::from_secs(4), None);
    assert!(took < Duration::from_millis(4_800), "{took:?}");
    let latency = report.cases[0].latency.measured().expect("a time");
    assert_eq!((latency.method, latency.runs_per_batch), (Method::Batches, 1));
    assert!((200e6..400e6).contains(&latency.median_ns), "{latency:?}");
    let reason = latency.reason.as_deref().expect("a reason");
    assert!(reason.contains("too long for bursts"), "{reason}");
}

#[test]
fn a_run_of_seconds_is_left_behind() {
    let Some(()) = can_time_loops() else { return };
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let spec = looping(8);
    let check = |time, stop_after| {
        let (report, took) = measured(&spec, time, stop_after);
        assert!(took < Duration::from_millis(1_800), "{took:?}");
        assert!(report.cases.is_empty());
        let failure = &report.failures[0];
        assert!(failure.reason.contains("the time ran out before the run"), "{failure:?}");
        // Verifier figures are still available.
        assert_eq!(report.verified[0].name, "looping");
        // It occupies its CPU until it ends.
        thread::sleep(Duration::from_millis(2_500));
    };
    check(Duration::from_secs(1), None);
    check(Duration::from_secs(60), Some(Duration::from_millis(700)));
}
