//! `cargo xtask peers bencher`: the API server of Bencher and `wingbeat serve` with the same reports and the same
//! questions, one client at a time.

use super::{
    To,
    history::Shape,
    server::{Server, Store},
};
use crate::prelude::*;

const REPORTS: u32 = 600;
/// How many of the last posts are timed: the history is whole then.
const TIMED: u32 = 50;
/// Reports that judge the next one.
const HISTORY: u32 = 64;
const BENCHER: &str = "Bencher";

pub(crate) const COMPARISON: Comparison<Beside> = Comparison { name: "bencher", measure, texts };

#[derive(Debug, Args)]
pub(crate) struct Beside {
    /// Bencher's API server: `cargo build --release -p bencher_api --no-default-features` in its repository
    #[arg(long, value_name = "FILE", required_unless_present = "from")]
    server: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
}

fn measure(args: &Beside, bed: &Bed<'_>, results: &mut Results) -> Result<()> {
    let reports = if bed.quick { REPORTS / 10 } else { REPORTS };
    let tools = chosen(&[BENCHER, "SQLite", "PostgreSQL"], |it| it, &bed.common.only)?;
    for &tool in tools.into_iter().filter(|_| !is_stopped()) {
        let (folder, messages) = (bed.fresh(tool)?, bed.file(&format!("{tool}-messages")));
        let server = match (tool, &args.server) {
            (BENCHER, program) => {
                let program = program.as_deref().context("name Bencher's server with --server")?;
                Server::bencher(program, &folder, &messages)?
            }
            ("SQLite", _) => Server::wingbeat(&bed.wingbeat, &Store::sqlite(folder)?, &messages)?,
            _ => Server::wingbeat(&bed.wingbeat, &Store::postgres()?, &messages)?,
        };
        let mut to = To(results, tool, bed.rounds);
        for (project, test, history) in
            [("tested", ", a t-test of 64", Some(HISTORY)), ("plain", ", no threshold", None)]
        {
            let shape = Shape { project, benchmarks: 100, reports };
            posts(&mut to, &server, shape, (test, history))?;
            questions(&mut to, &server, shape, test)?;
        }
        server.wait_until_idle()?;
        to.add("memory afterwards", 0, "MB", server.ticks_and_mb()?.1);
    }
    Ok(())
}

fn posts(
    to: &mut To<'_>,
    server: &Server,
    shape: Shape,
    (test, history): (&str, Option<u32>),
) -> Result<()> {
    let timed_from = shape.reports.saturating_sub(TIMED);
    let what = format!("post a report of {} metrics{test}", shape.benchmarks);
    for number in 0..shape.reports {
        let body = shape.bencher_run(number, history).to_string();
        let begin = Instant::now();
        server.post("/v0/run", &body)?;
        if let Some(round) = number.checked_sub(timed_from) {
            to.add(&what, round, "ms", begin.elapsed().as_secs_f64() * 1000.0);
        }
    }
    server.wait_until_idle()
}

fn questions(to: &mut To<'_>, server: &Server, shape: Shape, test: &str) -> Result<()> {
    let Shape { project, reports, .. } = shape;
    let of = |what: &str| format!("/v0/projects/{project}/{what}");
    let series = |count| perf_query(server, project, count);
    for (what, path) in [
        (format!("100 series of {reports} points{test}"), series(100)?),
        (format!("1 series of {reports} points{test}"), series(1)?),
        (format!("list of 64 alerts{test}"), of("alerts?per_page=64")),
        (format!("list of 8 reports{test}"), of("reports?per_page=8")),
    ] {
        to.time(&what, || (), |()| server.get(&path).map(drop))?;
    }
    Ok(())
}

/// The address of the query of a project's series: of that many benchmarks, and all else.
fn perf_query(server: &Server, project: &str, benchmarks: usize) -> Result<String> {
    let mut parts = Vec::new();
    for kind in ["branches", "testbeds", "benchmarks", "measures"] {
        let path = format!("/v0/projects/{project}/{kind}?per_page=255");
        let list: Vec<Value> = parse_json(&server.get(&path)?)?;
        let most = if kind == "benchmarks" { benchmarks } else { usize::MAX };
        let uuids = list.iter().filter_map(|item| item["uuid"].as_str()).take(most);
        let uuids: Vec<_> = uuids.collect();
        ensure!(!uuids.is_empty(), "{path} is empty");
        parts.push(format!("{kind}={}", uuids.join("%2C")));
    }
    Ok(format!("/v0/projects/{project}/perf?{}", parts.join("&")))
}

fn texts(results: &Results) -> Vec<String> {
    let table = super::by_tool(results, Vec::new());
    vec![results.page("", [table, results.failures()])]
}
