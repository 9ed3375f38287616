//! One program in the kernel, in three forms: as it is, with counters, with a clock around it. All
//! three share the same maps. The kernel as a runner loads them.

use std::{
    collections::BTreeSet,
    os::fd::{AsFd as _, BorrowedFd},
    time::{Duration, Instant},
};

use wingbeat_bpf::{
    code::op,
    helpers,
    loader::{
        Effort, LoadError, Loaded, LoadedMap, LoadedMaps, Loader, ProgramRun, RawContext,
        ResetError,
    },
    program::ProgramInfo,
    spec::Linked,
};
use wingbeat_stats::random::Random;

use super::{
    BenchError,
    alternation::{Image, Side},
    contents::{Contents, fill},
    counted::Counted,
    error::short,
    kernel::Kernel,
    runner::{Facts, Form, Given, Pace, Runner, Subject},
    tail_calls::PlainTargets,
};
use crate::{
    annotate::profile,
    counts::{Counts, TailCalls, helper_name},
    instrument::wrapper::{self, Recorded, histogram::VALUE_SIZE_BYTES, read_histogram},
};

/// Time from which on maps are created once for all loads of an image.
const MAPS_TIME_MAX: Duration = Duration::from_millis(5);

/// Runs after which the maps are taken to be in the state that the batches see; fewer where they would
/// take longer than this, and none where not even so many fit.
const SETTLING_RUNS: u32 = 4_096;
const SETTLING_RUNS_MIN: u32 = 64;
const SETTLING_NS: f64 = 100e6;

/// Time that it may take to find out of each large map by itself whether the program writes to it.
const TRIALS_TIME_MAX: Duration = Duration::from_secs(1);

/// Time of a load up to which a program with a clock is loaded for each batch.
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
        run_ns: f64,
        random: &mut Random,
    ) -> Result<Image<'a>, String> {
        Image::new(sides.map(KernelSubject::side), given, run_ns, self, random)
    }
}

/// A program in the kernel, and what is needed to bring it there again.
#[derive(Debug)]
pub(super) struct KernelSubject<'a> {
    origin: Origin<'a>,
    state: State,
    /// How long it took to create its maps, and to load the plain program.
    maps_time: Duration,
    load_time: Duration,
    /// Whether a run may be long; known after the first.
    pace: Pace,
}

/// What brings a program into the kernel.
#[derive(Debug, Clone, Copy)]
struct Origin<'a> {
    linked: &'a Linked,
    loader: &'a Loader,
    contents: &'a Contents,
    kernel: Kernel<'a>,
}

/// Everything of it that is in the kernel.
#[derive(Debug)]
struct State {
    maps: LoadedMaps,
    /// Numbers of the maps that the kernel lets no program write to.
    unwritten: Vec<usize>,
    plain: Loaded,
    targets: PlainTargets,
    /// With counters, or why not.
    counted: Result<Counted, String>,
    /// With a clock, or why not.
    clocked: Result<Clocked, String>,
    /// How long it took to create and fill the maps, and to load the plain program.
    maps_time: Duration,
    load_time: Duration,
}

/// A program with a clock around it.
#[derive(Debug)]
struct Clocked {
    program: Loaded,
    notebook: LoadedMap,
}

impl<'a> KernelSubject<'a> {
    /// Brings the plain program into the kernel.
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

