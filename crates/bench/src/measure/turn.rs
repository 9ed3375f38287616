//! One thing that takes turns with others in a session: a program on an input, or a ruler; and what
//! its turns have given.

use std::time::{Duration, Instant};

use wingbeat_bpf::ProgramType;
use wingbeat_stats::random::Random;

use super::{
    BenchError,
    alternation::Alternation,
    batch::{FixedPart, time_per_run_ns},
    distribution::Clockings,
    subject::Subject,
};
use crate::{
    analyse::{RawCase, RawRun},
    input::Input,
    plan::Plan,
    result::Failure,
};

/// How long it may take to bring a program and the ruler into the kernel together, and to try them. It
/// happens for each sample, so that one that takes longer is better measured in batches.
const LOAD_MAX: Duration = Duration::from_millis(300);

/// Why there are no bursts, unless something else is said. A ruler gets its bursts from a program.
const NO_RULER: &str = "no program of its type could take turns with an empty one";

/// One thing that takes turns: a program on an input, or a ruler.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    /// Which subject.
    pub(super) subject: usize,
    /// Which input of the plan.
    pub(super) input: usize,
    /// Runs of a batch that the kernel repeats.
    runs_per_batch: u32,
    /// In one image with the ruler, or why that cannot be.
    alternation: Result<Alternation<'a>, String>,
    /// Why it was given up.
    pub(super) broken: Option<String>,
    raw: RawRun,
    clockings: Clockings,
    /// Times of the ruler in the common image.
    ruler_ns: Vec<f64>,
    /// The fastest of these in each run.
    ruler_floor_ns: Vec<f64>,
}

impl<'a> Turn<'a> {
    pub(super) fn new(subject: usize, input: usize, runs_per_batch: u32) -> Self {
        Self {
            subject,
            input,
            runs_per_batch,
            alternation: Err(NO_RULER.to_owned()),
            broken: None,
            raw: RawRun::default(),
            clockings: Clockings::default(),
            ruler_ns: Vec::new(),
            ruler_floor_ns: Vec::new(),
        }
    }

    /// Lets the program take turns with the ruler from now on, if that can be.
    pub(super) fn beside(
        self,
        ruler: &Subject<'a>,
        program: &Subject<'a>,
        input: &'a Input,
        plan: &'a Plan,
        random: &mut Random,
    ) -> Self {
        let begun = Instant::now();
        let sides = [ruler.side(), program.side()];
        let alternation = Alternation::new(sides, input, program.context(&plan.context), random);
        let taken = begun.elapsed();
        let alternation = alternation.and_then(|it| match taken < LOAD_MAX {
            true => Ok(it),
            false => Err(format!(
                "loading and running it with the empty program takes {} ms, too long for each sample",
                taken.as_millis()
            )),
        });
        Self { alternation, ..self }
    }

    /// Whether its samples are bursts within one run.
    pub(super) fn has_bursts(&self) -> bool {
        self.alternation.is_ok()
    }

    /// A sample from bursts of the program and the ruler in one run; false if there are none.
    pub(super) fn take_bursts(&mut self, random: &mut Random) -> Result<bool, BenchError> {
        let Ok(alternation) = &self.alternation else { return Ok(false) };
        let bursts = alternation.take_turns(random)?;
        if let (Some(ruler), Some(own), Some(net)) =
            (bursts.side_ns(0), bursts.side_ns(1), bursts.difference_ns())
        {
            self.ruler_ns.push(ruler);
            self.ruler_floor_ns.extend(bursts.floor_ns(0));
            self.raw.floor_ns.extend(bursts.floor_ns(1));
            self.raw.samples_ns.push(own);
            self.raw.net_ns.push(net);
        }
        Ok(true)
    }

    /// A batch that the kernel repeats. It is a sample where there are no bursts; else it tells what
    /// the kernel makes of the program. Returns how often the call was interrupted.
    pub(super) fn take_batch(
        &mut self,
        subject: &Subject<'_>,
        input: &Input,
        context: &[u8],
        fixed: FixedPart,
    ) -> Result<u64, BenchError> {
        let run = subject.run(input, context, self.runs_per_batch)?;
        self.raw.kernel_ns.push(run.mean_ns);
        if self.alternation.is_err() {
            self.raw.samples_ns.push(time_per_run_ns(subject.r#type(), &run, fixed));
        }
        Ok(u64::from(run.retries))
    }

    /// A batch with the clock around each run.
    pub(super) fn take_clocking(
        &mut self,
        subject: &Subject<'_>,
        input: &Input,
        context: &[u8],
    ) -> Result<(), BenchError> {
        self.clockings.batch(subject, input, context, self.runs_per_batch)
    }

    fn into_raw(self) -> RawRun {
        let (runs_per_batch, no_bursts) = match self.alternation {
            Ok(alternation) => (alternation.calls(1), None),
            Err(reason) => (self.runs_per_batch, Some(reason)),
        };
        RawRun { no_bursts, runs_per_batch, recorded: self.clockings.recorded, ..self.raw }
    }
}

/// Brings what was measured to where it belongs: the first `rulers` subjects are rulers, of the others
/// there is a turn for each case.
pub(super) fn collect(
    subjects: &[Subject<'_>],
    rulers: usize,
    turns: Vec<Turn<'_>>,
    mut cases: Vec<RawCase>,
    failures: &mut Vec<Failure>,
) -> (Vec<(ProgramType, RawRun)>, Vec<RawCase>) {
    let mut ruler_runs: Vec<(ProgramType, RawRun)> = Vec::new();
    let mut position = 0;
    for mut turn in turns {
        let r#type = subjects[turn.subject].r#type();
        if turn.subject < rulers {
            ruler_runs.push((r#type, turn.into_raw()));
            continue;
        }
        let ruler = ruler_runs.iter_mut().find(|(known, _)| *known == r#type);
        if let (Some((_, ruler)), false) = (ruler, turn.ruler_ns.is_empty()) {
            // Beside cases in bursts the ruler is shown in bursts; its batches stay for the other cases.
            if ruler.no_bursts.take().is_some() {
                ruler.repeated_ns = std::mem::take(&mut ruler.samples_ns);
                ruler.runs_per_batch =
                    turn.alternation.as_ref().map_or(0, |alternation| alternation.calls(0));
            }
            ruler.samples_ns.append(&mut turn.ruler_ns);
            ruler.floor_ns.append(&mut turn.ruler_floor_ns);
        }
        if let Some(case) = cases.get_mut(position) {
            if let Some(reason) = &turn.broken {
                failures.push(Failure::new(&case.name, reason));
            }
            case.run = turn.into_raw();
        }
        position += 1;
    }
    (ruler_runs, cases)
}
