//! Simulated error rate and power of `verdict::decide`: the tables of docs/judging-appendix.md.
//!
//! `cargo run --release -p wingbeat-track --example how_often [PERCENT [TABLE]]` makes reports with known noise and
//! judges them. Tables are `alarms`, `power`, `confirmed`, `pushes`, `sizes` and `t-test`. The output is reproducible.
//! With a percentage of the runs it is less precise.

mod noise;
mod trial;

use wingbeat_track::model::threshold::Test;

use self::{
    noise::{KINDS, Kind, SIGMA},
    trial::Trial,
};

/// Points of history for the tables of false alarms and of power.
const ALARM_HISTORIES: [usize; 6] = [5, 10, 12, 20, 50, 100];
const POWER_HISTORIES: [usize; 6] = [5, 8, 10, 20, 50, 100];

const BENCHMARKS: [usize; 3] = [1, 10, 100];

/// The change to find, in standard deviations of the noise without its spikes.
const CHANGE: f64 = 8.0;

/// A benchmark that takes twice as long, in standard deviations.
const TWICE: f64 = 1.0 / SIGMA;

fn main() {
    let part: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(100);
    let which = std::env::args().nth(2).unwrap_or_default();
    let is_asked = |name: &str| which.is_empty() || which == name;
    let trials = |whole: usize| (whole * part / 100).max(1);
    let confirmed = Trial { confirm: true, ..Trial::default() };
    let t_test = Trial { test: Test::TTest, ..Trial::default() };
    if is_asked("alarms") {
        println!("\nReports with a false verdict, %, by benchmarks and points: auto\n");
        alarms(&Trial::default(), &ALARM_HISTORIES, &trials);
    }
    if is_asked("power") {
        println!("\nA lasting change of 8 σ and one to twice the value, found in %: auto\n");
        power(&Trial::default(), &trials);
    }
    if is_asked("confirmed") {
        println!("\nReports with a false verdict, %, by benchmarks and points: --err\n");
        alarms(&confirmed, &[10, 100], &trials);
        println!("\nA lasting change of 8 σ and one to twice the value, found in %: --err\n");
        power(&confirmed, &trials);
    }
    if is_asked("pushes") {
        println!("\nPushes of a branch with a false verdict, %, of three in a row: auto\n");
        alarms(
            &Trial { reports: 3, are_pushes: true, ..Trial::default() },
            &[10, 20, 100],
            &trials,
        );
    }
    if is_asked("sizes") {
        println!("\nLasting changes of one of the benchmarks, found in %: auto\n");
        sizes(&Trial::default(), &trials);
    }
    if is_asked("t-test") {
        println!("\nReports with a false verdict, %, by benchmarks and points: t_test 0.99\n");
        alarms(&t_test, &[10, 100], &trials);
    }
}

fn heading(first: &str, columns: &[String]) {
    println!("| {first} | {} |", columns.join(" | "));
    println!("| --- |{}", " --- |".repeat(columns.len()));
}

fn row(name: &str, cells: impl Iterator<Item = String>) {
    println!("| {name} | {} |", cells.collect::<Vec<_>>().join(" | "));
}

fn percent(share: f64) -> String {
    format!("{:.*}", if share < 0.0995 { 2 } else { 0 }, share * 100.0)
}

fn rounded(share: f64) -> String {
    format!("{:.0}", share * 100.0)
}

fn alarms(method: &Trial, histories: &[usize], trials: &dyn Fn(usize) -> usize) {
    let cells = || {
        BENCHMARKS.into_iter().flat_map(move |many| histories.iter().map(move |&few| (many, few)))
    };
    let columns: Vec<_> = cells().map(|(many, few)| format!("{many}: {few}")).collect();
    heading("noise", &columns);
    // A drifting series does change.
    for (kind, name) in KINDS.into_iter().filter(|(kind, _)| !matches!(kind, Kind::Drift(_))) {
        let cells = cells().map(|(benchmarks, history)| {
            // Needs that many benchmarks for all kinds.
            if kind == Kind::Mixed && benchmarks < 10 {
                return "–".to_owned();
            }
            let whole = [5_000, 1_000, 300][benchmarks.ilog10() as usize];
            percent(Trial { kind, benchmarks, history, ..*method }.run(trials(whole)).wrong)
        });
        row(name, cells);
    }
}

fn power(method: &Trial, trials: &dyn Fn(usize) -> usize) {
    let columns = [
        "shown at once",
        "by 3rd",
        "alert by 1st report",
        "2nd",
        "3rd",
        "3rd, none a spike",
        "×2 shown at once",
        "×2 alert by 1st",
        "2nd",
    ];
    heading("noise, points", &columns.map(str::to_owned));
    let kinds = [
        Kind::Gaussian,
        Kind::Spikes(0.05),
        Kind::Spikes(0.1),
        Kind::Spikes(0.2),
        Kind::HeavyTails,
        Kind::LogNormal(0.3),
        Kind::TwoLevels(0.1),
        Kind::Drift(2.0),
    ];
    for kind in kinds {
        for history in POWER_HISTORIES {
            let change = |slowdown, reports| {
                let slowdown = Some(slowdown);
                Trial { kind, history, slowdown, reports, ..*method }
            };
            let run = |trial: Trial| trial.run(trials(1_000));
            let (eight, twice) = (run(change(CHANGE, 3)), run(change(TWICE, 2)));
            let calm = match kind.has_spikes() {
                true => run(Trial { calm: true, ..change(CHANGE, 3) }).by[2],
                false => eight.by[2],
            };
            let [first, .., third] = eight.shown;
            let cells = [first, third, eight.by[0], eight.by[1], eight.by[2], calm];
            let cells = cells.into_iter().chain([twice.shown[0], twice.by[0], twice.by[1]]);
            row(&format!("{}, {history}", kind.name()), cells.map(rounded));
        }
    }
}

/// Slows down one of several benchmarks by various amounts.
fn sizes(method: &Trial, trials: &dyn Fn(usize) -> usize) {
    const SIZES: [f64; 4] = [3.0, 5.0, 8.0, 12.0];
    let columns = SIZES.map(|size| format!("{size} σ: shown, by 1st, 3rd"));
    heading("noise, benchmarks: points", &columns);
    for kind in [Kind::Gaussian, Kind::LogNormal(0.3), Kind::Spikes(0.05)] {
        for (benchmarks, history) in [(1, 10), (1, 100), (10, 10), (10, 100), (100, 10), (100, 100)]
        {
            let cells = SIZES.map(|size| {
                let slowdown = Some(size);
                let trial = Trial { kind, benchmarks, history, slowdown, reports: 3, ..*method };
                let seen = trial.run(trials(40_000 / (benchmarks + 19)));
                [seen.shown[0], seen.by[0], seen.by[2]].map(rounded).join(", ")
            });
            row(&format!("{}, {benchmarks}: {history}", kind.name()), cells.into_iter());
        }
    }
}
