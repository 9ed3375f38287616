//! Disassembles bytecode before it is loaded: for listings, messages and golden files.
//!
//! The syntax is that of LLVM and of the verifier log (kernel/bpf/disasm.c, Linux 6.18), which are
//! similar. Where they differ, or both hide something, this uses the clearer form: numbers are
//! decimal except 64-bit ones, helpers have names, and references to maps and functions are marked.
//! Each text is unambiguous: instructions that use undefined fields are shown as raw bytes.

use std::fmt;

use super::{Code, FunctionInfo, Insn, op};
use crate::helpers;

/// Listing of a program, one instruction per line.
#[derive(Debug, Clone, Copy)]
pub struct Listing<'a>(&'a Code);

/// An instruction of a [`Listing`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed<'a> {
    /// Its index; that of the first half for a `ldimm64`.
    pub insn_index: usize,
    /// Number of instruction slots: 2 for a `ldimm64`, else 1.
    pub insn_count: usize,
    /// Its text. Jumps include the target index: `goto +3 <7>`.
    pub text: String,
    pub function: Option<&'a FunctionInfo>,
}

impl<'a> Listing<'a> {
    pub fn new(code: &'a Code) -> Self {
        Self(code)
    }

    /// The instructions in order.
    pub fn iter(self) -> impl Iterator<Item = Listed<'a>> {
        let mut index = 0;
        std::iter::from_fn(move || {
            let listed = self.at(index)?;
            index += listed.insn_count;
            Some(listed)
        })
    }

    /// The instruction at `index`, or `None` past the end. The second half of a `ldimm64` is shown as raw bytes.
    pub fn at(self, index: usize) -> Option<Listed<'a>> {
        let insn = *self.0.insns.get(index)?;
        let next = self.0.insns.get(index + 1).copied();
        Some(Listed {
            insn_index: index,
            insn_count: if wide_immediate(insn, next).is_some() { 2 } else { 1 },
            text: text(insn, next, Location(Some((self.0, index)))),
            function: function_at(self.0, index),
        })
    }
}

impl fmt::Display for Listing<'_> {
    /// Each function begins with its name and a colon.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Listed { insn_index, text, function, .. } in self.iter() {
            if let Some(function) = function {
                writeln!(f, "{}:", function.name)?;
            }
            writeln!(f, "{insn_index:5}: {text}")?;
        }
        Ok(())
    }
}

/// The code that contains an instruction, and its index.
#[derive(Clone, Copy)]
struct Location<'a>(Option<(&'a Code, usize)>);

impl<'a> Location<'a> {
    /// Index of the instruction `distance` after the next one, if it exists.
    fn target(self, distance: i32) -> Option<usize> {
        let (code, index) = self.0?;
        let target = i64::try_from(index).ok()?.checked_add(1)?.checked_add(distance.into())?;
        usize::try_from(target).ok().filter(|&target| target < code.insns.len())
    }

    /// Name of the function that begins `distance` after the next instruction.
    fn function(self, distance: i32) -> Option<&'a str> {
        let (code, _) = self.0?;
        let function = function_at(code, self.target(distance)?)?;
        Some(function.name.as_str()).filter(|name| !name.is_empty())
    }
}

fn function_at(code: &Code, index: usize) -> Option<&FunctionInfo> {
    let index = u32::try_from(index).ok()?;
    let position = code.functions.binary_search_by_key(&index, |function| function.insn_index);
    code.functions.get(position.ok()?)
}

/// Text of one instruction, such as `r1 = *(u32 *)(r6 + 8)`. `next` is the following instruction,
/// used only for a `ldimm64`. Invalid instructions become `.insn 0x` and their eight bytes in
/// memory order, operation code first.
fn text(insn: Insn, next: Option<Insn>, location: Location<'_>) -> String {
    let known = match insn.class() {
        op::ALU | op::ALU64 => arithmetic(insn),
        op::JMP | op::JMP32 => jump(insn, location),
        op::LD if insn.is_ldimm64() => load_64(insn, next, location),
        _ => memory(insn),
    };
    known.unwrap_or_else(|| {
        let bytes = insn.to_bytes().map(|byte| format!("{byte:02x}"));
        format!(".insn 0x{}", bytes.concat())
    })
}

