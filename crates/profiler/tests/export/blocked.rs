//! Off-CPU time in every format, with a profile small enough to check by hand.

use wingbeat_profiler::export::blocked::{BlockedRow, most_blocked};
use wingbeat_profiler::export::top::Top;
use wingbeat_profiler::export::{ExportError, Format, write};
use wingbeat_profiler::model::{
    Binary, BinaryKind, Blocked, Completeness, Durations, Frame, Function, Interval, Line, Mode,
    Profile, Stack, State,
};

use crate::small::{export, small};
use crate::{firefox, folded, golden, pprof, svg};

/// The functions of [`small`], and the stacks of its threads in all wait states.
pub(crate) fn profile(mode: Mode) -> Profile {
    let mut profile = small();
    profile.meta.mode = mode;
    let state_binary = profile.binaries.len() as u32;
    profile.binaries.push(Binary {
        kind: BinaryKind::State,
        path: "[state]".into(),
        build_id: Vec::new(),
        text: (0, 0),
        text_offset: 0,
    });
    let state_frame = |profile: &mut Profile, name: &str| {
        let function = profile.functions.len() as u32;
        profile.functions.push(Function { name: name.into(), is_symbol: false });
        let lines = vec![Line { function, file: None, line: None }];
        profile.frames.push(Frame { binary: Some(state_binary), address: 0, lines });
        profile.frames.len() as u32 - 1
    };
    let woken_by = state_frame(&mut profile, "[woken by sh 2]");
    // Time in ms, thread, and its own stack.
    let waits: [(State, u32, u64, &[u32], bool); 10] = [
        (State::Sleeping, 1, 50, &[5, 4, 2, 1, 0], true),
        (State::Sleeping, 0, 20, &[5, 2, 1, 0], false),
        (State::Uninterruptible, 2, 1, &[5], false),
        (State::Io, 2, 9, &[5, 1, 0], false),
        (State::Lock, 2, 3, &[5, 1, 0], false),
        (State::Preempted, 0, 20, &[3, 2, 1, 0], false),
        (State::Stopped, 2, 6, &[0], false),
        (State::Idle, 2, 30, &[5, 1, 0], false),
        (State::Short, 0, 2, &[], false),
        (State::Running, 1, 1, &[], false),
    ];
    for (state, thread, time_ms, own, has_waker) in waits {
        let frame = state_frame(&mut profile, state.frame());
        // From the inside: the waker's stack, outermost first, its name, the state, the thread's own stack.
        let mut frames = if has_waker { vec![4, 2, woken_by] } else { Vec::new() };
        frames.push(frame);
        frames.extend(own);
        profile.stacks.push(Stack { frames, completeness: Completeness::Complete });
        let is_sum = matches!(state, State::Short | State::Running);
        let mut histogram = Durations::default();
        if !is_sum {
            histogram.record(time_ms * 750_000);
            histogram.record(time_ms * 250_000);
            profile.intervals.push(Interval {
                blocked: profile.blocked.len() as u32,
                start_ns: 30_000_000,
                end_ns: 30_000_000 + time_ms * 750_000,
            });
        }
        profile.blocked.push(Blocked {
            thread,
            stack: profile.stacks.len() as u32 - 1,
            state,
            count: if is_sum { 40 } else { 2 },
            total_ns: time_ms * 1_000_000,
            histogram,
        });
    }
    match mode {
        Mode::OnCpu | Mode::Heap | Mode::Pages => {}
        Mode::OffCpu => profile.samples.clear(),
        // Sums that do not divide evenly among samples.
        Mode::Wall => profile.threads[0].on_cpu_ns = Some(40_000_001),
    }
    profile
}

fn text(profile: &Profile, format: Format) -> String {
    let bytes = export(profile, format);
    match format {
        Format::FlameGraph => svg::parse(&bytes).text(),
        Format::Pprof => pprof::Pprof::read(&bytes).dump(),
        Format::Folded => String::from_utf8(bytes).unwrap(),
        Format::Firefox { .. } => {
            let markers = firefox::markers(&serde_json::from_slice(&bytes).unwrap());
            markers.join("\n") + "\n"
        }
    }
}

