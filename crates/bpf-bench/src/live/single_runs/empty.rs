//! The ruler of single runs: an empty program with the same tracers, and the tracers' overhead.

use std::{io, os::fd::AsFd as _};

use wingbeat_bpf_loader::{loader::PerfCounter, ruler::Ruler};

use super::{
    CounterReport, EmptyRuns, SingleRuns,
    recorder::{Recorder, RecorderError},
};

/// Why an empty program cannot be measured. If the kernel rejects tracers here, it rejects them everywhere.
#[derive(Debug, thiserror::Error)]
pub(super) enum EmptyError {
    #[error("an empty program cannot be loaded with type information: {0}")]
    Load(io::Error),
    #[error("an empty program cannot be run: {0}")]
    Run(io::Error),
    #[error(transparent)]
    Recorder(#[from] RecorderError),
    #[error("the tracers of an empty program recorded none of its runs")]
    Nothing,
}

/// Results of an empty program.
#[derive(Debug)]
pub(super) struct Empty {
    pub(super) runs: EmptyRuns,
    pub(super) were_statistics_on: bool,
}

/// Runs an empty program without and with tracers.
pub(super) fn measure(counters: &[PerfCounter]) -> Result<Empty, EmptyError> {
    let ruler = Ruler::load_with_types().map_err(EmptyError::Load)?;
    let were_statistics_on = ruler.are_statistics_on().map_err(EmptyError::Run)?;
    let bare_ns = ruler.mean_run_ns().map_err(EmptyError::Run)?;
    let recorder = Recorder::attach(ruler.as_fd(), counters)?;
    let traced_ns = ruler.mean_run_ns().map_err(EmptyError::Run)?;
    let recording = recorder.finish()?;
    let single_runs = SingleRuns::new(&recording, None).ok_or(EmptyError::Nothing)?;
    let counters = counters.iter().zip(&recording.notebook.counters).map(|(counter, &sums)| {
        CounterReport::new(counter.event(), sums, recording.notebook.recorded.count, None)
    });
    Ok(Empty {
        runs: EmptyRuns {
            counters: counters.collect(),
            added_ns: f64::from(traced_ns) - f64::from(bare_ns),
            single_runs,
        },
        were_statistics_on,
    })
}
