//! Two stored profiles: of an alert, or of two reports.

use std::io::{self, Write};

use anyhow::Context as _;
use wingbeat_track::{
    explain::{self, Explained, Medium, Pair, Request, Unexplained, View},
    model::{BenchmarkName, Slug},
    store::{AlertFilter, Store, StoredAlert},
};

use super::function_changes::FunctionChanges;
use crate::store::{id::Part, report, sources};

/// Two reports as `BEFORE..AFTER`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sides {
    before: Part,
    after: Part,
}

impl std::str::FromStr for Sides {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected BEFORE..AFTER, each the UUID of a report or a part of it";
        let (before, after) = text.split_once("..").ok_or(expected)?;
        Ok(Self { before: before.parse()?, after: after.parse()? })
    }
}

/// Two profiles of a benchmark.
pub(super) struct StoredProfiles {
    benchmark: BenchmarkName,
    pair: Pair,
}

impl StoredProfiles {
    pub(super) fn of_alert(store: &Store, part: &Part) -> anyhow::Result<Self> {
        let all = store.alerts(&AlertFilter::default(), usize::MAX)?;
        let describe = |one: &StoredAlert| format!("{} {}", one.alert.benchmark, one.alert.measure);
        let uuid = part.find(&all, |one| one.alert.uuid, describe, ("alert", "wingbeat alerts"))?;
        let found = all.into_iter().find(|one| one.alert.uuid == uuid);
        let StoredAlert { report, alert, .. } =
            found.with_context(|| format!("there is no alert {uuid}"))?;
        let report = store.report(report)?.context("the report of the alert was deleted")?;
        let pair = explain::of_alert(store, &report, &alert, &sources()?);
        let pair = pair.map_err(|why| unexplained(format!("the alert {uuid}"), &why))?;
        Ok(Self { benchmark: alert.benchmark, pair })
    }

    pub(super) fn of_reports(
        store: &Store,
        sides: &Sides,
        benchmark: BenchmarkName,
        measure: &Slug,
    ) -> anyhow::Result<Self> {
        let (before, after) = (report(store, &sides.before)?, report(store, &sides.after)?);
        let metric = (&benchmark, measure);
        let pair = explain::of_reports(store, [&before, &after], metric, &sources()?);
        let pair = pair.map_err(|why| unexplained(format!("{benchmark} {measure}"), &why))?;
        Ok(Self { benchmark, pair })
    }

    /// Prints the changed functions with `print`.
    pub(super) fn show(
        &self,
        print: impl FnOnce(&FunctionChanges<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let measure = &self.pair.measure;
        print(&FunctionChanges {
            explanation: &self.pair.explanation,
            title: format!("{} {}", self.benchmark, measure.slug),
            unit: measure.ladder().own().1.to_owned(),
            write: &|value| explain::written(measure, value),
            explained: Some(Explained {
                benchmark: self.benchmark.clone(),
                measure: measure.slug.clone(),
                sentences: self.pair.sentences(),
                excerpts: self.pair.excerpts.clone(),
            }),
        })
    }

    /// Draws the flame graph of the difference, in units of the measure.
    pub(super) fn draw(&self, writer: &mut dyn Write) -> io::Result<()> {
        let title = format!("{} {}", self.benchmark, self.pair.measure.slug);
        let (view, medium) = (View::Difference, Medium::InteractiveFile);
        let picture = self.pair.picture(Request { view, medium, title: &title, search: None });
        writer.write_all(picture.svg.as_bytes())?;
        writer.write_all(b"\n")
    }

    /// The metric before and after, and the difference.
    pub(super) fn whole(&self) -> String {
        self.pair.whole()
    }

    pub(super) fn sentences(&self) -> Vec<String> {
        self.pair.sentences()
    }
}

fn unexplained(what: String, why: &Unexplained) -> anyhow::Error {
    anyhow::anyhow!("{what} cannot be explained: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_are_two_parts_of_uuids() {
        let check = |text: &str, expected: Result<[&str; 2], &str>| {
            let found = text.parse::<Sides>();
            match expected {
                Ok([before, after]) => {
                    let part = |text: &str| text.parse().expect("a part");
                    let expected = Sides { before: part(before), after: part(after) };
                    assert_eq!(found, Ok(expected), "{text}");
                }
                Err(part) => assert!(found.expect_err("refused").contains(part), "{text}"),
            }
        };
        check("0123..beef", Ok(["0123", "beef"]));
        check("0123", Err("BEFORE..AFTER"));
        check("0123..", Err("4 to 32 digits"));
        check("..beef", Err("4 to 32 digits"));
        check("0123...beef", Err("a UUID has the digits"));
    }
}
