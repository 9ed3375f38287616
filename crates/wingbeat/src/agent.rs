//! `wingbeat agent`: parses flags, calls the library, prints text.

mod args;

use std::{
    collections::HashMap,
    fs,
    io::{self, IsTerminal as _, Read as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use axum::{Router, http::header::CONTENT_TYPE, routing::get};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    low_level::raise,
};
use wingbeat_agent::{
    AgentOptions, Counts, Credentials, Kubelet, KubeletOptions, Metrics, Notice, PushOptions,
    Pusher, Rules, Sinks, Target, WindowArchive,
};
use wingbeat_profiler::session::{NameCounts, Rates};
use wingbeat_text::{Block, bytes, duration, grouped, line, plural, share};

use crate::shell::{interruptible_by, message, signal_socket, tell, warning};

pub(crate) use crate::agent::args::AgentArgs;

/// Time limit for pushing queued windows at the end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Minimum interval between equal warnings.
const WARN_INTERVAL: Duration = Duration::from_secs(600);

pub(crate) fn run(args: &AgentArgs, quiet: bool, verbose: bool) -> anyhow::Result<ExitCode> {
    let options = AgentOptions {
        frequency_hz: args.frequency,
        window: args.window,
        min_block_ns: args.off_cpu.map(|time| time.as_nanos() as u64),
        faults: args.pages,
        duration: args.duration,
        unwind_bytes: args.unwind_memory,
        cpu_share_max: args.max_cpu,
        memory_bytes_max: args.max_memory,
        host: args.host_name.clone().unwrap_or_else(host_name),
        rules: Arc::new(Mutex::new(rules(args.config.as_deref())?)),
        kubelet: kubelet(args)?,
        names: names_folder(args).map(|folder| (folder, args.names_size)),
    };
    let mut sinks = sinks(args)?;
    #[cfg(not(feature = "server"))]
    if args.metrics.is_some() {
        return crate::cli::refuse_unbuilt("wingbeat agent --metrics");
    }
    #[cfg(feature = "server")]
    if let Some(address) = args.metrics {
        let address = serve_metrics(address, sinks.metrics.clone())?;
        if !quiet {
            message!("metrics of the agent: http://{address}/metrics");
        }
    }
    reload_at_hangup(args, &options.rules, quiet).context("cannot handle signals")?;
    let mut reporter = Reporter {
        quiet,
        verbose,
        begin: begin(args, &sinks),
        windows: 0,
        filled: 0,
        not_stored: 0,
        warned_of: HashMap::new(),
    };
    let kept = args.keep.as_deref();
    let found = interruptible_by(&[SIGINT, SIGTERM], |stop| {
        wingbeat_agent::run(&options, &mut sinks, stop, &mut |notice| reporter.report(&notice))
    })?;
    let (mut delivered, mut lost) = (0, reporter.not_stored);
    if reporter.windows > 0 {
        if let Some(folder) = kept {
            delivered += reporter.filled.saturating_sub(reporter.not_stored);
            if let Some(archive) = sinks.archive.as_ref().filter(|_| !quiet) {
                print_kept(folder, archive);
            }
        }
        for (name, pusher) in sinks.pushers {
            let counts = pusher.finish(PATIENCE);
            end(&name, &counts, quiet);
            delivered += counts.pushed;
            lost += counts.rejected + counts.dropped;
            // The next agent pushes what is left in the spool folder.
            let of_waiting = if args.spool.is_some() { &mut delivered } else { &mut lost };
            *of_waiting += counts.waiting;
        }
    }
    found?;
    // Windows in which nothing ran are not counted as lost.
    if delivered == 0 && lost > 0 {
        bail!("no window was delivered; everything recorded is lost");
    }
    Ok(ExitCode::SUCCESS)
}

/// Default path of the rules.
const CONFIG: &str = "/etc/wingbeat/agent.toml";

fn rules(given: Option<&Path>) -> anyhow::Result<Rules> {
    let path = given.unwrap_or(Path::new(CONFIG));
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if given.is_none() && error.kind() == io::ErrorKind::NotFound => {
            return Ok(Rules::default());
        }
        Err(error) => {
            bail!("cannot read the rules in {}: {error}; --config names the file", path.display())
        }
    };
    Rules::read(&text).with_context(|| format!("the rules in {}", path.display()))
}