#[test]
fn matches_the_golden_files() {
    let check = |mode, format, name: &str| golden::check(name, &text(&profile(mode), format));
    check(Mode::OffCpu, Format::Folded, "off-cpu.folded");
    check(Mode::OffCpu, Format::FlameGraph, "off-cpu.svg.txt");
    check(Mode::OffCpu, Format::Pprof, "off-cpu.pprof.txt");
    check(Mode::OffCpu, Format::Firefox { gzip: false }, "off-cpu.firefox.txt");
    check(Mode::Wall, Format::Folded, "wall.folded");
    check(Mode::Wall, Format::FlameGraph, "wall.svg.txt");
    check(Mode::Wall, Format::Pprof, "wall.pprof.txt");
}

#[test]
fn sums_are_those_of_the_profile() {
    let check = |mode, expected: u64| {
        let profile = profile(mode);
        let lines = folded::parse(&export(&profile, Format::Folded));
        assert_eq!(lines.iter().map(|(_, value)| value).sum::<u64>(), expected);
        assert_eq!(Top::of(&profile, 3).total, expected);
    };
    check(Mode::OffCpu, 141_000_000);
    // 40 ms and 1 ns from switches; six samples of 10 ms; 1 ms without a sample.
    check(Mode::Wall, 141_000_000 + 40_000_001 + 60_000_000 + 1_000_000);
}

#[test]
fn most_blocked_time_comes_first() {
    let rows = most_blocked(&profile(Mode::OffCpu), 3);
    let shown = |row: &BlockedRow| {
        let waker = row.woken_by.as_deref().unwrap_or("nobody");
        let (place, times) = (row.functions.join(" < "), row.times);
        format!(
            "{} {} {} {waker} {} {}",
            row.process, row.state, place, times.total_ns, times.max_ns
        )
    };
    assert_eq!(
        rows.iter().map(shown).collect::<Vec<_>>(),
        [
            "amicable sleeping <amicable::Pairs<'_> as core::iter::Iterator>::next < amicable::main \
             sh 2 50000000 37500000",
            "sh; <odd> 1 idle libc.so.6+0x2724a nobody 30000000 22500000",
            "amicable sleeping amicable::main nobody 20000000 15000000",
        ]
    );
    assert_eq!(
        (rows[0].times.count, rows[0].times.p50_ns, rows[0].times.p99_ns),
        (2, 12_582_911, 37_500_000)
    );
}

#[test]
fn threads_without_samples_have_their_markers() {
    let document = firefox::document(&profile(Mode::OffCpu));
    assert_eq!(firefox::total(&document), 0);
    assert_eq!(firefox::markers(&document).len(), 8);
    assert_eq!(document["meta"]["initialVisibleThreads"].as_array().map(Vec::len), Some(3));
}

#[test]
fn nothing_to_draw_is_an_error_of_its_mode() {
    let check = |mode, expected: &str| {
        let mut profile = profile(mode);
        profile.samples.clear();
        profile.blocked.clear();
        profile.intervals.clear();
        let error = write(&profile, Format::FlameGraph, &mut Vec::new()).unwrap_err();
        assert!(matches!(error, ExportError::NoSamples(found) if found == mode));
        assert!(error.to_string().starts_with(expected), "{error}");
    };
    check(Mode::OnCpu, "the profile holds no samples");
    check(Mode::OffCpu, "no thread left the CPU for long enough");
    check(Mode::Wall, "the profile holds no time");
}

#[test]
fn threads_of_a_name_are_merged() {
    let mut profile = profile(Mode::OffCpu);
    let mut other = profile.blocked[0].clone();
    other.thread = 0;
    other.histogram.record(90_000_000);
    other.count += 1;
    other.total_ns += 90_000_000;
    // Equal names at another address.
    let mut stack = profile.stacks[other.stack as usize].clone();
    let mut frame = profile.frames[2].clone();
    frame.address += 4;
    profile.frames.push(frame);
    let moved = profile.frames.len() as u32 - 1;
    stack.frames.iter_mut().filter(|frame| **frame == 2).for_each(|frame| *frame = moved);
    profile.stacks.push(stack);
    other.stack = profile.stacks.len() as u32 - 1;
    profile.blocked.push(other);
    let rows = most_blocked(&profile, usize::MAX);
    assert_eq!(rows.len(), 8);
    assert_eq!((rows[0].times.count, rows[0].times.total_ns), (5, 190_000_000));
    // Of 12.5, 12.5, 37.5, 37.5 and 90 ms, the median by its bucket.
    assert!(
        (37_500_000..=37_500_000 * 33 / 32).contains(&rows[0].times.p50_ns),
        "{}",
        rows[0].times.p50_ns
    );
    assert_eq!((rows[0].times.p99_ns, rows[0].times.max_ns), (90_000_000, 90_000_000));
}
