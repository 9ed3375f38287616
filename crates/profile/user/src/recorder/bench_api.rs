//! The recorder as benchmarks and fuzz targets see it: they have access to what is public only, and
//! the recorder is not. No part of the interface.

use super::{Recorder, Scope, event::Event};
use crate::wire::Record;

/// A recorder that follows everybody.
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
    /// Takes an event. Events and records must come in the order of their time.
    pub fn event(&mut self, event: Event) {
        self.0.event(event);
    }

    /// Takes a record of the kernel half.
    pub fn record(&mut self, record: Record<'_>) {
        self.0.record(record);
    }

    /// Number of samples taken and of distinct stacks among them.
    pub fn counts(&self) -> (usize, usize) {
        (self.0.samples.len(), self.0.stacks.len())
    }
}
