//! Results as text: human-readable tables, complete JSON, Bencher Metric Format, CSV with veristat's columns.
//!
//! Pure: no kernel, no clock, no files. The same result gives the same text. `docs/bench.md` explains the figures.

mod columns;
mod comparison;
mod details;
mod human;
mod ranking;
pub mod veristat;

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    io,
    path::Path,
};

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    analyse::compare::{JITED, PROCESSED, STACK, STATES},
    result::{BenchReport, Case, Comparison, Latency, RunCounts, Size, Verifier},
};

pub use self::{
    comparison::comparison,
    human::{errors, human},
};
pub use wingbeat_text::Style;

/// Minimum line width for narrower terminals: fewer characters cannot hold a table.
const WIDTH_MIN: usize = 60;

/// Groups values by key, both in order of first appearance.
fn by_key<K: Hash + Eq + Clone, V>(pairs: impl Iterator<Item = (K, V)>) -> Vec<(K, Vec<V>)> {
    let mut places: HashMap<K, usize> = HashMap::new();
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in pairs {
        let place = *places.entry(key.clone()).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}

fn wide_enough(style: Style) -> Style {
    Style { width: style.width.max(WIDTH_MIN), ..style }
}

/// Output format of a result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    #[default]
    Human,
    Json,
    /// Bencher Metric Format.
    Bmf,
    /// A row per program or case.
    Csv,
}

/// Writes a result in a format, with a trailing line break. `style` applies only to human-readable text.
pub fn write(format: Format, report: &BenchReport, style: Style) -> io::Result<String> {
    match format {
        Format::Human => Ok(human(report, style)),
        Format::Json => Ok(json(report)?),
        Format::Bmf => Ok(bmf(report)?),
        Format::Csv => csv(report),
    }
}

/// Writes a comparison in a format. Bencher Metric Format and CSV cannot represent two objects:
/// they contain the one under test. Fails like [`write()`].
pub fn write_comparison(format: Format, found: &Comparison, style: Style) -> io::Result<String> {
    match format {
        Format::Human => Ok(comparison(found, style)),
        Format::Json => Ok(json(found)?),
        Format::Bmf => Ok(bmf(&found.report)?),
        Format::Csv => csv(&found.report),
    }
}

/// Complete JSON of a [`BenchReport`] or a [`Comparison`]. NaN becomes `null`.
pub fn json<T: Serialize>(result: &T) -> serde_json::Result<String> {
    serde_json::to_string_pretty(result).map(|json| json + "\n")
}

// Bencher Metric Format: `{"BENCHMARK": {"MEASURE": {"value": …}}}`.

/// Maximum length of a benchmark name in Bencher, in bytes (`bencher_valid`, `benchmark_name.rs`, 0.6).
const NAME_BYTES_MAX: usize = 1024;

/// Writes the cases with their measures, and programs that were only loaded. `docs/bench.md` lists the measures.
pub fn bmf(report: &BenchReport) -> serde_json::Result<String> {
    let mut benchmarks: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    let cases = report.cases.iter().map(|case| (&case.name, measures(case)));
    let verified = report.verified.iter().map(|program| {
        (&program.name, verifier_measures(&program.verifier, &program.size).collect())
    });
    for (full_name, measures) in cases.chain(verified) {
        let mut name = cut(full_name, NAME_BYTES_MAX).to_owned();
        let mut number = 2_usize;
        // Do not drop results with duplicate names.
        while benchmarks.contains_key(&name) {
            let suffix = format!("#{number}");
            name = format!("{}{suffix}", cut(full_name, NAME_BYTES_MAX - suffix.len()));
            number += 1;
        }
        benchmarks.insert(name, measures);
    }
    serde_json::to_string_pretty(&benchmarks).map(|json| json + "\n")
}

