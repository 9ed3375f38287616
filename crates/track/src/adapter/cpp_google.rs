//! Google Benchmark: `--benchmark_format=json`, or its console output. C++, and its Python bindings.
//!
//! Repetitions are samples. Aggregates are ignored if their repetitions are present. If there are only aggregates, the
//! mean is used, with one standard deviation on either side.

use std::{
    collections::{HashMap, HashSet},
    fmt,
};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};

use crate::adapter::prelude::*;

#[derive(Deserialize)]
struct Report {
    #[serde(rename = "context")]
    _context: IgnoredAny,
    benchmarks: Vec<Run>,
}

/// An entry: a repetition, or an aggregate of several.
#[derive(Default)]
struct Run {
    name: String,
    /// Name without the suffix of an aggregate. Missing in old versions.
    run_name: Option<String>,
    /// Indices of the benchmark's family and of its set of arguments.
    instance: [Option<u64>; 2],
    /// `mean`, `median`, `stddev`, `cv`, `BigO`, `RMS`.
    aggregate: Option<String>,
    is_failed: bool,
    /// Whether it failed because its figures cannot be read.
    is_unreadable: bool,
    message: Option<String>,
    real_time: Figure,
    cpu_time: Figure,
    time_unit: Option<String>,
    counters: Vec<(String, Figure)>,
}

impl Run {
    fn run_name(&self) -> &str {
        self.run_name.as_deref().unwrap_or(&self.name)
    }
}

pub(super) fn parse(text: &str, _: Option<Average>) -> Parsed {
    let adapter = Adapter::CppGoogle;
    let reports = documents::<Report>(adapter, text, &["\"benchmarks\"", "\"real_time\""])?;
    let mut results = Results::default();
    let mut measures = HashMap::new();
    let mut found: Vec<_> =
        reports.found.into_iter().map(|(at, report)| (at, report.benchmarks)).collect();
    if found.is_empty() {
        found = tables(At { adapter, line: 1 }, text);
    }
    for (at, runs) in found {
        read(at, &runs, &mut measures, &mut results);
    }
    Ok(results)
}

/// Adds the results of one document or table.
fn read(at: At, runs: &[Run], measures: &mut HashMap<String, Measure>, results: &mut Results) {
    // Repetitions share a name, and so do two benchmarks registered under the same one.
    let mut instances = HashMap::new();
    for (entry, run) in (1..).zip(runs).filter(|(_, run)| run.aggregate.is_none()) {
        let (first, instance) = *instances.entry(run.run_name()).or_insert((entry, run.instance));
        if instance != run.instance {
            let name = run.run_name();
            at.lose(results, name, naming::both(at, first, entry, name));
        }
    }
    let mut failed = HashSet::new();
    let mut repeated = HashSet::new();
    for run in runs {
        if run.is_failed {
            if failed.insert(run.run_name()) {
                let reason = run.message.as_deref().unwrap_or("it was skipped");
                at.read(results, run.run_name(), |results, name| match run.is_unreadable {
                    true => Err(at.malformed(reason)),
                    false => {
                        results.fail(name, reason);
                        Ok(())
                    }
                });
            }
        } else if run.aggregate.is_none() {
            repeated.insert(run.run_name());
        }
    }
    // Where single repetitions are not listed, each mean gets its deviation.
    let deviations: HashMap<&str, &Run> = runs
        .iter()
        .filter(|run| run.aggregate.as_deref() == Some("stddev"))
        .map(|run| (run.run_name(), run))
        .collect();
    for run in runs {
        let run_name = run.run_name();
        if failed.contains(run_name) {
            continue;
        }
        let deviation = match run.aggregate.as_deref() {
            None => None,
            Some("mean") if !repeated.contains(run_name) => deviations.get(run_name).copied(),
            Some(_) => continue,
        };
        at.read(results, run_name, |results, name| {
            let Some(metrics) = metrics(at, run, deviation, measures)? else {
                results.fail(name, "its time is not a number");
                return Ok(());
            };
            // Bencher treats aggregates as benchmarks.
            results.set_bencher_name(&name, &run.name);
            for (measure, metric) in metrics {
                results.add(name.clone(), measure, metric)?;
            }
            Ok(())
        });
    }
}