    /// What brings it into the kernel once more.
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
        profile::of_counts(&linked.code, loader.types(), counts).ok()
    }

    /// In place where that is possible, else by creating the maps anew and loading the program again.
    fn reset(&mut self) -> Result<(), BenchError> {
        match self.state.maps.reset(self.origin.kernel.alarm) {
            Ok(()) => Ok(()),
            Err(ResetError::NotInPlace(_)) => self.reload(),
            Err(error) => Err(error.into()),
        }
    }

    fn reload(&mut self) -> Result<(), BenchError> {
        let mut state =
            self.origin.load_with(&self.state.unwritten, self.origin.kernel.effort())?;
        // A form that could not be had once is not tried again.
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

    fn settled_counts(
        &self,
        given: Given<'_>,
        run_ns: f64,
        counted_runs: u32,
    ) -> Result<Option<Counts>, BenchError> {
        let Ok(counted) = &self.state.counted else { return Ok(None) };
        // Within 0 and SETTLING_RUNS.
        let runs = (SETTLING_NS / run_ns).clamp(0.0, f64::from(SETTLING_RUNS)) as u32;
        if runs < SETTLING_RUNS_MIN {
            return Ok(None);
        }
        self.run_form(counted.program.as_fd(), given, runs)?;
        Ok(Some(self.count(counted, given, counted_runs)?.1))
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

    fn move_clocked(&mut self) {
        if self.state.clocked.is_ok() && self.load_time < MOVING_TIME_MAX {
            let moved = self.origin.clocked(&self.state);
            // The time may be over.
            if moved.is_ok() {
                self.state.clocked = moved;
            }
        }
    }

    fn run_clocked(&self, given: Given<'_>, runs: u32) -> Result<Option<Recorded>, BenchError> {
        let Ok(clocked) = &self.state.clocked else { return Ok(None) };
        clocked.notebook.clear_notebook()?;
        self.run_form(clocked.program.as_fd(), given, runs)?;
        let value = clocked.notebook.read_notebook()?;
        let found =
            read_histogram(&value).map_err(|error| BenchError::NotMeasurable(error.to_string()))?;
        Ok(Some(found))
    }
}

impl Origin<'_> {
    /// Loads the plain program. Large maps that it cannot write to need not be put back; what it jumps
    /// to may write to more.
    fn load(self) -> Result<State, BenchError> {
        let Self { linked, loader, contents, kernel } = self;
        let large = match contents.targets.has_any(linked) {
            true => Vec::new(),
            false => loader.large_maps(&[&linked.code]),
        };
        if large.is_empty() {
            return self.load_with(&[], kernel.effort());
        }
        let begun = Instant::now();
        match self.load_with(&large, kernel.little_effort()) {
            Err(BenchError::Load(LoadError::Rejected { .. })) => {}
            other => return other,
        }
        let trials = u32::try_from(large.len()).unwrap_or(u32::MAX);
        let is_tried = trials > 1 && begun.elapsed().saturating_mul(trials) < TRIALS_TIME_MAX;
        let is_unwritten =
            |number: &usize| self.load_plain(&[*number], kernel.little_effort()).is_ok();
        let unwritten: Vec<usize> =
            large.into_iter().filter(|number| is_tried && is_unwritten(number)).collect();
        self.load_with(&unwritten, kernel.effort())
    }

    /// Loads it with maps of which the kernel lets nobody write to those number `unwritten`.
    fn load_with(self, unwritten: &[usize], effort: Effort<'_>) -> Result<State, BenchError> {
        let Self { linked, loader, contents, kernel } = self;
        let begun = Instant::now();
        let (mut maps, plain, load_time) = self.load_plain(unwritten, effort)?;
        fill(&mut maps, contents, kernel.alarm)?;
        let maps_time = begun.elapsed().saturating_sub(load_time);
        let (targets, effort) = (&contents.targets, kernel.little_effort());
        let targets = PlainTargets::load(targets, linked, loader, (&maps, &plain), effort);
        let not_yet = || "the time ran out before".to_owned();
        let (counted, clocked) = (Err(not_yet()), Err(not_yet()));
        let unwritten = unwritten.to_vec();
        Ok(State { maps, unwritten, plain, targets, counted, clocked, maps_time, load_time })
    }

    /// Loads it with maps that are empty; gives the time of the load too.
    fn load_plain(
        self,
        unwritten: &[usize],
        effort: Effort<'_>,
    ) -> Result<(LoadedMaps, Loaded, Duration), BenchError> {
        let Self { linked, loader, contents, .. } = self;
        let maps = loader.create_maps_for(&contents.targets.codes(linked), unwritten)?;
        let begun = Instant::now();
        let plain = loader.load_with(&linked.program, &linked.code, &maps.descriptors(), effort)?;
        Ok((maps, plain, begun.elapsed()))
    }

    /// Loads it with counters.
    fn counted(self, state: &State) -> Result<Counted, String> {
        let loaded = (&state.maps, &state.plain, &state.targets);
        let effort = self.kernel.little_effort();
        Counted::load((self.linked, self.loader), &self.contents.targets, loaded, effort)
    }

    /// Loads it with a clock around it.
    fn clocked(self, state: &State) -> Result<Clocked, String> {
        let Self { linked, loader, kernel, .. } = self;
        let number = state.maps.all().len();
        let options = wrapper::Options {
            map_fd: i32::try_from(number).map_err(|_| "too many maps".to_owned())?,
            program_type: linked.program.r#type,
        };
        if linked.throwing_calls().next().is_some() {
            return Err("it throws exceptions, which would skip the second clock read".to_owned());
        }
        let wrapped = wrapper::wrap(&linked.code, options).map_err(|error| error.to_string())?;
        let notebook = LoadedMap::notebook(VALUE_SIZE_BYTES).map_err(|e| e.to_string())?;
        let mut descriptors = state.maps.descriptors();
        descriptors.push(notebook.as_fd());
        let effort = kernel.little_effort();
        let program =
            loader.load_with(&linked.program, &wrapped, &descriptors, effort).map_err(|error| {
                format!("the kernel refuses it with a clock around it: {}", short(&error))
            })?;
        Ok(Clocked { program, notebook })
    }
}