/// The two immediates of a `ldimm64`, if both halves are valid.
fn wide_immediate(insn: Insn, next: Option<Insn>) -> Option<(i32, i32)> {
    let next = next?;
    let is_second_half = next.opcode == 0 && next.registers == 0 && next.offset == 0;
    let is_first_half = insn.is_ldimm64() && insn.offset == 0 && register(insn.dst()).is_some();
    (is_first_half && is_second_half).then_some((insn.immediate, next.immediate))
}

/// `r1 = …` for all kinds of `ldimm64`.
fn load_64(insn: Insn, next: Option<Insn>, location: Location<'_>) -> Option<String> {
    let (low, high) = wide_immediate(insn, next)?;
    let map = |kind| format!("map[{kind}:{low}]");
    let value = match (insn.src(), high) {
        (0, _) => {
            let (low, high) = (u64::from(low.cast_unsigned()), u64::from(high.cast_unsigned()));
            format!("{:#x} ll", high << 32 | low)
        }
        (op::PSEUDO_MAP_FD, 0) => map("fd"),
        (op::PSEUDO_MAP_INDEX, 0) => map("index"),
        (op::PSEUDO_MAP_VALUE, _) => format!("{}[0]{}", map("fd"), signed(high)),
        (op::PSEUDO_MAP_INDEX_VALUE, _) => format!("{}[0]{}", map("index"), signed(high)),
        (op::PSEUDO_BTF_ID, 0) => format!("ksym[btf:{low}]"),
        (op::PSEUDO_BTF_ID, module_fd) => format!("ksym[btf:{low} in fd:{module_fd}]"),
        (op::PSEUDO_FUNC, 0) => match location.function(low) {
            Some(name) => format!("func {name}"),
            None => format!("func {low:+}"),
        },
        _ => return None,
    };
    Some(format!("r{} = {value}", insn.dst()))
}

/// Number of a valid register.
fn register(number: u8) -> Option<u8> {
    (number <= 10).then_some(number)
}

/// A signed offset as a summand: ` + 8`, ` - 8`.
fn signed(offset: i32) -> String {
    let sign = if offset < 0 { '-' } else { '+' };
    format!(" {sign} {}", offset.unsigned_abs())
}

// Text of arithmetic: `r1 += 2`, `w1 = (s8)w2`, `r1 = be16 r1`.

/// `None` for invalid operations.
fn arithmetic(insn: Insn) -> Option<String> {
    let letter = if insn.class() == op::ALU64 { 'r' } else { 'w' };
    let dst = format!("{letter}{}", register(insn.dst())?);
    match insn.opcode & op::OPERATION {
        op::MOV => moved(insn, letter, &dst),
        op::END => swapped(insn),
        op::NEG => {
            let is_plain =
                insn.opcode & op::X == 0 && (insn.src(), insn.offset, insn.immediate) == (0, 0, 0);
            is_plain.then(|| format!("{dst} = -{dst}"))
        }
        operation => {
            let operator = operator(operation, insn.offset)?;
            Some(format!("{dst} {operator} {}", operand(insn, letter)?))
        }
    }
}

fn operator(operation: u8, offset: i16) -> Option<&'static str> {
    let (unsigned, signed) = match operation {
        op::ADD => ("+=", None),
        op::SUB => ("-=", None),
        op::MUL => ("*=", None),
        op::DIV => ("/=", Some("s/=")),
        op::OR => ("|=", None),
        op::AND => ("&=", None),
        op::LSH => ("<<=", None),
        op::RSH => (">>=", None),
        op::MOD => ("%=", Some("s%=")),
        op::XOR => ("^=", None),
        op::ARSH => ("s>>=", None),
        _ => return None,
    };
    match offset {
        0 => Some(unsigned),
        1 => signed,
        _ => None,
    }
}

/// Second operand: a register or the immediate; the other one must be zero.
fn operand(insn: Insn, letter: char) -> Option<String> {
    if insn.opcode & op::X != 0 {
        let register = register(insn.src())?;
        (insn.immediate == 0).then(|| format!("{letter}{register}"))
    } else {
        (insn.src() == 0).then(|| insn.immediate.to_string())
    }
}

