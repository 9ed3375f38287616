//! Warnings about blocks: lost ones, incomplete or wrong stacks, and a target that never blocked.

use wingbeat_text::{duration, plural, share};

use super::{Nothing, ProfileWarning, no_samples};
use crate::{
    model::Mode,
    summary::{Summary, off_cpu::OffCpu},
};

/// Maximum share of wrong stacks among the verified reused ones.
const WRONG_SHARE_MAX: f64 = 0.01;

pub(super) fn of_blocks(
    summary: &Summary,
    off_cpu: &OffCpu,
    nothing: Option<Nothing>,
    found: &mut Vec<ProfileWarning>,
) {
    let switches = &off_cpu.switches;
    let blocks = switches.reported + switches.still_blocked;
    if blocks == 0 {
        // If samples were taken too, running all the time is not a failure.
        if summary.mode == Mode::OffCpu.name() {
            found.push(nothing_blocked(off_cpu));
        } else if switches.below_limit == 0 {
            found.extend(nothing.map(|why| no_samples(&why.text)));
        }
    } else if off_cpu.idle_hidden > 0 && summary.outputs.is_empty() {
        let cause = format!("{} slept the whole time", plural(off_cpu.idle_hidden, "thread"));
        let effect = "--hide-idle hid it, so nothing was written";
        let hidden = ProfileWarning::new("all-hidden", cause, effect, "record without it");
        found.push(hidden.failure());
    }
    if let Some(reason) = &off_cpu.fell_back {
        found.push(ProfileWarning::new(
            "fell-back",
            format!(
                "the kernel refused tp_btf for the scheduler ({reason}), so a raw tracepoint was used"
            ),
            "threads that were not scheduled during the recording are missing, and the cost is higher",
            "see `wingbeat doctor`",
        ));
    }
    let lost = switches.lost_total();
    if let Some((reason, _)) = switches.lost.iter().max_by_key(|(_, count)| **count)
        && lost > 0
    {
        let of = switches.out + switches.born + switches.begun_before;
        let (why, next_step) = match *reason {
            "buffer_full" => ("because the buffer was full", MORE_ROOM_FOR_BLOCKS),
            "thread_table_full" => (
                "because there were more threads than the table of threads holds",
                "record fewer processes",
            ),
            reason => (reason, "record for a shorter time"),
        };
        let cause =
            format!("{lost} of {of} blocks ({}) were lost, most {why}", share::part(lost, of));
        let effect = "times off the CPU are too small";
        found.push(ProfileWarning::new("blocks-lost", cause, effect, next_step));
    }
    of_reuse(off_cpu, blocks, found);
}

pub(super) const MORE_ROOM_FOR_BLOCKS: &str = "use a larger --buffer-size or a longer --min-block";

/// Hardly any block was reported.
fn nothing_blocked(off_cpu: &OffCpu) -> ProfileWarning {
    const CODE: &str = "nothing-blocked";
    let below_limit = off_cpu.switches.below_limit;
    if below_limit == 0 {
        let cause = "no thread of the target left the CPU, so nothing was written";
        let next_step = "use --mode on-cpu to see where";
        return ProfileWarning::new(CODE, cause, "it ran all the time", next_step).failure();
    }
    let (limit, sum) = (duration(off_cpu.min_block_ns), duration(off_cpu.switches.below_limit_ns));
    ProfileWarning::new(
        CODE,
        format!("all {below_limit} blocks were shorter than {limit} ({sum} in total)"),
        "the target ran nearly all the time",
        "use --mode on-cpu to see where, or a shorter --min-block to see the blocks",
    )
}

