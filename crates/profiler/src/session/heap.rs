//! Allocator probes: loads the programs, attaches them to allocator functions, measures their cost.

use std::{
    collections::{BTreeMap, HashSet},
    ffi::OsStr,
    fs::{self, File},
    os::{
        fd::AsRawFd as _,
        unix::{ffi::OsStrExt as _, fs::MetadataExt as _, process::CommandExt as _},
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::geteuid;
use wingbeat_bpf_loader::{
    command::{Launched, linker},
    loader::{Attached, Uprobes},
    uprobe_targets::UprobeTarget,
};
use wingbeat_profiler_abi::{
    counter,
    heap::{call, state},
    map, program,
};

use crate::{
    counts::Counters,
    error::RecordError,
    heap::allocator::{Allocator, Function},
    proc::{self, MappedFile},
    recorder::{
        Recorder,
        binaries::{Binary, BinaryId},
    },
    session::{Options, kernel::KernelHalf, object::Object},
    targets::with_descendants,
    untrusted_file::Bounded,
};

/// Cost of walking and sending a sampled stack, in nanoseconds (measured in docs/heap.md).
pub const SAMPLE_NS: f64 = 6_000.0;

/// Error of the kernel if it cannot probe an instruction (include/linux/errno.h, Linux 6.18).
const ENOTSUPP: i32 = 524;

/// A probed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbedFile {
    pub path: String,
    /// Names of the probed functions.
    pub functions: Vec<String>,
}

/// Functions of a file that are not probed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    pub path: String,
    pub functions: Vec<String>,
    /// Reason, as a clause.
    pub reason: String,
}

/// Allocator calls and their outcomes.
#[derive(Debug, Clone, PartialEq)]
pub struct HeapAccounts {
    /// Mean bytes between two samples; 0 if every allocation was recorded.
    pub sample_bytes: u32,
    pub files: Vec<ProbedFile>,
    /// Allocating functions that are not probed.
    pub left_out: Vec<LeftOut>,
    /// Allocating calls, including those within the allocator, and the bytes requested.
    pub allocations: u64,
    pub allocated_bytes: u64,
    /// Freeing calls.
    pub frees: u64,
    /// Recorded allocations, and how many of them returned no block.
    pub taken: u64,
    pub failed: u64,
    /// Sampled calls that reached no probed exit: left by an exception or a jump, in progress at the end, or
    /// through an unknown exit.
    pub unended: u64,
    /// Allocations and frees lost because the buffer was full.
    pub allocations_lost: u64,
    pub frees_lost: u64,
    /// Blocks whose free was not tracked.
    pub untracked: u64,
    /// Processes started during the recording whose first calls were not seen.
    pub late: u64,
    /// Peak of live bytes, with their variance and time, in nanoseconds since the start of recording.
    pub peak: crate::model::Amount,
    pub peak_ns: u64,
    /// Estimated CPU time of the probes, from the measured costs, in nanoseconds.
    pub probes_ns: u64,
}

/// Probes of allocator functions.
#[derive(Debug, Default)]
pub(super) struct Probes {
    attached: Vec<ProbedProcess>,
    /// Files that have or had probes.
    binaries: HashSet<BinaryId>,
    /// From now on, probes are attached late.
    is_recording: bool,
    /// Processes that ran unprobed for a while although they started during the recording.
    late: HashSet<u32>,
    costs: ProbeCosts,
    /// Functions that the kernel refuses to probe.
    refused: BTreeMap<BinaryId, Refused>,
    /// Calls before the recording, and up to its end.
    before: Calls,
    until_end: Calls,
}

/// Functions of a file, and the kernel's error.
#[derive(Debug, Default)]
struct Refused {
    functions: Vec<String>,
    reason: String,
}

/// A file of a process.
#[derive(Debug)]
struct ProbedProcess {
    pid: u32,
    /// Device and inode.
    file: (u64, u64),
    _links: Vec<Attached>,
}

impl KernelHalf {
    /// Loads the allocator programs.
    pub(super) fn load_heap(&mut self, object: &Object) -> Result<(), RecordError> {
        self.load_program(object, program::HEAP_ENTRY)?;
        self.load_program(object, program::HEAP_EXIT)?;
        self.load_program(object, program::HEAP_FREE)
    }