fn measures(case: &Case) -> Map<String, Value> {
    let single = case.distribution.measured();
    let counts = case.counts.measured();
    let real = |number: f64| finite(number).map(Value::from);
    let latency = case.latency.measured().and_then(latency);
    let time = case.latency.measured();
    let own_output = case.own_output.as_ref();
    let figures = [
        ("latency-own-output", own_output.and_then(|own| real(own.median_ns?))),
        ("instructions-own-output", own_output.and_then(|own| own.instructions).map(Value::from)),
        ("latency-floor", time.and_then(|time| real(time.floor_ns))),
        ("latency-p50", single.and_then(|single| real(single.p50_ns))),
        ("latency-p99", single.and_then(|single| real(single.p99_ns))),
        ("latency-p999", single.and_then(|single| real(single.p999_ns))),
        ("instructions", counts.and_then(RunCounts::exact).map(Value::from)),
    ];
    let latency = latency.map(|latency| ("latency".to_owned(), latency));
    let verifier = verifier_measures(&case.verifier, &case.size);
    latency.into_iter().chain(with_values(figures)).chain(verifier).collect()
}

/// Measures of a program known without running it.
fn verifier_measures(verifier: &Verifier, size: &Size) -> impl Iterator<Item = (String, Value)> {
    let [processed, states, stack, jited] = [PROCESSED, STATES, STACK, JITED]
        .map(|(measure, _, figure)| (measure, figure(verifier, size).map(Value::from)));
    let xlated = ("xlated-size", Some(size.xlated_bytes.into()));
    let memory = ("map-memory", size.map_memory_bytes.map(Value::from));
    with_values([processed, states, stack, jited, xlated, memory])
}

fn with_values<const N: usize>(
    figures: [(&str, Option<Value>); N],
) -> impl Iterator<Item = (String, Value)> {
    let known = figures.map(|(name, value)| Some((name.to_owned(), json!({ "value": value? }))));
    known.into_iter().flatten()
}

fn latency(latency: &Latency) -> Option<Value> {
    let mut measure = json!({ "value": finite(latency.median_ns)? });
    if let (Some(lower), Some(upper)) = (finite(latency.lower_ns), finite(latency.upper_ns)) {
        measure["lower_value"] = lower.into();
        measure["upper_value"] = upper.into();
    }
    Some(measure)
}

/// JSON has no NaN.
fn finite(number: f64) -> Option<f64> {
    number.is_finite().then_some(number)
}

/// Truncates to whole characters within `bytes_max`.
fn cut(name: &str, bytes_max: usize) -> &str {
    name.get(..name.floor_char_boundary(bytes_max)).unwrap_or(name)
}

// CSV: a row per case. veristat's columns first, with its names and order, then our own.
//
// Names and order are those of `stat_defs` and `default_csv_output_spec` in
// tools/testing/selftests/bpf/veristat.c, version 0.5.1 (Linux 6.15). Two of its columns are
// missing, `attach_type` and `mem_peak`, which are not part of a result.

/// veristat's columns, then our own.
const COLUMNS: &str = "file_name,prog_name,verdict,duration,total_insns,total_states,peak_states,\
    max_states_per_insn,max_mark_read_len,prog_size,prog_size_jited,prog_type,stack_depth,\
    latency_ns,latency_lower_ns,latency_upper_ns,latency_p50_ns,latency_p99_ns,instructions,input,\
    return_value,not_measured,latency_own_output_ns,instructions_own_output";

