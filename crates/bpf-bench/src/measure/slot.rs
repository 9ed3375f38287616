//! A participant of a session's rounds, a program on an input or a baseline, with its samples.

use std::time::Duration;

use wingbeat_bpf_loader::{
    ProgramType,
    loader::{ProgramRun, RunError},
};
use wingbeat_stats::random::Random;

use super::{
    BenchError,
    batch::{FixedPart, Length, repeats, time_per_run_ns},
    runner::{Alternation, Given, Leaves, Pace, Runner, Subject},
};
use crate::{
    analyse::{self, RawCase, RawRun},
    result::{Failure, PacketSource},
};

/// Default reason for missing bursts. A baseline gets its bursts from a program.
const NO_BASELINE: &str = "no program of its type could alternate with an empty one";

/// Reason for missing bursts although they are possible.
const NO_BURSTS_YET: &str = "the time ran out before it had alternated with an empty one";

/// Maximum number of batches to find the right number of runs.
const TRIES: usize = 4;

/// Time in the program for a sample from calls, and the maximum number of calls: each takes another microsecond.
const CALLS_NS: f64 = 1e6;
const CALLS_MAX: f64 = 1_000.0;

/// Maximum number of clocked batches kept individually: more would only narrow the interval of their median.
const CLOCKINGS_MAX: usize = 200;

/// A participant: a program on an input, or a baseline.
#[derive(Debug)]
pub(super) struct Slot<A> {
    pub(super) subject: usize,
    pub(super) input: usize,
    /// Length of a kernel-repeated batch.
    length: Length,
    pub(super) run_ns: f64,
    /// Image shared with the baseline, or why that is impossible.
    alternation: Result<A, String>,
    /// How its runs leave the packet.
    pub(super) leaves: Leaves,
    /// Time per run of calls that each got the requested packet.
    calls_ns: Vec<f64>,
    pub(super) broken: Option<String>,
    raw: RawRun,
    /// Kernel-repeated batches, without the packets.
    batches: Vec<ProgramRun>,
    /// Times of the baseline in the shared image.
    baseline_ns: Vec<f64>,
    /// Fastest burst of these in each run.
    baseline_floor_ns: Vec<f64>,
}

