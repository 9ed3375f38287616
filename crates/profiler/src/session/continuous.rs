//! Continuous recording in windows, each with a profile of its own.

use std::{
    io, mem,
    os::fd::BorrowedFd,
    path::Path,
    time::{Duration, Instant},
};

use super::{Options, Rates, TableCounts, run::Session, started, tables::Tables};
use crate::counts::Counters;
use crate::session::limits::return_free_pages;
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

/// Recording is warm after this many consecutive turns without tables to build.
const WARM_TURNS: u32 = 10;
const WARM_TURN: Duration = Duration::from_millis(30);

/// A recording without an end. It continues between windows: samples of that time belong to the next.
pub struct Continuous {
    session: Session,
    options: Options,
    known: KnownNames,
    before: Counters,
    events_lost_before: u64,
    /// Index in the recorder's list.
    kernel_code_seen: usize,
    /// Rates from the next window on.
    rates: Rates,
}

/// The recording of one window.
#[derive(Debug)]
pub struct Window {
    pub profile: Profile,
    pub lineage: Lineage,
    pub ticks: Ticks,
    /// Process and mapping events lost because their buffers were full.
    pub events_lost: u64,
    /// Switches that were seen but could not be reported.
    pub switches_lost: u64,
    /// Kernel memory of the unwind tables.
    pub tables: Option<TableCounts>,
    /// Since the start.
    pub names: NameCounts,
    /// Why names could not be stored on disk.
    pub names_error: Option<io::Error>,
    /// Last window: `stop` was signalled.
    pub is_last: bool,
}

impl Continuous {
    /// Starts recording running code, and off-CPU time with [`Mode::Wall`].
    ///
    /// # Errors
    ///
    /// As for [`record`](super::record).
    pub fn start(options: Options) -> Result<Self, RecordError> {
        let session = started(&options)?;
        let before = session.kernel_half.counters()?;
        let known = KnownNames::default();
        let rates = options.rates();
        let (events_lost_before, kernel_code_seen) = (0, 0);
        Ok(Self { session, options, known, before, events_lost_before, kernel_code_seen, rates })
    }

    /// Records outside any window until running code has unwind tables, up to a maximum time. Without tables,
    /// samples carry copies of their stacks, for which there is little room. The first window starts afterwards.
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

    /// Records a window of some duration, or until `stop` becomes readable. It contains everything that happened
    /// until then, even if read later.
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
            // Samples represent their period: the exact CPU time of a thread is known only at its end.
            meta.mode = Mode::OffCpu;
        }
        // The next window begins where this one ends: samples during symbolization belong to it.
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
        // This takes long for new files: the buffers must not overflow meanwhile.
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

    /// Also stores function names in a folder, by the build ids of their files, so that a later recording need not
    /// read the files.
    ///
    /// # Errors
    ///
    /// The folder cannot be created or read.
    pub fn keep_names(&mut self, folder: &Path, bytes_max: u64) -> io::Result<()> {
        self.known.keep_in(folder, bytes_max)
    }

    /// Changes the rates from the next window on, so that all samples of one have the same weight. What is not
    /// recorded at all stays so.
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

    /// The rates from the next window on.
    pub fn rates(&self) -> Rates {
        self.rates
    }

    /// Frees memory that only speeds up the next window.
    pub fn shed(&mut self) {
        self.known.shed();
    }
}
