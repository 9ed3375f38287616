//! One program in the kernel, in three forms: plain, with counters, with a clock. All share the
//! same maps. Implements the runner's interface for the kernel.

use std::{
    collections::BTreeSet,
    os::fd::{AsFd as _, BorrowedFd},
    time::{Duration, Instant},
};

use wingbeat_bpf_loader::{
    KernelTypes,
    code::op,
    helpers,
    loader::{Loader, ProgramRun, RawContext, ResetError},
    program::ProgramInfo,
    spec::{Linked, ProgramSpec, Spec, SpecError},
};
use wingbeat_stats::random::Random;
use wingbeat_text::duration_of;

use super::{
    BenchError,
    alternation::{Image, Side},
    contents::Contents,
    counted::Counted,
    feeding::Row,
    kernel::Kernel,
    origin::{Origin, State},
    runner::{Alternation, Facts, Form, Given, Leaves, Pace, Runner, Subject},
    session::Session,
};
use crate::{
    annotate,
    counts::{Counts, TailCalls, helper_name},
    instrument::wrapper::{Recorded, read_histogram},
    result::Failure,
};

/// Time to create maps from which on they are shared by all loads of an image.
const MAPS_TIME_MAX: Duration = Duration::from_millis(5);

/// Maximum load time for reloading a program with a clock before each batch.
const MOVING_TIME_MAX: Duration = Duration::from_millis(20);

impl<'a> Runner<'a> for Kernel<'a> {
    type Source = (&'a Loader, &'a Contents);
    type Subject = KernelSubject<'a>;
    type Alternation = Image<'a>;

    fn now(self) -> Instant {
        Instant::now()
    }

    fn set_deadline(self, deadline: Option<Instant>) {
        self.alarm.set(deadline);
    }

    fn is_over(self) -> bool {
        self.alarm.is_over()
    }

    fn is_stopped(self) -> bool {
        self.alarm.is_stopped()
    }

    fn within<T>(self, limit: Duration, job: impl FnOnce() -> T) -> T {
        self.alarm.within(limit, job)
    }

    fn load(self, linked: &'a Linked, from: Self::Source) -> Result<KernelSubject<'a>, BenchError> {
        KernelSubject::new(linked, from, self)
    }

    fn verify(self, linked: &'a Linked, (loader, _): Self::Source) -> Result<Facts, BenchError> {
        let maps = loader.create_maps_for(&[&linked.code], &[])?;
        let descriptors = maps.descriptors();
        let loaded =
            loader.load_with(&linked.program, &linked.code, &descriptors, self.effort())?;
        Ok(Facts::of(linked, &loaded, &maps))
    }

    fn alternate(
        self,
        sides: [&KernelSubject<'a>; 2],
        given: Given<'a>,
        run: (f64, Leaves),
        random: &mut Random,
    ) -> Result<Image<'a>, String> {
        Image::new(sides.map(KernelSubject::side), given, run, self, random)
    }
}

/// A program in the kernel, and what is needed to reload it.
#[derive(Debug)]
pub(super) struct KernelSubject<'a> {
    origin: Origin<'a>,
    state: State,
    /// Time to create its maps, and to load the plain program.
    maps_time: Duration,
    load_time: Duration,
    /// Whether a run may be long; known after the first.
    pace: Pace,
}

impl<'a> KernelSubject<'a> {
    /// Loads the plain program.
    pub(super) fn new(
        linked: &'a Linked,
        (loader, contents): (&'a Loader, &'a Contents),
        kernel: Kernel<'a>,
    ) -> Result<Self, BenchError> {
        let origin = Origin { linked, loader, contents, kernel };
        let state = origin.load()?;
        let (maps_time, load_time) = (state.maps_time, state.load_time);
        Ok(Self { origin, state, maps_time, load_time, pace: Pace::Long })
    }

