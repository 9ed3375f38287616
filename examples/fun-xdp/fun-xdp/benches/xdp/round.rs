//! Measures one version once.

use std::{
    net::Ipv4Addr,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use aya::programs::Xdp;
use fun_xdp::{AttachedMode, Interface, KernelHalf, OBJECT, Version};

use crate::{
    counters::Counters,
    network::{Network, RECEIVER},
};

/// Timeout for the arrival of packets.
const PATIENCE: Duration = Duration::from_secs(5);

/// Packets in flight at the same time: a quarter of the interface's queue.
const BURST: usize = 64;

/// The number of packets, rounded up to complete sets of all last octets.
pub(crate) fn packets(planned: u32) -> u64 {
    u64::from(planned).next_multiple_of(256)
}

/// Loads and attaches the program, sends the packets, and returns the mean time of a run in nanoseconds.
pub(crate) fn measure(version: Version, planned: u32, network: &Network) -> anyhow::Result<f64> {
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