/// The offset of a move selects its kind.
fn moved(insn: Insn, letter: char, dst: &str) -> Option<String> {
    let is_wide = letter == 'r';
    if insn.opcode & op::X == 0 || insn.offset == 0 {
        return (insn.offset == 0).then_some(format!("{dst} = {}", operand(insn, letter)?));
    }
    if insn.offset == op::ADDR_SPACE_CAST && is_wide {
        let [to, from] =
            [insn.immediate.cast_unsigned() >> 16, insn.immediate.cast_unsigned() & 0xffff];
        return Some(format!("{dst} = addr_space_cast(r{}, {to}, {from})", register(insn.src())?));
    }
    let source = operand(insn, letter)?;
    match insn.offset {
        8 | 16 => Some(format!("{dst} = (s{}){source}", insn.offset)),
        32 if is_wide => Some(format!("{dst} = (s32){source}")),
        _ => None,
    }
}

/// Byte order: to little or big endian in the 32-bit class, unconditionally in the 64-bit class.
fn swapped(insn: Insn) -> Option<String> {
    let name = match (insn.class(), insn.opcode & op::X) {
        (op::ALU, 0) => "le",
        (op::ALU, _) => "be",
        (_, 0) => "bswap",
        _ => return None,
    };
    let (dst, bits) = (insn.dst(), insn.immediate);
    let is_plain = (insn.src(), insn.offset) == (0, 0) && matches!(bits, 16 | 32 | 64);
    is_plain.then(|| format!("r{dst} = {name}{bits} r{dst}"))
}

// Text of jumps, calls and the return: `if r1 > 5 goto +3`, `call bpf_map_lookup_elem`.

/// `None` for invalid operations.
fn jump(insn: Insn, location: Location<'_>) -> Option<String> {
    let registers = (insn.dst(), insn.src());
    let (offset, immediate) = (insn.offset, insn.immediate);
    match insn.opcode {
        op::JA if registers == (0, 0) && immediate == 0 => {
            Some(format!("goto {}", target(offset.into(), location)))
        }
        op::JA32 if registers == (0, 0) && offset == 0 => {
            Some(format!("gotol {}", target(immediate, location)))
        }
        op::JCOND if registers == (0, 0) && immediate == 0 => {
            Some(format!("may_goto {}", target(offset.into(), location)))
        }
        op::JAX if (insn.src(), offset, immediate) == (0, 0, 0) => {
            Some(format!("gotox r{}", register(insn.dst())?))
        }
        op::EXIT if registers == (0, 0) && (offset, immediate) == (0, 0) => Some("exit".to_owned()),
        op::CALL if insn.dst() == 0 => call(insn, location),
        op::CALLX if (insn.src(), offset, immediate) == (0, 0, 0) => {
            Some(format!("callx r{}", register(insn.dst())?))
        }
        _ => condition(insn, location),
    }
}

fn condition(insn: Insn, location: Location<'_>) -> Option<String> {
    let letter = if insn.class() == op::JMP { 'r' } else { 'w' };
    let comparison = match insn.opcode & op::OPERATION {
        op::JEQ => "==",
        op::JGT => ">",
        op::JGE => ">=",
        op::JSET => "&",
        op::JNE => "!=",
        op::JSGT => "s>",
        op::JSGE => "s>=",
        op::JLT => "<",
        op::JLE => "<=",
        op::JSLT => "s<",
        op::JSLE => "s<=",
        _ => return None,
    };
    let (dst, right) = (register(insn.dst())?, operand(insn, letter)?);
    let target = target(insn.offset.into(), location);
    Some(format!("if {letter}{dst} {comparison} {right} goto {target}"))
}

fn call(insn: Insn, location: Location<'_>) -> Option<String> {
    let (number, module) = (insn.immediate, insn.offset);
    let callee = match (insn.src(), module) {
        (0, 0) => {
            let name = u32::try_from(number).ok().and_then(helpers::name);
            name.map_or_else(|| format!("helper#{number}"), str::to_owned)
        }
        (op::PSEUDO_CALL, 0) => match location.function(number) {
            Some(name) => name.to_owned(),
            None => target(number, location),
        },
        (op::PSEUDO_KFUNC_CALL, 0) => format!("kfunc#{number}"),
        // The offset selects the descriptor of a module's BTF from an array passed at load time.
        (op::PSEUDO_KFUNC_CALL, module) => format!("kfunc#{number} of module {module}"),
        _ => return None,
    };
    Some(format!("call {callee}"))
}

