//! A simple sampling profiler: logs the user stack of one process, a hundred times per CPU second.
//!
//! Logs only addresses, and nothing while the process sleeps: it demonstrates how a profiler works.
//! For real use there is `wingbeat profile`.

mod drain;
mod kernel;
mod target;
mod watch;

use std::{
    io::{self, Write},
    num::NonZeroU32,
    process::ExitCode,
};

use anyhow::Context;
use clap::Parser;
use log::{info, warn};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
    task::JoinError,
};

use crate::{
    drain::{Tally, drain, forward_kernel_log},
    kernel::KernelHalf,
    target::Target,
};

/// Records each heap allocation and its call stack.
#[cfg(feature = "dhat-heap")]
#[global_allocator]
static ALLOC: dhat::Alloc = dhat::Alloc;

/// Samples per second of CPU time, for each thread.
const FREQUENCY_HZ: u64 = 100;

/// Logs the user stacks of a process, 100 times per second of its CPU time, until Ctrl-C or until
/// the process ends. RUST_LOG sets what is logged (see the env_logger crate).
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// The process to sample.
    pid: NonZeroU32,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    // Writes dhat-heap.json when dropped: last of all, however the run ended.
    #[cfg(feature = "dhat-heap")]
    let _heap_profiler = dhat::Profiler::new_heap();
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    match run(cli.pid.get()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If stderr is broken, the exit code still reports the failure.
            let _ = writeln!(io::stderr(), "profiler: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn run(pid: u32) -> anyhow::Result<()> {
    // First of all: a signal during loading must end the run like any other.
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let target = Target::open(pid)?;
    let mut kernel = KernelHalf::load(pid)?;
    let (samples, kernel_log) = (kernel.take_samples()?, kernel.take_log()?);
    tokio::spawn(forward_kernel_log(kernel_log));
    let threads = kernel.attach(&target, FREQUENCY_HZ)?;
    info!("sampling process {pid} at {FREQUENCY_HZ} Hz until Ctrl-C, threads: {threads}");

    let (stop, stopped) = oneshot::channel();
    let mut draining = tokio::spawn(drain(samples, stopped));
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        ended = target.ended() => {
            ended?;
            info!("process {pid} ended");
        }
        // Ends by itself only on failure.
        drained = &mut draining => return joined(drained).map(report),
    }
    // Stops sampling, so that the waiting samples can be counted.
    drop(kernel);
    drop(stop);
    joined(draining.await).map(report)
}

fn joined(drained: Result<anyhow::Result<Tally>, JoinError>) -> anyhow::Result<Tally> {
    drained.context("the task that drains the ring buffer died")?
}

fn listen(kind: SignalKind) -> anyhow::Result<Signal> {
    signal(kind).context("cannot listen for signals")
}

fn report(Tally { logged, refused, left }: Tally) {
    info!("{logged} samples logged, {refused} not understood, {left} left in the ring buffer");
    if logged + refused + left == 0 {
        warn!("no samples: they come at {FREQUENCY_HZ} Hz of CPU time, and the process used none");
    }
}
