//! `cargo xtask peers profile`: cost and sample counts of `wingbeat profile` with perf and samply.
//!
//! Figures from different machines, or from different hours on a shared one, cannot be compared. So
//! the tools take turns on the same workloads, round after round, each next to a run alone.
//! docs/peers.md explains the figures.

use crate::prelude::*;

#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    /// Samples per second [default: 99,999,9999; with --quick 999,9999]
    #[arg(long, value_name = "HZ", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=50_000))]
    hz: Vec<u32>,
    #[command(flatten)]
    pub(crate) common: Common,
}

pub(crate) const COMPARISON: Comparison<ProfileArgs> = Comparison {
    name: "profile",
    root: Some("profilers"),
    rounds: (5, 1),
    needs: &["bash", "setarch"],
    measure,
    texts,
    pages: &[("peers profile", "docs/peers.md"), ("peers summary", "README.md")],
};

/// Its name, the arguments of `work` with UNITS for the amount, and its only frequency.
struct Workload(&'static str, &'static str, Option<u32>);

static WORKLOADS: [Workload; 4] = [
    Workload("deep", "deep UNITS", None),
    Workload("threads", "threads UNITS", None),
    Workload("forks", "forks UNITS", None),
    Workload("deep-26", "deep UNITS 19 19", Some(999)),
];

fn measure(args: &ProfileArgs, bed: &Bed<'_>, results: &mut Results) -> Result<()> {
    let mut samplers = chosen(&SAMPLERS, |it| it.0, &bed.common.only)?;
    let workloads = chosen(&WORKLOADS, |it| it.0, &bed.common.case)?;
    let work = bed.work()?;
    let version = version_of(Command::new(&bed.wingbeat).arg("--version"));
    let peers = samplers.iter().filter_map(|it| it.1.first()).map(|name| described(name));
    results.origin.tools = [format!("wingbeat {version}")].into_iter().chain(peers).collect();
    samplers.retain(|Sampler(name, needs, _)| {
        let missing = needs.iter().find_map(|program| find(program).err());
        missing.iter().for_each(|error| eprintln!("{name} is left out: {error}"));
        missing.is_none()
    });
    let env = Command::new("env");
    let line = |Workload(_, words, _): &Workload, units: u64| {
        format!("exec '{}' {}", work.display(), words.replace("UNITS", &units.to_string()))
    };
    let trial_s = job(bed, &line(&WORKLOADS[0], TRIAL), 0, "trial")?.launch(&env)?.target_s;
    let units = units_for(if bed.quick { 1.0 } else { 4.0 }, trial_s);
    let usual: &[u32] = if bed.quick { &[999, 9999] } else { &[99, 999, 9999] };
    let frequencies = if args.hz.is_empty() { usual } else { &args.hz };
    for round in 0..bed.rounds {
        // Another one begins in each round.
        let mut turns = samplers.clone();
        turns.rotate_left(round as usize % samplers.len().max(1));
        for workload in &workloads {
            let line = line(workload, units);
            for &hz in frequencies.iter().filter(|&&hz| workload.2.is_none_or(|only| only == hz)) {
                if is_stopped() {
                    return Ok(());
                }
                let case = format!("{}, {hz} Hz", workload.0);
                let name = |tool: &str| format!("{case}, {tool}");
                let alone = job(bed, &line, hz, &name(ALONE))?.launch(&env)?.values(hz);
                results.add((&case, ALONE), round, Ok(Run::new((&case, ALONE), round, alone)));
                for Sampler(tool, _, sample) in &turns {
                    let sampled = job(bed, &line, hz, &name(tool)).and_then(|it| sample(&it));
                    let place = (case.as_str(), *tool);
                    results.add(place, round, sampled.map(|it| Run::new(place, round, it.values)));
                }
            }
        }
    }
    Ok(())
}

fn job<'a>(bed: &'a Bed<'_>, line: &'a str, hz: u32, name: &str) -> Result<Job<'a>> {
    let (folder, wingbeat, out) = (Path::new("/"), bed.wingbeat.as_path(), bed.fresh(name)?);
    Ok(Job { line, folder, hz, all: false, walk: false, wingbeat, out })
}

/// Units of the run that finds out how long one takes.
const TRIAL: u64 = 10_000;

/// Units that take this much CPU time; whole thousands, so that two runs mostly do the same.
fn units_for(cpu_s: f64, trial_s: f64) -> u64 {
    (cpu_s / trial_s.max(1e-3) * TRIAL as f64 / 1000.0).round().max(1.0) as u64 * 1000
}

fn workload_of(case: &str) -> &str {
    case.split(',').next().unwrap_or(case)
}

