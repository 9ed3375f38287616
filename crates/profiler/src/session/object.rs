//! The kernel half's embedded object with its settings: the options, and this kernel's field offsets.

use wingbeat_bpf_loader::{
    btf::{BtfError, KernelTypes},
    code::{Code, Insn, op},
    loader::Loader,
    probe::{Kernel, TooOld},
    spec::{Spec, SpecError},
};
use wingbeat_profiler_abi::{global, map, placeholder, sized_field};

use super::Unwind;
use crate::error::RecordError;

pub(super) static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/profile-ebpf"));

/// Maximum number of threads recorded; 4.5 MB of kernel memory.
const THREADS_MAX: u32 = 16_384;

/// Maximum number of threads whose PID namespace numbers are kept, live and exiting; 2 MB of kernel memory.
const NUMBERS_MAX: u32 = 32_768;

/// Maximum number of code mappings of all targets together; half a megabyte of kernel memory.
const MAPPINGS: u32 = 16_384;
/// The same with all processes as targets.
const MAPPINGS_ALL: u32 = 65_536;

/// Maximum number of live blocks, all or sampled. Each takes some 100 bytes of kernel memory.
const BLOCKS_MAX: u32 = 4 << 20;
const SAMPLED_MAX: u32 = 256 << 10;

/// Maximum number of allocator calls in progress.
const CALLS_MAX: u32 = 65_536;

/// Settings to apply before loading.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub all: bool,
    pub inherit: bool,
    /// This process is in a PID namespace other than the initial one.
    pub namespaced: bool,
    /// Children of this process are commands that it launches.
    pub launcher: Option<u32>,
    pub buffer_bytes: u32,
    /// Set to record off-CPU time.
    pub blocks: Option<Blocks>,
    /// Mean bytes between two sampled allocations; set to record allocations.
    pub sample_bytes: Option<u32>,
    /// Record address space calls.
    pub space: bool,
    /// Sample page faults.
    pub faults: bool,
    pub unwind: Unwind,
    pub unwind_bytes: u64,
}

impl Settings {
    pub(super) fn has_tables(&self) -> bool {
        self.unwind != Unwind::FramePointer
    }
}

/// Settings of off-CPU time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Blocks {
    pub min_block_ns: u64,
    pub wakers: bool,
}

/// The embedded object with its settings and loader. Holds the kernel's types, some megabytes, so it is dropped
/// after loading.
pub(super) struct Object {
    pub(super) spec: Spec,
    pub(super) loader: Loader,
    /// Placeholders with the number of the function that each stands for, if this kernel has all of them.
    functions: Option<[(usize, i32); 2]>,
}

impl Object {
    pub(super) fn prepare(settings: Settings) -> Result<Self, RecordError> {
        const WHAT: &str = "set up the programs of the profiler";
        TooOld::check()?;
        let types = KernelTypes::from_kernel()?;
        let globals = globals(&types, settings)?;
        let spec = with_settings(settings, &globals).map_err(RecordError::kernel(WHAT))?;
        let mut loader = Loader::new(&spec).map_err(RecordError::kernel(WHAT))?;
        // Before Linux 6.13 no program's stack is shared, and not every type may call these functions.
        let has_all = Kernel::running().is_at_least(6, 13)
            && placeholder::FUNCTIONS.iter().all(|(_, name)| types.function_id(name).is_some());
        let functions = has_all.then(|| {
            placeholder::FUNCTIONS.map(|(number, name)| (number, loader.declare_function(name)))
        });
        loader.set_kernel_types(types);
        Ok(Self { spec, loader, functions })
    }

    /// Whether placeholders stand for functions here.
    pub(super) fn has_functions(&self) -> bool {
        self.functions.is_some()
    }

    /// Puts calls of the kernel's functions in place of placeholders if it `has_functions`, else nothing.
    pub(super) fn replace_placeholders(&self, code: &mut Code, has_functions: bool) {
        for insn in code.insns.iter_mut().filter(|it| it.opcode == op::CALL && it.src() == 0) {
            let number = insn.immediate as usize;
            if !placeholder::FUNCTIONS.iter().any(|(known, _)| *known == number) {
                continue;
            }
            let functions = self.functions.iter().filter(|_| has_functions).flatten();
            let function = functions.filter(|(known, _)| *known == number).map(|it| it.1).next();
            *insn = match function {
                Some(function) => Insn::new(op::CALL, 0, op::PSEUDO_KFUNC_CALL, 0, function),
                None => Insn::new(op::ALU64 | op::MOV, 0, 0, 0, 0),
            };
        }
    }
}

fn with_settings(settings: Settings, globals: &[(&str, u32)]) -> Result<Spec, SpecError> {
    let mut spec = Spec::parse("the kernel half", OBJECT)?;
    for (name, value) in globals {
        spec.set_global(name, &value.to_ne_bytes())?;
    }
    spec.set_entries(map::RECORDS, settings.buffer_bytes)?;
    if let Some(sample_bytes) = settings.sample_bytes {
        set_heap_sizes(&mut spec, sample_bytes)?;
    }
    if settings.namespaced {
        spec.set_entries(map::NUMBERS, NUMBERS_MAX)?;
    }
    if settings.blocks.is_some() {
        spec.set_entries(map::THREADS, THREADS_MAX)?;
    }
    if settings.has_tables() {
        spec.set_entries(map::MAPPINGS, if settings.all { MAPPINGS_ALL } else { MAPPINGS })?;
    }
    Ok(spec)
}

