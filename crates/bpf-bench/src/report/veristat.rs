//! Compares with CSV files of veristat: earlier verifier figures of the same programs.
//!
//! Column names are those of `stat_defs` in tools/testing/selftests/bpf/veristat.c, version 0.5.1
//! (Linux 6.15), including the aliases that it accepts. Older versions have fewer columns.

use std::collections::{BTreeSet, HashMap, HashSet};

use thiserror::Error;

use super::file_name;
use crate::{
    analyse::compare::{JITED, LoadedMeasure, PROCESSED, STACK, STATES, exact_measure},
    result::{BenchReport, CaseComparison, Failure, MeasureComparison, Size, Verifier},
};

/// Maximum number of names in a message.
const NAMES_MAX: usize = 5;

/// veristat's record of one program. `None` for missing values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VeristatRow {
    /// The object's file name; veristat omits folders.
    pub file_name: String,
    pub program: String,
    /// Whether the verifier accepted it. If not, the numbers are those until it gave up.
    pub is_accepted: Option<bool>,
    /// Program type, with libbpf's name.
    pub r#type: Option<String>,
    /// By the position of their column in [`NUMBERS`].
    pub numbers: [Option<u64>; NUMBERS.len()],
}

/// Why bytes are not a CSV file of veristat. Lines count from 1.
#[derive(Debug, Error)]
pub enum VeristatError {
    #[error("it is empty; veristat writes CSV with `veristat -o csv FILE.o`")]
    Empty,
    #[error(
        "its first line names no column {missing} but {found}; veristat writes CSV with \
         `veristat -o csv FILE.o`"
    )]
    NoColumn { missing: &'static str, found: String },
    #[error(
        "it has no column to compare, such as total_insns; instead of a comparison of veristat \
         (`-C`), pass one of the files that it compared"
    )]
    NoMeasures,
    #[error("it is not CSV: {0}")]
    Csv(#[from] csv::Error),
    #[error("line {line} has no {column}")]
    NoName { line: u64, column: &'static str },
    #[error("line {line}, column {column}: found {found:?} where a number should be")]
    NotANumber { line: u64, column: &'static str, found: String },
    #[error("line {line}, column verdict: found {0:?} where success or failure should be", .found)]
    NotAVerdict { line: u64, found: String },
}

/// Longer texts are truncated in messages.
const FOUND_MAX: usize = 100;

/// Aliases of a column, veristat's output name first.
type Names = &'static [&'static str];

const FILE_NAME: Names = &["file_name", "filename", "file"];
const PROGRAM: Names = &["prog_name", "progname", "prog"];
const VERDICT: Names = &["verdict"];
const TYPE: Names = &["prog_type"];

/// Number columns, each with the measure to compare with. Columns without one are not measures of the program.
pub const NUMBERS: [(Names, Option<LoadedMeasure>); 9] = [
    (&["total_insns", "insns"], Some(PROCESSED)),
    (&["total_states", "states"], Some(STATES)),
    (&["peak_states"], Some(("verifier-peak-states", "states", |it, _| it.peak_states))),
    (
        &["max_states_per_insn"],
        Some(("verifier-max-states-per-instruction", "states", |it, _| {
            it.max_states_per_instruction
        })),
    ),
    (
        &["prog_size"],
        Some(("object-instructions", "instructions", |_, size| {
            u64::try_from(size.object_instructions).ok()
        })),
    ),
    (&["prog_size_jited"], Some(JITED)),
    (&["stack_depth", "stack"], Some(STACK)),
    (&["duration", "dur"], None),
    (&["max_mark_read_len", "mark_read"], None),
];

/// Index of the verification time, which differs from run to run.
const DURATION: usize = 7;

/// Reads a CSV file of veristat: columns in any order, unknown ones ignored. Fails if it is not
/// CSV, does not identify programs or has no figures about them, or has an invalid number.
pub fn read(bytes: &[u8]) -> Result<Vec<VeristatRow>, VeristatError> {
    let mut reader =
        csv::ReaderBuilder::new().flexible(true).trim(csv::Trim::All).from_reader(bytes);
    let columns = Columns::find(reader.byte_headers()?)?;
    let mut rows = Vec::new();
    for record in reader.byte_records() {
        rows.push(columns.row(&record?)?);
    }
    Ok(rows)
}

/// Positions of the columns.
struct Columns {
    file_name: usize,
    program: usize,
    verdict: Option<usize>,
    r#type: Option<usize>,
    numbers: [Option<usize>; NUMBERS.len()],
}

impl Columns {
    fn find(header: &csv::ByteRecord) -> Result<Self, VeristatError> {
        if header.iter().all(<[u8]>::is_empty) {
            return Err(VeristatError::Empty);
        }
        let place = |names: Names| {
            header.iter().position(|found| names.iter().any(|name| found == name.as_bytes()))
        };
        let needed = |names: Names, missing| {
            let found: Vec<_> = header.iter().map(text).collect();
            let found = cut(&found.join(", "));
            place(names).ok_or(VeristatError::NoColumn { missing, found })
        };
        let found = Self {
            file_name: needed(FILE_NAME, "file_name")?,
            program: needed(PROGRAM, "prog_name")?,
            verdict: place(VERDICT),
            r#type: place(TYPE),
            numbers: NUMBERS.map(|(names, _)| place(names)),
        };
        let is_compared = found
            .numbers
            .iter()
            .zip(NUMBERS)
            .any(|(at, (_, compared))| at.is_some() && compared.is_some());
        if is_compared { Ok(found) } else { Err(VeristatError::NoMeasures) }
    }

    fn row(&self, record: &csv::ByteRecord) -> Result<VeristatRow, VeristatError> {
        let line = record.position().map_or(0, csv::Position::line);
        let cell = |place: Option<usize>| {
            let text = text(record.get(place?)?);
            (!text.is_empty() && text != "N/A").then_some(text)
        };
        let name = |place, column| cell(Some(place)).ok_or(VeristatError::NoName { line, column });
        let mut row = VeristatRow {
            file_name: name(self.file_name, "file_name")?,
            program: name(self.program, "prog_name")?,
            is_accepted: match cell(self.verdict).as_deref() {
                None => None,
                Some("success") => Some(true),
                Some("failure") => Some(false),
                Some(found) => return Err(VeristatError::NotAVerdict { line, found: cut(found) }),
            },
            r#type: cell(self.r#type),
            numbers: [None; NUMBERS.len()],
        };
        for ((place, (names, _)), number) in self.numbers.iter().zip(NUMBERS).zip(&mut row.numbers)
        {
            let Some(text) = cell(*place) else { continue };
            let column = names.first().copied().unwrap_or_default();
            let found = cut(&text);
            *number = Some(text.parse().map_err(|_| VeristatError::NotANumber {
                line,
                column,
                found,
            })?);
        }
        Ok(row)
    }
}

fn text(cell: &[u8]) -> String {
    String::from_utf8_lossy(cell).into_owned()
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(FOUND_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// A result compared with a veristat file.
#[derive(Debug, Clone, Default)]
pub struct AgainstVeristat {
    /// One per program that both have; inputs make no difference to the verifier.
    pub cases: Vec<CaseComparison>,
    /// Programs that could not be compared, with reasons.
    pub unmatched: Vec<Failure>,
}

/// Compares current verifier figures with those of veristat, exactly. Matches programs by name and
/// by the last component of the file name. `threshold` is the maximum relative growth of processed
/// instructions; other measures are reported and judged, but never fail a run.
pub fn against_veristat(
    report: &BenchReport,
    rows: &[VeristatRow],
    threshold: f64,
) -> AgainstVeristat {
    let own_file = file_name(&report.object);
    let own_rows: Vec<&VeristatRow> =
        rows.iter().filter(|row| file_name(&row.file_name) == own_file).collect();
    let mut by_program: HashMap<&str, Vec<&VeristatRow>> = HashMap::new();
    for row in &own_rows {
        by_program.entry(&row.program).or_default().push(row);
    }
    let mut found = AgainstVeristat::default();
    let mut programs = HashSet::new();
    let cases = report.cases.iter().map(|it| (it.program.as_str(), &it.verifier, &it.size));
    let verified = report.verified.iter().map(|it| (it.name.as_str(), &it.verifier, &it.size));
    for (program, verifier, size) in cases.chain(verified) {
        if !programs.insert(program) {
            continue;
        }
        let own = by_program.get(program).map_or(&[][..], Vec::as_slice);
        let measures = the_one(own)
            .map_err(|reason| reason.unwrap_or_else(|| absent(&own_file, &own_rows, rows)))
            .and_then(|row| measures(verifier, size, row, threshold));
        let name = program.to_owned();
        match measures {
            Ok(measures) => {
                found.cases.push(CaseComparison { name, method: None, reason: None, measures });
            }
            Err(reason) => found.unmatched.push(Failure::new(name, reason)),
        }
    }
    let mut gone = BTreeSet::new();
    for row in own_rows {
        if !programs.contains(row.program.as_str()) && gone.insert(&row.program) {
            let reason = "only the veristat file has it";
            found.unmatched.push(Failure::new(&row.program, reason));
        }
    }
    found
}

/// The row of a program. An error without a reason means that there is none.
fn the_one<'a>(rows: &[&'a VeristatRow]) -> Result<&'a VeristatRow, Option<String>> {
    let (first, others) = rows.split_first().ok_or(None)?;
    let exact = |row: &VeristatRow| {
        let mut row = row.clone();
        row.numbers[DURATION] = None;
        row
    };
    if others.iter().any(|other| exact(other) != exact(first)) {
        return Err(Some(format!(
            "the veristat file has it {} times with different figures: files of the same name in \
             several folders?",
            rows.len()
        )));
    }
    match first.is_accepted {
        Some(false) => Err(Some("the verifier had rejected it when veristat ran".to_owned())),
        _ => Ok(first),
    }
}

