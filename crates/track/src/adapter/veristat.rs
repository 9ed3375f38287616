//! `veristat -o csv`: the verifier's statistics of each program, named `FILE/PROGRAM`.
//!
//! The header names the columns, in any order and number. A program that the verifier rejected is a failure: its
//! figures end where it gave up.

use crate::adapter::prelude::*;

/// Column title, measure, and the factor to its units.
const COLUMNS: &[(&str, &str, f64)] = &[
    ("total_insns", "verified-instructions", 1.0),
    ("total_states", "verifier-states", 1.0),
    ("peak_states", "verifier-peak-states", 1.0),
    // Microseconds.
    ("duration", "verification-time", 1e3),
    ("stack_depth", "stack-depth", 1.0),
    ("prog_size_jited", "jited-size", 1.0),
];

const OWN: &[(&str, &str, &str)] = &[
    ("max_states_per_insn", "Verifier States per Instruction", "states"),
    ("max_mark_read_len", "Verifier Mark Read Length", "states"),
    ("prog_size", "Program Size", "instructions"),
    ("mem_peak", "Verifier Memory Peak", "mebibytes (MiB)"),
];

pub(super) fn parse(text: &str, _: Option<Average>) -> Parsed {
    let text = &*without_cargo(text);
    let mut results = Results::default();
    let mut offset = 0;
    for (line, content) in (1..).zip(text.split_inclusive('\n')) {
        if is_header(content) {
            read(&mut results, &text[offset..], line)?;
            break;
        }
        offset += content.len();
    }
    Ok(results)
}

fn is_header(line: &str) -> bool {
    let has =
        |title: &str| line.trim_end().split(',').any(|column| column.trim_matches('"') == title);
    has("file_name") && has("prog_name")
}

enum Column {
    File,
    Program,
    Verdict,
    Figure(Measure, f64),
    PassedOver,
}

fn read(results: &mut Results, csv: &str, first_line: usize) -> Parsed<()> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(csv.as_bytes());
    let at = |record: Option<&csv::Position>| {
        let line = record.map_or(1, csv::Position::line);
        let line = usize::try_from(line).unwrap_or(usize::MAX).saturating_add(first_line - 1);
        At { adapter: Adapter::Veristat, line }
    };
    let header =
        reader.headers().map_err(|error| at(error.position()).malformed(error.to_string()))?;
    if header.iter().any(|title| title.ends_with("_base") || title.ends_with(" (A)")) {
        let reason = "this is a comparison (-C); give one of the files that it compared";
        return Err(at(None).malformed(reason));
    }
    if header.iter().any(|title| title == "latency_ns") {
        let reason =
            "wingbeat bench wrote this; with --format json, the adapter wingbeat_bench reads more";
        return Err(at(None).malformed(reason));
    }
    let mut header = header.clone();
    let mut columns: Vec<_> = header.iter().map(column).collect();
    let mut record = csv::StringRecord::new();
    let mut name = String::new();
    let mut once = Once::default();
    loop {
        match reader.read_record(&mut record) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) => return Err(at(error.position()).malformed(error.to_string())),
        }
        let at = at(record.position());
        let is_progress = record.get(0).is_some_and(|first| {
            first.starts_with("Processing '") || first.starts_with("Done. Processed ")
        });
        if is_progress {
            continue;
        }
        // Another veristat file follows this one.
        let is_header = |title| record.iter().any(|cell| cell == title);
        if is_header("file_name") && is_header("prog_name") {
            // Mostly the same columns.
            if record != header {
                header.clone_from(&record);
                columns = header.iter().map(column).collect();
            }
            once.begin(at);
            continue;
        }
        if record.len() != columns.len() {
            let (found, expected) = (record.len(), columns.len());
            let reason = format!("it has {found} columns, and the first line {expected}");
            at.lose(results, "", at.malformed(reason));
            continue;
        }
        if let Err(error) = row(results, &mut once, &mut name, at, &columns, &record) {
            at.lose(results, &name, error);
        }
    }
}

