//! `go test -bench`, with all of its metrics per operation, also within `-json`.
//!
//! ```text
//! BenchmarkJoin-8     97244     113.4 ns/op     32 B/op     2 allocs/op
//! ```

use std::borrow::Cow;

use memchr::memchr2;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Deserialize;

use crate::adapter::prelude::*;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Event<'t> {
    #[serde(borrow)]
    package: Option<Cow<'t, str>>,
    #[serde(borrow)]
    output: Option<Cow<'t, str>>,
}

struct Line<'t> {
    line: usize,
    package: &'t str,
    name: &'t str,
    /// The values; or go test's failure message, or why the line cannot be read.
    outcome: Result<Values<'t>, Cow<'t, str>>,
}

/// A benchmark whose name was printed before it ran, and whose result is still missing.
#[derive(Clone, Copy)]
struct Pending<'t> {
    line: usize,
    name: &'t str,
    /// Whether the name has its own line, as with -v: then the result does, too.
    is_alone: bool,
}

/// The properties in a unit's `Unit` lines: `Unit B/op better=lower assume=exact`.
#[derive(Default, Clone, Copy)]
struct UnitFacts {
    direction: Option<Direction>,
    is_exact: bool,
}

pub(super) fn parse(text: &str, _: Option<Average>) -> Parsed {
    let text = out_of_events(text);
    let mut units = FxHashMap::default();
    let lines = read(&text, &mut units);
    let ambiguous = naming::ambiguous(lines.iter().map(|line| (line.name, line.package)));
    let failed: FxHashSet<_> = lines
        .iter()
        .filter(|line| line.outcome.is_err())
        .map(|line| (line.package, line.name))
        .collect();
    // Failures are reported without the number of CPUs.
    let has_failed = |line: &Line<'_>| {
        [line.name, without_cpus(line.name)]
            .iter()
            .any(|name| failed.contains(&(line.package, *name)))
    };
    let mut measures: FxHashMap<&str, (Measure, f64)> = FxHashMap::default();
    let mut results = Results::default();
    for line in &lines {
        let name = match ambiguous.contains(line.name) && !line.package.is_empty() {
            true => Cow::Owned(format!("{}.{}", line.package, line.name)),
            false => Cow::Borrowed(line.name),
        };
        let at = At { adapter: Adapter::GoBench, line: line.line };
        match &line.outcome {
            Err(Cow::Borrowed(said)) => results.fail(at.name(&name)?, *said),
            Err(Cow::Owned(reason)) => at.lose(&mut results, &name, at.malformed(reason.as_str())),
            // One of several repetitions may have failed.
            Ok(_) if has_failed(line) => {}
            Ok(values) => {
                if let Some((_, unit)) = values.iter().find(|(value, _)| !value.is_finite()) {
                    results.fail(at.name(&name)?, format!("its {unit} is not a finite number"));
                    continue;
                }
                if let Cow::Owned(own) = &name {
                    results.set_bencher_name(&at.name(own)?, line.name);
                }
                let benchmark = at.benchmark(&mut results, &name)?;
                benchmark.expect_metrics(values.len());
                for &(value, unit) in values {
                    let (measure, factor) = measures.entry(unit).or_insert_with(|| {
                        measure(unit, units.get(unit).copied().unwrap_or_default())
                    });
                    benchmark.add(measure, Metric::new(value * *factor))?;
                }
            }
        }
    }
    Ok(results)
}

/// Extracts the output from `-json` events, package by package. Text without events is unchanged.
fn out_of_events(text: &str) -> Cow<'_, str> {
    let is_event = |line: &str| line.starts_with("{\"") && line.contains("\"Action\":");
    if !text.lines().any(is_event) {
        return Cow::Borrowed(text);
    }
    let mut packages: Vec<(Cow<'_, str>, String)> = Vec::new();
    for line in text.lines().filter(|line| is_event(line)) {
        let Ok(Event { package, output: Some(output) }) = serde_json::from_str(line) else {
            continue;
        };
        let package = package.unwrap_or_default();
        // Events of several packages interleave. There are few packages, and mostly the last one continues.
        match packages.iter_mut().rfind(|known| known.0 == package) {
            Some(known) => known.1.push_str(&output),
            None => packages.push((package, output.into_owned())),
        }
    }
    Cow::Owned(packages.into_iter().map(|(_, output)| output + "\n").collect())
}

