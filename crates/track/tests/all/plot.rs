//! Plots of synthetic histories with difficult cases: golden files, and rules that hold for any history.

mod charts;
mod rules;
mod script;

use std::{env, fs, path::Path};

use time::{Duration, OffsetDateTime};
use wingbeat_track::{model::*, plot::*, store::PlotPoint};

/// Deterministic pseudo-random numbers from 0 to 1.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Approximately normal, with mean 0 and standard deviation 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.next()).sum::<f64>() - 6.0
    }
}

fn stamps(count: usize, apart: Duration) -> Vec<Stamp> {
    let first = OffsetDateTime::from_unix_timestamp(1_795_298_672).expect("a time");
    let stamp = |index: usize| Stamp {
        report: uuid::Uuid::from_u128(index as u128),
        time: first + apart * i32::try_from(index).expect("few"),
        hash: Some(format!("{:016x}", 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(index as u64 + 1))),
        branch: "main".parse().expect("a name"),
        testbed: "ci-runner".parse().expect("a name"),
        iterations: 1,
        news: Vec::new(),
    };
    (0..count).map(stamp).collect()
}

/// A line of values with a spread of two percent.
fn line(name: &str, values: impl IntoIterator<Item = f64>) -> Line {
    let dot = |(report, value): (usize, f64)| PlotPoint {
        report,
        value,
        lower: Some(value - value.abs() * 0.02),
        upper: Some(value + value.abs() * 0.02),
        ..PlotPoint::default()
    };
    Line {
        name: name.to_owned(),
        dots: values.into_iter().enumerate().map(dot).collect(),
        steps: Vec::new(),
    }
}

fn bare(mut line: Line) -> Line {
    for dot in &mut line.dots {
        (dot.lower, dot.upper) = (None, None);
    }
    line
}

/// Adds limits around a level from the fifth value on.
fn limited(mut line: Line, low: f64, high: f64) -> Line {
    for dot in line.dots.iter_mut().skip(5) {
        (dot.lower_limit, dot.upper_limit) = (Some(low), Some(high));
    }
    line
}

fn alert(line: &mut Line, index: usize, status: AlertStatus) {
    line.dots[index].alert = Some((Limit::Upper, status));
    line.dots[index].outcome = Some(Outcome::Worse);
}

/// A panel of lines, named after the first.
fn panel(slug: &str, lines: Vec<Line>) -> Panel {
    let benchmark = lines.first().map(|line| line.name.clone()).unwrap_or_default();
    Panel { benchmark, measure: Measure::named(slug), lines }
}

fn chart(title: &str, count: usize, apart: Duration, panels: Vec<Panel>) -> Chart {
    Chart { title: title.to_owned(), stamps: stamps(count, apart), panels, ..Chart::default() }
}

/// A step, a spike, limits, alerts of all kinds, an environment change.
fn busy() -> Chart {
    let mut dice = Dice(1);
    let level = |index: usize| if index < 40 { 1200.0 } else { 1380.0 };
    let mut first = limited(
        line("fibonacci_20", (0..60).map(|index| level(index) * (1.0 + 0.01 * dice.normal()))),
        1150.0,
        1260.0,
    );
    for index in 40..46 {
        alert(&mut first, index, AlertStatus::Active);
    }
    first.steps = vec![Step { dot: 40, before: 1200.0, after: 1380.0 }];
    let mut second = line("play_game", (0..60).map(|_| 1010.0 * (1.0 + 0.008 * dice.normal())));
    second.dots[20].value = 1620.0;
    second.dots[20].upper = Some(1700.0);
    alert(&mut second, 20, AlertStatus::Dismissed);
    let third = line("parse/json/small", (0..60).map(|_| 1330.0 * (1.0 + 0.006 * dice.normal())));
    let mut count = bare(line(
        "fibonacci_20",
        (0..60).map(|index| if index < 40 { 18_204.0 } else { 18_211.0 }),
    ));
    count.steps = vec![Step { dot: 40, before: 18_204.0, after: 18_211.0 }];
    alert(&mut count, 40, AlertStatus::Silenced);
    let mut chart = chart(
        "simple-profiler",
        60,
        Duration::hours(7),
        vec![panel("instructions", vec![count]), panel("latency", vec![first, third, second])],
    );
    chart.stamps[30].news = vec!["kernel 6.12.1 → 6.18.44".to_owned()];
    chart.stamps[31].news = vec![
        "compiler rustc 1.94.0 → rustc 1.95.0".to_owned(),
        "governor powersave → performance".to_owned(),
    ];
    chart.stamps[55].news = vec!["CPUs 2 → 4".to_owned()];
    chart
}

