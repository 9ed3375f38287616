//! `cargo xtask peers bench`: does `wingbeat bench` keep what it promises? Is the reported time steadier
//! than that of `bpftool prog run`; are exact counts exact; does it load what libbpf loads?

mod object;
mod objects;

use rustix::thread::{CpuSet, sched_getaffinity};

use self::object::Work;
use crate::prelude::*;

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Scatter of the reported time, with `bpftool prog run`; 8 minutes
    Spread(Common),
    /// Executed instructions of many loads, which have to be the same
    Exact(Common),
    /// Other projects' programs, with libbpf (docs/objects.md)
    Objects(objects::ObjectsArgs),
}

impl Bench {
    pub(crate) fn run(&self) -> Result<Results> {
        match self {
            Self::Spread(args) => SPREAD.run(args, args),
            Self::Exact(args) => {
                let results = EXACT.run(args, args)?;
                let is_exact = results.rows.iter().all(|run| is_exact(run) == Some(true));
                ensure!(is_exact, "not all counts are exact");
                Ok(results)
            }
            Self::Objects(args) => objects::COMPARISON.run(args, &args.common),
        }
    }
}

const SPREAD: Comparison<Common> =
    Comparison { name: "bench spread", measure: measure_spread, texts: spread_texts };

const EXACT: Comparison<Common> =
    Comparison { name: "bench exact", measure: measure_exact, texts: exact_texts };

fn cpus() -> Result<Vec<usize>> {
    let allowed = sched_getaffinity(None).context("cannot ask for the allowed CPUs")?;
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    ensure!(!cpus.is_empty(), "no CPU is allowed");
    Ok(cpus)
}

fn wingbeat_bench(bed: &Bed<'_>) -> Result<Command> {
    let cpu = cpus()?.last().copied().unwrap_or(0).to_string();
    Ok(command("{} --quiet bench --format json --cpu {}", &[&bed.wingbeat, &cpu]))
}

fn time(bed: &Bed<'_>, object: &Path, seconds: u32) -> Result<Vec<(&'static str, f64)>> {
    let mut command = wingbeat_bench(bed)?;
    let report =
        parse_json(&output(command.arg(object).args(["--time", &format!("{seconds}s")]))?)?;
    let of = |name| Ok((name, number(&report, &format!("/cases/0/latency/measured/{name}"))?));
    ["floor_ns", "median_ns", "net_ns"].into_iter().map(of).collect()
}

/// Lengths of programs: the first is about as short as a run can be.
const LENGTHS: [(&str, f64); 3] = [("10 ns", 10.0), ("50 ns", 50.0), ("1 µs", 1000.0)];
const USUAL_REPEAT: u32 = 1_000_000;
/// bpftool with the usual repeats, and for as long as wingbeat.
const USUAL: &str = "bpftool, 1000000 runs";
const LONG: &str = "bpftool, as long";

/// A BPF file system on a folder, unmounted at the end with all that is pinned in it: nothing is left in
/// `/sys/fs/bpf`.
struct Pins(PathBuf);

impl Pins {
    fn mount(dir: PathBuf) -> Result<Self> {
        output(&mut command("mount -t bpf none {}", &[&dir]))?;
        Ok(Self(dir))
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        if let Err(error) = output(Command::new("umount").arg(&self.0)) {
            eprintln!("warning: {} stays mounted: {error:#}", self.0.display());
        }
    }
}

/// Finds out how long an instruction takes here: nanoseconds of an empty program, and of an instruction.
fn pace(bed: &Bed<'_>) -> Result<(f64, f64)> {
    const INSTRUCTIONS: u64 = 10_000;
    let trial = bed.write("trial.o", &Work::of(INSTRUCTIONS).object())?;
    let run = Run::new(("", ""), 0, time(bed, &trial, 2)?);
    let (median_ns, net_ns) = run.get("median_ns").zip(run.get("net_ns")).unwrap_or_default();
    ensure!(net_ns > 0.0, "the trial took no time");
    Ok((median_ns - net_ns, net_ns / INSTRUCTIONS as f64))
}

