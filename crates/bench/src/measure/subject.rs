//! One program in the kernel, in three forms: as it is, with counters, with a clock around it. All
//! three share the same maps.

use std::os::fd::{AsFd as _, BorrowedFd};

use wingbeat_bpf::{
    ProgramType,
    live::{LiveMap, LiveMaps, Loaded, Loader, RawContext, ResetError, Run, RunInput, run},
    spec::Linked,
};

use super::{BenchError, alternation::Side};
use crate::{
    input::{Entry, Input, MapKind},
    instrument::{
        counters::{self, Instrumented},
        wrapper,
    },
};

/// Entries for one map of the object, by its name.
pub(super) type Contents = Vec<(String, MapKind, Vec<Entry>)>;

/// What is needed to bring a program into the kernel, again and again.
#[derive(Debug)]
pub(super) struct Subject<'a> {
    pub(super) linked: &'a Linked,
    pub(super) loader: &'a Loader,
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
        let mut maps = loader.create_maps()?;
        fill(&mut maps, contents)?;
        let plain = loader.load(&linked.program, &linked.code, &maps.descriptors())?;
        let not_wanted = || "it was not asked for".to_owned();
        let counted = match forms.counted {
            true => Counted::load(linked, loader, &maps, &plain),
            false => Err(not_wanted()),
        };
        let clocked = match forms.clocked {
            true => Clocked::load(linked, loader, &maps),
            false => Err(not_wanted()),
        };
        Ok(Self { maps, plain, counted, clocked })
    }
}

impl Counted {
    fn load(
        linked: &Linked,
        loader: &Loader,
        maps: &LiveMaps,
        plain: &Loaded,
    ) -> Result<Self, String> {
        let number = maps.all().len();
        let options = counters::Options {
            map_fd: i32::try_from(number).map_err(|_| "too many maps".to_owned())?,
            may_throw: linked.throwing_calls().collect(),
            stack_depths_bytes: plain.verifier.stack_depths.clone(),
        };
        let instrumented = counters::instrument(&linked.code, &options)
            .map_err(|error| format!("it cannot be given counters: {error}"))?;
        let notebook =
            LiveMap::notebook(instrumented.plan.value_size_bytes()).map_err(|e| e.to_string())?;
        let program = load_form(linked, loader, maps.descriptors(), &notebook, &instrumented.code)
            .map_err(|reason| format!("the kernel refuses it with counters: {reason}"))?;
        Ok(Self { program, notebook, instrumented })
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
    loader.load(&linked.program, code, &descriptors).map_err(|error| {
        // The first line says it; the log is that of code which the user did not write.
        error.to_string().lines().next().unwrap_or_default().to_owned()
    })
}

/// Puts the contents into the maps.
pub(super) fn fill(maps: &mut LiveMaps, contents: &Contents) -> Result<(), BenchError> {
    for (name, kind, entries) in contents {
        let Some(map) = maps.get_mut(name) else { continue };
        let cpus = map.value_len() / (map.spec().value_size as usize).next_multiple_of(8).max(1);
        let entries = entries
            .iter()
            .map(|entry| Ok((entry.key.clone(), entry.value_for_kernel(*kind, cpus)?)))
            .collect::<Result<Vec<_>, crate::input::MapError>>()
            .map_err(|error| BenchError::Contents {
                path: name.into(),
                reason: error.to_string(),
            })?;
        map.fill(&entries)?;
    }
    Ok(())
}
