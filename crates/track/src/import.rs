//! Imports histories of other tools: files in, [`Report`]s out. Pure.
//!
//! The same file gives the same reports with the same UUIDs, so that importing it again changes nothing.

mod bencher;
mod data_js;

use std::io::{BufRead, Read as _};

use crate::model::{BranchName, ProjectName, Report, TestbedName};

/// Where the reports of a file belong, unless the file says so itself.
#[derive(Debug, Clone)]
pub struct Place {
    pub project: ProjectName,
    /// Whether the user named the project, which then overrides the file's.
    pub is_project_named: bool,
    pub branch: BranchName,
    pub testbed: TestbedName,
}

/// Reports, oldest first, and what was skipped.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    pub reports: Vec<Report>,
    /// Descriptions of the first few values that a store cannot represent.
    pub left_out: Vec<String>,
    pub left_out_count: usize,
}

/// Maximum size of a file, which is read into memory.
pub const BYTES_MAX: u64 = 256 << 20;

/// Maximum number of values described.
const NAMED_MAX: usize = 5;

/// Why a file that looks like one of that tool is refused.
fn malformed(tool: &str) -> impl Fn(serde_json::Error) -> String {
    move |source| format!("it looks like {tool}, but cannot be parsed: {source}")
}

/// First keys of JSON files by other tools. Our own begin with the format.
const BEGINNINGS: [&str; 6] = ["lastUpdate", "repoUrl", "entries", "uuid", "user", "project"];

/// Whether a file begins like another tool's history.
pub fn is_of_another_tool(beginning: &[u8]) -> bool {
    let text = String::from_utf8_lossy(&beginning[..beginning.len().min(256)]);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    text.starts_with(data_js::VARIABLE)
        || text.starts_with('[')
        || first_key(text).is_some_and(|key| BEGINNINGS.contains(&key))
}

/// The first key, if the text begins with an object.
fn first_key(text: &str) -> Option<&str> {
    text.strip_prefix('{')?.trim_start().strip_prefix('"')?.split('"').next()
}

/// Reads a file of github-action-benchmark (`data.js`, or the JSON in it) or of Bencher (a list of reports, or series).
/// The error is a message.
pub fn read(from: impl BufRead, place: &Place) -> Result<History, String> {
    let mut bytes = Vec::new();
    let read = from.take(BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("it cannot be read: {error}"))?;
    if bytes.len() as u64 > BYTES_MAX {
        let most = BYTES_MAX >> 20;
        return Err(format!(
            "it has more than {most} MiB: split it, for all of it is read at once"
        ));
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8")?;
    let text = text.trim_start_matches('\u{feff}').trim();
    let is_data = text.starts_with(data_js::VARIABLE)
        || is_of_another_tool(text.as_bytes()) && text.contains("\"entries\"");
    let mut history = match is_data {
        true => data_js::read(text, place)?,
        false if first_key(text) == Some(bencher::PERF_BEGINNING) => {
            bencher::read_perf(text, place)?
        }
        false => bencher::read(text, place)?,
    };
    if history.reports.is_empty() {
        return Err("it has no results".to_owned());
    }
    history.reports.sort_by_key(|report| (report.start_time, report.uuid));
    Ok(history)
}

impl History {
    fn leave_out(&mut self, what: impl FnOnce() -> String) {
        self.left_out_count += 1;
        if self.left_out.len() < NAMED_MAX {
            self.left_out.push(what());
        }
    }
}
