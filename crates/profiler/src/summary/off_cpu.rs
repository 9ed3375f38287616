//! Accounts of off-CPU time: every switch, block and thread.

use std::cmp::Reverse;
use std::collections::{BTreeMap, hash_map::Entry};

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::counts::Switches;
use crate::model::{BlockTimes, Blocked, Profile, StackId, State};
use crate::{recorder::blocks::Span, session::Finished};

/// Counts of stacks, user and kernel halves separately. A thread that blocks again at the same place is not walked
/// again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Reused {
    pub walked: u64,
    /// Stacks reused from an earlier block.
    pub reused: u64,
    /// Reused stacks that were walked anyway, for verification.
    pub checked: u64,
    /// Verified stacks that differed.
    pub wrong: u64,
    /// Stacks that did not fit into the buffer; they are sent again with the next block.
    pub lost: u64,
    /// Blocks without half of their stack, because it was lost.
    pub missing: u64,
}

/// Blocks of one state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct StateSum {
    pub count: u64,
    pub total_ns: u64,
}

/// Blocks with one stack, over all threads of the same name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BlockedStack {
    pub process: String,
    /// Function names, outermost first, including inlined ones. The state is the last one before any `[woken by …]`.
    pub stack: Vec<String>,
    /// See [`State::name`].
    pub state: &'static str,
    #[serde(flatten)]
    pub times: BlockTimes,
}

/// The time of one thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ThreadTime {
    pub pid: u32,
    pub tid: u32,
    pub name: String,
    /// From the start of the recording or of the thread to the end of either.
    pub elapsed_ns: u64,
    /// On a CPU, according to scheduler switches.
    pub on_cpu_ns: u64,
    /// Off the CPU, in reported blocks.
    pub off_cpu_ns: u64,
    /// Off the CPU, in blocks shorter than the limit.
    pub below_limit_ns: u64,
    /// Elapsed time missing in these three; negative if they overlap.
    pub unaccounted_ns: i64,
    /// Slept all the time, and hardly woke.
    pub idle: bool,
}

/// The off-CPU part of the summary.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct OffCpu {
    /// Shorter blocks are not reported.
    pub min_block_ns: u64,
    /// Source of switches: `tp_btf` or `raw_tracepoint`.
    pub back_end: &'static str,
    /// Why `tp_btf` was not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fell_back: Option<String>,
    pub switches: Switches,
    /// Walked and reused stacks.
    pub stacks_taken: Reused,
    /// Blocks by state.
    pub states: BTreeMap<&'static str, StateSum>,
    /// Blocks by stack, most time first.
    pub stacks: Vec<BlockedStack>,
    /// Threads, most elapsed time first.
    pub threads: Vec<ThreadTime>,
    /// Threads whose sums differ from their elapsed time by more than 1 %.
    pub threads_off: u64,
    /// Idle threads whose blocks were left out (`--hide-idle`).
    pub idle_hidden: u64,
}

/// Sums by state.
pub(crate) fn states(profile: &Profile) -> BTreeMap<&'static str, StateSum> {
    let mut states: BTreeMap<&'static str, StateSum> = BTreeMap::new();
    for blocked in profile.blocked.iter().filter(|blocked| blocked.state != State::Running) {
        let sum = states.entry(blocked.state.name()).or_default();
        sum.count += blocked.count;
        sum.total_ns = sum.total_ns.saturating_add(blocked.total_ns);
    }
    states
}

/// Blocks by stack, merged over processes of the same name and over addresses of the same function, most time
/// first. Excludes short blocks, which have no stack.
pub(crate) fn stacks(profile: &Profile) -> Vec<BlockedStack> {
    merged(profile)
        .into_iter()
        .map(|(process, blocked)| BlockedStack {
            process: process.to_owned(),
            stack: names(profile, blocked.stack).into_iter().rev().map(str::to_owned).collect(),
            state: blocked.state.name(),
            times: blocked.times(),
        })
        .collect()
}

