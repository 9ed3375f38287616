//! Properties of every profile: no exporter panics, and none loses or invents a sample.

use proptest::prelude::*;
use wingbeat_profiler::diff::{self, Scaling};
use wingbeat_profiler::export::top::Top;
use wingbeat_profiler::export::{ExportError, Format, HeapFacts, write, write_dhat};
use wingbeat_profiler::model::{Blocked, Durations, Interval, Mode, Profile, State};

use crate::small::{export, small};
use crate::{arbitrary, firefox, folded, pprof, svg};

/// Expected total of exporters with a single value.
fn value(profile: &Profile) -> u64 {
    profile.weights().map(|(_, weight)| weight.value(profile.meta.mode)).sum()
}

proptest! {
    #[test]
    fn collapsed_stacks_keep_the_total(profile in arbitrary::profile()) {
        let lines = folded::parse(&export(&profile, Format::Folded));
        let total: u64 = lines.iter().map(|(_, count)| count).sum();
        prop_assert_eq!(total, value(&profile));
        prop_assert!(lines.is_sorted_by(|(a, _), (b, _)| a < b));
    }

    #[test]
    fn flame_graphs_keep_the_total(profile in arbitrary::profile()) {
        let mut bytes = Vec::new();
        match write(&profile, Format::FlameGraph, &mut bytes) {
            Ok(()) => prop_assert_eq!(svg::parse(&bytes).total, value(&profile)),
            Err(ExportError::NoSamples(_)) => prop_assert_eq!(value(&profile), 0),
            Err(error) => prop_assert!(false, "{}", error),
        }
    }

    #[test]
    fn pprof_keeps_the_total(profile in arbitrary::profile()) {
        let totals = pprof::Pprof::read(&export(&profile, Format::Pprof)).totals();
        match profile.meta.mode {
            Mode::OnCpu => {
                prop_assert_eq!(totals[0], profile.samples.len() as u128);
                let exact = totals[0] * u128::from(profile.meta.period);
                prop_assert!(totals[1] == exact || profile.meta.period > i64::MAX as u64 / 20);
            }
            Mode::OffCpu => prop_assert_eq!(totals[1], value(&profile).into()),
            Mode::Pages => {
                let touched = profile.heap_sum(|site| site.at_end);
                // Address space values come first, if recorded.
                let first = totals.len() - 2;
                prop_assert_eq!(first == 3, profile.mapped.is_some());
                prop_assert_eq!(totals[first], touched.blocks().into());
                prop_assert_eq!(totals[first + 1], touched.bytes().into());
                if first == 0 {
                    return Ok(());
                }
                let mapped = profile.mapped_sites().iter().map(|site| u128::from(site.total.bytes()));
                prop_assert_eq!(totals[1], mapped.sum());
            }
            Mode::Heap => {
                let total = profile.heap_sum(|site| site.total);
                prop_assert_eq!(totals[0], total.blocks().into());
                prop_assert_eq!(totals[1], total.bytes().into());
                prop_assert_eq!(totals[3], value(&profile).into());
            }
            Mode::Wall => {
                prop_assert_eq!(totals[0], profile.samples.len() as u128);
                prop_assert_eq!(totals[1] + totals[3], totals[4]);
                prop_assert_eq!(totals[4], value(&profile).into());
            }
        }
    }

    #[test]
    fn dhat_keeps_the_total(profile in arbitrary::profile()) {
        let facts = HeapFacts { pid: 1, mode: String::new(), peak_ns: Some(0) };
        let mut bytes = Vec::new();
        write_dhat(&profile, &facts, &mut bytes).unwrap();
        let file: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        let frames = file["ftbl"].as_array().unwrap().len() as u64;
        let mut sums = [0; 3];
        for point in file["pps"].as_array().unwrap() {
            for (sum, key) in sums.iter_mut().zip(["tb", "gbk", "eb"]) {
                *sum += point[key].as_u64().unwrap();
            }
            let is_there = |at: &serde_json::Value| at.as_u64().unwrap() < frames;
            prop_assert!(point["fs"].as_array().unwrap().iter().all(is_there));
        }
        prop_assert_eq!(sums[0], profile.heap_sum(|site| site.total).bytes());
        prop_assert_eq!(sums[1], profile.heap_sum(|site| site.at_peak).blocks());
        prop_assert_eq!(sums[2], profile.heap_sum(|site| site.at_end).bytes());
    }

    #[test]
    fn firefox_keeps_the_total(profile in arbitrary::profile()) {
        let document = firefox::document(&profile);
        prop_assert_eq!(firefox::total(&document), profile.samples.len() as i64);
        prop_assert_eq!(firefox::markers(&document).len(), profile.intervals.len());
    }

    #[test]
    fn the_top_functions_have_no_more_than_the_total(profile in arbitrary::profile()) {
        let top = Top::of(&profile, usize::MAX);
        let own: u64 = top.by_self.iter().map(|row| row.own).sum();
        prop_assert!(own <= top.total);
        prop_assert!(top.by_total.iter().all(|row| row.own <= row.total));
        prop_assert!(top.by_total.iter().all(|row| row.total <= top.total));
    }

    #[test]
    fn diff_reads_the_same_stacks_from_both_formats(profile in arbitrary::profile()) {
        let (folded, pprof) = (export(&profile, Format::Folded), export(&profile, Format::Pprof));
        match diff::functions([("a.folded", &folded), ("a.pb.gz", &pprof)]) {
            Ok((explanation, _)) => {
                prop_assert!(explanation.whole().before > 0.0);
                prop_assert!(explanation.blame.iter().all(|(_, it)| it.before == it.after));
            }
            Err(error) if is_empty(&error) => prop_assert_eq!(value(&profile), 0),
            Err(error) => prop_assert!(false, "{}", error),
        }
    }

    #[test]
    fn diff_draws_any_two_profiles(a in arbitrary::profile(), b in arbitrary::profile()) {
        let (before, after) = (export(&a, Format::Folded), export(&b, Format::Folded));
        let mut bytes = Vec::new();
        let files = [("a.folded", &*before), ("b.folded", &*after)];
        match diff::differential_svg(files, Scaling::ToAfter, &mut bytes) {
            Ok(_) => prop_assert_eq!(svg::parse(&bytes).total, value(&b)),
            Err(error) if is_empty(&error) => prop_assert!(value(&a) == 0 || value(&b) == 0),
            Err(error) => {
                let text = error.to_string();
                prop_assert!(text.starts_with("a.folded and b.folded: the profiles have "), "{text}");
            }
        }
    }

    #[test]
    fn diff_survives_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for name in ["a.pb.gz", "a.folded"] {
            let _ = diff::functions([(name, &bytes), (name, &bytes)]);
        }
    }

    #[test]
    fn diff_survives_damaged_profiles(at in any::<usize>(), byte in any::<u8>(), cut in any::<usize>()) {
        let packed = export(&small(), Format::Pprof);
        let mut bytes = unpacked(&packed);
        let len = bytes.len();
        bytes[at % len] = byte;
        bytes.truncate(len - cut % 16);
        let files = [("a.pb", &*bytes), ("b.pb", &*packed)];
        let _ = diff::differential_svg(files, Scaling::ToAfter, &mut Vec::new());
    }
}

