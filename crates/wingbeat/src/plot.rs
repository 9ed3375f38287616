//! `wingbeat plot`: the history of a project as an image, drawn by `wingbeat_track::plot`.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context as _, bail};
use serde::Serialize;
use time::OffsetDateTime;
use wingbeat_text::plural;
use wingbeat_track::{
    model::{
        BenchmarkName, BranchName, Measure, MeasureName, ProjectName, Slug, TestbedName,
        threshold::matches_glob,
    },
    plot::{self, CHART_LINES_MAX, Chart, Panel, Stamp, Step},
    store::{PlotPoint, PlotQuery, Store},
};

use crate::{
    output::PendingFile,
    shell::{message, print, print_json, row_width},
    store::{self, StoreArgs},
    values::{Format, FormatArgs, moment, window},
};

/// Flags of `wingbeat plot`.
#[derive(Debug, clap::Args)]
pub(crate) struct PlotArgs {
    /// Project to draw [env: WINGBEAT_PROJECT] [default: the only one in the store]
    #[arg(long, value_name = "NAME")]
    project: Option<ProjectName>,
    /// Branch to draw; repeatable [default: all]
    #[arg(long, value_name = "NAME")]
    branch: Vec<BranchName>,
    /// Testbed to draw; repeatable [default: all]
    #[arg(long, value_name = "NAME")]
    testbed: Vec<TestbedName>,
    /// Benchmarks to draw, as a glob with * and ?; repeatable [default: all]
    #[arg(long, value_name = "GLOB")]
    benchmark: Vec<String>,
    /// Measure to draw, by its name or slug; repeatable [default: all]
    #[arg(long, value_name = "NAME")]
    measure: Vec<MeasureName>,
    /// Draw results since TIME: 2026-11-21, 2026-11-21T14:05 (UTC), or with a time zone
    #[arg(long, value_name = "TIME", value_parser = moment, conflicts_with = "window")]
    since: Option<OffsetDateTime>,
    /// Draw results of the last TIME: 30d, 12h
    #[arg(long, value_name = "TIME", value_parser = window)]
    window: Option<Duration>,
    /// Maximum number of reports to draw, newest first
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    number: Option<u32>,
    /// Write to FILE; repeatable. The suffix sets the format: .svg a picture of up to 60 series, .html a
    /// page of all series with a search [default: a small chart on stdout]
    #[arg(short, long, value_name = "FILE", value_parser = output)]
    output: Vec<(PathBuf, FileFormat)>,
    #[command(flatten)]
    format: FormatArgs<Format>,
    #[command(flatten)]
    store: StoreArgs,
}

/// File formats of a plot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileFormat {
    Svg,
    Html,
}

fn output(text: &str) -> Result<(PathBuf, FileFormat), String> {
    let path = PathBuf::from(text);
    let suffix = path.extension().and_then(|suffix| suffix.to_str()).unwrap_or_default();
    let format = match suffix {
        "svg" => FileFormat::Svg,
        "html" | "htm" => FileFormat::Html,
        _ => return Err("the suffix sets the format: .svg or .html".to_owned()),
    };
    Ok((path, format))
}

