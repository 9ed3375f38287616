//! `cargo xtask peers profile`: cost and sample counts of `wingbeat profile` with perf and samply.
//!
//! Figures from different machines, or from different hours on a shared one, cannot be compared. So
//! the tools take turns on the same workloads, round after round, each next to a run alone.
//! docs/peers.md explains the figures.

use crate::prelude::*;

pub(crate) const COMPARISON: Comparison<Common> = Comparison { name: "profile", measure, texts };

/// Its name, the arguments of `work` with UNITS for the amount, and its only frequency.
struct Workload(&'static str, &'static str, Option<u32>);

static WORKLOADS: [Workload; 4] = [
    Workload("deep", "deep UNITS", None),
    Workload("threads", "threads UNITS", None),
    Workload("forks", "forks UNITS", None),
    Workload("deep-26", "deep UNITS 19 19", Some(999)),
];

fn measure(_: &Common, bed: &Bed<'_>, results: &mut Results) -> Result<()> {
    let mut samplers = chosen(&SAMPLERS, |it| it.0, &bed.common.only)?;
    let workloads = chosen(&WORKLOADS, |it| it.0, &bed.common.case)?;
    let work = bed.work()?;
    let version = version_of(Command::new(&bed.wingbeat).arg("--version"));
    let peers = samplers.iter().filter_map(|it| it.1.first()).map(|name| described(name));
    results.tools = [format!("wingbeat {version}")].into_iter().chain(peers).collect();
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
    let frequencies = if bed.common.hz.is_empty() { usual } else { &bed.common.hz };
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
    derive(results);
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

/// Adds figures that follow from others: of each run, and of each workload over the two highest frequencies.
fn derive(results: &mut Results) {
    let exit_s = |workload: &str| {
        let alone = results.rows.iter().filter(|run| run.tool == ALONE);
        let alone = alone.filter(|run| workload_of(&run.case) == workload);
        let exits = alone.filter_map(|run| Some(run.get("cpu_s")? - run.get("target_s")?));
        Spread::of(exits).map_or(0.0, |spread| spread.median)
    };
    let derived = results.rows.iter().map(|run| {
        let (target_s, hz) = (run.get("target_s")?, run.get("hz")?);
        let alone_s = results.beside(run, ALONE).and_then(|alone| alone.get("target_s"));
        Some([
            // 1 is right.
            ("rate", run.get("samples").map(|samples| samples / target_s / hz)),
            ("slowdown", alone_s.map(|alone_s| target_s / alone_s - 1.0)),
            // Without the target's, and without that of its exit, which shows without a tool.
            ("own_s", Some(run.get("cpu_s")? - target_s - exit_s(workload_of(&run.case)))),
        ])
    });
    let derived: Vec<_> = derived.collect();
    for (run, more) in results.rows.iter_mut().zip(derived) {
        let more = more.into_iter().flatten();
        run.values.extend(more.filter_map(|(name, value)| Some((name.to_owned(), value?))));
    }
    // Own CPU time as a fixed part and a part for each sample: the line through two runs.
    let Some((low, high)) = highest_hz(results) else { return };
    let growth = results.rows.iter().filter_map(|few| {
        let workload = workload_of(&few.case);
        let high = format!("{workload}, {high} Hz");
        let many = results.runs(&high, &few.tool).find(|many| many.round == few.round)?;
        let more = many.get("samples")? - few.get("samples")?;
        let slope_s = (many.get("own_s")? - few.get("own_s")?) / more;
        let fixed_s = few.get("own_s")? - slope_s * few.get("samples")?;
        let values = [("fixed_s", fixed_s), ("per_sample_us", slope_s * 1e6)];
        let is_low = few.get("hz") == Some(low.into()) && more > 0.0;
        is_low.then(|| Run::new((workload, &few.tool), few.round, values))
    });
    let growth: Vec<Run> = growth.collect();
    results.rows.extend(growth);
}

fn highest_hz(results: &Results) -> Option<(u32, u32)> {
    let hz = results.rows.iter().filter_map(|it| Some(it.get("hz")? as u32));
    let mut all: Vec<u32> = hz.collect();
    all.sort_unstable();
    all.dedup();
    if let [.., low, high] = all[..] { Some((low, high)) } else { None }
}

/// A figure of a tool compared with that of another in the same round: the ratio or the difference.
fn paired(
    results: &Results,
    case: &str,
    (tool, other): (&str, &str),
    (name, is_ratio): (&str, bool),
) -> Option<Spread> {
    Spread::of(results.runs(case, tool).filter_map(|run| {
        let (it, other) = (run.get(name)?, results.beside(run, other)?.get(name)?);
        Some(if is_ratio { it / other } else { it - other })
    }))
}

const RATIO: Unit = (1.0, 3, "");
const POINTS: Unit = (100.0, 1, " points");
const NEAR_1: (f64, f64) = (0.99, 1.01);
const fn at_most(most: f64) -> (f64, f64) {
    (f64::NEG_INFINITY, most)
}

/// A goal, which is about the worst of its figures: in words, limits, unit, figure, the peer that it is compared with,
/// and the workloads.
struct Goal(&'static str, (f64, f64), Unit, &'static str, &'static str, &'static str);

// perf counts from the start of each process, and drops the begun period at its end: half a sample for each process,
// which on short-lived ones is more than 1 %.
const GOALS: [Goal; 9] = [
    Goal("samples per CPU second ÷ frequency", NEAR_1, RATIO, "rate", "", ""),
    Goal("the same ÷ perf's", NEAR_1, RATIO, "rate", PERF, "not forks"),
    Goal("the same ÷ perf's, on forks", NEAR_1, RATIO, "rate", PERF, "forks"),
    Goal("own CPU per sample ÷ perf's chain's", at_most(0.2), RATIO, "per_sample_us", PERF, ""),
    Goal("own CPU per sample ÷ samply's", at_most(0.5), RATIO, "per_sample_us", SAMPLY, ""),
    Goal("fixed own CPU ÷ perf's chain's", at_most(1.0), RATIO, "fixed_s", PERF, ""),
    Goal("slowdown − perf's", at_most(0.0), POINTS, "slowdown", PERF, ""),
    Goal(
        "bytes per sample of 26 frames",
        at_most(350.0),
        (1.0, 0, ""),
        "bytes_per_sample",
        "",
        "deep-26",
    ),
    Goal("target's end to file ÷ perf's chain's", at_most(1.0), RATIO, "finish_s", PERF, ""),
];

impl Goal {
    fn figures(&self, results: &Results) -> Vec<(Spread, String)> {
        let Self(_, _, unit, name, peer, on) = *self;
        let is_on = |case: &&str| match on.strip_prefix("not ") {
            Some(other) => !case.starts_with(other),
            None => case.starts_with(on),
        };
        let of = |case: &str| match peer {
            "" => results.spread(case, WINGBEAT, name),
            peer => paired(results, case, (WINGBEAT, peer), (name, unit != POINTS)),
        };
        let cases = results.cases().into_iter().filter(is_on);
        cases.filter_map(|case| Some((of(case)?, case.to_owned()))).collect()
    }
}

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
    let limits = |(Goal(_, (least, most), unit, ..), _): &Row| match least.is_finite() {
        true => format!("{least} to {most}"),
        false => format!("at most {}{}", most * unit.0, unit.2),
    };
    table(
        GOALS.iter().map(|goal| (goal, worst(goal.1, goal.figures(results)))),
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
    let figure = |head, case: String, name: &'static str, unit: Unit| {
        column(head, move |tool: &&str| show(results.spread(&case, tool, name), unit))
    };
    let (all, low, high) = ("deep", format!("deep, {low} Hz"), format!("deep, {high} Hz"));
    let over_ours = |tool: &&str| {
        let ratio = paired(results, all, (tool, WINGBEAT), ("per_sample_us", true));
        show(ratio.filter(|_| *tool != WINGBEAT), (1.0, 1, ""))
    };
    let columns = [
        column("tool", |tool: &&str| (*tool).to_owned()),
        figure("samples ÷ due", low, "rate", RATIO),
        figure("slowdown", high.clone(), "slowdown", (100.0, 1, " %")),
        figure("own CPU, fixed, s", all.to_owned(), "fixed_s", (1.0, 2, "")),
        figure("per sample, µs", all.to_owned(), "per_sample_us", (1.0, 1, "")),
        column("÷ wingbeat", over_ours),
        figure("end to file, s", high.clone(), "finish_s", (1.0, 2, "")),
        figure("memory, MB", high, "memory_mb", (1.0, 0, "")),
    ];
    let has_growth = |tool: &&str| results.spread(all, tool, "fixed_s").is_some();
    table(SAMPLERS.iter().map(|it| it.0).filter(has_growth), &columns)
}

