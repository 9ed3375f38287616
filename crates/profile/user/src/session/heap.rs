//! The part of the kernel half that watches allocators: loaded, attached to their functions, measured.

mod begin;
mod cost;
mod linked;

use std::{
    collections::HashSet,
    os::{fd::AsRawFd as _, unix::fs::MetadataExt as _},
    path::Path,
};

use object::ReadCache;
use wingbeat_bpf::{
    loader::{Attached, UprobeKind, Uprobes},
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
    heap::allocator::{Function, functions},
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

/// How the return of a call is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Returns {
    /// Where the entry wants it.
    Session,
    /// Always, at the cost of another probe: the kernel is older than 6.13.
    Always,
}

/// What walking and sending a sampled stack takes, nanoseconds (docs/heap.md has the measurement).
const SAMPLE_NS: f64 = 6_000.0;

/// A file whose functions are probed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbedFile {
    pub path: String,
    /// Names of its functions.
    pub functions: Vec<String>,
}

/// Calls of allocators, and what became of them.
#[derive(Debug, Clone, PartialEq)]
pub struct HeapAccounts {
    /// Mean bytes between two samples; 0: every allocation was taken.
    pub sample_bytes: u32,
    pub files: Vec<ProbedFile>,
    /// Whether returns are seen only where the entry wants it.
    pub has_sessions: bool,
    /// Calls that allocate, those within the allocator too, and the bytes that they asked for.
    pub allocations: u64,
    pub allocated_bytes: u64,
    /// Calls that free a block.
    pub frees: u64,
    /// Allocations that were taken, and of them those that gave no block.
    pub taken: u64,
    pub failed: u64,
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
    /// Calls before anything was recorded.
    before: Calls,
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
    probed::try_link(UprobeKind::Entry).map_err(|error| RecordError::Kernel {
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
        // Kernels before 6.13 find out only when they attach that they have no sessions.
        if probed::try_link(UprobeKind::Session).is_ok() {
            self.load_program(object, program::HEAP_CALL)?;
        } else {
            self.returns = Returns::Always;
            self.load_program(object, program::HEAP_ENTRY)?;
            self.load_program(object, program::HEAP_RETURN)?;
        }
        self.load_program(object, program::HEAP_FREE)
    }

    /// Has the probes count, or record.
    pub(super) fn set_heap_state(&self, state: u32) -> Result<(), RecordError> {
        self.map(map::HEAP_STATE)?
            .set(&0_u32.to_ne_bytes(), &state.to_ne_bytes())
            .map_err(RecordError::kernel("switch the probes of the allocator"))
    }

    /// Attaches to places in a file, for a process.
    fn attach_heap(
        &self,
        path: &Path,
        functions: &[Function],
        pid: u32,
    ) -> Result<Vec<Attached>, RecordError> {
        let what = || format!("attach to the allocator of PID {pid} in {}", path.display());
        let attach = |name, kind, is_free: bool| {
            let chosen = || functions.iter().filter(|it| (it.call == call::FREE) == is_free);
            let offsets: Vec<u64> = chosen().map(|function| function.offset).collect();
            let cookies: Vec<u64> = chosen().map(|function| function.call).collect();
            if offsets.is_empty() {
                return Ok(None);
            }
            let uprobes = Uprobes { kind, path, offsets: &offsets, cookies: &cookies, pid };
            let attached = self.program(name)?.attach_uprobes(&uprobes);
            attached.map(Some).map_err(RecordError::system(what()))
        };
        let mut links = Vec::new();
        match self.returns {
            Returns::Session => {
                links.push(attach(program::HEAP_CALL, UprobeKind::Session, false)?);
            }
            Returns::Always => {
                // The return first: what the entry notes is to be seen.
                links.push(attach(program::HEAP_RETURN, UprobeKind::Return, false)?);
                links.push(attach(program::HEAP_ENTRY, UprobeKind::Entry, false)?);
            }
        }
        links.push(attach(program::HEAP_FREE, UprobeKind::Entry, true)?);
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
        let functions = heap.allocators.entry(binary).or_insert_with(|| {
            let cache = ReadCache::new(file);
            functions(&cache)
        });
        let Ok(data) = file.metadata() else { return Ok(false) };
        let identity = (data.dev(), data.ino());
        let is_there = |probed: &ProbedProcess| probed.pid == pid && probed.file == identity;
        if functions.is_empty() || self.attached.iter().any(is_there) {
            return Ok(false);
        }
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        match kernel_half.attach_heap(Path::new(&path), functions, pid) {
            Ok(links) => {
                self.attached.push(ProbedProcess { pid, file: identity, _links: links });
                self.binaries.insert(binary);
                Ok(true)
            }
            // It ended meanwhile.
            Err(_) if !crate::proc::exists(pid) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Detaches.
    pub(super) fn stop(&mut self) {
        self.attached.clear();
    }

    /// CPU time that probes took for so many calls.
    fn probes_ns(&self, recorder: &Recorder, calls: &Calls) -> f64 {
        // Most calls are those of the plain functions, which all allocators have.
        let is_emulated = |is_free: bool| {
            let plain = if is_free { "free" } else { "malloc" };
            let mut all = self.functions(recorder).filter(|it| it.name.ends_with(plain));
            all.all(|function| function.is_emulated)
        };
        let cost = |is_free| self.costs.of(is_emulated(is_free));
        calls.allocations as f64 * cost(false) + calls.frees as f64 * cost(true)
    }

    fn functions<'a>(&'a self, recorder: &'a Recorder) -> impl Iterator<Item = &'a Function> {
        let allocators = &recorder.heap.allocators;
        self.binaries.iter().filter_map(|binary| allocators.get(binary)).flatten()
    }

    /// The account of a recording that has ended.
    pub(super) fn accounts(
        &self,
        counters: &Counters,
        recorder: &Recorder,
        start_ns: u64,
        has_sessions: bool,
    ) -> HeapAccounts {
        let blocks = &recorder.heap.blocks;
        let calls = Calls {
            allocations: counters.get(counter::ALLOCATIONS),
            bytes: counters.get(counter::ALLOCATED_BYTES),
            frees: counters.get(counter::FREES),
        };
        let calls = calls.since(&self.before);
        let sampled_ns = SAMPLE_NS * blocks.taken as f64;
        let mut files: Vec<ProbedFile> = recorder
            .heap
            .allocators
            .iter()
            .filter(|(_, functions)| !functions.is_empty())
            .filter_map(|(&binary, functions)| {
                let path = recorder.binaries.get(binary)?.path.clone();
                let functions = functions.iter().map(|function| function.name.clone()).collect();
                Some(ProbedFile { path, functions })
            })
            .collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        HeapAccounts {
            sample_bytes: blocks.sample_bytes,
            files,
            has_sessions,
            allocations: calls.allocations,
            allocated_bytes: calls.bytes,
            frees: calls.frees,
            taken: blocks.taken,
            failed: counters.get(counter::ALLOCATIONS_FAILED),
            allocations_lost: counters.get(counter::ALLOCATIONS_LOST)
                + counters.get(counter::CALLS_LOST)
                + blocks.without_stack,
            frees_lost: counters.get(counter::FREES_LOST),
            untracked: counters.get(counter::BLOCKS_UNTRACKED),
            late: self.late.len() as u64,
            peak: blocks.sums.peak,
            peak_ns: blocks.sums.peak_ns.saturating_sub(start_ns),
            probes_ns: (self.probes_ns(recorder, &calls) + sampled_ns) as u64,
        }
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
