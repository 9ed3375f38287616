//! Arbitrary profiles: more than any session would produce, but allowed by the model.

use std::iter;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use wingbeat_profiler::model::{
    Amount, Binary, BinaryKind, Blocked, Completeness, Durations, Frame, Function, Interval, Line,
    Meta, Mode, Process, Profile, Sample, Site, Stack, State, Thread,
};

/// Names with special meaning in a format, and any others.
pub(crate) fn name() -> impl Strategy<Value = String> {
    let meaningful = prop::sample::select(vec![
        "",
        " ",
        ";",
        "a;b",
        "1",
        "a 1",
        "# c",
        "#",
        "_[k]",
        "--",
        "]]>",
        "<a b='c'>",
        "&amp;",
        "\0",
        "\u{ffff}",
        "a\nb",
        "all",
        "process",
        "\u{3000}",
        "\u{85}",
        "a_[k]",
        "%s",
        "\\",
        "0.5",
    ]);
    prop_oneof![meaningful.prop_map(str::to_owned), any::<String>(), "[a-z]{1,3}"]
}

fn meta() -> impl Strategy<Value = Meta> {
    let start = prop_oneof![
        any::<u32>().prop_map(|s| UNIX_EPOCH + Duration::from_secs(s.into())),
        any::<u32>().prop_map(|s| UNIX_EPOCH - Duration::from_secs(s.into())),
        Just(SystemTime::UNIX_EPOCH),
    ];
    let period = prop_oneof![Just(0), Just(1_000_000), any::<u64>()];
    let mode =
        prop::sample::select(vec![Mode::OnCpu, Mode::OffCpu, Mode::Wall, Mode::Heap, Mode::Pages]);
    (mode, name(), start, any::<u64>(), any::<u64>(), any::<u64>(), period).prop_map(
        |(mode, target, start, start_ns, duration_ns, frequency_hz, period)| Meta {
            mode,
            target,
            start,
            start_ns,
            duration_ns,
            frequency_hz,
            period,
            fault_bytes: 0,
            system: "Linux".into(),
        },
    )
}

/// Times whose sums stay exact.
fn time_ns() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 0..1_000_000_u64, 0..1_u64 << 45]
}

fn blocked() -> impl Strategy<Value = Blocked> {
    let state = prop::sample::select(State::ALL.to_vec());
    (any::<u32>(), any::<u32>(), state, 1..1_000_u64, time_ns()).prop_map(
        |(thread, stack, state, count, total_ns)| {
            let mut histogram = Durations::default();
            histogram.record(total_ns / count);
            Blocked { thread, stack, state, count, total_ns, histogram }
        },
    )
}

fn interval() -> impl Strategy<Value = Interval> {
    (any::<u32>(), any::<u64>(), any::<u64>()).prop_map(|(blocked, start_ns, end_ns)| Interval {
        blocked,
        start_ns,
        end_ns,
    })
}

/// An allocation site, with integer blocks and bytes.
fn site() -> impl Strategy<Value = Site> {
    let amount = (0..1000_u32, 0..1_000_000_u32).prop_map(|(blocks, bytes)| Amount {
        blocks: blocks.into(),
        bytes: bytes.into(),
        variance: 0.0,
        samples: u64::from(blocks),
    });
    let amounts = [amount.clone(), amount.clone(), amount.clone(), amount];
    (any::<u32>(), any::<u32>(), amounts, 0..1_000_000_u32).prop_map(
        |(thread, stack, [total, own_peak, at_peak, at_end], lifetime_ns)| Site {
            thread,
            stack,
            total,
            own_peak,
            at_peak,
            at_end,
            lifetime_ns: lifetime_ns.into(),
        },
    )
}

fn binary() -> impl Strategy<Value = Binary> {
    let kind = prop_oneof![
        Just(BinaryKind::User),
        Just(BinaryKind::Vdso),
        Just(BinaryKind::Anonymous),
        Just(BinaryKind::Kernel),
        Just(BinaryKind::Bpf),
        Just(BinaryKind::State),
    ];
    (kind, name(), vec(any::<u8>(), 0..24), any::<(u64, u64)>(), any::<u64>()).prop_map(
        |(kind, path, build_id, text, text_offset)| {
            let path = if kind == BinaryKind::Kernel { "[kernel]".into() } else { path };
            Binary { kind, path, build_id, text, text_offset }
        },
    )
}

fn frame() -> impl Strategy<Value = Frame> {
    let line = (any::<u32>(), option::of(name()), option::of(any::<u32>()))
        .prop_map(|(function, file, line)| Line { function, file, line });
    (option::of(any::<u32>()), any::<u64>(), vec(line, 1..4))
        .prop_map(|(binary, address, lines)| Frame { binary, address, lines })
}

