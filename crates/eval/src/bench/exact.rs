//! Are exact counts exact? The same program is counted in many loads, and many times in one load;
//! nothing may differ, not even the order of lines. For programs made here the count is known.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;

use super::{
    Bed,
    object::{self, Work},
    ours,
};
use crate::{
    comparison::{Common, Origin},
    table::{column, table},
};

/// How exactness is tested.
#[derive(Debug, Args)]
pub(crate) struct ExactArgs {
    /// Loads of each program with one run, and runs in each of two more loads
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=1000))]
    rounds: u32,
    /// Another object's program, such as that of the example
    #[arg(long, value_name = "OBJECT:PROGRAM")]
    #[arg(value_parser = object_and_program)]
    program: Vec<(PathBuf, String)>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Serialize)]
struct Record {
    origin: Origin,
    programs: Vec<Program>,
}

/// A program with what was counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
struct Program {
    name: String,
    /// What it is to be, where that is known.
    expected: Option<u64>,
    /// What the first load gave.
    instructions: u64,
    loads: u32,
    /// Of these, how many differed from the first.
    differing_loads: u32,
    /// Instructions and runs of the loads with many.
    many: Vec<(u64, u64)>,
}

pub(super) fn run(args: &ExactArgs) -> anyhow::Result<ExitCode> {
    let bed = Bed::new(&args.common)?;
    let origin = Origin::now();
    let packet = bed.file("packet.bin", &packet())?;
    let packet = packet.to_str().context("the temporary folder has no plain name")?;
    let inputs: Vec<String> = (0..args.rounds).map(|run| format!("r{run}={packet}")).collect();
    let mut jobs = Vec::new();
    for instructions in [0, 50, 10_000] {
        let work = Work::of(instructions);
        let file = bed.file(&format!("{instructions}.o"), &work.object()?)?;
        let name = format!("{} of {} instructions", object::PROGRAM, work.executed());
        jobs.push((file, object::PROGRAM, name, Some(work.executed())));
    }
    for (file, program) in &args.program {
        jobs.push((file.clone(), program, program.clone(), None));
    }
    let mut programs = Vec::new();
    'programs: for (file, program, name, expected) in jobs {
        let mut found = Program { name, expected, ..Program::default() };
        let mut first = None;
        let annotate = |inputs: &[String]| {
            bed.stop.unless_asked(bed.wingbeat.annotate(&file, program, inputs))
        };
        for _ in 0..args.rounds {
            let Some(json) = annotate(&inputs[..1])? else { break 'programs };
            let first = first.get_or_insert_with(|| json.clone());
            found.loads += 1;
            found.differing_loads += u32::from(*first != json);
        }
        found.instructions = ours::counts(&first.unwrap_or_default())?.0;
        for _ in 0..2 {
            let Some(json) = annotate(&inputs)? else { break 'programs };
            found.many.push(ours::counts(&json)?);
        }
        eprintln!("{}: {}", found.name, found.verdict());
        programs.push(found);
    }
    let record = Record { origin, programs };
    let code = args.common.finish("bench exact", &record, &text(&record), &bed.stop)?;
    let is_exact = record.programs.iter().all(Program::is_exact);
    Ok(if is_exact { code } else { ExitCode::FAILURE })
}

/// A UDP packet over IPv4 of 64 bytes, so that parsers do not give up at once: Ethernet, then IP from
/// 10.0.0.1 to 10.0.0.2, then nothing but ports and length. No checksums.
fn packet() -> [u8; 64] {
    let mut packet = [0; 64];
    packet[12..14].copy_from_slice(&[0x08, 0x00]);
    packet[14..34]
        .copy_from_slice(&[0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    packet[34..40].copy_from_slice(&[0x30, 0x39, 0x30, 0x3a, 0, 30]);
    packet
}

fn object_and_program(text: &str) -> Result<(PathBuf, String), String> {
    match text.rsplit_once(':') {
        Some((object, program)) if !object.is_empty() && !program.is_empty() => {
            Ok((PathBuf::from(object), program.to_owned()))
        }
        _ => Err("an object and one of its programs are wanted, as in a.o:filter".to_owned()),
    }
}

impl Program {
    fn is_exact(&self) -> bool {
        let one = u128::from(self.instructions);
        self.differing_loads == 0
            && self.expected.is_none_or(|expected| expected == self.instructions)
            && self.many.iter().all(|&(sum, runs)| u128::from(sum) == one * u128::from(runs))
    }

    fn verdict(&self) -> &'static str {
        if self.is_exact() { "the same" } else { "**different**" }
    }
}

fn text(record: &Record) -> String {
    format!(
        "{}\nExecuted instructions; all loads are to give the same.\n\n{}",
        record.origin.text(""),
        programs(&record.programs)
    )
}

fn programs(programs: &[Program]) -> String {
    let many = |program: &&Program| {
        let many = program.many.iter().map(|(sum, runs)| format!("{sum} in {runs}"));
        many.collect::<Vec<_>>().join(", ")
    };
    table(
        programs,
        &[
            column("program", |it: &&Program| it.name.clone()),
            column("a run", |it: &&Program| it.instructions),
            column("loads", |it: &&Program| it.loads),
            column("of them different", |it: &&Program| it.differing_loads),
            column("loads with many runs", many),
            column("verdict", |it: &&Program| it.verdict()),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_difference_counts() {
        let same = Program {
            name: "p".to_owned(),
            expected: Some(56),
            instructions: 56,
            loads: 100,
            differing_loads: 0,
            many: vec![(5600, 100), (5600, 100)],
        };
        let check =
            |program: Program, expected| assert_eq!(program.is_exact(), expected, "{program:?}");
        check(same.clone(), true);
        check(Program { expected: None, ..same.clone() }, true);
        check(Program { expected: Some(57), ..same.clone() }, false);
        check(Program { differing_loads: 1, ..same.clone() }, false);
        check(Program { many: vec![(5600, 100), (5601, 100)], ..same.clone() }, false);
        let text = programs(&[same]);
        assert!(text.contains("| 5600 in 100, 5600 in 100 | the same |"), "{text}");
    }

    #[test]
    fn objects_with_programs() {
        let check = |text, expected: Option<(&str, &str)>| {
            let found = object_and_program(text).ok();
            let found = found.as_ref().map(|(file, name)| (file.to_str().expect("text"), &**name));
            assert_eq!(found, expected, "{text}");
        };
        check("a.o:filter", Some(("a.o", "filter")));
        check("c:/a.o:filter", Some(("c:/a.o", "filter")));
        check("a.o", None);
        check(":filter", None);
        check("a.o:", None);
    }
}
