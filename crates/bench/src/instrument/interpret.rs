//! Runs bytecode in user space and counts each instruction: the truth that counters are compared with.
//!
//! It knows what [`generate`](super::generate) makes: arithmetic, jumps, stack, context, packet, the
//! value of one map, functions, callbacks of `bpf_loop`. Like the verifier it refuses to read what was
//! never written, so that instrumentation which does so is found here already.
//!
//! Two calls behave as no kernel does, to have something that does not return: the kfunc
//! [`KFUNC_THROW`] ends the program if the low bits of r1 are clear, and a tail call succeeds if those
//! of r3 are.

mod arithmetic;
mod memory;

use std::ops::Range;

use wingbeat_bpf::code::{Code, Insn, op};

pub use self::memory::{Memory, Write};

/// Number of the kfunc that throws.
pub const KFUNC_THROW: i32 = 1;
/// What a program returns when it throws or tail-calls.
pub const RESULT_ESCAPED: u64 = 1;
/// Number of the helper `bpf_skb_load_bytes`.
pub const HELPER_SKB_LOAD_BYTES: i32 = 26;
/// Number of the helper `bpf_loop`.
pub const HELPER_LOOP: i32 = 181;

/// Instructions after which a program counts as endless.
const STEPS_MAX: u64 = 10_000_000;
const FRAMES_MAX: usize = 8;
/// Addresses of functions begin here.
const FUNCTIONS: u64 = 0x7000_0000;

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// What the program returned.
    pub result: u64,
    /// How often each instruction ran; a `ldimm64` at its first half.
    pub counts: Vec<u64>,
    /// What was written to the stack, in this order.
    pub writes: Vec<Write>,
    /// The value of the map afterwards.
    pub value: Vec<u8>,
}

/// Why a program was stopped, and at which instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Index of the instruction.
    pub index: usize,
    /// What was wrong with it.
    pub reason: &'static str,
}

/// Runs a program on a context whose kind the entry tells, a packet, and the value of a map.
///
/// # Errors
///
/// If the program does what the verifier would refuse, or more than this interpreter knows.
pub fn run(code: &Code, memory: Memory) -> Result<Outcome, Fault> {
    let mut machine = Machine {
        code,
        memory,
        registers: [None; 11],
        frames: vec![],
        counts: vec![0; code.insns.len()],
        index: 0,
    };
    machine.registers[1] = Some(memory::CONTEXT);
    machine.registers[10] = Some(machine.memory.enter(0));
    let result = machine.run().map_err(|reason| Fault { index: machine.index, reason })?;
    let Machine { memory, counts, .. } = machine;
    let (writes, value) = memory.finish();
    Ok(Outcome { result, counts, writes, value })
}

type Step<T> = Result<T, &'static str>;

/// What a function returns to.
struct Frame {
    return_to: usize,
    saved: [Option<u64>; 5],
    turns: Option<Turns>,
}

/// The state of a `bpf_loop`.
struct Turns {
    next: u64,
    all: u64,
    callback: usize,
    context: u64,
}

struct Machine<'a> {
    code: &'a Code,
    memory: Memory,
    registers: [Option<u64>; 11],
    frames: Vec<Frame>,
    counts: Vec<u64>,
    index: usize,
}

const ARGUMENTS: Range<usize> = 1..6;
const SAVED: Range<usize> = 6..11;

