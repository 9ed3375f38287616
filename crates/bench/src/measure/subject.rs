//! One program in the kernel, in three forms: as it is, with counters, with a clock around it. All
//! three share the same maps.

use std::{
    os::fd::{AsFd as _, BorrowedFd},
    time::{Duration, Instant},
};

use wingbeat_bpf::{
    ProgramType,
    loader::{
        Effort, LoadError, Loaded, LoadedMap, LoadedMaps, Loader, ProgramRun, RawContext,
        ResetError,
    },
    spec::Linked,
};

use super::{
    BenchError,
    alternation::Side,
    contents::{Contents, fill},
    runner::{Pace, Runner},
    tail_calls::{CountedTargets, PlainTargets},
};
use crate::{
    counts::{Counts, TailCalls},
    input::Input,
    instrument::{
        counters::{self, Instrumented},
        jumps::{Jump, jumps},
        wrapper,
    },
};

/// Time from which on maps are created once for all loads of an image.
const MAPS_TIME_MAX: Duration = Duration::from_millis(5);

/// Time of a load up to which a program with a clock is loaded for each batch.
const MOVING_TIME_MAX: Duration = Duration::from_millis(20);

/// What is needed to bring a program into the kernel, again and again.
#[derive(Debug)]
pub(super) struct Subject<'a> {
    pub(super) linked: &'a Linked,
    pub(super) loader: &'a Loader,
    contents: &'a Contents,
    runner: Runner<'a>,
    state: State,
    /// How long it took to create its maps, and to load the plain program.
    maps_time: Duration,
    pub(super) load_time: Duration,
    /// Whether a run may be long; known after the first.
    pace: Pace,
}

/// Everything of it that is in the kernel.
#[derive(Debug)]
pub(super) struct State {
    pub(super) maps: LoadedMaps,
    pub(super) plain: Loaded,
    targets: PlainTargets,
    /// With counters, or why not.
    pub(super) counted: Result<Counted, String>,
    /// With a clock, or why not.
    pub(super) clocked: Result<Clocked, String>,
    /// How long it took to load the plain program.
    load_time: Duration,
}

/// A program with counters.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) program: Loaded,
    pub(super) notebook: LoadedMap,
    pub(super) instrumented: Instrumented,
    pub(super) jumps: Vec<Jump>,
    /// What they lead to, with counters too.
    pub(super) targets: CountedTargets,
}

/// A program with a clock around it.
#[derive(Debug)]
pub(super) struct Clocked {
    pub(super) program: Loaded,
    pub(super) notebook: LoadedMap,
}

impl<'a> Subject<'a> {
    /// Brings the plain program into the kernel.
    pub(super) fn new(
        linked: &'a Linked,
        loader: &'a Loader,
        contents: &'a Contents,
        runner: Runner<'a>,
    ) -> Result<Self, BenchError> {
        let begun = Instant::now();
        let state = State::load(linked, loader, contents, runner)?;
        let load_time = state.load_time;
        let maps_time = begun.elapsed().saturating_sub(load_time);
        let pace = Pace::Long;
        Ok(Self { linked, loader, contents, runner, state, maps_time, load_time, pace })
    }

    /// Brings in the form with counters, or keeps the reason why that cannot be.
    pub(super) fn add_counted(&mut self) {
        self.state.counted =
            Counted::load(self.linked, self.loader, self.contents, &self.state, self.runner);
    }

    /// Brings in the form with a clock, or keeps the reason why that cannot be.
    pub(super) fn add_clocked(&mut self) {
        self.state.clocked = Clocked::load(self.linked, self.loader, &self.state, self.runner);
    }

    /// Loads the form with a clock once more, to another place in memory, unless that takes long.
    pub(super) fn move_clocked(&mut self) {
        if self.state.clocked.is_ok() && self.load_time < MOVING_TIME_MAX {
            let moved = Clocked::load(self.linked, self.loader, &self.state, self.runner);
            // The time may be over.
            if moved.is_ok() {
                self.state.clocked = moved;
            }
        }
    }

    /// Keeps a reason why there are no counters.
    pub(super) fn leave_uncounted(&mut self, reason: String) {
        self.state.counted = Err(reason);
    }

