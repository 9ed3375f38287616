//! Google Benchmark's console output, without `--benchmark_format`:
//!
//! ```text
//! Benchmark               Time             CPU   Iterations UserCounters...
//! -------------------------------------------------------------------------
//! Copy/64              5.96 ns         5.96 ns       455475 Foo=12.5 bytes_per_second=10.0067Gi/s a label
//! Broken               ERROR OCCURRED: 'no bees'
//! ```
//!
//! With `--benchmark_counters_tabular` each counter has a column. Figures are rounded to three or more digits. Only
//! names identify aggregates: if `_mean`, `_median` and `_stddev` of a name are in one table, they are its aggregates.

use std::collections::{HashMap, HashSet};

use super::Run;
use crate::adapter::prelude::*;

/// Suffixes of aggregates. The first three occur together.
const AGGREGATES: [&str; 4] = ["mean", "median", "stddev", "cv"];

/// Prefixes of the powers of 1,000, or of 1,024 if followed by `i`, and of those of 1/1,000.
const LARGE: &str = "kMGTPEZY";
const BINARY: &str = "KMGTPEZY";
const SMALL: &str = "munpfazy";

struct Head {
    names_width: usize,
    /// Counters in columns, with the byte offset of each column's end.
    columns: Vec<(usize, String)>,
}

/// The tables in a text, each with its position.
pub(super) fn tables(at: At, text: &str) -> Vec<(At, Vec<Run>)> {
    let mut tables: Vec<(usize, Vec<(usize, Run)>)> = Vec::new();
    let mut head: Option<Head> = None;
    for (line, content) in numbered(text) {
        if let Some(found) = heading(content) {
            head = Some(found);
            tables.push((line, Vec::new()));
        } else if let (Some(head), Some((_, rows))) = (&head, tables.last_mut())
            && let Some(run) = row(head, content)
        {
            rows.push((line, run));
        }
    }
    let tables = tables.into_iter();
    tables.map(|(line, rows)| (At { line, ..at }, with_aggregates(rows))).collect()
}

fn heading(line: &str) -> Option<Head> {
    let mut words = words(line);
    let mut is =
        |expected: &str| words.next().filter(|(_, word)| *word == expected).map(|(end, _)| end);
    is("Benchmark")?;
    let time_end = is("Time")?;
    is("CPU")?;
    is("Iterations")?;
    let columns = words.filter(|(_, word)| !word.ends_with("..."));
    Some(Head {
        // Between the names and the end of this title are a space and 13 more bytes.
        names_width: time_end.checked_sub(14)?,
        columns: columns.map(|(end, name)| (end, name.to_owned())).collect(),
    })
}

/// The words of a line, each with the byte offset of its end.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let start = line.as_ptr() as usize;
    line.split_ascii_whitespace()
        .map(move |word| (word.as_ptr() as usize - start + word.len(), word))
}

fn row(head: &Head, line: &str) -> Option<Run> {
    let (name, rest) = line.split_at_checked(head.names_width)?;
    let name = name.trim();
    if name.is_empty() || !rest.starts_with(' ') {
        return None;
    }
    let mut run = Run { name: name.to_owned(), ..Run::default() };
    let told = rest.trim();
    if let Some((_, message)) =
        told.split_once("ERROR OCCURRED: ").or_else(|| told.split_once("SKIPPED: "))
    {
        run.is_failed = true;
        run.message = Some(message.trim_matches('\'').to_owned());
        return Some(run);
    }
    let mut words = words(rest);
    let mut next = || words.next().map(|(_, word)| word);
    let (printed, unit) = (next()?, next()?);
    let time = ungrouped(printed)?;
    let (cpu_time, _) = (ungrouped(next()?)?, next()?);
    // Complexity rows (`BigO`, `RMS`) have no iterations.
    next()?.parse::<u64>().ok()?;
    nanoseconds(unit).or_else(|| (unit == "%").then_some(1.0))?;
    run.time_unit = Some(unit.to_owned());
    run.real_time = Figure(Some(time));
    run.cpu_time = Figure(Some(cpu_time));
    let is_aggregate = AGGREGATES.iter().any(|ending| name.ends_with(&format!("_{ending}")));
    if time.is_nan() || cpu_time.is_nan() {
        run.message = Some(format!("its time {ODD_COMMA}"));
    } else if time == 0.0 && unit != "ns" && !is_aggregate {
        // An empty loop takes 0.000 ns, but no benchmark takes 0.000 s.
        run.message = Some(format!(
            "its time is printed as {printed} {unit}; let it use a smaller unit, or use --benchmark_format=json"
        ));
    }
    (run.is_failed, run.is_unreadable) = (run.message.is_some(), run.message.is_some());
    let mut label = Vec::new();
    for (end, word) in words {
        let column = head.columns.iter().find(|column| column.0 == end + head.names_width);
        let (name, value) = match (column, word.rsplit_once('=')) {
            (Some((_, name)), _) => (Some(name.as_str()), word),
            (None, Some((name, value))) => (Some(name), value),
            (None, None) => (None, word),
        };
        let bare = value.trim_start_matches('-').trim_end_matches("/s");
        let is_no_number = matches!(bare, "inf" | "nan");
        match name.zip(scaled(value).map(Some).or(is_no_number.then_some(None))) {
            Some((name, value)) => {
                label.push(name);
                run.counters.push((label.join(" "), Figure(value)));
                label.clear();
            }
            // A counter's name may have several words, and so may the label, which comes last.
            None => label.push(word),
        }
    }
    Some(run)
}

