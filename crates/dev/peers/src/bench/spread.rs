//! Is the time that wingbeat reports steadier than bpftool's? Both measure the same programs, in
//! turns, while another CPU is busy.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use serde::Serialize;

use super::{
    super::{numbers::deviation, stats::Spread, tables::Table},
    Bed, Common, Origin, bpftool, finish,
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
                "round {}, {}: wingbeat {:.2} ns, floor {:.2} ns, bpftool {usual} ns and {long} ns",
                round + 1,
                program.name,
                ours.median_ns,
                ours.floor_ns
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
        "{}\nReported time of a run, in ns; bpftool {version}, which tells whole nanoseconds. The \
         median is the time on this machine as it was, the floor is without what disturbs. Goal for \
         both: a standard deviation of at most {RATIO_MAX} × bpftool's.\n\n{}\nThe programs always \
         execute the same instructions. So p50 and mean of single runs, each without that of an \
         empty program, are to agree within {GAP_MAX_NS} ns, and so are p50 and the net time of \
         bursts:\n\n{}",
        record.origin.text(),
        spreads(&record.programs).to_markdown(),
        gaps(&record.programs).to_markdown()
    )
}

fn spreads(programs: &[Program]) -> Table {
    let mut rows = Vec::new();
    for program in programs {
        let of = |figure: fn(&Figures) -> f64| -> Vec<f64> {
            program.wingbeat.iter().map(figure).collect()
        };
        let (floor, median) = (of(|figures| figures.floor_ns), of(|figures| figures.median_ns));
        let ours = [deviation(&floor), deviation(&median)];
        let tools = [
            ("wingbeat, floor".to_owned(), &floor, [None; 2]),
            ("wingbeat, median".to_owned(), &median, [None; 2]),
            (format!("bpftool, {USUAL_REPEAT} runs"), &program.usual_ns, ours),
            ("bpftool, as long".to_owned(), &program.long_ns, ours),
        ];
        for (tool, times, ours) in tools {
            let Some((spread, deviation)) = Spread::of(times.iter().copied()).zip(deviation(times))
            else {
                continue;
            };
            let mut row = vec![
                program.name.clone(),
                program.instructions.to_string(),
                tool,
                two(spread.median),
                two(deviation),
                two(spread.max - spread.min),
            ];
            row.extend(ours.into_iter().flat_map(|ours| compared(ours, deviation)));
            rows.push(row);
        }
    }
    let head = vec![
        "program",
        "instructions",
        "tool",
        "median",
        "standard deviation",
        "max − min",
        "floor's ÷ its",
        "goal",
        "median's ÷ its",
        "goal",
    ];
    Table::new(head, rows)
}

/// Our standard deviation ÷ bpftool's, and a verdict; nothing in rows of our own.
fn compared(ours: Option<f64>, theirs: f64) -> [String; 2] {
    match ours {
        None => [String::new(), String::new()],
        // All of bpftool's whole nanoseconds were the same.
        Some(_) if theirs == 0.0 => ["–".to_owned(), "not comparable".to_owned()],
        Some(ours) => {
            let verdict = if ours / theirs <= RATIO_MAX { "reached" } else { "**missed**" };
            [two(ours / theirs), verdict.to_owned()]
        }
    }
}

fn gaps(programs: &[Program]) -> Table {
    let row = |program: &Program| {
        let gap = |of: fn(&Figures) -> Option<f64>| {
            let gap = Spread::of(program.wingbeat.iter().filter_map(of))?;
            let verdict = if gap.median.abs() <= GAP_MAX_NS { "reached" } else { "**missed**" };
            let range = format!("{} ({} to {})", two(gap.median), two(gap.min), two(gap.max));
            Some([range, verdict.to_owned()])
        };
        let from_mean = gap(|figures| Some(figures.net_p50_ns? - figures.net_mean_ns?))?;
        let from_net = gap(|figures| Some(figures.net_p50_ns? - figures.net_ns?))?;
        Some([vec![program.name.clone()], from_mean.into(), from_net.into()].concat())
    };
    let head = vec!["program", "p50 − mean, ns", "goal", "p50 − net of bursts, ns", "goal"];
    Table::new(head, programs.iter().filter_map(row).collect())
}

fn two(value: f64) -> String {
    format!("{value:.2}").replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program whose floors are half as far apart as its medians.
    fn program(ours: &[f64], usual: &[f64], long: &[f64]) -> Program {
        let figures = |&median_ns: &f64| Figures {
            floor_ns: median_ns / 2.0,
            median_ns,
            net_ns: Some(median_ns - 10.0),
            net_p50_ns: Some(median_ns - 5.0),
            net_mean_ns: Some(median_ns - 4.0),
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
        let check = |ours: &[f64], theirs: &[f64], expected: [&str; 4]| {
            let text = spreads(&[program(ours, theirs, theirs)]).to_markdown();
            let cells = |row: &str| -> Vec<String> {
                row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
            };
            let rows: Vec<Vec<String>> = text.lines().skip(2).map(cells).collect();
            let verdicts: Vec<&[String]> = rows.iter().map(|row| &row[6..]).collect();
            assert_eq!(verdicts, [[""; 4], [""; 4], expected, expected], "{text}");
        };
        let (reached, missed) = ("reached", "**missed**");
        check(&[50.0, 51.0], &[50.0, 52.0], ["0.25", reached, "0.50", reached]);
        check(&[50.0, 51.6], &[50.0, 52.0], ["0.40", reached, "0.80", missed]);
        check(&[50.0, 52.8], &[50.0, 52.0], ["0.70", missed, "1.40", missed]);
        check(&[50.0, 51.0], &[50.0, 50.0], ["–", "not comparable", "–", "not comparable"]);
    }

    #[test]
    fn the_table_shows_median_and_range() {
        let text = spreads(&[program(&[50.0, 51.0, 50.5], &[50.0, 53.0], &[])]).to_markdown();
        assert!(
            text.contains("| wingbeat, median      | 50.50  | 0.50               | 1.00 ")
                && text.contains("| wingbeat, floor       | 25.25  | 0.25               | 0.50 "),
            "{text}"
        );
        assert_eq!(text.lines().count(), 5, "nothing was measured for long: {text}");
        assert_eq!(spreads(&[Program::default()]).to_markdown(), "");
    }

    #[test]
    fn gaps_are_judged() {
        let mut measured = program(&[50.0, 51.0], &[], &[]);
        let text = gaps(&[measured.clone()]).to_markdown();
        let expected =
            "| −1.00 (−1.00 to −1.00) | reached | 5.00 (5.00 to 5.00)     | **missed** |";
        assert!(text.contains(expected), "{text}");
        measured.wingbeat[0].net_ns = None;
        measured.wingbeat[1].net_ns = None;
        assert_eq!(gaps(&[measured]).to_markdown(), "", "nothing to compare with");
    }

    #[test]
    fn repeats_fill_the_time() {
        let check = |seconds, ns, expected| assert_eq!(repeat(seconds, ns), expected, "{ns}");
        check(3, 10.0, 300_000_000);
        check(1, 1e6, USUAL_REPEAT);
        check(60, 0.0, u32::MAX);
    }
}
