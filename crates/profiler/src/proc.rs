//! Reads `/proc`. The readers are small and tolerant: a process may exit at any moment, which means that there is
//! nothing to read.

use std::{fs, os::unix::fs::FileExt as _, path::PathBuf};

/// An executable mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappedFile {
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// File offset of the first address.
    pub offset: u64,
    /// Device of the file: major and minor.
    pub device: (u32, u32),
    /// Inode of the file; 0 without a file.
    pub inode: u64,
    /// Path as seen by the process, or a name such as `[vdso]` or `//anon`.
    pub path: String,
}

impl MappedFile {
    /// Whether it is memory without a file or a name.
    pub(crate) fn is_memory(&self) -> bool {
        self.inode == 0 && matches!(&*self.path, "" | "//anon")
    }
}

/// Facts about an existing process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) comm: String,
    /// State letter, as in proc(5).
    pub(crate) state: char,
    pub(crate) parent: u32,
    /// Kernel flags (`PF_*`).
    pub(crate) flags: u32,
}

/// `PF_KTHREAD` of include/linux/sched.h, the same since 2.6.
const KERNEL_THREAD: u32 = 0x0020_0000;

impl Stat {
    pub(crate) fn read(pid: u32) -> Option<Self> {
        Self::parse(&read_text(&format!("/proc/{pid}/stat"))?)
    }

    /// The name is in parentheses and may contain some itself, so the last one ends it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (head, tail) = text.rsplit_once(')')?;
        let (_, comm) = head.split_once('(')?;
        let mut fields = tail.split_whitespace();
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        let flags = fields.nth(4)?.parse().ok()?;
        Some(Self { comm: comm.to_owned(), state, parent, flags })
    }

    pub(crate) fn is_kernel_thread(&self) -> bool {
        self.flags & KERNEL_THREAD != 0
    }

    /// Whether it has exited but is not reaped.
    pub(crate) fn is_zombie(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// Reads words of a process's memory from `address` on: as many of `bytes` as are readable.
pub(crate) fn stack_words(pid: u32, address: u64, bytes: usize) -> Vec<u64> {
    let mut read = vec![0; bytes];
    let Ok(memory) = fs::File::open(format!("/proc/{pid}/mem")) else { return Vec::new() };
    // Shorter at the end of the mapping.
    let got = memory.read_at(&mut read, address).unwrap_or(0);
    let (words, _) = read.get(..got).unwrap_or_default().as_chunks();
    words.iter().map(|word| u64::from_ne_bytes(*word)).collect()
}

/// Whether the process exists, possibly as a zombie.
pub(crate) fn exists(pid: u32) -> bool {
    fs::exists(format!("/proc/{pid}")).unwrap_or(false)
}

/// Name of a thread.
pub(crate) fn comm(pid: u32, tid: u32) -> Option<String> {
    let name = read_text(&format!("/proc/{pid}/task/{tid}/comm"))?;
    Some(name.trim_end_matches('\n').to_owned())
}

/// Process of a thread, for a TID that is not a PID.
pub(crate) fn process_of_thread(tid: u32) -> Option<u32> {
    let text = read_text(&format!("/proc/{tid}/status"))?;
    text.lines().find_map(|line| line.strip_prefix("Tgid:")).and_then(|pid| pid.trim().parse().ok())
}

/// Identity of a process, from `/proc/PID/status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Owner of the files that it creates.
    pub(crate) user: u32,
    /// PID in its innermost PID namespace: the one that it sees itself.
    pub(crate) innermost_pid: u32,
}

impl Identity {
    pub(crate) fn read(pid: u32) -> Option<Self> {
        Self::parse(&read_text(&format!("/proc/{pid}/status"))?)
    }

    /// The users are real, effective, saved, and finally that of the file system.
    fn parse(text: &str) -> Option<Self> {
        let last = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key))?;
            line.split_whitespace().next_back()?.parse().ok()
        };
        Some(Self { user: last("Uid:")?, innermost_pid: last("NSpid:")? })
    }
}

pub(crate) fn pids() -> Vec<u32> {
    numbers("/proc".into())
}

/// CPU time of a process's live threads, in nanoseconds, as counted by the scheduler: from
/// `/proc/PID/task/TID/schedstat` (Documentation/scheduler/sched-stats.rst).
pub(crate) fn cpu_time_ns(pid: u32) -> u64 {
    if living_thread(pid).is_none() {
        return 0;
    }
    threads(pid).into_iter().filter_map(|tid| thread_cpu_time_ns(pid, tid)).sum()
}

