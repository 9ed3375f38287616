//! Loads a program into the kernel, repeatedly: its maps, itself, and its forms.

use std::{
    os::fd::AsFd as _,
    time::{Duration, Instant},
};

use wingbeat_bpf_loader::{
    loader::{Effort, Loaded, LoadedMap, LoadedMaps, Loader},
    spec::Linked,
};

use super::{
    BenchError,
    contents::{Contents, PlainTargets, fill},
    counted::Counted,
    error::short,
    kernel::Kernel,
};
use crate::instrument::wrapper::{self, histogram::VALUE_SIZE_BYTES};

/// Maximum time to test for each large map whether the program writes to it.
const TRIALS_TIME_MAX: Duration = Duration::from_secs(1);

/// Everything needed to load a program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin<'a> {
    pub(super) linked: &'a Linked,
    pub(super) loader: &'a Loader,
    pub(super) contents: &'a Contents,
    pub(super) kernel: Kernel<'a>,
}

/// Everything of a program that is in the kernel.
#[derive(Debug)]
pub(super) struct State {
    pub(super) maps: LoadedMaps,
    /// Numbers of the maps that the kernel protects from writes by programs.
    pub(super) unwritten: Vec<usize>,
    pub(super) plain: Loaded,
    pub(super) targets: PlainTargets,
    /// With counters, or why not.
    pub(super) counted: Result<Counted, String>,
    /// With a clock, or why not.
    pub(super) clocked: Result<Clocked, String>,
    /// Time to create and fill the maps, and to load the plain program.
    pub(super) maps_time: Duration,
    pub(super) load_time: Duration,
}

/// A program with a clock.
#[derive(Debug)]
pub(super) struct Clocked {
    pub(super) program: Loaded,
    pub(super) results: LoadedMap,
}

impl Origin<'_> {
    /// Loads the plain program.
    pub(super) fn load(self) -> Result<State, BenchError> {
        self.load_with(&self.unwritten(), self.kernel.effort())
    }

    /// Numbers of large maps that the program cannot write to, and that need no reset. Its tail
    /// call targets may write to more.
    fn unwritten(self) -> Vec<usize> {
        let Self { linked, loader, contents, kernel } = self;
        let large = match contents.targets.has_any(linked) {
            true => Vec::new(),
            false => loader.large_maps(&[&linked.code]),
        };
        let begun = Instant::now();
        let is_taken = |unwritten: &[usize]| {
            let maps = loader.create_trial_maps(&linked.code, unwritten);
            maps.is_ok_and(|maps| {
                let (descriptors, effort) = (maps.descriptors(), kernel.little_effort());
                loader.load_with(&linked.program, &linked.code, &descriptors, effort).is_ok()
            })
        };
        if large.is_empty() || is_taken(&large) {
            return large;
        }
        let trials = u32::try_from(large.len()).unwrap_or(u32::MAX);
        let is_tried = trials > 1 && begun.elapsed().saturating_mul(trials) < TRIALS_TIME_MAX;
        large.into_iter().filter(|&number| is_tried && is_taken(&[number])).collect()
    }

    /// Loads it with the maps numbered `unwritten` protected from writes by programs.
    pub(super) fn load_with(
        self,
        unwritten: &[usize],
        effort: Effort<'_>,
    ) -> Result<State, BenchError> {
        let Self { linked, loader, contents, kernel } = self;
        let begun = Instant::now();
        let mut maps = loader.create_maps_for(&contents.targets.codes(linked), unwritten)?;
        fill(&mut maps, contents, kernel.alarm)?;
        let maps_time = begun.elapsed();
        let begun = Instant::now();
        let plain = loader.load_with(&linked.program, &linked.code, &maps.descriptors(), effort)?;
        let load_time = begun.elapsed();
        let (targets, effort) = (&contents.targets, kernel.little_effort());
        let targets = PlainTargets::load(targets, linked, loader, (&maps, &plain), effort);
        let not_yet = || "the time ran out before".to_owned();
        let (counted, clocked) = (Err(not_yet()), Err(not_yet()));
        let unwritten = unwritten.to_vec();
        Ok(State { maps, unwritten, plain, targets, counted, clocked, maps_time, load_time })
    }

    /// Loads it with counters.
    pub(super) fn counted(self, state: &State) -> Result<Counted, String> {
        let loaded = (&state.maps, &state.plain, &state.targets);
        let effort = self.kernel.little_effort();
        Counted::load((self.linked, self.loader), &self.contents.targets, loaded, effort)
    }

    /// Loads it with a clock.
    pub(super) fn clocked(self, state: &State) -> Result<Clocked, String> {
        let Self { linked, loader, kernel, .. } = self;
        let number = state.maps.all().len();
        let options = wrapper::Options {
            map_fd: i32::try_from(number).map_err(|_| "too many maps".to_owned())?,
            program_type: linked.program.r#type,
            restored: None,
        };
        if linked.throwing_calls().next().is_some() {
            return Err("it throws exceptions, which would skip the second clock read".to_owned());
        }
        let wrapped = wrapper::wrap(&linked.code, options).map_err(|error| error.to_string())?;
        let results = LoadedMap::results(VALUE_SIZE_BYTES).map_err(|e| e.to_string())?;
        let mut descriptors = state.maps.descriptors();
        descriptors.push(results.as_fd());
        let effort = kernel.little_effort();
        let program =
            loader.load_with(&linked.program, &wrapped, &descriptors, effort).map_err(|error| {
                format!("the kernel refuses it with a clock around it: {}", short(&error))
            })?;
        Ok(Clocked { program, results })
    }
}
