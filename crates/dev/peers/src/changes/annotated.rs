//! Series in which people have marked the changes, from directories that the user has. None of the data
//! are part of this repository; docs/changes.md says where to get them.
//!
//! Two forms are read. That of the Turing Change Point Dataset: `annotations.json` with the places that
//! each annotator marked, by series, and JSON files of series anywhere below. And that of Shao et al.,
//! "One-to-One Matching of RTT and Path Changes" (ITC 29, 2017): CSV files with columns `rtt` and `cp`,
//! where `cp` is 1 at a change.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;
use wingbeat_steps::folders::below;

use super::{score::MARGIN, series::Made};
use crate::comparison::kept;

/// Series of one directory, in the order of their names.
#[derive(Debug)]
pub(super) struct Set {
    pub(super) name: String,
    pub(super) series: Vec<Made>,
}

/// Half of the series of each set, every other one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Half {
    /// For choosing settings.
    Tuning,
    /// For judging what was chosen.
    HeldOut,
}

impl Set {
    pub(super) fn half(&self, half: Half) -> impl Iterator<Item = &Made> {
        let skipped = if half == Half::Tuning { 0 } else { 1 };
        self.series.iter().skip(skipped).step_by(2)
    }
}

/// The places that each annotator marked, by series.
type Annotations = BTreeMap<String, BTreeMap<String, Vec<usize>>>;

#[derive(Deserialize)]
struct File {
    name: String,
    series: Vec<Column>,
}

#[derive(Deserialize)]
struct Column {
    raw: Vec<Option<f64>>,
}

/// Reads a directory in one of both forms.
pub(super) fn read(directory: &Path) -> anyhow::Result<Set> {
    let annotations = directory.join("annotations.json");
    let series = if annotations.is_file() {
        turing(directory, &annotations)?
    } else {
        let files = files(directory, "csv")?;
        files.iter().map(|file| round_trips(file)).collect::<anyhow::Result<_>>()?
    };
    ensure!(
        !series.is_empty(),
        "{} holds neither an annotations.json with its series nor CSV files with a column cp",
        directory.display()
    );
    let name = directory.canonicalize().ok();
    let name = name.as_deref().and_then(Path::file_name).unwrap_or(directory.as_os_str());
    Ok(Set { name: name.to_string_lossy().into_owned(), series })
}

fn turing(directory: &Path, annotations: &Path) -> anyhow::Result<Vec<Made>> {
    let marks: Annotations = kept(annotations)?;
    let mut series = BTreeMap::new();
    for path in files(directory, "json")? {
        // Other files lie about as well.
        let Ok(File { name, series: columns }) = kept::<File>(&path) else { continue };
        let ([Column { raw }], Some(marks)) = (&columns[..], marks.get(&name)) else { continue };
        let marks: Vec<Vec<usize>> = marks.values().cloned().collect();
        let values = raw.iter().map(|value| value.unwrap_or(f64::NAN)).collect();
        series.insert(name, Made { values, changes: majority(&marks) });
    }
    Ok(series.into_values().collect())
}

fn round_trips(path: &Path) -> anyhow::Result<Made> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    round_trips_of(&text).with_context(|| format!("cannot understand {}", path.display()))
}

fn round_trips_of(text: &str) -> anyhow::Result<Made> {
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().trim().split(';').collect();
    let column = |name: &str| head.iter().position(|head| *head == name);
    let (Some(rtt), Some(cp)) = (column("rtt"), column("cp")) else {
        bail!("the first line names no columns rtt and cp, divided by semicolons");
    };
    let mut made = Made { values: Vec::new(), changes: Vec::new() };
    for line in lines.filter(|line| !line.trim().is_empty()) {
        let cells: Vec<&str> = line.trim().split(';').collect();
        let cell = |at: usize| cells.get(at).copied().unwrap_or_default();
        // Half of the files have a decimal comma.
        let value: f64 = cell(rtt)
            .replace(',', ".")
            .parse()
            .with_context(|| format!("line {} has no number", made.values.len() + 2))?;
        if cell(cp).starts_with('1') {
            made.changes.push(made.values.len());
        }
        made.values.push(value);
    }
    Ok(made)
}