    /// Keeps a reason why there is no clock.
    pub(super) fn leave_unclocked(&mut self, reason: String) {
        self.state.clocked = Err(reason);
    }

    /// What brings it into the kernel once more.
    pub(super) fn side(&self) -> Side<'a> {
        Side {
            linked: self.linked,
            loader: self.loader,
            contents: self.contents,
            maps: (self.maps_time > MAPS_TIME_MAX).then(|| self.state.maps.clone()),
        }
    }

    pub(super) fn r#type(&self) -> ProgramType {
        self.linked.program.r#type
    }

    /// What it is run with: the context that is `given`, else one made up for it.
    pub(super) fn context<'c>(&self, given: &'c [u8]) -> &'c [u8]
    where
        'a: 'c,
    {
        let made_up = || self.loader.made_up_context(&self.linked.program);
        match given {
            [] => made_up().map_or(given, RawContext::bytes),
            _ => given,
        }
    }

    pub(super) fn state(&self) -> &State {
        &self.state
    }

    pub(super) fn runner(&self) -> Runner<'a> {
        self.runner
    }

    /// Puts the maps back to what they were before the first run: in place where that is possible,
    /// else by creating them anew and loading the program again.
    pub(super) fn reset(&mut self) -> Result<(), BenchError> {
        match self.state.maps.reset() {
            Ok(()) => Ok(()),
            Err(ResetError::NotInPlace(_)) => self.reload(),
            Err(ResetError::Map(error)) => Err(error.into()),
        }
    }

    /// Loads everything once more: other addresses, fresh maps.
    pub(super) fn reload(&mut self) -> Result<(), BenchError> {
        let mut state = State::load(self.linked, self.loader, self.contents, self.runner)?;
        // A form that could not be had once is not tried again.
        state.counted = match &self.state.counted {
            Ok(_) => Counted::load(self.linked, self.loader, self.contents, &state, self.runner),
            Err(reason) => Err(reason.clone()),
        };
        state.clocked = match &self.state.clocked {
            Ok(_) => Clocked::load(self.linked, self.loader, &state, self.runner),
            Err(reason) => Err(reason.clone()),
        };
        self.state = state;
        Ok(())
    }

    /// Runs the plain program once, in a process of its own, and learns how long a run is.
    pub(super) fn run_first(
        &mut self,
        input: &Input,
        context: &[u8],
    ) -> Result<ProgramRun, BenchError> {
        let plain = self.state.plain.as_fd();
        let run = self.runner.run(plain, self.r#type(), (input, context), 1, Pace::Long)?;
        self.pace = Pace::of(&run);
        Ok(run)
    }

    /// Runs the plain program.
    pub(super) fn run(
        &self,
        input: &Input,
        context: &[u8],
        repeat: u32,
    ) -> Result<ProgramRun, BenchError> {
        self.run_form(self.state.plain.as_fd(), input, context, repeat)
    }

    /// Runs a form of the program.
    pub(super) fn run_form(
        &self,
        form: BorrowedFd<'_>,
        input: &Input,
        context: &[u8],
        repeat: u32,
    ) -> Result<ProgramRun, BenchError> {
        self.runner.run(form, self.r#type(), (input, context), repeat, self.pace)
    }

    /// How long it takes to bring in maps and plain program once more, roughly.
    pub(super) fn whole_load_time(&self) -> Duration {
        self.load_time + self.maps_time
    }

    pub(super) fn pace(&self) -> Pace {
        self.pace
    }
}

impl State {
    fn load(
        linked: &Linked,
        loader: &Loader,
        contents: &Contents,
        runner: Runner<'_>,
    ) -> Result<Self, BenchError> {
        let load = |maps: LoadedMaps, effort: Effort<'_>| {
            let begun = Instant::now();
            let descriptors = maps.descriptors();
            let plain = loader.load_with(&linked.program, &linked.code, &descriptors, effort)?;
            let load_time = begun.elapsed();
            let not_yet = || "the time was over before".to_owned();
            let (counted, clocked) = (Err(not_yet()), Err(not_yet()));
            let targets = PlainTargets::default();
            Ok(Self { maps, plain, targets, counted, clocked, load_time })
        };
        let codes = contents.targets.codes(linked);
        // What the program cannot write to need not be put back. What it jumps to may write more.
        if loader.has_large_maps() && !contents.targets.has_any(linked) {
            let mut maps = loader.create_maps_for(&codes, true)?;
            fill(&mut maps, contents)?;
            match load(maps, runner.little_effort()) {
                Err(LoadError::Rejected { .. }) => {}
                other => return Ok(other?),
            }
        }
        let mut maps = loader.create_maps_for(&codes, false)?;
        fill(&mut maps, contents)?;
        let mut state = load(maps, runner.effort())?;
        let (targets, effort) = (&contents.targets, runner.little_effort());
        state.targets =
            PlainTargets::load(targets, linked, loader, (&state.maps, &state.plain), effort);
        Ok(state)
    }

    /// What is known of tail calls, with the counts of a run if there are any.
    pub(super) fn tail_calls(&self, counts: Option<&Counts>) -> TailCalls {
        TailCalls {
            programs: counts.map(|it| it.tail_called.clone()).unwrap_or_default(),
            failed: counts.map(|it| it.failed_tail_calls.clone()).unwrap_or_default(),
            missing: self.targets.missing.clone(),
        }
    }
}