fn column(title: &str) -> Column {
    match title {
        "file_name" => return Column::File,
        "prog_name" => return Column::Program,
        "verdict" => return Column::Verdict,
        _ => {}
    }
    if let Some(known) = COLUMNS.iter().find(|known| known.0 == title) {
        return Column::Figure(Measure::named(known.1), known.2);
    }
    match OWN.iter().find(|own| own.0 == title) {
        Some(&(_, name, units)) => {
            let measure =
                Measure::custom(name, units, Direction::LowerIsBetter, MeasureKind::Exact);
            Column::Figure(measure, 1.0)
        }
        None => Column::PassedOver,
    }
}

/// Adds a row. `name` is a buffer reused by all rows.
fn row(
    results: &mut Results,
    once: &mut Once,
    name: &mut String,
    at: At,
    columns: &[Column],
    record: &csv::StringRecord,
) -> Parsed<()> {
    name.clear();
    let (mut file, mut program, mut verdict) = ("", "", "");
    for (column, cell) in columns.iter().zip(record) {
        match column {
            Column::File => file = cell,
            Column::Program => program = cell,
            Column::Verdict => verdict = cell,
            Column::Figure(..) | Column::PassedOver => {}
        }
    }
    if file.is_empty() || program.is_empty() {
        return Err(at.malformed("it names no file or no program"));
    }
    name.extend([file, "/", program]);
    if verdict == "failure" {
        results.fail(at.name(name)?, "the verifier rejected it");
        return Ok(());
    }
    let figures = || {
        columns.iter().zip(record).filter_map(|(column, cell)| match column {
            Column::Figure(measure, factor) if !matches!(cell, "" | "N/A") => {
                Some((measure, factor, cell))
            }
            _ => None,
        })
    };
    let count = figures().count();
    if count == 0 {
        return Ok(());
    }
    // Another run follows its own header.
    let benchmark = once.benchmark(at, results, name)?;
    benchmark.expect_metrics(count);
    for (measure, factor, cell) in figures() {
        let value = number(cell).ok_or_else(|| {
            at.malformed(format!("{} is {cell:?}, which is not a number", measure.name))
        })?;
        benchmark.add(measure, Metric::new(value * factor))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::{check_error, values};

    #[test]
    fn columns_in_any_order() {
        let text = "Processing 'a.o'...\nprog_name,duration,file_name,verdict,total_insns,prog_type,mem_peak\n\
                    p,12,a.o,success,20,xdp,N/A\nDone. Processed 1 files, 0 programs. Skipped 1 files, 0 programs.\n";
        let results = parse(text, None).expect("results");
        assert_eq!(results.benchmarks[0].name.as_str(), "a.o/p");
        let found = values(&results.benchmarks[0]);
        assert_eq!(found, [("verification-time", 12e3), ("verified-instructions", 20.0)]);
    }

    #[test]
    fn one_file_after_another() {
        let text = "file_name,prog_name,verdict,total_insns\na.o,p,success,7\n\
                    total_insns,prog_name,verdict,file_name\n9,p,success,b.o\n";
        let results = parse(text, None).expect("results");
        let found = results.benchmarks.iter().map(|b| (b.name.as_str(), b.metrics[0].1.value));
        assert_eq!(found.collect::<Vec<_>>(), [("a.o/p", 7.0), ("b.o/p", 9.0)]);
    }

    #[test]
    fn messages_of_cargo_are_no_rows() {
        let cargo = "{\"reason\":\"build-finished\",\"success\":true}\n";
        let text = format!("{cargo}file_name,prog_name,total_insns\n{cargo}a.o,p,7\n{cargo}");
        let results = parse(&text, None).expect("results");
        assert_eq!(results.benchmarks[0].metrics[0].1.value, 7.0);
    }

    #[test]
    fn what_is_broken() {
        let check = |text: &str, expected: &str| check_error(parse(text, None), expected);
        let head = "file_name,prog_name,verdict,total_insns\n";
        check(&format!("x\n{head}a.o,p,success,x"), "line 3: Verified Instructions is \"x\"");
        check(&format!("{head}a.o,p,success"), "line 2: it has 3 columns, and the first line 4");
        check(&format!("{head},p,success,1"), "it names no file");
        // veristat prints no folders: this is a file of the same name in another one.
        let twice = format!("{head}a.o,p,success,1\na.o,p,success,2");
        check(&twice, "line 3: \"a.o/p\" has a result in line 2");
        check("file_name,prog_name,total_insns_base,total_insns_comp\n", "this is a comparison");
        check("file_name,prog_name,latency_ns\n", "wingbeat_bench");
    }
}
