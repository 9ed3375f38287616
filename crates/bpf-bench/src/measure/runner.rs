//! Interface of a measurement to what runs programs: the kernel, or in tests a fake with its own
//! clock. Schedule, budget and slots are the same for both.

use std::time::{Duration, Instant};

use wingbeat_bpf_loader::{
    ProgramType,
    loader::{Loaded, LoadedMaps, ProgramRun},
    spec::Linked,
};
use wingbeat_stats::random::Random;

use super::{BenchError, alternation::Bursts, feeding::Row};
use crate::{
    counts::{Counts, TailCalls},
    input::Input,
    instrument::wrapper::Recorded,
    result::{Size, Verified, Verifier},
};

/// Run time from which on a separate process is used: nothing interrupts an active run, and Ctrl-C
/// should not have to wait for it.
const LONG: Duration = Duration::from_millis(100);

/// Arguments of a run: its input, and its context, which may be empty.
pub(super) type Given<'a> = (&'a Input, &'a [u8]);

/// Whether a run of a program can occupy its CPU for long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// Ends soon, as far as is known.
    Short,
    /// Takes long, or is unknown: run in a separate process.
    Long,
}

impl Pace {
    /// Pace of a program with this run time.
    pub(super) fn of(run: &ProgramRun) -> Self {
        if Duration::from_nanos(run.elapsed_ns) < LONG { Self::Short } else { Self::Long }
    }
}

/// How a run leaves the packet and its metadata to the next run of the same call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaves {
    AsItWas,
    /// Changed: they have to be restored, or each run needs its own call.
    Changed {
        /// Return value of runs with the requested packet, if it is constant.
        returns: Option<u32>,
    },
}

impl Leaves {
    pub(super) fn is_changed(self) -> bool {
        self != Self::AsItWas
    }
}

/// Loads programs and runs them until its alarm goes off.
pub(super) trait Runner<'a>: Copy {
    /// Source of programs: an object's loader, and the contents of its maps.
    type Source: Copy;
    type Subject: Subject<'a>;
    type Alternation: Alternation;

    fn now(self) -> Instant;

    /// Sets when the alarm goes off; `None` for never.
    fn set_deadline(self, deadline: Option<Instant>);

    /// Whether the time is over, or the user wants to stop.
    fn is_over(self) -> bool;

    /// Whether the user wants to stop.
    fn is_stopped(self) -> bool;

    /// Runs a job with a time limit, in addition to the deadline.
    fn within<T>(self, limit: Duration, job: impl FnOnce() -> T) -> T;

    /// Loads the plain program.
    fn load(self, linked: &'a Linked, from: Self::Source) -> Result<Self::Subject, BenchError>;

    /// Loads a program that cannot be run, for its verifier figures.
    fn verify(self, linked: &'a Linked, from: Self::Source) -> Result<Facts, BenchError>;

    /// Loads two programs as one image in which they alternate; or returns why that is impossible.
    /// A run takes about `run_ns` at most.
    fn alternate(
        self,
        sides: [&Self::Subject; 2],
        given: Given<'a>,
        run: (f64, Leaves),
        random: &mut Random,
    ) -> Result<Self::Alternation, String>;
}

/// A form of a program other than the plain one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// With counters.
    Counted,
    /// With a clock.
    Clocked,
}

