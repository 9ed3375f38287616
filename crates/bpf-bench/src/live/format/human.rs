//! A human-readable table, with explanations of its figures below.

mod single_runs;

use wingbeat_text::{Paint, Side, decimal, duration, grouped, or_dash, plural, printable, rows};

use crate::live::{LiveReport, ProgramReport};

/// A column: heading, alignment, and cell text.
type Column = (&'static str, Side, fn(&ProgramReport) -> String);

const COLUMNS: [Column; 10] = [
    ("id", Side::Right, |program| program.id.to_string()),
    ("type", Side::Left, |program| program.r#type.clone()),
    ("name", Side::Left, |program| printable(&program.name)),
    ("runs", Side::Right, |program| or_dash(program.runs, grouped)),
    ("runs/s", Side::Right, |program| rate(program.runs_per_s)),
    ("ns/run", Side::Right, |program| real(program.time_per_run_ns, 1)),
    ("± 95 %", Side::Right, half_width),
    ("net", Side::Right, |program| real(program.time_per_run_net_ns, 1)),
    ("CPU %", Side::Right, |program| real(program.cpu_percent, 2)),
    ("owners", Side::Left, owners),
];

/// Writes all programs, a total, and notes.
pub(super) fn write(report: &LiveReport) -> String {
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

fn table(report: &LiveReport) -> String {
    let shown = &report.programs;
    let has_intervals = shown.iter().any(|program| program.time_per_run_interval.is_some());
    let columns: Vec<&Column> =
        COLUMNS.iter().filter(|column| has_intervals || column.0 != "± 95 %").collect();
    let head: Vec<_> = columns.iter().map(|column| (column.0, column.1)).collect();
    let row = |program| columns.iter().map(|column| (column.2)(program)).collect();
    let mut lines: Vec<Vec<String>> = shown.iter().map(row).collect();
    lines.push(columns.iter().map(|column| total_cell(report, column.0)).collect());
    list(&head, &lines)
}

/// A list without width limit: scripts may cut its lines into columns.
fn list(head: &[(&str, Side)], lines: &[Vec<String>]) -> String {
    rows(head, lines, usize::MAX, Paint { has_colours: false })
}

fn total_cell(report: &LiveReport, heading: &str) -> String {
    let total = &report.total;
    match heading {
        "type" => "total".to_owned(),
        "runs" => grouped(total.runs),
        "runs/s" => rate(Some(total.runs_per_s)),
        "CPU %" => decimal(total.cpu_percent, 2),
        _ => String::new(),
    }
}

fn notes(report: &LiveReport) -> Vec<String> {
    let mut notes = vec![took(report)];
    if let Some(empty_run_ns) = report.empty_run_ns {
        notes.push(format!(
            "ns/run includes the statistics' own clock reads: an empty program shows {} ns; net \
             excludes them",
            decimal(empty_run_ns, 1)
        ));
    }
    if let Some(interval) = report.programs.iter().find_map(|one| one.time_per_run_interval) {
        notes.push(format!(
            "± is half of the {:.0} % interval of the mean, from its {} slices; it does not \
             describe single runs",
            interval.confidence * 100.0,
            interval.slices
        ));
    }
    notes
}

/// The duration, and what the CPU share refers to.
fn took(report: &LiveReport) -> String {
    format!(
        "{} in {}; CPU % is of one CPU, in all {} % of {}",
        plural(report.programs.len(), "program"),
        duration(report.duration_ns),
        decimal(report.total.cpu_percent_of_all, 2),
        plural(report.cpus_online, "CPU"),
    )
}

/// How the command ended, and which programs were unloaded.
fn ends(report: &LiveReport) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(command) = &report.command {
        let how = match (command.ended_by_itself, command.exit_code) {
            (false, _) => "was asked to end when the time ran out".to_owned(),
            (true, code @ 129..) => format!("was ended by signal {}", code - 128),
            (true, code) => format!("ended with exit code {code}"),
        };
        notes.push(format!("{} {how}", printable(&command.words.join(" "))));
    }
    if !report.vanished.is_empty() {
        notes.push(format!(
            "{} unloaded during the measurement and missing from the figures",
            match report.vanished.len() {
                1 => "1 program was".to_owned(),
                many => format!("{many} programs were"),
            }
        ));
    }
    notes
}

fn real(number: Option<f64>, decimals: usize) -> String {
    or_dash(number, |number| decimal(number, decimals))
}

/// Runs per second: an integer, except for small numbers.
pub fn rate(number: Option<f64>) -> String {
    let decimals = if number.is_some_and(|number| number < 100.0) { 1 } else { 0 };
    real(number, decimals)
}

fn half_width(program: &ProgramReport) -> String {
    let half = program.time_per_run_interval.map(|one| (one.upper_ns - one.lower_ns) / 2.0);
    real(half, 1)
}

/// The processes that hold a program.
pub fn owners(program: &ProgramReport) -> String {
    let each =
        program.owners.iter().map(|owner| format!("{} ({})", printable(&owner.name), owner.pid));
    let text = each.collect::<Vec<_>>().join(", ");
    if text.is_empty() { "–".to_owned() } else { text }
}
