//! One program with a tracer at its entry and one at its exit.

use std::os::fd::{AsFd as _, BorrowedFd};

use wingbeat_bpf_loader::loader::{
    LoadedMap, MapError, Moment, PerfCounter, TraceTarget, Tracer, TrampolineError,
};

use crate::instrument::tracer::{
    Notebook, Tracers, WrongLen, read_notebook, tracers, value_len_bytes,
};

/// Why the single runs of a program cannot be timed.
#[derive(Debug, thiserror::Error)]
pub(super) enum RecorderError {
    #[error(transparent)]
    Trampoline(#[from] TrampolineError),
    #[error(transparent)]
    Map(#[from] MapError),
    #[error(transparent)]
    Wrong(#[from] WrongLen),
    #[error("cannot read how many runs were left out: {0}")]
    Misses(std::io::Error),
}

/// Recorded and missed runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Recording {
    pub(super) notebook: Notebook,
    /// Runs for which the kernel skipped a tracer that was already running on that CPU.
    pub(super) recursion_misses: u64,
}

/// Times the runs of one program while it lives.
#[derive(Debug)]
pub(super) struct Recorder {
    entry: Tracer,
    exit: Tracer,
    notebook: LoadedMap,
    counters: usize,
}

impl Recorder {
    /// Starts timing the runs of `program`.
    pub(super) fn attach(
        program: BorrowedFd<'_>,
        counters: &[PerfCounter],
    ) -> Result<Self, RecorderError> {
        let target = TraceTarget::new(program)?;
        let notebook = LoadedMap::notebook_per_cpu(value_len_bytes(counters.len()))?;
        let mut maps = vec![notebook.as_fd()];
        maps.extend(counters.iter().map(|counter| counter.as_fd()));
        let code: Tracers = tracers(counters.len());
        let mut entry = Tracer::load(target, Moment::Entry, &code.entry, &maps)?;
        let mut exit = Tracer::load(target, Moment::Exit, &code.exit, &maps)?;
        // Attach the exit first, so that no recorded run lacks its exit. Clears what it records
        // until the entry is attached.
        exit.attach()?;
        notebook.clear_notebook()?;
        entry.attach()?;
        Ok(Self { entry, exit, notebook, counters: counters.len() })
    }

    /// Reads the records so far.
    pub(super) fn read(&self) -> Result<Notebook, RecorderError> {
        Ok(read_notebook(&self.notebook.read_notebook()?, self.counters)?)
    }

    /// Detaches the tracers and returns their records. Nothing writes meanwhile, so all figures are consistent.
    pub(super) fn finish(mut self) -> Result<Recording, RecorderError> {
        self.entry.detach();
        self.exit.detach();
        let misses = |tracer: &Tracer| tracer.recursion_misses().map_err(RecorderError::Misses);
        let recursion_misses = misses(&self.entry)?.saturating_add(misses(&self.exit)?);
        Ok(Recording { notebook: self.read()?, recursion_misses })
    }
}
