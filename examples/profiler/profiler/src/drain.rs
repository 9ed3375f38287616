//! Drains the two ring buffers: samples, and the kernel half's log.

use std::os::fd::AsFd;

use anyhow::Context;
use aya::maps::{MapData, RingBuf};
use log::warn;
use profiler::process_sample;
use tokio::{
    sync::oneshot::{Receiver, error::TryRecvError},
    task,
};

use crate::{kernel::KernelLog, watch::watch};

/// Counts of processed and unprocessed samples.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Tally {
    pub logged: u64,
    /// Bytes that were not a sample.
    pub refused: u64,
    /// Left in the ring buffer at the end: processing did not keep up.
    pub left: u64,
}

/// Processes samples as they come, until `stopped`.
pub(crate) async fn drain(
    mut ring: RingBuf<MapData>,
    mut stopped: Receiver<()>,
) -> anyhow::Result<Tally> {
    let cannot_wait = "cannot wait for the ring buffer of samples";
    let filled = watch(ring.as_fd()).context(cannot_wait)?;
    let mut tally = Tally::default();
    'running: loop {
        let mut ready = tokio::select! {
            biased;
            _ = &mut stopped => break,
            ready = filled.readable() => ready.context(cannot_wait)?,
        };
        while let Some(bytes) = ring.next() {
            match process_sample(&bytes) {
                Ok(_) => tally.logged += 1,
                Err(error) => {
                    tally.refused += 1;
                    warn!("a sample was refused: {error}");
                }
            }
            drop(bytes);
            // The buffer may fill as fast as it is read; signals must be handled meanwhile.
            task::yield_now().await;
            if stopped.try_recv() != Err(TryRecvError::Empty) {
                break 'running;
            }
        }
        ready.clear_ready();
    }
    while ring.next().is_some() {
        tally.left += 1;
    }
    Ok(tally)
}

/// Forwards the log of the kernel half. Returns only on failure.
pub(crate) async fn forward_kernel_log(mut log: KernelLog) {
    let Ok(filled) = watch(log.as_fd()) else {
        warn!("cannot wait for the log of the eBPF program: it stays unread");
        return;
    };
    while let Ok(mut ready) = filled.readable().await {
        log.flush();
        ready.clear_ready();
    }
}
