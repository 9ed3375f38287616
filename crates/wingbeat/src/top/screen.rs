//! Draws the state.

use ratatui::{
    Frame,
    layout::{Alignment, Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span, Text},
    widgets::{Cell, Paragraph, Row, Sparkline, Table, TableState},
};
use wingbeat_bpf_bench::live::ProgramReport;
use wingbeat_text::{Paint, cut, decimal, duration, grouped, plural, wrapped};

use super::{
    columns::{Column, GAP, fitting, layout},
    state::State,
};

/// Rows below which the curve is omitted.
const HEIGHT_WITH_CURVE: u16 = 16;

/// Rows of the curve, its heading, and the line below it.
const CURVE_HEIGHT: u16 = 2;
const DETAILS_HEIGHT: u16 = CURVE_HEIGHT + 3;

/// The most important keys come first, and stay on a narrow terminal.
const KEYS: [&str; 3] = [
    "q quit  / filter  < > column  r reverse  i t n o u s c sort  ↑ ↓ select",
    "q quit  / filter  < > column  r reverse  ↑ ↓ select",
    "q quit  / filter  < > column",
];

/// Maximum lines of a warning on a terminal tall enough for the curve: the longest fits on 60 columns.
const WARNING_LINES_MAX: usize = 6;

/// A style in a colour, if there are colours.
fn coloured(paint: Paint, color: Color) -> Style {
    if paint.has_colours { Style::new().fg(color) } else { Style::new() }
}

pub(crate) fn draw(frame: &mut Frame<'_>, state: &State, paint: Paint) {
    let has_room = frame.area().height >= HEIGHT_WITH_CURVE;
    let has_curve = has_room && !state.report.programs.is_empty();
    let warnings = warning_lines(state, usize::from(frame.area().width), has_room);
    let [title, warning, table, details, footer] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(warnings.len() as u16),
        Constraint::Min(0),
        Constraint::Length(if has_curve { DETAILS_HEIGHT } else { 0 }),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(title_line(state, usize::from(title.width)), title);
    frame.render_widget(Text::styled(warnings.join("\n"), coloured(paint, Color::Yellow)), warning);
    draw_table(frame, state, paint, table);
    if has_curve {
        draw_details(frame, state, paint, details);
    }
    frame.render_widget(footer_line(state, usize::from(footer.width), paint), footer);
}

/// The first warning, wrapped if there is room, otherwise truncated.
fn warning_lines(state: &State, width: usize, has_room: bool) -> Vec<String> {
    let Some(first) = state.report.warnings.first() else { return Vec::new() };
    let lines_max = if has_room { WARNING_LINES_MAX } else { 1 };
    let mut lines = wrapped(&format!("warning: {first}"), width);
    if lines.len() > lines_max {
        let rest = lines.split_off(lines_max - 1).join(" ");
        lines.push(cut(&rest, width));
    }
    lines
}

fn title_line(state: &State, width: usize) -> Line<'static> {
    let report = &state.report;
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let ran = report.programs.iter().filter(|program| program.runs.is_some_and(|runs| runs > 0));
    let programs = match report.programs.len() {
        0 => "no programs".to_owned(),
        many => plural(many, "program"),
    };
    let name = "wingbeat top";
    let rest = width.saturating_sub(name.len() + GAP);
    let text = match report.duration_ns {
        0 => cut(&format!("{programs}, measuring …"), rest),
        duration_ns => {
            let ran = ran.count();
            let share = format!("{} % of one CPU", decimal(report.total.cpu_percent, 2));
            let of_all = decimal(report.total.cpu_percent_of_all, 2);
            let cpus = report.cpus_online;
            let duration = duration(duration_ns);
            fitting(
                &[
                    &format!(
                        "{programs}, {ran} ran in {duration}: {share}, {of_all} % of all {cpus}"
                    ),
                    &format!("{programs}, {ran} ran in {duration}: {share}"),
                    &format!("{programs}: {share}"),
                    &share,
                ],
                rest,
            )
        }
    };
    Line::from(vec![Span::styled(cut(name, width), bold), Span::raw("  "), Span::raw(text)])
}

