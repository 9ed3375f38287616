//! Symbolizes off-CPU time: from rows of raw stacks to rows of symbolized ones.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;
use wingbeat_pprof::Interner;

use super::tables::Tables;
use crate::{
    model::{
        BinaryKind, Blocked, Completeness, Durations, Frame, FrameId, Interval, Mode, Stack,
        StackId, State, ThreadId,
    },
    recorder::{
        Recorder,
        blocks::{Account, WakerId},
    },
};

/// Prefixes of the kernel's interrupt entry functions (arch/x86/include/asm/idtentry.h, arch/arm64/kernel/entry.S,
/// kernel/softirq.c): the thread running there is not the waker.
const INTERRUPTS: [&str; 7] = [
    "asm_sysvec_",
    "asm_common_interrupt",
    "sysvec_",
    "common_interrupt",
    "el0t_64_irq",
    "el1h_64_irq",
    "handle_softirqs",
];

/// Tables being built.
#[derive(Default)]
pub(super) struct Stacks {
    pub tables: Tables,
    pub frames: Vec<Frame>,
    pub stacks: Interner<Stack>,
    /// The symbolized stack of each raw one.
    pub ids: Vec<StackId>,
    state_frames: FxHashMap<String, FrameId>,
}

/// Rows and individual blocks, and the CPU time of each thread.
#[derive(Default)]
pub(super) struct OffCpu {
    pub blocked: Vec<Blocked>,
    pub intervals: Vec<Interval>,
    pub on_cpu_ns: FxHashMap<ThreadId, u64>,
}

/// Symbolizes all off-CPU time of the recorder.
pub(super) fn off_cpu(recorder: &Recorder, mode: Mode, stacks: &mut Stacks) -> OffCpu {
    let blocks = &recorder.blocks;
    let idle = blocks.idle();
    let mut rows = Rows::default();
    let wakers: Vec<Vec<FrameId>> = (0..blocks.wakers.len())
        .map(|waker| waker_frames(recorder, waker as WakerId, stacks))
        .collect();
    let row_ids: Vec<u32> = blocks
        .rows
        .iter()
        .map(|raw| {
            let is_idle = idle.contains(&raw.kind.thread);
            let state = match raw.kind.state {
                State::Sleeping if is_idle => State::Idle,
                state => state,
            };
            let mut frames = match raw.kind.waker {
                Some(waker) => wakers.get(waker as usize).cloned().unwrap_or_default(),
                None => Vec::new(),
            };
            frames.push(stacks.state_frame(state.frame()));
            let below = stacks.ids.get(raw.kind.stack as usize).copied().unwrap_or(0);
            let stack = stacks.on_top(frames, Some(below));
            rows.add(Blocked {
                thread: raw.kind.thread,
                stack,
                state,
                count: raw.durations.count(),
                total_ns: raw.total_ns,
                histogram: raw.durations.clone(),
            })
        })
        .collect();
    let intervals = blocks.intervals.iter().filter_map(|raw| {
        let blocked = *row_ids.get(raw.row as usize)?;
        Some(Interval { blocked, start_ns: raw.start_ns, end_ns: raw.end_ns })
    });
    let mut intervals: Vec<Interval> = intervals.collect();
    intervals.sort_by_key(|interval| interval.start_ns);

    let samples = recorder.samples_by_thread();
    let mut on_cpu_ns: FxHashMap<ThreadId, u64> = FxHashMap::default();
    for &Account { thread, span, .. } in &blocks.accounts {
        let mut add_sum = |state: State, total_ns, count| {
            let frame = stacks.state_frame(state.frame());
            let stack = stacks.on_top(vec![frame], None);
            let histogram = Durations::default();
            rows.add(Blocked { thread, stack, state, count, total_ns, histogram });
        };
        if span.below > 0 {
            add_sum(State::Short, span.below_ns, span.below);
        }
        if mode != Mode::Wall {
            continue;
        }
        // The thread's samples share the time, even if it is zero, as for a thread sampled during `exec`. Without
        // samples, it has its own row.
        if samples.contains_key(&thread) {
            *on_cpu_ns.entry(thread).or_default() += span.on_cpu_ns;
        } else if span.on_cpu_ns > 0 {
            add_sum(State::Running, span.on_cpu_ns, 0);
        }
    }
    OffCpu { blocked: rows.rows, intervals, on_cpu_ns }
}