fn texts(results: &Results) -> Vec<String> {
    let more = match results.rounds() {
        1 => "; one round".to_owned(),
        rounds => format!("; {rounds} rounds, median (min to max)"),
    };
    let summary = highest_hz(results).map_or_else(String::new, |(low, high)| {
        format!(
            "{}\nOn one thread, stacks of 26 to 50 frames; samples at {low} Hz, own CPU time from {low} and {high} Hz, \
             the rest at {high} Hz:\n\n{}",
            results.line(&more),
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
        let mut measured = results(&[
            ("deep, 1000 Hz", ALONE, 0, &run(1000.0, 4.0, 0.0, 0.0)),
            ("deep, 1000 Hz", WINGBEAT, 0, &run(1000.0, 4.0, 0.14, 4000.0)),
            ("deep, 1000 Hz", PERF, 0, &run(1000.0, 4.4, 0.7, 4400.0)),
            ("deep, 1000 Hz", ALONE, 1, &run(1000.0, 5.0, 0.0, 0.0)),
            ("deep, 1000 Hz", WINGBEAT, 1, &run(1000.0, 4.0, 0.14, 3880.0)),
            ("deep, 10000 Hz", WINGBEAT, 0, &run(10_000.0, 4.0, 0.5, 40_000.0)),
            ("deep, 10000 Hz", PERF, 0, &run(10_000.0, 4.0, 4.26, 40_000.0)),
        ]);
        derive(&mut measured);
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
