//! `cargo xtask peers unwind`: are stacks complete, and the same as others see them?
//!
//! wingbeat, perf and samply walk the stacks of programs as they are: built without frame pointers, or
//! stripped. perf copies the stack and walks it afterwards by the files' tables without a limit of time,
//! so the others are compared with it. Each tool has a run of its own, so that a small difference is
//! chance.

pub(crate) mod stacks;

use self::stacks::Functions;
use crate::prelude::*;

pub(crate) const COMPARISON: Comparison<Common> = Comparison { name: "unwind", measure, texts };

/// Samples per second of all processes: nobody asks for more there.
const ALL_HZ: u32 = 99;

fn measure(_: &Common, bed: &Bed<'_>, results: &mut Results) -> Result<()> {
    let mut samplers = chosen(&SAMPLERS, |it| it.0, &bed.common.only)?;
    let programs = chosen(&DATA.unwind, |it| &it.name, &bed.common.case)?;
    let peers = samplers.iter().filter_map(|it| it.1.first());
    results.tools = peers.map(|name| described(name)).collect();
    samplers.retain(|it| it.1.first().is_none_or(|name| find(name).is_ok()));
    for program in programs {
        let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
        let tools = samplers.iter().filter(|it| !program.all || it.0 == WINGBEAT);
        let tools: Vec<&Sampler> = tools.copied().collect();
        let hz = bed.common.hz.first().copied().unwrap_or(999);
        let hz = if program.all { ALL_HZ } else { hz };
        let job = |tool: &str| {
            let (wingbeat, out) =
                (bed.wingbeat.as_path(), bed.fresh(&format!("{}-{tool}", program.name))?);
            let (line, folder, all) = (program.run.as_str(), folder.path(), program.all);
            anyhow::Ok(Job { line, folder, hz, all, walk: true, wingbeat, out })
        };
        let mut outcome = program.make(folder.path());
        for round in 0..bed.rounds {
            outcome = outcome.and_then(|()| compare((&program.name, &tools), job, round, results));
        }
        if let Err(error) = outcome {
            results.add((&program.name, WINGBEAT), 0, Err(error));
        }
    }
    Ok(())
}

fn compare<'a>(
    (case, tools): (&str, &[&Sampler]),
    job: impl Fn(&str) -> Result<Job<'a>>,
    round: u32,
    results: &mut Results,
) -> Result<()> {
    let alone = job("alone")?;
    let cost = alone.launch(&Command::new("env")).context("without a tool")?.values(alone.hz);
    let mut functions = Functions::default();
    for Sampler(tool, _, sample) in tools.iter().copied().filter(|_| !is_stopped()) {
        let sampled = job(tool).and_then(|job| sample(&job));
        let run = sampled.map(|it| figures((case, tool), round, &it, &cost, &mut functions));
        results.add((case, tool), round, run);
    }
    Ok(())
}

fn figures(
    place: (&str, &str),
    round: u32,
    run: &Sampled,
    alone: &Values,
    functions: &mut Functions,
) -> Run {
    let mut figures = Run::new(place, round, run.values.iter().copied());
    let alone = Run::new(place, round, alone.iter().copied());
    let of = |run: &Run, name: &str| run.get(name).unwrap_or(0.0);
    // CPU time beyond the target's is also in the run alone: that of shells, and of exits.
    let beyond_s = |run: &Run| of(run, "cpu_s") - of(run, "target_s");
    let own_s = (beyond_s(&figures) - beyond_s(&alone)).max(0.0);
    let recording_s = (own_s - of(&figures, "later_s")).max(0.0);
    let per_10k =
        |seconds: f64| Some(seconds / figures.get("samples").filter(|it| *it > 0.0)? * 1e4);
    let stacks = run.stacks.as_ref();
    let (complete, depth) = stacks.and_then(|it| it.complete_and_depth(functions)).unzip();
    let more = [
        ("complete", run.complete.or(complete)),
        ("depth", depth),
        ("own_s_per_10k", per_10k(own_s)),
        (RECORDING, per_10k(recording_s)),
    ];
    let more = more.map(|(name, value)| Some((name.to_owned(), value?)));
    figures.values.extend(more.into_iter().flatten());
    figures
}

const PERCENT: Unit = (100.0, 2, "");
const SECONDS: Unit = (1.0, 2, "");
const RECORDING: &str = "recording_s_per_10k";

const COLUMNS: [(&str, &str, &str, Unit); 7] = [
    ("complete, wingbeat", WINGBEAT, "complete", PERCENT),
    ("perf", PERF, "complete", PERCENT),
    ("samply", SAMPLY, "complete", PERCENT),
    ("own CPU, wingbeat", WINGBEAT, "own_s_per_10k", SECONDS),
    ("of it recording", WINGBEAT, RECORDING, SECONDS),
    ("perf", PERF, "own_s_per_10k", SECONDS),
    ("samply, recording", SAMPLY, RECORDING, SECONDS),
];

fn texts(results: &Results) -> Vec<String> {
    let hz = results.rows.iter().filter_map(|run| run.get("hz")).fold(0.0, f64::max);
    let mut columns = vec![column("target", |case: &&str| (*case).to_owned())];
    for (head, tool, figure, unit) in COLUMNS {
        let cell = move |case: &&str| median(results.spread(case, tool, figure), unit);
        columns.push(column(head, cell));
    }
    let has_figures = |case: &&str| results.spread(case, WINGBEAT, "samples").is_some();
    let rows = table(results.cases().into_iter().filter(has_figures), &columns);
    let about = "Complete stacks in %, CPU time in seconds per 10,000 samples.\n".to_owned();
    let more = format!("; {} rounds at {hz} Hz, median", results.rounds());
    vec![results.page(&more, [about, rows, results.failures()])]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::{cells_of, results};

    #[test]
    fn own_time_is_without_the_target_s() {
        let values = |cpu_s, target_s| vec![("cpu_s", cpu_s), ("target_s", target_s)];
        let mut under = values(130.0, 110.0);
        under.extend([("samples", 1e4), ("later_s", 4.0)]);
        let place = ("git", WINGBEAT);
        let sampled = Sampled { values: under, stacks: None, complete: Some(0.99) };
        let run = figures(place, 0, &sampled, &values(103.0, 100.0), &mut Functions::default());
        let found = ["own_s_per_10k", RECORDING, "complete"].map(|it| run.get(it));
        assert_eq!(found, [Some(17.0), Some(13.0), Some(0.99)]);
        let mut found =
            results(&[("git", PERF, 0, &[("complete", 0.5)]), ("go", WINGBEAT, 0, &[])]);
        found.rows.push(run);
        let cells: Vec<String> =
            cells_of(&texts(&found)[0]).iter().map(|it| it.join(" ")).collect();
        assert_eq!(cells, ["git 99.00 50.00 – 17.00 13.00 – –"]);
    }
}