    /// What is needed to load it again.
    pub(super) fn side(&self) -> Side<'a> {
        let Origin { linked, loader, contents, .. } = self.origin;
        Side {
            linked,
            loader,
            contents,
            maps: (self.maps_time > MAPS_TIME_MAX).then(|| self.state.maps.clone()),
        }
    }

    /// Runs a form of the program.
    fn run_form(
        &self,
        form: BorrowedFd<'_>,
        given: Given<'_>,
        repeat: u32,
    ) -> Result<ProgramRun, BenchError> {
        self.origin.kernel.run(form, self.r#type(), given, repeat, self.pace)
    }

    fn count(
        &self,
        counted: &Counted,
        given: Given<'_>,
        runs: u32,
    ) -> Result<(ProgramRun, Counts), BenchError> {
        counted.clear()?;
        let run = self.run_form(counted.program.as_fd(), given, runs)?;
        let counts = counted.read(self.name(), &self.state.maps, run.runs.into())?;
        Ok((run, counts))
    }
}

impl<'a> Subject<'a> for KernelSubject<'a> {
    fn linked(&self) -> &'a Linked {
        self.origin.linked
    }

    fn context<'c>(&self, given: &'c [u8]) -> &'c [u8]
    where
        'a: 'c,
    {
        let Origin { linked, loader, .. } = self.origin;
        let made_up = || loader.made_up_context(&linked.program);
        match given {
            [] => made_up().map_or(given, RawContext::bytes),
            _ => given,
        }
    }

    fn load_time(&self) -> Duration {
        self.load_time
    }

    fn whole_load_time(&self) -> Duration {
        self.load_time + self.maps_time
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    fn facts(&self) -> Facts {
        let Origin { linked, loader, .. } = self.origin;
        let made_up = loader.made_up_context(&linked.program);
        let facts = Facts::of(linked, &self.state.plain, &self.state.maps);
        Facts { made_up_context: made_up.map(ToString::to_string), ..facts }
    }

    fn run_count(&self) -> u64 {
        ProgramInfo::of(&self.state.plain).map_or(0, |info| info.run_count)
    }

    fn tail_calls(&self, counts: Option<&Counts>) -> TailCalls {
        TailCalls {
            programs: counts.map(|it| it.tail_called.clone()).unwrap_or_default(),
            failed: counts.map(|it| it.failed_tail_calls.clone()).unwrap_or_default(),
            missing: self.state.targets.missing.clone(),
        }
    }

    fn profile(&self, counts: &Counts) -> Option<Vec<u8>> {
        let Origin { linked, loader, .. } = self.origin;
        annotate::of_counts(&linked.code, loader.types(), counts).ok()
    }

    /// In place if possible, else by creating the maps again and reloading the program.
    fn reset(&mut self) -> Result<(), BenchError> {
        match self.state.maps.reset(self.origin.kernel.alarm) {
            Ok(()) => Ok(()),
            Err(ResetError::NotInPlace(_)) => self.reload(),
            Err(error) => Err(error.into()),
        }
    }

    fn reload(&mut self) -> Result<(), BenchError> {
        self.origin.kernel.has_time_for_maps(self.maps_time)?;
        let mut state =
            self.origin.load_with(&self.state.unwritten, self.origin.kernel.effort())?;
        // A form that failed once is not tried again.
        let reason = |form| self.missing(form).map(str::to_owned);
        state.counted = reason(Form::Counted).map_or_else(|| self.origin.counted(&state), Err);
        state.clocked = reason(Form::Clocked).map_or_else(|| self.origin.clocked(&state), Err);
        self.state = state;
        Ok(())
    }

    fn run_first(&mut self, given: Given<'_>) -> Result<ProgramRun, BenchError> {
        self.pace = Pace::Long;
        let run = self.run(given, 1)?;
        self.pace = Pace::of(&run);
        Ok(run)
    }

    fn run(&self, given: Given<'_>, repeat: u32) -> Result<ProgramRun, BenchError> {
        self.run_form(self.state.plain.as_fd(), given, repeat)
    }

    fn add(&mut self, form: Form) {
        match form {
            Form::Counted => self.state.counted = self.origin.counted(&self.state),
            Form::Clocked => self.state.clocked = self.origin.clocked(&self.state),
        }
    }

    fn leave_out(&mut self, form: Form, reason: String) {
        match form {
            Form::Counted => self.state.counted = Err(reason),
            Form::Clocked => self.state.clocked = Err(reason),
        }
    }

    fn missing(&self, form: Form) -> Option<&str> {
        let reason = match form {
            Form::Counted => self.state.counted.as_ref().err(),
            Form::Clocked => self.state.clocked.as_ref().err(),
        };
        reason.map(String::as_str)
    }

    fn first_counts(&self, given: Given<'_>) -> Result<(ProgramRun, Counts), BenchError> {
        let counted =
            self.state.counted.as_ref().map_err(|reason| {
                BenchError::NotMeasurable(format!("{}: {reason}", self.name()))
            })?;
        self.count(counted, given, 1)
    }

    fn unpredictable_calls(&self) -> Vec<String> {
        let Origin { linked, contents, .. } = self.origin;
        let codes = contents.targets.codes(linked);
        let insns = codes.iter().flat_map(|code| &code.insns);
        let helpers = insns.filter(|insn| insn.opcode == op::CALL && insn.src() == 0);
        let helpers = helpers.map(|insn| helper_name(insn.immediate));
        let all = helpers.chain(linked.kfuncs.iter().map(|kfunc| kfunc.name.clone()));
        let found: BTreeSet<String> = all.filter(|name| helpers::is_unpredictable(name)).collect();
        found.into_iter().collect()
    }

    fn run_counted(
        &self,
        given: Given<'_>,
        runs: u32,
    ) -> Result<(ProgramRun, Option<u64>), BenchError> {
        let Ok(counted) = &self.state.counted else { return Ok((self.run(given, runs)?, None)) };
        let (run, counts) = self.count(counted, given, runs)?;
        // The counts include runs interrupted by a signal.
        let is_whole = (run.runs, run.retries) == (runs, 0);
        Ok((run, is_whole.then(|| counts.instructions())))
    }

    fn run_calls(&self, given: Given<'_>, runs: u32) -> Result<Row, BenchError> {
        let (counted, form) = match &self.state.counted {
            Ok(counted) => (Some(counted), counted.program.as_fd()),
            Err(_) => (None, self.state.plain.as_fd()),
        };
        counted.map_or(Ok(()), Counted::clear)?;
        let (mut returned, mut changes) = (None, 0);
        for _ in 1..runs {
            let run = self.run_form(form, given, 1)?;
            changes += u32::from(returned.replace(run.return_value) != Some(run.return_value));
        }
        let all = match counted {
            None => None,
            Some(counted) => {
                let before = counted.read(self.name(), &self.state.maps, runs.into())?;
                Some(before.instructions())
            }
        };
        let (last, last_instructions) = self.run_counted(given, 1)?;
        changes += u32::from(returned.is_some_and(|it| it != last.return_value));
        Ok(Row {
            instructions: all.zip(last_instructions).map(|(all, last)| all.saturating_add(last)),
            last_instructions,
            last,
            // The first had no predecessor.
            changes: changes.saturating_sub(1),
        })
    }

    fn move_clocked(&mut self) {
        if self.state.clocked.is_ok() && self.load_time < MOVING_TIME_MAX {
            let moved = self.origin.clocked(&self.state);
            // The time may be over.
            if moved.is_ok() {
                self.state.clocked = moved;
            }
        }
    }

    fn run_clocked(
        &self,
        given: Given<'_>,
        runs: u32,
        leaves: Leaves,
    ) -> Result<Option<Recorded>, BenchError> {
        let Ok(clocked) = &self.state.clocked else { return Ok(None) };
        clocked.results.clear_results()?;
        let (calls, runs) = match leaves {
            Leaves::AsItWas => (1, runs),
            Leaves::Changed { .. } => (runs, 1),
        };
        for _ in 0..calls {
            self.run_form(clocked.program.as_fd(), given, runs)?;
        }
        let value = clocked.results.read_results()?;
        let found =
            read_histogram(&value).map_err(|error| BenchError::NotMeasurable(error.to_string()))?;
        Ok(Some(found))
    }
}

