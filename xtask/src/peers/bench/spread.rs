//! Is the time that wingbeat reports steadier than bpftool's? Both measure the same programs, in
//! turns, while another CPU is busy.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use serde::Serialize;

use super::{
    super::{stats::Spread, tables::Table},
    Bed, Common, Origin, bpftool, finish,
    numbers::deviation,
    object::Work,
    ours::Figures,
    place::Load,
};

/// Lengths of the programs: the first is about as short as a run can be.
const LENGTHS: [(&str, f64); 3] = [("10 ns", 10.0), ("50 ns", 50.0), ("1 µs", 1000.0)];

/// What people pass to bpftool.
const USUAL_REPEAT: u32 = 1_000_000;

/// wingbeat's spread ÷ bpftool's is to be at most this.
const RATIO_MAX: f64 = 0.5;

/// Net median and net p50 are to differ by at most this.
const GAP_MAX_NS: f64 = 3.0;

/// How spread is compared.
#[derive(Debug, Args)]
pub(crate) struct SpreadArgs {
    /// Measurements by each tool
    #[arg(long, value_name = "N", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=1000))]
    rounds: u32,
    /// Seconds of each measurement of wingbeat, and of each long one of bpftool
    #[arg(long, value_name = "SECONDS", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Serialize)]
struct Record {
    origin: Origin,
    bpftool: String,
    programs: Vec<Program>,
}

/// A program with all that was measured of it.
#[derive(Debug, Clone, Default, Serialize)]
struct Program {
    name: String,
    /// Instructions that a run executes.
    instructions: u64,
    wingbeat: Vec<Figures>,
    /// bpftool with [`USUAL_REPEAT`].
    usual_ns: Vec<f64>,
    /// bpftool for as long as wingbeat takes.
    long_ns: Vec<f64>,
}

/// A program as the tools take it.
struct Target {
    object: PathBuf,
    pin: PathBuf,
    long_repeat: u32,
}

/// Measures, and tells.
pub(super) fn run(args: &SpreadArgs) -> anyhow::Result<ExitCode> {
    let tool = bpftool::find()?;
    let bed = Bed::new(&args.common)?;
    let mut origin = Origin::now();
    let pace = bed.pace()?;
    let pins = bpftool::Pins::mount(bed.dir.path().join("bpf"))?;
    let packet = bed.file("packet", &[0; 64])?;
    let (mut programs, mut targets) = (Vec::new(), Vec::new());
    for (index, (name, duration_ns)) in LENGTHS.into_iter().enumerate() {
        let work: Work = pace.work(duration_ns);
        let object = bed.file(&format!("{index}.o"), &work.object()?)?;
        let pin = pins.load(&tool, &object, &format!("program{index}"))?;
        let long_repeat = repeat(args.seconds, duration_ns.max(pace.empty_ns));
        targets.push(Target { object, pin, long_repeat });
        let (name, instructions) = (name.to_owned(), work.executed());
        programs.push(Program { name, instructions, ..Program::default() });
    }
    let load = bed.other_cpu.map(Load::on).transpose()?;
    if load.is_none() {
        origin.notes.push("There is one CPU only: nothing else was kept busy.".to_owned());
    }
    let time = format!("{}s", args.seconds);
    'rounds: for round in 0..args.rounds {
        for (program, target) in programs.iter_mut().zip(&targets) {
            if bed.is_stopped() {
                break 'rounds;
            }
            let peer = |repeat| {
                let (pin, packet, cpu) = (&*target.pin, &*packet, bed.wingbeat.cpu);
                bpftool::Run { pin, packet, repeat, cpu }.duration_ns(&tool)
            };
            let all = (|| {
                let usual = peer(USUAL_REPEAT)?;
                let ours = bed.wingbeat.bench(&target.object, &time)?;
                anyhow::Ok((usual, ours, peer(target.long_repeat)?))
            })();
            let (usual, ours, long) = match all {
                Ok(all) => all,
                Err(_) if bed.is_stopped() => break 'rounds,
                Err(error) => return Err(error),
            };
            eprintln!(
                "round {}, {}: wingbeat {:.2} ns, bpftool {usual} ns and {long} ns",
                round + 1,
                program.name,
                ours.median_ns
            );
            program.wingbeat.push(ours);
            program.usual_ns.push(usual);
            program.long_ns.push(long);
        }
    }
    let record = Record { origin, bpftool: bpftool::version(&tool)?, programs };
    finish("spread", &record, &text(&record), &args.common, bed.is_stopped())
}

/// Runs that fill the time.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rough positive number, and a cast to an integer saturates"
)]
fn repeat(seconds: u32, duration_ns: f64) -> u32 {
    ((f64::from(seconds) * 1e9 / duration_ns.max(1.0)) as u32).max(USUAL_REPEAT)
}