/// The frames of a waker, innermost first, up to the one with its name.
fn waker_frames(recorder: &Recorder, waker: WakerId, stacks: &mut Stacks) -> Vec<FrameId> {
    let Some(waker) = recorder.blocks.wakers.get(waker as usize) else { return Vec::new() };
    let id = stacks.ids.get(waker.stack as usize).copied().unwrap_or(0);
    let frames = stacks.stacks.entries.get(id as usize).map_or(&[][..], |stack| &stack.frames);
    // The innermost frames are those of our own program.
    let watching = frames.iter().take_while(|&&frame| stacks.is_watching(frame)).count();
    let frames = frames.get(watching..).unwrap_or_default();
    let entry = frames.iter().position(|&frame| stacks.is_interrupt(frame));
    let mut frames = match entry {
        Some(entry) => frames.get(..=entry).unwrap_or_default().to_vec(),
        // An idle CPU wakes no thread except from an interrupt.
        None if waker.name.is_empty() => Vec::new(),
        None => frames.to_vec(),
    };
    let name = if entry.is_some() || waker.name.is_empty() {
        "[woken by an interrupt]".to_owned()
    } else {
        format!("[woken by {}]", waker.name)
    };
    frames.push(stacks.state_frame(&name));
    frames
}

impl Stacks {
    /// The frame of a state.
    fn state_frame(&mut self, name: &str) -> FrameId {
        if let Some(&id) = self.state_frames.get(name) {
            return id;
        }
        let binary = self.tables.special(BinaryKind::State);
        let named = self.tables.named(Some(binary), (name.to_owned(), false));
        self.frames.push(Frame { binary: named.binary, address: 0, lines: named.lines });
        let id = (self.frames.len() - 1) as FrameId;
        self.state_frames.insert(name.to_owned(), id);
        id
    }

    /// The stack with these frames on top of another's.
    fn on_top(&mut self, mut frames: Vec<FrameId>, below: Option<StackId>) -> StackId {
        let below = below.and_then(|id| self.stacks.entries.get(id as usize));
        let completeness = below.map_or(Completeness::Complete, |stack| stack.completeness);
        frames.extend(below.into_iter().flat_map(|stack| &stack.frames));
        self.stacks.id(Stack { frames, completeness })
    }

    /// Whether a frame is our program, or the kernel's call of it (include/trace/bpf_probe.h,
    /// kernel/trace/bpf_trace.c).
    fn is_watching(&self, frame: FrameId) -> bool {
        let starts = ["bpf_trace_run", "__bpf_trace_", "__traceiter_", "trace_call_bpf"];
        match self.kind(frame) {
            Some(BinaryKind::Bpf) => true,
            Some(BinaryKind::Kernel) => self.is_named(frame, &starts),
            _ => false,
        }
    }

    fn is_interrupt(&self, frame: FrameId) -> bool {
        self.kind(frame) == Some(BinaryKind::Kernel) && self.is_named(frame, &INTERRUPTS)
    }

    fn kind(&self, frame: FrameId) -> Option<BinaryKind> {
        let binary = self.frames.get(frame as usize)?.binary?;
        Some(self.tables.binaries.get(binary as usize)?.kind)
    }

    /// Whether one of its function names has one of these prefixes.
    fn is_named(&self, frame: FrameId, starts: &[&str]) -> bool {
        let lines = self.frames.get(frame as usize).map_or(&[][..], |frame| &frame.lines);
        lines.iter().any(|line| {
            let function = self.tables.functions.entries.get(line.function as usize);
            function
                .is_some_and(|function| starts.iter().any(|start| function.name.starts_with(start)))
        })
    }
}

/// Rows of the model, merged by thread, stack and state.
#[derive(Default)]
struct Rows {
    rows: Vec<Blocked>,
    ids: FxHashMap<(ThreadId, StackId, State), u32>,
}

impl Rows {
    /// Adds blocks to their row.
    fn add(&mut self, blocked: Blocked) -> u32 {
        match self.ids.entry((blocked.thread, blocked.stack, blocked.state)) {
            Entry::Occupied(known) => {
                self.rows[*known.get() as usize].merge(&blocked);
                *known.get()
            }
            Entry::Vacant(new) => {
                self.rows.push(blocked);
                *new.insert(self.rows.len() as u32 - 1)
            }
        }
    }
}
