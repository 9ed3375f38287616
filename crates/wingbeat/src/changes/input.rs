//! Parses series: CSV or JSON, detected by the first character. Pure.
//!
//! Either every value is valid, or the error names the first invalid position.

mod csv;
mod json;

use std::{fmt, str};

/// Contents of a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Input {
    /// In the order of the file, with distinct names.
    pub(crate) series: Vec<Series>,
    /// Labels of the points (dates or commits), if the file has any. One for each point.
    pub(crate) labels: Option<Vec<String>>,
    /// Which columns were taken as labels, and why: one might have been intended as a series.
    pub(crate) remark: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Series {
    /// Non-empty name.
    pub(crate) name: String,
    /// Finite numbers, and NaN for gaps.
    pub(crate) values: Vec<f64>,
}

/// Why and where a file is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InputError {
    /// Line and column, from 1. The column counts cells in CSV, and bytes elsewhere.
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

/// Rejects series names that would break a table.
fn check_name(name: &str) -> Result<(), String> {
    match name.chars().find(|c| c.is_control()) {
        Some(c) => Err(format!("the name {name:?} of a series holds the control character {c:?}")),
        None => Ok(()),
    }
}

/// Parses CSV or JSON in UTF-8: all series, or if given `only` those of these names.
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