fn read<'t>(text: &'t str, units: &mut FxHashMap<&'t str, UnitFacts>) -> Vec<Line<'t>> {
    let mut lines: Vec<Line<'t>> = Vec::new();
    let mut package = "";
    // A benchmark's messages are below its failure, but above it within `-json`.
    let mut previous = "";
    let mut pending: Option<Pending<'t>> = None;
    let mut numbered = numbered(text).peekable();
    while let Some((number, line)) = numbered.next() {
        if let Some(name) = line.strip_prefix("pkg: ") {
            package = name.trim();
            pending = None;
        } else if let Some(facts) = line.strip_prefix("Unit ") {
            add_unit_facts(facts, units);
        } else if let Some(name) = failed(line) {
            let next = numbered.peek().map_or("", |(_, next)| *next);
            let said = [next, previous].into_iter().find(|said| said.starts_with("    "));
            let outcome = Err(Cow::Borrowed(said.map_or("go test says FAIL", str::trim)));
            // The name with the number of CPUs comes before, if it was printed at all.
            let known = pending.take().map(|known| known.name);
            let name = known.filter(|known| known.starts_with(name)).unwrap_or(name);
            lines.push(Line { line: number, package, name, outcome });
        } else if let Some(name) = benchmark_name(line) {
            let rest = &line[name.len()..];
            match values(rest) {
                Some(values) => {
                    pending = None;
                    let outcome = values.map_err(Cow::Owned);
                    lines.push(Line { line: number, package, name, outcome });
                }
                None => {
                    let is_alone = rest.is_empty();
                    let is_name = is_alone || rest.starts_with([' ', '\t']);
                    pending = is_name.then_some(Pending { line: number, name, is_alone });
                }
            }
        } else if let Some(Pending { line: started, name, is_alone }) = pending {
            // The benchmark's own output is between its name and its result.
            let found = values(line).filter(|_| !is_alone).map(|it| it.map_err(Cow::Owned));
            if let Some(outcome) =
                found.or_else(|| ended(line).map(|said| Err(Cow::Borrowed(said))))
            {
                lines.push(Line { line: started, package, name, outcome });
                pending = None;
            } else if has_no_result(line) {
                pending = None;
            }
        }
        if let Some(Pending { line: started, name, .. }) = pending
            && let Some(at) = line.find("panic: ").or_else(|| line.find("fatal error: "))
        {
            let outcome = Err(Cow::Borrowed(line[at..].trim()));
            lines.push(Line { line: started, package, name, outcome });
            pending = None;
        }
        previous = line;
    }
    lines
}

/// Whether the benchmark ended without a result or a failure.
fn has_no_result(line: &str) -> bool {
    let line = line.trim();
    line == "PASS" || ["ok  \t", "--- SKIP: ", "--- BENCH: "].iter().any(|it| line.starts_with(it))
}

/// The name in `--- FAIL: BenchmarkX-8`, which may follow the name printed before.
fn failed(line: &str) -> Option<&str> {
    let (_, name) = split_once(line, "--- FAIL: ")?;
    benchmark_name(name)
}

/// `BenchmarkX` of `BenchmarkX-8`.
fn without_cpus(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((rest, cpus)) if cpus.bytes().all(|byte| byte.is_ascii_digit()) => rest,
        _ => name,
    }
}

fn ended(line: &str) -> Option<&str> {
    (line.starts_with("exit status ") || line.starts_with("FAIL\t") || line == "FAIL")
        .then_some(line)
}

fn benchmark_name(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("Benchmark")?;
    let length = memchr2(b' ', b'\t', rest.as_bytes()).unwrap_or(rest.len());
    let name = &line[..line.len() - rest.len() + length];
    // As in go test: `Benchmarking` is not a benchmark.
    (!rest.starts_with(|c: char| c.is_lowercase())).then_some(name)
}

type Values<'t> = Vec<(f64, &'t str)>;

/// Iterations, then pairs of a value and its unit; or why a value cannot be read.
fn values(text: &str) -> Option<Result<Values<'_>, String>> {
    let mut words = text.split_ascii_whitespace();
    words.next()?.parse::<u64>().ok()?;
    let mut values = Vec::new();
    while let Some(value) = words.next() {
        let value = match value {
            "NaN" | "+Inf" | "-Inf" => f64::NAN,
            _ if has_odd_comma(value) => return Some(Err(no_number(value))),
            _ => number(value)?,
        };
        values.push((value, words.next()?));
    }
    (!values.is_empty()).then_some(Ok(values))
}

fn add_unit_facts<'t>(text: &'t str, units: &mut FxHashMap<&'t str, UnitFacts>) {
    let mut words = text.split_ascii_whitespace();
    let Some(unit) = words.next() else { return };
    for fact in words {
        let known: &mut UnitFacts = units.entry(unit).or_default();
        match fact {
            "better=lower" => known.direction = Some(Direction::LowerIsBetter),
            "better=higher" => known.direction = Some(Direction::HigherIsBetter),
            "assume=exact" => known.is_exact = true,
            _ => {}
        }
    }
}

/// The measure of a unit, and the factor of its values.
fn measure(unit: &str, facts: UnitFacts) -> (Measure, f64) {
    let (mut measure, factor) = match unit {
        "ns/op" => (Measure::latency(), 1.0),
        "MB/s" => (Measure::named("bytes-per-second"), 1e6),
        // Grows in steps, and is divided by an iteration count that varies between runs.
        "B/op" => (Measure { kind: MeasureKind::Noisy, ..Measure::named("allocated") }, 1.0),
        "allocs/op" => (Measure::named("allocations"), 1.0),
        _ => {
            let direction = match unit {
                _ if unit.ends_with("/s") || unit.ends_with("/sec") => Direction::HigherIsBetter,
                _ if unit.ends_with("/op") || unit.ends_with("ns") => Direction::LowerIsBetter,
                _ => Direction::Unknown,
            };
            (naming::counter(unit, unit, direction), 1.0)
        }
    };
    if let Some(direction) = facts.direction {
        measure.direction = direction;
    }
    if facts.is_exact {
        measure.kind = MeasureKind::Exact;
    }
    (measure, factor)
}
