//! All tables of a comparison with where they come from. Pure: a record in, Markdown out.

use super::{
    Mode,
    figures::{Growth, Metric, Place, difference, distinct, ratio},
    goals::{self, Goal, Verdict},
    record::{Agreement, Record, Sum, ToolRecord},
    tools::WINGBEAT,
    workload,
};
use crate::{
    numbers::Spread,
    table::{Column, column, joined, show, table},
};

/// The workload that the summary shows.
const SUMMARY_WORKLOAD: &str = "deep";

/// Greater gaps between wingbeat's own account of its CPU time and the kernel's are noted.
const TOLD_GAP_MAX: f64 = 0.1;

pub(super) fn full(record: &Record, mode: Mode) -> String {
    let mut parts = vec![origin(record), tools(record), notes(record)];
    match mode {
        Mode::OnCpu => {
            parts.extend(["### Goals\n".to_owned(), goals(record, mode)]);
            let growth = growth(record);
            if let Some((low, high)) = record.growth_pair().filter(|_| !growth.is_empty()) {
                parts.push(format!("### Own CPU time, from {low} and {high} Hz\n"));
                parts.push(growth);
            }
            for name in record.workloads() {
                parts.push(format!("### {name}: {}\n", workload::about(name)));
                parts.extend([figures(record, name), ratios(record, name)]);
            }
        }
        Mode::OffCpu => {
            parts.extend(["### Goals off the CPU\n".to_owned(), goals(record, mode)]);
            for place in record.places() {
                let name = place.workload;
                parts.push(format!("### {name}: {}\n", workload::about(name)));
                parts.extend([alone(record, place), costs(record, place)]);
            }
            if !record.agreements.is_empty() {
                parts.push("### The same blocks by wingbeat and by perf\n".to_owned());
                parts.push(sums(record, "thread", |both| &both.threads));
                parts.push(sums(record, "innermost function", |both| &both.functions));
            }
        }
    }
    joined(parts)
}

/// One table, for the README. What was missed stands beside the details.
pub(super) fn summary(record: &Record) -> String {
    let mut parts = vec![origin(record)];
    if let Some((low, high)) = record.growth_pair() {
        parts.push(format!(
            "On {}; samples at {low} Hz, own CPU time from {low} and {high} Hz, the rest at {high} \
             Hz:\n",
            workload::about(SUMMARY_WORKLOAD)
        ));
        parts.push(main_figures(record, SUMMARY_WORKLOAD, (low, high)));
    }
    parts.join("\n")
}

fn origin(record: &Record) -> String {
    let rounds = match record.rounds {
        1 => "; one round".to_owned(),
        rounds => format!("; {rounds} rounds, median (min to max)"),
    };
    let each = match record.seconds {
        0 => String::new(),
        seconds => format!(" of {seconds} s"),
    };
    let mut origin = record.origin.clone();
    // They stand below the tools, with more.
    origin.notes.clear();
    origin.text(&format!("{rounds}{each}"))
}

