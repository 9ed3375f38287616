//! A recording that goes on: in windows, each a profile of its own.

use std::{
    io, mem,
    os::fd::BorrowedFd,
    path::Path,
    time::{Duration, Instant},
};

use super::{
    Options, Rates, TableCounts, counters::Counters, memory::return_free_pages, run::Session,
    started, tables::Tables,
};
use crate::{
    counts::Ticks,
    debuginfod::DebugFiles,
    error::RecordError,
    model::{Mode, Profile},
    recorder::threads::Lineage,
    symbolize::{
        known::{KnownNames, NameCounts},
        lookup::{Asked, Detail},
        name,
    },
};

/// So often in a row nothing is left to build after such a time, before it counts as warm.
const WARM_TURNS: u32 = 10;
const WARM_TURN: Duration = Duration::from_millis(30);

/// A recording without an end. Between two windows it goes on: what is sampled then belongs to the next.
pub struct Continuous {
    session: Session,
    options: Options,
    known: KnownNames,
    before: Counters,
    events_lost_before: u64,
    /// Of the recorder's list.
    kernel_code_seen: usize,
    /// What is to be taken from the next window on.
    rates: Rates,
}

/// What was recorded in a window.
#[derive(Debug)]
pub struct Window {
    pub profile: Profile,
    pub lineage: Lineage,
    pub ticks: Ticks,
    /// Events about processes and mappings that did not fit into their buffers.
    pub events_lost: u64,
    /// Switches of threads that were seen and could not be reported.
    pub switches_lost: u64,
    /// What the unwind tables take in the kernel.
    pub tables: Option<TableCounts>,
    /// Since the beginning.
    pub names: NameCounts,
    /// Why names that were found could not be kept on disk.
    pub names_error: Option<io::Error>,
    /// `stop` was given: it is the last one.
    pub is_last: bool,
}

impl Continuous {
    /// Begins to record what runs; with [`Mode::Wall`] the time off the CPU too.
    ///
    /// # Errors
    ///
    /// As [`record`](super::record) has them.
    pub fn start(options: Options) -> Result<Self, RecordError> {
        let session = started(&options)?;
        let before = session.kernel_half.counters()?;
        let known = KnownNames::default();
        let rates = options.rates();
        let (events_lost_before, kernel_code_seen) = (0, 0);
        Ok(Self { session, options, known, before, events_lost_before, kernel_code_seen, rates })
    }

    /// Records what is in no window, until there are unwind tables of what runs, but no longer than that: without them
    /// samples take copies of their stacks along, for which there is little room. The first window begins now.
    ///
    /// # Errors
    ///
    /// The kernel refuses what it allowed before.
    pub fn warm_up(&mut self, longest: Duration, stop: BorrowedFd<'_>) -> Result<(), RecordError> {
        let begun = Instant::now();
        let mut calm = 0;
        while calm < WARM_TURNS && begun.elapsed() < longest && !self.session.interrupted {
            self.options.duration = Some(self.session.started.elapsed() + WARM_TURN);
            self.session.run(&self.options, stop, &mut |_| {})?;
            calm = if self.session.has_work() { 0 } else { calm + 1 };
        }
        self.session.cut_ns = u64::MAX;
        let start_ns = self.session.cut()?;
        if self.options.mode.blocks() {
            self.session.off_cpu_so_far(start_ns)?;
        }
        self.before = self.session.kernel_half.counters()?;
        self.session.begin_at(start_ns);
        self.session.recorder.next_window(start_ns);
        Ok(())
    }

    /// Records for a while, or until `stop` becomes readable. What happened until then is in the window, whenever it is
    /// read.
    ///
    /// # Errors
    ///
    /// The kernel refuses what it allowed before.
    pub fn window(
        &mut self,
        length: Duration,
        stop: BorrowedFd<'_>,
    ) -> Result<Window, RecordError> {
        self.options.duration = Some(length);
        self.session.cut_ns = self.session.start_ns.saturating_add(length.as_nanos() as u64);
        self.session.run(&self.options, stop, &mut |_| {})?;
        let end_ns = self.session.cut()?;
        let mut meta = self.session.meta(&self.options, end_ns - self.session.start_ns);
        if self.options.mode == Mode::Wall {
            // Samples stand for their period: what a thread ran is known at its end only.
            meta.mode = Mode::OffCpu;
        }
        // The next one begins where this one ends: what is sampled while names are looked up is in its time.
        self.session.begin_at(end_ns);
        if self.options.mode.blocks() {
            self.session.off_cpu_so_far(end_ns)?;
        }
        self.change_rates()?;
        let counters = self.session.kernel_half.counters()?;
        let kernel_code = &self.session.recorder.kernel_code;
        if kernel_code[self.kernel_code_seen..].iter().any(|code| !code.is_bpf) {
            self.known.forget_kernel();
        }
        let asked = Asked {
            debug_files: &DebugFiles::default(),
            detail: Detail::Functions,
            known: &mut self.known,
            started: &|_| {},
        };
        // That takes long where files are new: there has to be room for what happens meanwhile.
        let Session { recorder, batch, kernel_half, sideband, events, .. } = &mut self.session;
        let mut read = |_, _| {
            batch.read(kernel_half);
            sideband.drain(events);
        };
        let profile = name(recorder, &meta, asked, &mut read).profile;
        let lineage = self.session.recorder.threads.lineage.clone();
        let names_error = self.known.next_window().err();
        if let Some(tables) = &mut self.session.tables {
            tables.sweep()?;
        }
        self.session.recorder.next_window(self.session.start_ns);
        self.kernel_code_seen = self.session.recorder.kernel_code.len();
        return_free_pages();
        let before = mem::replace(&mut self.before, counters);
        let since = self.before.since(&before);
        let lost_before = mem::replace(&mut self.events_lost_before, self.session.sideband.lost);
        Ok(Window {
            profile,
            lineage,
            ticks: since.ticks(),
            switches_lost: since.switches(0).lost.values().sum(),
            events_lost: self.session.sideband.lost - lost_before,
            tables: self.session.tables.as_ref().map(Tables::counts),
            names: self.known.counts,
            names_error,
            is_last: self.session.interrupted,
        })
    }

    /// Keeps the names of functions in a folder, too, by the build ids of their files: a later recording need not read
    /// these.
    ///
    /// # Errors
    ///
    /// The folder cannot be created or read.
    pub fn keep_names(&mut self, folder: &Path, bytes_max: u64) -> io::Result<()> {
        self.known.keep_in(folder, bytes_max)
    }

    /// Takes more or less from the next window on: all samples of one stand for the same. What is not recorded at all
    /// stays so.
    pub fn set_rates(&mut self, rates: Rates) {
        self.rates = rates;
    }

    fn change_rates(&mut self) -> Result<(), RecordError> {
        let rates = self.rates;
        if rates == self.options.rates() {
            return Ok(());
        }
        self.session.kernel_half.stop()?;
        self.options.frequency_hz = rates.frequency_hz;
        self.options.faults = rates.faults.unwrap_or(self.options.faults);
        if let Some(min_block_ns) = rates.min_block_ns.filter(|_| self.options.mode.blocks()) {
            self.options.min_block_ns = min_block_ns;
            self.session.kernel_half.set_min_block(min_block_ns)?;
        }
        self.session.start_clocks(&self.options)
    }

    /// What it takes, from the next window on.
    pub fn rates(&self) -> Rates {
        self.rates
    }

    /// Gives back memory that only makes the next window quicker.
    pub fn shed(&mut self) {
        self.known.shed();
    }
}
