//! The time that threads spent off the CPU, and what it is merged with in a profile.

use std::ops::AddAssign;

use std::collections::HashSet;

use serde::Serialize;

use super::{Durations, Profile, StackId, ThreadId};

/// What a recording measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// Samples of what runs.
    #[default]
    OnCpu,
    /// The time between going off the CPU and coming back.
    OffCpu,
    /// Both, in nanoseconds.
    Wall,
    /// Allocations.
    Heap,
    /// Samples of page faults: where memory is touched first.
    Pages,
}

impl Mode {
    /// Are the clocks running?
    pub fn samples(self) -> bool {
        matches!(self, Self::OnCpu | Self::Wall | Self::Pages)
    }

    /// Is the scheduler watched?
    pub fn blocks(self) -> bool {
        matches!(self, Self::OffCpu | Self::Wall)
    }

    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::OnCpu => "on-cpu",
            Self::OffCpu => "off-cpu",
            Self::Wall => "wall",
            Self::Heap => "heap",
            Self::Pages => "pages",
        }
    }
}

/// Why a thread is not on a CPU, or what stands for time without a stack. It is the innermost frame of
/// the stacks of [`Blocked`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// Waits for an event, and a signal would wake it (`TASK_INTERRUPTIBLE`).
    Sleeping,
    /// Waits for an event, and a signal would not wake it (`TASK_UNINTERRUPTIBLE`).
    Uninterruptible,
    /// Waits for a device (`in_iowait`).
    Io,
    /// Waits for a lock of the kernel.
    Lock,
    /// Could run, and waits for a CPU.
    Preempted,
    /// Stopped by a signal or a debugger.
    Stopped,
    /// Slept all the time, waking less than once a second: a worker without work.
    Idle,
    /// Blocks shorter than the limit, summed.
    Short,
    /// Ran, but no sample fell into it.
    Running,
}

impl State {
    /// All states, in the order of reports.
    pub const ALL: [Self; 9] = [
        Self::Sleeping,
        Self::Uninterruptible,
        Self::Io,
        Self::Lock,
        Self::Preempted,
        Self::Stopped,
        Self::Idle,
        Self::Short,
        Self::Running,
    ];

    /// The text of its frame.
    pub fn frame(self) -> &'static str {
        match self {
            Self::Sleeping => "[sleeping]",
            Self::Uninterruptible => "[uninterruptible]",
            Self::Io => "[waiting for I/O]",
            Self::Lock => "[waiting for a kernel lock]",
            Self::Preempted => "[preempted]",
            Self::Stopped => "[stopped]",
            Self::Idle => "[idle]",
            Self::Short => "[short blocks]",
            Self::Running => "[running]",
        }
    }

    /// The same without the brackets that mark it among functions.
    pub fn title(self) -> &'static str {
        self.frame().trim_start_matches('[').trim_end_matches(']')
    }

    /// Does it come with a stack, or stand for time without one?
    pub fn has_stack(self) -> bool {
        !matches!(self, Self::Short | Self::Running)
    }

    /// Its name in the summary.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sleeping => "sleeping",
            Self::Uninterruptible => "uninterruptible",
            Self::Io => "io",
            Self::Lock => "kernel_lock",
            Self::Preempted => "preempted",
            Self::Stopped => "stopped",
            Self::Idle => "idle",
            Self::Short => "short",
            Self::Running => "running",
        }
    }
}

/// Blocks of one thread, with the same stack and in the same state, added up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    pub thread: ThreadId,
    /// Where, innermost frame first: that of the state, then kernel frames, then user frames. If the
    /// waker is known, its stack and a frame `[woken by NAME]` stand before all of them.
    pub stack: StackId,
    pub state: State,
    pub count: u64,
    pub total_ns: u64,
    /// How long each took. Empty where single durations are not known: [`State::Short`],
    /// [`State::Running`].
    pub histogram: Durations,
}

impl Blocked {
    /// Adds others, which had another thread or stack.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.histogram.merge(&other.histogram);
    }

    pub(crate) fn times(&self) -> BlockTimes {
        let Self { count, total_ns, ref histogram, .. } = *self;
        let [p50_ns, p99_ns] = [0.5, 0.99].map(|share| histogram.quantile_ns(share));
        BlockTimes { count, total_ns, p50_ns, p99_ns, max_ns: histogram.max_ns() }
    }
}

/// How often threads were blocked, and how long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct BlockTimes {
    pub count: u64,
    pub total_ns: u64,
    pub p50_ns: u64,
    /// What one in a hundred exceeds.
    pub p99_ns: u64,
    pub max_ns: u64,
}

/// One block, for timelines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// Index into [`Profile::blocked`]: thread, stack and state.
    pub blocked: u32,
    /// Nanoseconds since the start of recording.
    pub start_ns: u64,
    /// Nanoseconds since the start of recording.
    pub end_ns: u64,
}

/// What a stack of a thread weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Weight {
    pub samples: u64,
    pub on_cpu_ns: u64,
    pub blocks: u64,
    pub off_cpu_ns: u64,
    /// All that was allocated, and what of it was not freed: blocks and bytes.
    pub allocated: (u64, u64),
    pub live: (u64, u64),
    /// Address space that was asked for: calls and bytes; and the bytes of it that were not given back.
    pub mapped: (u64, u64),
    pub kept_bytes: u64,
}