/// Instructions that take this long, with an empty program around them.
fn instructions(duration_ns: f64, (empty_ns, instruction_ns): (f64, f64)) -> u64 {
    ((duration_ns - empty_ns) / instruction_ns).round() as u64
}

fn repeat(seconds: u32, duration_ns: f64) -> u32 {
    ((f64::from(seconds) * 1e9 / duration_ns.max(1.0)) as u32).max(USUAL_REPEAT)
}

fn measure_spread(_: &Common, bed: &Bed<'_>, results: &mut Results) -> Result<()> {
    let bpftool = find("bpftool")?;
    results.tools = vec![described("bpftool")];
    let (pace, seconds) = (pace(bed)?, if bed.quick { 1 } else { 3 });
    let pins = Pins::mount(bed.fresh("bpf")?)?;
    let packet = bed.write("packet", &[0; 64])?;
    let mut targets = Vec::new();
    for (index, (case, duration_ns)) in LENGTHS.into_iter().enumerate() {
        let work = Work::of(instructions(duration_ns, pace));
        let object = bed.write(&format!("{index}.o"), &work.object())?;
        let pin = pins.0.join(format!("p{index}"));
        output(&mut command("{} prog load {} {}", &[&bpftool, &object, &pin]))?;
        targets.push((case, object, pin, repeat(seconds, duration_ns.max(pace.0))));
    }
    let cpus = cpus()?;
    let (cpu, others) = cpus.split_last().context("no CPU")?;
    let spin = |cpu: &usize| {
        let forever = "while :; do :; done";
        let mut command = command("taskset -c {} sh -c {}", &[&cpu.to_string(), &forever]);
        Running::start(&mut command, &bed.file("messages"))
    };
    let _load = others.first().map(spin).transpose()?;
    if others.is_empty() {
        results.notes.push("There is only one CPU: no other was busy.".to_owned());
    }
    let by_bpftool = |pin: &Path, repeat: u32| {
        let words = "taskset -c {} {} -j prog run pinned {} data_in {} repeat {}";
        let others: [&dyn AsRef<OsStr>; 5] =
            [&cpu.to_string(), &bpftool, &pin, &packet, &repeat.to_string()];
        number(&parse_json(&output(&mut command(words, &others))?)?, "/duration")
    };
    for round in 0..bed.rounds {
        for (case, object, pin, long_repeat) in targets.iter().filter(|_| !is_stopped()) {
            let mut add = |tool: &str, values: Result<Vec<_>>| {
                let run = values.map(|values| Run::new((case, tool), round, values));
                results.add((case, tool), round, run);
            };
            add(USUAL, by_bpftool(pin, USUAL_REPEAT).map(|ns| vec![("ns", ns)]));
            add(WINGBEAT, time(bed, object, seconds));
            add(LONG, by_bpftool(pin, *long_repeat).map(|ns| vec![("ns", ns)]));
        }
    }
    Ok(())
}

const SPREADS: [(&str, &str, &str); 4] = [
    ("wingbeat, floor", WINGBEAT, "floor_ns"),
    ("wingbeat, median", WINGBEAT, "median_ns"),
    (USUAL, USUAL, "ns"),
    (LONG, LONG, "ns"),
];

fn spread_texts(results: &Results) -> Vec<String> {
    let mut columns = vec![column("program", |case: &&str| (*case).to_owned())];
    for (head, tool, figure) in SPREADS {
        columns.push(column(head, move |case: &&str| {
            let values = results.runs(case, tool).filter_map(|run| run.get(figure)).collect();
            deviation(values).map_or(NONE.to_owned(), |it| format!("{it:.2}"))
        }));
    }
    let about =
        "Standard deviation of the reported time of a run, in ns. Goal: at most 0.5 × bpftool's.\n";
    let parts = [about.to_owned(), table(results.cases(), &columns), results.failures()];
    vec![results.page("", parts)]
}

