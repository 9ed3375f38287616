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

use std::{path::Path, process::ExitCode};

use clap::Args;
use serde::Serialize;

use self::{
    cases::{Benchmark, CASES, Case},
    inject::Injected,
    measure::{Bench, file},
    pairs::Pair,
    said::{Said, plain},
    scratch::{Scratch, copy},
};
use crate::comparison::{Common, Origin, Stop, chosen, need_root};

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
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Default, Serialize)]
struct Record {
    origin: Origin,
    cases: Vec<Found>,
    unchanged: Vec<Unchanged>,
}

/// What came of a case.
#[derive(Debug, Clone, Serialize)]
struct Found {
    name: &'static str,
    what: &'static str,
    said: Said,
    is_right: bool,
}

/// A benchmark of code that did not change.
#[derive(Debug, Clone, Serialize)]
struct Unchanged {
    benchmark: String,
    pairs: Vec<Pair>,
    /// Reports with enough history for an alert.
    judged: usize,
    /// Functions that alerts among them named.
    named: Vec<String>,
    alerts: usize,
}

pub(crate) fn run(args: &GuiltyArgs) -> anyhow::Result<ExitCode> {
    let cases = chosen(CASES, "case", |case| case.name, &args.only)?;
    need_root("a profile needs", "guilty")?;
    let stop = Stop::on_signals()?;
    let mut record = Record { origin: Origin::now(), ..Record::default() };
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
    args.common.finish("guilty", &record, &text::text(&record), &stop)
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
    let name = format!("{}: {}", benchmark.target, benchmark.name);
    let store = bench.scratch.store("unchanged")?;
    let mut reports = Vec::new();
    for number in 1..=2 * pairs {
        let said = bench.report(benchmark, &store)?;
        eprintln!("{name}, unchanged {number}: {:.2} ns", said.value);
        reports.push(said);
        if stop.is_asked() {
            return Ok(());
        }
    }
    record.unchanged.push(unchanged(name, &reports, &store)?);
    for case in cases {
        let found = self::case(bench, case, &store)?;
        let Said { value, sentence, .. } = &found.said;
        let (is_right, sentence) = (found.is_right, sentence.as_deref().unwrap_or("no alert"));
        eprintln!(
            "{}: {value:.2} ns, {sentence}: {}",
            case.name,
            if is_right { "right" } else { "WRONG" }
        );
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
    let said = bench.report(case.benchmark, &store)?;
    drop(injected);
    let named = said.named().map(|named| plain(&named.function));
    let is_right = named.is_some_and(|name| case.expected.contains(&name.as_str()));
    Ok(Found { name: case.name, what: case.what, said, is_right })
}