fn text(record: &Record) -> String {
    let version = &record.bpftool;
    format!(
        "{}\nReported time of a run, in ns; bpftool {version}, which tells whole nanoseconds. Goal: \
         a standard deviation of at most {RATIO_MAX} × bpftool's.\n\n{}\nNet median of batches and \
         net p50 of single runs, which are to agree within {GAP_MAX_NS} ns:\n\n{}",
        record.origin.text(),
        spreads(&record.programs).to_markdown(),
        gaps(&record.programs).to_markdown()
    )
}

fn spreads(programs: &[Program]) -> Table {
    let mut rows = Vec::new();
    for program in programs {
        let ours: Vec<f64> = program.wingbeat.iter().map(|figures| figures.median_ns).collect();
        let our_deviation = deviation(&ours);
        let usual = format!("bpftool, {USUAL_REPEAT} runs");
        let peers = [(usual, &program.usual_ns), ("bpftool, as long".to_owned(), &program.long_ns)];
        for (tool, times) in [("wingbeat".to_owned(), &ours)].into_iter().chain(peers) {
            let Some((spread, deviation)) = Spread::of(times.iter().copied()).zip(deviation(times))
            else {
                continue;
            };
            let is_ours = tool == "wingbeat";
            let (ratio, verdict) = match our_deviation {
                _ if is_ours => (String::new(), ""),
                // All of bpftool's whole nanoseconds were the same.
                _ if deviation == 0.0 => ("–".to_owned(), "not comparable"),
                Some(ours) if ours / deviation <= RATIO_MAX => (two(ours / deviation), "reached"),
                Some(ours) => (two(ours / deviation), "**missed**"),
                None => ("–".to_owned(), ""),
            };
            rows.push(vec![
                program.name.clone(),
                program.instructions.to_string(),
                tool,
                two(spread.median),
                two(deviation),
                two(spread.max - spread.min),
                ratio,
                verdict.to_owned(),
            ]);
        }
    }
    let head = vec![
        "program",
        "instructions",
        "tool",
        "median",
        "standard deviation",
        "max − min",
        "wingbeat's ÷ its",
        "goal",
    ];
    Table::new(head, rows)
}

fn gaps(programs: &[Program]) -> Table {
    let row = |program: &Program| {
        let gaps = program.wingbeat.iter().filter_map(|f| Some(f.net_p50_ns? - f.net_ns));
        let gap = Spread::of(gaps)?;
        let verdict = if gap.median.abs() <= GAP_MAX_NS { "reached" } else { "**missed**" };
        let range = format!("{} ({} to {})", two(gap.median), two(gap.min), two(gap.max));
        Some(vec![program.name.clone(), range, verdict.to_owned()])
    };
    let head = vec!["program", "p50 − median, ns", "goal"];
    Table::new(head, programs.iter().filter_map(row).collect())
}

fn two(value: f64) -> String {
    format!("{value:.2}").replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(ours: &[f64], usual: &[f64], long: &[f64]) -> Program {
        let figures = |&median_ns: &f64| Figures {
            median_ns,
            net_ns: median_ns - 10.0,
            net_p50_ns: Some(median_ns - 5.0),
        };
        Program {
            name: "50 ns".to_owned(),
            instructions: 406,
            wingbeat: ours.iter().map(figures).collect(),
            usual_ns: usual.to_vec(),
            long_ns: long.to_vec(),
        }
    }

    #[test]
    fn verdicts_on_spread() {
        let check = |ours: &[f64], theirs: &[f64], expected: &str| {
            let text = spreads(&[program(ours, theirs, theirs)]).to_markdown();
            assert_eq!(text.matches(expected).count(), 2, "{text}");
        };
        check(&[50.0, 51.0], &[50.0, 52.0], "| 0.50             | reached");
        check(&[50.0, 51.5], &[50.0, 52.0], "| 0.75             | **missed**");
        check(&[50.0, 51.0], &[50.0, 50.0], "not comparable");
    }

    #[test]
    fn the_table_shows_median_and_range() {
        let text = spreads(&[program(&[50.0, 51.0, 50.5], &[50.0, 53.0], &[])]).to_markdown();
        assert!(
            text.contains("| wingbeat              | 50.50  | 0.50               | 1.00 "),
            "{text}"
        );
        assert_eq!(text.lines().count(), 4, "nothing was measured for long: {text}");
        assert_eq!(spreads(&[Program::default()]).to_markdown(), "");
    }

    #[test]
    fn gaps_are_judged() {
        let text = gaps(&[program(&[50.0, 51.0], &[], &[])]).to_markdown();
        assert!(text.contains("| 5.00 (5.00 to 5.00) | **missed** |"), "{text}");
    }

    #[test]
    fn repeats_fill_the_time() {
        let check = |seconds, ns, expected| assert_eq!(repeat(seconds, ns), expected, "{ns}");
        check(3, 10.0, 300_000_000);
        check(1, 1e6, USUAL_REPEAT);
        check(60, 0.0, u32::MAX);
    }
}
