//! The tables, as text. Pure: a record in, cells out.

use super::{
    goals::{self, Goal, Unit, Verdict},
    record::Record,
    stats::{Figures, Growth, Metric, Place, Spread},
    tools::WINGBEAT,
};

/// What stands where there is no figure.
const NONE: &str = "–";

/// Rows of cells below a heading, which is text as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Of these cells.
    pub(super) fn new(head: Vec<&'static str>, rows: Vec<Vec<String>>) -> Self {
        Self { head, rows }
    }

    /// As Markdown, in columns that also read well on a terminal. Nothing without rows.
    pub(super) fn to_markdown(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let rows = self.escaped();
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            let longest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
            longest.max(self.head[column].chars().count())
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        self.lines(&rows, &widths)
    }

    /// As Markdown that is not made to be read as it is: without blanks that make columns, which are the
    /// larger part of a long table with a wide column.
    pub(super) fn to_compact_markdown(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        self.lines(&self.escaped(), &vec![3; self.head.len()])
    }

    fn escaped(&self) -> Vec<Vec<String>> {
        // A bar would end the cell, even within code.
        let escaped = |row: &Vec<String>| row.iter().map(|cell| cell.replace('|', r"\|")).collect();
        self.rows.iter().map(escaped).collect()
    }

    fn lines(&self, rows: &[Vec<String>], widths: &[usize]) -> String {
        let line = |cells: &[&str]| {
            let cells = cells.iter().zip(widths);
            let padded = cells.map(|(cell, &width)| format!(" {cell:<width$} |"));
            format!("|{}\n", padded.collect::<String>())
        };
        let rule: Vec<String> = widths.iter().map(|&width| "-".repeat(width)).collect();
        let mut text = line(&self.head);
        text.push_str(&line(&rule.iter().map(String::as_str).collect::<Vec<_>>()));
        for row in rows {
            text.push_str(&line(&row.iter().map(String::as_str).collect::<Vec<_>>()));
        }
        text
    }
}

/// The tools that took part, and how to get those that did not.
pub(super) fn tools(record: &Record) -> Table {
    let rows = record.tools.iter().map(|tool| {
        let version = match (&tool.version, &tool.install) {
            (Some(version), _) => version.clone(),
            (None, Some(install)) => format!("missing: `{install}`"),
            (None, None) => "missing".to_owned(),
        };
        vec![tool.name.clone(), version, format!("`{}`", tool.chain)]
    });
    Table { head: vec!["tool", "version", "what is run"], rows: rows.collect() }
}

/// The goals with their figures.
pub(super) fn goals(record: &Record) -> Table {
    let row = |goal: Goal| {
        let (figure, place, verdict) = match goal.worst {
            Some((spread, place, verdict)) => {
                (goal_figure(goal.unit, spread), place, verdict_text(verdict))
            }
            None => (NONE.to_owned(), NONE.to_owned(), "not measured"),
        };
        vec![goal.what.to_owned(), goal.bound.to_owned(), figure, place, verdict.to_owned()]
    };
    Table {
        head: vec!["wingbeat's", "is to be", "worst", "where", "verdict"],
        rows: goals::all(record).into_iter().map(row).collect(),
    }
}

fn verdict_text(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Reached => "reached",
        Verdict::Unclear => "missed, but not in all rounds",
        Verdict::Missed => "**missed**",
    }
}

fn goal_figure(unit: Unit, spread: Spread) -> String {
    match unit {
        Unit::Ratio => show(spread, 1.0, 3, ""),
        Unit::Points => show(spread, 100.0, 1, " points"),
        Unit::Bytes => show(spread, 1.0, 0, ""),
    }
}

