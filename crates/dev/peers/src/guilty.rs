//! `cargo xtask peers guilty`: whether `wingbeat run --profile` names the function that made a benchmark slower, and
//! names nobody where nothing changed.
//!
//! Regressions of known place are built into copies of the examples and of two public projects, one after the other.
//! Each benchmark is measured several times before, so that an alert has a history.

mod cases;
mod inject;
mod measure;
mod pairs;
mod said;
mod scratch;
mod text;

use std::{fs, path::Path, process::ExitCode};

use anyhow::Context as _;
use clap::Args;
use serde::{Deserialize, Serialize};

use self::{
    cases::{Benchmark, CASES, Case, Expected, Tool},
    inject::Injected,
    measure::{Bench, file},
    pairs::Pair,
    said::{Said, plain},
    scratch::{Scratch, copy},
};
use crate::comparison::{Common, Origin, Stop, chosen, kept, need_root, out};

/// What is measured.
#[derive(Debug, Args)]
pub(crate) struct GuiltyArgs {
    /// Cases to measure [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Pairs of runs of unchanged code for each benchmark, which are the history of the cases as well
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u32).range(3..=100))]
    pairs: u32,
    /// Put the results beside those of earlier runs, in place of those of the same names
    #[arg(long)]
    add: bool,
    #[command(flatten)]
    common: Common,
}

/// Reports of unchanged code where the result is a count.
const COUNTS: u32 = 2;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Record {
    origin: Origin,
    cases: Vec<Found>,
    unchanged: Vec<Unchanged>,
}

/// What came of a case.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Found {
    name: String,
    what: String,
    said: Said,
    is_right: bool,
}

/// A benchmark of code that did not change.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Unchanged {
    benchmark: String,
    pairs: Vec<Pair>,
    /// Reports with a history that a fixed threshold can be applied to.
    judged: usize,
    /// Functions that alerts among them named.
    named: Vec<String>,
    alerts: usize,
}

/// The figures of this command.
const NAME: &str = "guilty";

pub(crate) fn run(args: &GuiltyArgs) -> anyhow::Result<ExitCode> {
    let cases = chosen(CASES, "case", |case| case.name, &args.only)?;
    need_root("a profile needs", NAME)?;
    let stop = Stop::on_signals()?;
    let origin = Origin::now();
    let mut record: Record = match args.add {
        true => kept(&out("")?.join(format!("{NAME}.json")))?,
        false => Record { origin, ..Record::default() },
    };
    let wingbeat = args.common.wingbeat()?;
    let scratch = Scratch::new()?;
    let bench = Bench { wingbeat: &wingbeat, scratch: &scratch };
    let mut benchmarks: Vec<Benchmark> = cases.iter().map(|case| case.benchmark).collect();
    benchmarks.sort();
    benchmarks.dedup();
    for benchmark in benchmarks {
        let of_it: Vec<_> = cases.iter().filter(|case| case.benchmark == benchmark).collect();
        let done = self::benchmark(&bench, benchmark, &of_it, args.pairs, &stop, &mut record);
        if stop.unless_asked(done)?.is_none() {
            break;
        }
    }
    let place = |found: &Found| CASES.iter().position(|case| case.name == found.name);
    record.cases.sort_by_key(place);
    args.common.finish(NAME, &record, &text::text(&record), &stop)
}

/// Measures a benchmark without a change, and with each of its cases.
fn benchmark(
    bench: &Bench<'_>,
    benchmark: Benchmark,
    cases: &[&Case],
    pairs: u32,
    stop: &Stop,
    record: &mut Record,
) -> anyhow::Result<()> {
    let name = match benchmark.tool {
        Tool::Criterion(target) => format!("{target}: {}", benchmark.name),
        Tool::Bench => benchmark.name.to_owned(),
    };
    // Counts are the same each time: no pair of them tells anything.
    let is_counted = benchmark.tool == Tool::Bench;
    let store = bench.scratch.store("unchanged")?;
    let mut reports = Vec::new();
    for number in 1..=if is_counted { COUNTS } else { 2 * pairs } {
        let said = bench.report(benchmark, &store)?;
        eprintln!("{name}, unchanged {number}: {:.2}", said.value);
        reports.push(said);
        if stop.is_asked() {
            return Ok(());
        }
    }
    if !is_counted {
        record.unchanged.retain(|it| it.benchmark != name);
        record.unchanged.push(unchanged(name, &reports, &store)?);
    }
    for case in cases {
        let found = self::case(bench, case, &store)?;
        let Said { value, sentence, .. } = &found.said;
        let sentence = sentence.as_deref().unwrap_or("no alert");
        let right = if found.is_right { "right" } else { "WRONG" };
        eprintln!("{}: {value:.2}, {sentence}: {right}", case.name);
        record.cases.retain(|it| it.name != found.name);
        record.cases.push(found);
        if stop.is_asked() {
            return Ok(());
        }
    }
    Ok(())
}

fn unchanged(benchmark: String, reports: &[Said], store: &Path) -> anyhow::Result<Unchanged> {
    let named = reports.iter().filter_map(|said| Some(said.named()?.function));
    Ok(Unchanged {
        benchmark,
        pairs: pairs::of_store(&file(store))?,
        judged: reports.iter().filter(|said| said.baseline.is_some()).count(),
        named: named.collect(),
        alerts: reports.iter().filter(|said| said.has_alert).count(),
    })
}

/// Measures a case, with the history of the unchanged code.
fn case(bench: &Bench<'_>, case: &Case, history: &Path) -> anyhow::Result<Found> {
    let store = bench.scratch.store(case.name)?;
    copy(history, &store)?;
    let projects = bench.scratch.projects();
    let injected = Injected::new(&projects, case.edits)?;
    bench.scratch.commit(case.what)?;
    let said = bench.report(case.benchmark, &store)?;
    let is_right = match said.named() {
        Some(named) => {
            let line = line(&projects, case.expected, named.place.as_deref())?;
            case.expected.is_met(&plain(&named.function), line.as_deref())
        }
        None => false,
    };
    drop(injected);
    bench.scratch.commit("Take it back")?;
    let (name, what) = (case.name.to_owned(), case.what.to_owned());
    Ok(Found { name, what, said, is_right })
}

/// The text of the line that was named, where lines are expected.
fn line(
    projects: &Path,
    expected: Expected,
    place: Option<&str>,
) -> anyhow::Result<Option<String>> {
    let (Expected::Lines(file, _), Some((at, number))) =
        (expected, place.and_then(|place| place.rsplit_once(':')))
    else {
        return Ok(None);
    };
    if !file.ends_with(at) {
        return Ok(None);
    }
    let file = projects.join(file);
    let text =
        fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let number: usize = number.parse().unwrap_or(0);
    Ok(number.checked_sub(1).and_then(|at| text.lines().nth(at)).map(str::to_owned))
}