/// `133.097Ki/s`, `33.2742k/s`, `5.95642ns`, `12.5`
fn scaled(text: &str) -> Option<f64> {
    let text = text.strip_suffix("/s").or_else(|| text.strip_suffix('s')).unwrap_or(text);
    let end = text.rfind(|c: char| c.is_ascii_digit() || c == '.')? + 1;
    let (value, prefix) = text.split_at(end);
    let value = ungrouped(value).filter(|value| value.is_finite())?;
    let letter = prefix.chars().next();
    let power = |letters: &str| power(letters, letter?);
    Some(match prefix {
        "" => value,
        _ if prefix.len() == 2 && prefix.ends_with('i') => value * 1024_f64.powi(power(BINARY)?),
        _ if prefix.len() == 1 => match power(LARGE) {
            Some(power) => value * 1000_f64.powi(power),
            None => value / 1000_f64.powi(power(SMALL)?),
        },
        _ => return None,
    })
}

/// Separates aggregates from benchmarks. A name that recurs without repetitions cannot be read. Failed names may recur:
/// with fewer than two successful repetitions there are no aggregates.
fn with_aggregates(rows: Vec<(usize, Run)>) -> Vec<Run> {
    let names: HashSet<String> = rows.iter().map(|(_, run)| run.name.clone()).collect();
    let has_aggregates = |name: &str| {
        AGGREGATES[..3].iter().all(|ending| names.contains(&format!("{name}_{ending}")))
    };
    let failed: HashSet<String> =
        rows.iter().filter(|(_, run)| run.is_failed).map(|(_, run)| run.name.clone()).collect();
    let mut lines: HashMap<String, usize> = HashMap::new();
    let mut runs = Vec::with_capacity(rows.len());
    for (line, mut run) in rows {
        let aggregate = run
            .name
            .rsplit_once('_')
            .filter(|(name, ending)| AGGREGATES.contains(ending) && has_aggregates(name));
        if let Some((name, ending)) = aggregate {
            let (name, ending) = (name.to_owned(), ending.to_owned());
            (run.run_name, run.aggregate) = (Some(name), Some(ending));
        } else if let Some(first) = lines.insert(run.name.clone(), line)
            && !has_aggregates(&run.name)
            && !failed.contains(&run.name)
        {
            run.message = Some(once::recurs(first, &run.name));
            (run.is_failed, run.is_unreadable) = (true, true);
        }
        runs.push(run);
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::Adapter;

    const AT: At = At { adapter: Adapter::CppGoogle, line: 1 };

    fn table(rows: &str) -> Vec<Run> {
        let head = "Benchmark               Time             CPU   Iterations UserCounters...\n";
        let mut tables = tables(AT, &format!("{head}----------\n{rows}"));
        tables.remove(0).1
    }

    #[test]
    fn rows() {
        let runs = table(
            "a<x, y>/64        5.96 ns         6.06 ns       455475 Foo=12.5 per second=2.5Ki/s inverted=5ns a label\n\
             b_BigO            1.20 N          1.21 N\nb_RMS                3 %             3 %\nwhat it prints\n\
             c              1.2e+09 us            0 us            1\n",
        );
        let names: Vec<_> = runs.iter().map(|run| run.name.as_str()).collect();
        assert_eq!(names, ["a<x, y>/64", "c"]);
        assert_eq!((runs[0].real_time.0, runs[0].cpu_time.0), (Some(5.96), Some(6.06)));
        let counters: Vec<_> =
            runs[0].counters.iter().map(|(name, value)| (name.as_str(), value.0)).collect();
        let expected =
            [("Foo", Some(12.5)), ("per second", Some(2560.0)), ("inverted", Some(5e-9))];
        assert_eq!(counters, expected);
        assert_eq!((runs[1].real_time.0, runs[1].time_unit.as_deref()), (Some(1.2e9), Some("us")));
    }

    #[test]
    fn counters_that_are_no_numbers_leave_the_next_name_alone() {
        let runs = table(
            "a                 5.96 ns         6.06 ns       455475 inf=inf nan=-nan/s neg=-3 label\n",
        );
        let counters: Vec<_> = runs[0].counters.iter().map(|(n, v)| (n.as_str(), v.0)).collect();
        assert_eq!(counters, [("inf", None), ("nan", None), ("neg", Some(-3.0))]);
    }

    #[test]
    fn counters_in_columns() {
        let row = |name: &str, bar: &str, foo: &str| {
            format!("{name:<10}       5.96 ns         6.06 ns       455475 {bar:>10} {foo:>10}")
        };
        let head = format!(
            "{:<10} {:>13} {:>15} {:>12} {:>10} {:>10}",
            "Benchmark", "Time", "CPU", "Iterations", "Bar", "Foo"
        );
        let (one, both) = (row("a", "", "1.5k"), row("b", "2M", "3/s"));
        let text = format!("{head}\n-----\n{one}\n{both} label\n");
        let runs = tables(AT, &text).remove(0).1;
        let counters =
            |run: &Run| run.counters.iter().map(|(n, v)| (n.clone(), v.0)).collect::<Vec<_>>();
        assert_eq!(counters(&runs[0]), [("Foo".to_owned(), Some(1500.0))]);
        let both = [("Bar".to_owned(), Some(2e6)), ("Foo".to_owned(), Some(3.0))];
        assert_eq!(counters(&runs[1]), both);
    }

    #[test]
    fn numbers_with_prefixes() {
        let check = |text, expected| assert_eq!(scaled(text), expected, "{text}");
        check("33.25k/s", Some(33_250.0));
        check("1.5Mi/s", Some(1.5 * 1024.0 * 1024.0));
        check("250m", Some(0.25));
        check("12", Some(12.0));
        check("-3", Some(-3.0));
        check("1.5x", None);
        check("12.5%", None);
        check("s", None);
    }
}
