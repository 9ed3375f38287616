//! The agent's loop: record a window, divide it, push and store it, check the cost.

use std::{
    io,
    os::fd::BorrowedFd,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use wingbeat_profiler::{
    model::Mode,
    session::{Continuous, NameCounts, Options, Rates, Window},
    targets::Targets,
};

use crate::{
    divide::{Divided, divide},
    governor::{Governor, OwnMeter, OwnUse},
    kubelet::Kubelet,
    labels::Processes,
    metrics::Metrics,
    pods::Pods,
    pusher::{Counts, Pusher},
    rules::Rules,
    window_archive::WindowArchive,
};

/// Recording options.
#[derive(Debug, Clone)]
pub struct AgentOptions {
    pub frequency_hz: u64,
    pub window: Duration,
    /// Also record off-CPU time, with this minimum duration of blocks in nanoseconds.
    pub min_block_ns: Option<u64>,
    /// Also sample page faults, one of this many.
    pub faults: Option<u64>,
    /// `None` runs without end.
    pub duration: Option<Duration>,
    /// Kernel memory for unwind tables.
    pub unwind_bytes: u64,
    /// Maximum share of one CPU.
    pub cpu_share_max: f64,
    /// Resident memory above which caches are freed.
    pub memory_bytes_max: u64,
    /// Host name.
    pub host: String,
    /// May change while running: each window uses the rules at its end.
    pub rules: Arc<Mutex<Rules>>,
    /// Source of pod names.
    pub kubelet: Option<Arc<Kubelet>>,
    /// Folder and maximum size of stored function names.
    pub names: Option<(PathBuf, u64)>,
}

/// Destinations of windows.
#[derive(Default)]
pub struct Sinks {
    /// With their names.
    pub pushers: Vec<(String, Pusher)>,
    pub archive: Option<WindowArchive>,
    pub metrics: Arc<Mutex<Metrics>>,
}

impl Sinks {
    fn metrics(&self) -> MutexGuard<'_, Metrics> {
        self.metrics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Events reported to the caller.
#[derive(Debug)]
pub enum Notice<'a> {
    /// Recording has started.
    Started,
    /// A window has ended.
    Window {
        samples: u64,
        broken: u64,
        series: usize,
        used: OwnUse,
        frequency_hz: u64,
        names: NameCounts,
    },
    /// Rates were changed because of the agent's CPU share.
    Rates { cpu_share: f64, rates: Rates },
    /// Caches were freed because of the agent's memory use.
    Memory { rss_bytes: u64 },
    /// A backend failed since the last window: the error, and the total windows rejected or dropped.
    PushFailed { name: &'a str, counts: &'a Counts },
    /// A window could not be stored on disk.
    NotStored(&'a anyhow::Error),
    /// Function names cannot be stored on disk.
    NamesNotStored(&'a io::Error),
    /// The kubelet failed, with the error.
    Kubelet(&'a str),
    /// Samples or events were lost because buffers were full.
    Lost { samples: u64, events: u64 },
}

/// Size of the ring buffer.
const BUFFER_BYTES: u32 = 4 << 20;

/// Minimum time between reads of the buffers. Files of processes that have exited by then are found by path.
const POLL_INTERVAL_MIN: Duration = Duration::from_millis(10);

/// Maximum time to build unwind tables of running code before the first window.
const WARM_UP: Duration = Duration::from_secs(2);

/// Records until the time is up, or `stop` becomes readable.
///
/// # Errors
///
/// Missing rights, or a refusal by the kernel.
pub fn run(
    options: &AgentOptions,
    sinks: &mut Sinks,
    stop: BorrowedFd<'_>,
    notice: &mut dyn FnMut(Notice<'_>),
) -> anyhow::Result<()> {
    let all = Options::new(Targets::All);
    let mut recording = Continuous::start(Options {
        mode: if options.min_block_ns.is_some() { Mode::Wall } else { Mode::OnCpu },
        min_block_ns: options.min_block_ns.unwrap_or(all.min_block_ns),
        with_faults: options.faults.is_some(),
        faults: options.faults.unwrap_or(all.faults),
        frequency_hz: options.frequency_hz,
        unwind_bytes: options.unwind_bytes,
        buffer_bytes: Some(BUFFER_BYTES),
        rest: POLL_INTERVAL_MIN,
        ..all
    })?;
    if let Some((folder, bytes_max)) = &options.names
        && let Err(error) = recording.keep_names(folder, *bytes_max)
    {
        notice(Notice::NamesNotStored(&error));
    }
    for (name, pusher) in &sinks.pushers {
        sinks.metrics().push_to(name.clone(), pusher.counter());
    }
    recording.warm_up(WARM_UP, stop)?;
    notice(Notice::Started);
    let mut agent = Agent {
        processes: Processes::new(options.host.clone(), Rules::default(), pods(options)),
        wanted: recording.rates(),
        governor: Governor::new(options.cpu_share_max),
        own: OwnMeter::start(),
        memory_bytes_max: options.memory_bytes_max,
        is_first: true,
        failed: vec![0; sinks.pushers.len()],
    };
    let mut recorded = Duration::ZERO;
    loop {
        let left = options.duration.map(|duration| duration.saturating_sub(recorded));
        let length = left.map_or(options.window, |left| left.min(options.window));
        let window = recording.window(length, stop)?;
        recorded += Duration::from_nanos(window.profile.meta.duration_ns);
        let rules = options.rules.lock().unwrap_or_else(PoisonError::into_inner).clone();
        agent.processes.set_rules(rules);
        let used = agent.deliver(&window, sinks, notice)?;
        agent.limit_use(&mut recording, (&window, used), sinks, notice)?;
        let is_over = options.duration.is_some_and(|duration| recorded >= duration);
        if window.is_last || is_over {
            return Ok(());
        }
    }
}

fn pods(options: &AgentOptions) -> Option<Pods> {
    let kubelet = Arc::clone(options.kubelet.as_ref()?);
    Some(Pods::start(Box::new(move || kubelet.pods())))
}

/// State kept between windows.
struct Agent {
    processes: Processes,
    /// Requested rates.
    wanted: Rates,
    governor: Governor,
    own: OwnMeter,
    memory_bytes_max: u64,
    is_first: bool,
    /// Failures of each backend up to the last window.
    failed: Vec<u64>,
}

impl Agent {
    fn deliver(
        &mut self,
        window: &Window,
        sinks: &mut Sinks,
        notice: &mut dyn FnMut(Notice<'_>),
    ) -> anyhow::Result<OwnUse> {
        let (names, frequency_hz) = (window.names, window.profile.meta.frequency_hz);
        let divided = divide(&window.profile, &window.lineage, &mut self.processes)?;
        sinks.metrics().window(&divided, window);
        sinks.metrics().names(window.names);
        if let Some(error) = &window.names_error {
            notice(Notice::NamesNotStored(error));
        }
        let samples = window.ticks.lost + window.switches_lost;
        if samples + window.events_lost > 0 {
            notice(Notice::Lost { samples, events: window.events_lost });
        }
        if let Some(archive) = &mut sinks.archive
            && let Err(error) = archive.add(&divided.window)
        {
            sinks.metrics().keep_failed();
            notice(Notice::NotStored(&error));
        }
        self.report_failures(sinks, notice);
        if let Some((counts, error)) = self.processes.kubelet() {
            sinks.metrics().pods(counts);
            if let Some(error) = &error {
                notice(Notice::Kubelet(error));
            }
        }
        let Divided { window, samples, broken, dropped: _ } = divided;
        let broken = broken.values().sum();
        let shared = Arc::new(window);
        for (_, pusher) in &sinks.pushers {
            pusher.offer(&shared);
        }
        let used = self.own.lap(shared.duration);
        let series = shared.series.len();
        notice(Notice::Window { samples, broken, series, used, frequency_hz, names });
        Ok(used)
    }

    /// Reports the backends that failed.
    fn report_failures(&mut self, sinks: &Sinks, notice: &mut dyn FnMut(Notice<'_>)) {
        let counts = |(name, pusher): &(String, Pusher)| (name.clone(), pusher.counts());
        let counts: Vec<(String, Counts)> = sinks.pushers.iter().map(counts).collect();
        for ((name, counts), before) in counts.iter().zip(&mut self.failed) {
            let failed = counts.retries + counts.rejected + counts.dropped;
            if failed > *before {
                notice(Notice::PushFailed { name, counts });
            }
            *before = failed;
        }
    }

    /// Keeps the agent within its limits.
    fn limit_use(
        &mut self,
        recording: &mut Continuous,
        (window, used): (&Window, OwnUse),
        sinks: &Sinks,
        notice: &mut dyn FnMut(Notice<'_>),
    ) -> anyhow::Result<()> {
        let tables = window.tables.as_ref().map_or(0, |tables| tables.bytes);
        let bpf_bytes = tables + u64::from(BUFFER_BYTES);
        sinks.metrics().used(used, recording.rates(), bpf_bytes);
        // The first window reads the files of all processes.
        if std::mem::take(&mut self.is_first) {
            return Ok(());
        }
        if let Some(halvings) = self.governor.next(used.cpu_share) {
            let rates = self.wanted.halved(halvings);
            if rates != recording.rates() {
                recording.set_rates(rates);
                notice(Notice::Rates { cpu_share: used.cpu_share, rates });
            }
        }
        if used.rss_bytes > self.memory_bytes_max {
            recording.shed();
            notice(Notice::Memory { rss_bytes: used.rss_bytes });
        }
        Ok(())
    }
}