/// Why a program has no row.
fn absent(own_file: &str, own_rows: &[&VeristatRow], rows: &[VeristatRow]) -> String {
    if !own_rows.is_empty() {
        return "the veristat file does not have it".to_owned();
    }
    let files: BTreeSet<String> = rows.iter().map(|row| file_name(&row.file_name)).collect();
    let names: Vec<_> = files.iter().take(NAMES_MAX).map(|name| cut(name)).collect();
    match (names.is_empty(), files.len() - names.len()) {
        (true, _) => "the veristat file has no programs".to_owned(),
        (false, 0) => {
            format!("the veristat file has no {own_file}, only {}", names.join(", "))
        }
        (false, more) => format!(
            "the veristat file has no {own_file}, only {} and {more} more",
            names.join(", ")
        ),
    }
}

/// All measures that both have.
fn measures(
    verifier: &Verifier,
    size: &Size,
    row: &VeristatRow,
    threshold: f64,
) -> Result<Vec<MeasureComparison>, String> {
    let compared = |((_, compared), before): ((Names, Option<LoadedMeasure>), Option<u64>)| {
        let (measure, unit, now) = compared?;
        // Without the JIT compiler its size is missing, rather than 0.
        let is_there = |bytes: &u64| measure != JITED.0 || *bytes > 0;
        let (before, after) = (before.filter(is_there)?, now(verifier, size).filter(is_there)?);
        let threshold = (measure == PROCESSED.0).then_some(threshold);
        Some(exact_measure(measure, unit, before, after, threshold))
    };
    let measures: Vec<_> = NUMBERS.into_iter().zip(row.numbers).filter_map(compared).collect();
    if measures.is_empty() {
        return Err("the veristat file has no figure of it that was measured now".to_owned());
    }
    Ok(measures)
}
