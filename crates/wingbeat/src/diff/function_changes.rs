//! Functions that changed between two profiles, as a table and as data.

use std::iter;

use serde::Serialize;
use wingbeat_text::{BLANK, Block, Column, Span, Table, line, or_dash, share};
use wingbeat_track::{
    explain::{Change, Explained, Explanation, SourceExcerpt, sentences, signed_by, step},
    output::source,
};

use crate::shell::{print_blocks, print_json, row_width};

/// Incremented when a field is renamed or removed.
const SCHEMA_VERSION: u32 = 1;

/// Rows of the table; the data have all.
const FUNCTIONS_MAX: usize = 25;

/// The comparison to show.
pub(super) struct FunctionChanges<'a> {
    pub(super) explanation: &'a Explanation,
    /// Subject of the values: `parse latency`, or the profiles.
    pub(super) title: String,
    pub(super) unit: String,
    pub(super) write: &'a dyn Fn(f64) -> String,
    /// Additional context from the store and the repository.
    pub(super) explained: Option<Explained>,
}

#[derive(Serialize)]
struct Document<'a> {
    title: &'a str,
    unit: &'a str,
    #[serde(flatten)]
    whole: Difference,
    samples_before: f64,
    samples_after: f64,
    sentences: Vec<String>,
    excerpts: &'a [SourceExcerpt],
    functions: Vec<Function<'a>>,
}

#[derive(Serialize)]
struct Difference {
    before: f64,
    after: f64,
    difference: f64,
    /// Standard deviation of the difference.
    sd: f64,
}

#[derive(Serialize)]
struct Function<'a> {
    function: &'a str,
    #[serde(flatten)]
    change: Difference,
    /// Share of the total change.
    change_share: Option<f64>,
}

impl From<Change> for Difference {
    fn from(change: Change) -> Self {
        let Change { before, after, sd } = change;
        Self { before, after, difference: change.difference(), sd }
    }
}

impl FunctionChanges<'_> {
    fn sentences(&self) -> Vec<String> {
        match &self.explained {
            Some(explained) => explained.sentences.clone(),
            None => sentences(self.explanation, self.write),
        }
    }

    pub(super) fn print_text(&self) -> anyhow::Result<()> {
        let Self { explanation, title, write, .. } = self;
        let mut lines = vec![line(format!("{title}: {}", step(explanation.whole(), write)))];
        for (at, sentence) in self.sentences().iter().enumerate() {
            lines.push(line(sentence));
            let sources = self.explained.iter().flat_map(|it| it.source_of(at));
            lines.extend(sources.map(|(what, text)| {
                let (_, source) = source(&what, &text, 0, row_width());
                iter::once(Span::text(BLANK.repeat(2))).chain(source).collect()
            }));
        }
        let rows: Vec<_> = explanation.listed().take(FUNCTIONS_MAX).collect();
        let cells = |cell: &dyn Fn(Change, Option<f64>) -> String| {
            rows.iter().map(|(_, change, share)| cell(*change, *share)).collect::<Vec<_>>()
        };
        let columns = vec![
            Column::numbers("before", cells(&|change, _| write(change.before))),
            Column::numbers("after", cells(&|change, _| write(change.after))),
            Column::numbers("difference ± 2 sd", cells(&|change, _| signed_by(change, write))),
            Column::numbers("of the change", cells(&|_, part| or_dash(part, share::change))),
        ];
        let names = rows.iter().map(|(name, ..)| wingbeat_text::printable(name));
        print_blocks(&[Block::List(lines), Block::Table(Table::new("function", names, columns))])
    }

    pub(super) fn print_json(&self) -> anyhow::Result<()> {
        let Self { explanation, title, unit, .. } = self;
        let functions = explanation.listed().map(|(function, change, share)| Function {
            function,
            change: change.into(),
            change_share: share,
        });
        let (samples_before, samples_after) = explanation.samples;
        let document = Document {
            title,
            unit,
            whole: explanation.whole().into(),
            samples_before,
            samples_after,
            sentences: self.sentences(),
            excerpts: self.explained.as_ref().map_or(&[][..], |it| &it.excerpts),
            functions: functions.collect(),
        };
        print_json(SCHEMA_VERSION, &document)
    }
}
