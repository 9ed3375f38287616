//! Warnings about stacks that lack callers, and about unwind tables that did not fit.

use wingbeat_profiler_abi::{
    USER_FRAMES_MAX,
    unwind::layout::{BLOCK_BYTES, BLOCKS_MAX},
};
use wingbeat_text::{plural, share};

use super::{ProfileWarning, names::of_names, next_step::how_to_frame};
use crate::{
    model::BrokenReason,
    session::{TableCounts, Unwind},
    summary::{BrokenPlace, Summary, UnwindCounts},
};

/// Broken stacks below this share are normal: first instructions of programs, hand-written assembly.
const BROKEN_SHARE_MIN: f64 = 0.05;

/// Copied stacks below this share are normal: code that was mapped just before.
const COPIED_SHARE_MIN: f64 = 0.05;

/// Stacks without all of their callers, and code without names.
pub(super) fn of_stacks(summary: &Summary, found: &mut Vec<ProfileWarning>) {
    let stacks = &summary.stacks;
    let taken = stacks.complete + stacks.truncated + stacks.broken;
    let is_much = |part: u64| part as f64 >= BROKEN_SHARE_MIN * taken.max(1) as f64;
    let in_memory = stacks.broken_in(BrokenPlace::Memory).iter().map(|(_, samples)| samples).sum();
    let (names, has_frames_advice) = of_names(&summary.jit, is_much(in_memory));
    if is_much(in_memory) && !has_frames_advice {
        found.push(ProfileWarning::new(
            "stacks-broken",
            format!(
                "{} of the stacks end too early, in code that was made while it ran and keeps no frame pointers",
                share::part(in_memory, taken)
            ),
            "callers are missing there",
            how_to_frame(summary.jit.unframed),
        ));
    }
    let modules = stacks.broken_in(BrokenPlace::Build);
    let broken = modules.iter().map(|(_, samples)| samples).sum();
    if is_much(broken) {
        found.push(too_early(broken, taken, &modules, &summary.unwind));
    }
    if stacks.truncated > 0 {
        let part = share::part(stacks.truncated, taken);
        found.push(ProfileWarning::new(
            "stacks-truncated",
            format!("{part} of the stacks are deeper than {USER_FRAMES_MAX} frames and were cut"),
            "their outermost callers are missing",
            "",
        ));
    }
    found.extend(of_tables(summary, taken));
    found.extend(names);
}

/// Stacks that end in files without unwind information and frame pointers.
fn too_early(
    broken: u64,
    taken: u64,
    modules: &[(String, u64)],
    unwind: &UnwindCounts,
) -> ProfileWarning {
    let (why, next_step) = match unwind.mode == Unwind::FramePointer.name() {
        true => ("missing frame pointers", "use --unwind auto"),
        false => (
            "missing unwind information and frame pointers",
            "keep its .eh_frame section, or rebuild it with frame pointers: \
             RUSTFLAGS=\"-C force-frame-pointers=yes\" for Rust, \
             -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer for C and C++",
        ),
    };
    let named = modules.iter().take(4);
    let named = named.map(|(file, of)| format!("{file} ({})", share::part(*of, broken)));
    let files = named.collect::<Vec<_>>().join(", ");
    let part = share::part(broken, taken);
    let cause = format!("{part} of the stacks end too early, because of {why} in {files}");
    ProfileWarning::new("stacks-broken", cause, "callers are missing there", next_step)
}

/// Warns of tables that did not fit, if that affected the `taken` stacks.
fn of_tables(summary: &Summary, taken: u64) -> Option<ProfileWarning> {
    let UnwindCounts { tables, copied, .. } = &summary.unwind;
    let cut = summary.stacks.broken_by_reason.get(BrokenReason::NoTable.name());
    let cut = cut.copied().unwrap_or(0);
    let tables = tables.as_ref()?;
    let copied = (*copied).min(taken);
    let is_much = copied > 0 && copied as f64 >= COPIED_SHARE_MIN * taken as f64;
    if is_much && tables.refused + tables.evicted > 0 {
        return Some(tables_tight(tables, share::part(copied, taken), cut));
    }
    let is_much = cut > 0 && cut as f64 >= BROKEN_SHARE_MIN * taken as f64;
    is_much.then(|| {
        ProfileWarning::new(
            "stacks-copied-in-part",
            format!(
                "{} of the stacks met code whose unwind table was not built yet, and their copies did not \
                 fit into the ring buffer",
                share::part(cut, taken)
            ),
            "callers are missing there",
            "use a larger --buffer-size, such as 64M, or record for longer: tables stay once they are built",
        )
    })
}

