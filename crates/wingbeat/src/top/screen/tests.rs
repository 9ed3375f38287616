//! Golden screens.

use ratatui::{Terminal, backend::TestBackend, buffer::Buffer};
use wingbeat_bpf_bench::Warning;
use wingbeat_bpf_loader::ProgramType;

use super::*;
use crate::top::{
    columns::Sort,
    keys::Step,
    state::tests::{four, program, report},
};

const PLAIN: Look = Look { has_colors: false };

fn state() -> State {
    let mut state = State::new(four(), Sort::by(Column::Cpu), String::new());
    state.take(four());
    state
}

fn drawn(state: &State, look: Look, width: u16, height: u16) -> Buffer {
    let mut terminal =
        Terminal::new(TestBackend::new(width, height)).expect("a terminal in memory");
    terminal.draw(|frame| draw(frame, state, look)).expect("drawn");
    terminal.backend().buffer().clone()
}

fn text(buffer: &Buffer) -> String {
    let lines = buffer.content.chunks(usize::from(buffer.area.width.max(1)));
    lines
        .map(|cells| {
            let line: String = cells.iter().map(|cell| cell.symbol()).collect();
            format!("{}\n", line.trim_end())
        })
        .collect()
}

#[track_caller]
fn check(state: &State, width: u16, height: u16, expected: &str) {
    let found = text(&drawn(state, PLAIN, width, height));
    assert_eq!(found, expected.trim_start_matches('\n'), "\n{found}");
}

#[test]
fn with_room_for_all() {
    let mut state = state();
    let mut grown = four();
    grown.total.runs_per_s = 600_000.0;
    state.take(grown);
    check(
        &state,
        100,
        17,
        "
wingbeat top  4 programs, 3 ran in 1.00 s: 3.77 % of one CPU, 1.88 % of all 2
  id  type        name                     owners                  runs/s    ns/run  CPU % ▼
   7  sched_cls   count_packets_by_source  cilium-agent (4711)  1,000,000      25.0     2.50
   3  xdp         fun_xdp_v3               agent (812)            200,012      63.4     1.27
  12  cgroup_skb                           –                          3.0     300.0    <0.01
   4  xdp         fun_xdp_v4               –                          0.0         –     0.00
                  total                                         1,200,015               3.77





all programs: runs/s, 2 readings, 1,200,015 at most
█
█▇
an empty program shows 25.0 ns/run: the statistics' own clock reads
q quit  / filter  < > column  r reverse  i t n o u s c sort  ↑ ↓ select
",
    );
}

#[test]
fn a_selected_program_has_details() {
    let mut state = state();
    state.apply(Step::Move(1));
    let found = drawn(&state, PLAIN, 100, 17);
    let text = text(&found);
    assert!(text.contains("\ncount_packets_by_source (id 7): runs/s, 1 reading,"), "{text}");
    assert!(text.contains("\ntag a001020304050607; 0.0 ns/run net; no link\n"), "{text}");
    let is_reversed = |row: u16| found[(10, row)].modifier.contains(Modifier::REVERSED);
    assert_eq!((is_reversed(1), is_reversed(2), is_reversed(3)), (false, true, false));
}

#[test]
fn columns_give_way_one_by_one() {
    let columns = |width: u16| {
        let found = text(&drawn(&state(), PLAIN, width, 8));
        found.lines().nth(1).unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let check = |width, expected: &str| assert_eq!(columns(width), expected, "{width}");
    check(100, "id type name owners runs/s ns/run CPU % ▼");
    // Owners are shortened first, then dropped.
    check(82, "id type name owners runs/s ns/run CPU % ▼");
    check(76, "id type name runs/s ns/run CPU % ▼");
    check(60, "id name runs/s ns/run CPU % ▼");
    check(54, "name runs/s ns/run CPU % ▼");
    check(44, "name ns/run CPU % ▼");
    check(33, "name CPU % ▼");
    check(20, "name CPU % ▼");
}

#[test]
fn names_are_whole_as_long_as_anything_else_can_go() {
    for width in [32, 40, 60, 80, 100] {
        let found = text(&drawn(&state(), PLAIN, width, 8));
        assert!(found.contains("count_packets_by_source"), "{width}\n{found}");
    }
    let found = text(&drawn(&state(), PLAIN, 25, 8));
    assert!(found.contains("count_packets_b…"), "{found}");
}

#[test]
fn a_long_name_leaves_room_for_figures() {
    const LONG: &str = "count_packets_by_source_address_and_destination_port";
    let programs = vec![program(1, ProgramType::XDP, LONG, Some((1, 1)))];
    let mut state = State::new(report(Vec::new()), Sort::by(Column::Cpu), String::new());
    state.take(report(programs));
    let check = |width: u16, head: &str, name: &str| {
        let found = text(&drawn(&state, PLAIN, width, 8));
        let rows: Vec<_> = found.lines().collect();
        let words = |row: &str| row.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words(rows[1]), head, "{width}\n{found}");
        assert!(words(rows[2]).contains(name), "{width}\n{found}");
        assert!(
            rows.iter().all(|row| wingbeat_text::width(row) <= usize::from(width)),
            "{width}\n{found}"
        );
    };
    check(100, "id type name runs/s ns/run CPU % ▼", LONG);
    // All columns but the owners, with as much of the name as fits.
    check(78, "id type name runs/s ns/run CPU % ▼", "count_packets_by_source_address_");
    check(60, "id name runs/s ns/run CPU % ▼", "count_packets_by_source");
    // No other column can be dropped: the name gets all the room.
    check(40, "name CPU % ▼", "count_packets_by_source_addr");
}