/// CPU time of one thread, in nanoseconds, as counted by the scheduler.
pub(crate) fn thread_cpu_time_ns(pid: u32, tid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

pub(crate) fn threads(pid: u32) -> Vec<u32> {
    numbers(format!("/proc/{pid}/task").into())
}

/// A thread that has not exited: the first, unless it exited before others.
pub(crate) fn living_thread(pid: u32) -> Option<u32> {
    let lives = |tid: &u32| {
        let stat = read_text(&format!("/proc/{pid}/task/{tid}/stat"));
        stat.and_then(|text| Stat::parse(&text)).is_some_and(|stat| !stat.is_zombie())
    };
    Some(pid).filter(lives).or_else(|| threads(pid).into_iter().find(lives))
}

/// CPU time of the whole machine since boot, summed over the CPUs, with a resolution of 10 ms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MachineTime {
    /// Processes and interrupts.
    pub(crate) busy_ns: u64,
    pub(crate) idle_ns: u64,
}

impl MachineTime {
    /// Reads the first line of `/proc/stat`; zeros if it is missing.
    pub(crate) fn read() -> Self {
        Self::parse(&fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    /// user nice system idle iowait irq softirq steal guest guest_nice; guest time is included in user.
    fn parse(text: &str) -> Self {
        let line = text.lines().next().unwrap_or_default();
        let ticks: Vec<u64> =
            line.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
        let ns = |fields: &[usize]| {
            let sum: u64 = fields.iter().filter_map(|&field| ticks.get(field)).sum();
            sum * (1_000_000_000 / rustix::param::clock_ticks_per_second())
        };
        Self { busy_ns: ns(&[0, 1, 2, 5, 6]), idle_ns: ns(&[3, 4]) }
    }
}

/// Reads a file with names, which may be any bytes: programs choose them, and the kernel truncates thread names
/// after 15 bytes, even within a character.
fn read_text(path: &str) -> Option<String> {
    Some(String::from_utf8_lossy(&fs::read(path).ok()?).into_owned())
}

fn numbers(folder: PathBuf) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The executable mappings of a process.
pub(crate) fn executable_mappings(pid: u32) -> Vec<MappedFile> {
    // An exited thread has no memory any more.
    let tid = living_thread(pid).unwrap_or(pid);
    let text = read_text(&format!("/proc/{tid}/maps")).unwrap_or_default();
    mappings_in(&text)
}

/// The executable mappings in a list. Memory within the mapping of a file follows the file's part that it
/// replaced: a program may have copied its code to large pages.
fn mappings_in(text: &str) -> Vec<MappedFile> {
    let all: Vec<(MappedFile, bool)> = text.lines().filter_map(parse_line).collect();
    let bias = |file: &MappedFile| file.start.wrapping_sub(file.offset);
    let mut found = Vec::new();
    for (at, (file, is_executable)) in all.iter().enumerate().filter(|(_, (_, is))| *is) {
        let before = at.checked_sub(1).and_then(|before| all.get(before));
        if let (true, Some((before, _)), Some((after, _))) =
            (file.is_memory(), before, all.get(at + 1))
            && (before.end, file.end) == (file.start, after.start)
            && (before.device, before.inode, bias(before))
                == (after.device, after.inode, bias(after))
            && before.inode != 0
        {
            let offset = file.start.wrapping_sub(bias(before));
            found.push(MappedFile { start: file.start, end: file.end, offset, ..before.clone() });
        }
        found.extend(is_executable.then(|| file.clone()));
    }
    found
}

/// Reads bytes of a process's memory; `None` if not all are readable.
pub(crate) fn memory<const N: usize>(pid: u32, address: u64) -> Option<[u8; N]> {
    let memory = fs::File::open(format!("/proc/{}/mem", living_thread(pid)?)).ok()?;
    let mut bytes = [0; N];
    memory.read_exact_at(&mut bytes, address).ok()?;
    Some(bytes)
}

/// Resident anonymous memory of a process.
pub(crate) fn anonymous_bytes(pid: u32) -> Option<u64> {
    let text = read_text(&format!("/proc/{}/status", living_thread(pid)?))?;
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

/// End of the heap that `brk` moves, in whole pages; `None` if it is empty.
pub(crate) fn break_of(pid: u32) -> Option<u64> {
    let text = read_text(&format!("/proc/{pid}/maps"))?;
    let line = text.lines().find(|line| line.ends_with(" [heap]"))?;
    let (_, end) = line.split_once(' ')?.0.split_once('-')?;
    u64::from_str_radix(end, 16).ok()
}

/// `start-end perms offset major:minor inode path`; `None` for non-executable mappings, and for the page
/// `[vsyscall]`, which is among the kernel's addresses: calls to it are emulated.
pub(crate) fn parse_mapping(line: &str) -> Option<MappedFile> {
    parse_line(line).filter(|(_, is_executable)| *is_executable).map(|(file, _)| file)
}

/// Same for every mapping below the kernel's addresses, with whether it is executable.
fn parse_line(line: &str) -> Option<(MappedFile, bool)> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok().filter(|start| start >> 63 == 0)?;
    let is_executable = fields.next()?.as_bytes().get(2) == Some(&b'x');
    let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
    let (major, minor) = fields.next()?.split_once(':')?;
    let inode = fields.next()?.parse().ok()?;
    let file = MappedFile {
        start,
        end: u64::from_str_radix(end, 16).ok()?,
        offset,
        device: (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?),
        inode,
        path: fields.next().unwrap_or_default().trim_start().to_owned(),
    };
    Some((file, is_executable))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_with_a_name_that_contains_parentheses() {
        let text = "42 (a) b (c) S 7 42 42 0 -1 4194304 90 0 0 0 1 2 0 0 20 0 1 0 5";
        let expected = Stat { comm: "a) b (c".to_owned(), state: 'S', parent: 7, flags: 4_194_304 };
        assert_eq!(Stat::parse(text), Some(expected));
        assert_eq!(Stat::parse("42 (a"), None);
        assert_eq!(Stat::parse("42 (a) S x"), None);
    }

    #[test]
    fn who_a_process_is() {
        let check = |text, expected: Option<(u32, u32)>| {
            let expected = expected.map(|(user, innermost_pid)| Identity { user, innermost_pid });
            assert_eq!(Identity::parse(text), expected, "{text}");
        };
        let text = "Name:\ta\nUid:\t1000\t0\t0\t7\nNSpid:\t4711\t12\n";
        check(text, Some((7, 12)));
        check("Name:\tUid: 7\nNSpid:\t4711\n", None);
        check("", None);
    }

    #[test]
    fn mapping_lines() {
        let check = |line: &str, expected: Option<(u64, u64, u64, u64, &str)>| {
            let found = parse_mapping(line);
            let found =
                found.as_ref().map(|m| (m.start, m.end, m.offset, m.inode, m.path.as_str()));
            assert_eq!(found, expected, "{line}");
        };
        check(
            "7f10-7f20 r-xp 00001000 fe:00 123                        /usr/lib/my lib.so (deleted)",
            Some((0x7f10, 0x7f20, 0x1000, 123, "/usr/lib/my lib.so (deleted)")),
        );
        check("7f10-7f20 rwxp 00000000 00:00 0 ", Some((0x7f10, 0x7f20, 0, 0, "")));
        check("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0      [vsyscall]", None);
        check("7f10-7f20 rw-p 00000000 00:00 0          [stack]", None);
        check("nonsense", None);
        check("", None);
    }

    #[test]
    fn memory_in_a_hole_of_a_file_comes_after_the_file() {
        let text = |after: &str| {
            format!(
                "1000-2000 r--p 00000000 fe:00 7 /bin/a\n2000-5000 r-xp 00000000 00:00 0 \n{after}\n\
                 9000-a000 r-xp 00000000 00:00 0 "
            )
        };
        let check = |after: &str, expected: &[(u64, u64, &str)]| {
            let found = mappings_in(&text(after));
            let found: Vec<_> = found.iter().map(|it| (it.start, it.offset, &*it.path)).collect();
            assert_eq!(found, expected, "{after}");
        };
        let memory = [(0x2000, 0, ""), (0x9000, 0, "")];
        check(
            "5000-6000 r--p 00004000 fe:00 7 /bin/a",
            &[(0x2000, 0x1000, "/bin/a"), memory[0], memory[1]],
        );
        // Another file, another offset, and a gap after it.
        check("5000-6000 r--p 00004000 fe:00 8 /bin/b", &memory);
        check("5000-6000 r--p 00001000 fe:00 7 /bin/a", &memory);
        check("6000-7000 r--p 00005000 fe:00 7 /bin/a", &memory);
    }

    #[test]
    fn this_process_has_mappings_and_a_name() {
        let pid = std::process::id();
        assert!(executable_mappings(pid).iter().any(|m| m.path == "[vdso]"));
        assert!(Stat::read(pid).is_some_and(|stat| !stat.is_kernel_thread()));
        assert!(cpu_time_ns(pid) > 0);
        assert!(Identity::read(pid).is_some_and(|identity| identity.innermost_pid <= pid));
    }

    #[test]
    fn a_name_that_is_not_text() {
        let pid = std::process::id();
        std::thread::spawn(move || {
            let tid = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
            fs::write(format!("/proc/{pid}/task/{tid}/comm"), b"a\xff").expect("rename");
            assert_eq!(comm(pid, tid).as_deref(), Some("a\u{fffd}"));
            assert_eq!(process_of_thread(tid), Some(pid));
            assert!(Stat::read(tid).is_some_and(|stat| stat.comm == "a\u{fffd}"));
        })
        .join()
        .expect("thread");
    }
}