/// Reloads rules and token at each SIGHUP. A closing terminal also sends one, which ends the agent.
fn reload_at_hangup(args: &AgentArgs, rules: &Arc<Mutex<Rules>>, quiet: bool) -> io::Result<()> {
    let mut hangups = signal_socket(&[SIGHUP])?;
    let (config, token_file) = (args.config.clone(), args.token_file.clone());
    let rules = Arc::clone(rules);
    let had_terminal = io::stdin().is_terminal();
    let read = move || -> anyhow::Result<()> {
        let fresh = self::rules(config.as_deref())?;
        // Pushers reread it themselves before each push.
        if let Some(file) = &token_file {
            Credentials::default().with_token_file(file)?;
        }
        *rules.lock().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    };
    let serve = move || {
        while hangups.read(&mut [0; 64]).is_ok_and(|read| read > 0) {
            if had_terminal && !io::stdin().is_terminal() {
                let _ = raise(SIGTERM);
            }
            match read() {
                Ok(()) if quiet => {}
                Ok(()) => message!("reloaded rules and token"),
                Err(error) => warning!("{error:#}; the old rules and token stay in use"),
            }
        }
    };
    thread::Builder::new().name("reload".to_owned()).spawn(serve).map(drop)
}

/// Folder of saved symbols; none by default if the user has no home.
fn names_folder(args: &AgentArgs) -> Option<PathBuf> {
    let of = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    let cache = || of("XDG_CACHE_HOME").or_else(|| Some(of("HOME")?.join(".cache")));
    let standard = || of("CACHE_DIRECTORY").or_else(|| Some(cache()?.join("wingbeat/names")));
    args.names.clone().or_else(standard)
}

fn kubelet(args: &AgentArgs) -> anyhow::Result<Option<Arc<Kubelet>>> {
    let Some(url) = args.kubelet.clone() else { return Ok(None) };
    let options = KubeletOptions {
        url,
        token_file: args.kubelet_token_file.clone(),
        ca_file: args.kubelet_ca_file.clone(),
        is_insecure: args.kubelet_insecure,
    };
    Ok(Some(Arc::new(Kubelet::new(&options)?)))
}

fn sinks(args: &AgentArgs) -> anyhow::Result<Sinks> {
    let mut credentials = Credentials::from_env(|name| std::env::var(name).ok())?;
    if let Some(file) = &args.token_file {
        credentials = credentials.with_token_file(file)?;
    }
    if let Some(tenant) = &args.tenant {
        credentials = credentials.with_tenant(tenant)?;
    }
    let mut open = args.push.iter().filter(|target| target.is_open());
    if credentials.has_secret()
        && !args.token_over_http
        && let Some(target) = open.next()
    {
        bail!(
            "the token would go to {target} unencrypted: push to https://, or allow it with \
             --token-over-http"
        );
    }
    let start = |target: &Target| -> anyhow::Result<(String, Pusher)> {
        let options = PushOptions {
            folder: args.spool.clone(),
            bytes_max: args.spool_size,
            ..PushOptions::default()
        };
        let pusher = Pusher::start(target, credentials.clone(), options)?;
        Ok((target.to_string(), pusher))
    };
    let pushers = args.push.iter().map(start).collect::<anyhow::Result<_>>()?;
    let open = |dir| WindowArchive::open(dir, args.keep_for, args.keep_size);
    let archive = args.keep.as_deref().map(open).transpose().context("cannot store files")?;
    Ok(Sinks { pushers, archive, ..Sinks::default() })
}

fn begin(args: &AgentArgs, sinks: &Sinks) -> String {
    let targets = sinks.pushers.iter().map(|(name, _)| name.clone());
    let kept = args.keep.iter().map(|dir| dir.display().to_string());
    let all: Vec<String> = targets.chain(kept).collect();
    format!(
        "agent: {} Hz on each CPU, a profile of each service every {}, to {}",
        args.frequency,
        duration(args.window.as_nanos() as u64),
        all.join(", ")
    )
}

/// State of the messages printed while it runs.
struct Reporter {
    quiet: bool,
    verbose: bool,
    begin: String,
    windows: u64,
    /// Windows in which something ran. The others are neither kept nor pushed.
    filled: u64,
    /// Windows that could not be saved in the folder.
    not_stored: u64,
    /// Times of the last warnings, by engine or subject.
    warned_of: HashMap<String, Instant>,
}

