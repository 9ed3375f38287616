//! Formats the result of a run for people and machines. Pure: a [`Page`] goes in, text comes out.

mod fragment;
mod human;
mod json;
mod lines;
mod row;

use std::path::Path;

use crate::{
    explain::Explained,
    model::{Notice, Report, ThresholdModel},
};

pub use crate::model::{short_hash, short_id};
pub use fragment::{html, markdown, marker};
pub use human::{human, source};

pub use json::{adapter_name, json, sha1};
pub(crate) use lines::explanations;
pub use lines::{Sentence, sentences, verdict, verdict_of};
pub use row::{ReportRow, outcome_word};
pub use wingbeat_text::Style;

pub(crate) use fragment::{causes, fitting, subject, table as limited_table};

#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    /// The report, with its verdicts in the order of the iterations and their metrics, and its alerts.
    pub report: &'a Report,
    /// The threshold behind each verdict, in the same order.
    pub thresholds: &'a [Option<ThresholdModel>],
    /// Number of the report's version on its branch, from 0.
    pub version_number: Option<u64>,
    /// Number of the version on the start point's branch that the report was compared with, from 0.
    pub start_point_number: Option<u64>,
    /// The commit of that version. Differs from the start point's if another report was used instead.
    pub start_point_hash: Option<&'a str>,
    pub notices: &'a [Notice],
    /// Remarks for the user: which version replaces a missing one, what was left out.
    pub remarks: &'a [String],
    /// Explanations of alerts by profiles.
    pub explained: &'a [Explained],
    /// Location of the stored report. `None` if not stored (`--dry-run`, `--host`).
    pub store: Option<&'a Path>,
}

impl<'a> Page<'a> {
    /// A page with only a report and the thresholds behind its verdicts.
    pub fn of(report: &'a Report, thresholds: &'a [Option<ThresholdModel>]) -> Self {
        Self {
            report,
            thresholds,
            version_number: None,
            start_point_number: None,
            start_point_hash: None,
            notices: &[],
            remarks: &[],
            explained: &[],
            store: None,
        }
    }
}
