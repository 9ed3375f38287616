//! A table for people, with what its figures mean below.

mod single_runs;

use unicode_width::UnicodeWidthStr as _;

use super::{decimal, grouped, printable, seconds};
use crate::live::{ProgramReport, Report};

/// A column: heading, whether numbers stand in it, and what.
struct Column {
    heading: &'static str,
    is_number: bool,
    cell: fn(&ProgramReport) -> String,
}

const COLUMNS: [Column; 10] = [
    Column { heading: "id", is_number: true, cell: |program| program.id.to_string() },
    Column { heading: "type", is_number: false, cell: |program| program.r#type.clone() },
    Column { heading: "name", is_number: false, cell: |program| printable(&program.name) },
    Column { heading: "runs", is_number: true, cell: |program| whole(program.runs) },
    Column { heading: "runs/s", is_number: true, cell: |program| rate(program.runs_per_s) },
    Column { heading: "ns/run", is_number: true, cell: |program| real(program.time_per_run_ns, 1) },
    Column { heading: "± 95 %", is_number: true, cell: half_width },
    Column {
        heading: "net",
        is_number: true,
        cell: |program| real(program.time_per_run_net_ns, 1),
    },
    Column { heading: "CPU %", is_number: true, cell: |program| real(program.cpu_percent, 2) },
    Column { heading: "owners", is_number: false, cell: owners },
];

/// Writes all programs, a total, and notes.
pub(super) fn write(report: &Report) -> String {
    if report.programs.is_empty() {
        return "no eBPF program is loaded\n".to_owned();
    }
    let (mut text, notes) = match &report.empty {
        Some(empty) => (single_runs::tables(report, empty), single_runs::notes(report, empty)),
        None => (table(report), notes(report)),
    };
    text.push('\n');
    for note in notes.into_iter().chain(ends(report)) {
        text.push_str(&note);
        text.push('\n');
    }
    text
}

fn table(report: &Report) -> String {
    let shown = &report.programs;
    // A column in which nobody has anything is left out: intervals, where there are none.
    let is_used = |column: &&Column| {
        column.heading != "± 95 %" || shown.iter().any(|one| one.time_per_run_interval.is_some())
    };
    let columns: Vec<&Column> = COLUMNS.iter().filter(is_used).collect();
    let mut rows = vec![columns.iter().map(|column| column.heading.to_owned()).collect::<Vec<_>>()];
    rows.extend(shown.iter().map(|program| columns.iter().map(|c| (c.cell)(program)).collect()));
    rows.push(columns.iter().map(|column| total_cell(report, column.heading)).collect());
    lines(&rows, &columns.iter().map(|column| column.is_number).collect::<Vec<_>>())
}

/// Rows with their columns below each other; numbers to the right.
fn lines(rows: &[Vec<String>], are_numbers: &[bool]) -> String {
    let width =
        |index: usize| rows.iter().filter_map(|row| row.get(index)).map(|cell| cell.width()).max();
    let widths: Vec<usize> =
        (0..are_numbers.len()).map(|index| width(index).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(are_numbers).zip(&widths);
        let line: Vec<String> =
            cells.map(|((cell, &is_number), &width)| aligned(cell, width, is_number)).collect();
        text.push_str(line.join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn aligned(cell: &str, width: usize, to_the_right: bool) -> String {
    let fill = " ".repeat(width.saturating_sub(cell.width()));
    if to_the_right { format!("{fill}{cell}") } else { format!("{cell}{fill}") }
}

fn total_cell(report: &Report, heading: &str) -> String {
    let total = &report.total;
    match heading {
        "type" => "total".to_owned(),
        "runs" => grouped(total.runs),
        "runs/s" => rate(Some(total.runs_per_s)),
        "CPU %" => decimal(total.cpu_percent, 2),
        _ => String::new(),
    }
}

fn notes(report: &Report) -> Vec<String> {
    let mut notes = vec![duration(report)];
    if let Some(empty_run_ns) = report.empty_run_ns {
        notes.push(format!(
            "ns/run has the statistics' own clock reads in it: an empty program shows {} ns; net is without",
            decimal(empty_run_ns, 1)
        ));
    }
    if let Some(interval) = report.programs.iter().find_map(|one| one.time_per_run_interval) {
        notes.push(format!(
            "± is half of the {:.0} % interval of the mean, from its {} slices; it says nothing about single runs",
            interval.confidence * 100.0,
            interval.slices
        ));
    }
    notes
}

/// How long it was, and what the CPU's share is of.
fn duration(report: &Report) -> String {
    format!(
        "{} in {}; CPU % is of one CPU, in all {} % of {}",
        plural(report.programs.len(), "program"),
        seconds(report.duration_ns),
        decimal(report.total.cpu_percent_of_all, 2),
        plural(report.cpus_online as usize, "CPU"),
    )
}

/// How the command ended, and what was unloaded.
fn ends(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(command) = &report.command {
        let how = match (command.ended_by_itself, command.exit_code) {
            (false, _) => "was asked to end when the time was over".to_owned(),
            (true, code @ 129..) => format!("was ended by signal {}", code - 128),
            (true, code) => format!("ended with exit code {code}"),
        };
        notes.push(format!("{} {how}", printable(&command.words.join(" "))));
    }
    if !report.vanished.is_empty() {
        notes.push(format!(
            "{} unloaded meanwhile; what they did is not in the figures",
            match report.vanished.len() {
                1 => "1 program was".to_owned(),
                many => format!("{many} programs were"),
            }
        ));
    }
    notes
}

fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

fn whole(number: Option<u64>) -> String {
    number.map_or_else(|| "–".to_owned(), grouped)
}

fn real(number: Option<f64>, decimals: usize) -> String {
    number.map_or_else(|| "–".to_owned(), |number| decimal(number, decimals))
}

/// Runs per second: whole, unless they are few.
fn rate(number: Option<f64>) -> String {
    let decimals = if number.is_some_and(|number| number < 100.0) { 1 } else { 0 };
    real(number, decimals)
}

fn half_width(program: &ProgramReport) -> String {
    let half = program.time_per_run_interval.map(|one| (one.upper_ns - one.lower_ns) / 2.0);
    real(half, 1)
}

fn owners(program: &ProgramReport) -> String {
    let each =
        program.owners.iter().map(|owner| format!("{} ({})", printable(&owner.name), owner.pid));
    let text = each.collect::<Vec<_>>().join(", ");
    if text.is_empty() { "–".to_owned() } else { text }
}
