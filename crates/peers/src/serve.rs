//! `cargo xtask peers serve`: how fast a server answers with a large history, over HTTP on loopback, with
//! its data in SQLite and in PostgreSQL.
//!
//! The history comes into the store by `wingbeat import`, and the last reports through the server, which
//! judges them.

pub(crate) mod bencher;
mod history;
mod server;

use self::{
    history::Shape,
    server::{Server, Store},
};
use crate::prelude::*;

/// Project of the table of series, of the comparison and of the large report: a million metrics.
const LARGE: Shape = Shape { project: "large", benchmarks: 5000, reports: 200 };
const POSTED: Shape = Shape { project: "posted", benchmarks: 1000, reports: 100 };

pub(crate) const COMPARISON: Comparison<Common> = Comparison { name: "serve", measure, texts };

/// What rows that begin so are to take at most.
const GOALS: [(&str, &str); 5] = [
    ("compare", "200 ms"),
    ("table", "200 ms"),
    ("plot", "300 ms"),
    ("page", "1000 ms"),
    ("memory", "40 MB"),
];

struct To<'a>(&'a mut Results, &'static str, u32);

impl To<'_> {
    fn add(&mut self, what: &str, round: u32, unit: &str, value: f64) {
        let place = (what, self.1);
        self.0.add(place, round, Ok(Run::new(place, round, [(unit, value)])));
    }

    /// Times requests, each of which takes the next of something.
    fn time<T>(
        &mut self,
        what: &str,
        mut next: impl FnMut() -> T,
        ask: impl Fn(T) -> Result<()>,
    ) -> Result<()> {
        // What is read for the first time is in memory afterwards.
        ask(next())?;
        for round in 0..self.2 {
            let it = next();
            let begin = Instant::now();
            ask(it)?;
            self.add(what, round, "ms", begin.elapsed().as_secs_f64() * 1000.0);
        }
        Ok(())
    }
}

fn measure(_: &Common, bed: &Bed<'_>, results: &mut Results) -> Result<()> {
    let divisor = if bed.quick { 10 } else { 1 };
    let [large, posted] = [LARGE, POSTED].map(|shape| shape.divided(divisor));
    let imported = (large.metrics() + posted.metrics()) as f64;
    results.notes.push(format!("{imported} metrics in the store."));
    let engines = chosen(&["SQLite", "PostgreSQL"], |it| it, &bed.common.only)?;
    for &engine in engines.into_iter().filter(|_| !is_stopped()) {
        let store = match engine {
            "SQLite" => Store::sqlite(bed.file("data"))?,
            _ => Store::postgres()?,
        };
        let mut to = To(results, engine, bed.rounds);
        let messages = bed.file(&format!("{engine}-messages"));
        let begin = Instant::now();
        server::import(&bed.wingbeat, &store, &messages, |to| {
            large.write(to).and_then(|()| posted.write(to))
        })?;
        let took_s = begin.elapsed().as_secs_f64();
        to.add("`wingbeat import`, a million metrics", 0, "s", took_s * 1e6 / imported);
        to.add("size of a metric with its verdict", 0, "B", store.bytes()? / imported);
        let server = Server::wingbeat(&bed.wingbeat, &store, &messages)?;
        requests(&mut to, &server, [large, posted])?;
        to.add("memory at rest, after all of this", 0, "MB", server.ticks_and_mb()?.1);
    }
    Ok(())
}

/// Sends the newest reports through the server, and asks what people and programs ask.
fn requests(to: &mut To<'_>, server: &Server, [large, posted]: [Shape; 2]) -> Result<()> {
    let [before, after] = [large.after(0), large.after(1)];
    for document in [&before.1, &after.1] {
        server.post("/v1/reports", document)?;
    }
    server.wait_until_idle()?;
    let Shape { benchmarks, reports, .. } = posted;
    let what = format!(
        "post a report of {benchmarks} metrics as `wingbeat run`, judged by {reports} reports"
    );
    let mut number = 0;
    let mut next = || {
        number += 1;
        posted.after(number).1
    };
    let post = |document: String| server.post("/v1/reports", &document);
    post(next())?;
    server.wait_until_idle()?;
    to.time(&what, next, post)?;
    server.wait_until_idle()?;
    let of = format!("/perf/{}", large.project);
    let series = large.benchmarks;
    let report = format!("page of a report of {series} metrics, to the last byte");
    let compared = format!("{of}/compare/{}..{}", before.0, after.0);
    let plot = format!("{of}/plot?benchmark=group_07%3A%3Abenchmark_0007");
    let pages = [
        (format!("compare {series} series"), compared),
        (format!("table of {series} series"), of.clone()),
        ("plot of one series".to_owned(), plot),
        (report, format!("{of}/reports/{}", after.0)),
    ];
    for (what, path) in pages {
        to.time(&what, || (), |()| server.get(&path).map(drop))?;
    }
    server.wait_until_idle()
}

fn texts(results: &Results) -> Vec<String> {
    let goal = |case: &&str| GOALS.iter().find(|it| case.starts_with(it.0)).map_or("", |it| it.1);
    let table = by_tool(results, vec![column("is to take at most", goal)]);
    let more = format!("; median of {} rounds", results.rounds());
    vec![results.page(&more, [table, results.failures()])]
}

/// A line for each case, and a column for each tool with its medians.
fn by_tool<'r>(results: &'r Results, more: Vec<Column<'r, &'r str>>) -> String {
    let mut columns = vec![column("what", |case: &&str| (*case).to_owned())];
    for tool in distinct(results.rows.iter().map(|run| run.tool.as_str())) {
        columns.push(column(tool, move |case: &&str| {
            let unit = results.runs(case, tool).find_map(|run| run.values.keys().next());
            let shown = |unit| median(results.spread(case, tool, unit), (1.0, 1, ""));
            unit.map_or_else(String::new, |unit| format!("{} {unit}", shown(unit)))
        }));
    }
    columns.extend(more);
    table(results.cases(), &columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::{cells_of, results};

    #[test]
    fn a_column_for_each_engine() {
        let found = results(&[
            ("plot", "SQLite", 0, &[("ms", 10.0)]),
            ("plot", "SQLite", 1, &[("ms", 20.04)]),
            ("size", "PostgreSQL", 0, &[("B", 330.0)]),
        ]);
        let cells = cells_of(&texts(&found)[0]);
        assert_eq!(cells, [["plot", "15.0 ms", "", "300 ms"], ["size", "", "330.0 B", ""]]);
    }
}
