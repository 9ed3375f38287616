//! One program in the kernel, in three forms: as it is, with counters, with a clock around it. All
//! three share the same maps.

use std::os::fd::{AsFd as _, BorrowedFd};

use wingbeat_bpf::{
    ProgramType,
    live::{LiveMap, LiveMaps, Loaded, Loader, ResetError, Run, RunInput, run},
    spec::Linked,
};

use super::{
    BenchError,
    alternation::Side,
    contents::{Contents, fill},
    only_read,
    tail_calls::{CountedTargets, PlainTargets},
};
use crate::{
    counts::Counts,
    input::Input,
    instrument::{
        counters::{self, Instrumented},
        jumps::{Jump, jumps},
        wrapper,
    },
    tail_calls::TailCalls,
};

/// What is needed to bring a program into the kernel, again and again.
#[derive(Debug)]
pub(super) struct Subject<'a> {
    pub(super) linked: &'a Linked,
    loader: &'a Loader,
    contents: &'a Contents,
    forms: Forms,
    state: State,
}

/// The forms of a program that are wanted besides the plain one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Forms {
    pub(super) counted: bool,
    pub(super) clocked: bool,
}

impl Forms {
    pub(super) const ALL: Self = Self { counted: true, clocked: true };
    pub(super) const PLAIN: Self = Self { counted: false, clocked: false };
    pub(super) const COUNTED: Self = Self { counted: true, clocked: false };
}

/// Everything of it that is in the kernel.
#[derive(Debug)]
pub(super) struct State {
    pub(super) maps: LiveMaps,
    pub(super) plain: Loaded,
    /// What its tail calls lead to.
    targets: PlainTargets,
    /// With counters, or why not.
    pub(super) counted: Result<Counted, String>,
    /// With a clock, or why not.
    pub(super) clocked: Result<Clocked, String>,
}

/// A program with counters.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) program: Loaded,
    pub(super) notebook: LiveMap,
    pub(super) instrumented: Instrumented,
    /// Its tail calls.
    pub(super) jumps: Vec<Jump>,
    /// What they lead to, with counters too.
    pub(super) targets: CountedTargets,
}

/// A program with a clock around it.
#[derive(Debug)]
pub(super) struct Clocked {
    pub(super) program: Loaded,
    pub(super) notebook: LiveMap,
}

impl<'a> Subject<'a> {
    /// Brings the program into the kernel.
    pub(super) fn new(
        linked: &'a Linked,
        loader: &'a Loader,
        contents: &'a Contents,
        forms: Forms,
    ) -> Result<Self, BenchError> {
        let state = State::load(linked, loader, contents, forms)?;
        Ok(Self { linked, loader, contents, forms, state })
    }

    /// What brings it into the kernel once more.
    pub(super) fn side(&self) -> Side<'a> {
        Side { linked: self.linked, loader: self.loader, contents: self.contents }
    }

    pub(super) fn r#type(&self) -> ProgramType {
        self.linked.program.r#type
    }

    pub(super) fn state(&self) -> &State {
        &self.state
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
        self.state = State::load(self.linked, self.loader, self.contents, self.forms)?;
        Ok(())
    }

    /// Runs the plain program.
    pub(super) fn run(
        &self,
        input: &Input,
        context: &[u8],
        repeat: u32,
    ) -> Result<Run, BenchError> {
        run_form(self.state.plain.as_fd(), self.r#type(), input, context, repeat)
    }
}