fn measure_exact(_: &Common, bed: &Bed<'_>, results: &mut Results) -> Result<()> {
    let packet = bed.write("packet.bin", &[0; 64])?;
    let input = |run: u32| format!("r{run}={}", packet.display());
    for instructions in [0, 50, 10_000] {
        let work = Work::of(instructions);
        let file = bed.write(&format!("{instructions}.o"), &work.object())?;
        let case = format!("{} of {} instructions", object::PROGRAM, work.executed());
        let annotate = |runs: u32| {
            let others: [&dyn AsRef<OsStr>; 3] = [&bed.wingbeat, &file, &object::PROGRAM];
            let mut command = command("{} --quiet annotate --json {} {}", &others);
            output(command.args((0..runs).flat_map(|run| ["--input".to_owned(), input(run)])))
        };
        let count = || {
            let first = annotate(1)?;
            let (mut loads, mut different) = (1.0, 0.0);
            while loads < f64::from(bed.rounds) && !is_stopped() {
                loads += 1.0;
                // Not even the order of lines may differ.
                different += f64::from(u8::from(annotate(1)? != first));
            }
            let one = number(&parse_json(&first)?, "/instructions")?;
            for _ in 0..2 {
                let many = parse_json(&annotate(bed.rounds)?)?;
                let (sum, runs) = (number(&many, "/instructions")?, number(&many, "/runs")?);
                loads += 1.0;
                different += f64::from(u8::from(sum != one * runs));
            }
            let values = [
                ("expected", work.executed() as f64),
                ("instructions", one),
                ("loads", loads),
                ("different", different),
            ];
            Ok(Run::new((&case, WINGBEAT), 0, values))
        };
        results.add((&case, WINGBEAT), 0, count());
    }
    Ok(())
}

/// Whether all loads gave the same, and what was expected; `None` if nothing was counted.
fn is_exact(run: &Run) -> Option<bool> {
    Some(run.get("different")? == 0.0 && run.get("instructions") == run.get("expected"))
}

fn exact_texts(results: &Results) -> Vec<String> {
    let value = |name: &'static str| {
        move |run: &&Run| run.get(name).map_or(NONE.to_owned(), |value| value.to_string())
    };
    let verdict = |run: &&Run| match is_exact(run) {
        Some(true) => "the same",
        Some(false) => "**different**",
        None => "failed",
    };
    let rows = table(
        &results.rows,
        &[
            column("program", |run: &&Run| run.case.clone()),
            column("instructions of a run", value("instructions")),
            column("loads", value("loads")),
            column("of them different", value("different")),
            column("verdict", verdict),
        ],
    );
    vec![results.page("", [rows, results.failures()])]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::{cells_of, results};

    #[test]
    fn programs_fill_the_time() {
        assert_eq!((instructions(5.0, (10.0, 0.1)), instructions(50.0, (10.0, 0.1))), (0, 400));
        assert_eq!((repeat(3, 10.0), repeat(1, 1e6)), (300_000_000, USUAL_REPEAT));
    }

    #[test]
    fn scatter_and_differences_are_shown() {
        let ours = |ns| [("floor_ns", ns), ("median_ns", 2.0 * ns)];
        let found = results(&[
            ("50 ns", USUAL, 0, &[("ns", 50.0)]),
            ("50 ns", WINGBEAT, 0, &ours(50.0)),
            ("50 ns", USUAL, 1, &[("ns", 52.0)]),
            ("50 ns", WINGBEAT, 1, &ours(51.0)),
        ]);
        let cells = cells_of(&spread_texts(&found)[0]);
        assert_eq!(cells, [["50 ns", "0.71", "1.41", "1.41", NONE]]);
        let check = |different, expected, verdict: &str| {
            let values = [("instructions", 56.0), ("different", different), ("expected", expected)];
            let cells = cells_of(&exact_texts(&results(&[("p", WINGBEAT, 0, &values)]))[0]);
            assert_eq!(cells[0][1..], ["56", NONE, &different.to_string(), verdict]);
        };
        check(0.0, 56.0, "the same");
        check(1.0, 56.0, "**different**");
        check(0.0, 57.0, "**different**");
    }
}