fn draw_table(frame: &mut Frame<'_>, state: &State, paint: Paint, area: Rect) {
    let rows = state.rows();
    if rows.is_empty() {
        let text = match state.report.programs.is_empty() {
            true => "no eBPF program is loaded".to_owned(),
            false => format!("no program has {:?} in its name, type or owners", state.filter),
        };
        frame.render_widget(Paragraph::new(format!("\n{text}")), area);
        return;
    }
    // The total is directly below the last program.
    let height =
        u16::try_from(rows.len() + 2).map_or(area.height, |height| area.height.min(height));
    let area = Rect { height, ..area };
    let total = state.total();
    let columns = layout(usize::from(area.width), &rows, &total);
    let head = Row::new(columns.iter().map(|&(column, width)| heading(state, column, width)))
        .style(coloured(paint, Color::Cyan).add_modifier(Modifier::BOLD));
    // Before the first measurement there is no total.
    let total = (state.report.duration_ns > 0).then_some(total);
    let foot =
        columns.iter().map(|&(column, width)| cell(column, &column.total(total.as_ref()), width));
    let foot = Row::new(foot).style(Style::new().add_modifier(Modifier::BOLD));
    let body = rows.iter().map(|program| {
        let cells =
            columns.iter().map(|&(column, width)| cell(column, &column.cell(program), width));
        let is_idle = program.runs == Some(0);
        Row::new(cells).style(if is_idle {
            Style::new().add_modifier(Modifier::DIM)
        } else {
            Style::new()
        })
    });
    let widths = columns
        .iter()
        .map(|&(_, width)| Constraint::Length(u16::try_from(width).unwrap_or(u16::MAX)));
    let table = Table::new(body, widths)
        .header(head)
        .footer(foot)
        .column_spacing(GAP as u16)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut selection = TableState::new().with_selected(state.position());
    frame.render_stateful_widget(table, area, &mut selection);
}

/// The heading of a column: its key underlined, with an arrow if sorted by it.
fn heading(state: &State, column: Column, width: usize) -> Cell<'static> {
    let heading = column.heading();
    let at = heading.to_lowercase().find(column.key()).unwrap_or(0);
    let (before, rest) = heading.split_at(at);
    let (key, after) = rest.split_at(rest.len().min(1));
    let underlined = Style::new().add_modifier(Modifier::UNDERLINED);
    let arrow = match (state.sort.column == column, state.sort.descending) {
        (true, true) => " ▼",
        (true, false) => " ▲",
        (false, _) => "",
    };
    let spans = [
        Span::raw(before),
        Span::styled(key, underlined),
        Span::raw(after),
        Span::raw(if heading.len() + 2 <= width { arrow } else { "" }),
    ];
    Cell::new(Line::from_iter(spans).alignment(alignment(column)))
}

fn cell(column: Column, text: &str, width: usize) -> Cell<'static> {
    Cell::new(Text::from(cut(text, width)).alignment(alignment(column)))
}

fn alignment(column: Column) -> Alignment {
    if column.is_number() { Alignment::Right } else { Alignment::Left }
}

/// The curve of the selection, and values without a column.
fn draw_details(frame: &mut Frame<'_>, state: &State, paint: Paint, area: Rect) {
    let [_, heading, curve, facts] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(CURVE_HEIGHT),
        Constraint::Length(1),
    ])
    .areas(area);
    let width = usize::from(area.width);
    let history = state.history();
    let shown = history.get(history.len().saturating_sub(width)..).unwrap_or_default();
    let most = shown.iter().copied().fold(0.0, f64::max);
    let whose = state.selected().map_or_else(|| "all programs".to_owned(), ProgramReport::label);
    let readings = plural(shown.len(), "reading");
    let most = grouped(most.round() as u64);
    let text = format!("{whose}: runs/s, {readings}, {most} at most");
    frame.render_widget(Line::raw(cut(&text, width)), heading);
    let sparkline = Sparkline::default()
        .data(shown.iter().map(|runs_per_s| runs_per_s.ceil() as u64))
        .style(coloured(paint, Color::Green));
    frame.render_widget(sparkline, curve);
    frame.render_widget(Line::raw(facts_line(state, width)), facts);
}

