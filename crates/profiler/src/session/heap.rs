//! Allocator probes: loads the programs, attaches them to allocator functions, measures their cost.

mod begin;
mod cost;
mod linked;

use std::{
    collections::{BTreeMap, HashSet},
    os::{fd::AsRawFd as _, unix::fs::MetadataExt as _},
    path::{Path, PathBuf},
};

use wingbeat_bpf_loader::{
    loader::{Attached, Uprobes},
    spec::{Spec, SpecError},
    uprobe_targets,
};
use wingbeat_profiler_abi::{
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

/// Maximum number of live blocks, all or sampled. Each takes some 100 bytes of kernel memory.
const BLOCKS_MAX: u32 = 4 << 20;
const SAMPLED_MAX: u32 = 256 << 10;

/// Maximum number of allocator calls in progress.
const CALLS_MAX: u32 = 65_536;

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

/// Fails if the kernel cannot attach to the functions of an allocator.
pub(super) fn need_links() -> Result<(), RecordError> {
    uprobe_targets::try_link().map_err(|error| RecordError::Kernel {
        what: "attach to the functions of an allocator".to_owned(),
        reason: format!("Linux 6.6 or newer is required, with uprobe_multi links: {error}"),
    })
}

/// Sets the map sizes for the blocks and calls of a recording.
pub(super) fn set_sizes(spec: &mut Spec, sample_bytes: u32) -> Result<(), SpecError> {
    spec.set_entries(map::BLOCKS, if sample_bytes == 0 { BLOCKS_MAX } else { SAMPLED_MAX })?;
    spec.set_entries(map::CALLS, CALLS_MAX)
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
        if !crate::proc::exists(pid) {
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
