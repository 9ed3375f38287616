//! Time of single runs: batches of the program with a clock around it, and what the clock has written.

use std::os::fd::AsFd as _;

use super::{BenchError, subject::Subject};
use crate::{
    input::Input,
    instrument::wrapper::{Recorded, read_histogram},
};

/// Batches that are kept one by one: more would only make the interval of their median narrower.
const BATCHES_MAX: usize = 200;

/// Runs of the program with a clock, so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Clockings {
    /// Added up over all batches; `None` before the first.
    pub(super) recorded: Option<Recorded>,
    /// The first batches, one by one.
    pub(super) batches: Vec<Recorded>,
}

impl Clockings {
    /// Runs one batch and adds what the clock saw.
    pub(super) fn batch(
        &mut self,
        subject: &Subject<'_>,
        input: &Input,
        context: &[u8],
        runs: u32,
    ) -> Result<(), BenchError> {
        let Ok(clocked) = &subject.state().clocked else { return Ok(()) };
        clocked.notebook.clear_notebook()?;
        subject.run_form(clocked.program.as_fd(), input, context, runs)?;
        let value = clocked.notebook.read_notebook()?;
        let found =
            read_histogram(&value).map_err(|error| BenchError::NotMeasurable(error.to_string()))?;
        if self.batches.len() < BATCHES_MAX {
            self.batches.push(found.clone());
        }
        match &mut self.recorded {
            Some(sum) => sum.add(&found),
            None => self.recorded = Some(found),
        }
        Ok(())
    }
}