/// All files with this ending below a directory, in the order of their names.
fn files(directory: &Path, ending: &str) -> anyhow::Result<Vec<PathBuf>> {
    let has_ending = |path: &PathBuf| path.extension().is_some_and(|it| it == ending);
    Ok(below(directory)?.into_iter().filter(has_ending).collect())
}

/// Places that more than half of the annotators marked, up to [`MARGIN`] points beside.
///
/// The place with most marks near it comes first, and takes the nearest mark of each annotator with it.
fn majority(marks: &[Vec<usize>]) -> Vec<usize> {
    let mut left = marks.to_vec();
    let nearest = |marks: &[usize], place: usize| {
        let near = marks.iter().enumerate().map(|(at, mark)| (mark.abs_diff(place), at));
        near.filter(|(distance, _)| *distance <= MARGIN).min()
    };
    let mut agreed = Vec::new();
    loop {
        let all = left.iter().flatten().copied();
        let backed = all.map(|place| {
            let near: Vec<usize> = left
                .iter()
                .filter_map(|marks| nearest(marks, place).map(|(distance, _)| distance))
                .collect();
            (std::cmp::Reverse(near.len()), near.iter().sum::<usize>(), place)
        });
        match backed.min() {
            Some((std::cmp::Reverse(backers), _, place)) if 2 * backers > marks.len() => {
                agreed.push(place);
                for marks in &mut left {
                    if let Some((_, at)) = nearest(marks, place) {
                        marks.remove(at);
                    }
                }
            }
            _ => break,
        }
    }
    agreed.sort_unstable();
    agreed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_half_decide() {
        let check = |marks: &[&[usize]], expected: &[usize]| {
            let marks: Vec<Vec<usize>> = marks.iter().map(|marks| marks.to_vec()).collect();
            assert_eq!(majority(&marks), expected, "{marks:?}");
        };
        check(&[], &[]);
        check(&[&[], &[]], &[]);
        check(&[&[30, 7]], &[7, 30]);
        check(&[&[10], &[]], &[]);
        check(&[&[10], &[12], &[]], &[10]);
        check(&[&[10], &[12], &[15]], &[12]);
        check(&[&[10], &[16], &[]], &[]);
        // One annotator's two marks are two places, and no two votes for one.
        check(&[&[10, 12], &[], &[]], &[]);
        check(&[&[10, 14], &[10, 14], &[14]], &[10, 14]);
    }

    #[test]
    fn round_trips_are_read() {
        let made =
            round_trips_of("epoch;rtt;cp\r\na;1,5;0\r\nb;2.5;1\r\n\r\n").expect("two points");
        assert_eq!((made.values, made.changes), (vec![1.5, 2.5], vec![1]));
        let check = |text: &str, expected: &str| {
            let error = format!("{:#}", round_trips_of(text).expect_err(text));
            assert!(error.contains(expected), "{error}");
        };
        check("", "names no columns");
        check("rtt;x\n1;0\n", "names no columns");
        check("rtt;cp\n1;0\n?;0\n", "line 3 has no number");
    }

    #[test]
    fn a_directory_in_the_form_of_turings() {
        let directory = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().expect("within")).expect("made");
            fs::write(path, text).expect("written");
        };
        assert!(read(directory.path()).is_err());
        write(
            "annotations.json",
            r#"{"b": {"1": [1], "2": [1]}, "a": {"1": []}, "c": {"1": [2]}}"#,
        );
        write("datasets/b/b.json", r#"{"name": "b", "series": [{"raw": [1, null, 3]}]}"#);
        write("datasets/a.json", r#"{"name": "a", "series": [{"raw": [4]}]}"#);
        write("other.json", "[]");
        // Of more dimensions than one.
        write("c.json", r#"{"name": "c", "series": [{"raw": [1]}, {"raw": [2]}]}"#);
        let set = read(directory.path()).expect("two series");
        let [a, b] = &set.series[..] else { panic!("{set:?}") };
        assert_eq!((&a.values[..], &a.changes[..]), (&[4.0][..], &[][..]));
        assert!(b.values[1].is_nan());
        assert_eq!(b.changes, [1]);
        let count = |half| set.half(half).count();
        assert_eq!((count(Half::Tuning), count(Half::HeldOut)), (1, 1));
    }
}