    /// Sets the mode of the probes: count or record.
    pub(super) fn set_heap_state(&self, state: u32) -> Result<(), RecordError> {
        self.map(map::HEAP_STATE)?
            .set(&0_u32.to_ne_bytes(), &state.to_ne_bytes())
            .map_err(RecordError::kernel("switch the probes of the allocator"))
    }

    /// Attaches to functions of a file, for one process.
    fn attach_heap<'a>(
        &self,
        path: &Path,
        functions: impl Iterator<Item = &'a Function> + Clone,
        pid: u32,
    ) -> Result<Vec<Attached>, RecordError> {
        let attach = |name, probes: Vec<(u64, u64)>| {
            if probes.is_empty() {
                return Ok(None);
            }
            let (offsets, cookies): (Vec<u64>, Vec<u64>) = probes.into_iter().unzip();
            let uprobes = Uprobes { path, offsets: &offsets, cookies: &cookies, pid };
            let attached = self.program(name)?.attach_uprobes(&uprobes);
            attached.map(Some).map_err(|error| RecordError::Kernel {
                what: format!("attach to PID {pid}"),
                reason: match error.raw_os_error() {
                    Some(ENOTSUPP) => "there is an instruction that it cannot step over".to_owned(),
                    _ => error.to_string(),
                },
            })
        };
        let is_free = |it: &&Function| it.call == call::FREE;
        let entry = |it: &Function| (it.entry.offset, it.call);
        let exits = functions.clone().flat_map(|it| &it.exits);
        // Exits first, so that calls noted by the entry are seen to end.
        let links = [
            attach(program::HEAP_EXIT, exits.map(|(it, depth)| (it.offset, *depth)).collect())?,
            attach(
                program::HEAP_ENTRY,
                functions.clone().filter(|it| !is_free(it)).map(entry).collect(),
            )?,
            attach(program::HEAP_FREE, functions.filter(is_free).map(entry).collect())?,
        ];
        Ok(links.into_iter().flatten().collect())
    }
}

impl Probes {
    /// Attaches to allocators in files mapped since the last call, and detaches from exited processes.
    pub(super) fn update(
        &mut self,
        kernel_half: &KernelHalf,
        recorder: &mut Recorder,
    ) -> Result<(), RecordError> {
        for (pid, binary) in std::mem::take(&mut recorder.heap.mapped) {
            let is_new = self.attached.iter().all(|probed| probed.pid != pid);
            if self.attach(kernel_half, recorder, pid, binary)? && is_new && self.is_recording {
                self.late.insert(pid);
            }
        }
        // Last: a process probed until its exit was not late.
        let gone: HashSet<u32> = recorder.heap.gone.drain(..).collect();
        if !gone.is_empty() {
            self.attached.retain(|probed| !gone.contains(&probed.pid));
        }
        Ok(())
    }

    /// Attaches to the allocator in a file of a process. Returns whether there is one that was not probed before.
    fn attach(
        &mut self,
        kernel_half: &KernelHalf,
        recorder: &mut Recorder,
        pid: u32,
        binary: BinaryId,
    ) -> Result<bool, RecordError> {
        let Recorder { heap, binaries, .. } = recorder;
        let Some(file) = binaries.get(binary).and_then(Binary::file) else { return Ok(false) };
        let read = || Allocator::of(&Bounded::new(file));
        let allocator = heap.allocators.entry(binary).or_insert_with(read);
        let Ok(data) = file.metadata() else { return Ok(false) };
        let identity = (data.dev(), data.ino());
        let is_there = |probed: &ProbedProcess| probed.pid == pid && probed.file == identity;
        if allocator.functions.is_empty() || self.attached.iter().any(is_there) {
            return Ok(false);
        }
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let attach = |chosen: &[Function]| kernel_half.attach_heap(&path, chosen.iter(), pid);
        let links = attach(&allocator.functions).unwrap_or_else(|_| {
            // Functions that the kernel refuses are lost, but the recording continues.
            let refused = self.refused.entry(binary).or_default();
            *refused = Refused::default();
            let one = |function: &Function| {
                attach(std::slice::from_ref(function))
                    .inspect_err(|error| {
                        refused.functions.push(function.name.clone());
                        refused.reason = match error {
                            RecordError::Kernel { reason, .. } => {
                                format!("the kernel refuses it: {reason}")
                            }
                            error => error.to_string(),
                        };
                    })
                    .unwrap_or_default()
            };
            allocator.functions.iter().flat_map(one).collect()
        });
        if !proc::exists(pid) {
            // It exited meanwhile.
            self.refused.remove(&binary);
            return Ok(true);
        }
        self.attached.push(ProbedProcess { pid, file: identity, _links: links });
        self.binaries.insert(binary);
        Ok(true)
    }

