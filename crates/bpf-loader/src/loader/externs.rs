//! Resolves externs: kernel symbols that programs reference by name.
//!
//! Bytecode contains the number of an extern in place of a kernel id or address, see
//! [`Spec::externs`](crate::spec::Spec::externs).

use std::{fs, io::BufRead as _};

use crate::{
    btf::KernelTypes,
    code::{Insn, op},
    spec::{Extern, ExternKind},
};

/// First helper number that represents kfuncs missing in the kernel, as in libbpf
/// (`POISON_CALL_KFUNC_BASE`, tools/lib/bpf/libbpf.c, Linux 6.12). The verifier rejects such a call
/// if it is reachable.
pub(super) const MISSING_KFUNC: i32 = 2_002_000_000;

/// Types of the kernel and its modules, and addresses of its symbols.
const TYPES: &str = "/sys/kernel/btf";
const SYMBOLS: &str = "/proc/kallsyms";

/// Replaces numbers of `externs` in `insns` by ids and addresses. The error is a reason.
pub(super) fn resolve<'a>(
    insns: &mut [Insn],
    externs: &[Extern],
    types: impl Fn() -> Result<&'a KernelTypes, String>,
) -> Result<(), String> {
    let mut index = 0;
    while let Some([insn, rest @ ..]) = insns.get_mut(index..) {
        let is_call = insn.opcode == op::CALL && insn.src() == op::PSEUDO_KFUNC_CALL;
        let is_load = insn.is_ldimm64() && insn.src() == op::PSEUDO_BTF_ID;
        index += if insn.is_ldimm64() { 2 } else { 1 };
        if !is_call && !is_load {
            continue;
        }
        let number = usize::try_from(insn.immediate).ok();
        let Some(found) = number.and_then(|number| externs.get(number)) else {
            return Err(format!(
                "its bytecode refers to extern {}, which it does not declare",
                insn.immediate
            ));
        };
        match (find(found, types()?)?, rest) {
            (Found::Id(id), _) => insn.immediate = id.cast_signed(),
            (Found::Nothing, _) if is_call => {
                *insn = Insn::new(op::CALL, 0, 0, 0, MISSING_KFUNC.saturating_add(insn.immediate));
            }
            (found, [next, ..]) if is_load => {
                let address = if let Found::Address(address) = found { address } else { 0 };
                *insn = Insn::new(op::LDIMM64, insn.dst(), 0, 0, (address as u32).cast_signed());
                next.immediate = ((address >> 32) as u32).cast_signed();
            }
            _ => return Err(format!("{} is not a function", found.name)),
        }
    }
    Ok(())
}

/// Result of a lookup.
enum Found {
    /// A function or variable with a type of this id.
    Id(u32),
    Address(u64),
    /// Missing, and optional.
    Nothing,
}

fn find(wanted: &Extern, types: &KernelTypes) -> Result<Found, String> {
    // Symbol variants have a suffix after three underscores.
    let name = wanted.name.split_once("___").map_or(wanted.name.as_str(), |(name, _)| name);
    let found = match wanted.kind {
        ExternKind::Function => types.function_id(name).map(Found::Id),
        ExternKind::Variable => types.variable_id(name).map(Found::Id),
        ExternKind::Address => address(name)?.map(Found::Address),
        ExternKind::Setting(_) | ExternKind::Unclear(_) => None,
    };
    match found {
        Some(found) => Ok(found),
        None if wanted.is_weak => Ok(Found::Nothing),
        None => Err(match module_with(name) {
            Some(module) => format!(
                "it needs {name}, which is in the kernel module {module}; only what is in the kernel itself is supported"
            ),
            None => format!("it needs {name}, which this kernel does not have"),
        }),
    }
}

/// Address of a symbol of the kernel.
fn address(name: &str) -> Result<Option<u64>, String> {
    let file =
        fs::File::open(SYMBOLS).map_err(|error| format!("cannot read {SYMBOLS}: {error}"))?;
    for line in std::io::BufReader::new(file).split(b'\n') {
        let line = line.map_err(|error| format!("cannot read {SYMBOLS}: {error}"))?;
        let line = String::from_utf8_lossy(&line);
        let mut words = line.split_ascii_whitespace();
        let (Some(address), Some(_), Some(symbol)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        if symbol == name {
            return match u64::from_str_radix(address, 16) {
                Ok(0) | Err(_) => Err(format!(
                    "it needs the address of {name}, which the kernel hides: run as root, with kernel.kptr_restrict at most 1"
                )),
                Ok(address) => Ok(Some(address)),
            };
        }
    }
    Ok(None)
}

/// A kernel module whose types contain `name`.
pub(super) fn module_with(name: &str) -> Option<String> {
    let text = [b"\0", name.as_bytes(), b"\0"].concat();
    fs::read_dir(TYPES).ok()?.flatten().find_map(|entry| {
        let module = entry.file_name().into_string().ok().filter(|module| module != "vmlinux")?;
        let types = fs::read(entry.path()).ok()?;
        types.windows(text.len()).any(|part| part == text).then_some(module)
    })
}
