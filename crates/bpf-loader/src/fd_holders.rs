//! Finds the processes that hold a program, by their descriptors in `/proc/PID/fdinfo`.
//!
//! A program stays in the kernel as long as something holds it: a process with a descriptor of it
//! or of a link to it, a pin, or its attachment. Only the first is visible here. A program without
//! an owner is pinned, or has an attachment that outlives its creator (tc, cgroups without a link,
//! sockets), or is in a map of other programs.
//!
//! Cost: about 6 µs per descriptor of any process, most of it the kernel's permission check (Linux
//! 6.18, x86-64, a virtual machine): 4 ms for 100 processes with 700 descriptors, 70 ms for 10,000
//! descriptors.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::{self, DirEntry, File},
    io::{self, Read as _},
    os::unix::ffi::OsStrExt as _,
    path::Path,
};

use serde::Serialize;

/// Maximum number of descriptors checked per process.
const DESCRIPTORS_MAX: usize = 1 << 16;

/// Maximum number of processes checked: the kernel's limit of PIDs (`PID_MAX_LIMIT`,
/// include/linux/threads.h, Linux 6.18).
const PROCESSES_MAX: usize = 1 << 22;

/// Bytes read of an fdinfo file; those of programs and links have some hundred.
const FDINFO_LEN_MAX: u64 = 1 << 14;

/// A process that holds a program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Owner {
    /// Its PID, as seen by this process.
    pub pid: u32,
    /// Its name, at most 15 bytes. The process chooses it, with any character but NUL; empty if the
    /// process ended too early.
    pub name: String,
}

/// The processes that hold programs, at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owners {
    by_program: BTreeMap<u32, Vec<Owner>>,
    /// Processes that have enabled run-time statistics (`BPF_ENABLE_STATS`), including this one.
    pub keep_statistics_on: Vec<Owner>,
    /// Processes with inaccessible descriptors: those of other users, without `CAP_SYS_PTRACE`.
    /// Programs that they hold seem to have no owner.
    pub unreadable_processes: u32,
}

impl Owners {
    /// Scans all processes. Skips those that end meanwhile. Fails if `/proc` cannot be listed.
    pub fn scan() -> io::Result<Self> {
        Self::scan_in(Path::new("/proc"))
    }

    fn scan_in(proc: &Path) -> io::Result<Self> {
        let mut found = Self::default();
        for process in fs::read_dir(proc)?.take(PROCESSES_MAX) {
            let Ok(process) = process else { continue };
            if let Some(pid) = number_of(&process) {
                found.scan_process(pid, &process.path());
            }
        }
        found.by_program.values_mut().for_each(|owners| owners.sort_unstable());
        found.keep_statistics_on.sort_unstable();
        Ok(found)
    }

    /// Processes that hold program `id` by a descriptor of it or of a link, by ascending PID.
    pub fn of(&self, id: u32) -> &[Owner] {
        self.by_program.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Names of the descriptors of a process; `None` if it has ended or denies access.
    fn list(&mut self, folder: &Path) -> Option<Vec<OsString>> {
        // Without CAP_DAC_READ_SEARCH only its owner can list `fd`, but CAP_SYS_PTRACE suffices for
        // `fdinfo` (fs/proc/fd.c, Linux 6.18).
        let listed = fs::read_dir(folder.join("fd")).or_else(|error| match is_refusal(&error) {
            true => fs::read_dir(folder.join("fdinfo")),
            false => Err(error),
        });
        match listed {
            Ok(listed) => {
                let listed = listed.map_while(Result::ok).take(DESCRIPTORS_MAX);
                Some(listed.map(|entry| entry.file_name()).collect())
            }
            Err(error) => {
                let refused = u32::from(is_refusal(&error));
                self.unreadable_processes = self.unreadable_processes.saturating_add(refused);
                None
            }
        }
    }

    fn scan_process(&mut self, pid: u32, folder: &Path) {
        let Some(descriptors) = self.list(folder) else { return };
        let mut held = Vec::new();
        let mut keeps_statistics_on = false;
        let mut is_refused = false;
        for descriptor in descriptors {
            match kind_of(&folder.join("fd").join(&descriptor)) {
                Kind::Other => {}
                Kind::Statistics => keeps_statistics_on = true,
                Kind::MayBeProgram => {
                    match program_held_by(&folder.join("fdinfo").join(&descriptor)) {
                        Ok(program) => held.extend(program),
                        Err(error) => is_refused |= is_refusal(&error),
                    }
                }
            }
        }
        self.unreadable_processes = self.unreadable_processes.saturating_add(is_refused.into());
        if held.is_empty() && !keeps_statistics_on {
            return;
        }
        let owner = Owner { pid, name: name_in(folder) };
        if keeps_statistics_on {
            self.keep_statistics_on.push(owner.clone());
        }
        held.sort_unstable();
        held.dedup();
        for program in held {
            self.by_program.entry(program).or_default().push(owner.clone());
        }
    }
}

/// Kind of a descriptor by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A program, a link to one, or unknown: fdinfo decides.
    MayBeProgram,
    /// A handle that keeps statistics enabled.
    Statistics,
    Other,
}

/// Reads the link of a descriptor. It requires more privileges than fdinfo (`CAP_DAC_READ_SEARCH`
/// for other users' processes), so a denial means nothing.
fn kind_of(link: &Path) -> Kind {
    match fs::read_link(link) {
        Ok(target) => kind_by_name(target.as_os_str().as_bytes()),
        Err(error) if is_refusal(&error) => Kind::MayBeProgram,
        Err(_) => Kind::Other,
    }
}

