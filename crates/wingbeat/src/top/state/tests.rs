//! Sequences of keys and measurements, and the resulting state.

use wingbeat_bpf_bench::live::{Vanished, change::Rates};
use wingbeat_bpf_loader::{ProgramType, fd_holders::Owner, program::ProgramInfo};

use super::*;
use crate::top::columns::Column;

/// A program over one second.
pub(in crate::top) fn program(
    id: u32,
    r#type: ProgramType,
    name: &str,
    counts: Option<(u64, u64)>,
) -> ProgramReport {
    let info =
        ProgramInfo { id, r#type, tag: [0xa0, 1, 2, 3, 4, 5, 6, 7], ..ProgramInfo::default() };
    let rates = counts.map(|(runs, run_time_ns)| Rates {
        interval_ns: 1_000_000_000,
        runs,
        run_time_ns,
        recursion_misses: 0,
    });
    ProgramReport::new(&info, name, rates, Some(25.0))
}

pub(in crate::top) fn owned(program: ProgramReport, pid: u32, name: &str) -> ProgramReport {
    program.with_holders(&[Owner { pid, name: name.to_owned() }], &[])
}

pub(in crate::top) fn report(programs: Vec<ProgramReport>) -> LiveReport {
    LiveReport { empty_run_ns: Some(25.0), ..LiveReport::new(programs, 2, 1_000_000_000) }
}

/// Four programs; by CPU the order is 7, 3, 12, 4.
pub(in crate::top) fn four() -> LiveReport {
    report(vec![
        owned(
            program(3, ProgramType::XDP, "fun_xdp_v3", Some((200_012, 12_680_760))),
            812,
            "agent",
        ),
        program(4, ProgramType::XDP, "fun_xdp_v4", Some((0, 0))),
        owned(
            program(
                7,
                ProgramType::SCHED_CLS,
                "count_packets_by_source",
                Some((1_000_000, 25_000_000)),
            ),
            4_711,
            "cilium-agent",
        ),
        program(12, ProgramType::CGROUP_SKB, "", Some((3, 900))),
    ])
}

fn state() -> State {
    State::new(four(), Sort::by(Column::Cpu), String::new())
}

fn ids(state: &State) -> Vec<u32> {
    state.rows().iter().map(|program| program.id).collect()
}

#[test]
fn orders() {
    let check = |steps: &[Step], expected: &[u32]| {
        let mut state = state();
        for step in steps {
            assert_eq!(state.apply(*step), Flow::Continue);
        }
        assert_eq!(ids(&state), expected, "{steps:?}");
    };
    let right = Step::SortByNeighbour { to_the_right: true };
    let left = Step::SortByNeighbour { to_the_right: false };
    check(&[], &[7, 3, 12, 4]);
    check(&[Step::Reverse], &[4, 12, 3, 7]);
    check(&[Step::SortBy(Column::Id)], &[3, 4, 7, 12]);
    check(&[Step::SortBy(Column::Id), Step::Reverse], &[12, 7, 4, 3]);
    check(&[Step::SortBy(Column::Name)], &[12, 7, 3, 4]);
    check(&[Step::SortBy(Column::Type)], &[12, 7, 3, 4]);
    check(&[Step::SortBy(Column::Owners)], &[3, 7, 4, 12]);
    // A program that did not run has no time, and comes last in either direction.
    check(&[Step::SortBy(Column::Time)], &[12, 3, 7, 4]);
    check(&[Step::SortBy(Column::Time), Step::Reverse], &[7, 3, 12, 4]);
    // Left of CPU is time; nothing is to the right, and the direction stays.
    check(&[left], &[12, 3, 7, 4]);
    check(&[left, left], &[7, 3, 12, 4]);
    check(&[Step::Reverse, right], &[4, 12, 3, 7]);
    check(&[Step::SortBy(Column::Id), left], &[3, 4, 7, 12]);
}

#[test]
fn selections() {
    let check = |steps: &[Step], expected: Option<u32>| {
        let mut state = state();
        for step in steps {
            state.apply(*step);
        }
        assert_eq!(state.selected().map(|program| program.id), expected, "{steps:?}");
    };
    check(&[], None);
    check(&[Step::Move(1)], Some(7));
    check(&[Step::Move(-1)], Some(7));
    check(&[Step::Move(1), Step::Move(1)], Some(3));
    check(&[Step::Last], Some(4));
    check(&[Step::Last, Step::Move(10)], Some(4));
    check(&[Step::Last, Step::Move(-10)], Some(7));
    check(&[Step::Last, Step::First], Some(7));
    // Follows the program when the order changes.
    check(&[Step::Move(1), Step::SortBy(Column::Id)], Some(7));
    // Hidden programs cannot be selected.
    check(&[Step::Move(1), Step::Filter, Step::Type('x')], None);
}

#[test]
fn filters() {
    let typed = |text: &str| -> Vec<Step> {
        [Step::Filter].into_iter().chain(text.chars().map(Step::Type)).collect()
    };
    let check = |steps: Vec<Step>, expected: &[u32], filter: &str, is_typing| {
        let mut state = state();
        for step in &steps {
            state.apply(*step);
        }
        assert_eq!(
            (ids(&state).as_slice(), state.filter.as_str()),
            (expected, filter),
            "{steps:?}"
        );
        assert_eq!(state.typing_over.is_some(), is_typing, "{steps:?}");
    };
    check(typed("XDP"), &[3, 4], "XDP", true);
    check(typed("agent"), &[7, 3], "agent", true);
    check(typed("cgroup"), &[12], "cgroup", true);
    check(typed("nothing"), &[], "nothing", true);
    check([typed("v3"), vec![Step::Keep]].concat(), &[3], "v3", false);
    check([typed("v3"), vec![Step::Discard]].concat(), &[7, 3, 12, 4], "", false);
    check([typed("v3"), vec![Step::Erase]].concat(), &[3, 4], "v", true);
    check([typed("v3"), vec![Step::EraseAll, Step::Erase]].concat(), &[7, 3, 12, 4], "", true);
    // Restores the previous filter.
    let again = [typed("v3"), vec![Step::Keep], typed("x"), vec![Step::Discard]].concat();
    check(again, &[3], "v3", false);
    // Not longer than the line, and no control characters.
    let long = [Step::Filter].into_iter().chain([Step::Type('y'); 200]).collect();
    check(long, &[], &"y".repeat(FILTER_MAX), true);
    check(vec![Step::Filter, Step::Type('\u{1b}')], &[7, 3, 12, 4], "", true);
}

#[test]
fn quitting() {
    assert_eq!(state().apply(Step::Quit), Flow::Quit);
}

#[test]
fn the_total_is_of_what_is_shown() {
    let mut state = state();
    assert_eq!(state.total().runs, 1_200_015);
    state.apply(Step::Filter);
    state.apply(Step::Type('v'));
    assert_eq!(state.total().runs, 200_012);
    assert!((state.total().cpu_percent - 1.268_076).abs() < 1e-9);
}

#[test]
fn programs_come_and_go() {
    let mut state = state();
    state.apply(Step::Move(1));
    state.apply(Step::Move(1));
    assert_eq!(state.selected, Some(3));
    // When it goes, the next program takes its place.
    let without = |id: u32| {
        let mut report = four();
        report.programs.retain(|program| program.id != id);
        report.vanished = vec![Vanished { id, name: String::new() }];
        report
    };
    state.take(without(3));
    assert_eq!(state.selected, Some(12));
    // All programs go.
    state.take(report(Vec::new()));
    assert_eq!((state.selected, state.rows().len()), (None, 0));
    for step in [Step::Move(1), Step::Last, Step::First, Step::Move(-1)] {
        state.apply(step);
        assert_eq!(state.selected, None);
    }
}

#[test]
fn curves_belong_to_a_program_and_end() {
    let mut state = state();
    for _ in 0..3 {
        state.take(four());
    }
    assert_eq!(state.history(), [1_200_015.0; 3]);
    state.apply(Step::Last);
    state.apply(Step::Move(-2));
    assert_eq!(state.history(), [200_012.0; 3]);
    // The id is reused for another program.
    let mut renewed = four();
    renewed.vanished = vec![Vanished { id: 3, name: "fun_xdp_v3".to_owned() }];
    state.take(renewed);
    assert_eq!(state.history(), [200_012.0]);
    for _ in 0..2 * HISTORY_MAX {
        state.take(four());
    }
    assert_eq!(state.history().len(), HISTORY_MAX);
}