/// The tables did not fit into their memory, so a part of the stacks was copied, and some of these copies are cut.
fn tables_tight(tables: &TableCounts, part: String, cut: u64) -> ProfileWarning {
    let &TableCounts { limit_bytes, refused, evicted, .. } = tables;
    let files = (refused > 0).then(|| format!("{} found no room", plural(refused, "file")));
    let times = plural(evicted, "time");
    let others = (evicted > 0).then(|| format!("tables made room for others {times}"));
    let both: Vec<String> = files.into_iter().chain(others).collect();
    let mib = limit_bytes >> 20;
    let cause = format!("the unwind tables did not fit into {mib}M: {}", both.join(", and "));
    let mut effect = format!("{part} of the stacks were copied instead, which costs time");
    if cut > 0 {
        effect += &format!(", and {cut} are cut where their copy ends");
    }
    let next_step = match limit_bytes < TABLES_BYTES_MAX {
        true => "use a larger --unwind-memory",
        false => "record fewer processes",
    };
    ProfileWarning::new("unwind-memory-full", cause, effect, next_step)
}

/// Maximum of `--unwind-memory`.
const TABLES_BYTES_MAX: u64 = BLOCKS_MAX as u64 * BLOCK_BYTES as u64;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{
        advice::tests::{check_ends, texts},
        summary::{
            BrokenIn,
            jit::{Nameless, Runtime},
        },
    };

    #[test]
    fn tables_that_find_no_room_are_reported_if_it_matters() {
        let check = |tables: Option<(u64, u64, u64)>, copied, cut, expected: &str| {
            let tables = tables.map(|(mib, refused, evicted)| TableCounts {
                limit_bytes: mib << 20,
                refused,
                evicted,
                ..TableCounts::default()
            });
            let texts = texts(&|summary| {
                summary.stacks.complete = 99 - cut;
                summary.stacks.broken = cut;
                summary.stacks.broken_by_reason = BTreeMap::from([("no_table_yet", cut)]);
                summary.unwind = UnwindCounts { mode: "auto", tables: tables.clone(), copied };
            });
            assert_eq!(texts.join("\n"), expected);
        };
        check(None, 0, 0, "");
        check(Some((1, 0, 0)), 99, 0, "");
        check(Some((1, 1, 1)), 4, 0, "");
        check(
            Some((1, 1, 2)),
            33,
            0,
            "the unwind tables did not fit into 1M: 1 file found no room, and tables made room for \
         others 2 times: 33.3 % of the stacks were copied instead, which costs time; use a larger \
         --unwind-memory",
        );
        check(
            Some((64, 0, 1)),
            200,
            3,
            "the unwind tables did not fit into 64M: tables made room for others 1 time: 100 % of the stacks were copied instead, which costs time, and 3 are cut where \
         their copy ends; record fewer processes",
        );
        check(Some((64, 0, 0)), 33, 4, "");
        check(
            Some((64, 0, 0)),
            33,
            5,
            "5.1 % of the stacks met code whose unwind table was not built yet, and their copies did not fit \
         into the ring buffer: callers are missing there; use a larger --buffer-size, such as 64M, or \
         record for longer: tables stay once they are built",
        );
    }

    #[test]
    fn advice_fits_what_broke() {
        let broken = |place, runtime, nameless: u64| {
            texts(&|summary| {
                summary.stacks.complete = 19;
                summary.stacks.broken = 80;
                let (reason, file) = (BrokenReason::NoFramePointer.name(), "a".to_owned());
                summary.stacks.broken_by_file = vec![BrokenIn { reason, file, count: 80, place }];
                summary.jit.unframed = runtime;
                let process = Nameless { runtime, samples: 99, nameless, ..Nameless::default() };
                summary.jit.nameless = vec![process];
            })
        };
        let java = Some(Runtime::Java);
        let with_names = "80.8 % of the stacks end too early, in code that was made while it ran";
        let rebuild = "for C and C++";
        check_ends(
            broken(BrokenPlace::Build, None, 0),
            &[("80.8 % of the stacks end too early", rebuild)],
        );
        // The file cannot be built, its kind is unknown, or no information is missing.
        check_ends(
            broken(BrokenPlace::Memory, java, 0),
            &[(with_names, "-XX:+PreserveFramePointer")],
        );
        check_ends(
            broken(BrokenPlace::Memory, None, 0),
            &[(with_names, "a flag for frame pointers")],
        );
        check_ends(broken(BrokenPlace::Unknown, None, 0), &[]);
        check_ends(broken(BrokenPlace::NewStack, None, 0), &[]);
        // One warning covers both.
        check_ends(
            broken(BrokenPlace::Memory, java, 90),
            &[("90.9 % of the samples", "PreserveFramePointer")],
        );
    }
}