/// The metrics of a repetition, or of a mean with its deviation. `None` if there is no time.
fn metrics(
    at: At,
    run: &Run,
    deviation: Option<&Run>,
    measures: &mut HashMap<String, Measure>,
) -> Parsed<Option<Vec<(Measure, Metric)>>> {
    let unit = run.time_unit.as_deref().unwrap_or("ns");
    let wrong = || format!("{:?} has the time unit {unit:?}, which is unknown", run.name);
    let factor = nanoseconds(unit).ok_or_else(|| at.malformed(wrong()))?;
    let spread = |of: fn(&Run) -> Figure| deviation.map_or(Figure(None), of);
    let mut metrics = Vec::with_capacity(2 + run.counters.len());
    let mut add = |label: &str, value, spread, factor| {
        let metric = around(value, spread, &[], factor)?;
        let known = measures.get(label).cloned();
        let measure = known.unwrap_or_else(|| {
            let made = measure(label);
            measures.insert(label.to_owned(), made.clone());
            made
        });
        metrics.push((measure, metric));
        Some(())
    };
    if add(LATENCY, run.real_time, spread(|run| run.real_time), factor).is_none() {
        return Ok(None);
    }
    add(CPU_TIME, run.cpu_time, spread(|run| run.cpu_time), factor);
    for (label, value) in &run.counters {
        let same =
            |run: &Run| run.counters.iter().find(|other| other.0 == *label).map(|other| other.1);
        add(label, *value, deviation.and_then(same).unwrap_or_default(), 1.0);
    }
    Ok(Some(metrics))
}

/// Labels of the times. Counters are in the same object, so they cannot use these.
const LATENCY: &str = "real_time";
const CPU_TIME: &str = "cpu_time";

/// The measure of a time or a counter. Only the library's own rates have a known direction.
fn measure(counter: &str) -> Measure {
    match counter {
        LATENCY => Measure::latency(),
        CPU_TIME => Measure::named("cpu-time"),
        "bytes_per_second" | "items_per_second" => Measure::named(&counter.replace('_', "-")),
        "allocs_per_iter" => naming::counter(counter, "allocations", Direction::LowerIsBetter),
        "max_bytes_used" | "total_allocated_bytes" | "net_heap_growth" => {
            naming::counter(counter, "bytes (B)", Direction::LowerIsBetter)
        }
        _ => naming::counter(counter, "", Direction::Unknown),
    }
}

impl<'de> Deserialize<'de> for Run {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Run;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a benchmark")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Run, A::Error> {
                let mut run = Run::default();
                let mut is_aggregate = false;
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "name" => run.name = map.next_value()?,
                        "run_name" => run.run_name = map.next_value()?,
                        "run_type" => is_aggregate = map.next_value::<String>()? == "aggregate",
                        "aggregate_name" => run.aggregate = map.next_value()?,
                        "error_occurred" | "skipped" => {
                            run.is_failed |= map.next_value::<bool>()?;
                        }
                        "error_message" | "skip_message" => run.message = map.next_value()?,
                        "real_time" => run.real_time = map.next_value()?,
                        "cpu_time" => run.cpu_time = map.next_value()?,
                        "time_unit" => run.time_unit = map.next_value()?,
                        "family_index" => run.instance[0] = map.next_value()?,
                        "per_family_instance_index" => run.instance[1] = map.next_value()?,
                        "repetitions" | "repetition_index" | "threads" | "iterations" | "label"
                        | "aggregate_unit" | "cpu_coefficient" | "real_coefficient" | "big_o"
                        | "rms" => {
                            map.next_value::<IgnoredAny>()?;
                        }
                        _ => {
                            if let Counter::Number(value) = map.next_value()? {
                                run.counters.push((key, value));
                            }
                        }
                    }
                }
                if run.name.is_empty() {
                    return Err(serde::de::Error::missing_field("name"));
                }
                if is_aggregate && run.aggregate.is_none() {
                    run.aggregate = Some("unknown".to_owned());
                }
                Ok(run)
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

/// A field unknown to this version of the adapter.
#[derive(Deserialize)]
#[serde(untagged)]
enum Counter {
    Number(Figure),
    Other(IgnoredAny),
}

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
fn tables(at: At, text: &str) -> Vec<(At, Vec<Run>)> {
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
            run.message = Some(naming::recurs(first, &run.name));
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
