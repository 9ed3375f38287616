//! The process that is sampled.

use std::{
    fs,
    os::fd::{AsFd, OwnedFd},
};

use anyhow::{Context, anyhow, bail};
use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, pidfd_open},
};
use tokio::io::unix::AsyncFd;

use crate::watch::watch;

/// A live process, held by a descriptor: should it end, no other takes its place.
pub(crate) struct Target {
    pid: u32,
    /// A process descriptor: readable when the process has ended.
    end: AsyncFd<OwnedFd>,
}

impl Target {
    /// Finds the process.
    pub(crate) fn open(pid: u32) -> anyhow::Result<Self> {
        let valid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(|| absent(pid))?;
        let pidfd = pidfd_open(valid, PidfdFlags::empty()).map_err(|errno| match errno {
            Errno::SRCH => absent(pid),
            // A kernel says the one or the other, by its age.
            Errno::INVAL | Errno::NOENT => {
                anyhow!(
                    "{pid} is a thread: give the PID of its process (`Tgid` in /proc/{pid}/status)"
                )
            }
            errno => anyhow!(errno).context(format!("cannot open the process {pid}")),
        })?;
        let end = watch(pidfd.as_fd())
            .with_context(|| format!("cannot wait for the end of process {pid}"))?;
        Ok(Self { pid, end })
    }

    /// Its PID.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// The threads that it has now.
    pub(crate) fn threads(&self) -> anyhow::Result<Vec<u32>> {
        let folder = format!("/proc/{}/task", self.pid);
        let mut threads = Vec::new();
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {folder}"))? {
            let name = entry.with_context(|| format!("cannot read {folder}"))?.file_name();
            threads.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
        }
        if threads.is_empty() {
            bail!("process {} has ended", self.pid);
        }
        Ok(threads)
    }

    /// Waits until the process has ended, all its threads included.
    pub(crate) async fn ended(&self) -> anyhow::Result<()> {
        let readable = self.end.readable().await;
        readable.map(drop).with_context(|| format!("cannot wait for the end of {}", self.pid))
    }
}

fn absent(pid: u32) -> anyhow::Error {
    anyhow!("there is no process with PID {pid}: `ps -e` lists those that there are")
}