    /// Reads the call counters at the end of the recording.
    pub(super) fn note_end(&mut self, kernel_half: &KernelHalf) -> Result<(), RecordError> {
        self.until_end = Calls::read(kernel_half)?;
        Ok(())
    }

    /// Detaches.
    pub(super) fn stop(&mut self) {
        self.attached.clear();
    }

    /// CPU time of the probes for this many calls.
    fn probes_ns(&self, recorder: &Recorder, calls: &Calls) -> f64 {
        // Most calls are to the standard functions, which all allocators have.
        let probes = |is_free: bool| {
            let plain = if is_free { "free" } else { "malloc" };
            let named = move |it: &&Function| it.name.ends_with(plain);
            self.functions(recorder).filter(named)
        };
        let entry =
            |is_free| self.costs.of(probes(is_free).all(|function| function.entry.is_emulated));
        // Of several exits, the common ones have jumps.
        let is_exit_emulated =
            probes(false).all(|function| function.exits.iter().any(|(exit, _)| exit.is_emulated));
        calls.allocations as f64 * (entry(false) + self.costs.of(is_exit_emulated))
            + calls.frees as f64 * entry(true)
    }

    fn functions<'a>(&'a self, recorder: &'a Recorder) -> impl Iterator<Item = &'a Function> {
        let allocators = &recorder.heap.allocators;
        self.binaries
            .iter()
            .filter_map(|binary| allocators.get(binary))
            .flat_map(|it| &it.functions)
    }

    /// The accounts of a finished recording.
    pub(super) fn accounts(
        &self,
        counters: &Counters,
        recorder: &Recorder,
        start_ns: u64,
    ) -> HeapAccounts {
        let blocks = &recorder.heap.blocks;
        let calls = self.until_end.since(&self.before);
        let failed = counters.get(counter::ALLOCATIONS_FAILED);
        let allocations_lost = counters.get(counter::ALLOCATIONS_LOST)
            + counters.get(counter::CALLS_LOST)
            + blocks.without_stack;
        let without_block = recorder.heap.calls_without_block();
        let sampled_ns = SAMPLE_NS * blocks.taken as f64;
        let mut files: Vec<ProbedFile> = recorder
            .heap
            .allocators
            .iter()
            .filter(|(_, allocator)| !allocator.functions.is_empty())
            .filter_map(|(&binary, allocator)| {
                let path = recorder.binaries.get(binary)?.path.clone();
                let refused = self.refused.get(&binary).map_or(&[][..], |it| &it.functions);
                let names = allocator.functions.iter().map(|function| function.name.clone());
                let functions = names.filter(|name| !refused.contains(name)).collect();
                Some(ProbedFile { path, functions })
            })
            .collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        HeapAccounts {
            sample_bytes: blocks.sample_bytes,
            files,
            left_out: self.left_out(recorder),
            allocations: calls.allocations,
            allocated_bytes: calls.bytes,
            frees: calls.frees,
            taken: blocks.taken,
            failed,
            unended: without_block.saturating_sub(failed + allocations_lost),
            allocations_lost,
            frees_lost: counters.get(counter::FREES_LOST),
            untracked: counters.get(counter::BLOCKS_UNTRACKED),
            late: self.late.len() as u64,
            peak: blocks.sums.peak,
            peak_ns: blocks.sums.peak_ns.saturating_sub(start_ns),
            probes_ns: (self.probes_ns(recorder, &calls) + sampled_ns) as u64,
        }
    }
}