/// Links the programs of an object that can be linked. Fails if the object needs the kernel's types
/// and they are unavailable.
pub(super) fn link(spec: &Spec) -> Result<Vec<Linked>, BenchError> {
    Ok(spec.link_each(types(spec)?.as_ref()).into_iter().filter_map(Result::ok).collect())
}

/// Links one program. Fails if there is none of that name, or it cannot be linked.
pub(super) fn link_one(spec: &Spec, name: &str) -> Result<Linked, BenchError> {
    Ok(spec.link_program(name, types(spec)?.as_ref())?)
}

/// Programs of `chosen` that are not among the `linked`, with reasons.
pub(super) fn unlinked(spec: &Spec, chosen: &[&ProgramSpec], linked: &[Linked]) -> Vec<Failure> {
    let missing =
        |program: &&&ProgramSpec| !linked.iter().any(|linked| linked.program.name == program.name);
    let failures = chosen.iter().filter(missing).filter_map(|program| {
        let reason = match link_one(spec, &program.name).err()? {
            BenchError::Spec(SpecError::Link { reason, .. }) => {
                format!("it cannot be linked: {reason}")
            }
            other => other.to_string(),
        };
        Some(Failure::new(&program.name, reason))
    });
    failures.collect()
}

/// Types of the running kernel, if the object needs them.
fn types(spec: &Spec) -> Result<Option<KernelTypes>, BenchError> {
    if !spec.needs_target_types() {
        return Ok(None);
    }
    let types = KernelTypes::from_kernel().map_err(|error| BenchError::Target {
        file: spec.file().to_owned(),
        reason: error.to_string(),
    })?;
    Ok(Some(types))
}

