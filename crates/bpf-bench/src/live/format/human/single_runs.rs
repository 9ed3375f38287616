//! Tables of single runs: their times and perf counts.

use wingbeat_text::{Side, decimal, grouped, or_dash, printable};

use super::{list, owners, rate, real, took};
use crate::live::{CounterReport, EmptyRuns, LiveReport, ProgramReport, SingleRuns};

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
pub(super) fn tables(report: &LiveReport, empty: &EmptyRuns) -> String {
    let mut rows = vec![empty_row(empty)];
    rows.extend(report.programs.iter().map(row));
    let mut text = list(&TIMES, &rows);
    if empty.counters.is_empty() {
        return text;
    }
    let empty = empty.counters.iter().map(|counter| counter_row("(empty)", counter));
    let mut rows: Vec<_> = empty.collect();
    for program in &report.programs {
        let counters = program.counters.iter();
        rows.extend(counters.map(|counter| counter_row(&program.label(), counter)));
    }
    text.push('\n');
    text.push_str(&list(&COUNTERS, &rows));
    text
}

fn empty_row(empty: &EmptyRuns) -> Vec<String> {
    let single = &empty.single_runs;
    let mut row = vec![String::new(), String::new(), "(empty)".to_owned()];
    row.extend([grouped(single.runs), String::new()]);
    row.extend(times(Some(single)));
    row
}

fn row(program: &ProgramReport) -> Vec<String> {
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

pub(super) fn notes(report: &LiveReport, empty: &EmptyRuns) -> Vec<String> {
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