fn facts_line(state: &State, width: usize) -> String {
    let Some(program) = state.selected() else {
        let Some(empty_run_ns) = state.report.empty_run_ns else { return String::new() };
        let shown = format!("an empty program shows {} ns/run", decimal(empty_run_ns, 1));
        let why = format!("{shown}: the statistics' own clock reads");
        return fitting(&[&why, &shown], width);
    };
    let mut facts = vec![format!("tag {}", program.tag)];
    if let Some(net_ns) = program.time_per_run_net_ns {
        facts.push(format!("{} ns/run net", decimal(net_ns, 1)));
    }
    match program.attached.as_slice() {
        [] => facts.push("no link".to_owned()),
        links => facts.push(links.join(", ")),
    }
    if let Some(misses) = program.recursion_misses.filter(|&misses| misses > 0) {
        facts.push(format!("{} runs left out by recursion", grouped(misses)));
    }
    cut(&facts.join("; "), width)
}

fn footer_line(state: &State, width: usize, paint: Paint) -> Line<'static> {
    match (&state.typing_over, state.filter.as_str()) {
        (Some(_), filter) => {
            let hint = "Enter keeps, Esc discards";
            Line::from(vec![
                Span::styled(cut(&format!("/{filter}▏"), width), coloured(paint, Color::Yellow)),
                Span::raw("  "),
                Span::raw(hint),
            ])
        }
        (None, "") => Line::raw(fitting(&KEYS, width)),
        (None, filter) => {
            let wordings = KEYS.map(|keys| format!("filter {filter:?}  {keys}"));
            Line::raw(fitting(&wordings.each_ref().map(String::as_str), width))
        }
    }
}

/// Golden screens.
#[cfg(test)]
mod tests {
    use ratatui::{Terminal, backend::TestBackend, buffer::Buffer};
    use wingbeat_bpf_bench::Warning;
    use wingbeat_bpf_loader::ProgramType;

    use super::*;
    use crate::top::{
        columns::Sort,
        keys::Step,
        state::tests::{four, program, report},
    };

    const PLAIN: Paint = Paint { has_colours: false };

    fn state() -> State {
        let mut state = State::new(four(), Sort::by(Column::Cpu), String::new());
        state.take(four());
        state
    }

    fn drawn(state: &State, paint: Paint, width: u16, height: u16) -> Buffer {
        let mut terminal =
            Terminal::new(TestBackend::new(width, height)).expect("a terminal in memory");
        terminal.draw(|frame| draw(frame, state, paint)).expect("drawn");
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
            found
                .lines()
                .nth(1)
                .unwrap_or_default()
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
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
                assert!(
                    found.lines().any(|line| line == *expected),
                    "{width}: {expected}\n{found}"
                );
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
        let many =
            (1..=50).map(|id| program(id, ProgramType::XDP, &format!("p{id}"), Some((1, 1))));
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
        let has_colors = |paint| {
            let buffer = drawn(&state, paint, 100, 20);
            buffer.content.iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
        };
        assert!(has_colors(Paint { has_colours: true }));
        assert!(!has_colors(PLAIN));
    }

    #[test]
    fn no_size_is_too_small() {
        let state = state();
        for (width, height) in [(0, 0), (1, 1), (2, 3), (5, 16), (200, 1), (3, 40), (12, 17)] {
            drawn(&state, PLAIN, width, height);
        }
    }
}