/// `+3`, and with the surrounding code also the target index: `+3 <7>`.
fn target(distance: i32, location: Location<'_>) -> String {
    match location.target(distance) {
        Some(index) => format!("{distance:+} <{index}>"),
        None => format!("{distance:+}"),
    }
}

// Text of memory accesses: loads, stores, atomic operations, packet access of classic BPF.

/// `None` for invalid operations.
fn memory(insn: Insn) -> Option<String> {
    let (dst, src) = (register(insn.dst())?, register(insn.src())?);
    let (bits, immediate) = (bits(insn), insn.immediate);
    let signed_load = insn.opcode & op::MODE == op::MEMSX;
    match (insn.class(), insn.opcode & op::MODE) {
        (op::LDX, op::MEM | op::MEMSX) if immediate == 0 && !(signed_load && bits == 64) => {
            let sign = if signed_load { 's' } else { 'u' };
            let address = address(src, insn.offset);
            Some(format!("r{dst} = *({sign}{bits} *){address}"))
        }
        (op::ST, op::MEM) if src == 0 => {
            Some(format!("*(u{bits} *){} = {immediate}", address(dst, insn.offset)))
        }
        (op::STX, op::MEM) if immediate == 0 => {
            Some(format!("*(u{bits} *){} = r{src}", address(dst, insn.offset)))
        }
        (op::STX, op::ATOMIC) => atomic(insn, bits),
        (op::LD, op::ABS | op::IND) => packet(insn, bits),
        _ => None,
    }
}

fn bits(insn: Insn) -> u8 {
    match insn.opcode & op::SIZE {
        op::B => 8,
        op::H => 16,
        op::W => 32,
        _ => 64,
    }
}

/// An address: `(r6 + 8)`.
fn address(register: u8, offset: i16) -> String {
    format!("(r{register}{})", signed(offset.into()))
}

fn atomic(insn: Insn, bits: u8) -> Option<String> {
    let (dst, src) = (insn.dst(), insn.src());
    let at = |register| format!("(u{bits} *){}", address(register, insn.offset));
    match insn.immediate {
        op::LOAD_ACQUIRE => return Some(format!("r{dst} = load_acquire({})", at(src))),
        op::STORE_RELEASE => return Some(format!("store_release({}, r{src})", at(dst))),
        _ if bits < 32 => return None,
        op::XCHG => return Some(format!("r{src} = atomic_xchg({}, r{src})", at(dst))),
        op::CMPXCHG => return Some(format!("r0 = atomic_cmpxchg({}, r0, r{src})", at(dst))),
        _ => {}
    }
    let operation = u8::try_from(insn.immediate & !op::FETCH).ok()?;
    let (operator, name) = match operation {
        op::ADD => ("+=", "add"),
        op::OR => ("|=", "or"),
        op::AND => ("&=", "and"),
        op::XOR => ("^=", "xor"),
        _ => return None,
    };
    Some(if insn.immediate & op::FETCH != 0 {
        format!("r{src} = atomic_fetch_{name}({}, r{src})", at(dst))
    } else {
        format!("lock *{} {operator} r{src}", at(dst))
    })
}

/// `r0 = *(u16 *)skb[12]`; register `src` is the base, with an optional summand.
fn packet(insn: Insn, bits: u8) -> Option<String> {
    if bits == 64 || insn.dst() != 0 || insn.offset != 0 {
        return None;
    }
    let location = match (insn.opcode & op::MODE, insn.src(), insn.immediate) {
        (op::ABS, 0, location) => location.to_string(),
        (op::IND, register, 0) => format!("r{register}"),
        (op::IND, register, offset) => format!("r{register}{}", signed(offset)),
        _ => return None,
    };
    Some(format!("r0 = *(u{bits} *)skb[{location}]"))
}

#[cfg(test)]
mod tests;
