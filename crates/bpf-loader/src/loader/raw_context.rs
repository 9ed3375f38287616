//! Synthesizes arguments of raw tracepoints that are run on demand, from the tracepoint's argument types.
//!
//! With zeros alone a program that first reads a field of its task gets nothing, and takes an error
//! path. Raw tracepoint programs read memory only through helpers that check each address
//! (`bpf_probe_read_kernel`), so that any address is safe.

use std::{fmt, os::fd::AsFd as _};

use crate::{
    btf::{Argument, KernelTypes},
    code::{Insn, op},
    program_type::ProgramType,
    spec::ProgramSpec,
    sys::{self, LoadRequest, TestRun},
};

/// Maximum number of arguments (`MAX_BPF_FUNC_ARGS`, include/linux/bpf.h, Linux 6.18).
const ARGUMENTS_MAX: usize = 12;

/// Helper ids (include/uapi/linux/bpf.h, Linux 6.18).
const GET_CURRENT_TASK: i32 = 35;
const GET_CURRENT_TASK_BTF: i32 = 158;
const TASK_PT_REGS: i32 = 175;

/// `BPF_F_SLEEPABLE`, required for syscall programs.
const SLEEPABLE: u32 = 1 << 4;

/// A plausible number for any argument: a size, an identifier, a true value.
const NUMBER: (&str, u64) = ("1", 1);

/// A context for a raw tracepoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawContext {
    tracepoint: String,
    /// Descriptions of the arguments.
    values: Vec<&'static str>,
    bytes: Vec<u8>,
}

/// Kernel addresses of this thread's data; 0 if unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Addresses {
    task: u64,
    registers: u64,
}

impl RawContext {
    /// Synthesizes a context for each raw tracepoint program of `programs`, to be run by this
    /// thread; returns them with the program names. If the kernel's types do not describe the
    /// tracepoint, it is zeros.
    pub(super) fn make_up<'a, 't>(
        programs: impl Iterator<Item = &'a ProgramSpec>,
        types: impl Fn() -> Option<&'t KernelTypes>,
    ) -> Vec<(String, Self)> {
        let programs = programs.filter(|it| it.r#type == ProgramType::RAW_TRACEPOINT);
        let mut addresses = None;
        let made = programs.map(|program| {
            let name = program.section.split_once('/').map_or("", |(_, name)| name);
            let arguments = types().and_then(|types| types.tracepoint_types(name));
            let addresses = *addresses.get_or_insert_with(Addresses::find);
            let context = Self::of(name.to_owned(), &arguments.unwrap_or_default(), addresses);
            (program.name.clone(), context)
        });
        made.collect()
    }

    fn of(tracepoint: String, arguments: &[Argument], addresses: Addresses) -> Self {
        let value = |argument: &Argument| match argument {
            Argument::Integer => NUMBER,
            Argument::Pointer(Some(name)) if name == "task_struct" && addresses.task != 0 => {
                ("this task", addresses.task)
            }
            Argument::Pointer(Some(name)) if name == "pt_regs" && addresses.registers != 0 => {
                ("its registers", addresses.registers)
            }
            Argument::Pointer(_) | Argument::Other => ("0", 0),
        };
        let found = arguments.iter().take(ARGUMENTS_MAX).map(value);
        let (values, mut words): (Vec<_>, Vec<u64>) = found.unzip();
        words.resize(ARGUMENTS_MAX, 0);
        let bytes = words.into_iter().flat_map(u64::to_ne_bytes).collect();
        Self { tracepoint, values, bytes }
    }

    /// The context structure: a word for each possible argument.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// `sched_switch(1, this task, this task, 1)`; `zeros` for a tracepoint with unknown arguments.
impl fmt::Display for RawContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.values.as_slice() {
            [] => f.write_str("zeros"),
            values => write!(f, "{}({})", self.tracepoint, values.join(", ")),
        }
    }
}

impl Addresses {
    /// Asks the kernel, with a program that runs on this thread.
    fn find() -> Self {
        let task = ask(&[call(GET_CURRENT_TASK)]).unwrap_or(0);
        // Since Linux 5.15.
        let registers = ask(&[call(GET_CURRENT_TASK_BTF), copy(1, 0), call(TASK_PT_REGS)]);
        Self { task, registers: registers.unwrap_or(0) }
    }
}

/// Value of `r0` after `insns`; `None` if the kernel does not load or run them.
fn ask(insns: &[Insn]) -> Option<u64> {
    const STORE: u8 = op::STX | op::MEM | op::DW;
    let begin = copy(6, 1);
    let end = [
        Insn::new(STORE, 6, 0, 0, 0),
        Insn::new(op::ALU64 | op::MOV, 0, 0, 0, 0),
        Insn::new(op::EXIT, 0, 0, 0, 0),
    ];
    let bytes = Insn::all_to_bytes(&[&[begin], insns, &end].concat());
    let request = LoadRequest {
        prog_type: ProgramType::SYSCALL.0,
        flags: SLEEPABLE,
        name: sys::kernel_name("wingbeat_self"),
        license: c"Dual MIT/GPL",
        insns: &bytes,
        ..Default::default()
    };
    let program = sys::load_verified(request, &mut []).ok()?;
    let mut answer = [0; 8];
    let run = TestRun { context_in: &mut answer, ..TestRun::default() };
    sys::test_run(program.as_fd(), run).ok()?;
    Some(u64::from_ne_bytes(answer))
}

fn call(helper: i32) -> Insn {
    Insn::new(op::CALL, 0, 0, 0, helper)
}

fn copy(to: u8, from: u8) -> Insn {
    Insn::new(op::ALU64 | op::MOV | op::X, to, from, 0, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_by_type() {
        let pointer = |name: &str| Argument::Pointer(Some(name.to_owned()));
        let arguments = [
            Argument::Integer,
            pointer("task_struct"),
            pointer("pt_regs"),
            pointer("sock"),
            Argument::Pointer(None),
            Argument::Other,
        ];
        let check = |addresses: Addresses, expected: &str, words: [u64; 4]| {
            let context = RawContext::of("t".to_owned(), &arguments, addresses);
            assert_eq!(context.to_string(), expected);
            let bytes = context.bytes();
            assert_eq!(bytes.len(), 96);
            assert_eq!(bytes[..32], words.map(u64::to_ne_bytes).concat());
            assert!(bytes[32..].iter().all(|&byte| byte == 0));
        };
        let known = Addresses { task: 7, registers: 8 };
        check(known, "t(1, this task, its registers, 0, 0, 0)", [1, 7, 8, 0]);
        check(Addresses::default(), "t(1, 0, 0, 0, 0, 0)", [1, 0, 0, 0]);
    }

    #[test]
    fn unknown_tracepoints_get_zeros() {
        let context = RawContext::of(String::new(), &[], Addresses::default());
        assert_eq!((context.to_string().as_str(), context.bytes()), ("zeros", &[0; 96][..]));
    }

    #[test]
    fn only_raw_tracepoints_need_one() {
        let program = |name: &str, r#type| ProgramSpec {
            name: name.to_owned(),
            section: "raw_tp/no_such_tracepoint".to_owned(),
            r#type,
            attach_type: 0,
            flags: 0,
            attachment: None,
            insn_count: 2,
        };
        let programs = [program("a", ProgramType::XDP), program("b", ProgramType::RAW_TRACEPOINT)];
        let found = RawContext::make_up(programs.iter(), || None);
        let found: Vec<_> = found.iter().map(|(name, it)| (&**name, it.to_string())).collect();
        assert_eq!(found, [("b", "zeros".to_owned())]);
    }
}