impl Machine<'_> {
    fn run(&mut self) -> Step<u64> {
        for _ in 0..STEPS_MAX {
            let insn = *self.code.insns.get(self.index).ok_or("outside of the program")?;
            self.counts[self.index] += 1;
            self.memory.index = self.index;
            if let Some(result) = self.step(insn)? {
                return Ok(result);
            }
        }
        Err("endless")
    }

    fn get(&self, register: u8) -> Step<u64> {
        let value = self.registers.get(usize::from(register)).ok_or("no such register")?;
        value.ok_or("a register that was never set")
    }

    fn set(&mut self, register: u8, value: u64) -> Step<()> {
        match register {
            0..10 => self.registers[usize::from(register)] = Some(value),
            _ => return Err("a register that cannot be written"),
        }
        Ok(())
    }

    /// The second operand.
    fn operand(&self, insn: Insn) -> Step<u64> {
        match insn.opcode & op::X {
            0 => Ok(i64::from(insn.immediate) as u64),
            _ => self.get(insn.src()),
        }
    }

    fn address(&self, register: u8, insn: Insn) -> Step<u64> {
        Ok(self.get(register)?.wrapping_add_signed(i64::from(insn.offset)))
    }

    /// Runs one instruction; the result, if it ends the program.
    fn step(&mut self, insn: Insn) -> Step<Option<u64>> {
        let size = match insn.opcode & op::SIZE {
            op::W => 4,
            op::H => 2,
            op::B => 1,
            _ => 8,
        };
        match insn.class() {
            op::ALU | op::ALU64 => self.arithmetic(insn)?,
            op::LDX => {
                let raw = self.memory.read(self.address(insn.src(), insn)?, size)?;
                let value = match insn.opcode & op::MODE {
                    op::MEM => raw,
                    op::MEMSX => arithmetic::sign_extended(raw, 8 * size as u32),
                    _ => return Err("an unknown mode"),
                };
                self.set(insn.dst(), value)?;
            }
            op::ST => {
                let value = i64::from(insn.immediate) as u64;
                self.memory.write(self.address(insn.dst(), insn)?, size, value)?;
            }
            op::STX if insn.opcode & op::MODE == op::ATOMIC => self.atomic(insn, size)?,
            op::STX => {
                let value = self.get(insn.src())?;
                self.memory.write(self.address(insn.dst(), insn)?, size, value)?;
            }
            op::LD => return self.load(insn, size),
            _ => return self.jump(insn),
        }
        self.index += 1;
        Ok(None)
    }

    fn arithmetic(&mut self, insn: Insn) -> Step<()> {
        let operation = insn.opcode & op::OPERATION;
        let old = if operation == op::MOV { 0 } else { self.get(insn.dst())? };
        let is_unary = matches!(operation, op::NEG | op::END);
        let operand = if is_unary { 0 } else { self.operand(insn)? };
        let value = arithmetic::compute(insn, old, operand)?;
        self.set(insn.dst(), value)
    }

    fn atomic(&mut self, insn: Insn, size: usize) -> Step<()> {
        let address = self.address(insn.dst(), insn)?;
        let (old, operand) = (self.memory.read(address, size)?, self.get(insn.src())?);
        const ADD: i32 = op::ADD as i32;
        const OR: i32 = op::OR as i32;
        const AND: i32 = op::AND as i32;
        const XOR: i32 = op::XOR as i32;
        if insn.immediate == op::CMPXCHG {
            let mask = if size == 8 { u64::MAX } else { u64::from(u32::MAX) };
            if self.get(0)? & mask == old {
                self.memory.write(address, size, operand)?;
            }
            return self.set(0, old);
        }
        let new = match insn.immediate & !op::FETCH {
            ADD => old.wrapping_add(operand),
            OR => old | operand,
            AND => old & operand,
            XOR => old ^ operand,
            _ if insn.immediate == op::XCHG => operand,
            _ => return Err("an unknown atomic operation"),
        };
        self.memory.write(address, size, new)?;
        match insn.immediate & op::FETCH {
            0 => Ok(()),
            _ => self.set(insn.src(), old),
        }
    }

    fn load(&mut self, insn: Insn, size: usize) -> Step<Option<u64>> {
        let offset = match insn.opcode & op::MODE {
            op::IMM => {
                self.load_double(insn)?;
                return Ok(None);
            }
            op::ABS => 0,
            op::IND => self.get(insn.src())?,
            _ => return Err("an unknown mode"),
        };
        if self.get(6)? != memory::CONTEXT {
            return Err("a packet load without the context in r6");
        }
        let offset = offset.wrapping_add_signed(i64::from(insn.immediate));
        self.registers[ARGUMENTS].fill(None);
        match self.memory.packet(offset, size) {
            Some(value) => {
                self.registers[0] = Some(value);
                self.index += 1;
                Ok(None)
            }
            None => self.leave(0),
        }
    }

    fn load_double(&mut self, insn: Insn) -> Step<()> {
        let high = self.code.insns.get(self.index + 1).ok_or("half a load")?.immediate;
        let value = match insn.src() {
            0 => u64::from(insn.immediate as u32) | u64::from(high as u32) << 32,
            op::PSEUDO_MAP_VALUE => memory::VALUE + u64::from(high as u32),
            op::PSEUDO_FUNC => {
                let target = self.index as i64 + 1 + i64::from(insn.immediate);
                FUNCTIONS + u64::try_from(target).map_err(|_| "an unknown function")?
            }
            _ => return Err("an unknown kind of load"),
        };
        self.index += 2;
        self.set(insn.dst(), value)
    }

    fn jump(&mut self, insn: Insn) -> Step<Option<u64>> {
        let distance = match insn.opcode {
            op::CALL => return self.call(insn),
            op::EXIT => {
                let result = self.get(0)?;
                return self.leave(result);
            }
            op::JA => i64::from(insn.offset),
            op::JA32 => i64::from(insn.immediate),
            // The budget is never used up.
            op::JCOND => 0,
            _ => {
                let holds = arithmetic::holds(insn, self.get(insn.dst())?, self.operand(insn)?)?;
                if holds { i64::from(insn.offset) } else { 0 }
            }
        };
        self.go(distance)?;
        Ok(None)
    }

    fn go(&mut self, distance: i64) -> Step<()> {
        let target = self.index as i64 + 1 + distance;
        self.index = usize::try_from(target).map_err(|_| "outside of the program")?;
        Ok(())
    }

    fn call(&mut self, insn: Insn) -> Step<Option<u64>> {
        match (insn.src(), insn.immediate) {
            (op::PSEUDO_CALL, distance) => {
                let return_to = self.index + 1;
                self.go(i64::from(distance))?;
                let arguments = self.registers[ARGUMENTS].to_vec();
                self.enter(return_to, None)?;
                self.registers[ARGUMENTS].copy_from_slice(&arguments);
                return Ok(None);
            }
            (op::PSEUDO_KFUNC_CALL, KFUNC_THROW) => {
                if self.get(1)? & 7 == 0 {
                    return Ok(Some(RESULT_ESCAPED));
                }
                self.registers[0] = self.registers[1];
            }
            (0, op::HELPER_TAIL_CALL) => {
                if self.get(3)? & 3 == 0 {
                    return self.leave(RESULT_ESCAPED);
                }
                self.registers[0] = Some(-22_i64 as u64);
            }
            (0, HELPER_SKB_LOAD_BYTES) => {
                let [offset, to, len] = [self.get(2)?, self.get(3)?, self.get(4)?];
                let loaded = self.memory.load_packet(offset, to, len as usize)?;
                self.registers[0] = Some(if loaded { 0 } else { -14_i64 as u64 });
            }
            (0, HELPER_LOOP) => {
                let callback = self.get(2)?.checked_sub(FUNCTIONS).ok_or("no callback")? as usize;
                let turns = Turns { next: 0, all: self.get(1)?, callback, context: self.get(3)? };
                if turns.all > 0 {
                    let return_to = self.index + 1;
                    return self.turn(return_to, turns).map(|()| None);
                }
                self.registers[0] = Some(0);
            }
            _ => return Err("an unknown call"),
        }
        self.registers[ARGUMENTS].fill(None);
        self.index += 1;
        Ok(None)
    }

    /// Starts a callback.
    fn turn(&mut self, return_to: usize, mut turns: Turns) -> Step<()> {
        let arguments = [Some(turns.next), Some(turns.context)];
        turns.next += 1;
        self.index = turns.callback;
        self.enter(return_to, Some(turns))?;
        self.registers[1..3].copy_from_slice(&arguments);
        Ok(())
    }

    fn enter(&mut self, return_to: usize, turns: Option<Turns>) -> Step<()> {
        let mut saved = [None; 5];
        saved.copy_from_slice(&self.registers[SAVED]);
        self.frames.push(Frame { return_to, saved, turns });
        if self.frames.len() >= FRAMES_MAX {
            return Err("too many frames");
        }
        self.registers.fill(None);
        self.registers[10] = Some(self.memory.enter(self.frames.len()));
        Ok(())
    }

    /// Returns from a function; the result, if it was the program's entry.
    fn leave(&mut self, result: u64) -> Step<Option<u64>> {
        let Some(frame) = self.frames.pop() else { return Ok(Some(result)) };
        self.registers.fill(None);
        self.registers[SAVED].copy_from_slice(&frame.saved);
        self.index = frame.return_to;
        self.registers[0] = match frame.turns {
            Some(_) if result > 1 => return Err("a callback may return 0 or 1 only"),
            Some(turns) if result == 0 && turns.next < turns.all => {
                return self.turn(frame.return_to, turns).map(|()| None);
            }
            Some(turns) => Some(turns.next),
            None => Some(result),
        };
        Ok(None)
    }
}