impl<A: Alternation> Slot<A> {
    /// A slot of a program with this approximate run time.
    pub(super) fn new(subject: usize, input: usize, r#type: ProgramType, run_ns: f64) -> Self {
        Self {
            subject,
            input,
            length: Length::of(r#type, run_ns),
            run_ns,
            alternation: Err(NO_BASELINE.to_owned()),
            leaves: Leaves::AsItWas,
            calls_ns: Vec::new(),
            broken: None,
            raw: RawRun::default(),
            batches: Vec::new(),
            baseline_ns: Vec::new(),
            baseline_floor_ns: Vec::new(),
        }
    }

    /// Uses a run as a batch: batches of such a slow program have one run.
    pub(super) fn keep(&mut self, run: &ProgramRun) {
        self.batches.push(ProgramRun { data: Vec::new(), ..run.clone() });
    }

    /// Alternates the program with the baseline from now on, or keeps the reason why it cannot.
    pub(super) fn alternate(&mut self, alternation: Result<A, String>) {
        self.alternation = alternation;
    }

    /// Whether its samples are bursts within one run.
    pub(super) fn has_bursts(&self) -> bool {
        self.alternation.is_ok()
    }

    /// Takes a sample from bursts of the program and the baseline in one run; returns false if there are none.
    pub(super) fn take_bursts(&mut self, random: &mut Random) -> Result<bool, BenchError> {
        let Ok(alternation) = &self.alternation else { return Ok(false) };
        let bursts = alternation.run_bursts(random)?;
        self.raw.returned.extend(bursts.returned);
        if let (Some(baseline), Some(own), Some(net)) =
            (bursts.side_ns(0), bursts.side_ns(1), bursts.difference_ns())
        {
            self.baseline_ns.push(baseline);
            self.baseline_floor_ns.extend(bursts.floor_ns(0));
            self.raw.floor_ns.extend(bursts.floor_ns(1));
            self.raw.samples_ns.push(own);
            self.raw.net_ns.push(net);
        }
        Ok(true)
    }

    /// Takes a kernel-repeated batch, on reset maps if it `is_fresh`. It is a sample if there are
    /// no bursts in the end; else it provides the kernel's figures. Returns how often calls were
    /// interrupted.
    ///
    /// A batch that turns out too short or too long is repeated with another number of runs.
    pub(super) fn take_batch<'a, R: Runner<'a>>(
        &mut self,
        runner: R,
        subject: &mut R::Subject,
        given: Given<'_>,
        is_fresh: bool,
    ) -> Result<u64, BenchError> {
        let mut retries = 0;
        for try_number in 1.. {
            if is_fresh {
                subject.reset()?;
            }
            let limit = match subject.pace() {
                Pace::Short => self.length.limit(),
                Pace::Long => Duration::MAX,
            };
            let run = match runner.within(limit, || subject.run(given, self.length.runs)) {
                Err(BenchError::Run(RunError::TimeOver(_)))
                    if !runner.is_over() && self.length.runs > 1 =>
                {
                    self.length.shorten();
                    continue;
                }
                other => other?,
            };
            retries += u64::from(run.retries);
            if self.length.learn(subject.r#type(), &run) || try_number >= TRIES {
                self.batches.push(ProgramRun { data: Vec::new(), ..run });
                break;
            }
        }
        Ok(retries)
    }

    /// Takes single-run calls with the requested packet, which the runs of a batch would not get: a
    /// sample if there are no bursts.
    pub(super) fn take_calls<'a>(
        &mut self,
        subject: &mut impl Subject<'a>,
        given: Given<'_>,
        fixed: FixedPart,
    ) -> Result<(), BenchError> {
        if self.leaves == Leaves::AsItWas || self.has_bursts() {
            return Ok(());
        }
        subject.reset()?;
        let (run_ns, returned) =
            fixed.time_calls(subject.r#type(), calls_of(self.run_ns), |runs| {
                subject.run(given, runs)
            })?;
        self.calls_ns.push(run_ns);
        self.raw.returned.push(returned);
        Ok(())
    }

    /// Takes a batch with the clock around each run.
    pub(super) fn take_clocking<'a>(
        &mut self,
        subject: &impl Subject<'a>,
        given: Given<'_>,
    ) -> Result<(), BenchError> {
        let runs = match self.leaves {
            Leaves::AsItWas => self.length.runs,
            Leaves::Changed { .. } => calls_of(self.run_ns),
        };
        let found = subject.run_clocked(given, runs, self.leaves)?;
        let Some(found) = found else { return Ok(()) };
        if self.raw.clockings.len() < CLOCKINGS_MAX {
            self.raw.clockings.push(found.clone());
        }
        match &mut self.raw.recorded {
            Some(sum) => sum.add(&found),
            None => self.raw.recorded = Some(found),
        }
        Ok(())
    }

    pub(super) fn batches(&self) -> usize {
        self.batches.len()
    }

    pub(super) fn samples(&self) -> usize {
        match (self.has_bursts(), self.leaves) {
            (true, _) => self.raw.samples_ns.len(),
            (false, Leaves::AsItWas) => self.batches.len(),
            (false, Leaves::Changed { .. }) => self.calls_ns.len(),
        }
    }

    /// Converts the samples. `fixed` is the fixed cost of a call.
    fn into_raw(mut self, r#type: ProgramType, fixed: FixedPart) -> RawRun {
        self.raw.kernel_ns = self.batches.iter().map(|batch| batch.mean_ns).collect();
        let times = self.batches.iter().map(|run| time_per_run_ns(r#type, run, fixed));
        let repeated_ns: Vec<f64> = times.collect();
        let returned = self.batches.iter().map(|run| run.return_value);
        let is_changed = self.leaves.is_changed();
        let alternation = match self.alternation {
            // Any other samples are better than none.
            Ok(_) if self.raw.samples_ns.is_empty() => Err(NO_BURSTS_YET.to_owned()),
            other => other,
        };
        let (runs_per_batch, no_bursts, packet) = match alternation {
            Ok(alternation) if is_changed => (alternation.calls(1), None, PacketSource::Restored),
            Ok(alternation) => {
                self.raw.returned = returned.collect();
                (alternation.calls(1), None, PacketSource::Unchanged)
            }
            Err(reason) if is_changed && !self.calls_ns.is_empty() => {
                self.raw.samples_ns = self.calls_ns;
                (calls_of(self.run_ns), Some(reason), PacketSource::Restored)
            }
            Err(reason) => {
                self.raw.returned = returned.collect();
                self.raw.samples_ns.clone_from(&repeated_ns);
                let packet =
                    if is_changed { PacketSource::OwnOutput } else { PacketSource::Unchanged };
                (self.length.runs, Some(reason), packet)
            }
        };
        // Where each run is a call, none sees the output of another.
        if packet == PacketSource::Restored && repeats(r#type) {
            self.raw.own_output_ns = repeated_ns;
        }
        RawRun { no_bursts, packet, runs_per_batch, ..self.raw }
    }
}

/// Calls per sample for runs of this duration.
pub(super) fn calls_of(run_ns: f64) -> u32 {
    // Between 1 and CALLS_MAX.
    (CALLS_NS / run_ns.max(1.0)).clamp(1.0, CALLS_MAX) as u32
}

/// Assigns the results: the first `baselines` subjects are baselines, the others have a slot for each
/// case. `types` are those of the subjects; `fixed` returns the fixed cost of a call. A case
/// without a sample is a failure if it `is_timed`.
pub(super) fn collect<A: Alternation>(
    types: &[ProgramType],
    (baselines, fixed): (usize, &dyn Fn(ProgramType) -> FixedPart),
    slots: Vec<Slot<A>>,
    mut cases: Vec<RawCase>,
    is_timed: bool,
    failures: &mut Vec<Failure>,
) -> (Vec<(ProgramType, RawRun)>, Vec<RawCase>) {
    let mut baseline_runs: Vec<(ProgramType, RawRun)> = Vec::new();
    let mut position = 0;
    for mut slot in slots {
        let r#type = types[slot.subject];
        let fixed = fixed(r#type);
        if slot.subject < baselines {
            baseline_runs.push((r#type, slot.into_raw(r#type, fixed)));
            continue;
        }
        let baseline = baseline_runs.iter_mut().find(|(known, _)| *known == r#type);
        if let (Some((_, baseline)), false) = (baseline, slot.baseline_ns.is_empty()) {
            // With cases in bursts the baseline is shown in bursts; its batches remain for the other cases.
            if baseline.no_bursts.take().is_some() {
                baseline.repeated_ns = std::mem::take(&mut baseline.samples_ns);
                baseline.runs_per_batch =
                    slot.alternation.as_ref().map_or(0, |alternation| alternation.calls(0));
            }
            baseline.samples_ns.append(&mut slot.baseline_ns);
            baseline.floor_ns.append(&mut slot.baseline_floor_ns);
        }
        if let Some(case) = cases.get_mut(position) {
            if let Some(reason) = &slot.broken {
                failures.push(Failure::new(&case.name, reason));
            } else if is_timed && slot.samples() + slot.batches.len() == 0 {
                failures.push(Failure::new(&case.name, analyse::NO_SAMPLES));
            }
            case.run = slot.into_raw(r#type, fixed);
        }
        position += 1;
    }
    (baseline_runs, cases)
}
