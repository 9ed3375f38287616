//! `wingbeat run --profile`: samples the benchmark command with `wingbeat profile`.

use std::{ffi::OsString, os::fd::AsFd as _, time::Duration};

use wingbeat_profiler::{
    debuginfod::DebugFiles,
    export::{self, Format},
    model::Mode,
    session::{self, Options, Printing},
    symbolize::{Symbolized, symbolize},
    targets::Targets,
};
use wingbeat_track::{
    model::ProfileKind,
    run::{Sampled, Sampler},
};

use super::args::ProfileArg;
use crate::shell::{ENDING, signal_socket};

/// About three thousand samples in a benchmark of three seconds.
const FREQUENCY_HZ: u64 = 999;

/// Longer benchmarks are stopped, with enough samples.
const LIMIT: Duration = Duration::from_mins(1);

/// The profiler, as a sampler of benchmarks.
pub(super) struct Profiler {
    mode: Mode,
    kind: ProfileKind,
}

impl ProfileArg {
    /// The sampler; `None` if disabled.
    pub(super) fn profiler(self) -> Option<Profiler> {
        let (mode, kind) = match self {
            Self::Cpu => (Mode::OnCpu, ProfileKind::Cpu),
            Self::OffCpu => (Mode::OffCpu, ProfileKind::OffCpu),
            Self::Auto | Self::Wall => (Mode::Wall, ProfileKind::Wall),
            Self::Instructions => return None,
        };
        Some(Profiler { mode, kind })
    }

    /// Whether to keep exact profiles written by the command.
    pub(super) fn takes_exact(self) -> bool {
        matches!(self, Self::Auto | Self::Instructions)
    }
}

impl Sampler for Profiler {
    fn kind(&self) -> ProfileKind {
        self.kind
    }

    fn sample(&self, words: &[OsString]) -> Result<Sampled, String> {
        let options = Options {
            mode: self.mode,
            frequency_hz: FREQUENCY_HZ,
            duration: Some(LIMIT),
            printing: Printing::Dropped,
            ..Options::new(Targets::Command(words.to_vec()))
        };
        let stop = signal_socket(&ENDING).map_err(|error| error.to_string())?;
        let recording = session::record(&options, stop.as_fd(), &mut |_| {})
            .map_err(|error| error.to_string())?;
        if let Some(ended) = recording.ended.filter(|ended| ended.by_itself && ended.code() != 0) {
            return Err(format!("its run failed with status {}", ended.code()));
        }
        let Symbolized { mut profile, .. } =
            symbolize(&recording, &DebugFiles::default(), &mut |_, _| {});
        profile.retain_benchmark();
        let samples = profile.samples.len() as u64
            + profile.blocked.iter().map(|blocked| blocked.count).sum::<u64>();
        let mut pprof = Vec::new();
        export::write(&profile, Format::Pprof, &mut pprof).map_err(|error| error.to_string())?;
        Ok(Sampled { pprof, samples })
    }
}
