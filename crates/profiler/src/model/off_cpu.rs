//! Off-CPU time, and its combination with the other values of a profile.

use std::ops::AddAssign;

use std::collections::HashSet;

use serde::Serialize;

use super::{Durations, Profile, StackId, ThreadId};

/// Kind of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// Samples of running code.
    #[default]
    OnCpu,
    /// Time between leaving the CPU and returning to it.
    OffCpu,
    /// Both, in nanoseconds.
    Wall,
    /// Allocations.
    Heap,
    /// Samples of page faults: first touches of memory.
    Pages,
}

impl Mode {
    /// Whether the timer clocks run.
    pub fn samples(self) -> bool {
        matches!(self, Self::OnCpu | Self::Wall | Self::Pages)
    }

    /// Whether scheduler switches are recorded.
    pub fn blocks(self) -> bool {
        matches!(self, Self::OffCpu | Self::Wall)
    }

    /// As on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OnCpu => "on-cpu",
            Self::OffCpu => "off-cpu",
            Self::Wall => "wall",
            Self::Heap => "heap",
            Self::Pages => "pages",
        }
    }
}

/// Why a thread is off the CPU, or a category of time without a stack. The innermost frame of the stacks of
/// [`Blocked`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// Waits for an event, interruptible by a signal (`TASK_INTERRUPTIBLE`).
    Sleeping,
    /// Waits for an event, not interruptible (`TASK_UNINTERRUPTIBLE`).
    Uninterruptible,
    /// Waits for a device (`in_iowait`).
    Io,
    /// Waits for a kernel lock.
    Lock,
    /// Runnable, waits for a CPU.
    Preempted,
    /// Stopped by a signal or a debugger.
    Stopped,
    /// Slept all the time, waking less than once a second: an idle worker.
    Idle,
    /// Blocks shorter than the limit, summed.
    Short,
    /// Ran without being sampled.
    Running,
}

impl State {
    /// All states, in report order.
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

    /// Text of the state's frame.
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

    /// Text of the frame without its brackets.
    pub fn title(self) -> &'static str {
        self.frame().trim_start_matches('[').trim_end_matches(']')
    }

    /// Whether the state has a stack, or is time without one.
    pub fn has_stack(self) -> bool {
        !matches!(self, Self::Short | Self::Running)
    }

    /// Name in the summary.
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

/// Sum of blocks of one thread with equal stack and state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    pub thread: ThreadId,
    /// Innermost frame first: the state, kernel frames, user frames. If the waker is known, its stack and a frame
    /// `[woken by NAME]` come before all of them.
    pub stack: StackId,
    pub state: State,
    pub count: u64,
    pub total_ns: u64,
    /// Histogram of durations. Empty if individual durations are unknown: [`State::Short`], [`State::Running`].
    pub histogram: Durations,
}

impl Blocked {
    /// Adds blocks of another thread or stack.
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

/// Number and duration of blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct BlockTimes {
    pub count: u64,
    pub total_ns: u64,
    pub p50_ns: u64,
    /// 99th percentile.
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

/// The weight of a stack of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Weight {
    pub samples: u64,
    pub on_cpu_ns: u64,
    pub blocks: u64,
    pub off_cpu_ns: u64,
    /// Total allocations, and those not freed: blocks and bytes.
    pub allocated: (u64, u64),
    pub live: (u64, u64),
    /// Address space requested, in calls and bytes, and the bytes not released.
    pub mapped: (u64, u64),
    pub kept_bytes: u64,
}

/// The summed weight of a stack of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sum {
    pub thread: ThreadId,
    pub stack: StackId,
    /// Its position on a timeline, in nanoseconds since the start of recording.
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
    /// Value summed by exporters with a single one: samples if only these were recorded, live bytes for the heap,
    /// else nanoseconds.
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
    /// The weights of all samples and of all entries of [`Profile::blocked`], [`Profile::sites`],
    /// [`Profile::mapped`] and [`Profile::sums`], in the order of these lists. Stacks and threads may repeat.
    ///
    /// A sample represents its period. If a thread's exact CPU time is known, its samples share that time.
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
                    // Divides the remaining time by the remaining samples, so that rounding loses nothing.
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

    /// Sum of all weights.
    pub(crate) fn total_weight(&self) -> Weight {
        let mut total = Weight::default();
        self.weights().for_each(|(_, weight)| total += weight);
        total
    }

    /// The profile without the blocks of threads that slept all the time, and the number of these threads.
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

    /// Keeps some entries of [`Profile::blocked`], with their intervals.
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