/// One program in three forms: plain, with counters, with a clock.
pub(super) trait Subject<'a> {
    fn linked(&self) -> &'a Linked;

    /// The context of its runs: the `given` one, else a synthesized one.
    fn context<'c>(&self, given: &'c [u8]) -> &'c [u8]
    where
        'a: 'c;

    /// Time to load the plain program.
    fn load_time(&self) -> Duration;

    /// Approximate time to create maps and load the plain program again.
    fn whole_load_time(&self) -> Duration;

    fn pace(&self) -> Pace;

    fn facts(&self) -> Facts;

    /// Runs of the plain program that the kernel's statistics counted.
    fn run_count(&self) -> u64;

    /// Tail calls of the program, with the counts of a run if available.
    fn tail_calls(&self, counts: Option<&Counts>) -> TailCalls;

    /// Counts by line, as gzip'd pprof; `None` without line information.
    fn profile(&self, counts: &Counts) -> Option<Vec<u8>>;

    /// Resets the maps to the state before the first run.
    fn reset(&mut self) -> Result<(), BenchError>;

    /// Loads everything again: other addresses, fresh maps.
    fn reload(&mut self) -> Result<(), BenchError>;

    /// Runs the plain program once, in a separate process, and learns its run time.
    fn run_first(&mut self, given: Given<'_>) -> Result<ProgramRun, BenchError>;

    /// Runs the plain program.
    fn run(&self, given: Given<'_>, repeat: u32) -> Result<ProgramRun, BenchError>;

    /// Adds another form, or keeps the reason why that is impossible.
    fn add(&mut self, form: Form);

    /// Keeps a reason for a missing form.
    fn leave_out(&mut self, form: Form, reason: String);

    /// Why a form is missing.
    fn missing(&self, form: Form) -> Option<&str>;

    /// Counts one run on maps that were just reset.
    fn first_counts(&self, given: Given<'_>) -> Result<(ProgramRun, Counts), BenchError>;

    /// Helpers and kfuncs it calls whose results may differ on every run.
    fn unpredictable_calls(&self) -> Vec<String>;

    /// Runs it `runs` times in one call, and returns the instructions of all runs, if it has counters.
    fn run_counted(
        &self,
        given: Given<'_>,
        runs: u32,
    ) -> Result<(ProgramRun, Option<u64>), BenchError>;

    /// Runs it in separate calls, each with the requested packet.
    fn run_calls(&self, given: Given<'_>, runs: u32) -> Result<Row, BenchError>;

    /// Reloads the form with a clock to change its address, unless that takes long.
    fn move_clocked(&mut self);

    /// Runs the form with a clock and returns its records; `None` without a clock. If packets are
    /// changed, each run is a separate call.
    fn run_clocked(
        &self,
        given: Given<'_>,
        runs: u32,
        leaves: Leaves,
    ) -> Result<Option<Recorded>, BenchError>;

    fn r#type(&self) -> ProgramType {
        self.linked().program.r#type
    }

    fn name(&self) -> &'a str {
        &self.linked().program.name
    }
}

/// Two programs that alternate within one run.
pub(super) trait Alternation {
    /// Loads both again, at another address, and alternates them.
    fn run_bursts(&self, random: &mut Random) -> Result<Bursts, BenchError>;

    /// Calls in a burst of one side.
    fn calls(&self, side: usize) -> u32;

    /// Time to load both and run one sample.
    fn sample_time(&self) -> Duration;
}

/// Properties of a loaded program.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) verifier: Verifier,
    pub(super) size: Size,
    /// Description of the context synthesized if none is given.
    pub(super) made_up_context: Option<String>,
}

impl Facts {
    /// Properties of a program loaded with these maps.
    pub(super) fn of(linked: &Linked, loaded: &Loaded, maps: &LoadedMaps) -> Self {
        let size = Size {
            object_instructions: linked.code.insns.len(),
            xlated_bytes: loaded.info.xlated_bytes,
            jited_bytes: loaded.info.jited_bytes,
            map_memory_bytes: maps.memory_bytes(),
        };
        Self { verifier: Verifier::from(&loaded.verifier), size, made_up_context: None }
    }

    /// Figures of a program that was only loaded, for this reason.
    pub(super) fn loaded_only(self, linked: &Linked, reason: &str) -> Verified {
        Verified {
            name: linked.program.name.clone(),
            r#type: linked.program.r#type.name(),
            reason: reason.to_owned(),
            verifier: self.verifier,
            size: self.size,
        }
    }
}