/// Names are those passed to `anon_inode_getfd` in kernel/bpf/syscall.c: `bpf-prog` and `bpf-stats`
/// (Linux 6.18), `bpf_link` (since 5.7; with hyphens and a prefix in newer kernels).
fn kind_by_name(target: &[u8]) -> Kind {
    match target.strip_prefix(b"anon_inode:") {
        Some(b"bpf-stats") => Kind::Statistics,
        Some(b"bpf-map" | b"btf" | b"bpf-token") => Kind::Other,
        Some(name) if name.starts_with(b"bpf") => Kind::MayBeProgram,
        _ => Kind::Other,
    }
}

/// The program that a descriptor holds.
fn program_held_by(fdinfo: &Path) -> io::Result<Option<u32>> {
    let mut text = Vec::new();
    File::open(fdinfo)?.take(FDINFO_LEN_MAX).read_to_end(&mut text)?;
    Ok(program_in(&String::from_utf8_lossy(&text)))
}

fn is_refusal(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// Program id in the fdinfo of a program or a link (`bpf_prog_show_fdinfo`, `bpf_link_show_fdinfo`,
/// kernel/bpf/syscall.c, Linux 6.18).
fn program_in(fdinfo: &str) -> Option<u32> {
    let line = fdinfo.lines().find_map(|line| line.strip_prefix("prog_id:"))?;
    line.trim().parse().ok()
}

fn number_of(process: &DirEntry) -> Option<u32> {
    process.file_name().to_str()?.parse().ok()
}

fn name_in(folder: &Path) -> String {
    let bytes = fs::read(folder.join("comm")).unwrap_or_default();
    String::from_utf8_lossy(bytes.strip_suffix(b"\n").unwrap_or(&bytes)).into_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn programs_in_fdinfo() {
        let check = |text: &str, expected| assert_eq!(program_in(text), expected, "{text:?}");
        check("pos:\t0\nflags:\t02000002\nprog_type:\t6\nprog_id:\t41\nrun_cnt:\t0\n", Some(41));
        check(
            "pos:\t0\nlink_type:\txdp\nlink_id:\t3\nprog_tag:\ta04f5eef06a7f555\nprog_id:\t7\n",
            Some(7),
        );
        check("pos:\t0\nmap_type:\t3\nowner_prog_type:\t6\n", None);
        check("prog_id:\t-1\n", None);
        check("prog_id:\t99999999999\n", None);
        check("prog_id:", None);
        check("", None);
    }

    #[test]
    fn names_of_descriptors() {
        let check =
            |name: &str, expected| assert_eq!(kind_by_name(name.as_bytes()), expected, "{name}");
        check("anon_inode:bpf-prog", Kind::MayBeProgram);
        check("anon_inode:bpf_link", Kind::MayBeProgram);
        check("anon_inode:bpf-raw-tracepoint", Kind::MayBeProgram);
        check("anon_inode:bpf-stats", Kind::Statistics);
        check("anon_inode:bpf-map", Kind::Other);
        check("anon_inode:[eventpoll]", Kind::Other);
        check("/home/x/bpf-prog", Kind::Other);
        check("", Kind::Other);
    }

    /// A process of a fake `/proc`: descriptors by number, with link target and fdinfo.
    fn process(proc: &Path, pid: u32, name: &str, descriptors: &[(u32, &str, &str)]) {
        let folder = proc.join(pid.to_string());
        fs::create_dir_all(folder.join("fd")).unwrap();
        fs::create_dir_all(folder.join("fdinfo")).unwrap();
        fs::write(folder.join("comm"), format!("{name}\n")).unwrap();
        for (number, target, fdinfo) in descriptors {
            symlink(target, folder.join("fd").join(number.to_string())).unwrap();
            fs::write(folder.join("fdinfo").join(number.to_string()), fdinfo).unwrap();
        }
    }

    #[test]
    fn each_process_counts_once_per_program() {
        let proc = std::env::temp_dir().join(format!("wingbeat-owners-{}", std::process::id()));
        let program = "pos:\t0\nprog_id:\t7\n";
        let (held, linked) =
            ((3, "anon_inode:bpf-prog", program), (4, "anon_inode:bpf_link", program));
        process(&proc, 20, "agent", &[(0, "/dev/null", ""), held, linked]);
        process(&proc, 9, "odd\nname", &[held, (5, "anon_inode:bpf-stats", "pos:\t0\n")]);
        process(&proc, 8, "liar", &[(3, "/tmp/bpf-prog", program)]);
        fs::create_dir_all(proc.join("self")).unwrap();
        fs::create_dir_all(proc.join("10")).unwrap();
        let found = Owners::scan_in(&proc);
        fs::remove_dir_all(&proc).unwrap();

        let found = found.unwrap();
        let odd = Owner { pid: 9, name: "odd\nname".to_owned() };
        assert_eq!(found.of(7), [odd.clone(), Owner { pid: 20, name: "agent".to_owned() }]);
        assert_eq!(found.of(8), []);
        assert_eq!(found.keep_statistics_on, [odd]);
        assert_eq!(found.unreadable_processes, 0);
    }

    #[test]
    fn the_real_one_can_be_scanned_by_anybody() {
        Owners::scan().expect("/proc");
    }
}
