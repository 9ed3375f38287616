//! Whether the sums are right: all allocations beside valgrind's DHAT, and samples beside all allocations.

use std::process::Command;

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};

use super::{
    Bed,
    dhat::{Dhat, Sums},
    programs::{PROGRAMS, Program},
    said,
    wingbeat::said,
};
use crate::tools;

/// A program under both.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Truth {
    pub(super) program: String,
    /// Why there are no figures.
    pub(super) note: Option<String>,
    pub(super) ours: Sums,
    pub(super) theirs: Sums,
    /// What found no room in wingbeat's buffers.
    pub(super) losses: Vec<String>,
}

/// Runs with samples of one program.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Sampled {
    pub(super) program: String,
    pub(super) sample: String,
    /// By the exact run.
    pub(super) bytes: u64,
    pub(super) runs: Vec<Estimate>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Estimate {
    pub(super) bytes: u64,
    /// Half of the interval, as a part of the estimate.
    pub(super) margin: f64,
    pub(super) samples: u64,
}

impl Estimate {
    pub(super) fn holds(&self, truth: u64) -> bool {
        let distance = self.bytes.abs_diff(truth) as f64;
        distance <= self.margin * self.bytes as f64
    }
}

/// Distance of samples: some hundreds of the program below.
const SAMPLE: &str = "16K";

/// All programs, exactly.
pub(super) fn exact(bed: &Bed<'_>) -> anyhow::Result<Vec<Truth>> {
    let mut rows = Vec::new();
    for program in &PROGRAMS {
        if bed.stop.is_asked() {
            break;
        }
        let row = match compare(bed, program) {
            Ok(row) => row,
            Err(error) => without(program, format!("failed: {error:#}")),
        };
        eprintln!("{}: {:?}, DHAT {:?}", row.program, row.ours.all(), row.theirs.all());
        rows.push(row);
    }
    Ok(rows)
}

fn without(program: &Program, why: String) -> Truth {
    let (ours, theirs) = Default::default();
    Truth { program: program.name.to_owned(), note: Some(why), ours, theirs, losses: Vec::new() }
}

fn compare(bed: &Bed<'_>, program: &Program) -> anyhow::Result<Truth> {
    if !bed.folder.make(program)? {
        return Ok(without(program, "not installed".to_owned()));
    }
    if tools::missing("valgrind").is_some() {
        return Ok(without(program, "not installed: valgrind".to_owned()));
    }
    let (ours, text) = recorded(bed, program, &["--exact"])?;
    let theirs = bed.folder.file("valgrind.json");
    let mut valgrind = Command::new(tools::find("valgrind")?);
    // What the C library frees at the end for valgrind, the program does not.
    valgrind.args(["--tool=dhat", "--run-libc-freeres=no", "--run-cxx-freeres=no"]);
    valgrind.arg(format!("--dhat-out-file={}", theirs.display()));
    said(&mut bed.folder.command(&valgrind, program)?)?;
    Ok(Truth {
        program: program.name.to_owned(),
        note: None,
        ours: ours.sums(),
        theirs: Dhat::read(&theirs)?.sums(),
        losses: said::losses(&text),
    })
}

/// The program in Rust with dhat-rs built into it: what its own source asks for. dhat-rs begins in `main`.
pub(super) fn dhat_rs(bed: &Bed<'_>) -> anyhow::Result<Truth> {
    let program = PROGRAMS.iter().find(|it| it.source == "sites.rs").context("no Rust program")?;
    let measure = || {
        if !bed.folder.make(program)? {
            return Ok(without(program, "not installed".to_owned()));
        }
        let (ours, text) = recorded(bed, program, &["--exact"])?;
        bed.folder.run_with_dhat_rs().context("with dhat-rs")?;
        let theirs = Dhat::read(&bed.folder.file("dhat-heap.json"))?;
        Ok(Truth {
            program: program.name.to_owned(),
            note: None,
            ours: ours.sums_in(program.source),
            theirs: theirs.sums_in(program.source),
            losses: said::losses(&text),
        })
    };
    Ok(measure()
        .unwrap_or_else(|error: anyhow::Error| without(program, format!("failed: {error:#}"))))
}

/// A program under `wingbeat heap`, alone as valgrind runs it: the file, and the text.
pub(super) fn recorded(
    bed: &Bed<'_>,
    program: &Program,
    flags: &[&str],
) -> anyhow::Result<(Dhat, String)> {
    let file = bed.folder.file("wingbeat.json");
    let mut wingbeat = bed.heap();
    wingbeat.args(flags).arg("--no-inherit").arg("-o").arg(&file).arg("--");
    let text = said(&mut bed.folder.command(&wingbeat, program)?)?;
    Ok((Dhat::read(&file)?, text))
}

/// Many runs with samples of the first program.
pub(super) fn sampled(bed: &Bed<'_>) -> anyhow::Result<Option<Sampled>> {
    let program = &PROGRAMS[0];
    if !bed.folder.make(program)? {
        return Ok(None);
    }
    let exact = recorded(bed, program, &["--exact"])?.0.sums();
    let mut runs = Vec::new();
    while runs.len() < bed.args.runs() as usize && !bed.stop.is_asked() {
        let (file, text) = recorded(bed, program, &["--sample", SAMPLE])?;
        let margin = said::margin(&text).context("wingbeat tells no total")?;
        ensure!(said::losses(&text).is_empty(), "samples were lost");
        let samples = said::taken(&text).context("wingbeat tells no samples")?;
        let run = Estimate { bytes: file.sums().bytes, margin, samples };
        eprintln!("sampled: {} ± {:.1} % of {}", run.bytes, 100.0 * margin, exact.bytes);
        runs.push(run);
    }
    let (program, sample) = (program.name.to_owned(), SAMPLE.to_owned());
    Ok(Some(Sampled { program, sample, bytes: exact.bytes, runs }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_hold_the_truth() {
        let check = |truth, expected| {
            let estimate = Estimate { bytes: 1000, margin: 0.05, samples: 9 };
            assert_eq!(estimate.holds(truth), expected, "{truth}");
        };
        check(950, true);
        check(1050, true);
        check(1051, false);
        check(949, false);
    }
}
