//! The recorder for benchmarks and fuzz targets, which can use only public items. Not part of the API.

use super::{Recorder, Scope, event::Event};
use crate::wire::Record;

/// A recorder that follows all processes.
#[derive(Debug)]
pub struct BenchRecorder(Recorder);

impl Default for BenchRecorder {
    /// A recording that starts at time 0.
    fn default() -> Self {
        let mut recorder = Recorder::new(0, Scope::All);
        recorder.watch_blocks();
        recorder.watch_space();
        Self(recorder)
    }
}

impl BenchRecorder {
    /// Adds an event. Events and records must be in time order.
    pub fn event(&mut self, event: Event) {
        self.0.event(event);
    }

    /// Adds a record of the kernel half.
    pub fn record(&mut self, record: Record<'_>) {
        self.0.record(record);
    }

    /// Number of samples and of their distinct stacks.
    pub fn counts(&self) -> (usize, usize) {
        (self.0.samples.len(), self.0.stacks.len())
    }
}
