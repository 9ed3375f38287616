//! Series from bytes: CSV or JSON, told apart by the first character. Pure.
//!
//! Either every value is understood, or there is one sentence that says where the first is that is not.

mod csv;
mod json;

use std::{fmt, str};

/// What a file holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Input {
    /// In the order of the file; no two have the same name.
    pub(crate) series: Vec<Series>,
    /// What the points are called, dates or commits, where the file says so. One for each point.
    pub(crate) labels: Option<Vec<String>>,
    /// Which columns were taken for labels, and why: one might have been meant as a series.
    pub(crate) remark: Option<String>,
}

/// A series of values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Series {
    /// Its name; not empty.
    pub(crate) name: String,
    /// Finite numbers, and NaN where there is none.
    pub(crate) values: Vec<f64>,
}

/// Why a file is no series, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InputError {
    /// Line and column, from 1. The column counts the cells in CSV, and bytes elsewhere.
    pub(crate) place: Option<(u64, usize)>,
    pub(crate) problem: String,
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((line, column)) = self.place {
            write!(f, "line {line}, column {column}: ")?;
        }
        f.write_str(&self.problem)
    }
}

impl std::error::Error for InputError {}

impl InputError {
    fn new(problem: impl Into<String>) -> Self {
        Self { place: None, problem: problem.into() }
    }

    fn at(line: u64, column: usize, problem: impl Into<String>) -> Self {
        Self { place: Some((line, column)), problem: problem.into() }
    }
}

/// What is wrong with the name of a series, if it would break a table.
fn check_name(name: &str) -> Result<(), String> {
    match name.chars().find(|c| c.is_control()) {
        Some(c) => Err(format!("the name {name:?} of a series holds the control character {c:?}")),
        None => Ok(()),
    }
}

/// Reads CSV or JSON, in UTF-8: all series, or `only` those of these names if there are any.
pub(crate) fn parse(bytes: &[u8], only: &[String]) -> Result<Input, InputError> {
    let text = str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let lines = before.iter().filter(|&&byte| byte == b'\n').count();
        let in_line = before.iter().rev().take_while(|&&byte| byte != b'\n').count();
        InputError::at(lines as u64 + 1, in_line + 1, "this is not UTF-8 text")
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut input = match text.trim_start().chars().next() {
        None => Err(InputError::new(
            "the file is empty; expected CSV with a header line, or JSON: {\"name\": [1.5, 1.7]}",
        )),
        Some('{' | '[') => json::parse(text),
        Some(_) => csv::parse(text, only),
    }?;
    input.series.retain(|series| only.is_empty() || only.contains(&series.name));
    match only.iter().find(|name| input.series.iter().all(|series| series.name != **name)) {
        Some(name) => Err(InputError::new(format!("no series is called {name:?}"))),
        None => Ok(input),
    }
}

#[cfg(test)]
mod tests;
