//! `cargo xtask peers changes`: does `wingbeat changes` find what is there, and nothing else?
//!
//! On made series, because there the truth is known: steps in noise of several kinds, and series as
//! projects have them. Beside it Apache Otava (formerly Hunter) searches the same series, installed
//! from the Python package index into an environment of its own. The same seed gives the same tables.
//!
//! With `--annotated`, on series in which people have marked the changes.

mod annotated;
mod noise;
mod otava;
mod score;
mod series;
mod tables;

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::Context as _;
use clap::Args;
use serde_json::Value;
use wingbeat_stats::random::Random;

use self::{
    annotated::{Half, Set},
    noise::{KINDS, Kind},
    score::Score,
    series::Made,
};
use crate::comparison::{Common, keep, out, output};

/// The seed of the tables in the documents. Nobody has looked at its series before; to work on the
/// rule, take another.
const SEED: u64 = 5_201_314;

/// The marks around the tables, and around those of annotated series.
const MARKS: &str = "peers changes";
const MARKS_ANNOTATED: &str = "peers changes annotated";

/// Distances of steps that are tried, in points: at least so many, and up to half as much again.
const APART: [usize; 3] = [100, 50, 25];

/// Height of these steps, in standard deviations of the noise.
const STEP_SIGMAS: f64 = 2.0;

/// Points of a series with such steps.
const STEPS_POINTS: usize = 500;

/// Lengths of the series without steps, with as many points of each.
const NOISE_POINTS: [usize; 3] = [50, 200, 1000];

/// Two levels alternate every so many points.
const TURNS: [usize; 7] = [4, 8, 10, 15, 25, 40, 60];

/// Distance of these levels, in standard deviations of the noise.
const TURNS_SIGMAS: f64 = 6.0;

/// Kinds of noise with outages, and with drift.
const DISTURBED: [Kind; 4] =
    [Kind::Gaussian, Kind::Autoregressive(0.5), Kind::Spikes(0.05), Kind::Quantised];

/// Drift from the first to the last point, in standard deviations of the noise.
const DRIFT_SIGMAS: f64 = 8.0;

/// Settings that are tried on annotated series, of `--alpha` and of `--min-change`.
const CHANCES: [&str; 4] = ["0.01", "0.001", "0.0001", "0.000001"];
const LEASTS: [&str; 6] = ["0.25", "0.5", "0.75", "1", "1.5", "2"];

/// How the comparison is made.
#[derive(Debug, Args)]
pub(crate) struct ChangesArgs {
    /// A tenth of the series: shows that all works
    #[arg(long)]
    quick: bool,
    /// Seed of the series
    #[arg(long, value_name = "N", default_value_t = SEED)]
    seed: u64,
    /// Directory with series in which people have marked the changes; instead of made ones, may be
    /// given several times. docs/changes.md lists them
    #[arg(long, value_name = "DIR", conflicts_with_all = ["quick", "seed"])]
    annotated: Vec<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// Series of one sort.
#[derive(Debug)]
struct Group {
    sort: Sort,
    series: Vec<Made>,
}

/// What a group is made of.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Sort {
    Noise(Kind),
    /// Noise with steps at this distance.
    Steps(Kind, usize),
    /// Series as projects have them.
    Project,
    /// Two levels that alternate every so many points.
    Turns(usize),
    Outages(Kind),
    Drift(Kind),
}

/// What a tool found, by series in their order.
type Reported = Vec<Vec<usize>>;

/// A tool with its settings, and how well it did on each group.
#[derive(Debug)]
struct Tool {
    name: String,
    scores: Vec<(Sort, Score)>,
}

impl Tool {
    fn new(name: String, groups: &[Group], reported: &Reported) -> Self {
        let mut reported = reported.iter();
        let scores = groups
            .iter()
            .map(|group| (group.sort, Score::of_all(&group.series, reported.by_ref())));
        Self { name, scores: scores.collect() }
    }

    fn score(&self, sort: Sort) -> Score {
        let found = self.scores.iter().filter(|(of, _)| *of == sort);
        found.map(|(_, score)| *score).fold(Score::default(), Score::and)
    }
}

/// Has the series searched, and prints the tables.
pub(crate) fn run(args: &ChangesArgs) -> anyhow::Result<ExitCode> {
    let folder = out("changes")?;
    let file = folder.join("series.json");
    let sets: Vec<Set> =
        args.annotated.iter().map(|set| annotated::read(set)).collect::<anyhow::Result<_>>()?;
    let program = args.common.wingbeat()?;
    let (text, marks) = if sets.is_empty() {
        (on_made(args, &folder, &file, &program)?, MARKS)
    } else {
        (on_annotated(&sets, &file, &program)?, MARKS_ANNOTATED)
    };
    println!("{text}");
    args.common.write(marks, &text)?;
    Ok(ExitCode::SUCCESS)
}

fn on_made(
    args: &ChangesArgs,
    folder: &Path,
    file: &Path,
    program: &Path,
) -> anyhow::Result<String> {
    let groups = groups(args.seed, if args.quick { 10 } else { 1 });
    let count = write_series(file, groups.iter().flat_map(|group| &group.series))?;
    let found = wingbeat(program, file, count, None)?;
    let mut tools = vec![Tool::new("wingbeat changes".to_owned(), &groups, &found)];
    let note = match otava::find(folder, file, count)? {
        Ok((version, variants)) => {
            let each = variants.into_iter();
            tools.extend(each.map(|(name, found)| Tool::new(name, &groups, &found)));
            format!("apache-otava {version}, from the Python package index.")
        }
        Err(why) => format!("apache-otava was left out: {why}"),
    };
    Ok(tables::text(&tools, &[note], args.seed, &groups))
}

