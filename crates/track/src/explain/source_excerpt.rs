//! Source lines that explain a change, before and after, if available.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use similar::{DiffOp, TextDiff};
use wingbeat_pprof::{Place, Side};

use crate::model::Report;

/// Maximum number of files searched: those of a program, not of everything linked into it.
const FILES_MAX: usize = 64;

/// Larger files are not written by hand.
const FILE_BYTES_MAX: usize = 4 << 20;

/// Provides source files of measured commits.
pub trait Sources {
    /// The text of a file by its path in debug information.
    fn text(&self, commit: &str, path: &str) -> Option<String>;
}

/// Provides no sources.
#[derive(Debug, Clone, Copy)]
pub struct NoSources;

impl Sources for NoSources {
    fn text(&self, _: &str, _: &str) -> Option<String> {
        None
    }
}

/// A source line of a cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceExcerpt {
    /// Index of its sentence.
    pub sentence: usize,
    pub file: String,
    /// Before the change: the same line, or the one it replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<ExcerptLine>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<ExcerptLine>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExcerptLine {
    pub line: u32,
    /// Without surrounding white space.
    pub text: String,
}

impl SourceExcerpt {
    /// Each text with a label: `line 42 before`, `line 43 now`. Only one if both are equal.
    pub fn lines(&self) -> Vec<(String, &str)> {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) if before.text == after.text => {
                let what = match before.line == after.line {
                    true => format!("line {}", after.line),
                    false => format!("line {}, {} before", after.line, before.line),
                };
                vec![(what, &after.text)]
            }
            (before, after) => {
                let before =
                    before.iter().map(|it| (format!("line {} before", it.line), &*it.text));
                before
                    .chain(after.iter().map(|it| (format!("line {} now", it.line), &*it.text)))
                    .collect()
            }
        }
    }
}

/// The files of two profiles, if both commits are known and contain them.
pub(super) struct Files<'s> {
    sources: &'s dyn Sources,
    commits: [Option<&'s str>; 2],
    /// Files of the user's own code: a dependency may have a file of the same name.
    own: BTreeSet<String>,
    mappings: BTreeMap<String, LineMapping>,
}

impl<'s> Files<'s> {
    /// Those of two reports and the later profile.
    pub(super) fn of(
        sources: &'s dyn Sources,
        reports: [Option<&'s Report>; 2],
        profile: &Side,
    ) -> Self {
        let commits = reports.map(|report| report.and_then(commit));
        let own = profile.own_files().into_iter().take(FILES_MAX).map(str::to_owned).collect();
        let mut files = Self { sources, commits, own, mappings: BTreeMap::new() };
        if let [Some(earlier), Some(later)] = commits {
            for path in &files.own {
                let text = |commit| files.text(commit, path);
                if let Some((earlier, later)) = text(earlier).zip(text(later)) {
                    files.mappings.insert(path.clone(), LineMapping::between(&earlier, &later));
                }
            }
        }
        files
    }

    /// The earlier profile with its lines renumbered to the later versions of their files.
    pub(super) fn renumber(&self, earlier: Side) -> Side {
        earlier.renumbered(&|file, line| Some(self.mappings.get(file)?.later(line)))
    }

    fn text(&self, commit: &str, path: &str) -> Option<String> {
        self.sources.text(commit, path).filter(|text| text.len() <= FILE_BYTES_MAX)
    }

    /// The source of a location, for the sentence with that index. `None` if unknown.
    pub(super) fn excerpt(&self, sentence: usize, place: &Place) -> Option<SourceExcerpt> {
        if !self.own.contains(&place.file) {
            return None;
        }
        let mapping = self.mappings.get(&place.file);
        let [before, after] = match (mapping, place.is_gone) {
            (_, true) => [Some(place.line), None],
            (Some(mapping), false) => [mapping.earlier(place.line), Some(place.line)],
            (None, false) => [None, Some(place.line)],
        };
        let [before_commit, after_commit] = self.commits;
        let line = |commit: Option<&str>, line: Option<u32>| {
            let (commit, line) = commit.zip(line)?;
            let text = self.text(commit, &place.file)?;
            let index = usize::try_from(line).ok()?.checked_sub(1)?;
            let text = text.lines().nth(index)?.trim().to_owned();
            Some(ExcerptLine { line, text })
        };
        let (before, after) = (line(before_commit, before), line(after_commit, after));
        let file = place.file.clone();
        (before.is_some() || after.is_some()).then_some(SourceExcerpt {
            sentence,
            file,
            before,
            after,
        })
    }
}

/// The measured commit. `None` if the working tree differed from it.
fn commit(report: &Report) -> Option<&str> {
    let environment = &report.environment;
    let commit = environment.git_hash.as_deref().or(report.hash.as_deref());
    commit.filter(|_| environment.is_dirty != Some(true))
}

/// Time limit, after which large files with little in common are compared roughly.
const TIME_MAX: Duration = Duration::from_secs(1);

/// The line mapping between two versions of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LineMapping {
    /// For each line of the earlier version its number in the later one, if it still exists.
    later: Vec<Option<u32>>,
    /// For each line of the later version its number in the earlier one, or that of the line it replaced.
    earlier: Vec<Option<u32>>,
}