/// What a stack of a thread weighs, added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sum {
    pub thread: ThreadId,
    pub stack: StackId,
    /// Where it is drawn in a timeline, nanoseconds since the start of recording.
    pub time_ns: u64,
    pub weight: Weight,
}

impl AddAssign for Weight {
    fn add_assign(&mut self, other: Self) {
        self.samples = self.samples.saturating_add(other.samples);
        self.on_cpu_ns = self.on_cpu_ns.saturating_add(other.on_cpu_ns);
        self.blocks = self.blocks.saturating_add(other.blocks);
        self.off_cpu_ns = self.off_cpu_ns.saturating_add(other.off_cpu_ns);
        self.kept_bytes = self.kept_bytes.saturating_add(other.kept_bytes);
        for (sum, other) in [
            (&mut self.allocated, other.allocated),
            (&mut self.live, other.live),
            (&mut self.mapped, other.mapped),
        ] {
            *sum = (sum.0.saturating_add(other.0), sum.1.saturating_add(other.1));
        }
    }
}

impl Weight {
    /// What exporters of one number add up: samples if only these were taken, live bytes of the heap, else
    /// nanoseconds.
    pub fn value(&self, mode: Mode) -> u64 {
        match mode {
            Mode::OnCpu => self.samples,
            Mode::OffCpu => self.off_cpu_ns,
            Mode::Wall => self.on_cpu_ns.saturating_add(self.off_cpu_ns),
            Mode::Heap | Mode::Pages => self.live.1,
        }
    }
}

impl Profile {
    /// The weight of each sample and of each entry of [`Profile::blocked`], [`Profile::sites`],
    /// [`Profile::mapped`] and [`Profile::sums`], by order of these lists; the same stack and thread may come again.
    ///
    /// A sample stands for its period. Where the time of its thread on the CPU is known exactly, the
    /// samples of the thread share that time.
    pub fn weights(&self) -> impl Iterator<Item = ((StackId, ThreadId), Weight)> {
        let mut left: Vec<(u64, u64)> = vec![(0, 0); self.threads.len()];
        for sample in &self.samples {
            if let Some((samples, _)) = left.get_mut(sample.thread as usize) {
                *samples += 1;
            }
        }
        for ((_, time_ns), thread) in left.iter_mut().zip(&self.threads) {
            *time_ns = thread.on_cpu_ns.unwrap_or(0);
        }
        let samples = self.samples.iter().map(move |sample| {
            let exact =
                self.threads.get(sample.thread as usize).and_then(|thread| thread.on_cpu_ns);
            let on_cpu_ns = match (exact, left.get_mut(sample.thread as usize)) {
                (Some(_), Some((samples, time_ns))) => {
                    // What is left over what is left: rounding loses nothing.
                    let share_ns = *time_ns / (*samples).max(1);
                    *samples = samples.saturating_sub(1);
                    *time_ns -= share_ns;
                    share_ns
                }
                _ => self.meta.period,
            };
            let weight = Weight { samples: 1, on_cpu_ns, ..Weight::default() };
            ((sample.stack, sample.thread), weight)
        });
        let blocked = self.blocked.iter().map(|blocked| {
            let weight = match blocked.state {
                State::Running => Weight { on_cpu_ns: blocked.total_ns, ..Weight::default() },
                _ => Weight {
                    blocks: blocked.count,
                    off_cpu_ns: blocked.total_ns,
                    ..Weight::default()
                },
            };
            ((blocked.stack, blocked.thread), weight)
        });
        let sites = self.sites.iter().map(|site| {
            let weight = Weight {
                allocated: (site.total.blocks(), site.total.bytes()),
                live: (site.at_end.blocks(), site.at_end.bytes()),
                ..Weight::default()
            };
            ((site.stack, site.thread), weight)
        });
        let mapped = self.mapped_sites().iter().map(|site| {
            let weight = Weight {
                mapped: (site.total.blocks(), site.total.bytes()),
                kept_bytes: site.at_end.bytes(),
                ..Weight::default()
            };
            ((site.stack, site.thread), weight)
        });
        let sums = self.sums.iter().map(|sum| ((sum.stack, sum.thread), sum.weight));
        samples.chain(blocked).chain(sites).chain(mapped).chain(sums)
    }

    /// The profile without the blocks of threads that slept all the time, and how many threads these
    /// were.
    pub fn without_idle(&self) -> (Self, u64) {
        let mut shown = self.clone();
        let mut hidden = HashSet::new();
        shown.retain_blocked(|blocked| {
            let is_idle = blocked.state == State::Idle;
            if is_idle {
                hidden.insert(blocked.thread);
            }
            !is_idle
        });
        (shown, hidden.len() as u64)
    }

    /// Keeps some entries of [`Profile::blocked`], and the intervals that are theirs.
    pub(crate) fn retain_blocked(&mut self, mut keep: impl FnMut(&Blocked) -> bool) {
        let mut kept = 0;
        let mut ids = Vec::with_capacity(self.blocked.len());
        self.blocked.retain(|blocked| {
            let is_kept = keep(blocked);
            ids.push(is_kept.then_some(kept));
            kept += u32::from(is_kept);
            is_kept
        });
        self.intervals.retain_mut(|interval| match ids.get(interval.blocked as usize) {
            Some(&Some(id)) => {
                interval.blocked = id;
                true
            }
            _ => false,
        });
    }

    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
            && self.blocked.is_empty()
            && self.sites.is_empty()
            && self.mapped_sites().is_empty()
            && self.sums.is_empty()
    }
}
