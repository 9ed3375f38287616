//! Series in CSV: a header of names, then one line per point.

use std::{collections::HashSet, ops::RangeInclusive};

use csv::{Reader, ReaderBuilder, StringRecord, Trim};
use wingbeat_text::plural;

use super::{Input, InputError, Series, check_name};

/// Possible delimiters; the most frequent one in the header counts.
const DELIMITERS: [u8; 3] = [b',', b';', b'\t'];

/// Spellings of a missing value, besides an empty cell.
const GAPS: [&str; 5] = ["nan", "null", "none", "na", "n/a"];

/// Unix times from 2000 to 2099, in seconds.
const UNIX_TIMES: RangeInclusive<f64> = 946_684_800.0..=4_102_444_799.0;

/// Possible units of a Unix time: seconds, milliseconds, microseconds, nanoseconds.
const TIME_UNITS: [f64; 4] = [1.0, 1e3, 1e6, 1e9];

/// Only the series of these names, if given.
pub(super) fn parse(text: &str, only: &[String]) -> Result<Input, InputError> {
    let (comments, text) = without_comments(text);
    let mut reader = reader(text);
    let mut lines = Lines { text, at: 0, line: 1 + comments };
    let names = reader.headers().map_err(unreadable)?.clone();
    let names_line = lines.line_of(&names);
    let mut columns: Vec<Column> = names.iter().map(Column::new).collect();
    let mut record = StringRecord::new();
    while reader.read_record(&mut record).map_err(unreadable)? {
        let line = lines.line_of(&record);
        if record.len() != columns.len() {
            let column = record.len().min(columns.len()) + 1;
            let problem = format!(
                "this line has {}, the header line {}",
                plural(record.len(), "cell"),
                columns.len()
            );
            return Err(InputError::at(line, column, problem));
        }
        for (column, cell) in columns.iter_mut().zip(&record) {
            column.push(line, cell);
        }
    }
    let why = why_labels(&columns, only);
    let input = Input {
        series: series(columns, why.len(), names_line, only)?,
        labels: (!why.is_empty()).then(|| labels(text, why.len())),
        remark: (!why.is_empty()).then(|| why.join("; ")),
    };
    Ok(input)
}

/// Skips comment lines, which begin with `# `; returns the number of them and the rest.
fn without_comments(mut text: &str) -> (u64, &str) {
    let mut comments = 0;
    while let Some((_, rest)) = text.split_once('\n').filter(|_| text.starts_with("# ")) {
        (comments, text) = (comments + 1, rest);
    }
    (comments, text)
}

fn reader(text: &str) -> Reader<&[u8]> {
    ReaderBuilder::new()
        .delimiter(delimiter(text))
        .trim(Trim::All)
        // Reported with our own message.
        .flexible(true)
        .from_reader(text.as_bytes())
}

/// Counts lines up to a record. The CSV reader counts a line once it has read past its end, which it has not if a
/// record begins after `\r\n` or an empty line.
struct Lines<'a> {
    text: &'a str,
    at: usize,
    line: u64,
}

impl Lines<'_> {
    fn line_of(&mut self, record: &StringRecord) -> u64 {
        let from = record.position().map_or(self.at, |position| position.byte() as usize);
        let bytes = self.text.as_bytes();
        let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let ends = bytes[from..].iter().take_while(|byte| is_end(byte)).count();
        let before = &bytes[self.at..from + ends];
        let is_counted = |(at, &byte): (usize, &u8)| match byte {
            b'\n' => true,
            byte => byte == b'\r' && before.get(at + 1) != Some(&b'\n'),
        };
        let passed = before.iter().enumerate().filter(|&end| is_counted(end)).count();
        self.at = from + ends;
        self.line += passed as u64;
        self.line
    }
}

/// A column while parsing.
struct Column {
    name: String,
    values: Vec<f64>,
    /// Line and text of the first non-numeric cell.
    no_number: Option<(u64, String)>,
    numbers: usize,
    no_numbers: usize,
}

