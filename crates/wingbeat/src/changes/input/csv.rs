//! Series in CSV: a line of names, then a line for each point.

use std::collections::HashSet;

use csv::{ReaderBuilder, StringRecord, Trim};
use wingbeat_text::plural;

use super::{Input, InputError, Series, check_name};

/// What stands between cells; the one that the line of names has most of.
const DELIMITERS: [u8; 3] = [b',', b';', b'\t'];

/// What is written where there is no value, besides nothing.
const GAPS: [&str; 5] = ["nan", "null", "none", "na", "n/a"];

pub(super) fn parse(text: &str) -> Result<Input, InputError> {
    let mut reader = ReaderBuilder::new()
        .delimiter(delimiter(text))
        .trim(Trim::All)
        // Lines of other lengths get a message of our own.
        .flexible(true)
        .from_reader(text.as_bytes());
    let names = reader.headers().map_err(unreadable)?.clone();
    let names_line = names.position().map_or(1, csv::Position::line);
    let mut columns: Vec<Column> = names.iter().map(Column::new).collect();
    if let Some(first) = columns.first_mut() {
        first.is_first = true;
    }
    let mut record = StringRecord::new();
    while reader.read_record(&mut record).map_err(unreadable)? {
        let line = record.position().map_or(0, csv::Position::line);
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
    input(columns, names_line)
}

/// A column while it is read: numbers as long as it can be, and the text of labels.
struct Column {
    name: String,
    values: Vec<f64>,
    texts: Vec<String>,
    /// Line and text of the first cell that is no number.
    no_number: Option<(u64, String)>,
    /// Only the first column may hold labels.
    is_first: bool,
}

impl Column {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            values: Vec::new(),
            texts: Vec::new(),
            no_number: None,
            is_first: false,
        }
    }

    fn push(&mut self, line: u64, cell: &str) {
        let value = number(cell);
        if value.is_none() && self.no_number.is_none() {
            self.no_number = Some((line, cell.to_owned()));
        }
        self.values.push(value.unwrap_or(f64::NAN));
        if self.is_first {
            self.texts.push(cell.to_owned());
        }
    }
}

/// A finite number, or NaN for a gap.
fn number(cell: &str) -> Option<f64> {
    if cell.is_empty() || GAPS.iter().any(|gap| cell.eq_ignore_ascii_case(gap)) {
        return Some(f64::NAN);
    }
    cell.parse().ok().filter(|value: &f64| value.is_finite())
}

fn input(mut columns: Vec<Column>, names_line: u64) -> Result<Input, InputError> {
    let wrong_name = |at: usize, problem: String| Err(InputError::at(names_line, at + 1, problem));
    if columns.iter().all(|column| number(&column.name).is_some_and(f64::is_finite)) {
        let problem = "the first line has numbers instead of names of series: add a header line";
        return wrong_name(0, problem.to_owned());
    }
    // An unnamed first column is the index that data frames are written with.
    let has_labels = columns.first().is_some_and(|first| {
        columns.len() > 1 && (first.no_number.is_some() || first.name.is_empty())
    });
    let labels = has_labels.then(|| columns.remove(0));
    let remark = labels.as_ref().map(|Column { name, no_number, .. }| match no_number {
        Some((line, text)) => {
            format!(
                "column 1, {name:?}, is used as labels: {text:?} in line {line} is not a number"
            )
        }
        None => "column 1 has no name and is used as labels".to_owned(),
    });
    let labels = labels.map(|labels| labels.texts);
    let mut names = HashSet::new();
    let mut series = Vec::with_capacity(columns.len());
    for (at, column) in columns.into_iter().enumerate() {
        let at = at + usize::from(has_labels);
        if let Some((line, text)) = column.no_number {
            let problem =
                format!("{text:?} is not a finite number; write a gap as an empty cell or NaN");
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
    Ok(Input { series, labels, remark })
}

fn delimiter(text: &str) -> u8 {
    let names = text.trim_start().lines().next().unwrap_or_default();
    let count = |delimiter: u8| names.bytes().filter(|&byte| byte == delimiter).count();
    // Of equals the first.
    let most = DELIMITERS.into_iter().rev().max_by_key(|&delimiter| count(delimiter));
    most.unwrap_or(b',')
}

/// The text is UTF-8 and lines may have any length, so hardly anything is left to go wrong.
fn unreadable(error: csv::Error) -> InputError {
    let line = error.position().map_or(1, csv::Position::line);
    InputError::at(line, 1, error.to_string())
}
