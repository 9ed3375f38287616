//! `cargo xtask peers serve`: how fast a server answers with a large history, over HTTP on loopback, with its data
//! in SQLite and in PostgreSQL.
//!
//! The history is made up, and the same each time. It comes into the server's store by `wingbeat import`, and
//! the last reports through the server, which judges them.

mod engines;
mod history;
mod posts;
mod server;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;

use self::{
    engines::{Engine, Stored},
    history::{Shape, history},
    server::Server,
};
use crate::{
    comparison::{Common, Origin, Stop, fresh},
    numbers::Spread,
    table::{column, show, table},
};

/// Project of the table of series, of the comparison and of the large report: a million metrics.
const LARGE: Shape = Shape { project: "large", benchmarks: 5000, reports: 200 };

/// Project of the query of series.
const LONG: Shape = Shape { project: "long", benchmarks: 100, reports: 1000 };

/// Project that reports are posted to.
const POSTED: Shape = Shape { project: "posted", benchmarks: 1000, reports: 100 };

/// Reports of [`LONG`] in one request, which has 4 MiB at most.
const REPORTS_AT_ONCE: usize = 50;

/// What a page of the console may take, unless less was asked for.
const PAGE_MS_MAX: f64 = 300.0;

/// How the server is measured.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// A tenth of the history: shows that all works
    #[arg(long)]
    quick: bool,
    /// Millions of metrics of the largest project
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "quick")]
    millions: u32,
    /// Where the data lies: one of them, or both, one after the other
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["sqlite", "postgres"])]
    engines: Vec<Engine>,
    /// How often each is asked
    #[arg(long, value_name = "N", default_value_t = 10)]
    rounds: u32,
    /// Bencher's own API server, to post the same reports to
    #[arg(long, value_name = "FILE")]
    bencher_api: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// One kind of question, with what it may take.
#[derive(Debug, Serialize)]
struct Figure {
    what: String,
    /// `ms`, `MB`, `B` or `s`.
    unit: &'static str,
    most: Option<f64>,
    values: Vec<f64>,
}

pub(crate) fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let stop = Stop::on_signals()?;
    let origin = Origin::now();
    let bencher = args.bencher_api.as_deref().map(existing).transpose()?;
    let program = args.common.wingbeat()?;
    let folder = fresh("serve")?;
    let divisor = if args.quick { 10 } else { 1 };
    let [large, long, posted] = [LARGE, LONG, POSTED].map(|shape| shape.divided(divisor));
    let large = Shape { reports: large.reports * args.millions, ..large };
    let shapes = [large, long, posted];
    let metrics: u64 =
        shapes.iter().map(|it| u64::from(it.benchmarks) * u64::from(it.reports)).sum();
    let mut results = Vec::new();
    for engine in &args.engines {
        let stored = Stored::new(*engine, &folder)?;
        // Bencher's server is measured once.
        let bencher = bencher.clone().filter(|_| results.is_empty());
        let bencher = bencher.map(|program| (program, folder.join("bencher")));
        results
            .push((*engine, figures(&program, &stored, &shapes, bencher.as_ref(), args.rounds)?));
    }
    let text = format!(
        "{}\n{}\nOf {metrics} metrics in the store; median of {} rounds (smallest to largest).\n",
        origin.text(""),
        lines(&results),
        args.rounds
    );
    // A larger history has a table of its own.
    let name = match args.millions {
        1 => "serve".to_owned(),
        millions => format!("serve {millions}"),
    };
    args.common.finish(&name, &results, &text, &stop)
}

/// What is measured with one engine.
fn figures(
    program: &Path,
    stored: &Stored,
    shapes: &[Shape; 3],
    bencher: Option<&(PathBuf, PathBuf)>,
    rounds: u32,
) -> anyhow::Result<Vec<Figure>> {
    let [large, _, posted] = *shapes;
    let mut figures = Vec::new();
    let empty = Server::wingbeat(program, &stored.place("empty")?)?;
    figures.push(memory("memory at rest, without results", &empty)?);
    drop(empty);

    let place = stored.place("data")?;
    let begin = Instant::now();
    let imported = server::import(program, &place, |to| history(&[large, posted], to))?;
    let seconds = begin.elapsed().as_secs_f64();
    eprintln!("{imported} metrics are there after {seconds:.1} s");
    let size = stored.bytes(&place)? as f64 / imported as f64;
    let mut one = |what: &str, unit, value| {
        figures.push(Figure { what: what.to_owned(), unit, most: None, values: vec![value] });
    };
    one("`wingbeat import`, a million metrics", "s", seconds * 1e6 / imported as f64);
    one("size of a metric with its verdict", "B", size);
    let server = Server::wingbeat(program, &place)?;
    figures.push(memory("memory at rest, with the history", &server)?);
    figures.extend(questions(&server, shapes, rounds)?);
    figures.push(memory("memory at rest, after all of this", &server)?);
    figures.extend(posts::figures(&server, bencher, &POSTED, rounds)?);
    Ok(figures)
}

/// The whole path of a program that was named.
fn existing(program: &Path) -> anyhow::Result<PathBuf> {
    let found = fs::canonicalize(program).with_context(|| {
        format!("cannot find {}: build Bencher's API server first", program.display())
    })?;
    anyhow::ensure!(found.is_file(), "{} is no file", found.display());
    Ok(found)
}