fn owners_hidden() -> Warning {
    Warning::new(
        "owners-hidden",
        "the descriptors of 3 processes cannot be seen",
        "programs that only they hold seem to have no owner",
        "CAP_SYS_PTRACE shows most: run it as root",
    )
}

#[test]
fn the_most_important_words_stay_on_a_narrow_terminal() {
    let mut found = four();
    found.warnings = vec![owners_hidden()];
    let mut state = State::new(found.clone(), Sort::by(Column::Cpu), String::new());
    state.take(found);
    let check = |width, expected: &[&str]| {
        let found = text(&drawn(&state, PLAIN, width, 20));
        for expected in expected {
            assert!(found.lines().any(|line| line == *expected), "{width}: {expected}\n{found}");
        }
    };
    let empty = "an empty program shows 25.0 ns/run";
    check(60, &["wingbeat top  4 programs, 3 ran in 1.00 s: 3.77 % of one CPU", empty]);
    check(
        45,
        &["wingbeat top  4 programs: 3.77 % of one CPU", empty, "q quit  / filter  < > column"],
    );
    check(31, &["wingbeat top  3.77 % of one CPU", "q quit  / filter  < > column"]);
    // A warning is complete if it fits.
    let found = text(&drawn(&state, PLAIN, 60, 20));
    let warning = format!("warning: {}", owners_hidden());
    let lines: Vec<_> = found.lines().skip(1).collect();
    assert!(lines.join(" ").starts_with(&warning), "{found}");
}

#[test]
fn typing_and_filters() {
    let mut state = state();
    state.apply(Step::Filter);
    for c in "v4".chars() {
        state.apply(Step::Type(c));
    }
    check(
        &state,
        80,
        6,
        "
wingbeat top  4 programs, 3 ran in 1.00 s: 3.77 % of one CPU, 1.88 % of all 2
  id  type    name        owners      runs/s    ns/run  CPU % ▼
   4  xdp     fun_xdp_v4  –              0.0         –     0.00
              total                      0.0               0.00

/v4▏  Enter keeps, Esc discards
",
    );
    state.apply(Step::Keep);
    let found = text(&drawn(&state, PLAIN, 80, 6));
    assert!(found.contains("\nfilter \"v4\"  q quit"), "{found}");
    state.apply(Step::Filter);
    state.apply(Step::Type('!'));
    let found = text(&drawn(&state, PLAIN, 80, 6));
    assert!(found.contains("no program has \"v4!\" in its name, type or owners"), "{found}");
}

#[test]
fn nothing_is_loaded() {
    let mut nothing = report(Vec::new());
    nothing.duration_ns = 0;
    check(
        &State::new(nothing, Sort::by(Column::Cpu), String::new()),
        60,
        4,
        "
wingbeat top  no programs, measuring …

no eBPF program is loaded
q quit  / filter  < > column  r reverse  ↑ ↓ select
",
    );
}

#[test]
fn before_the_first_interval_is_over() {
    let mut first = report(vec![program(1, ProgramType::XDP, "p", None)]);
    first.duration_ns = 0;
    check(
        &State::new(first, Sort::by(Column::Cpu), String::new()),
        70,
        5,
        "
wingbeat top  1 program, measuring …
  id  type    name    owners      runs/s    ns/run  CPU % ▼
   1  xdp     p       –                –         –        –
              total
q quit  / filter  < > column  r reverse  ↑ ↓ select
",
    );
}

#[test]
fn warnings_have_a_line() {
    let mut report = four();
    report.warnings = vec![owners_hidden()];
    let state = State::new(report, Sort::by(Column::Cpu), String::new());
    let found = text(&drawn(&state, PLAIN, 60, 8));
    let second = found.lines().nth(1);
    assert_eq!(second, Some("warning: the descriptors of 3 processes cannot be seen: pro…"));
}

#[test]
fn more_programs_than_rows_scroll_with_the_selection() {
    let many = (1..=50).map(|id| program(id, ProgramType::XDP, &format!("p{id}"), Some((1, 1))));
    let mut state = State::new(report(many.collect()), Sort::by(Column::Id), String::new());
    let shown = |state: &State| text(&drawn(state, PLAIN, 80, 10));
    assert!(shown(&state).contains(" p1 ") && !shown(&state).contains(" p50 "));
    state.apply(Step::Last);
    assert!(!shown(&state).contains(" p1 ") && shown(&state).contains(" p50 "));
    assert!(shown(&state).contains(" total "));
}

#[test]
fn without_colours_there_are_none() {
    let mut state = state();
    state.apply(Step::Filter);
    let has_colors = |look| {
        let buffer = drawn(&state, look, 100, 20);
        buffer.content.iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
    };
    assert!(has_colors(Look { has_colors: true }));
    assert!(!has_colors(PLAIN));
}

#[test]
fn no_size_is_too_small() {
    let state = state();
    for (width, height) in [(0, 0), (1, 1), (2, 3), (5, 16), (200, 1), (3, 40), (12, 17)] {
        drawn(&state, PLAIN, width, height);
    }
}
