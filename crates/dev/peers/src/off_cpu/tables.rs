//! The tables, as text. Pure: a record in, Markdown out.

use super::{
    super::{
        stats::Spread,
        tables::{Table, show, show_some},
    },
    figures::{self, Figures, Goal, Metric, Verdict},
    record::{Agreement, Record, Sum},
    tools,
};

/// What stands where there is no figure.
const NONE: &str = "–";

/// Everything.
pub(super) fn all(record: &Record) -> String {
    let mut parts = vec![origin(record), versions(record).to_markdown(), notes(record)];
    parts.push("### Goals off the CPU\n".to_owned());
    parts.push(goals(record).to_markdown());
    for target in figures::targets(record) {
        parts.push(format!("### {target}: {}\n", tools::about(target)));
        parts.push(alone(record, target));
        parts.push(costs(record, target).to_markdown());
    }
    if !record.agreements.is_empty() {
        parts.push("### The same blocks by wingbeat and by perf\n".to_owned());
        parts.push(sums(record, "thread", |agreement| &agreement.threads).to_markdown());
        parts.push(sums(record, "innermost function", |a| &a.functions).to_markdown());
    }
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

fn origin(record: &Record) -> String {
    let rounds = match record.rounds {
        1 => "one round".to_owned(),
        rounds => format!("{rounds} rounds, median (least to greatest)"),
    };
    format!(
        "Measured on {} with `{}`: {}; {rounds} of {} s.\n",
        record.date, record.command, record.machine, record.seconds
    )
}

fn notes(record: &Record) -> String {
    let mut notes = record.notes.clone();
    let mut loss = |tool, lost: fn(&Agreement) -> u64| {
        let lost: u64 = record.agreements.iter().map(lost).sum();
        if lost > 0 {
            notes.push(format!("{tool} says that it lost {lost} while the sums were compared."));
        }
    };
    loss("perf", |both| both.perf_lost);
    loss("wingbeat", |both| both.wingbeat_lost);
    notes.extend(record.failures.iter().map(|failure| format!("Failed: {failure}")));
    notes.iter().map(|note| format!("- {}\n", note.trim_end())).collect()
}

fn versions(record: &Record) -> Table {
    let row = |tool: &super::record::ToolVersion| {
        let version = tool.version.clone().unwrap_or_else(|| "missing".to_owned());
        vec![tool.name.clone(), version, format!("`{}`", tool.chain)]
    };
    Table::new(vec!["tool", "version", "what is run"], record.tools.iter().map(row).collect())
}

fn goals(record: &Record) -> Table {
    let row = |goal: Goal| {
        let verdict = match goal.verdict() {
            None => "not measured",
            Some(Verdict::Reached) => "reached",
            Some(Verdict::Unclear) => "missed, but not in all rounds",
            Some(Verdict::Missed) => "**missed**",
        };
        let (factor, places, unit) = if goal.is_percent { (100.0, 2, " %") } else { (1.0, 3, "") };
        let bound = format!("at most {}{unit}", goal.bound * factor);
        let figure = show_some(goal.figure, factor, places, unit);
        vec![goal.what.to_owned(), goal.place, bound, figure, verdict.to_owned()]
    };
    let head = vec!["wingbeat's", "where", "is to be", "is", "verdict"];
    Table::new(head, figures::goals(record).into_iter().map(row).collect())
}

fn alone(record: &Record, target: &str) -> String {
    let figures = Figures::new(record);
    let Some(rounds) = figures.alone(target) else { return String::new() };
    let rounds = show(rounds, 1.0, 0, "");
    match figures.switches_alone(target) {
        Some(switches) => {
            let switches = show(switches, 1.0, 0, "");
            format!("Alone: {rounds} rounds and {switches} switches per second.\n")
        }
        None => format!("Alone: {rounds} rounds per second.\n"),
    }
}

fn costs(record: &Record, target: &str) -> Table {
    let figures = Figures::new(record);
    let row = |tool: &super::record::ToolVersion| {
        let cell = |metric, factor, places, unit| {
            show_some(figures.spread(metric, &tool.name, target), factor, places, unit)
        };
        figures.spread(Metric::Pace, &tool.name, target).is_some().then(|| {
            vec![
                tool.name.clone(),
                cell(Metric::Pace, 1.0, 0, ""),
                cell(Metric::Slowdown, 100.0, 1, " %"),
                cell(Metric::OwnPerSwitch, 1.0, 3, ""),
                cell(Metric::GrowthPerSwitch, 1.0, 3, ""),
                cell(Metric::ReadingPerSwitch, 1.0, 2, ""),
                cell(Metric::Own, 1.0, 2, ""),
                cell(Metric::File, 1.0, 2, ""),
                cell(Metric::Seen, 100.0, 1, " %"),
                cell(Metric::Lost, 100.0, 1, " %"),
            ]
        })
    };
    let head = vec![
        "tool",
        "rounds per second",
        "slowdown",
        "own CPU per switch, µs",
        "without the start, µs",
        "to read it, µs per switch",
        "own CPU, s",
        "file, MB",
        "switches seen",
        "lost",
    ];
    Table::new(head, record.tools.iter().filter_map(row).collect())
}

fn sums(record: &Record, what: &'static str, sums: fn(&Agreement) -> &[Sum]) -> Table {
    let mut names: Vec<&str> = Vec::new();
    for sum in record.agreements.iter().flat_map(sums) {
        if !names.contains(&sum.name.as_str()) {
            names.push(&sum.name);
        }
    }
    let row = |name: &str| {
        let of_name = || record.agreements.iter().flat_map(sums).filter(|sum| sum.name == name);
        let times = |time_ns: fn(&Sum) -> Option<u64>| {
            Spread::of(of_name().filter_map(time_ns).map(ms))
                .map_or_else(|| NONE.to_owned(), |spread| show(spread, 1.0, 3, ""))
        };
        vec![
            format!("`{name}`"),
            times(|sum| Some(sum.perf_ns)),
            times(|sum| Some(sum.wingbeat_ns)),
            show_some(Spread::of(of_name().filter_map(Sum::gap)), 100.0, 3, " %"),
            times(|sum| sum.target_ns),
        ]
    };
    let head = vec![what, "perf, ms", "wingbeat, ms", "difference", "target's own clock, ms"];
    Table::new(head, names.into_iter().map(row).collect())
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of minutes fit 53 bits")]
fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::{
        super::record::{Alone, Outcome, Report, Run, ToolVersion},
        *,
    };

    fn record() -> Record {
        let report = |rounds| Report {
            rounds,
            wall_time_ns: 1_000_000_000,
            cpu_time_ns: 1_000_000_000,
            switches: Some(rounds * 2),
            threads: Vec::new(),
        };
        let tool = |name: &str| ToolVersion { name: name.to_owned(), ..ToolVersion::default() };
        Record {
            rounds: 1,
            seconds: 1,
            tools: vec![tool("wingbeat"), tool("perf")],
            alone: vec![Alone {
                target: "token".to_owned(),
                report: report(100_000),
                cpu_ns: 1_000_000_000,
                ..Alone::default()
            }],
            runs: vec![Run {
                tool: "perf".to_owned(),
                target: "token".to_owned(),
                report: report(50_000),
                outcome: Outcome {
                    cpu_ns: 1_100_000_000,
                    seen: Some(99_000),
                    lost: Some(1000),
                    file_bytes: 20_000_000,
                    reading_cpu_ns: None,
                },
                ..Run::default()
            }],
            agreements: vec![Agreement {
                functions: vec![Sum {
                    name: "a::rest".to_owned(),
                    perf_ns: 2_000_000,
                    wingbeat_ns: 1_999_000,
                    target_ns: None,
                }],
                ..Agreement::default()
            }],
            ..Record::default()
        }
    }

    /// The cells of each row, without the heading.
    fn cells(table: &Table) -> Vec<Vec<String>> {
        let row = |line: &str| {
            line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
        };
        table.to_markdown().lines().skip(2).map(row).collect()
    }

    #[test]
    fn costs_of_those_that_ran() {
        let found = cells(&costs(&record(), "token"));
        let expected =
            ["perf", "50000", "100.0 %", "1.000", "–", "–", "0.10", "20.00", "99.0 %", "1.0 %"];
        assert_eq!(found, [expected]);
        assert_eq!(
            alone(&record(), "token"),
            "Alone: 100000 rounds and 200000 switches per second.\n"
        );
    }

    #[test]
    fn sums_beside_each_other() {
        let found = cells(&sums(&record(), "function", |agreement| &agreement.functions));
        assert_eq!(found, [["`a::rest`", "2.000", "1.999", "−0.050 %", "–"]]);
        let none = sums(&record(), "thread", |agreement| &agreement.threads);
        assert_eq!(none.to_markdown(), "");
    }

    #[test]
    fn goals_say_what_was_not_measured() {
        let found = cells(&goals(&record()));
        let of = |what: &str| found.iter().find(|row| row[0] == what).cloned().unwrap_or_default();
        assert_eq!(of("slowdown")[1..], ["token", "at most 20 %", "–", "not measured"]);
        let functions = of("sums per function: difference from perf's");
        assert_eq!(functions[2..], ["at most 1 %", "0.05 %", "reached"]);
    }

    #[test]
    fn parts_without_figures_are_left_out() {
        let text = all(&Record::default());
        assert!(text.contains("### Goals off the CPU") && !text.contains("### The same"), "{text}");
    }
}
