//! Pairs of readings and their differences.

use proptest::prelude::*;

use super::*;

/// Program info with counters: id, tag, load time, runs, time.
fn info(id: u32, tag: u8, loaded_at_ns: u64, run_count: u64, run_time_ns: u64) -> ProgramInfo {
    ProgramInfo {
        id,
        tag: [tag; 8],
        loaded_at_ns,
        run_time_ns,
        run_count,
        ..ProgramInfo::default()
    }
}

fn reading(at_ns: u64, infos: &[ProgramInfo]) -> Reading {
    let entries = infos.iter().map(|info| (info.id, Entry { at_ns, info: info.clone() }));
    Reading { at_ns, entries: entries.collect() }
}

const SECOND: u64 = 1_000_000_000;

#[test]
fn what_a_program_did() {
    let check = |before: ProgramInfo, after: ProgramInfo, goes_on, expected| {
        let change = Change::between(&reading(SECOND, &[before]), &reading(3 * SECOND, &[after]));
        let found = change.programs[0].rates.map(|rates| (rates.runs, rates.run_time_ns));
        assert_eq!(found, expected, "{change:?}");
        let (appeared, vanished) = (change.appeared.is_empty(), change.vanished.is_empty());
        assert_eq!((appeared, vanished), (goes_on, goes_on), "{change:?}");
    };
    // It ran; it did not run.
    check(info(7, 1, 5, 10, 1_000), info(7, 1, 5, 30, 3_000), true, Some((20, 2_000)));
    check(info(7, 1, 5, 10, 1_000), info(7, 1, 5, 10, 1_000), true, Some((0, 0)));
    // The id was reused by a program loaded in between: all of its activity counts.
    check(info(7, 1, 5, 10, 1_000), info(7, 2, 2 * SECOND, 4, 400), false, Some((4, 400)));
    // The same code, loaded again.
    check(info(7, 1, 5, 10, 1_000), info(7, 1, 2 * SECOND, 12, 1_200), false, Some((12, 1_200)));
    // A different program, older than the first reading, which missed it.
    check(info(7, 1, 5, 10, 1_000), info(7, 2, 6, 40, 4_000), false, None);
    // Counters of the same program never decrease.
    check(info(7, 1, 5, 10, 1_000), info(7, 1, 5, 9, 1_100), false, None);
    check(info(7, 1, 5, 10, 1_000), info(7, 1, 5, 11, 900), false, None);
}

#[test]
fn programs_come_and_go() {
    let before = reading(SECOND, &[info(1, 1, 5, 0, 0), info(2, 2, 5, 3, 30), info(9, 3, 5, 0, 0)]);
    let after = reading(
        2 * SECOND,
        &[info(1, 1, 5, 0, 0), info(3, 4, SECOND + 1, 6, 60), info(9, 8, SECOND + 2, 0, 0)],
    );
    let change = Change::between(&before, &after);
    assert_eq!(change.interval_ns, SECOND);
    assert_eq!(change.appeared, [3, 9]);
    let vanished: Vec<_> = change.vanished.iter().map(|info| (info.id, info.tag[0])).collect();
    assert_eq!(vanished, [(2, 2), (9, 3)]);
    let ids: Vec<_> = change.programs.iter().map(|counted| counted.info.id).collect();
    assert_eq!(ids, [1, 3, 9]);
}

#[test]
fn derived_figures() {
    let rates =
        Rates { interval_ns: 2 * SECOND, runs: 4_000, run_time_ns: 100_000, recursion_misses: 0 };
    assert!((rates.runs_per_s() - 2_000.0).abs() < 1e-9);
    assert_eq!(rates.time_per_run_ns(), Some(25.0));
    assert!((rates.cpu_percent() - 0.005).abs() < 1e-12);
    // Two CPUs busy all the time.
    let busy = Rates { run_time_ns: 4 * SECOND, ..rates };
    assert!((busy.cpu_percent() - 200.0).abs() < 1e-9);
    let idle = Rates { runs: 0, run_time_ns: 0, ..rates };
    assert_eq!(idle.time_per_run_ns(), None);
    let nothing = Rates { interval_ns: 0, ..rates };
    assert!(nothing.runs_per_s() == 0.0 && nothing.cpu_percent() == 0.0);
}

#[test]
fn the_clock_that_stands_still_gives_no_rates() {
    let program = info(7, 1, 5, 10, 1_000);
    let one = reading(SECOND, std::slice::from_ref(&program));
    assert_eq!(Change::between(&one, &one).programs[0].rates, None);
    // The clock must not go backwards either.
    let change = Change::between(&one, &reading(1, &[program]));
    assert_eq!((change.interval_ns, change.programs[0].rates), (0, None));
}

fn any_reading() -> impl Strategy<Value = Reading> {
    let number = prop_oneof![0..20_u64, any::<u64>()];
    let program = (0..6_u32, 0..3_u8, number.clone(), number.clone(), number.clone())
        .prop_map(|(id, tag, loaded, runs, time)| info(id, tag, loaded, runs, time));
    (number, proptest::collection::vec(program, 0..6))
        .prop_map(|(at_ns, programs)| reading(at_ns, &programs))
}

proptest! {
    /// For arbitrary readings: no overflow, each program of the later reading is listed once, each
    /// of the earlier one continues or has vanished, and no rate exceeds its counter.
    #[test]
    fn every_program_is_accounted_for(before in any_reading(), after in any_reading()) {
        let change = Change::between(&before, &after);
        prop_assert_eq!(change.programs.len(), after.entries.len());
        let goes_on = change.programs.len() - change.appeared.len();
        prop_assert_eq!(goes_on + change.vanished.len(), before.entries.len());
        for counted in &change.programs {
            if let Some(rates) = counted.rates {
                prop_assert!(rates.runs <= counted.info.run_count);
                prop_assert!(rates.run_time_ns <= counted.info.run_time_ns);
                prop_assert!(rates.interval_ns > 0);
                prop_assert!(rates.runs_per_s().is_finite() && rates.cpu_percent().is_finite());
            }
        }
    }
}
