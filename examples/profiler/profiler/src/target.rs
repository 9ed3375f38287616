//! The sampled process.

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

/// A live process, held by a descriptor, so that its PID cannot be reused.
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
            // The errno depends on the kernel version.
            Errno::INVAL | Errno::NOENT => {
                anyhow!(
                    "{pid} is a thread: give the PID of its process (`Tgid` in /proc/{pid}/status)"
                )
            }
            errno => anyhow!(errno).context(format!("cannot open the process {pid}")),
        })?;
        if is_kernel_thread(pid)? {
            bail!("{pid} is a thread of the kernel: it has no user stack to sample");
        }
        let end = watch(pidfd.as_fd())
            .with_context(|| format!("cannot wait for the end of process {pid}"))?;
        Ok(Self { pid, end })
    }

    /// Its PID.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Its current threads.
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

    /// Waits until the process has ended, including all its threads.
    pub(crate) async fn ended(&self) -> anyhow::Result<()> {
        let readable = self.end.readable().await;
        readable.map(drop).with_context(|| format!("cannot wait for the end of {}", self.pid))
    }
}

fn absent(pid: u32) -> anyhow::Error {
    anyhow!("there is no process with PID {pid}: `ps -e` lists them")
}

/// `PF_KTHREAD` of the kernel's include/linux/sched.h.
const KERNEL_THREAD: u32 = 0x0020_0000;

fn is_kernel_thread(pid: u32) -> anyhow::Result<bool> {
    let file = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
    let flags = task_flags(&stat).with_context(|| format!("cannot understand {file}: {stat:?}"))?;
    Ok(flags & KERNEL_THREAD != 0)
}

/// The ninth field of /proc/PID/stat (see proc_pid_stat(5)).
fn task_flags(stat: &str) -> Option<u32> {
    // The second field is a name in parentheses, which may contain spaces and parentheses itself.
    let (_, from_third) = stat.rsplit_once(')')?;
    from_third.split_ascii_whitespace().nth(6)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_a_task() {
        let check = |stat, expected| assert_eq!(task_flags(stat), expected, "of {stat:?}");
        check("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0", Some(2_129_984));
        check("7 (a) b (c)) R 1 7 7 0 -1 4194304 81 0", Some(4_194_304));
        check("7 (sh) R 1 7 7 0 -1", None);
        check("7 (sh) R 1 7 7 0 -1 many", None);
        check("", None);
    }
}