/// Settings are chosen on one half of the series and judged on the other.
fn on_annotated(sets: &[Set], file: &Path, program: &Path) -> anyhow::Result<String> {
    let scores = |half: Half, settings: &[Option<(&'static str, &'static str)>]| {
        let count = write_series(file, sets.iter().flat_map(|set| set.half(half)))?;
        let of = |&settings: &_| {
            let found = wingbeat(program, file, count, settings)?;
            let mut found = found.iter();
            let sets = sets.iter().map(|set| Score::of_all(set.half(half), found.by_ref()));
            Ok(sets.collect())
        };
        settings.iter().map(of).collect::<anyhow::Result<Vec<Vec<Score>>>>()
    };
    let tried: Vec<_> =
        CHANCES.into_iter().flat_map(|chance| LEASTS.map(|least| (chance, least))).collect();
    let settings: Vec<_> = tried.iter().copied().map(Some).collect();
    let tuning = scores(Half::Tuning, &settings)?
        .into_iter()
        .map(|of_sets| of_sets.into_iter().fold(Score::default(), Score::and));
    let tuning: Vec<_> = tried.into_iter().zip(tuning).collect();
    let held_out = scores(Half::HeldOut, &[None])?.concat();
    Ok(tables::annotated(sets, &tuning, &held_out))
}

/// All series, or every n-th of them.
fn groups(seed: u64, thin: usize) -> Vec<Group> {
    let mut random = Random::new(seed);
    let mut groups = Vec::new();
    let mut group = |sort, count: usize, make: &dyn Fn(&mut Random) -> Made| {
        let series = (0..count / thin).map(|_| make(&mut random)).collect();
        groups.push(Group { sort, series });
    };
    for kind in KINDS {
        for points in NOISE_POINTS {
            group(Sort::Noise(kind), 50_000 / points, &|random| {
                series::plain(kind, points, None, 0.0, random)
            });
        }
        for apart in APART {
            group(Sort::Steps(kind, apart), 100, &|random| {
                series::plain(kind, STEPS_POINTS, Some(apart), STEP_SIGMAS, random)
            });
        }
    }
    group(Sort::Project, 1000, &series::project);
    for every in TURNS {
        group(Sort::Turns(every), 100, &|random| {
            series::turns(STEPS_POINTS, every, TURNS_SIGMAS, random)
        });
    }
    for kind in DISTURBED {
        group(Sort::Outages(kind), 100, &|random| series::outages(kind, STEPS_POINTS, random));
        group(Sort::Drift(kind), 100, &|random| {
            series::drift(kind, STEPS_POINTS, DRIFT_SIGMAS, random)
        });
    }
    groups
}

/// As `{"0": [numbers or null], "1": …}`; how many there are.
fn write_series<'a>(file: &Path, series: impl Iterator<Item = &'a Made>) -> anyhow::Result<usize> {
    let series: serde_json::Map<String, Value> = series
        .enumerate()
        .map(|(at, made)| (at.to_string(), Value::from(made.values.clone())))
        .collect();
    keep(&series, file)?;
    Ok(series.len())
}

/// With an `--alpha` and a `--min-change`, or with its defaults.
fn wingbeat(
    program: &Path,
    file: &Path,
    count: usize,
    settings: Option<(&str, &str)>,
) -> anyhow::Result<Reported> {
    let mut command = Command::new(program);
    command.arg("changes").arg(file).args(["--format", "json"]);
    if let Some((chance, least)) = settings {
        command.args(["--alpha", chance, "--min-change", least]);
    }
    let found: Value = serde_json::from_str(&output(&mut command)?)
        .context("`wingbeat changes` wrote something else")?;
    let of_series = |at: usize| {
        let changes = found["series"][at.to_string()].as_array().context("a series is missing")?;
        let index = |change: &Value| change["index"].as_u64().map(|index| index as usize);
        let indexes: Option<Vec<usize>> = changes.iter().map(index).collect();
        indexes.context("a change has no index")
    };
    (0..count).map(of_series).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_series() {
        let values = |seed| -> Vec<Vec<u64>> {
            let groups = groups(seed, 50);
            let series = groups.iter().flat_map(|group| &group.series);
            series.map(|made| made.values.iter().map(|value| value.to_bits()).collect()).collect()
        };
        assert_eq!(values(3), values(3));
        assert_ne!(values(3), values(4));
    }

    #[test]
    fn steps_lie_within_and_apart() {
        for Group { sort, series } in groups(2, 20) {
            for made in series {
                let mut ends = vec![0];
                ends.extend(&made.changes);
                ends.push(made.values.len());
                let shortest = ends.windows(2).map(|pair| pair[1] - pair[0]).min();
                let least = match sort {
                    Sort::Noise(_) | Sort::Outages(_) | Sort::Drift(_) => made.values.len(),
                    Sort::Steps(_, apart) => apart,
                    Sort::Project => 8,
                    Sort::Turns(every) if every <= series::OUTAGE_MAX => made.values.len(),
                    Sort::Turns(_) => series::END_MIN,
                };
                assert!(shortest >= Some(least), "{sort:?}: {:?}", made.changes);
            }
        }
    }
}