impl LineMapping {
    pub(super) fn between(earlier: &str, later: &str) -> Self {
        let (earlier, later): (Vec<_>, Vec<_>) =
            (earlier.lines().collect(), later.lines().collect());
        let mut mapping =
            Self { later: vec![None; earlier.len()], earlier: vec![None; later.len()] };
        let difference = TextDiff::configure().timeout(TIME_MAX).diff_slices(&earlier, &later);
        for part in difference.ops() {
            match *part {
                DiffOp::Equal { old_index, new_index, len } => {
                    for at in 0..len {
                        mapping.set_later(old_index + at, new_index + at);
                        mapping.set_earlier(new_index + at, old_index + at);
                    }
                }
                DiffOp::Replace { old_index, old_len, new_index, new_len } => {
                    for at in 0..new_len {
                        mapping.set_earlier(new_index + at, old_index + at.min(old_len - 1));
                        // The same number of lines: assumes they were edited in place.
                        if old_len == new_len {
                            mapping.set_later(old_index + at, new_index + at);
                        }
                    }
                }
                DiffOp::Delete { .. } | DiffOp::Insert { .. } => {}
            }
        }
        mapping
    }

    fn set_later(&mut self, from: usize, to: usize) {
        if let Some(place) = self.later.get_mut(from) {
            *place = number(to);
        }
    }

    fn set_earlier(&mut self, from: usize, to: usize) {
        if let Some(place) = self.earlier.get_mut(from) {
            *place = number(to);
        }
    }

    /// The later number of a line, also of an edited one. `None` if it was removed.
    pub(super) fn later(&self, line: u32) -> Option<u32> {
        at(&self.later, line)
    }

    /// The earlier number of a line, or that of the line it replaced. `None` if it was added.
    pub(super) fn earlier(&self, line: u32) -> Option<u32> {
        at(&self.earlier, line)
    }
}

fn at(lines: &[Option<u32>], line: u32) -> Option<u32> {
    *lines.get(usize::try_from(line).ok()?.checked_sub(1)?)?
}

fn number(index: usize) -> Option<u32> {
    u32::try_from(index + 1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_their_numbers_before_and_after() {
        let line = |(line, text): (u32, &str)| ExcerptLine { line, text: text.to_owned() };
        let check = |before: Option<(u32, &str)>, after: Option<(u32, &str)>, expected: &[&str]| {
            let (before, after) = (before.map(line), after.map(line));
            let excerpt = SourceExcerpt { sentence: 0, file: "a.rs".to_owned(), before, after };
            let lines = excerpt.lines();
            let lines: Vec<_> =
                lines.iter().map(|(what, text)| format!("{what}: {text}")).collect();
            assert_eq!(lines, expected);
        };
        check(Some((3, "f();")), Some((3, "f();")), &["line 3: f();"]);
        check(Some((3, "f();")), Some((5, "f();")), &["line 5, 3 before: f();"]);
        check(Some((3, "f();")), Some((3, "g();")), &["line 3 before: f();", "line 3 now: g();"]);
        check(None, Some((3, "g();")), &["line 3 now: g();"]);
        check(Some((3, "f();")), None, &["line 3 before: f();"]);
    }

    #[test]
    fn lines_go_where_they_went() {
        let check = |earlier: &str, later: &str, expected: &[Option<u32>], back: &[Option<u32>]| {
            let mapping = LineMapping::between(earlier, later);
            let lines = (1..).take(expected.len());
            assert_eq!(lines.map(|line| mapping.later(line)).collect::<Vec<_>>(), expected);
            let lines = (1..).take(back.len());
            assert_eq!(lines.map(|line| mapping.earlier(line)).collect::<Vec<_>>(), back);
        };
        check("a\nb\n", "a\nb\n", &[Some(1), Some(2), None], &[Some(1), Some(2), None]);
        check("a\nb", "x\na\ny\nb\n", &[Some(2), Some(4)], &[None, Some(1), None, Some(2)]);
        check("a\nb\nc\n", "a\nc\n", &[Some(1), None, Some(2)], &[Some(1), Some(3)]);
        check(
            "a\nb\nc\n",
            "a\nx\ny\nc\n",
            &[Some(1), None, Some(4)],
            &[Some(1), Some(2), Some(2), Some(3)],
        );
        check("a\nb\n", "x\na\nc\n", &[Some(2), Some(3)], &[None, Some(1), Some(2)]);
        check("", "a\n", &[None], &[None]);
        assert_eq!(LineMapping::between("a", "a").later(0), None);
    }
}