/// Writes cases, then unmeasured programs with the reason: programs that were only loaded, with
/// verifier figures; rejected programs, with the verdict `failure`; and others without a verdict.
/// Unknown values are empty.
pub fn csv(report: &BenchReport) -> io::Result<String> {
    let file = file_name(&report.object);
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(COLUMNS.split(','))?;
    let mut write = |program: &str, known: Known<'_>, own: [String; 11]| {
        let file_and_program = [file.clone(), program.to_owned()];
        let veristat = file_and_program.into_iter().chain(veristat_cells(known));
        writer.write_record(veristat.chain(own))
    };
    for case in &report.cases {
        let known = Known::loaded(&case.verifier, &case.size, &case.r#type);
        write(&case.program, known, own_cells(case))?;
    }
    for program in &report.verified {
        let known = Known::loaded(&program.verifier, &program.size, &program.r#type);
        write(&program.name, known, own_cells_of_unmeasured("", &program.reason))?;
    }
    let is_written = |name: &str| report.verified.iter().any(|program| program.name == name);
    for failure in report.failures.iter().chain(&report.skipped) {
        if !is_written(&failure.name) {
            // A failure has the name of its program, with its input if there are several.
            let (program, input) = failure.name.split_once('/').unwrap_or((&failure.name, ""));
            let known = match failure.is_rejected {
                true => {
                    Known { verdict: "failure", verifier: failure.verifier.as_ref(), loaded: None }
                }
                false => Known::default(),
            };
            write(program, known, own_cells_of_unmeasured(input, &failure.reason))?;
        }
    }
    let bytes = writer.into_inner().map_err(csv::IntoInnerError::into_error)?;
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// File name without folders, as in veristat.
fn file_name(path: &str) -> String {
    let name = Path::new(path).file_name();
    name.map_or_else(|| path.to_owned(), |name| name.to_string_lossy().into_owned())
}

/// veristat's data of a program. Size and type are unknown for programs that are not loaded.
#[derive(Clone, Copy, Default)]
struct Known<'a> {
    verdict: &'static str,
    verifier: Option<&'a Verifier>,
    loaded: Option<(&'a Size, &'a str)>,
}

impl<'a> Known<'a> {
    fn loaded(verifier: &'a Verifier, size: &'a Size, r#type: &'a str) -> Self {
        Self { verdict: "success", verifier: Some(verifier), loaded: Some((size, r#type)) }
    }
}

fn veristat_cells(Known { verdict, verifier, loaded }: Known<'_>) -> [String; 11] {
    let figure = |figure: fn(&Verifier) -> Option<u64>| whole(verifier.and_then(figure));
    let of_loaded = |cell: fn((&Size, &str)) -> String| loaded.map_or_else(String::new, cell);
    [
        verdict.to_owned(),
        figure(|verifier| verifier.duration_us),
        figure(|verifier| verifier.processed_instructions),
        figure(|verifier| verifier.total_states),
        figure(|verifier| verifier.peak_states),
        figure(|verifier| verifier.max_states_per_instruction),
        figure(|verifier| verifier.mark_read),
        of_loaded(|(size, _)| size.object_instructions.to_string()),
        of_loaded(|(size, _)| size.jited_bytes.to_string()),
        of_loaded(|(_, r#type)| r#type.to_owned()),
        figure(|verifier| Some(verifier.stack_depth_bytes.into())),
    ]
}

fn own_cells(case: &Case) -> [String; 11] {
    let own_output = case.own_output.as_ref();
    let latency = case.latency.measured();
    let single = case.distribution.measured();
    [
        real(latency.map(|latency| latency.median_ns)),
        real(latency.map(|latency| latency.lower_ns)),
        real(latency.map(|latency| latency.upper_ns)),
        real(single.map(|single| single.p50_ns)),
        real(single.map(|single| single.p99_ns)),
        case.counts.measured().map_or_else(String::new, executed),
        case.input.clone(),
        case.outcome.return_value.to_string(),
        String::new(),
        real(own_output.and_then(|own| own.median_ns)),
        whole(own_output.and_then(|own| own.instructions)),
    ]
}

/// A number, or a range if it varies.
fn executed(counts: &RunCounts) -> String {
    match &counts.variation {
        Some(found) => format!("{}-{}", found.lowest, found.highest),
        None => counts.instructions.to_string(),
    }
}

/// Our own columns for programs that only have a reason.
fn own_cells_of_unmeasured(input: &str, reason: &str) -> [String; 11] {
    let mut cells = [const { String::new() }; 11];
    let [.., of_input, _, of_reason, _, _] = &mut cells;
    input.clone_into(of_input);
    reason.lines().next().unwrap_or_default().clone_into(of_reason);
    cells
}

pub(crate) fn whole(number: Option<u64>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
}

pub(crate) fn real(number: Option<f64>) -> String {
    let number = number.filter(|number| number.is_finite());
    number.map_or_else(String::new, |number| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_between_characters() {
        let check = |name, bytes_max, expected| assert_eq!(cut(name, bytes_max), expected);
        check("abc", 3, "abc");
        check("abc", 2, "ab");
        check("aéb", 2, "a");
        check("", 2, "");
    }

    #[test]
    fn files_go_without_folders() {
        let check = |path, expected: &str| assert_eq!(file_name(path), expected);
        check("target/a.o", "a.o");
        check("a.o", "a.o");
        check("/", "/");
        check("", "");
    }
}