impl Counted {
    fn load(
        linked: &Linked,
        loader: &Loader,
        contents: &Contents,
        state: &State,
        runner: Runner<'_>,
    ) -> Result<Self, String> {
        let (maps, effort) = (&state.maps, runner.little_effort());
        let mut targets = CountedTargets::new(&state.targets, &contents.targets, maps)?;
        let descriptors = targets.descriptors(maps);
        let mut counted = Self::alone(linked, loader, descriptors, &state.plain, effort)?;
        let itself = (linked, &counted.program);
        targets.fill((&state.targets, &contents.targets), itself, loader, maps, effort)?;
        counted.targets = targets;
        Ok(counted)
    }

    /// The program with counters, without what it jumps to. `maps` are the descriptors of the object's.
    pub(super) fn alone(
        linked: &Linked,
        loader: &Loader,
        maps: Vec<BorrowedFd<'_>>,
        plain: &Loaded,
        effort: Effort<'_>,
    ) -> Result<Self, String> {
        let options = counters::Options {
            map_fd: i32::try_from(maps.len()).map_err(|_| "too many maps".to_owned())?,
            may_throw: linked.throwing_calls().collect(),
            stack_depths_bytes: plain.verifier.stack_depths.clone(),
        };
        let instrumented = counters::instrument(&linked.code, &options)
            .map_err(|error| format!("it cannot be given counters: {error}"))?;
        let notebook =
            LoadedMap::notebook(instrumented.plan.value_size_bytes()).map_err(|e| e.to_string())?;
        let descriptors = [maps.as_slice(), &[notebook.as_fd()]].concat();
        let program =
            loader.load_with(&linked.program, &instrumented.code, &descriptors, effort).map_err(
                |error| format!("the kernel refuses it with counters: {}", short(&error)),
            )?;
        let jumps = jumps(&linked.code).unwrap_or_default();
        Ok(Self { program, notebook, instrumented, jumps, targets: CountedTargets::default() })
    }
}

impl Clocked {
    fn load(
        linked: &Linked,
        loader: &Loader,
        state: &State,
        runner: Runner<'_>,
    ) -> Result<Self, String> {
        let number = state.maps.all().len();
        let options = wrapper::Options {
            map_fd: i32::try_from(number).map_err(|_| "too many maps".to_owned())?,
            program_type: linked.program.r#type,
            throw_btf_id: None,
        };
        if linked.throwing_calls().next().is_some() {
            return Err("it throws exceptions, which would skip the second clock read".to_owned());
        }
        let wrapped = wrapper::wrap(&linked.code, options).map_err(|error| error.to_string())?;
        let notebook = LoadedMap::notebook(wrapped.value_size_bytes).map_err(|e| e.to_string())?;
        let mut descriptors = state.maps.descriptors();
        descriptors.push(notebook.as_fd());
        let effort = runner.little_effort();
        let program =
            loader.load_with(&linked.program, &wrapped.code, &descriptors, effort).map_err(
                |error| format!("the kernel refuses it with a clock around it: {}", short(&error)),
            )?;
        Ok(Self { program, notebook })
    }
}

/// The first line of an error, which says it, without the verifier's log.
pub(super) fn short(error: &dyn std::error::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}
