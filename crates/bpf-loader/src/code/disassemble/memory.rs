//! Text of memory accesses: loads, stores, atomic operations, packet access of classic BPF.

use super::{Insn, op, register, signed};

/// `None` for invalid operations.
pub(super) fn text(insn: Insn) -> Option<String> {
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
    let place = match (insn.opcode & op::MODE, insn.src(), insn.immediate) {
        (op::ABS, 0, place) => place.to_string(),
        (op::IND, register, 0) => format!("r{register}"),
        (op::IND, register, offset) => format!("r{register}{}", signed(offset)),
        _ => return None,
    };
    Some(format!("r0 = *(u{bits} *)skb[{place}]"))
}
