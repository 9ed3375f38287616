//! Draws the state.

#[cfg(test)]
mod tests;

use ratatui::{
    Frame,
    layout::{Alignment, Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span, Text},
    widgets::{Cell, Paragraph, Row, Sparkline, Table, TableState},
};
use wingbeat_bpf_bench::live::ProgramReport;
use wingbeat_text::{cut, decimal, duration, grouped, plural, wrapped};

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

/// Drawing style.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    /// Otherwise only bold, underlined and reversed text.
    pub(crate) has_colors: bool,
}

impl Look {
    fn colored(self, color: Color) -> Style {
        if self.has_colors { Style::new().fg(color) } else { Style::new() }
    }
}

pub(crate) fn draw(frame: &mut Frame<'_>, state: &State, look: Look) {
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
    frame.render_widget(Text::styled(warnings.join("\n"), look.colored(Color::Yellow)), warning);
    draw_table(frame, state, look, table);
    if has_curve {
        draw_details(frame, state, look, details);
    }
    frame.render_widget(footer_line(state, usize::from(footer.width), look), footer);
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

fn draw_table(frame: &mut Frame<'_>, state: &State, look: Look, area: Rect) {
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
        .style(look.colored(Color::Cyan).add_modifier(Modifier::BOLD));
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
fn draw_details(frame: &mut Frame<'_>, state: &State, look: Look, area: Rect) {
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
        .style(look.colored(Color::Green));
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

fn footer_line(state: &State, width: usize, look: Look) -> Line<'static> {
    match (&state.typing_over, state.filter.as_str()) {
        (Some(_), filter) => {
            let hint = "Enter keeps, Esc discards";
            Line::from(vec![
                Span::styled(cut(&format!("/{filter}▏"), width), look.colored(Color::Yellow)),
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