/// The main figures on one workload, for a page that has room for one table.
pub(super) fn summary(record: &Record, workload: &str) -> Table {
    let figures = Figures::new(record);
    let mut rows = Vec::new();
    if let Some((low, high)) = goals::growth_pair(record) {
        let few = Place { workload, frequency_hz: low };
        let many = Place { workload, frequency_hz: high };
        let ours = figures.growth(WINGBEAT, workload, (low, high));
        for tool in &record.tools {
            let spread = |metric, place| figures.spread(metric, &tool.name, place);
            let growth = figures.growth(&tool.name, workload, (low, high));
            if !growth.is_empty() {
                let [_, _, fixed, _, slope, slope_ratio] =
                    growth_row(workload, &tool.name, &growth, &ours);
                rows.push(vec![
                    tool.name.clone(),
                    show_some(spread(Metric::Rate, few), 1.0, 3, ""),
                    show_some(spread(Metric::Slowdown, many), 100.0, 1, " %"),
                    fixed,
                    slope,
                    slope_ratio,
                    show_some(spread(Metric::Finish, many), 1.0, 2, ""),
                    show_some(spread(Metric::Memory, many), 1.0, 0, ""),
                ]);
            }
        }
    }
    Table {
        head: vec![
            "tool",
            "samples ÷ due",
            "slowdown",
            "own CPU, fixed, s",
            "per sample, µs",
            "÷ wingbeat",
            "end to file, s",
            "memory, MB",
        ],
        rows,
    }
}

/// How each tool's own cost divides into a fixed part and one that grows with the samples.
pub(super) fn growth(record: &Record) -> Table {
    let mut rows = Vec::new();
    let figures = Figures::new(record);
    if let Some(pair) = goals::growth_pair(record) {
        for workload in goals::workloads(record) {
            let ours = figures.growth(WINGBEAT, workload, pair);
            for tool in &record.tools {
                let growth = figures.growth(&tool.name, workload, pair);
                if !growth.is_empty() {
                    rows.push(growth_row(workload, &tool.name, &growth, &ours).to_vec());
                }
            }
        }
    }
    let head = vec!["workload", "tool", "fixed, s", "÷ wingbeat", "per sample, µs", "÷ wingbeat"];
    Table { head, rows }
}

fn growth_row(workload: &str, tool: &str, growth: &[Growth], ours: &[Growth]) -> [String; 6] {
    let over = |part: fn(&Growth) -> f64| Spread::of(growth.iter().map(part));
    let ratio = |part: fn(&Growth) -> f64| {
        let pairs = growth.iter().filter_map(|their| {
            let our = ours.iter().find(|our| our.round == their.round)?;
            Some(part(their) / part(our))
        });
        if tool == WINGBEAT { None } else { Spread::of(pairs) }
    };
    [
        workload.to_owned(),
        tool.to_owned(),
        show_some(over(|growth| growth.fixed_s), 1.0, 2, ""),
        show_some(ratio(|growth| growth.fixed_s), 1.0, 2, ""),
        show_some(over(|growth| growth.slope_us), 1.0, 1, ""),
        show_some(ratio(|growth| growth.slope_us), 1.0, 1, ""),
    ]
}

/// The figures of each tool on a workload.
pub(super) fn figures(record: &Record, workload: &str) -> Table {
    let figures = Figures::new(record);
    let rows = places_and_tools(record, workload).into_iter().map(|(place, tool)| {
        let show_metric = |metric, factor, places, unit| {
            show_some(figures.spread(metric, tool, place), factor, places, unit)
        };
        vec![
            place.frequency_hz.to_string(),
            tool.to_owned(),
            show_metric(Metric::Rate, 1.0, 3, ""),
            show_metric(Metric::Lost, 100.0, 1, " %"),
            show_metric(Metric::Slowdown, 100.0, 1, " %"),
            show_metric(Metric::OwnPer10k, 1.0, 2, ""),
            show_metric(Metric::Finish, 1.0, 2, ""),
            show_metric(Metric::Memory, 1.0, 0, ""),
            show_metric(Metric::Bytes, 1.0, 0, ""),
        ]
    });
    Table {
        head: vec![
            "Hz",
            "tool",
            "samples ÷ due",
            "lost",
            "slowdown",
            "own CPU, s per 10,000",
            "end to file, s",
            "memory, MB",
            "bytes per sample",
        ],
        rows: rows.collect(),
    }
}