pub(crate) fn run(args: &PlotArgs, quiet: bool) -> anyhow::Result<ExitCode> {
    let store = args.store.open()?;
    let query = query(args, &store)?;
    let files: Vec<(PendingFile, FileFormat)> = args
        .output
        .iter()
        .map(|(path, format)| Ok((PendingFile::create(path)?, *format)))
        .collect::<anyhow::Result<_>>()?;
    let all = Chart::new(title(&query), &store.plot(&query)?);
    let first = all.first(CHART_LINES_MAX);
    if all.panels.is_empty() {
        bail!("nothing to draw: no results in the store {} match", store.path().display());
    }
    if args.format.get() == Format::Json {
        print_json(1, &PlotJson::of(&all))?;
    } else if files.is_empty() && !quiet {
        let columns = Some(row_width()).filter(|&columns| columns != usize::MAX);
        print(&plot::terminal(&first, columns))?;
    }
    for (file, format) in files {
        let (chart, text) = match format {
            FileFormat::Svg => (&first, plot::svg(&first)),
            FileFormat::Html => {
                (&all, plot::html(&all).context("cannot write the data of the page")?)
            }
        };
        let path = file.path().to_owned();
        let bytes = file.write(|writer| writer.write_all(text.as_bytes()))?;
        if !quiet {
            let lines = chart.lines().count();
            let reports = plural(chart.stamps.len(), "report");
            message!(
                "wrote {} ({lines} series of {reports}, {} KB)",
                path.display(),
                bytes.div_ceil(1000)
            );
        }
    }
    let has_picture = args.output.iter().any(|(_, format)| *format == FileFormat::Svg);
    if let Some(text) = first.left_out_text().filter(|_| has_picture && !quiet) {
        message!("{text}");
    }
    Ok(ExitCode::SUCCESS)
}

fn query(args: &PlotArgs, store: &Store) -> anyhow::Result<PlotQuery> {
    let project = store::project(args.project.as_ref(), store)?;
    let known = store.known(&project)?;
    for branch in &args.branch {
        store::check("branch", branch, &known.branches, store)?;
    }
    for testbed in &args.testbed {
        store::check("testbed", testbed, &known.testbeds, store)?;
    }
    let mut slugs = store.slugs(&project)?;
    let measures: Vec<Slug> =
        args.measure.iter().map(|name| slugs.of(&Measure::named(name.as_str()))).collect();
    for measure in &measures {
        store::check("measure", measure, &known.measures, store)?;
    }
    let mut benchmarks: Vec<BenchmarkName> = Vec::new();
    for glob in &args.benchmark {
        let fits = |name: &&BenchmarkName| matches_glob(glob, name.as_str());
        let before = benchmarks.len();
        benchmarks.extend(known.benchmarks.iter().filter(fits).cloned());
        if benchmarks.len() == before {
            let known = store::listed(&known.benchmarks);
            bail!("no benchmark of {project} matches {glob:?}; it has {known}");
        }
    }
    let window = args.window.map(|window| OffsetDateTime::now_utc() - window);
    let reports_max = args.number.and_then(|number| usize::try_from(number).ok());
    Ok(PlotQuery {
        branches: args.branch.clone(),
        testbeds: args.testbed.clone(),
        benchmarks,
        measures,
        since: args.since.or(window),
        reports_max: reports_max.unwrap_or(usize::MAX),
        ..PlotQuery::of(project)
    })
}

/// The project and the filters.
fn title(query: &PlotQuery) -> String {
    let mut parts = vec![query.project.to_string()];
    if let [branch] = &query.branches[..] {
        parts.push(branch.to_string());
    }
    if let [testbed] = &query.testbeds[..] {
        parts.push(testbed.to_string());
    }
    parts.join(" · ")
}

/// A plot's data as JSON. docs/plot.md describes the fields.
#[derive(Serialize)]
struct PlotJson<'a> {
    title: &'a str,
    reports: &'a [Stamp],
    series: Vec<PlottedLine<'a>>,
}

#[derive(Serialize)]
struct PlottedLine<'a> {
    name: &'a str,
    benchmark: &'a str,
    measure: &'a Measure,
    points: &'a [PlotPoint],
    changes: &'a [Step],
}

impl<'a> PlotJson<'a> {
    fn of(chart: &'a Chart) -> Self {
        let series = |panel: &'a Panel| {
            panel.lines.iter().map(|line| PlottedLine {
                name: &line.name,
                benchmark: &panel.benchmark,
                measure: &panel.measure,
                points: &line.dots,
                changes: &line.steps,
            })
        };
        Self {
            title: &chart.title,
            reports: &chart.stamps,
            series: chart.panels.iter().flat_map(series).collect(),
        }
    }
}