fn notes(record: &Record) -> String {
    let mut notes = record.origin.notes.clone();
    let gap = record.told_gap(WINGBEAT).filter(|gap| *gap > TOLD_GAP_MAX);
    notes.extend(gap.map(|gap| {
        format!(
            "wingbeat's own account of its CPU time and the kernel's differ by up to {:.0} %.",
            gap * 100.0
        )
    }));
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

/// The tools that took part, and how to get those that did not.
fn tools(record: &Record) -> String {
    let version = |tool: &&ToolRecord| match (&tool.version, &tool.install) {
        (Some(version), _) => version.clone(),
        (None, Some(install)) => format!("missing: `{install}`"),
        (None, None) => "missing".to_owned(),
    };
    table(
        &record.tools,
        &[
            column("tool", |tool: &&ToolRecord| tool.name.clone()),
            column("version", version),
            column("what is run", |tool: &&ToolRecord| format!("`{}`", tool.chain)),
        ],
    )
}

fn goals(record: &Record, mode: Mode) -> String {
    let verdict = |goal: &Goal| match goal.verdict() {
        None => "not measured",
        Some(Verdict::Reached) => "reached",
        Some(Verdict::Unclear) => "missed, but not in all rounds",
        Some(Verdict::Missed) => "**missed**",
    };
    let figure = |goal: &Goal| {
        let (factor, places, unit) = goal.unit;
        show(goal.figure, factor, places, unit)
    };
    let is = if mode == Mode::OnCpu { "worst" } else { "measured" };
    table(
        goals::all(record, mode),
        &[
            column("figure", |goal: &Goal| goal.what),
            column("goal", Goal::bound),
            column(is, figure),
            column("where", |goal: &Goal| goal.place.clone()),
            column("verdict", verdict),
        ],
    )
}

/// A tool at a place.
type ToolAt<'a> = (Place<'a>, &'a str);

/// The tools that have figures at a place, with it.
fn tools_at<'a>(record: &'a Record, place: Place<'a>) -> Vec<ToolAt<'a>> {
    let names = record.tools.iter().map(|tool| tool.name.as_str());
    let has = |tool: &&str| record.spread(Metric::Memory, tool, place).is_some();
    names.filter(has).map(|tool| (place, tool)).collect()
}

/// All frequencies of a workload, each with its tools.
fn tools_on<'a>(record: &'a Record, workload: &str) -> Vec<ToolAt<'a>> {
    let places = record.places().into_iter().filter(|place| place.workload == workload);
    places.flat_map(|place| tools_at(record, place)).collect()
}

fn tool_name<'a>() -> Column<'a, ToolAt<'a>> {
    column("tool", |(_, tool): &ToolAt<'a>| (*tool).to_owned())
}

/// A column with a metric over the rounds.
fn metric<'a>(
    record: &'a Record,
    head: &'static str,
    metric: Metric,
    (factor, places, unit): (f64, usize, &'static str),
) -> Column<'a, ToolAt<'a>> {
    column(head, move |&(place, tool): &ToolAt<'_>| {
        show(record.spread(metric, tool, place), factor, places, unit)
    })
}

/// The main figures on one workload, for a page that has room for one table.
fn main_figures<'a>(record: &'a Record, workload: &'a str, (low, high): (u32, u32)) -> String {
    let ours = record.growth(WINGBEAT, workload, (low, high));
    let growth = |tool: &ToolAt<'_>| record.growth(tool.1, workload, (low, high));
    let few = Place { workload, frequency_hz: low };
    let rows = tools_at(record, Place { workload, frequency_hz: high });
    let part = |part: fn(&Growth) -> f64, places| {
        move |tool: &ToolAt<'_>| show(Spread::of(growth(tool).iter().map(part)), 1.0, places, "")
    };
    table(
        rows.into_iter().filter(|tool| !growth(tool).is_empty()),
        &[
            tool_name(),
            column("samples ÷ due", |(_, tool): &ToolAt<'_>| {
                show(record.spread(Metric::Rate, tool, few), 1.0, 3, "")
            }),
            metric(record, "slowdown", Metric::Slowdown, (100.0, 1, " %")),
            column("own CPU, fixed, s", part(|growth| growth.fixed_s, 2)),
            column("per sample, µs", part(|growth| growth.slope_us, 1)),
            column("÷ wingbeat", |tool: &ToolAt<'_>| {
                over_ours(tool.1, &growth(tool), &ours, |growth| growth.slope_us, 1)
            }),
            metric(record, "end to file, s", Metric::Finish, (1.0, 2, "")),
            metric(record, "memory, MB", Metric::Memory, (1.0, 0, "")),
        ],
    )
}

/// A part of a peer's growth ÷ that of wingbeat's.
fn over_ours(
    tool: &str,
    theirs: &[Growth],
    ours: &[Growth],
    part: fn(&Growth) -> f64,
    places: usize,
) -> String {
    let ratio = (tool != WINGBEAT).then(|| Growth::ratio(theirs, ours, part)).flatten();
    show(ratio, 1.0, places, "")
}

