//! Gungraun, formerly iai-callgrind: its text, or its summaries as JSON (version 6 and 7).

mod measures;
mod summary;
mod table;

use crate::adapter::prelude::*;

pub(super) fn parse(text: &str, _: Option<Average>) -> Parsed {
    let results = summary::parse(text)?;
    if results.is_empty() { table::parse(text) } else { Ok(results) }
}
