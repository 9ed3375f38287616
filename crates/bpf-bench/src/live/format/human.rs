//! A human-readable table, with explanations of its figures below.

use std::iter;

use wingbeat_text::{
    Block, Side, Style, decimal, duration, grouped, human, list, or_dash, plural, printable, row,
};

use crate::live::{CounterReport, EmptyRuns, LiveReport, ProgramReport, SingleRuns};

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
    let (mut blocks, mut notes) = match &report.empty {
        Some(empty) => (tables(report, empty), single_run_notes(report, empty)),
        None => (vec![table(report)], notes(report)),
    };
    notes.extend(ends(report));
    blocks.push(list(notes));
    // Scripts may cut lines into columns.
    human(&blocks, Style { width: usize::MAX, ..Style::default() })
}

fn table(report: &LiveReport) -> Block {
    let has_intervals = report.programs.iter().any(|one| one.time_per_run_interval.is_some());
    let columns = COLUMNS.iter().filter(|column| has_intervals || column.0 != "± 95 %");
    let columns: Vec<&Column> = columns.collect();
    let head = columns.iter().map(|column| (column.0, column.1)).collect();
    let cells = |program| row(columns.iter().map(|column| (column.2)(program)));
    let total = row(columns.iter().map(|column| total_cell(report, column.0)));
    Block::Rows(head, report.programs.iter().map(cells).chain([total]).collect())
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

/// Columns of single runs.
const TIMES: [(&str, Side); 14] = [
    ("id", Side::Right),
    ("type", Side::Left),
    ("name", Side::Left),
    ("runs", Side::Right),
    ("runs/s", Side::Right),
    ("p50", Side::Right),
    ("p90", Side::Right),
    ("p99", Side::Right),
    ("p99.9", Side::Right),
    ("max", Side::Right),
    ("mean", Side::Right),
    ("net p50", Side::Right),
    ("CPU %", Side::Right),
    ("owners", Side::Left),
];

const COUNTERS: [(&str, Side); 5] = [
    ("name", Side::Left),
    ("event", Side::Left),
    ("total", Side::Right),
    ("per run", Side::Right),
    ("net", Side::Right),
];

/// A percentile beyond the last bin.
const BEYOND: &str = ">4.29 s";

/// The times, and below them the counters, if any.
fn tables(report: &LiveReport, empty: &EmptyRuns) -> Vec<Block> {
    let times = report.programs.iter().map(times_row);
    let times = iter::once(empty_row(empty)).chain(times).map(row).collect();
    let of_empty = empty.counters.iter().map(|counter| counter_row("(empty)", counter));
    let of_programs = report.programs.iter().flat_map(|program| {
        let label = program.label();
        program.counters.iter().map(move |counter| counter_row(&label, counter))
    });
    let counters = of_empty.chain(of_programs).map(row).collect();
    vec![Block::Rows(TIMES.to_vec(), times), Block::Rows(COUNTERS.to_vec(), counters)]
}

fn empty_row(empty: &EmptyRuns) -> Vec<String> {
    let single = &empty.single_runs;
    let mut row = vec![String::new(), String::new(), "(empty)".to_owned()];
    row.extend([grouped(single.runs), String::new()]);
    row.extend(times(Some(single)));
    row
}

fn times_row(program: &ProgramReport) -> Vec<String> {
    let mut row = vec![program.id.to_string(), program.r#type.clone(), printable(&program.name)];
    row.extend([or_dash(program.runs, grouped), rate(program.runs_per_s)]);
    row.extend(times(program.single_runs.as_ref()));
    let net = program.single_runs.as_ref().and_then(|single| single.net_p50_ns);
    row.extend([real(net, 0), real(program.cpu_percent, 2), owners(program)]);
    row
}

fn times(single: Option<&SingleRuns>) -> [String; 6] {
    let percentile = |of: fn(&SingleRuns) -> Option<f64>, q: f64| match single {
        // Unknown although there are enough runs above it.
        Some(single) if of(single).is_none() && single.runs as f64 * (1.0 - q) > 1.0 - 1e-9 => {
            BEYOND.to_owned()
        }
        _ => real(single.and_then(of), 0),
    };
    [
        percentile(|single| single.p50_ns, 0.0),
        percentile(|single| single.p90_ns, 0.9),
        percentile(|single| single.p99_ns, 0.99),
        percentile(|single| single.p999_ns, 0.999),
        or_dash(single.map(|single| single.max_ns), grouped),
        real(single.map(|single| single.mean_ns), 1),
    ]
}

fn counter_row(name: &str, counter: &CounterReport) -> Vec<String> {
    vec![
        printable(name),
        counter.event.clone(),
        real(counter.total, 0),
        real(counter.per_run, 2),
        real(counter.net_per_run, 2),
    ]
}

fn single_run_notes(report: &LiveReport, empty: &EmptyRuns) -> Vec<String> {
    let single = &empty.single_runs;
    let mut notes = vec![
        took(report),
        "times of single runs in ns, tracers included: (empty) is a program that does nothing, and \
         net p50 is without its time".to_owned(),
        format!(
            "percentiles are exact to {} ns below 64 ns, above that to {} %; a dash has less than one run above it",
            single.clock_step_ns.map_or_else(|| "1".to_owned(), |step| decimal(step / 10.0, 1)),
            decimal(single.bin_width * 100.0, 1),
        ),
        format!(
            "during the measurement, each run takes about {} ns longer",
            decimal(empty.added_ns.max(0.0), 0)
        ),
    ];
    let shared = report.programs.iter().flat_map(|program| &program.counters);
    let running = shared.filter_map(|counter| counter.running).fold(1.0, f64::min);
    if !empty.counters.is_empty() {
        notes.push(
            "counters cover the runs and the tracers; net excludes what (empty) shows".to_owned(),
        );
    }
    if running < 0.995 {
        notes.push(format!(
            "counters took turns and counted for {} % of the time at least; totals are scaled up",
            decimal(running * 100.0, 0)
        ));
    }
    notes
}
