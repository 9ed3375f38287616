//! Converts a recording to the off-CPU part of the summary.

use super::off_cpu::{OffCpu, Reused, ThreadTime, stacks, states};
use crate::{model::Profile, recorder::span::Span, session::Finished};

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