/// How each tool's own cost divides into a fixed part and one that grows with the samples.
fn growth(record: &Record) -> String {
    type Row<'a> = (&'a str, &'a str, Vec<Growth>, Vec<Growth>);
    let Some(pair) = record.growth_pair() else { return String::new() };
    let rows = record.workloads().into_iter().flat_map(|workload| {
        let growth = |tool: &str| record.growth(tool, workload, pair);
        let names = record.tools.iter().map(|tool| tool.name.as_str());
        let row = |tool| (workload, tool, growth(tool), growth(WINGBEAT));
        names.map(row).collect::<Vec<Row<'_>>>()
    });
    let rows = rows.filter(|(_, _, theirs, _)| !theirs.is_empty());
    let over = |part: fn(&Growth) -> f64, places| {
        move |(_, _, theirs, _): &Row<'_>| {
            show(Spread::of(theirs.iter().map(part)), 1.0, places, "")
        }
    };
    let ratio = |part: fn(&Growth) -> f64, places| {
        move |(_, tool, theirs, ours): &Row<'_>| over_ours(tool, theirs, ours, part, places)
    };
    table(
        rows,
        &[
            column("workload", |row: &Row<'_>| row.0.to_owned()),
            column("tool", |row: &Row<'_>| row.1.to_owned()),
            column("fixed, s", over(|growth| growth.fixed_s, 2)),
            column("÷ wingbeat", ratio(|growth| growth.fixed_s, 2)),
            column("per sample, µs", over(|growth| growth.slope_us, 1)),
            column("÷ wingbeat", ratio(|growth| growth.slope_us, 1)),
        ],
    )
}

/// The figures of each tool on a workload.
fn figures(record: &Record, workload: &str) -> String {
    table(
        tools_on(record, workload),
        &[
            column("Hz", |(place, _): &ToolAt<'_>| place.frequency_hz),
            tool_name(),
            metric(record, "samples ÷ due", Metric::Rate, (1.0, 3, "")),
            metric(record, "lost", Metric::Lost, (100.0, 1, " %")),
            metric(record, "slowdown", Metric::Slowdown, (100.0, 1, " %")),
            metric(record, "own CPU, s per 10,000", Metric::OwnPer10k, (1.0, 2, "")),
            metric(record, "end to file, s", Metric::Finish, (1.0, 2, "")),
            metric(record, "memory, MB", Metric::Memory, (1.0, 0, "")),
            metric(record, "bytes per sample", Metric::Bytes, (1.0, 0, "")),
        ],
    )
}

/// What the peers take ÷ what wingbeat takes, on a workload. Nothing when wingbeat was left out.
fn ratios(record: &Record, workload: &str) -> String {
    let compared = |head, metric, compare, (factor, places, unit): (f64, usize, &'static str)| {
        column(head, move |&(place, tool): &ToolAt<'_>| {
            let pair = (tool, WINGBEAT);
            show(record.paired(metric, pair, place, compare), factor, places, unit)
        })
    };
    let ratio = |head, metric, places| compared(head, metric, ratio, (1.0, places, ""));
    table(
        tools_on(record, workload).into_iter().filter(|(_, tool)| *tool != WINGBEAT),
        &[
            column("Hz", |(place, _): &ToolAt<'_>| place.frequency_hz),
            column("peer ÷ wingbeat", |(_, tool): &ToolAt<'_>| (*tool).to_owned()),
            ratio("samples", Metric::Rate, 3),
            compared("slowdown (difference)", Metric::Slowdown, difference, (100.0, 1, " points")),
            ratio("own CPU", Metric::OwnPer10k, 2),
            ratio("end to file", Metric::Finish, 2),
            ratio("memory", Metric::Memory, 2),
            ratio("bytes per sample", Metric::Bytes, 2),
        ],
    )
}

fn alone(record: &Record, place: Place<'_>) -> String {
    let figure = |metric| record.spread_alone(metric, place).map(|spread| spread.show(1.0, 0, ""));
    let Some(rounds) = figure(Metric::Pace) else { return String::new() };
    match figure(Metric::SwitchPace) {
        Some(switches) => format!("Alone: {rounds} rounds and {switches} switches per second.\n"),
        None => format!("Alone: {rounds} rounds per second.\n"),
    }
}

fn costs<'a>(record: &'a Record, place: Place<'a>) -> String {
    let one = |places| (1.0, places, "");
    let percent = (100.0, 1, " %");
    table(
        tools_at(record, place),
        &[
            tool_name(),
            metric(record, "rounds per second", Metric::Pace, one(0)),
            metric(record, "slowdown", Metric::RoundSlowdown, percent),
            metric(record, "own CPU per switch, µs", Metric::OwnPerSwitch, one(3)),
            metric(record, "without the start, µs", Metric::GrowthPerSwitch, one(3)),
            metric(record, "to read it, µs per switch", Metric::ReadingPerSwitch, one(2)),
            metric(record, "own CPU, s", Metric::Own, one(2)),
            metric(record, "file, MB", Metric::File, one(2)),
            metric(record, "switches seen", Metric::SwitchesSeen, percent),
            metric(record, "lost", Metric::SwitchesLost, percent),
        ],
    )
}

fn sums(record: &Record, what: &'static str, sums: fn(&Agreement) -> &[Sum]) -> String {
    let all = || record.agreements.iter().flat_map(sums);
    let of = |name: &str, figure: fn(&Sum) -> Option<f64>| {
        Spread::of(all().filter(|sum| sum.name == name).filter_map(figure))
    };
    let ms = |head, ns: fn(&Sum) -> Option<f64>| {
        column(head, move |name: &&str| show(of(name, ns), 1e-6, 3, ""))
    };
    table(
        distinct(all().map(|sum| sum.name.as_str())),
        &[
            column(what, |name: &&str| format!("`{name}`")),
            ms("perf, ms", |sum| Some(sum.perf_ns as f64)),
            ms("wingbeat, ms", |sum| Some(sum.wingbeat_ns as f64)),
            column("difference", |name: &&str| show(of(name, Sum::gap), 100.0, 3, " %")),
            ms("target's own clock, ms", |sum| Some(sum.target_ns? as f64)),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::{super::figures::tests::off_cpu, *};
    use crate::table::cells_of;

    /// A round of perf alone on the token, and a sum.
    fn record() -> Record {
        let tool = |name: &str| ToolRecord { name: name.to_owned(), ..ToolRecord::default() };
        let sum = Sum {
            name: "a::rest".to_owned(),
            perf_ns: 2_000_000,
            wingbeat_ns: 1_999_000,
            target_ns: None,
        };
        let mut record = off_cpu();
        record.alone.truncate(1);
        record.runs.retain(|run| run.tool == "perf" && run.round == 0);
        record.tools = vec![tool("wingbeat"), tool("perf")];
        record.agreements = vec![Agreement { functions: vec![sum], ..Agreement::default() }];
        record
    }

    #[test]
    fn costs_of_those_that_ran() {
        let (record, place) = (record(), Place { workload: "token", frequency_hz: 0 });
        let found = cells_of(&costs(&record, place));
        let expected =
            ["perf", "250000", "100.0 %", "0.500", "–", "–", "0.50", "3.00", "50.0 %", "–"];
        assert_eq!(found, [expected]);
        let text = alone(&record, place);
        assert_eq!(text, "Alone: 500000 rounds and 1000000 switches per second.\n");
    }

    #[test]
    fn sums_beside_each_other() {
        let found = cells_of(&sums(&record(), "function", |agreement| &agreement.functions));
        assert_eq!(found, [["`a::rest`", "2.000", "1.999", "−0.050 %", "–"]]);
        assert_eq!(sums(&record(), "thread", |agreement| &agreement.threads), "");
    }

    #[test]
    fn goals_say_what_was_not_measured() {
        let found = cells_of(&goals(&record(), Mode::OffCpu));
        let of = |what: &str| found.iter().find(|row| row[0] == what).cloned().unwrap_or_default();
        assert_eq!(of("slowdown")[1..], ["at most 20 %", "–", "token", "not measured"]);
        let functions = of("sums per function: difference from perf's");
        assert_eq!(functions[1..], ["at most 1 %", "0.05 %", "sleepy, the worst", "reached"]);
    }

    #[test]
    fn parts_without_figures_are_left_out() {
        let text = full(&Record::default(), Mode::OffCpu);
        assert!(text.contains("### Goals off the CPU") && !text.contains("### The same"), "{text}");
        let text = full(&Record::default(), Mode::OnCpu);
        assert!(text.contains("### Goals") && !text.contains("### Own CPU"), "{text}");
    }
}
