//! Formats results as text: a human-readable table, complete JSON, Bencher Metric Format, CSV.
//!
//! Pure: no kernel, no clock, no files. The same report gives the same text.

mod bmf;
mod csv;
mod human;
#[cfg(test)]
pub(super) mod tests;

use std::io;

pub use human::{owners, rate};

use super::LiveReport;
pub use crate::report::Format;

impl Format {
    /// Writes `report` in this format, with a trailing line break.
    pub fn write(self, report: &LiveReport) -> io::Result<String> {
        match self {
            Self::Human => Ok(human::write(report)),
            Self::Json => Ok(serde_json::to_string_pretty(report)? + "\n"),
            Self::Bmf => Ok(bmf::write(report)?),
            Self::Csv => String::from_utf8(csv::write(report)?).map_err(io::Error::other),
        }
    }
}
