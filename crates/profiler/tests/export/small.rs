//! A profile small enough to check by hand, with everything that a profile can contain.

use std::time::{Duration, UNIX_EPOCH};

use wingbeat_profiler::export::{self, Format};
use wingbeat_profiler::model::{
    Binary, BinaryKind, BrokenReason, Completeness, Frame, Function, Line, Meta, Mode, Process,
    Profile, Sample, Stack, Thread,
};

/// Exports the profile as a file.
pub(crate) fn export(profile: &Profile, format: Format) -> Vec<u8> {
    let mut bytes = Vec::new();
    export::write(profile, format, &mut bytes).unwrap();
    bytes
}

/// Two processes, three threads, ten samples of six stacks.
pub(crate) fn small() -> Profile {
    Profile {
        functions: functions(),
        binaries: binaries(),
        frames: frames(),
        stacks: stacks(),
        processes: vec![
            Process { pid: 100, parent: None, name: "amicable".into(), start_ns: 0, end_ns: None },
            Process {
                pid: 200,
                parent: Some(100),
                name: "sh; <odd> 1".into(),
                start_ns: 5_000_000,
                end_ns: Some(90_000_000),
            },
        ],
        threads: vec![
            thread(0, 100, "amicable", 0, None),
            thread(0, 101, "worker 1", 0, None),
            thread(1, 200, "sh", 5_000_000, Some(90_000_000)),
        ],
        samples: samples(),
        ..Profile::new(meta())
    }
}

fn thread(process: u32, tid: u32, name: &str, start_ns: u64, end_ns: Option<u64>) -> Thread {
    Thread { process, tid, name: name.into(), start_ns, end_ns, on_cpu_ns: None }
}

fn meta() -> Meta {
    Meta {
        mode: Mode::OnCpu,
        target: "amicable --limit \"1000\" & <friends>".into(),
        start: UNIX_EPOCH + Duration::from_millis(1_700_000_000_123),
        start_ns: 4_711_000_000,
        duration_ns: 100_000_000,
        frequency_hz: 100,
        period: 10_000_000,
        fault_bytes: 0,
        system: "Linux 6.18.0 x86_64".into(),
    }
}

fn functions() -> Vec<Function> {
    let symbol = |name: &str| Function { name: name.into(), is_symbol: true };
    vec![
        symbol("_start"),
        symbol("amicable::main"),
        symbol("<amicable::Pairs<'_> as core::iter::Iterator>::next"),
        symbol("<[u8; 8] as amicable::Divisors>::sum"),
        symbol("do_syscall_64"),
        symbol("count_packets [bpf]"),
        Function { name: "libc.so.6+0x2724a".into(), is_symbol: false },
        symbol("core::hint::black_box"),
    ]
}

fn binaries() -> Vec<Binary> {
    let binary = |kind, path: &str, build_id: &[u8], text, text_offset| Binary {
        kind,
        path: path.into(),
        build_id: build_id.into(),
        text,
        text_offset,
    };
    let build_id: Vec<u8> = (0xa0..0xb4).collect();
    vec![
        binary(
            BinaryKind::User,
            "/lib/x86_64-linux-gnu/libc.so.6",
            &[],
            (0x26000, 0x17b000),
            0x26000,
        ),
        binary(BinaryKind::User, "/opt/amicable", &build_id, (0x2000, 0x9000), 0x1000),
        binary(BinaryKind::Kernel, "[kernel]", &[], (0xffff_ffff_8100_0000, u64::MAX), 0),
        binary(BinaryKind::Bpf, "[bpf]", &[], (0, 0), 0),
    ]
}

fn frames() -> Vec<Frame> {
    let at =
        |function, file: &str, line| Line { function, file: Some(file.into()), line: Some(line) };
    let bare = |function| Line { function, file: None, line: None };
    let frame = |binary, address, lines| Frame { binary: Some(binary), address, lines };
    vec![
        frame(1, 0x2004, vec![bare(0)]),
        frame(0, 0x2724a, vec![bare(6)]),
        frame(1, 0x2100, vec![at(1, "src/main.rs", 12)]),
        // `black_box` and `sum` were inlined into `next`.
        frame(
            1,
            0x2210,
            vec![at(7, "core/hint.rs", 5), at(3, "src/sum.rs", 40), at(2, "src/pairs.rs", 33)],
        ),
        frame(1, 0x2220, vec![at(2, "src/pairs.rs", 35)]),
        frame(2, 0xffff_ffff_8100_1234, vec![at(4, "arch/x86/entry/common.c", 83)]),
        frame(3, 0xffff_ffff_c000_0010, vec![at(5, "xdp.rs", 9)]),
        Frame { binary: None, address: 0x7f00, lines: vec![bare(0)] },
    ]
}

fn stacks() -> Vec<Stack> {
    let stack = |frames: &[u32], completeness| Stack { frames: frames.into(), completeness };
    vec![
        stack(&[3, 2, 1, 0], Completeness::Complete),
        stack(&[4, 2, 1, 0], Completeness::Complete),
        stack(&[5, 4, 2, 1, 0], Completeness::Complete),
        stack(&[6, 5], Completeness::Complete),
        stack(&[7], Completeness::Broken(BrokenReason::NoFramePointer)),
        stack(&[], Completeness::Truncated),
    ]
}

fn samples() -> Vec<Sample> {
    // Time in ms, thread, stack. The worker sleeps from 30 to 80 ms.
    let of = |(time_ms, thread, stack): (u64, u32, u32)| Sample {
        time_ns: time_ms * 1_000_000,
        thread,
        stack,
        cpu: 0,
    };
    [
        (10, 0, 0),
        (20, 0, 0),
        (20, 1, 1),
        (30, 0, 0),
        (30, 1, 2),
        (40, 0, 1),
        (50, 2, 3),
        (60, 2, 4),
        (70, 2, 5),
        (90, 1, 0),
    ]
    .map(of)
    .into()
}