impl Reporter {
    fn report(&mut self, notice: &Notice<'_>) {
        match notice {
            Notice::Started if self.quiet => {}
            Notice::Started => tell(&[Block::Heading(line(&self.begin))]),
            Notice::Window { samples, broken, series, used, frequency_hz, names } => {
                self.windows += 1;
                self.filled += u64::from(*series > 0);
                // The first window confirms that it works.
                if self.quiet || !self.verbose && self.windows > 1 {
                    return;
                }
                message!(
                    "{} in {}, {} not complete; {} of a CPU, {} of memory, {frequency_hz} Hz",
                    plural(*samples, "sample"),
                    plural(*series as u64, "profile"),
                    grouped(*broken),
                    share::size(used.cpu_share),
                    bytes(used.rss_bytes)
                );
                if self.verbose {
                    print_names(*names);
                }
            }
            Notice::Rates { cpu_share, rates } => warning!(
                "the agent used {} of a CPU; it now records {}",
                share::size(*cpu_share),
                shown(*rates)
            ),
            Notice::Memory { rss_bytes } => warning!(
                "the agent used {} of memory, and freed its caches; --max-memory sets the limit",
                bytes(*rss_bytes)
            ),
            Notice::PushFailed { name, counts } => {
                if self.is_due(name) {
                    warn_of_failure(counts);
                }
            }
            Notice::NamesNotStored(error) => {
                if self.is_due("names") {
                    warning!(
                        "function names are not stored on disk: {error}; --names chooses another folder"
                    );
                }
            }
            Notice::Kubelet(error) => {
                if self.is_due("kubelet") {
                    warning!("pods have no names: {error}");
                }
            }
            Notice::NotStored(error) => {
                self.not_stored += 1;
                warning!("a window could not be stored: {error}");
            }
            Notice::Lost { samples, events } => {
                if self.is_due("lost") {
                    warning!(
                        "{} and {} were lost because buffers were full; /metrics counts them",
                        plural(*samples, "sample"),
                        plural(*events, "event")
                    );
                }
            }
        }
    }

    /// Whether to repeat this warning now.
    fn is_due(&mut self, what: &str) -> bool {
        let is_due = |warned: &Instant| warned.elapsed() > WARN_INTERVAL;
        let is_due = self.warned_of.get(what).is_none_or(is_due);
        if is_due {
            self.warned_of.insert(what.to_owned(), Instant::now());
        }
        is_due
    }
}

/// Description of the recording.
fn shown(rates: Rates) -> String {
    let mut words = format!("at {} Hz", rates.frequency_hz);
    if let Some(min_block_ns) = rates.min_block_ns {
        words += &format!(", blocks of {} or more", duration(min_block_ns));
    }
    if let Some(faults) = rates.faults {
        words += &format!(", one of {faults} page faults");
    }
    words
}

fn warn_of_failure(counts: &Counts) {
    let why = counts.last_error.as_deref().unwrap_or("unknown reason");
    warning!(
        "{why}; {} waiting, {} refused, {} dropped so far",
        plural(counts.waiting, "window"),
        grouped(counts.rejected),
        grouped(counts.dropped)
    );
}

fn print_names(names: NameCounts) {
    message!(
        "  so far {} read for function names, those of {} were on disk",
        plural(names.read, "file"),
        grouped(names.loaded)
    );
}

fn end(name: &str, counts: &Counts, quiet: bool) {
    let Counts { pushed, rejected, dropped, waiting, .. } = counts;
    if !quiet {
        message!("{name}: {} pushed", plural(*pushed, "window"));
    }
    let failed = [(rejected, "refused"), (dropped, "dropped"), (waiting, "not pushed yet")];
    for (count, what) in failed.into_iter().filter(|(count, _)| **count > 0) {
        let why = counts.last_error.as_deref().unwrap_or("unknown reason");
        warning!("{name}: {} {what}: {why}", plural(*count, "window"));
    }
}

/// Prints the folder's contents, of any agent.
fn print_kept(folder: &Path, archive: &WindowArchive) {
    let removed = match archive.removed() {
        0 => String::new(),
        removed => format!(", {} removed by age or for room", grouped(removed)),
    };
    let kept = plural(archive.windows() as u64, "window");
    message!("{}: {kept} kept{removed}", folder.display());
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Serves `/metrics` and `/healthz` until the process ends; returns the address.
fn serve_metrics(address: SocketAddr, metrics: Arc<Mutex<Metrics>>) -> anyhow::Result<SocketAddr> {
    let listener = std::net::TcpListener::bind(address)
        .with_context(|| format!("cannot listen on {address} for --metrics"))?;
    let address = listener.local_addr().context("cannot tell the address")?;
    listener.set_nonblocking(true).context("cannot listen")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the server of --metrics")?;
    let text = move || {
        let metrics = metrics.lock().unwrap_or_else(PoisonError::into_inner);
        std::future::ready(([(CONTENT_TYPE, "text/plain; version=0.0.4")], metrics.text()))
    };
    let router =
        Router::new().route("/metrics", get(text)).route("/healthz", get(|| async { "ok\n" }));
    thread::Builder::new()
        .name("metrics".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
                let _ = axum::serve(listener, router).await;
            });
        })
        .context("cannot start the server of --metrics")?;
    Ok(address)
}
