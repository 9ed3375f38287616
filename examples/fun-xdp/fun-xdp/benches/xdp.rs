//! The macro benchmark: cost per packet of each version of the filter in the kernel, with real packets on an interface.
//!
//! Sends packets through a pair of interfaces in a private network namespace. The versions
//! alternate in rounds, and are reloaded in each, because the address of the compiled code matters
//! too. The kernel counts runs and nanoseconds (BPF_ENABLE_STATS, which ends with this process). A
//! count that differs from the number of packets is an error, and so is a class that does not match
//! its packet.
//!
//! Prints results to stdout in Bencher Metric Format, and human-readable text to stderr.

#[path = "../testbed/counters.rs"]
mod counters;
#[path = "../testbed/network.rs"]
mod network;
#[path = "xdp/report.rs"]
mod report;

use std::{
    env,
    net::Ipv4Addr,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use aya::{
    programs::Xdp,
    sys::{Stats, enable_stats},
};
use clap::Parser;
use fun_xdp::{AttachedMode, Interface, KernelHalf, OBJECT, Version};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};

use crate::{
    counters::Counters,
    network::{Network, RECEIVER},
    report::Row,
};

/// Measures the versions of the filter with real packets.
#[derive(Debug, Parser)]
#[command(name = "cargo bench -p fun-xdp --bench xdp --")]
struct Plan {
    /// Only the programs with this in their names
    filter: Option<String>,

    /// Rounds, in each of which every version is measured once
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u32).range(2..=1000))]
    rounds: u32,

    /// Packets per round and version, in steps of 256
    #[arg(long, default_value_t = 10_240, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    packets: u32,

    /// Passed by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    // Without this argument `cargo test` runs us, with arguments for other kinds of tests.
    let is_benchmark = env::args().any(|argument| argument == "--bench");
    let plan = if is_benchmark {
        Plan::parse()
    } else {
        let filter = env::args().skip(1).find(|argument| !argument.starts_with('-'));
        Plan { filter, rounds: 2, packets: 256, bench: false }
    };
    let network = match Network::enter() {
        Err(error) if !is_benchmark && !is_ci() => {
            eprintln!("SKIPPED: {error:#}");
            return ExitCode::SUCCESS;
        }
        network => network,
    };
    match network.and_then(|network| measure(&plan, &network)) {
        Ok(rows) => report::print(&rows),
        Err(error) => {
            eprintln!("xdp: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn is_ci() -> bool {
    env::var("CI").is_ok_and(|value| value == "true")
}

fn measure(plan: &Plan, network: &Network) -> anyhow::Result<Vec<Row>> {
    let filter = plan.filter.as_deref().unwrap_or_default();
    let chosen = Version::ALL.into_iter().filter(|version| version.program().contains(filter));
    let mut rows: Vec<_> = chosen.map(Row::new).collect();
    if rows.is_empty() {
        return Ok(rows);
    }
    stay_on_this_cpu()?;
    let _counting = enable_stats(Stats::RunTime)
        .context("cannot make the kernel count (BPF_ENABLE_STATS, Linux 5.8 and later)")?;
    eprintln!(
        "{} programs, {} rounds of {} packets each, and one to warm up",
        rows.len(),
        plan.rounds,
        packets(plan.packets)
    );
    for round in 0..=plan.rounds {
        // Alternates the direction, so that drift of the machine affects all versions equally.
        if round % 2 == 0 {
            rows.iter_mut().rev().try_for_each(|row| take(row, plan, network, round))?;
        } else {
            rows.iter_mut().try_for_each(|row| take(row, plan, network, round))?;
        }
    }
    Ok(rows)
}

/// Measures one version once; ignores the first time.
fn take(row: &mut Row, plan: &Plan, network: &Network, round: u32) -> anyhow::Result<()> {
    let ns_per_run = measure_once(row.version, plan.packets, network)
        .with_context(|| format!("round {round} of {}", row.version))?;
    if round > 0 {
        row.ns_per_run.push(ns_per_run);
    }
    Ok(())
}

/// Pins sender and receiver to one CPU: a packet is received before the call that sent it returns.
fn stay_on_this_cpu() -> anyhow::Result<()> {
    let mut here = CpuSet::new();
    here.set(sched_getcpu());
    sched_setaffinity(None, &here).context("cannot stay on one CPU")
}

/// Timeout for the arrival of packets.
const PATIENCE: Duration = Duration::from_secs(5);

/// Packets in flight at the same time: a quarter of the interface's queue.
const BURST: usize = 64;

/// The number of packets, rounded up to complete sets of all last octets.
fn packets(planned: u32) -> u64 {
    u64::from(planned).next_multiple_of(256)
}

/// Loads and attaches the program, sends the packets, and returns the mean time of a run in nanoseconds.
fn measure_once(version: Version, planned: u32, network: &Network) -> anyhow::Result<f64> {
    let interface = Interface::find(RECEIVER)?;
    let mut kernel = KernelHalf::load(OBJECT)?;
    let mut classes = kernel.take_classes()?;
    let attached = kernel.attach(version, &interface)?;
    if let AttachedMode::Generic { native_refused } = &attached.mode {
        bail!("a pair of interfaces should have XDP in native mode, but: {native_refused}");
    }
    let program = kernel.program(version)?;
    let before = Counters::read(program)?;
    let mut sent = 0;
    for _ in 0..packets(planned) / 256 {
        let sources: Vec<_> =
            (0..=255).map(|last_octet| Ipv4Addr::new(198, 51, 100, last_octet)).collect();
        for burst in sources.chunks(BURST) {
            for source in burst {
                network.send(*source)?;
                sent += 1;
            }
            wait_for(program, before.runs + sent)?;
        }
        // A full queue would distort the measurement.
        let found = classes.by_ref().collect::<Result<Vec<_>, _>>()?;
        let expected: Vec<_> =
            sources.iter().filter_map(|source| version.classify((*source).into())).collect();
        ensure!(found == expected, "the classes are not those of the packets: {found:?}");
    }
    let cost = Counters::read(program)?.since(before).context("the counters went back")?;
    ensure!(cost.runs == sent, "{sent} packets were sent, and the program ran {} times", cost.runs);
    ensure!(cost.run_time_ns > 0, "the kernel counted no time for {} runs", cost.runs);
    kernel.detach(attached)?;
    cost.ns_per_run().context("the program never ran")
}

/// Waits until the program has run `runs` times.
fn wait_for(program: &Xdp, runs: u64) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let counted = Counters::from_info(program)?.runs;
        if counted >= runs {
            return Ok(());
        }
        if Instant::now() >= deadline {
            bail!("{} of the packets did not arrive within {PATIENCE:?}", runs - counted);
        }
        thread::yield_now();
    }
}
