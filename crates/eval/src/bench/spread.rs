//! Is the time that wingbeat reports steadier than bpftool's? Both measure the same programs, in
//! turns, while another CPU is busy.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use serde::Serialize;

use super::{Bed, Load, bpftool, object::Work, ours::Figures};
use crate::{
    comparison::{Common, Origin},
    numbers::{Spread, deviation, verdict},
    table::{Column, NONE, column, table},
    tools,
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

pub(super) fn run(args: &SpreadArgs) -> anyhow::Result<ExitCode> {
    let tool = tools::find("bpftool")?;
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
            let peer = |repeat| {
                bpftool::duration_ns(&tool, &target.pin, &packet, repeat, bed.wingbeat.cpu)
            };
            let all = (|| {
                let usual = peer(USUAL_REPEAT)?;
                let ours = bed.wingbeat.bench(&target.object, &time)?;
                anyhow::Ok((usual, ours, peer(target.long_repeat)?))
            })();
            let Some((usual, ours, long)) = bed.stop.unless_asked(all)? else { break 'rounds };
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
    let record = Record { origin, bpftool: tools::version("bpftool"), programs };
    args.common.finish("bench spread", &record, &text(&record), &bed.stop)
}

/// Runs that fill the time.
fn repeat(seconds: u32, duration_ns: f64) -> u32 {
    ((f64::from(seconds) * 1e9 / duration_ns.max(1.0)) as u32).max(USUAL_REPEAT)
}

fn text(record: &Record) -> String {
    let version = &record.bpftool;
    format!(
        "{}\nReported time of a run, in ns; bpftool {version}, which reports whole nanoseconds. The \
         median is the time on this machine as it was, the floor is without what disturbs. Goal for \
         both: a standard deviation of at most {RATIO_MAX} × bpftool's.\n\n{}\nThe programs always \
         execute the same instructions. So p50 and mean of single runs, each without that of an \
         empty program, are to agree within {GAP_MAX_NS} ns, and so are p50 and the net time of \
         bursts:\n\n{}",
        record.origin.text(""),
        spreads(&record.programs),
        gaps(&record.programs)
    )
}

/// What a tool said of a program; our own standard deviations, floor's and median's, in a peer's rows.
struct Row<'a> {
    program: &'a Program,
    tool: &'static str,
    times: Vec<f64>,
    ours: [Option<f64>; 2],
}

fn spreads(programs: &[Program]) -> String {
    let rows = programs.iter().flat_map(|program| {
        let of = |figure: fn(&Figures) -> f64| -> Vec<f64> {
            program.wingbeat.iter().map(figure).collect()
        };
        let (floor, median) = (of(|figures| figures.floor_ns), of(|figures| figures.median_ns));
        let ours = [deviation(&floor), deviation(&median)];
        [
            Row { program, tool: "wingbeat, floor", times: floor, ours: [None; 2] },
            Row { program, tool: "wingbeat, median", times: median, ours: [None; 2] },
            Row { program, tool: "bpftool, usual", times: program.usual_ns.clone(), ours },
            Row { program, tool: "bpftool, as long", times: program.long_ns.clone(), ours },
        ]
    });
    let spread = |head, figure: fn(Spread) -> f64| -> Column<'_, Row<'_>> {
        column(head, move |row: &Row<'_>| {
            Spread::of(row.times.iter().copied()).map_or_else(String::new, |it| two(figure(it)))
        })
    };
    let share = |which: usize| {
        move |row: &Row<'_>| match (row.ours[which], deviation(&row.times)) {
            (Some(_), Some(0.0)) => NONE.to_owned(),
            (Some(ours), Some(theirs)) => two(ours / theirs),
            _ => String::new(),
        }
    };
    let goal = |which: usize| {
        move |row: &Row<'_>| match (row.ours[which], deviation(&row.times)) {
            // All of bpftool's whole nanoseconds were the same.
            (Some(_), Some(0.0)) => "not comparable",
            (Some(ours), Some(theirs)) => verdict(ours / theirs <= RATIO_MAX),
            _ => "",
        }
    };
    table(
        rows.filter(|row| deviation(&row.times).is_some()),
        &[
            column("program", |row: &Row<'_>| row.program.name.clone()),
            column("instructions", |row: &Row<'_>| row.program.instructions),
            column("tool", |row: &Row<'_>| {
                row.tool.replace("usual", &format!("{USUAL_REPEAT} runs"))
            }),
            spread("median", |spread| spread.median),
            column("standard deviation", |row: &Row<'_>| {
                deviation(&row.times).map_or_else(String::new, two)
            }),
            spread("max − min", |spread| spread.max - spread.min),
            column("floor's ÷ its", share(0)),
            column("goal", goal(0)),
            column("median's ÷ its", share(1)),
            column("goal", goal(1)),
        ],
    )
}

fn gaps(programs: &[Program]) -> String {
    type Gap = fn(&Figures) -> Option<f64>;
    let from_mean: Gap = |figures| Some(figures.net_p50_ns? - figures.net_mean_ns?);
    let from_net: Gap = |figures| Some(figures.net_p50_ns? - figures.net_ns?);
    let gap = |program: &Program, of: Gap| Spread::of(program.wingbeat.iter().filter_map(of));
    let range = |of: Gap| {
        move |program: &&Program| match gap(program, of) {
            Some(gap) => format!("{} ({} to {})", two(gap.median), two(gap.min), two(gap.max)),
            None => NONE.to_owned(),
        }
    };
    let goal = |of: Gap| {
        move |program: &&Program| {
            gap(program, of).map_or("", |gap| verdict(gap.median.abs() <= GAP_MAX_NS))
        }
    };
    let is_known = |it: &&Program| gap(it, from_mean).and(gap(it, from_net)).is_some();
    table(
        programs.iter().filter(is_known),
        &[
            column("program", |program: &&Program| program.name.clone()),
            column("p50 − mean, ns", range(from_mean)),
            column("goal", goal(from_mean)),
            column("p50 − net of bursts, ns", range(from_net)),
            column("goal", goal(from_net)),
        ],
    )
}

fn two(value: f64) -> String {
    format!("{value:.2}").replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::cells_of;

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
            let text = spreads(&[program(ours, theirs, theirs)]);
            let rows = cells_of(&text);
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
        let text = spreads(&[program(&[50.0, 51.0, 50.5], &[50.0, 53.0], &[])]);
        assert!(
            text.contains("| wingbeat, median      | 50.50  | 0.50               | 1.00 ")
                && text.contains("| wingbeat, floor       | 25.25  | 0.25               | 0.50 "),
            "{text}"
        );
        assert_eq!(text.lines().count(), 5, "nothing was measured for long: {text}");
        assert_eq!(spreads(&[Program::default()]), "");
    }

    #[test]
    fn gaps_are_judged() {
        let mut measured = program(&[50.0, 51.0], &[], &[]);
        let text = gaps(&[measured.clone()]);
        let expected =
            "| −1.00 (−1.00 to −1.00) | reached | 5.00 (5.00 to 5.00)     | **missed** |";
        assert!(text.contains(expected), "{text}");
        measured.wingbeat[0].net_ns = None;
        measured.wingbeat[1].net_ns = None;
        assert_eq!(gaps(&[measured]), "", "nothing to compare with");
    }

    #[test]
    fn repeats_fill_the_time() {
        let check = |seconds, ns, expected| assert_eq!(repeat(seconds, ns), expected, "{ns}");
        check(3, 10.0, 300_000_000);
        check(1, 1e6, USUAL_REPEAT);
        check(60, 0.0, u32::MAX);
    }
}