fn is_empty(error: &anyhow::Error) -> bool {
    error.to_string().contains(": holds no samples")
}

fn unpacked(packed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    std::io::copy(&mut flate2::read::GzDecoder::new(packed), &mut bytes).unwrap();
    bytes
}

#[test]
fn ids_outside_their_tables_are_errors() {
    let check = |break_it: fn(&mut Profile), expected: &str| {
        let mut profile = small();
        break_it(&mut profile);
        let error = write(&profile, Format::Folded, &mut Vec::new()).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("the profile is inconsistent: it refers to {expected}")
        );
        // The function table is built before any file is written.
        Top::of(&profile, 10);
    };
    check(|it| it.samples[0].stack = 99, "entry 99 of 6 stacks");
    check(|it| it.samples[0].thread = 3, "entry 3 of 3 threads");
    check(|it| it.threads[0].process = 2, "entry 2 of 2 processes");
    check(|it| *it = with(it, |blocked| blocked.stack = 6), "entry 6 of 6 stacks");
    check(|it| *it = with(it, |blocked| blocked.thread = 3), "entry 3 of 3 threads");
    check(
        |it| it.intervals.push(Interval { blocked: 0, start_ns: 0, end_ns: 1 }),
        "entry 0 of 0 blocked stacks",
    );
    check(|it| it.stacks[0].frames[0] = 8, "entry 8 of 8 frames");
    check(|it| it.frames[0].binary = Some(4), "entry 4 of 4 binaries");
    check(|it| it.frames[0].lines[0].function = 8, "entry 8 of 8 functions");
}

/// The profile with a modified block.
fn with(profile: &Profile, change: fn(&mut Blocked)) -> Profile {
    let mut profile = profile.clone();
    let mut blocked = Blocked {
        thread: 0,
        stack: 0,
        state: State::Sleeping,
        count: 1,
        total_ns: 1,
        histogram: Durations::default(),
    };
    change(&mut blocked);
    profile.blocked.push(blocked);
    profile
}