/// Blocks with a stack, with their process names, merged by names of process and frames, most time first. Thread
/// and stack are those of the first block.
pub(crate) fn merged(profile: &Profile) -> Vec<(&str, Blocked)> {
    let mut rows: Vec<(&str, Blocked)> = Vec::new();
    let mut positions: FxHashMap<(&str, State, Vec<&str>), usize> = FxHashMap::default();
    for blocked in &profile.blocked {
        if matches!(blocked.state, State::Short | State::Running) {
            continue;
        }
        let thread = profile.threads.get(blocked.thread as usize);
        let process = thread.and_then(|thread| profile.processes.get(thread.process as usize));
        let process = process.map_or("", |process| process.name.as_str());
        let key = (process, blocked.state, names(profile, blocked.stack));
        match positions.entry(key) {
            Entry::Occupied(known) => rows[*known.get()].1.merge(blocked),
            Entry::Vacant(new) => {
                new.insert(rows.len());
                rows.push((process, blocked.clone()));
            }
        }
    }
    // Stable: equal rows stay in order of first appearance.
    rows.sort_by_key(|row| Reverse(row.1.total_ns));
    rows
}

/// Names of a stack, innermost first.
fn names(profile: &Profile, stack: StackId) -> Vec<&str> {
    profile
        .frames_of(stack)
        .flat_map(|frame| profile.functions_at(frame))
        .map(|function| function.name.as_str())
        .collect()
}

/// Tolerated difference between sums and elapsed time: one part in this many.
const ELAPSED_PER_MISS: u64 = 100;
/// Below this, a percentage is meaningless: a thread may live for microseconds.
const MISS_NS_MIN: u64 = 100_000;

/// The accounts; `None` if switches were not recorded. `idle_hidden` is the number of threads left out of the profile.
pub(super) fn off_cpu(finished: &Finished, profile: &Profile, idle_hidden: u64) -> Option<OffCpu> {
    let accounts = finished.off_cpu.as_ref()?;
    let blocks = &finished.recorder.blocks;
    let idle = blocks.idle();
    let mut threads: Vec<ThreadTime> = blocks
        .accounts
        .iter()
        .map(|account| {
            let Span { pid, tid, begun_ns, end_ns, on_cpu_ns, off, below_ns, .. } = account.span;
            let elapsed_ns = end_ns.saturating_sub(begun_ns);
            let sum_ns = on_cpu_ns + off.total_ns + below_ns;
            let thread = profile.threads.get(account.thread as usize);
            ThreadTime {
                pid,
                tid,
                name: thread.map(|thread| thread.name.clone()).unwrap_or_default(),
                elapsed_ns,
                on_cpu_ns,
                off_cpu_ns: off.total_ns,
                below_limit_ns: below_ns,
                unaccounted_ns: i64::try_from(i128::from(elapsed_ns) - i128::from(sum_ns))
                    .unwrap_or(i64::MAX),
                idle: idle.contains(&account.thread),
            }
        })
        .collect();
    threads.sort_by(|a, b| b.elapsed_ns.cmp(&a.elapsed_ns).then(a.tid.cmp(&b.tid)));
    let is_off = |thread: &&ThreadTime| {
        let miss_ns = thread.unaccounted_ns.unsigned_abs();
        miss_ns > MISS_NS_MIN && miss_ns > thread.elapsed_ns / ELAPSED_PER_MISS
    };
    Some(OffCpu {
        min_block_ns: accounts.min_block_ns,
        back_end: accounts.back_end,
        fell_back: accounts.fell_back.clone(),
        switches: accounts.switches.clone(),
        stacks_taken: Reused {
            walked: accounts.walked,
            reused: accounts.reused,
            checked: blocks.checked,
            wrong: blocks.wrong,
            lost: accounts.stacks_lost,
            missing: blocks.stacks_missing,
        },
        states: states(profile),
        stacks: stacks(profile),
        threads_off: threads.iter().filter(is_off).count() as u64,
        threads,
        idle_hidden,
    })
}
