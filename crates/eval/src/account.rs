//! What the kernel accounts to a process and to all that it started: CPU time and memory.

use std::{collections::HashMap, fs};

use anyhow::{Context as _, ensure};

/// CPU time and memory until now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Account {
    /// Of user and system time, with that of children which were waited for.
    pub(crate) ticks: u64,
    /// Resident.
    pub(crate) memory_bytes: u64,
}

impl Account {
    /// Of a process with all that it started.
    pub(crate) fn of(root: u32) -> anyhow::Result<Self> {
        let mut processes: HashMap<u32, Process> = HashMap::new();
        for entry in fs::read_dir("/proc").context("cannot read /proc")?.flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // It may have ended since.
            let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
            processes.extend(Process::read(&stat).map(|found| (pid, found)));
        }
        ensure!(processes.contains_key(&root), "the process {root} is not there any more");
        let is_below = |mut pid: u32| {
            // A number that was given again while all were read may lead around in a circle.
            for _ in 0..=processes.len() {
                if pid == root {
                    return true;
                }
                match processes.get(&pid) {
                    Some(process) => pid = process.parent,
                    None => return false,
                }
            }
            false
        };
        let mut sum = Self::default();
        for (_, process) in processes.iter().filter(|(pid, _)| is_below(**pid)) {
            sum.ticks += process.ticks;
            sum.memory_bytes += process.pages * rustix::param::page_size() as u64;
        }
        Ok(sum)
    }
}

/// What `/proc/PID/stat` has of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    parent: u32,
    ticks: u64,
    pages: u64,
}

impl Process {
    fn read(stat: &str) -> Option<Self> {
        // The name of the program may have blanks and brackets.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        // The state is the third field of all, proc(5).
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let ticks = (14..=17).map(field).sum::<Option<u64>>()?;
        Some(Self { parent: u32::try_from(field(4)?).ok()?, ticks, pages: field(24)? })
    }
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::process::CommandExt as _,
        process::Command,
        thread,
        time::{Duration, Instant},
    };

    use rustix::process::{Pid, Signal, kill_process_group};

    use super::*;

    #[test]
    fn a_process_is_read() {
        let stat = "7 (a) b) S 3 7 7 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 5 6 77 9 10";
        assert_eq!(Process::read(stat), Some(Process { parent: 3, ticks: 100, pages: 77 }));
        assert_eq!(Process::read("7 (a) S 3"), None);
    }

    #[test]
    fn a_process_counts_with_its_children() {
        // The shell itself only waits.
        let spin = "(i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; sleep 60) & wait";
        let mut command = Command::new("sh");
        let mut child = command.args(["-c", spin]).process_group(0).spawn().expect("it starts");
        let begun = Instant::now();
        let found = loop {
            let account = Account::of(child.id()).expect("it is there");
            if account.ticks > 0 || begun.elapsed() > Duration::from_secs(30) {
                break account;
            }
            thread::sleep(Duration::from_millis(20));
        };
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        let _ = child.wait();
        assert!(found.ticks > 0 && found.memory_bytes > 0, "{found:?}");
        Account::of(child.id()).expect_err("it is gone");
    }
}
