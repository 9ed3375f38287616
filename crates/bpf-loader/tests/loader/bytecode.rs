//! An assembler for hand-written programs.

use wingbeat_bpf_loader::{
    code::{Insn, op},
    helpers,
};

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