/// Sends the newest reports through the server, and asks it what people and programs ask.
fn questions(server: &Server, shapes: &[Shape; 3], rounds: u32) -> anyhow::Result<Vec<Figure>> {
    let [large, long, posted] = shapes;
    let mut figures = Vec::new();
    // A query answers with the metrics that came through the server alone: others have no UUIDs.
    for lines in (0..long.reports).collect::<Vec<_>>().chunks(REPORTS_AT_ONCE) {
        let lines: Vec<_> = lines.iter().map(|number| long.judged(*number)).collect();
        server.post("/v1/reports", &lines.join("\n"))?;
    }
    // Through the server: the registry learns the names, and the rows of the series are made.
    let newest: Vec<_> = (0..2).map(|number| large.after(number)).collect();
    for document in newest.iter().map(|(_, line)| line).chain([&long.after(0).1]) {
        server.post("/v1/reports", document)?;
    }
    server.wait_until_idle()?;

    let mut number = 0;
    let mut post = || {
        number += 1;
        server.post("/v1/reports", &posted.after(number).1).map(drop)
    };
    post()?;
    server.wait_until_idle()?;
    let what = format!(
        "post a report of {} metrics as `wingbeat run`, judged by {} reports",
        posted.benchmarks, posted.reports
    );
    figures.push(measure(&what, None, rounds, &mut post)?);
    server.wait_until_idle()?;

    let query = perf_query(server, long)?;
    let mut get = |what: String, most: f64, path: &str| {
        figures.push(measure(&what, Some(most), rounds, &mut || server.get(path).map(drop))?);
        anyhow::Ok(())
    };
    let (points, answer) = (long.benchmarks * long.reports, server.get(&query)?);
    let found = answer.matches("\"iteration\"").count();
    anyhow::ensure!(found as u64 >= u64::from(points), "the query has {found} of {points} points");
    let (series, size) = (long.benchmarks, answer.len() as f64 / 1e6);
    let what = format!("query {series} series of {} points: {size:.0} MB", long.reports);
    get(what, 50.0, &query)?;
    let [(before, _), (after, _)] = &newest[..] else { anyhow::bail!("two reports") };
    let of_large = format!("/perf/{}", large.project);
    let series = large.benchmarks;
    get(
        format!("compare {series} series"),
        200.0,
        &format!("{of_large}/compare/{before}..{after}"),
    )?;
    get(format!("table of {series} series"), 200.0, &of_large)?;
    let plot = format!("{of_large}/plot?benchmark=group_07%3A%3Abenchmark_0007");
    get("plot of one series".to_owned(), PAGE_MS_MAX, &plot)?;
    get("list of reports".to_owned(), PAGE_MS_MAX, &format!("{of_large}/reports"))?;
    get("list of alerts".to_owned(), PAGE_MS_MAX, &format!("{of_large}/alerts"))?;
    let report = format!("{of_large}/reports/{after}");
    get(format!("page of a report of {series} metrics, to the last byte"), 1000.0, &report)?;
    server.wait_until_idle()?;
    Ok(figures)
}

fn measure(
    what: &str,
    most: Option<f64>,
    rounds: u32,
    ask: &mut dyn FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<Figure> {
    // What is read for the first time is in memory afterwards.
    ask()?;
    let mut values = Vec::new();
    for _ in 0..rounds {
        let begin = Instant::now();
        ask()?;
        values.push(begin.elapsed().as_secs_f64() * 1000.0);
    }
    eprintln!("{what}: {values:.1?} ms");
    Ok(Figure { what: what.to_owned(), unit: "ms", most, values })
}

fn memory(what: &str, server: &Server) -> anyhow::Result<Figure> {
    let values = vec![server.resident_mb()?];
    Ok(Figure { what: what.to_owned(), unit: "MB", most: Some(40.0), values })
}

/// The address of the query of all series of a project.
fn perf_query(server: &Server, shape: &Shape) -> anyhow::Result<String> {
    let mut parts = Vec::new();
    for kind in ["branches", "testbeds", "benchmarks", "measures"] {
        let path = format!("/v0/projects/{}/{kind}?per_page=255", shape.project);
        let list: Vec<serde_json::Value> = serde_json::from_str(&server.get(&path)?)
            .with_context(|| format!("{path} is no list"))?;
        let uuids: Vec<_> = list.iter().filter_map(|thing| thing["uuid"].as_str()).collect();
        anyhow::ensure!(!uuids.is_empty(), "{path} is empty");
        parts.push(format!("{kind}={}", uuids.join("%2C")));
    }
    Ok(format!("/v0/projects/{}/perf?{}", shape.project, parts.join("&")))
}

fn lines(results: &[(Engine, Vec<Figure>)]) -> String {
    let Some((_, first)) = results.first() else { return String::new() };
    let shown = |figure: &Figure| {
        show(Spread::of(figure.values.iter().copied()), 1.0, 1, &format!(" {}", figure.unit))
    };
    let mut columns = vec![column("what", |figure: &&Figure| figure.what.clone())];
    for (engine, figures) in results {
        columns.push(column(engine.name(), move |asked: &&Figure| {
            figures.iter().find(|it| it.what == asked.what).map_or_else(String::new, shown)
        }));
    }
    columns.push(column("is to take at most", |figure: &&Figure| {
        figure.most.map_or_else(String::new, |most| format!("{most} {}", figure.unit))
    }));
    table(first, &columns)
}
