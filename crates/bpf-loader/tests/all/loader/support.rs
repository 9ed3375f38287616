//! Privilege checks, mutual exclusion, and programs without an object.

use std::{
    fs, io,
    os::fd::BorrowedFd,
    sync::{Mutex, MutexGuard, PoisonError},
};

use wingbeat_bpf_loader::{
    KernelTypes, ProgramType,
    code::{Code, FunctionInfo, Insn, op},
    helpers,
    loader::{LoadError, Loaded, LoadedMaps, Loader, ProgramRun, RunError, RunInput},
    probe::Kernel,
    spec::{ProgramSpec, Spec},
};

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
pub(crate) fn load_linked(spec: &Spec, name: &str) -> Result<(Loaded, LoadedMaps), LoadError> {
    let loader = Loader::new(spec).expect("a loader");
    let types = KernelTypes::parse(spec.types().bytes()).expect("sound types");
    assert_eq!(loader.has_types(), !types.is_empty(), "the kernel takes the types");
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

// An assembler for hand-written programs.

/// Assembles instructions separated by semicolons, in the disassembler's syntax. Maps are numbered:
/// `r1 = map 0` is the map, `r1 = value 0 + 4` a location in its one value. An object has to define
/// the target of `r1 = function`. `r1 = arena r1` converts a user space pointer to one that
/// programs can dereference.
pub(crate) fn asm(text: &str) -> Vec<Insn> {
    text.split(';').map(|one| one.split_whitespace().collect::<Vec<_>>()).flat_map(insns).collect()
}

/// `return value`.
pub(crate) fn give(value: i32) -> Vec<Insn> {
    asm(&format!("r0 = {value}; exit"))
}

fn insns(words: Vec<&str>) -> Vec<Insn> {
    let wide = |dst, source, first, second| {
        vec![
            Insn::new(op::LDIMM64, register(dst), source, 0, first),
            Insn { immediate: second, ..Insn::default() },
        ]
    };
    let insn = match *words {
        ["exit"] => Insn::new(op::EXIT, 0, 0, 0, 0),
        ["goto", to] => Insn::new(op::JA, 0, 0, number(to) as i16, 0),
        ["call", to] if to.starts_with('+') => {
            Insn::new(op::CALL, 0, op::PSEUDO_CALL, 0, number(to))
        }
        ["call", helper] => Insn::new(op::CALL, 0, 0, 0, helper_number(helper)),
        ["if", dst, comparison, right, "goto", to] => {
            let (x, src, immediate) = operand(right);
            let opcode = op::JMP | compare(comparison) | x;
            Insn::new(opcode, register(dst), src, number(to) as i16, immediate)
        }
        [dst, "=", "map", map] => return wide(dst, op::PSEUDO_MAP_FD, number(map), 0),
        [dst, "=", "value", map] => return wide(dst, op::PSEUDO_MAP_VALUE, number(map), 0),
        [dst, "=", "function"] => return wide(dst, op::PSEUDO_FUNC, 0, 0),
        [dst, "=", size, base, sign, offset] => {
            let (size, base, offset) = memory(size, base, sign, offset);
            Insn::new(op::LDX | op::MEM | size, register(dst), base, offset, 0)
        }
        [size, base, sign, offset, "=", value] => {
            let (size, base, offset) = memory(size, base, sign, offset);
            let (x, src, immediate) = operand(value);
            let class = if x == op::X { op::STX } else { op::ST };
            Insn::new(class | op::MEM | size, base, src, offset, immediate)
        }
        ["lock", size, base, sign, offset, "+=", src] => {
            let (size, base, offset) = memory(size, base, sign, offset);
            let opcode = op::STX | op::ATOMIC | size;
            Insn::new(opcode, base, register(src), offset, op::ADD.into())
        }
        [dst, "=", "arena", src] => {
            let opcode = op::ALU64 | op::MOV | op::X;
            Insn::new(opcode, register(dst), register(src), op::ADDR_SPACE_CAST, 1)
        }
        [dst, operator, right] => {
            let (x, src, immediate) = operand(right);
            Insn::new(op::ALU64 | calculate(operator) | x, register(dst), src, 0, immediate)
        }
        _ => panic!("no instruction: {words:?}"),
    };
    vec![insn]
}

fn calculate(operator: &str) -> u8 {
    match operator {
        "=" => op::MOV,
        "+=" => op::ADD,
        "-=" => op::SUB,
        "*=" => op::MUL,
        "&=" => op::AND,
        "<<=" => op::LSH,
        _ => panic!("no operator: {operator}"),
    }
}

fn compare(comparison: &str) -> u8 {
    match comparison {
        "==" => op::JEQ,
        "!=" => op::JNE,
        ">" => op::JGT,
        "<" => op::JLT,
        _ => panic!("no comparison: {comparison}"),
    }
}

/// Parses size, register and offset of `*(u32 *)(r1 + 4)`.
fn memory(size: &str, base: &str, sign: &str, offset: &str) -> (u8, u8, i16) {
    let size = match size {
        "*(u8" => op::B,
        "*(u32" => op::W,
        "*(u64" => op::DW,
        _ => panic!("no size: {size}"),
    };
    let offset = number(&format!("{sign}{}", offset.trim_end_matches(')')));
    (size, register(base.trim_start_matches("*)(")), offset as i16)
}

/// Source bit, register and immediate of an operand.
fn operand(text: &str) -> (u8, u8, i32) {
    if text.starts_with('r') { (op::X, register(text), 0) } else { (0, 0, number(text)) }
}

fn register(text: &str) -> u8 {
    let number = text.strip_prefix('r').and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("no register: {text}"))
}

fn number(text: &str) -> i32 {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => i32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.unwrap_or_else(|_| panic!("no number: {text}"))
}

/// A helper by its name without `bpf_`, or by its number.
fn helper_number(text: &str) -> i32 {
    let is_meant = |number: &u32| helpers::name(*number) == Some(&format!("bpf_{text}"));
    (1..=211).find(is_meant).map_or_else(|| number(text), u32::cast_signed)
}
