//! The reports of a chart, and where they stand along its axis.

use std::collections::HashMap;

use serde::Serialize;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    model::{BranchName, TestbedName},
    store::Plot,
};

/// A report with a value in any of the series.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stamp {
    #[serde(skip)]
    pub report: Uuid,
    #[serde(rename = "start_time", with = "time::serde::rfc3339")]
    pub time: OffsetDateTime,
    pub hash: Option<String>,
    pub branch: BranchName,
    pub testbed: TestbedName,
    /// Iterations drawn side by side.
    pub iterations: u32,
    /// Environment changes since the previous report on the same testbed, in words.
    #[serde(rename = "environment_changes")]
    pub news: Vec<String>,
}

/// A report's part of a column of the axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    pub number: usize,
    /// Iterations of the reports before it in this column.
    pub before: u32,
    /// Iterations of all reports of this column.
    pub total: u32,
}

/// The reports with a value in any of the series.
pub(super) struct Stamps {
    pub(super) all: Vec<Stamp>,
    /// Their position for each report of the plot.
    pub(super) places: Vec<usize>,
    /// As in [`super::Chart::columns`].
    pub(super) columns: Vec<Column>,
}

impl Stamps {
    /// The reports, oldest first; by version, each with the first one of its commit.
    pub(super) fn of(plot: &Plot, is_by_version: bool) -> Self {
        // A report's testbed is known only from its series.
        let mut testbeds: Vec<Option<&TestbedName>> = vec![None; plot.reports.len()];
        let mut iterations = vec![0_u32; plot.reports.len()];
        for series in &plot.series {
            for point in &series.points {
                testbeds[point.report] = Some(&series.testbed);
                let most = &mut iterations[point.report];
                *most = (*most).max(point.iteration.saturating_add(1));
            }
        }
        let mut all = Vec::new();
        let mut places = vec![0; plot.reports.len()];
        let mut before = HashMap::new();
        for (index, report) in plot.reports.iter().enumerate() {
            let Some(testbed) = testbeds[index] else { continue };
            let last = before.insert(testbed, &report.environment);
            let news = last.map_or_else(Vec::new, |last| report.environment.changes_since(last));
            places[index] = all.len();
            all.push(Stamp {
                report: report.uuid,
                time: report.start_time,
                hash: report.hash.clone(),
                branch: report.branch.clone(),
                testbed: testbed.clone(),
                iterations: iterations[index],
                news,
            });
        }
        let stamps = Self { all, places, columns: Vec::new() };
        if is_by_version { stamps.by_version() } else { stamps }
    }

    fn by_version(self) -> Self {
        let mut first_of: HashMap<&str, usize> = HashMap::new();
        let hashes = self.all.iter().map(|stamp| stamp.hash.as_deref()).enumerate();
        let firsts: Vec<usize> = hashes
            .map(|(index, hash)| match hash {
                Some(hash) => *first_of.entry(hash).or_insert(index),
                // Without a commit, each report is a version of its own.
                None => index,
            })
            .collect();
        let mut order: Vec<usize> = (0..self.all.len()).collect();
        order.sort_by_key(|&index| firsts[index]);
        let mut totals = vec![0_u32; self.all.len()];
        for (stamp, &first) in self.all.iter().zip(&firsts) {
            totals[first] = totals[first].saturating_add(stamp.iterations.max(1));
        }
        let mut moved = vec![0; self.all.len()];
        let mut all = Vec::with_capacity(order.len());
        let mut columns: Vec<Column> = Vec::with_capacity(order.len());
        let mut before = 0_u32;
        for (place, &index) in order.iter().enumerate() {
            let number = match columns.last() {
                None => 0,
                Some(last) if firsts[index] == index => last.number + 1,
                Some(last) => last.number,
            };
            if firsts[index] == index {
                before = 0;
            }
            columns.push(Column { number, before, total: totals[firsts[index]] });
            before = before.saturating_add(self.all[index].iterations.max(1));
            moved[index] = place;
            all.push(self.all[index].clone());
        }
        let places = self.places.into_iter().map(|place| moved.get(place).copied().unwrap_or(0));
        Self { all, places: places.collect(), columns }
    }
}
