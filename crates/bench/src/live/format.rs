//! Results as text: a table for people, JSON with everything, Bencher Metric Format, CSV.
//!
//! A report in, text out: no kernel, no clock, no files. The same report gives the same text.

mod bmf;
mod csv;
mod human;
mod numbers;
#[cfg(test)]
pub(super) mod tests;

use std::{fmt, io, str::FromStr};

pub use numbers::{decimal, grouped, printable, seconds};

use super::Report;

/// A form of a result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    #[default]
    Human,
    Json,
    /// Bencher Metric Format: a mean time and a rate per program.
    Bmf,
    /// A row per program.
    Csv,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Human, Self::Json, Self::Bmf, Self::Csv];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Human => "human",
            Self::Json => "json",
            Self::Bmf => "bmf",
            Self::Csv => "csv",
        }
    }

    /// Writes `report` in this form, with a line break at its end.
    ///
    /// # Errors
    ///
    /// Those of the writers behind it, which have no cause here.
    pub fn write(self, report: &Report) -> io::Result<String> {
        match self {
            Self::Human => Ok(human::write(report)),
            Self::Json => Ok(serde_json::to_string_pretty(report)? + "\n"),
            Self::Bmf => Ok(bmf::write(report)?),
            Self::Csv => String::from_utf8(csv::write(report)?).map_err(io::Error::other),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No form has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no format is called {0:?}: there are human, json, bmf and csv")]
pub struct UnknownFormat(pub String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|format| format.name() == text);
        found.ok_or_else(|| UnknownFormat(text.to_owned()))
    }
}