impl Column {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            values: Vec::new(),
            no_number: None,
            numbers: 0,
            no_numbers: 0,
        }
    }

    fn push(&mut self, line: u64, cell: &str) {
        let value = number(cell);
        if value.is_none() && self.no_number.is_none() {
            self.no_number = Some((line, cell.to_owned()));
        }
        self.numbers += usize::from(value.is_some_and(f64::is_finite));
        self.no_numbers += usize::from(value.is_none());
        self.values.push(value.unwrap_or(f64::NAN));
    }

    /// Why this column has labels, if it does. The first column counts as labels whenever possible; a later one only if
    /// that is unambiguous, because an odd cell there is an error.
    fn why_labels(&self, is_first: bool) -> Option<String> {
        let is_clear = is_first || self.no_numbers > self.numbers;
        match &self.no_number {
            Some((line, text)) if is_clear => {
                Some(format!("{text:?} in line {line} is not a number"))
            }
            None if self.name.is_empty() => Some("it has no name".to_owned()),
            None if self.are_unix_times() => Some("its numbers rise as Unix times do".to_owned()),
            _ => None,
        }
    }

    fn are_unix_times(&self) -> bool {
        let is_in = |unit: f64| {
            let is_time = |value: &f64| UNIX_TIMES.contains(&(value / unit));
            self.values.len() > 1 && self.values.iter().all(is_time)
        };
        TIME_UNITS.into_iter().any(is_in)
            && self.values.is_sorted()
            && self.values.first() < self.values.last()
    }
}

/// A finite number, or NaN for a gap.
fn number(cell: &str) -> Option<f64> {
    if cell.is_empty() || GAPS.iter().any(|gap| cell.eq_ignore_ascii_case(gap)) {
        return Some(f64::NAN);
    }
    cell.parse().ok().filter(|value: &f64| value.is_finite())
}

/// Why the leading columns are labels, one reason for each. At least one column is left for a series.
fn why_labels(columns: &[Column], only: &[String]) -> Vec<String> {
    let why = |(at, column): (usize, &Column)| {
        let why = column.why_labels(at == 0).filter(|_| !only.contains(&column.name))?;
        let name =
            if column.name.is_empty() { String::new() } else { format!(", {:?},", column.name) };
        Some(format!("column {}{name} is used as labels: {why}", at + 1))
    };
    columns.iter().enumerate().take(columns.len().saturating_sub(1)).map_while(why).collect()
}

/// The text of the leading label columns, by point.
fn labels(text: &str, columns: usize) -> Vec<String> {
    let label = |record: StringRecord| {
        let texts = record.iter().take(columns).filter(|text| !text.is_empty());
        texts.collect::<Vec<_>>().join(" ")
    };
    reader(text).into_records().filter_map(Result::ok).map(label).collect()
}

/// The series in the columns after the labels.
fn series(
    columns: Vec<Column>,
    labels: usize,
    names_line: u64,
    only: &[String],
) -> Result<Vec<Series>, InputError> {
    let wrong_name = |at: usize, problem: String| Err(InputError::at(names_line, at + 1, problem));
    if columns.iter().all(|column| number(&column.name).is_some_and(f64::is_finite)) {
        let problem = "the first line has numbers instead of names of series: add a header line";
        return wrong_name(0, problem.to_owned());
    }
    let mut names = HashSet::new();
    let mut series = Vec::with_capacity(columns.len());
    let is_asked = |column: &Column| only.is_empty() || only.contains(&column.name);
    let columns = columns.into_iter().enumerate().skip(labels);
    for (at, column) in columns.filter(|(_, column)| is_asked(column)) {
        if let Some((line, text)) = column.no_number {
            let problem = format!(
                "{text:?} is not a finite number; write a gap as an empty cell or NaN, or choose \
                 columns with --series NAME"
            );
            return Err(InputError::at(line, at + 1, problem));
        }
        if column.name.is_empty() {
            return wrong_name(at, "this series has no name".to_owned());
        }
        if let Err(problem) = check_name(&column.name) {
            return wrong_name(at, problem);
        }
        if !names.insert(column.name.clone()) {
            return wrong_name(at, format!("two series are called {:?}", column.name));
        }
        series.push(Series { name: column.name, values: column.values });
    }
    Ok(series)
}

fn delimiter(text: &str) -> u8 {
    let names = text.trim_start().lines().next().unwrap_or_default();
    let count = |delimiter: u8| names.bytes().filter(|&byte| byte == delimiter).count();
    // The first of equals.
    let most = DELIMITERS.into_iter().rev().max_by_key(|&delimiter| count(delimiter));
    most.unwrap_or(b',')
}

/// UTF-8 is already validated and lines may have any length, so hardly any error is left.
fn unreadable(error: csv::Error) -> InputError {
    let line = error.position().map_or(1, csv::Position::line);
    InputError::at(line, 1, error.to_string())
}
