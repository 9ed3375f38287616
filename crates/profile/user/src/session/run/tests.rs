//! Tests of a recording: its buffer, and a kernel that lacks what the walk needs.

use std::os::unix::net::UnixStream;

use wingbeat_bpf::{
    Verb,
    probe::{can, findings},
    rights::Rights,
};

use super::*;
use crate::{
    model::{Completeness, Mode},
    recorder::RawSample,
};

#[test]
fn the_ring_buffer_is_a_power_of_two_within_bounds() {
    let check = |frequency_hz, cpus, expected| {
        assert_eq!(buffer_bytes(frequency_hz, cpus), expected);
    };
    check(99, 2, 4 << 20);
    check(9_999, 2, 32 << 20);
    check(9_999, 128, 64 << 20);
}

/// What a kernel before 5.17 does: the kernel half finds no frame but the first, and user space walks the
/// others by the copy.
#[test]
fn stacks_are_whole_without_the_loop_of_the_kernel() {
    if !can(Verb::Profile, &findings()) {
        assert!(std::env::var_os("CI").is_none(), "CI must be able to load programs");
        eprintln!("skipped: `wingbeat doctor` says that profiling is impossible here");
        return;
    }
    let script = "i=0; while [ $i -lt 1000000 ]; do i=$((i + 1)); done";
    let options = Options {
        targets: Targets::Command(["sh", "-c", script].map(OsString::from).into()),
        mode: Mode::OnCpu,
        min_block_ns: 1_000,
        wakers: false,
        frequency_hz: 999,
        duration: None,
        inherit: true,
        buffer_bytes: None,
        unwind: Unwind::Auto,
        unwind_bytes: 1 << 20,
    };
    let is_namespaced = Rights::current().expect("rights").is_in_pid_namespace();
    let (stop, _open) = UnixStream::pair().expect("pair");
    let mut session = Session::set_up(&options, is_namespaced, false).expect("set up");
    session.start(&options).expect("start");
    session.run(&options, stop.as_fd(), &mut |_| {}).expect("run");
    let finished = session.finish(&options).expect("finish");
    let Recorder { samples, stacks, wanted, .. } = &finished.recorder;
    let stacks = stacks.in_order();
    let of = |sample: &RawSample| stacks[sample.stack as usize];
    let is_whole = |it: &&RawSample| of(it).completeness == Completeness::Complete;
    let whole = samples.iter().filter(is_whole).count();
    let broken: Vec<_> = samples.iter().filter(|it| !is_whole(it)).map(of).collect();
    let deep = samples.iter().filter(|it| of(it).user.len() > 3).count();
    let (all, copied) = (samples.len(), finished.unwinding.copied);
    assert!(all > 20 && copied as usize > all / 2, "{copied} of {all} copied");
    assert!(whole * 100 >= all * 99 - 100, "{whole} of {all} whole: {broken:?}");
    assert!(deep > all / 2, "{deep} of {all} deep");
    assert_eq!(finished.unwinding.tables, None);
    // Nobody takes requests for tables.
    assert_eq!(wanted.len(), 0);
}