impl Probes {
    fn left_out(&self, recorder: &Recorder) -> Vec<LeftOut> {
        let unknown = recorder.heap.allocators.iter().map(|(binary, allocator)| {
            (binary, &allocator.left_out, "where they return is not known")
        });
        let refused = self.refused.iter();
        let refused = refused.map(|(binary, it)| (binary, &it.functions, it.reason.as_str()));
        let mut all: Vec<LeftOut> = unknown
            .chain(refused)
            .filter(|(_, functions, _)| !functions.is_empty())
            .filter_map(|(&binary, functions, reason)| {
                let path = recorder.binaries.get(binary)?.path.clone();
                Some(LeftOut { path, functions: functions.clone(), reason: reason.to_owned() })
            })
            .collect();
        all.sort_by(|a, b| a.path.cmp(&b.path));
        all
    }
}

/// Calls over some time.
#[derive(Debug, Clone, Copy, Default)]
struct Calls {
    allocations: u64,
    bytes: u64,
    frees: u64,
}

impl Calls {
    fn read(kernel_half: &KernelHalf) -> Result<Self, RecordError> {
        Ok(Self {
            allocations: kernel_half.counter(counter::ALLOCATIONS)?,
            bytes: kernel_half.counter(counter::ALLOCATED_BYTES)?,
            frees: kernel_half.counter(counter::FREES)?,
        })
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            allocations: self.allocations.saturating_sub(before.allocations),
            bytes: self.bytes.saturating_sub(before.bytes),
            frees: self.frees.saturating_sub(before.frees),
        }
    }
}

/// Counting is the initial mode.
const _: () = assert!(state::COUNTING == 0);

/// Duration of counting calls before the recording, and of measuring CPU time before that.
const COUNTED: Duration = Duration::from_millis(300);

/// Assumed minimum CPU use of a target.
const USED_MIN: f64 = 0.02;

impl Probes {
    /// Attaches to the allocators of running processes, unless the overhead exceeds the budget. Returns the
    /// expected slowdown as a share of their CPU time.
    pub(super) fn watch_running(
        &mut self,
        kernel_half: &KernelHalf,
        recorder: &mut Recorder,
        options: &Options,
        pids: &[u32],
    ) -> Result<f64, RecordError> {
        let family = match options.inherit {
            true => with_descendants(pids),
            false => pids.iter().copied().collect(),
        };
        let cpu_time_ns = || family.iter().map(|&pid| proc::cpu_time_ns(pid)).sum::<u64>();
        self.costs = ProbeCosts::measure(kernel_half);
        let before_ns = cpu_time_ns();
        thread::sleep(COUNTED);
        let own_ns = cpu_time_ns().saturating_sub(before_ns);
        self.update(kernel_half, recorder)?;
        if self.attached.is_empty() {
            return Err(RecordError::NoAllocator { target: options.targets.describe() });
        }
        let sample_bytes = options.heap.sample_bytes;
        let share = self.slowdown(kernel_half, recorder, sample_bytes, (own_ns, &cpu_time_ns))?;
        let budget_percent = options.heap.budget_percent;
        if share * 100.0 > f64::from(budget_percent) {
            return Err(RecordError::OverBudget { share, budget_percent });
        }
        self.is_recording = true;
        kernel_half.set_heap_state(state::RECORDING)?;
        Ok(share)
    }

    /// Attaches to the allocators of a command stopped before its first instruction, and resumes it.
    pub(super) fn watch_command(
        &mut self,
        kernel_half: &KernelHalf,
        recorder: &mut Recorder,
        command: &Launched,
    ) -> Result<(), RecordError> {
        let pid = command.pid();
        self.costs = ProbeCosts::measure(kernel_half);
        kernel_half.set_heap_state(state::RECORDING)?;
        for file in linked_files(pid) {
            let binary = recorder.binaries.find_or_open(pid, None, &file);
            self.attach(kernel_half, recorder, pid, binary)?;
        }
        self.is_recording = true;
        command.resume().map_err(RecordError::system("let the command go on"))
    }