/// What the peers take ÷ what wingbeat takes, on a workload. Nothing when wingbeat was left out.
pub(super) fn ratios(record: &Record, workload: &str) -> Table {
    let figures = Figures::new(record);
    let peers =
        places_and_tools(record, workload).into_iter().filter(|(_, tool)| *tool != WINGBEAT);
    let rows = peers.map(|(place, tool)| {
        let ratio = |metric, places| {
            show_some(figures.ratio(metric, (tool, WINGBEAT), place), 1.0, places, "")
        };
        let slowdown = figures.difference(Metric::Slowdown, (tool, WINGBEAT), place);
        vec![
            place.frequency_hz.to_string(),
            tool.to_owned(),
            ratio(Metric::Rate, 3),
            show_some(slowdown, 100.0, 1, " points"),
            ratio(Metric::OwnPer10k, 2),
            ratio(Metric::Finish, 2),
            ratio(Metric::Memory, 2),
            ratio(Metric::Bytes, 2),
        ]
    });
    Table {
        head: vec![
            "Hz",
            "peer ÷ wingbeat",
            "samples",
            "slowdown (difference)",
            "own CPU",
            "end to file",
            "memory",
            "bytes per sample",
        ],
        rows: rows.collect(),
    }
}

/// The places of a workload with the tools that have figures there.
fn places_and_tools<'a>(record: &'a Record, workload: &str) -> Vec<(Place<'a>, &'a str)> {
    let figures = Figures::new(record);
    let places = goals::places(record).into_iter().filter(|place| place.workload == workload);
    let mut found = Vec::new();
    for place in places {
        for tool in &record.tools {
            if figures.spread(Metric::Memory, &tool.name, place).is_some() {
                found.push((place, tool.name.as_str()));
            }
        }
    }
    found
}

pub(super) fn show_some(spread: Option<Spread>, factor: f64, places: usize, unit: &str) -> String {
    spread.map_or_else(|| NONE.to_owned(), |spread| show(spread, factor, places, unit))
}

/// `median (min to max)`, or only the median when the three read the same.
pub(super) fn show(spread: Spread, factor: f64, places: usize, unit: &str) -> String {
    let number = |value: f64| {
        let text = format!("{:.places$}", value * factor);
        // Rounding may leave a zero with a sign.
        if text.trim_start_matches('-').bytes().all(|b| b == b'0' || b == b'.') {
            text.trim_start_matches('-').to_owned()
        } else {
            text.replace('-', "−")
        }
    };
    let [median, min, max] = [spread.median, spread.min, spread.max].map(number);
    if min == max { format!("{median}{unit}") } else { format!("{median}{unit} ({min} to {max})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_with_their_spread() {
        let check = |(min, median, max), places, unit, expected: &str| {
            let spread = Spread { median, min, max };
            assert_eq!(show(spread, 1.0, places, unit), expected);
        };
        check((0.99, 1.0, 1.012), 2, "", "1.00 (0.99 to 1.01)");
        check((1.0, 1.0, 1.0), 2, " %", "1.00 %");
        check((0.999, 1.0, 1.001), 2, "", "1.00");
        check((-0.44, -0.04, 0.2), 1, " %", "0.0 % (−0.4 to 0.2)");
    }

    #[test]
    fn tables_are_aligned_markdown() {
        let table = Table {
            head: vec!["a", "bb"],
            rows: vec![
                vec!["µµµ".to_owned(), "1".to_owned()],
                vec!["x|".to_owned(), "22".to_owned()],
            ],
        };
        assert_eq!(
            table.to_markdown(),
            "| a   | bb |\n| --- | -- |\n| µµµ | 1  |\n| x\\| | 22 |\n"
        );
        assert_eq!(Table { head: vec!["a"], rows: Vec::new() }.to_markdown(), "");
    }
}