/// Maximum load time relative to that of the plain program.
const LOAD_PATIENCE: f64 = 4.0;

/// Time granted to every load and its preparation: maps, the first runs.
const LOAD_MIN: Duration = Duration::from_millis(40);

/// Minimum number of samples from bursts; with fewer, batches are better.
const BURST_SAMPLES_MIN: f64 = 6.0;

/// Adds another form of a program under the rules of [`within`], or keeps the reason why that is impossible.
pub(super) fn add<'a, R: Runner<'a>>(
    session: &Session<'a, R>,
    subject: &mut R::Subject,
    form: Form,
    factor: f64,
    share: f64,
) {
    if let Err(reason) = within(session, subject, factor, share, |subject| subject.add(form)) {
        subject.leave_out(form, reason);
    }
}

/// Runs a task that loads the program again, at `factor` times the size, if it ends before `share`
/// of the time has passed; else returns why not.
pub(super) fn within<'a, R: Runner<'a>, T>(
    session: &Session<'a, R>,
    subject: &mut R::Subject,
    factor: f64,
    share: f64,
    job: impl FnOnce(&mut R::Subject) -> T,
) -> Result<T, String> {
    let estimate = subject.load_time().mul_f64(factor);
    if session.runner.is_stopped() {
        return Err("interrupted before".to_owned());
    }
    // Quick tasks are allowed while there is any time.
    let share = if estimate < LOAD_MIN { 1.0 } else { share };
    let begun = session.now();
    if !session.budget.allows(begun, estimate, share) {
        return Err(format!(
            "loading it for that takes about {}, for which the time is too short; increase --time",
            duration_of(estimate)
        ));
    }
    let maps_time = subject.whole_load_time().saturating_sub(subject.load_time());
    let limit = (subject.load_time().mul_f64(LOAD_PATIENCE) + LOAD_MIN + maps_time)
        .min(session.budget.left_until(begun, share).max(estimate));
    let done = session.runner.within(limit, || job(subject));
    match session.now().saturating_duration_since(begun) > limit {
        true => Err(format!(
            "it takes more than {}, several times as long as the program alone",
            duration_of(limit)
        )),
        false => Ok(done),
    }
}

/// Whether there is time for enough samples.
pub(super) fn pays<A: Alternation>(alternation: A, left: Duration) -> Result<A, String> {
    let sample = alternation.sample_time();
    let samples = left.as_secs_f64() / sample.as_secs_f64().max(1e-6);
    match samples >= BURST_SAMPLES_MIN {
        true => Ok(alternation),
        false => Err(format!(
            "loading and running it with the empty program takes {}, of which too few fit into the \
             time",
            duration_of(sample)
        )),
    }
}
