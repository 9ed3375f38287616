//! The loader of the example `fun-xdp`: attaches one version of the filter to an interface, and
//! prints the classes of source addresses.
//!
//! Prints classes to stdout, one per line, for other programs; the log of the kernel half and our
//! own messages go to stderr.

mod kernel_log;
mod print;

use std::{
    io::{self, Write},
    os::{fd::AsFd, unix::net::UnixStream},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use clap::Parser;
use fun_xdp::{AttachedMode, Interface, KernelHalf, OBJECT_WITH_LOG, Version};
use log::{info, warn};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    low_level::pipe,
};

use crate::{
    kernel_log::Forwarding,
    print::{Printed, Printer},
};

/// Polling interval of the queue, which cannot wake up its reader. Its 1,024 slots then suffice for
/// 51,200 addresses per second, and an empty poll takes some microseconds.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Interval of checking the interface.
const CHECK_INTERFACE_EVERY: Duration = Duration::from_secs(1);

/// Prints what kind of fun the source addresses of incoming IPv4 packets are, until Ctrl-C. RUST_LOG
/// sets what is logged (see the env_logger crate).
#[derive(Debug, Parser)]
struct Cli {
    /// The network interface
    #[arg(short, long)]
    iface: String,

    /// Which version of the filter
    #[arg(long, default_value = "v4")]
    version: Version,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If stderr is broken, the exit code still reports the failure.
            let _ = writeln!(io::stderr(), "fun-xdp: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> anyhow::Result<()> {
    // First of all: a signal during loading must end the run like any other.
    let signals = listen().context("cannot listen for signals")?;
    let interface = Interface::find(&cli.iface)?;
    let mut kernel = KernelHalf::load(OBJECT_WITH_LOG)?;
    let mut printer = Printer::new(kernel.take_classes()?);
    let log = Forwarding::start(kernel.take_log()?)?;
    let attached = kernel.attach(cli.version, &interface)?;
    if let AttachedMode::Generic { native_refused } = &attached.mode {
        warn!(
            "{} refuses XDP in native mode ({native_refused}): attached in generic mode, which is \
             slower",
            cli.iface
        );
    }
    info!("{} attached to {} until Ctrl-C", cli.version, cli.iface);

    let outcome = watch(&mut printer, &signals, &interface);
    // Detaches, so that only the waiting classes are left.
    drop(kernel);
    let rest = printer.print();
    log.finish();
    info!("{}", printer.tally());
    outcome?;
    rest.map(drop)
}

/// A stream that becomes readable on the first termination signal.
fn listen() -> io::Result<UnixStream> {
    let (signals, sender) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM] {
        pipe::register(signal, sender.try_clone()?)?;
    }
    Ok(signals)
}

/// Prints classes as they come, until a signal.
fn watch(printer: &mut Printer, signals: &UnixStream, interface: &Interface) -> anyhow::Result<()> {
    let mut check_interface = Instant::now() + CHECK_INTERFACE_EVERY;
    loop {
        let pause = match printer.print()? {
            Printed::All => LOOK_EVERY,
            // The queue has filled up meanwhile: only check for signals.
            Printed::Some => Duration::ZERO,
            Printed::NobodyReads => return Ok(()),
        };
        if readable_within(signals, pause).context("cannot wait for signals")? {
            return Ok(());
        }
        let now = Instant::now();
        if now >= check_interface {
            if !interface.exists() {
                bail!(
                    "the network interface {} is gone, and with it the program",
                    interface.name()
                );
            }
            check_interface = now + CHECK_INTERFACE_EVERY;
        }
    }
}

/// Waits up to `time` until the stream is readable, and returns whether it is.
fn readable_within(stream: &impl AsFd, time: Duration) -> Result<bool, Errno> {
    let time = Timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
    match poll(&mut [PollFd::new(stream, PollFlags::IN)], Some(&time)) {
        Ok(ready) => Ok(ready > 0),
        // A signal: the stream is readable in the next iteration.
        Err(Errno::INTR) => Ok(false),
        Err(errno) => Err(errno),
    }
}