/// A profile; any table may be empty.
pub(crate) fn profile() -> impl Strategy<Value = Profile> {
    let function =
        (name(), any::<bool>()).prop_map(|(name, is_symbol)| Function { name, is_symbol });
    let stack = vec(any::<u32>(), 0..6)
        .prop_map(|frames| Stack { frames, completeness: Completeness::Complete });
    let process = (0..5_u32, name(), any::<u64>(), option::of(any::<u64>())).prop_map(
        |(pid, name, start_ns, end_ns)| Process { pid, parent: None, name, start_ns, end_ns },
    );
    let on_cpu_ns = option::of(time_ns());
    let end_ns = option::of(any::<u64>());
    let thread = (any::<u32>(), 0..5_u32, name(), any::<u64>(), end_ns, on_cpu_ns).prop_map(
        |(process, tid, name, start_ns, end_ns, on_cpu_ns)| Thread {
            process,
            tid,
            name,
            start_ns,
            end_ns,
            on_cpu_ns,
        },
    );
    let time_ns = prop_oneof![0..1_000_000_000_u64, any::<u64>()];
    let sample = (time_ns, any::<u32>(), any::<u32>(), any::<u16>())
        .prop_map(|(time_ns, thread, stack, cpu)| Sample { time_ns, thread, stack, cpu });
    (
        meta(),
        vec(function, 0..5),
        vec(binary(), 0..4),
        vec(frame(), 0..6),
        vec(stack, 0..6),
        vec(process, 0..3),
        vec(thread, 0..4),
        vec(sample, 0..20),
        (
            vec(blocked(), 0..8),
            vec(interval(), 0..8),
            vec(site(), 0..8),
            option::of(vec(site(), 0..8)),
        ),
    )
        .prop_map(
            |(meta, functions, binaries, frames, stacks, processes, threads, samples, off_cpu)| {
                let (blocked, intervals, sites, mapped) = off_cpu;
                fitted(Profile {
                    meta,
                    functions,
                    binaries,
                    frames,
                    stacks,
                    processes,
                    threads,
                    samples,
                    blocked,
                    intervals,
                    sites,
                    mapped,
                    sums: Vec::new(),
                })
            },
        )
}

/// Maps all ids into their tables, and drops entries that refer to an empty table.
fn fitted(mut profile: Profile) -> Profile {
    let fit = |id: &mut u32, len: usize| match (*id as usize).checked_rem(len) {
        Some(fitted) => {
            *id = fitted as u32;
            true
        }
        None => false,
    };
    let (functions, binaries) = (profile.functions.len(), profile.binaries.len());
    for frame in &mut profile.frames {
        frame.binary = frame.binary.filter(|_| binaries > 0).map(|id| id % binaries as u32);
        frame.lines.retain_mut(|line| fit(&mut line.function, functions));
    }
    profile.frames.retain(|frame| !frame.lines.is_empty());
    let frames = profile.frames.len();
    for stack in &mut profile.stacks {
        stack.frames.retain_mut(|frame| fit(frame, frames));
    }
    let (stacks, processes) = (profile.stacks.len(), profile.processes.len());
    profile.threads.retain_mut(|thread| fit(&mut thread.process, processes));
    let threads = profile.threads.len();
    for sites in iter::once(&mut profile.sites).chain(&mut profile.mapped) {
        sites.retain_mut(|site| fit(&mut site.stack, stacks) && fit(&mut site.thread, threads));
    }
    profile
        .samples
        .retain_mut(|sample| fit(&mut sample.stack, stacks) && fit(&mut sample.thread, threads));
    profile
        .blocked
        .retain_mut(|blocked| fit(&mut blocked.stack, stacks) && fit(&mut blocked.thread, threads));
    // A recording has no samples without clocks, and no blocks without the scheduler. In that case the period is
    // used only for threads with unknown time: kept away from the largest numbers.
    match profile.meta.mode {
        Mode::OnCpu => {
            profile.blocked.clear();
            profile.threads.iter_mut().for_each(|thread| thread.on_cpu_ns = None);
        }
        Mode::OffCpu => profile.samples.clear(),
        Mode::Wall => profile.meta.period %= 1 << 45,
        Mode::Heap | Mode::Pages => {
            profile.blocked.clear();
            profile.samples.clear();
        }
    }
    if !matches!(profile.meta.mode, Mode::Heap | Mode::Pages) {
        profile.sites.clear();
    }
    if profile.meta.mode != Mode::Pages {
        profile.mapped = None;
    }
    let blocked = profile.blocked.len();
    profile.intervals.retain_mut(|interval| fit(&mut interval.blocked, blocked));
    profile
}
