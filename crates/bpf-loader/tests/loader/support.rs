//! Privilege checks, mutual exclusion, and programs without an object.

use std::{
    fs, io,
    os::fd::BorrowedFd,
    sync::{Mutex, MutexGuard, PoisonError},
};

use wingbeat_bpf_loader::{
    KernelTypes, ProgramType,
    code::{Code, FunctionInfo, Insn},
    loader::{
        LoadError, Loaded, LoadedMaps, Loader, LoaderOptions, ProgramRun, RunError, RunInput,
    },
    probe::Kernel,
    spec::{ProgramSpec, Spec},
};

use crate::bytecode::give;

/// Serializes tests that share global state of the machine.
static TURN: Mutex<()> = Mutex::new(());

pub(crate) fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the kernel lets this process load a minimal program; a failure in CI if not.
pub(crate) fn can_load() -> Option<()> {
    match load(&program(ProgramType::XDP), &give(0), &[]) {
        Ok(_) => Some(()),
        Err(error @ LoadError::Refused { .. }) => {
            assert!(std::env::var_os("CI").is_none(), "CI must be able to do this: {error}");
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("the least program is not taken: {error}"),
    }
}

/// Whether the kernel has memory for timers and arenas. Since Linux 7.0 they take it from `kmalloc_nolock` of
/// mm/slub.c, which gives none to processors without cmpxchg16b, such as those of emulated guests
/// (`xtask/src/vm/architecture.rs`).
pub(crate) fn has_memory_without_locks() -> Option<()> {
    let text = fs::read_to_string("/proc/cpuinfo").expect("a file of the kernel");
    let flags = text.lines().find(|line| line.starts_with("flags"));
    let has_it = flags.is_none_or(|flags| flags.split_whitespace().any(|flag| flag == "cx16"));
    let is_possible = has_it || !Kernel::running().is_at_least(7, 0);
    if !is_possible {
        eprintln!("skipped: without cmpxchg16b this kernel has no memory for timers and arenas");
    }
    is_possible.then_some(())
}

/// Whether the kernel has at least this version; prints what is skipped if not.
pub(crate) fn since(major: u32, minor: u32, what: &str) -> bool {
    let is_new = Kernel::running().is_at_least(major, minor);
    if !is_new {
        eprintln!("left out: {what} came with Linux {major}.{minor}");
    }
    is_new
}

/// A program of a type, with defaults.
pub(crate) fn program(r#type: ProgramType) -> ProgramSpec {
    ProgramSpec {
        name: "by_hand".to_owned(),
        section: String::new(),
        r#type,
        attach_type: 0,
        flags: 0,
        attachment: None,
        insn_count: 0,
    }
}

/// Code without types and lines, with functions that begin at `starts`.
pub(crate) fn code(insns: &[Insn], starts: &[u32]) -> Code {
    let functions = starts.iter().map(|&insn_index| FunctionInfo {
        insn_index,
        name: format!("function_{insn_index}"),
        type_id: None,
    });
    Code { insns: insns.to_vec(), functions: functions.collect(), lines: Vec::new() }
}

/// Loads a program without types.
pub(crate) fn load(
    program: &ProgramSpec,
    insns: &[Insn],
    maps: &[BorrowedFd<'_>],
) -> Result<Loaded, LoadError> {
    Loader::without_object().load(program, &code(insns, &[0]), maps)
}

/// Loads a program of an object, with the object's maps.
pub(crate) fn load_linked(
    spec: &Spec,
    name: &str,
    without_types: bool,
) -> Result<(Loaded, LoadedMaps), LoadError> {
    let loader = Loader::new(spec, LoaderOptions { without_types }).expect("a loader");
    let types = KernelTypes::parse(spec.types().bytes()).expect("sound types");
    let has_types = !without_types && !types.is_empty();
    assert_eq!(loader.has_types(), has_types, "the kernel takes the types");
    let maps = loader.create_maps().expect("maps");
    let target = spec.needs_target_types().then(|| KernelTypes::from_kernel().expect("types"));
    let linked = spec.link_program(name, target.as_ref()).expect("it is linked");
    loader.load(&linked.program, &linked.code, &maps.descriptors()).map(|loaded| (loaded, maps))
}

/// Runs it on a packet, for types that take one.
pub(crate) fn run(
    program: &Loaded,
    r#type: ProgramType,
    data: &[u8],
    repeat: u32,
) -> Result<ProgramRun, RunError> {
    wingbeat_bpf_loader::loader::run(program, r#type, RunInput { data, context: &[] }, repeat)
}

/// Return value of an XDP program for an empty packet.
pub(crate) fn value(program: &Loaded) -> u32 {
    run(program, ProgramType::XDP, &[0; 14], 1).expect("it runs").return_value
}

/// Whether an error is due to missing privileges.
pub(crate) fn is_refusal(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EPERM)
}