/// Lost and wrong stacks of blocks, and times that do not add up.
fn of_reuse(off_cpu: &OffCpu, blocks: u64, found: &mut Vec<ProfileWarning>) {
    let taken = &off_cpu.stacks_taken;
    if taken.missing > 0 {
        let part = share::part(taken.missing, blocks);
        let cause = format!(
            "{} of {blocks} blocks ({part}) lack a part of their stack, because the buffer was full",
            taken.missing
        );
        found.push(ProfileWarning::new("stacks-lost", cause, "", MORE_ROOM_FOR_BLOCKS));
    }
    if taken.wrong as f64 > WRONG_SHARE_MAX * taken.checked as f64 {
        let cause = format!(
            "{} of reused stacks failed the spot check ({} of {})",
            share::part(taken.wrong, taken.checked),
            taken.wrong,
            taken.checked
        );
        found.push(ProfileWarning::new("reused-wrong", cause, "outer callers may be wrong", ""));
    }
    if off_cpu.threads_off > 0 {
        let cause = format!(
            "the times of {} of {} differ from their elapsed time by more than 1 %",
            off_cpu.threads_off,
            plural(off_cpu.threads.len(), "thread")
        );
        let effect = "some of their blocks are missing or counted twice";
        found.push(ProfileWarning::new("threads-off", cause, effect, ""));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{
        advice::{tests::summary, warnings},
        counts::Switches,
        summary::off_cpu::Reused,
    };

    /// Same as [`summary`] in another mode, with a thousand blocks.
    fn blocked(mode: Mode) -> (Summary, OffCpu) {
        let off_cpu = OffCpu {
            min_block_ns: 1_000,
            switches: Switches { out: 1_000, reported: 1_000, ..Switches::default() },
            stacks_taken: Reused {
                walked: 100,
                reused: 900,
                checked: 100,
                wrong: 1,
                ..Reused::default()
            },
            ..OffCpu::default()
        };
        (Summary { mode: mode.name(), ..summary() }, off_cpu)
    }

    /// `expected` is the only warning, or empty for none.
    fn check_blocks(mode: Mode, change: fn(&mut OffCpu), is_failure: bool, expected: &str) {
        let (mut summary, mut off_cpu) = blocked(mode);
        change(&mut off_cpu);
        summary.off_cpu = Some(off_cpu);
        let samples = if mode == Mode::OffCpu { 0 } else { 99 };
        let found = warnings(&summary, samples);
        let texts: Vec<String> = found.iter().map(ProfileWarning::to_string).collect();
        assert_eq!(texts.join("\n"), expected);
        assert_eq!(found.iter().any(|it| it.is_failure), is_failure);
    }

    #[test]
    fn accounts_of_blocks_give_warnings() {
        let check = check_blocks;
        check(Mode::OffCpu, |_| (), false, "");
        check(Mode::Wall, |it| it.switches = Switches::default(), false, "");
        check(
            Mode::OffCpu,
            |it| it.switches = Switches::default(),
            true,
            "no thread of the target left the CPU, so nothing was written: it ran all the time; use \
         --mode on-cpu to see where",
        );
        check(
            Mode::OffCpu,
            |it| {
                it.switches.reported = 0;
                it.switches.below_limit = 1_000;
                it.switches.below_limit_ns = 700_000;
            },
            false,
            "all 1000 blocks were shorter than 1.00 µs (700 µs in total): the target ran nearly all the \
         time; use --mode on-cpu to see where, or a shorter --min-block to see the blocks",
        );
        check(
            Mode::Wall,
            |it| it.switches.lost = BTreeMap::from([("buffer_full", 20), ("forgotten", 1)]),
            false,
            "21 of 1000 blocks (2.1 %) were lost, most because the buffer was full: times off the CPU \
         are too small; use a larger --buffer-size or a longer --min-block",
        );
        check(
            Mode::OffCpu,
            |it| it.stacks_taken.missing = 5,
            false,
            "5 of 1000 blocks (0.50 %) lack a part of their stack, because the buffer was full; use a \
         larger --buffer-size or a longer --min-block",
        );
        check(
            Mode::OffCpu,
            |it| it.stacks_taken.wrong = 2,
            false,
            "2.0 % of reused stacks failed the spot check (2 of 100): outer callers may be wrong",
        );
        check(
            Mode::Wall,
            |it| it.threads_off = 3,
            false,
            "the times of 3 of 0 threads differ from their elapsed time by more than 1 %: some of their \
         blocks are missing or counted twice",
        );
        check(
            Mode::OffCpu,
            |it| it.idle_hidden = 1,
            true,
            "1 thread slept the whole time: --hide-idle hid it, so nothing was written; \
         record without it",
        );
    }

    #[test]
    fn what_fills_the_buffer_is_to_be_made_less() {
        let check = |mode, expected: &str| {
            let (mut summary, off_cpu) = blocked(mode);
            summary.off_cpu = mode.blocks().then_some(off_cpu);
            summary.ticks.lost = 1;
            let texts: Vec<String> =
                warnings(&summary, 99).iter().map(ProfileWarning::to_string).collect();
            assert_eq!(texts.len(), 1, "{texts:?}");
            assert!(texts.iter().all(|text| text.ends_with(expected)), "{texts:?}");
        };
        check(Mode::OnCpu, "a larger --buffer-size or a lower --frequency");
        check(Mode::OffCpu, "a larger --buffer-size or a longer --min-block");
        check(Mode::Wall, "a larger --buffer-size or a longer --min-block");
    }
}