    /// Counts calls for a while. Returns the slowdown as a share of the targets' CPU time, of which they used
    /// `own_ns` in the same duration without probes.
    fn slowdown(
        &mut self,
        kernel_half: &KernelHalf,
        recorder: &Recorder,
        sample_bytes: u32,
        (own_ns, cpu_time_ns): (u64, &dyn Fn() -> u64),
    ) -> Result<f64, RecordError> {
        let (before, cpu_before_ns) = (Calls::read(kernel_half)?, cpu_time_ns());
        thread::sleep(COUNTED);
        self.before = Calls::read(kernel_half)?;
        let with_ns = cpu_time_ns().saturating_sub(cpu_before_ns) as f64;
        let calls = self.before.since(&before);
        let probes_ns = self.probes_ns(recorder, &calls);
        let samples_ns = SAMPLE_NS * samples(&calls, sample_bytes);
        // A program that runs at full speed makes fewer calls with probes: the calls relate to the CPU time that
        // remains for itself.
        let left_ns = (with_ns - probes_ns).max(with_ns / 100.0);
        // An almost idle target is not slowed down by a small cost.
        let least_ns = COUNTED.as_nanos() as f64 * USED_MIN;
        Ok((probes_ns + samples_ns) / left_ns.min(own_ns as f64).max(least_ns))
    }
}

/// Number of allocations sampled: at most one per mean distance.
fn samples(calls: &Calls, sample_bytes: u32) -> f64 {
    match sample_bytes {
        0 => calls.allocations as f64,
        sample_bytes => {
            (calls.bytes as f64 / f64::from(sample_bytes)).min(calls.allocations as f64)
        }
    }
}

/// Calls of each function, once without a probe and once with it. A single-stepped one takes 10 µs.
const CALLS: u32 = 300;

/// Repetitions; the best counts, since other programs only slow it down.
const ROUNDS: u32 = 3;

/// Cost of a probe, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct ProbeCosts {
    /// At an instruction that the kernel emulates.
    emulated_ns: f64,
    /// At any other instruction.
    stepped_ns: f64,
}

/// Values of one virtual machine, for use if measuring fails.
impl Default for ProbeCosts {
    fn default() -> Self {
        Self { emulated_ns: 400.0, stepped_ns: 8_000.0 }
    }
}

impl ProbeCosts {
    fn of(&self, is_emulated: bool) -> f64 {
        if is_emulated { self.emulated_ns } else { self.stepped_ns }
    }

    fn measure(kernel_half: &KernelHalf) -> Self {
        let standard = Self::default();
        Self {
            emulated_ns: cost(kernel_half, UprobeTarget::Emulated).unwrap_or(standard.emulated_ns),
            stepped_ns: cost(kernel_half, UprobeTarget::Stepped).unwrap_or(standard.stepped_ns),
        }
    }
}

/// Nanoseconds that a probe at a function's entry adds to a call; `None` if it cannot be attached.
fn cost(kernel_half: &KernelHalf, function: UprobeTarget) -> Option<f64> {
    let without = best(function);
    let uprobes = Uprobes {
        path: Path::new("/proc/self/exe"),
        offsets: &[function.offset().ok()?],
        // The argument is 0: nothing is freed or counted.
        cookies: &[call::FREE],
        pid: std::process::id(),
    };
    let attached = kernel_half.program(program::HEAP_FREE).ok()?.attach_uprobes(&uprobes).ok()?;
    let with = best(function);
    drop(attached);
    Some(with.saturating_sub(without).as_nanos() as f64 / f64::from(CALLS))
}

fn best(function: UprobeTarget) -> Duration {
    let time = || {
        let begun = Instant::now();
        (0..CALLS).for_each(|_| function.call());
        begun.elapsed()
    };
    (0..ROUNDS).map(|_| time()).min().unwrap_or_default()
}

// Lists the files that a program is linked with before they are loaded, by running its dynamic linker like `ldd`.

