//! Gungraun, formerly iai-callgrind: its text, or its summaries as JSON (version 6 and 7).

mod measures;
mod summary;
mod table;

use super::AdapterError;
use crate::model::{Average, Results};

pub(super) fn parse(text: &str, _: Option<Average>) -> Result<Results, AdapterError> {
    let results = summary::parse(text)?;
    if results.is_empty() { table::parse(text) } else { Ok(results) }
}
