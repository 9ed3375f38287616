//! The accounting of time off the CPU: every switch, every block, every thread.

use std::cmp::Reverse;
use std::collections::{BTreeMap, hash_map::Entry};

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::counts::Switches;
use crate::model::{BlockTimes, Blocked, Profile, StackId, State};

/// Stacks, the user's and the kernel's half of each counted apart. Those of a thread that blocks where it
/// blocked before are not walked again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Reused {
    pub walked: u64,
    /// Stacks that were those of an earlier block.
    pub reused: u64,
    /// Of these, how many were walked all the same, to see whether that is right.
    pub checked: u64,
    /// Of those, how many had another stack.
    pub wrong: u64,
    /// Stacks that did not fit into the buffer; they are sent again with the next block.
    pub lost: u64,
    /// Blocks that lack half of their stack, because that was lost.
    pub missing: u64,
}

/// Blocks of one state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct StateSum {
    pub count: u64,
    pub total_ns: u64,
}

/// Blocks with one stack, of all threads of a name together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BlockedStack {
    pub process: String,
    /// Names of the functions, outermost first, inlined ones too; the state is the last one before any
    /// `[woken by …]`.
    pub stack: Vec<String>,
    /// As [`State::name`].
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
    /// From the start of the recording, or its birth, to the end of the one or the other.
    pub elapsed_ns: u64,
    /// On a CPU, by the scheduler's switches.
    pub on_cpu_ns: u64,
    /// Off the CPU, in blocks that were reported.
    pub off_cpu_ns: u64,
    /// Off the CPU, in blocks below the limit.
    pub below_limit_ns: u64,
    /// What is missing in these three; negative where they overlap.
    pub unaccounted_ns: i64,
    /// It slept all the time, and hardly woke.
    pub idle: bool,
}

/// The part of the summary that tells of time off the CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct OffCpu {
    /// Blocks shorter than this are not reported.
    pub min_block_ns: u64,
    /// How switches were watched: `tp_btf` or `raw_tracepoint`.
    pub back_end: &'static str,
    /// Why not by `tp_btf`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fell_back: Option<String>,
    pub switches: Switches,
    /// Stacks taken and not taken.
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

/// Blocks by stack, merged over processes of one name and over addresses of one function; most time
/// first. Short blocks have no stack and are not among them.
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

/// Blocks with a stack and their processes, merged by names of process and frames; most time first. The
/// thread and the stack are those of the first.
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
    // Stable: what is equal keeps the order of first appearance.
    rows.sort_by_key(|row| Reverse(row.1.total_ns));
    rows
}

/// The names of a stack, innermost first.
fn names(profile: &Profile, stack: StackId) -> Vec<&str> {
    profile
        .frames_of(stack)
        .flat_map(|frame| profile.functions_at(frame))
        .map(|function| function.name.as_str())
        .collect()
}
