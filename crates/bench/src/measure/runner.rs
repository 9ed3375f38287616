//! What a measurement needs of whatever runs programs: the kernel, or in tests a stand-in with a clock of
//! its own. The order of a measurement, its budget and its turns are the same for both.

use std::time::{Duration, Instant};

use wingbeat_bpf::{
    ProgramType,
    loader::{Loaded, LoadedMaps, ProgramRun},
    spec::Linked,
};
use wingbeat_stats::random::Random;

use super::{BenchError, bursts::Bursts, feeding::Row};
use crate::{
    counts::{Counts, TailCalls},
    input::Input,
    instrument::wrapper::Recorded,
    result::{Size, Verified, Verifier},
};

/// Time of a run from which on it is made in a process of its own: nothing ends a run that is under
/// way, and somebody who presses Ctrl-C does not want to wait for it.
const LONG: Duration = Duration::from_millis(100);

/// What a program is run with: its input, and its context, which may be empty.
pub(super) type Given<'a> = (&'a Input, &'a [u8]);

/// Whether a run of a program can keep its CPU for long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// It ends soon, as far as is known.
    Short,
    /// It does not, or nobody knows yet: it is run in a process of its own.
    Long,
}

impl Pace {
    /// That of a program of which a run took so long.
    pub(super) fn of(run: &ProgramRun) -> Self {
        if Duration::from_nanos(run.elapsed_ns) < LONG { Self::Short } else { Self::Long }
    }
}

/// How a run leaves the packet and its metadata to the next one of the same call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaves {
    AsItWas,
    /// So that they have to be put back, or each run made by a call of its own.
    Changed {
        /// What runs return that get the packet that was asked for, if that is always the same.
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
    /// What programs are loaded from: an object's loader, and the contents of its maps.
    type Source: Copy;
    type Subject: Subject<'a>;
    type Alternation: Alternation;

    fn now(self) -> Instant;

    /// Sets when the alarm goes off; `None` for never.
    fn set_deadline(self, deadline: Option<Instant>);

    /// Whether the time is over, or somebody wants to stop.
    fn is_over(self) -> bool;

    /// Whether somebody wants to stop.
    fn is_stopped(self) -> bool;

    /// Does something that may take so long at most, and no longer than the deadline that is set.
    fn within<T>(self, limit: Duration, job: impl FnOnce() -> T) -> T;

    /// Brings the plain program in.
    fn load(self, linked: &'a Linked, from: Self::Source) -> Result<Self::Subject, BenchError>;

    /// Loads a program that cannot be run, for what the verifier says of it.
    fn verify(self, linked: &'a Linked, from: Self::Source) -> Result<Facts, BenchError>;

    /// Loads two programs as one image in which they take turns; or says why that cannot be. A run
    /// takes `run_ns` at most, roughly.
    fn alternate(
        self,
        sides: [&Self::Subject; 2],
        given: Given<'a>,
        run: (f64, Leaves),
        random: &mut Random,
    ) -> Result<Self::Alternation, String>;
}

/// A form of a program besides the plain one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// With counters.
    Counted,
    /// With a clock around it.
    Clocked,
}

/// One program in three forms: as it is, with counters, with a clock around it.
pub(super) trait Subject<'a> {
    fn linked(&self) -> &'a Linked;

    /// What it is run with: the context that is `given`, else one made up for it.
    fn context<'c>(&self, given: &'c [u8]) -> &'c [u8]
    where
        'a: 'c;

    /// How long it took to load the plain program.
    fn load_time(&self) -> Duration;

    /// How long it takes to bring in maps and plain program once more, roughly.
    fn whole_load_time(&self) -> Duration;

    fn pace(&self) -> Pace;

    fn facts(&self) -> Facts;

    /// Runs of the plain program that were counted by the kernel's statistics.
    fn run_count(&self) -> u64;

    /// What is known of tail calls, with the counts of a run if there are any.
    fn tail_calls(&self, counts: Option<&Counts>) -> TailCalls;

    /// Counts by line, as gzip'd pprof; `None` where no lines can be told.
    fn profile(&self, counts: &Counts) -> Option<Vec<u8>>;

    /// Puts the maps back to what they were before the first run.
    fn reset(&mut self) -> Result<(), BenchError>;

    /// Loads everything once more: other addresses, fresh maps.
    fn reload(&mut self) -> Result<(), BenchError>;

    /// Runs the plain program once, in a process of its own, and learns how long a run is.
    fn run_first(&mut self, given: Given<'_>) -> Result<ProgramRun, BenchError>;

    /// Runs the plain program.
    fn run(&self, given: Given<'_>, repeat: u32) -> Result<ProgramRun, BenchError>;

    /// Brings in another form, or keeps the reason why that cannot be.
    fn add(&mut self, form: Form);

    /// Keeps a reason why there is no such form.
    fn leave_out(&mut self, form: Form, reason: String);

    /// Why there is no such form.
    fn missing(&self, form: Form) -> Option<&str>;

    /// Counts one run on maps that were just reset.
    fn first_counts(&self, given: Given<'_>) -> Result<(ProgramRun, Counts), BenchError>;

    /// Helpers and kfuncs that it calls and that may give something else on every run.
    fn unpredictable_calls(&self) -> Vec<String>;

    /// Runs it so many times in one call, and tells what all runs executed, if it has counters.
    fn run_counted(
        &self,
        given: Given<'_>,
        runs: u32,
    ) -> Result<(ProgramRun, Option<u64>), BenchError>;

    /// The same in as many calls, each with the packet that was asked for.
    fn run_calls(&self, given: Given<'_>, runs: u32) -> Result<Row, BenchError>;

    /// Loads the form with a clock once more, to another place in memory, unless that takes long.
    fn move_clocked(&mut self);

    /// Runs the form with a clock, and tells what that saw; `None` without a clock. Where packets are
    /// changed, each run is a call of its own.
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

/// Two programs that take turns within one run.
pub(super) trait Alternation {
    /// Loads both anew, at another place, and lets them take turns.
    fn take_turns(&self, random: &mut Random) -> Result<Bursts, BenchError>;

    /// Calls in a burst of one side.
    fn calls(&self, side: usize) -> u32;

    /// How long it takes to load both and to let them take turns.
    fn sample_time(&self) -> Duration;
}

/// What is known of a program once it is loaded.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) verifier: Verifier,
    pub(super) size: Size,
    /// What was made up for the program to be run with where nothing is given, in words.
    pub(super) made_up_context: Option<String>,
}

impl Facts {
    /// Of a program that is loaded with these maps.
    pub(super) fn of(linked: &Linked, loaded: &Loaded, maps: &LoadedMaps) -> Self {
        let size = Size {
            object_instructions: linked.code.insns.len(),
            xlated_bytes: loaded.info.xlated_bytes,
            jited_bytes: loaded.info.jited_bytes,
            map_memory_bytes: maps.memory_bytes(),
        };
        Self { verifier: Verifier::from(&loaded.verifier), size, made_up_context: None }
    }

    /// The figures of a program that was loaded only, for this reason.
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