/// A figure of a run, measured or derived.
fn figure(results: &Results, run: &Run, name: &str) -> Option<f64> {
    let of = |name: &str| run.get(name);
    match name {
        // 1 is right.
        "samples ÷ due" => Some(of("samples")? / of("target_s")? / of("hz")?),
        "slowdown" => Some(of("target_s")? / results.beside(run, ALONE)?.get("target_s")? - 1.0),
        // The tool's own CPU seconds: without the target's, and without those of its exit, which shows without a tool.
        "own_s" => {
            let exits = results.rows.iter().filter_map(|alone| {
                let is_same = workload_of(&alone.case) == workload_of(&run.case);
                let exit_s = alone.get("cpu_s")? - alone.get("target_s")?;
                (is_same && alone.tool == ALONE).then_some(exit_s)
            });
            let exit_s = Spread::of(exits).map_or(0.0, |spread| spread.median);
            Some(of("cpu_s")? - of("target_s")? - exit_s)
        }
        _ => of(name),
    }
}

fn spread(results: &Results, case: &str, tool: &str, name: &str) -> Option<Spread> {
    Spread::of(results.runs(case, tool).filter_map(|run| figure(results, run, name)))
}

/// The two highest frequencies.
fn growth_hz(results: &Results) -> Option<(u32, u32)> {
    let hz = results.rows.iter().filter_map(|it| Some(it.get("hz")? as u32));
    let mut all: Vec<u32> = hz.collect();
    all.sort_unstable();
    all.dedup();
    if let [.., low, high] = all[..] { Some((low, high)) } else { None }
}

const FIXED: usize = 0;
const PER_SAMPLE: usize = 1;

/// A tool's own CPU seconds as a fixed part, and microseconds for each sample: the line through the runs at those
/// frequencies. With the round of each.
fn growth(results: &Results, tool: &str, workload: &str) -> Vec<(u32, [f64; 2])> {
    let Some((low, high)) = growth_hz(results) else { return Vec::new() };
    let [low, high] = [low, high].map(|hz| format!("{workload}, {hz} Hz"));
    let of = |few: &Run| {
        let many = results.runs(&high, tool).find(|many| many.round == few.round)?;
        let more = many.get("samples")? - few.get("samples")?;
        let (few_s, many_s) = (figure(results, few, "own_s")?, figure(results, many, "own_s")?);
        let slope_s = (many_s - few_s) / more;
        let fixed_s = few_s - slope_s * few.get("samples")?;
        (more > 0.0).then_some((few.round, [fixed_s, slope_s * 1e6]))
    };
    results.runs(&low, tool).filter_map(of).collect()
}

/// A part of the growth of one tool ÷ that of another in the same round.
fn growth_ratio(
    results: &Results,
    (tool, other): (&str, &str),
    workload: &str,
    part: usize,
) -> Option<Spread> {
    let others = growth(results, other, workload);
    Spread::of(growth(results, tool, workload).iter().filter_map(|(round, it)| {
        let other = others.iter().find(|(same, _)| same == round)?;
        Some(it[part] / other.1[part])
    }))
}