/// Sets the map sizes for the blocks and calls of a recording.
fn set_heap_sizes(spec: &mut Spec, sample_bytes: u32) -> Result<(), SpecError> {
    spec.set_entries(map::BLOCKS, if sample_bytes == 0 { BLOCKS_MAX } else { SAMPLED_MAX })?;
    spec.set_entries(map::CALLS, CALLS_MAX)
}

/// The programs' settings: the options, and this kernel's field offsets.
fn globals(types: &KernelTypes, settings: Settings) -> Result<Vec<(&'static str, u32)>, BtfError> {
    let of_task = |member| types.member_offset_bytes("task_struct", member);
    let runtime = of_task("se")? + types.member_offset_bytes("sched_entity", "sum_exec_runtime")?;
    let (iowait, iowait_bit) = types.member_bit("task_struct", "in_iowait")?;
    // An array indexed by `enum pid_type`: threads, processes (since 4.19), and others.
    let signal_tgid = types.member_offset_bytes("signal_struct", "pids")? + 8;
    Ok(vec![
        (global::NAMESPACED, u32::from(settings.namespaced)),
        (global::TASK_THREAD_PID, of_task("thread_pid")?),
        (global::TASK_SIGNAL, of_task("signal")?),
        (global::SIGNAL_TGID, signal_tgid),
        (global::PID_LEVEL, types.member_offset_bytes("pid", "level")?),
        (global::PID_NUMBERS, types.member_offset_bytes("pid", "numbers")?),
        (global::UPID_NS, types.member_offset_bytes("upid", "ns")?),
        (global::BLOCKS, u32::from(settings.blocks.is_some())),
        (global::WAKERS, u32::from(settings.blocks.is_some_and(|blocks| blocks.wakers))),
        (global::TASK_STATE, sized(types, "__state")?),
        (global::TASK_ON_CPU, sized(types, "on_cpu")?),
        (global::TASK_IOWAIT, iowait),
        (global::TASK_IOWAIT_MASK, 1 << iowait_bit),
        // Since 6.17; before that only in kernels with lock debugging.
        (global::TASK_BLOCKED_ON, of_task("blocked_on").unwrap_or(0)),
        (global::TASK_KERNEL_SP, kernel_sp(types).unwrap_or(0)),
        (global::SWITCH_HAS_STATE, u32::from(switch_has_state(types))),
        (global::ALL, u32::from(settings.all)),
        (global::INHERIT, u32::from(settings.inherit)),
        (global::LAUNCHER, settings.launcher.unwrap_or(0)),
        // A quarter of the buffer: the rest is for records that arrive while user space wakes up.
        (global::WAKEUP_BYTES, settings.buffer_bytes / 4),
        (global::TASK_MM, of_task("mm")?),
        (global::MM_START_STACK, types.member_offset_bytes("mm_struct", "start_stack")?),
        (global::TASK_TLS, tls(types).unwrap_or(0)),
        (global::TASK_PID, of_task("pid")?),
        (global::TASK_TGID, of_task("tgid")?),
        (global::TASK_RUNTIME, runtime),
        (global::WALK, settings.unwind.code()),
        (global::SAMPLE_BYTES, settings.sample_bytes.unwrap_or(0)),
        // Three quarters of the buffer: samples without copies are better than none.
        (global::COPIES_UNTIL_BYTES, settings.buffer_bytes / 4 * 3),
    ])
}

/// Offset and size of a number in `task_struct`: `on_cpu` has four bytes, and one since 7.2. The verifier rejects
/// reads beyond a field's end.
fn sized(types: &KernelTypes, member: &str) -> Result<u32, BtfError> {
    let offset = types.member_offset_bytes("task_struct", member)?;
    Ok(sized_field(offset, types.member_size_bytes("task_struct", member)?))
}

/// Whether `sched_switch` passes the state of the previous thread. Since Linux 5.18: its type then has four
/// arguments after the one for its owner.
fn switch_has_state(types: &KernelTypes) -> bool {
    types.tracepoint_arguments("sched_switch").is_some_and(|arguments| arguments > 4)
}

/// Offset of the thread-local storage pointer in `task_struct`.
fn tls(types: &KernelTypes) -> Result<u32, BtfError> {
    let thread = types.member_offset_bytes("task_struct", "thread")?;
    // On aarch64 it is the first member of `uw`, saved at the last switch away from the thread.
    let of_thread = |name| types.member_offset_bytes("thread_struct", name);
    Ok(thread + of_thread("fsbase").or_else(|_| of_thread("uw"))?)
}

/// Offset of the saved stack pointer in `task_struct` of a thread off the CPU.
fn kernel_sp(types: &KernelTypes) -> Result<u32, BtfError> {
    let thread = types.member_offset_bytes("task_struct", "thread")?;
    let sp = match types.member_offset_bytes("thread_struct", "sp") {
        Ok(sp) => sp,
        // aarch64
        Err(_) => {
            types.member_offset_bytes("thread_struct", "cpu_context")?
                + types.member_offset_bytes("cpu_context", "sp")?
        }
    };
    Ok(thread + sp)
}
