//! Selects the processes to sample, and checks that they can be sampled.

use std::{collections::HashSet, ffi::OsString};

use crate::{error::TargetError, proc};

/// Which processes to sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Targets {
    /// Existing processes.
    Pids(Vec<u32>),
    /// A command to launch: program and arguments.
    Command(Vec<OsString>),
    All,
}

impl Targets {
    /// Checks that processes exist and run user code, before anything is loaded.
    pub fn check(&self) -> Result<(), TargetError> {
        match self {
            Self::Pids(pids) => pids.iter().try_for_each(|&pid| check_pid(pid)),
            Self::Command(words) if words.is_empty() => Err(TargetError::EmptyCommand),
            Self::Command(_) | Self::All => Ok(()),
        }
    }

    /// Checks that the kernel can insert probes into processes: it finds their memory through their first threads.
    pub(crate) fn check_for_probes(&self) -> Result<(), TargetError> {
        let Self::Pids(pids) = self else { return Ok(()) };
        let headless = pids.iter().find(|&&pid| proc::living_thread(pid) != Some(pid));
        headless.map_or(Ok(()), |&pid| Err(TargetError::Headless(pid)))
    }

    /// Description for titles.
    pub fn describe(&self) -> String {
        let describe_pid = |pid: &u32| match proc::Stat::read(*pid) {
            Some(stat) => format!("PID {pid} ({})", stat.comm),
            None => format!("PID {pid}"),
        };
        match self {
            Self::Pids(pids) => pids.iter().map(describe_pid).collect::<Vec<_>>().join(", "),
            Self::Command(words) => {
                words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
            }
            Self::All => "all processes".to_owned(),
        }
    }
}

fn check_pid(pid: u32) -> Result<(), TargetError> {
    let stat = proc::Stat::read(pid).ok_or(TargetError::NoSuchProcess(pid))?;
    if let Some(process) = proc::process_of_thread(pid)
        && process != pid
    {
        return Err(TargetError::Thread { tid: pid, pid: process });
    }
    if stat.is_kernel_thread() {
        return Err(TargetError::KernelThread { pid, name: stat.comm });
    }
    if stat.is_zombie() && proc::living_thread(pid).is_none() {
        return Err(TargetError::Zombie { pid, name: stat.comm });
    }
    Ok(())
}

/// The processes and all their current descendants.
pub(crate) fn with_descendants(pids: &[u32]) -> HashSet<u32> {
    let parents: Vec<(u32, u32)> = proc::pids()
        .into_iter()
        .filter_map(|pid| Some((pid, proc::Stat::read(pid)?.parent)))
        .collect();
    let mut family: HashSet<u32> = pids.iter().copied().collect();
    // By generation; each round adds at least one process or is the last.
    loop {
        let before = family.len();
        for (pid, parent) in &parents {
            if family.contains(parent) {
                family.insert(*pid);
            }
        }
        if family.len() == before {
            return family;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_does_not_exist() {
        // Above the kernel's largest PID (PID_MAX_LIMIT, 2^22).
        assert_eq!(
            Targets::Pids(vec![5_000_000]).check(),
            Err(TargetError::NoSuchProcess(5_000_000))
        );
        assert_eq!(Targets::Command(Vec::new()).check(), Err(TargetError::EmptyCommand));
    }

    #[test]
    fn children_are_descendants() {
        let mut child = std::process::Command::new("sleep").arg("30").spawn().expect("sleep");
        let family = with_descendants(&[std::process::id()]);
        assert!(family.contains(&child.id()));
        child.kill().and_then(|()| child.wait()).expect("kill");
    }
}