/// Which figures of wingbeat a goal is about.
enum About {
    /// A figure on workloads that begin so.
    Ours(&'static str, &'static str),
    /// A figure ÷ perf's in the same round, on forks or on all others.
    Ratio(&'static str, Option<bool>),
    /// A figure − perf's in the same round.
    Difference(&'static str),
    /// A part of the growth ÷ a peer's.
    Growth(&'static str, usize),
}

use About::{Difference, Growth, Ours, Ratio};

impl About {
    /// The figures, with where they were taken.
    fn figures(&self, results: &Results) -> Vec<(Spread, String)> {
        let of_perf = |case: &str, name: &str, compare: fn(f64, f64) -> f64| {
            Spread::of(results.runs(case, WINGBEAT).filter_map(|run| {
                let theirs = figure(results, results.beside(run, PERF)?, name)?;
                Some(compare(figure(results, run, name)?, theirs))
            }))
        };
        let of = |case: &str| match *self {
            Ours(name, on) if case.starts_with(on) => spread(results, case, WINGBEAT, name),
            Ratio(_, Some(on_forks)) if case.starts_with("forks") != on_forks => None,
            Ratio(name, _) => of_perf(case, name, |ours, theirs| ours / theirs),
            Difference(name) => of_perf(case, name, |ours, theirs| ours - theirs),
            _ => None,
        };
        let of_workload = |workload: &str| match *self {
            Growth(peer, part) => growth_ratio(results, (WINGBEAT, peer), workload, part),
            _ => None,
        };
        let cases = results.cases();
        let workloads = distinct(cases.iter().map(|case| workload_of(case)));
        let all = cases.into_iter().map(|case| (of(case), case));
        let all = all.chain(workloads.into_iter().map(|it| (of_workload(it), it)));
        all.filter_map(|(spread, place)| Some((spread?, place.to_owned()))).collect()
    }
}

const RATIO: Unit = (1.0, 3, "");
/// Limits of a figure.
const NEAR_1: (f64, f64) = (0.99, 1.01);
const fn at_most(most: f64) -> (f64, f64) {
    (f64::NEG_INFINITY, most)
}

/// A goal, which is about the worst of its figures: in words, the limits, and the unit.
struct Goal(&'static str, (f64, f64), Unit, About);

// perf counts from the start of each process, and drops the begun period at its end: half a sample for each process,
// which on short-lived ones is more than 1 %.
const GOALS: [Goal; 9] = [
    Goal("samples per CPU second ÷ frequency", NEAR_1, RATIO, Ours("samples ÷ due", "")),
    Goal("the same ÷ perf's", NEAR_1, RATIO, Ratio("samples ÷ due", Some(false))),
    Goal("the same ÷ perf's, on forks", NEAR_1, RATIO, Ratio("samples ÷ due", Some(true))),
    Goal("own CPU per sample ÷ perf's chain's", at_most(0.2), RATIO, Growth(PERF, PER_SAMPLE)),
    Goal("own CPU per sample ÷ samply's", at_most(0.5), RATIO, Growth(SAMPLY, PER_SAMPLE)),
    Goal("fixed own CPU ÷ perf's chain's", at_most(1.0), RATIO, Growth(PERF, FIXED)),
    Goal("slowdown − perf's", at_most(0.0), (100.0, 1, " points"), Difference("slowdown")),
    Goal(
        "bytes per sample of 26 frames",
        at_most(350.0),
        (1.0, 0, ""),
        Ours("bytes_per_sample", "deep-26"),
    ),
    Goal("target's end to file ÷ perf's chain's", at_most(1.0), RATIO, Ratio("finish_s", None)),
];

/// 0 is reached, 1 is missed but not in all rounds, 2 is missed.
fn missed((least, most): (f64, f64), spread: Spread) -> usize {
    let is_reached = (least..=most).contains(&spread.median);
    let is_missed = spread.min > most || spread.max < least;
    if is_reached { 0 } else { 1 + usize::from(is_missed) }
}

fn worst(limits: (f64, f64), figures: Vec<(Spread, String)>) -> Option<(Spread, String)> {
    let distance =
        |it: Spread| if limits.0.is_finite() { (it.median - 1.0).abs() } else { it.median };
    figures.into_iter().max_by(|(a, _), (b, _)| {
        let missed = missed(limits, *a).cmp(&missed(limits, *b));
        missed.then(distance(*a).total_cmp(&distance(*b)))
    })
}

fn goals(results: &Results) -> String {
    const VERDICTS: [&str; 3] = ["reached", "missed, but not in all rounds", "**missed**"];
    type Row = (&'static Goal, Option<(Spread, String)>);
    let limits = |(Goal(_, (least, most), unit, _), _): &Row| match least.is_finite() {
        true => format!("{least} to {most}"),
        false => format!("at most {}{}", most * unit.0, unit.2),
    };
    table(
        GOALS.iter().map(|goal| (goal, worst(goal.1, goal.3.figures(results)))),
        &[
            column("figure", |(goal, _): &Row| goal.0),
            column("goal", limits),
            column("worst", |(goal, it): &Row| show(it.as_ref().map(|it| it.0), goal.2)),
            column("where", |(_, it): &Row| it.as_ref().map_or(NONE, |it| &it.1).to_owned()),
            column("verdict", |(goal, it): &Row| {
                it.as_ref().map_or("not measured", |it| VERDICTS[missed(goal.1, it.0)])
            }),
        ],
    )
}

/// The main figures on one workload: samples at the lower frequency, the rest at the higher.
fn summary(results: &Results, (low, high): (u32, u32)) -> String {
    let figure = |head, name: &'static str, unit: Unit, hz: u32| {
        let case = format!("deep, {hz} Hz");
        column(head, move |tool: &&str| show(spread(results, &case, tool, name), unit))
    };
    let part = |head, part: usize, places| {
        column(head, move |tool: &&str| {
            let growth = growth(results, tool, "deep");
            show(Spread::of(growth.iter().map(|it| it.1[part])), (1.0, places, ""))
        })
    };
    let over_ours = |tool: &&str| {
        let ratio = growth_ratio(results, (tool, WINGBEAT), "deep", PER_SAMPLE);
        show(ratio.filter(|_| *tool != WINGBEAT), (1.0, 1, ""))
    };
    let columns = [
        column("tool", |tool: &&str| (*tool).to_owned()),
        figure("samples ÷ due", "samples ÷ due", RATIO, low),
        figure("slowdown", "slowdown", (100.0, 1, " %"), high),
        part("own CPU, fixed, s", FIXED, 2),
        part("per sample, µs", PER_SAMPLE, 1),
        column("÷ wingbeat", over_ours),
        figure("end to file, s", "finish_s", (1.0, 2, ""), high),
        figure("memory, MB", "memory_mb", (1.0, 0, ""), high),
    ];
    let has_growth = |tool: &&str| !growth(results, tool, "deep").is_empty();
    table(SAMPLERS.iter().map(|it| it.0).filter(has_growth), &columns)
}

fn texts(results: &Results) -> Vec<String> {
    let more = match results.rounds() {
        1 => "; one round".to_owned(),
        rounds => format!("; {rounds} rounds, median (min to max)"),
    };
    let summary = growth_hz(results).map_or_else(String::new, |(low, high)| {
        format!(
            "{}\nOn one thread, stacks of 26 to 50 frames; samples at {low} Hz, own CPU time from {low} and {high} Hz, \
             the rest at {high} Hz:\n\n{}",
            results.origin.line(&more),
            summary(results, (low, high))
        )
    });
    vec![results.page(&more, [results.failures(), goals(results)]), summary]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::{cells_of, results};

    #[test]
    fn goals_are_about_the_worst_figure() {
        // 4 s of work, and 1 ms for its exit.
        let run = |hz: f64, target_s: f64, own_s: f64, samples: f64| {
            let cpu_s = target_s + 0.001 + own_s;
            [("hz", hz), ("target_s", target_s), ("cpu_s", cpu_s), ("samples", samples)]
        };
        let measured = results(&[
            ("deep, 1000 Hz", ALONE, 0, &run(1000.0, 4.0, 0.0, 0.0)),
            ("deep, 1000 Hz", WINGBEAT, 0, &run(1000.0, 4.0, 0.14, 4000.0)),
            ("deep, 1000 Hz", PERF, 0, &run(1000.0, 4.4, 0.7, 4400.0)),
            ("deep, 1000 Hz", ALONE, 1, &run(1000.0, 5.0, 0.0, 0.0)),
            ("deep, 1000 Hz", WINGBEAT, 1, &run(1000.0, 4.0, 0.14, 3880.0)),
            ("deep, 10000 Hz", WINGBEAT, 0, &run(10_000.0, 4.0, 0.5, 40_000.0)),
            ("deep, 10000 Hz", PERF, 0, &run(10_000.0, 4.0, 4.26, 40_000.0)),
        ]);
        let texts = texts(&measured);
        let rows = cells_of(&texts[0]);
        let rate = "0.985 (0.970 to 1.000)";
        let unclear = "missed, but not in all rounds";
        assert_eq!(rows[0][1..], ["0.99 to 1.01", rate, "deep, 1000 Hz", unclear]);
        assert_eq!(rows[2][1..], ["0.99 to 1.01", NONE, NONE, "not measured"]);
        // 10 µs for each sample, and 100.
        assert_eq!(rows[3][1..], ["at most 0.2", "0.100", "deep", "reached"]);
        let points = ["at most 0 points", "−10.0 points", "deep, 1000 Hz", "reached"];
        assert_eq!(rows[6][1..], points);
        let summary = cells_of(&texts[1]);
        assert_eq!(summary[0][..6], [WINGBEAT, rate, NONE, "0.10", "10.0", NONE]);
        assert_eq!((summary.len(), &*summary[1][5]), (2, "10.0"), "{texts:?}");
    }

    #[test]
    fn verdicts_and_units() {
        let spread = |(min, median, max)| Spread { median, min, max };
        let check = |limits, figure, expected| {
            assert_eq!(missed(limits, spread(figure)), expected, "{limits:?}, {figure:?}");
        };
        check(at_most(0.2), (0.1, 0.19, 0.4), 0);
        check(at_most(0.2), (0.1, 0.21, 0.4), 1);
        check(at_most(0.2), (0.21, 0.3, 0.4), 2);
        check(NEAR_1, (0.95, 0.98, 0.995), 1);
        check(NEAR_1, (1.02, 1.03, 1.04), 2);
        let figures = [("a", (0.5, 0.5, 0.5)), ("b", (1.5, 1.5, 1.5)), ("c", (0.9, 1.6, 2.0))];
        let figures = figures.map(|(place, it)| (spread(it), place.to_owned()));
        assert_eq!(worst(at_most(1.0), figures.into()).map(|it| it.1).as_deref(), Some("b"));
        assert_eq!((units_for(1.0, 0.17), units_for(1e-6, 0.17)), (59_000, 1000));
    }
}
