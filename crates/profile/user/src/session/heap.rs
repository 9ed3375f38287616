//! The part of the kernel half that watches allocators: loaded, attached to their functions, measured.

mod begin;
mod cost;
mod linked;

use std::{
    collections::{BTreeMap, HashSet},
    os::{fd::AsRawFd as _, unix::fs::MetadataExt as _},
    path::{Path, PathBuf},
};

use wingbeat_bpf::{
    loader::{Attached, Uprobes},
    probed,
    spec::{Spec, SpecError},
};
use wingbeat_profile_common::{
    counter,
    heap::{call, state},
    map, program,
};

use self::cost::ProbeCosts;
use super::{counters::Counters, kernel::KernelHalf, object::Object};
use crate::{
    error::RecordError,
    foreign::Bounded,
    heap::allocator::{Allocator, Function},
    recorder::{
        Recorder,
        binaries::{Binary, BinaryId},
    },
};

/// Live blocks that can be watched at once: every one, or samples. Each takes some 100 bytes of the kernel's memory
/// while it lives.
const BLOCKS_MAX: u32 = 4 << 20;
const SAMPLED_MAX: u32 = 256 << 10;

/// Calls of allocators that can be under way at once.
const CALLS_MAX: u32 = 65_536;

/// What walking and sending a sampled stack takes, nanoseconds (docs/heap.md has the measurement).
pub const SAMPLE_NS: f64 = 6_000.0;

/// What the kernel answers where it cannot probe an instruction (include/linux/errno.h, Linux 6.18).
const ENOTSUPP: i32 = 524;

/// A file whose functions are probed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbedFile {
    pub path: String,
    /// Names of its functions.
    pub functions: Vec<String>,
}

/// Functions of a file that are not watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    pub path: String,
    pub functions: Vec<String>,
    /// Why, as a clause.
    pub reason: String,
}

/// Calls of allocators, and what became of them.
#[derive(Debug, Clone, PartialEq)]
pub struct HeapAccounts {
    /// Mean bytes between two samples; 0: every allocation was taken.
    pub sample_bytes: u32,
    pub files: Vec<ProbedFile>,
    /// Functions that allocate and are not watched.
    pub left_out: Vec<LeftOut>,
    /// Calls that allocate, those within the allocator too, and the bytes that they asked for.
    pub allocations: u64,
    pub allocated_bytes: u64,
    /// Calls that free a block.
    pub frees: u64,
    /// Allocations that were taken, and of them those that gave no block.
    pub taken: u64,
    pub failed: u64,
    /// Sampled calls that came to none of the ends that are watched: an exception or a jump left them, their thread was in
    /// them at the end, or there is a way out that is not known.
    pub unended: u64,
    /// Allocations and ends of blocks that did not find room.
    pub allocations_lost: u64,
    pub frees_lost: u64,
    /// Blocks whose end was not watched.
    pub untracked: u64,
    /// Processes whose first calls were not seen, since they began during the recording.
    pub late: u64,
    /// The most that was live at once: bytes, their variance, and when, nanoseconds since the start of recording.
    pub peak: crate::model::Amount,
    pub peak_ns: u64,
    /// CPU time that the probes took, as far as the measured costs tell, nanoseconds.
    pub probes_ns: u64,
}

/// Probes at functions of allocators.
#[derive(Debug, Default)]
pub(super) struct Probes {
    attached: Vec<ProbedProcess>,
    /// Files that have or had probes.
    binaries: HashSet<BinaryId>,
    /// What is attached from now on comes late.
    is_recording: bool,
    /// Processes that ran before they were watched, although they began while others were.
    late: HashSet<u32>,
    costs: ProbeCosts,
    /// Functions that the kernel does not let be probed.
    refused: BTreeMap<BinaryId, Refused>,
    /// Calls before anything was recorded, and up to the end.
    before: Calls,
    until_end: Calls,
}

/// Functions of a file, and what the kernel said.
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

/// Refuses a kernel that cannot attach to the functions of an allocator.
pub(super) fn need_links() -> Result<(), RecordError> {
    probed::try_link().map_err(|error| RecordError::Kernel {
        what: "attach to the functions of an allocator".to_owned(),
        reason: format!("Linux 6.6 or newer is required, with uprobe_multi links: {error}"),
    })
}

/// Makes room for the blocks and the calls of a recording.
pub(super) fn set_sizes(spec: &mut Spec, sample_bytes: u32) -> Result<(), SpecError> {
    spec.set_entries(map::BLOCKS, if sample_bytes == 0 { BLOCKS_MAX } else { SAMPLED_MAX })?;
    spec.set_entries(map::CALLS, CALLS_MAX)
}

impl KernelHalf {
    /// Loads the programs that watch allocators.
    pub(super) fn load_heap(&mut self, object: &Object) -> Result<(), RecordError> {
        self.load_program(object, program::HEAP_ENTRY)?;
        self.load_program(object, program::HEAP_EXIT)?;
        self.load_program(object, program::HEAP_FREE)
    }

    /// Has the probes count, or record.
    pub(super) fn set_heap_state(&self, state: u32) -> Result<(), RecordError> {
        self.map(map::HEAP_STATE)?
            .set(&0_u32.to_ne_bytes(), &state.to_ne_bytes())
            .map_err(RecordError::kernel("switch the probes of the allocator"))
    }

    /// Attaches to functions of a file, for a process.
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
        // The ways out first: what the entry notes is to be seen.
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
    /// Attaches to the allocators of what was mapped since the last time, and lets go of what is gone.
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
        // At last: one that was watched to its end was not late.
        let gone: HashSet<u32> = recorder.heap.gone.drain(..).collect();
        if !gone.is_empty() {
            self.attached.retain(|probed| !gone.contains(&probed.pid));
        }
        Ok(())
    }

    /// Attaches to the allocator in a file of a process: whether it has one that was not watched before.
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
            // Which of them the kernel refuses costs these, and not the recording.
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
        if !crate::proc::exists(pid) {
            // It ended meanwhile.
            self.refused.remove(&binary);
            return Ok(true);
        }
        self.attached.push(ProbedProcess { pid, file: identity, _links: links });
        self.binaries.insert(binary);
        Ok(true)
    }

    /// Takes the account of calls at the end of the recording.
    pub(super) fn note_end(&mut self, kernel_half: &KernelHalf) -> Result<(), RecordError> {
        self.until_end = Calls::read(kernel_half)?;
        Ok(())
    }

    /// Detaches.
    pub(super) fn stop(&mut self) {
        self.attached.clear();
    }

    /// CPU time that probes took for so many calls.
    fn probes_ns(&self, recorder: &Recorder, calls: &Calls) -> f64 {
        // Most calls are those of the plain functions, which all allocators have.
        let probes = |is_free: bool| {
            let plain = if is_free { "free" } else { "malloc" };
            let named = move |it: &&Function| it.name.ends_with(plain);
            self.functions(recorder).filter(named)
        };
        let entry =
            |is_free| self.costs.of(probes(is_free).all(|function| function.entry.is_emulated));
        // Of several ways out, the usual ones have jumps.
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

    /// The account of a recording that has ended.
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

/// Calls of a while.
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

/// Counting, as long as nothing else is said.
const _: () = assert!(state::COUNTING == 0);
