//! The tables of `cargo xtask peers guilty`.

use super::{
    Found, Record, Unchanged,
    pairs::{Excess, Pair},
    said::{Named, named as named_in},
};
use crate::{
    numbers::Share,
    table::{NONE, column, joined, table},
};

/// Cases in which the first function that is named has to be the guilty one or its caller.
const RIGHT_MIN: f64 = 0.9;

/// Pairs of the same code in which nobody may be named.
const SILENT_MIN: f64 = 0.95;

pub(super) fn text(record: &Record) -> String {
    joined(vec![
        record.origin.text(""),
        cases(&record.cases),
        sum_of_cases(&record.cases),
        unchanged(&record.unchanged),
        sum_of_pairs(&record.unchanged),
    ])
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share).replace('-', "−")
}

fn cases(all: &[Found]) -> String {
    let named = |of: fn(Named) -> String| {
        move |found: &&Found| {
            let named = found.sentence.as_deref().and_then(named_in);
            named.map_or_else(|| NONE.to_owned(), of)
        }
    };
    let columns = [
        column("case", |found: &&Found| found.name.clone()),
        column("what is built in", |found: &&Found| found.what.clone()),
        column("change", |found: &&Found| percent(found.after / found.before - 1.0)),
        column("named first", named(|it| format!("`{}`", it.function))),
        column("at", named(|it| it.place.unwrap_or_else(|| NONE.to_owned()))),
        column("with", named(|it| it.amount)),
        column("right?", |found: &&Found| if found.is_right { "yes" } else { "**no**" }),
        column("alerts", |found: &&Found| format!("{} of {}", found.alerts, found.reports)),
    ];
    table(all, &columns)
}

fn sum_of_cases(all: &[Found]) -> String {
    let right = all.iter().filter(|found| found.is_right).count();
    format!(
        "The first that is named is the guilty function or its caller in {right} of {} cases; the goal is {:.0} %.\n",
        all.len(),
        100.0 * RIGHT_MIN
    )
}

fn unchanged(all: &[Unchanged]) -> String {
    let columns = [
        column("benchmark", |it: &&Unchanged| format!("`{}`", it.benchmark)),
        column("pairs", |it: &&Unchanged| it.pairs.len()),
        column("named in", |it: &&Unchanged| named(&it.pairs)),
        column("largest change of the metric", |it: &&Unchanged| {
            percent(it.pairs.iter().map(|pair| pair.change.abs()).fold(0.0, f64::max))
        }),
        column("largest difference of a share, standard deviations", |it: &&Unchanged| {
            let largest = it.pairs.iter().map(|pair| pair.deviations_max).fold(0.0, f64::max);
            format!("{largest:.1}")
        }),
        column("run to run", |it: &&Unchanged| percent(run_to_run(&it.pairs))),
        column("reports with history", |it: &&Unchanged| it.judged),
        column("alerts", |it: &&Unchanged| it.alerts),
        column("of them name a function", |it: &&Unchanged| it.named.len()),
    ];
    table(all, &columns)
}

fn named(pairs: &[Pair]) -> usize {
    pairs.iter().filter(|pair| pair.named.is_some()).count()
}

fn run_to_run(pairs: &[Pair]) -> f64 {
    Excess::sum(pairs.iter().map(|pair| pair.excess)).run_to_run()
}

fn sum_of_pairs(all: &[Unchanged]) -> String {
    let pairs: Vec<Pair> = all.iter().flat_map(|it| it.pairs.clone()).collect();
    let silent = Share { hits: pairs.len() - named(&pairs), of: pairs.len() };
    format!(
        "Of {} pairs of the same code, {} name nobody; the goal is {:.0} %: {}. Shares differ from run to run by {} of \
         the standard deviation of a sample, beyond what sampling explains.\n",
        silent.of,
        silent.hits,
        100.0 * SILENT_MIN,
        if silent.value().is_some_and(|share| share >= SILENT_MIN) {
            "reached"
        } else {
            "**missed**"
        },
        percent(run_to_run(&pairs))
    )
}
