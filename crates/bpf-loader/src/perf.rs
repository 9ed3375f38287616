//! Perf events on one CPU: the clock of a sampler, and the kernel's records of processes.

use std::{
    fs, io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::param::page_size;

use crate::sys::{self, Mapping};

/// Trigger of a sampler on a CPU: a clock, which stops while the CPU is idle, or a counter of page
/// faults. Dropping it removes the event.
#[derive(Debug)]
pub struct CpuClock(OwnedFd);

impl CpuClock {
    /// Opens a clock with this frequency, not yet running. Fails with `PermissionDenied` without
    /// `CAP_PERFMON`; `InvalidInput` above the sysctl `kernel.perf_event_max_sample_rate`.
    pub fn open(cpu: u32, frequency_hz: u64) -> io::Result<Self> {
        sys::open_clock(number(cpu)?, frequency_hz).map(Self)
    }

    /// Opens a counter of the page faults of all processes, which triggers every `period` faults. It has no time.
    pub fn open_page_faults(cpu: u32, period: u64) -> io::Result<Self> {
        sys::open_page_faults(number(cpu)?, period).map(Self)
    }

    /// Runs a program of type perf_event whenever the event triggers.
    pub fn attach(&self, program: impl AsFd) -> io::Result<()> {
        sys::set_program(self.0.as_fd(), program.as_fd())
    }

    pub fn start(&self) -> io::Result<()> {
        sys::switch(self.0.as_fd(), true)
    }

    pub fn stop(&self) -> io::Result<()> {
        sys::switch(self.0.as_fd(), false)
    }

    /// Running time of a clock so far, in nanoseconds; for a counter, the number of page faults.
    pub fn ran_ns(&self) -> io::Result<u64> {
        let mut value = [0; 8];
        match rustix::io::read(&self.0, &mut value)? {
            8 => Ok(u64::from_ne_bytes(value)),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Offsets of `data_head` and `data_tail` in the first page (`struct perf_event_mmap_page`,
/// include/uapi/linux/perf_event.h, Linux 6.18).
const HEAD: usize = 1024;
const TAIL: usize = 1032;

/// The kernel's records about processes on a CPU, and about kernel code: executable mappings,
/// names, forks and exits, symbols and BPF programs.
#[derive(Debug)]
pub struct ProcessRecords {
    event: OwnedFd,
    ring: Mapping,
    /// Size of the record buffer in bytes.
    size: usize,
    counts_lost: bool,
}

impl ProcessRecords {
    /// Opens a buffer of `pages` pages, a power of two; recording starts immediately. Fails with
    /// `PermissionDenied` without `CAP_PERFMON`.
    pub fn open(cpu: u32, pages: usize) -> io::Result<Self> {
        let open = |counts_lost| sys::open_process_records(number(cpu)?, counts_lost);
        let (event, counts_lost) = match open(true) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => (open(false)?, false),
            event => (event?, true),
        };
        let size = pages * page_size();
        let ring = Mapping::of(&event, 0, page_size() + size, true)?;
        Ok(Self { event, ring, size, counts_lost })
    }

    /// Number of records lost so far. `None` before Linux 6.0, where only the next stored record reports the loss.
    pub fn lost(&self) -> Option<u64> {
        let mut values = [0; 16];
        let len = self.counts_lost.then(|| rustix::io::read(&self.event, &mut values))?.ok()?;
        let (_count, lost) = values.split_last_chunk().filter(|_| len == values.len())?;
        Some(u64::from_ne_bytes(*lost))
    }

    /// Appends all waiting records to `bytes` in the kernel's format: each begins with a `struct
    /// perf_event_header` and ends with its time.
    pub fn take(&mut self, bytes: &mut Vec<u8>) {
        let (head, tail) = (self.ring.load_u64(HEAD), self.ring.load_u64(TAIL));
        let waiting = (head.wrapping_sub(tail) as usize).min(self.size);
        let start = tail as usize % self.size;
        let first = waiting.min(self.size - start);
        self.ring.copy(page_size() + start, first, bytes);
        self.ring.copy(page_size(), waiting - first, bytes);
        self.ring.store_u64(TAIL, head);
    }
}

/// For waiting for the next record.
impl AsFd for ProcessRecords {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

fn number(cpu: u32) -> io::Result<libc::c_int> {
    libc::c_int::try_from(cpu).map_err(io::Error::other)
}

/// Numbers of the online CPUs, ascending. Fails if the kernel does not report them.
pub fn online_cpus() -> io::Result<Vec<u32>> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online")?;
    let cpus = cpu_list(text.trim()).filter(|cpus| !cpus.is_empty());
    cpus.ok_or_else(|| io::Error::other(format!("no list of CPUs: {text:?}")))
}

/// Parses a list such as `0-3,8`, which may be empty; `None` if it is invalid.
pub fn cpu_list(list: &str) -> Option<Vec<u32>> {
    /// More than any kernel supports (`CONFIG_NR_CPUS`).
    const CPUS_MAX: u32 = 1 << 16;
    let mut all = Vec::new();
    for range in list.split(',').filter(|_| !list.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last >= CPUS_MAX || first > last {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus() {
        let check = |list, expected: Option<&[u32]>| {
            assert_eq!(cpu_list(list).as_deref(), expected, "{list:?}");
        };
        check("0", Some(&[0]));
        check("0-2,5,8-9", Some(&[0, 1, 2, 5, 8, 9]));
        check("", Some(&[]));
        check("a", None);
        check("1-", None);
        check("0,", None);
        check("2-1", None);
        check("0-4294967295", None);
    }
}