/// The files that a process's program will load, including itself, as seen by the process. Only the program if the
/// linker cannot be run.
pub(crate) fn linked_files(pid: u32) -> Vec<MappedFile> {
    let program = PathBuf::from(format!("/proc/{pid}/exe"));
    let Ok(path) = program.read_link() else { return Vec::new() };
    let mut paths = vec![path.clone()];
    let linker = File::open(&program).ok().and_then(|file| linker(&Bounded::new(&file)));
    if let Some(linker) = linker {
        paths.extend(listed(pid, Path::new(&linker), &path));
    }
    paths.iter().filter_map(|path| file(pid, path)).collect()
}

/// The files that the linker lists for a process's program: run as its user, who chose the linker, and with the
/// variables that affect its search.
fn listed(pid: u32, linker: &Path, program: &Path) -> Vec<PathBuf> {
    let mut command = Command::new(linker);
    command.arg("--list").arg(program).stdin(Stdio::null()).stderr(Stdio::null());
    if let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) {
        for name in ["LD_LIBRARY_PATH", "LD_PRELOAD"] {
            match variable(&environment, name) {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
    }
    let owner = fs::metadata(format!("/proc/{pid}")).ok();
    if let Some(owner) = owner.filter(|owner| owner.uid() != 0 && geteuid().is_root()) {
        command.uid(owner.uid()).gid(owner.gid());
    }
    let text = command.output().map(|output| output.stdout).unwrap_or_default();
    paths(&String::from_utf8_lossy(&text))
}

/// A variable of an environment in the kernel's format.
fn variable<'a>(environment: &'a [u8], name: &str) -> Option<&'a OsStr> {
    let value = |part: &'a [u8]| part.strip_prefix(name.as_bytes())?.strip_prefix(b"=");
    environment.split(|byte| *byte == 0).find_map(value).map(OsStr::from_bytes)
}

/// Parses paths from a list: `name => path (address)`, or `path (address)`.
fn paths(text: &str) -> Vec<PathBuf> {
    let path = |line: &str| {
        let (head, _) = line.rsplit_once(" (0x")?;
        let path = head.rsplit_once("=> ").map_or(head, |(_, path)| path).trim();
        path.starts_with('/').then(|| PathBuf::from(path))
    };
    text.lines().filter_map(path).collect()
}

fn file(pid: u32, path: &Path) -> Option<MappedFile> {
    let seen = PathBuf::from(format!("/proc/{pid}/root{}", path.display()));
    let data = seen.metadata().ok()?;
    let device = data.dev();
    Some(MappedFile {
        start: 0,
        end: 0,
        offset: 0,
        device: (libc::major(device), libc::minor(device)),
        inode: data.ino(),
        path: path.to_string_lossy().into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_linkers() {
        let glibc = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f00)\n\
                     \t/lib64/ld-linux-x86-64.so.2 (0x00007f01)\n\tlibgone.so => not found\n";
        let musl =
            "\t/lib/ld-musl-x86_64.so.1 (0x7f00)\n\tlibc.so => /lib/ld-musl-x86_64.so.1 (0x7f00)\n";
        let check = |text: &str, expected: &[&str]| {
            assert_eq!(paths(text), expected.iter().map(PathBuf::from).collect::<Vec<_>>());
        };
        check(glibc, &["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"]);
        check(musl, &["/lib/ld-musl-x86_64.so.1", "/lib/ld-musl-x86_64.so.1"]);
        check("", &[]);
        check("\tstatically linked\n", &[]);
    }

    #[test]
    fn variables_are_found_by_their_whole_names() {
        let environment = b"LD_LIBRARY_PATHS=/a\0LD_LIBRARY_PATH=/b:/c=d\0A=";
        assert_eq!(variable(environment, "LD_LIBRARY_PATH"), Some("/b:/c=d".as_ref()));
        assert_eq!(variable(environment, "A"), Some("".as_ref()));
        assert_eq!(variable(environment, "LD_PRELOAD"), None);
    }

    #[test]
    fn files_of_this_process() {
        let files = linked_files(std::process::id());
        assert!(!files.is_empty());
        assert!(files.iter().any(|file| file.path.contains("libc")), "{files:?}");
    }
}