/// One of each kind.
fn all() -> [Chart; 8] {
    [busy(), many(), single(), odd(), iterations(), wide(), steps_together(), long(1_000)]
}

fn many() -> Chart {
    let mut dice = Dice(2);
    let panels = (0..18).map(|index| {
        let size = 1000.0 * (1.0 + 0.07 * f64::from(index));
        let mut branch =
            |name: &str| line(name, (0..30).map(|_| size * (1.0 + 0.01 * dice.normal())));
        let lines = ["main", "feature/one", "feature/two"].map(&mut branch).to_vec();
        let benchmark = format!("group_{}/case_{index}", index / 5);
        Panel { benchmark, ..panel("latency", lines) }
    });
    chart("many benchmarks", 30, Duration::minutes(3), panels.collect())
}

/// From nanoseconds to half a second and back, with a limit and a spread that reach below zero.
fn wide() -> Chart {
    let mut dice = Dice(6);
    let level = |index: usize| match index {
        0..20 => 30.0,
        20..40 => 450e6,
        _ => 40.0,
    };
    let values = (0..60).map(|index| level(index) * (1.0 + 0.02 * dice.normal()));
    let mut main = line("main", values);
    main.steps = vec![
        Step { dot: 20, before: 30.0, after: 450e6 },
        Step { dot: 40, before: 450e6, after: 40.0 },
    ];
    main.dots[20].lower = Some(-100e6);
    for dot in &mut main.dots[21..30] {
        (dot.lower_limit, dot.upper_limit) = (Some(-1e6), Some(900e6));
    }
    alert(&mut main, 20, AlertStatus::Active);
    let next = bare(line("next", (0..60).map(|index| if index < 50 { 33.0 } else { 36.0 })));
    let panels =
        vec![Panel { benchmark: "sample".to_owned(), ..panel("latency", vec![main, next]) }];
    chart("from 30 ns to 450 ms", 60, Duration::hours(5), panels)
}

/// Lines of one panel whose levels change at the same reports.
fn steps_together() -> Chart {
    let lines = (0..5).map(|index| {
        let level = 1000.0 + 4.0 * f64::from(index);
        let stairs = [1.0, 1.05, 1.02, 1.08];
        let mut line = line(&format!("branch-{index}"), (0..40).map(|at| level * stairs[at / 10]));
        let step = |at: usize| Step {
            dot: at * 10,
            before: level * stairs[at - 1],
            after: level * stairs[at],
        };
        line.steps = (1..4).map(step).collect();
        line
    });
    chart("steps", 40, Duration::hours(1), vec![panel("latency", lines.collect())])
}

fn single() -> Chart {
    let lines = vec![line("alone", [42.0]), bare(line("without spread", [57.0]))];
    chart("one report", 1, Duration::hours(1), vec![panel("latency", lines)])
}