/// Runs a form of a program.
pub(super) fn run_form(
    program: BorrowedFd<'_>,
    r#type: ProgramType,
    input: &Input,
    context: &[u8],
    repeat: u32,
) -> Result<Run, BenchError> {
    Ok(run(program, r#type, RunInput { data: &input.data, context }, repeat)?)
}

impl State {
    fn load(
        linked: &Linked,
        loader: &Loader,
        contents: &Contents,
        forms: Forms,
    ) -> Result<Self, BenchError> {
        let mut maps = loader.create_maps_for(&contents.targets.codes(linked))?;
        fill(&mut maps, contents)?;
        let plain = loader.load(&linked.program, &linked.code, &maps.descriptors())?;
        // What it jumps to may write more.
        if !contents.targets.has_any(linked) {
            only_read::mark(linked, loader, &mut maps);
        }
        let targets = PlainTargets::load(&contents.targets, linked, loader, &maps, &plain);
        let not_wanted = || "it was not asked for".to_owned();
        let counted = match forms.counted {
            true => Counted::load(linked, loader, contents, &maps, (&plain, &targets)),
            false => Err(not_wanted()),
        };
        let clocked = match forms.clocked {
            true => Clocked::load(linked, loader, &maps),
            false => Err(not_wanted()),
        };
        Ok(Self { maps, plain, targets, counted, clocked })
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
        maps: &LiveMaps,
        plain: (&Loaded, &PlainTargets),
    ) -> Result<Self, String> {
        let (plain, plain_targets) = plain;
        let mut targets = CountedTargets::new(plain_targets, &contents.targets, maps)?;
        let descriptors = targets.descriptors(maps);
        let mut counted = Self::alone(linked, loader, maps.all().len(), descriptors, plain)?;
        let itself = (linked, &counted.program);
        targets.fill(plain_targets, &contents.targets, itself, loader, maps)?;
        counted.targets = targets;
        Ok(counted)
    }

    /// The program with counters, without what it jumps to. `descriptors` are those of the object's
    /// `maps`.
    pub(super) fn alone(
        linked: &Linked,
        loader: &Loader,
        maps: usize,
        descriptors: Vec<BorrowedFd<'_>>,
        plain: &Loaded,
    ) -> Result<Self, String> {
        let options = counters::Options {
            map_fd: i32::try_from(maps).map_err(|_| "too many maps".to_owned())?,
            may_throw: linked.throwing_calls().collect(),
            stack_depths_bytes: plain.verifier.stack_depths.clone(),
        };
        let instrumented = counters::instrument(&linked.code, &options)
            .map_err(|error| format!("it cannot be given counters: {error}"))?;
        let notebook =
            LiveMap::notebook(instrumented.plan.value_size_bytes()).map_err(|e| e.to_string())?;
        let program = load_form(linked, loader, descriptors, &notebook, &instrumented.code)
            .map_err(|reason| format!("the kernel refuses it with counters: {reason}"))?;
        let jumps = jumps(&linked.code).unwrap_or_default();
        Ok(Self { program, notebook, instrumented, jumps, targets: CountedTargets::default() })
    }
}

impl Clocked {
    fn load(linked: &Linked, loader: &Loader, maps: &LiveMaps) -> Result<Self, String> {
        let options = wrapper::Options {
            map_fd: i32::try_from(maps.all().len()).map_err(|_| "too many maps".to_owned())?,
            program_type: linked.program.r#type,
            throw_btf_id: None,
        };
        if linked.throwing_calls().next().is_some() {
            return Err("it throws exceptions, which would skip the second clock read".to_owned());
        }
        let wrapped = wrapper::wrap(&linked.code, options).map_err(|error| error.to_string())?;
        let notebook = LiveMap::notebook(wrapped.value_size_bytes).map_err(|e| e.to_string())?;
        let program = load_form(linked, loader, maps.descriptors(), &notebook, &wrapped.code)
            .map_err(|reason| format!("the kernel refuses it with a clock around it: {reason}"))?;
        Ok(Self { program, notebook })
    }
}

/// Loads changed code of a program, with a notebook after the maps.
pub(super) fn load_form<'a>(
    linked: &Linked,
    loader: &Loader,
    mut descriptors: Vec<BorrowedFd<'a>>,
    notebook: &'a LiveMap,
    code: &wingbeat_bpf::code::Code,
) -> Result<Loaded, String> {
    descriptors.push(notebook.as_fd());
    loader.load_briefly(&linked.program, code, &descriptors).map_err(|error| short(&error))
}

/// The first line of an error, which says it, without the verifier's log.
pub(super) fn short(error: &dyn std::error::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}