/// Constant, negative, zero, huge, tiny, with long or hostile names.
fn odd() -> Chart {
    let long = "a_crate::a_module::with::many::parts::<impl core::fmt::Display for alloc::vec::Vec<T>>::fmt/input-of-4096-bytes";
    let mut dice = Dice(3);
    let mut spread = |slug, name, low: f64, size: f64| {
        panel(slug, vec![line(name, (0..12).map(|_| low + size * dice.next()))])
    };
    let plain =
        |slug, name, value: fn(i32) -> f64| panel(slug, vec![bare(line(name, (0..12).map(value)))]);
    let panels = vec![
        plain("file-size", long, |_| 65_536.0),
        spread("balance", "<script>alert(1)</script> & \"co\"", -50.0, 60.0),
        spread("throughput", "日本語のベンチマーク名はとても長いことがあります", 2.5e9, 0.25e9),
        plain("zero", "nothing", |_| 0.0),
        plain("huge", "extremes", |index| if index == 6 { 1e300 } else { -1e299 }),
        plain("counter", "near a billion", |index| 1e9 + f64::from(index % 3)),
        plain("tiny", "small", |index| 1e-12 * f64::from(index)),
    ];
    let mut chart = chart("odd & <strange> values", 12, Duration::seconds(9), panels);
    chart.stamps[3].hash = None;
    chart.stamps[4].hash = Some("<v1.2>\u{1}".to_owned());
    chart.left_out = 7;
    chart
}

/// Three iterations per report, and a line that ends early.
fn iterations() -> Chart {
    let mut dice = Dice(4);
    let mut repeated = line("repeated", (0..24).map(|_| 10.0 + dice.normal()));
    for (index, dot) in repeated.dots.iter_mut().enumerate() {
        (dot.report, dot.iteration) = (index / 3, (index % 3) as u32);
    }
    let old = line("given up", (0..4).map(|_| 9.0 + dice.normal()));
    let mut chart =
        chart("iterations", 8, Duration::days(30), vec![panel("latency", vec![repeated, old])]);
    for stamp in &mut chart.stamps {
        stamp.iterations = 3;
    }
    chart
}

/// Limits far from the values, on both sides, on a linear or logarithmic axis.
fn far_limits(scale: Scale) -> Chart {
    let main = limited(line("main", (0..30).map(|at| 300.0 + 7.0 * f64::from(at))), 20.0, 900.0);
    let panels = vec![panel("latency", vec![main])];
    Chart { scale, ..chart("far limits", 30, Duration::hours(1), panels) }
}

/// Values of reports that share the columns of their commits, also with iterations.
fn versions() -> Chart {
    let mut chart = iterations();
    let column =
        |report: usize| Column { number: report / 2, before: report as u32 % 2 * 3, total: 6 };
    chart.columns = (0..8).map(column).collect();
    chart.stamps[3].news = vec!["kernel 6.12.1 → 6.18.44".to_owned()];
    Chart { scale: Scale::Logarithmic, ..chart }
}

fn long(count: usize) -> Chart {
    let mut dice = Dice(5);
    let level = |index: usize| if index < count * 3 / 5 { 5e6 } else { 5.6e6 };
    let mut line =
        line("long", (0..count).map(|index| level(index) * (1.0 + 0.01 * dice.normal())));
    line.dots[count / 4].value = 9e6;
    line.steps = vec![Step { dot: count * 3 / 5, before: 5e6, after: 5.6e6 }];
    alert(&mut line, count / 4, AlertStatus::Active);
    let limited = limited(line, 4.7e6, 5.3e6);
    chart("many points", count, Duration::minutes(20), vec![panel("latency", vec![limited])])
}

/// Compares with a golden file. `UPDATE_EXPECT=1` rewrites it: then inspect it.
fn check(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/plot/golden").join(name);
    if env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, found).expect("written");
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "{name} differs; UPDATE_EXPECT=1 writes it anew, then look at it");
}

/// Strips escape sequences, which would hide the differences.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut parts = text.split('\u{1b}');
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        out.push_str(part.split_once('m').map_or("", |(_, rest)| rest));
    }
    out
}

fn shown(chart: &Chart, columns: usize) -> String {
    plain(&terminal(chart, Some(columns)))
}

#[test]
fn pictures() {
    check("busy.svg", &svg(&busy()));
    check("single.svg", &svg(&single()));
    check("iterations.svg", &svg(&iterations()));
    check("odd.svg", &svg(&odd()));
    check("wide.svg", &svg(&wide()));
}

#[test]
fn terminals() {
    check("busy.txt", &shown(&busy(), 100));
    check("single.txt", &shown(&single(), 60));
    check("odd.txt", &shown(&odd(), 80));
    check("wide.txt", &shown(&wide(), 80));
}
