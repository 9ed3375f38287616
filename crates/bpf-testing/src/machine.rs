//! The machine: registers, frames, jumps and calls.
//!
//! A `Host` provides everything outside the program: maps and kernel helpers. The machine itself implements one helper,
//! `bpf_loop`, and callbacks in general.

use std::{fmt, ops::Range};

use wingbeat_bpf_loader::code::{Code, Insn, op};

use crate::{
    Reason, Step, arithmetic,
    memory::{Memory, Write},
};

/// Helper number of `bpf_loop`.
pub const HELPER_LOOP: i32 = 181;

/// Step limit, after which a program counts as endless.
const STEPS_MAX: u64 = 10_000_000;
const FRAMES_MAX: usize = 8;
/// Base address of functions.
const FUNCTIONS: u64 = 0x7000_0000;

/// Outcome of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) result: u64,
    /// Executions of each instruction; an `ldimm64` counts at its first half.
    pub(crate) counts: Vec<u64>,
    /// Stack writes, in order.
    pub(crate) writes: Vec<Write>,
}

/// Why and at which instruction a program was stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub index: usize,
    pub reason: Reason,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the interpreter stopped at instruction {}: {}", self.index, self.reason)
    }
}

impl std::error::Error for Fault {}

/// Arguments of a call, r1 to r5.
pub(crate) struct Arguments([Option<u64>; 5]);

impl Arguments {
    /// The argument in r1, r2, …
    pub(crate) fn get(&self, register: usize) -> Step<u64> {
        let value = register.checked_sub(1).and_then(|at| self.0.get(at).copied().flatten());
        value.ok_or_else(|| format!("r{register}, an argument, was never set").into())
    }
}

/// Result of a call.
pub(crate) enum Answer {
    Value(u64),
    /// Returns an unknown value, or nothing.
    Unknown,
    /// The function returns.
    Leave(u64),
    End(u64),
    /// Calls a function of the program for each element of a map.
    ForEach {
        callback: u64,
        elements: Vec<[u64; 3]>,
        context: u64,
    },
}

impl Answer {
    /// Return value of a helper, possibly a negative errno.
    pub(crate) fn of(value: i64) -> Step<Self> {
        Ok(Self::Value(value as u64))
    }
}

/// Environment of a program.
pub(crate) trait Host {
    /// Value of a 64-bit load that references something outside: the kind, and both immediates.
    fn name(&mut self, memory: &mut Memory, kind: u8, halves: [i32; 2]) -> Step<u64>;

    /// Calls a helper or a kfunc; the index of the instruction also identifies a kfunc.
    fn call(&mut self, memory: &mut Memory, insn: Insn, arguments: &Arguments) -> Step<Answer>;

    /// Packet bytes in network order, as classic BPF reads them; `None` beyond the end.
    fn packet(&self, memory: &Memory, offset: u64, size: usize) -> Step<Option<u64>>;
}

/// Runs a program with the address of its context in r1.
pub(crate) fn run(
    code: &Code,
    memory: &mut Memory,
    host: &mut dyn Host,
    context: u64,
) -> Result<Ended, Fault> {
    let stack = memory.enter(0);
    let mut machine = Machine {
        code,
        memory,
        host,
        context,
        registers: [None; 11],
        frames: vec![],
        counts: vec![0; code.insns.len()],
        index: 0,
    };
    machine.registers[1] = Some(context);
    machine.registers[10] = Some(stack);
    let result = machine.run().map_err(|reason| Fault { index: machine.index, reason })?;
    let Machine { counts, .. } = machine;
    Ok(Ended { result, counts, writes: std::mem::take(&mut memory.writes) })
}

/// State restored by a return.
struct Frame {
    return_to: usize,
    saved: [Option<u64>; 5],
    turns: Option<Turns>,
}

/// State of a `bpf_loop` or a map iteration.
struct Turns {
    next: u64,
    all: u64,
    callback: usize,
    context: u64,
    /// Map, key and value of each iteration over a map.
    elements: Vec<[u64; 3]>,
}

struct Machine<'a> {
    code: &'a Code,
    memory: &'a mut Memory,
    host: &'a mut dyn Host,
    context: u64,
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
        Err("it is endless, or runs more than 10,000,000 instructions".into())
    }

    fn get(&self, register: u8) -> Step<u64> {
        let value = self.registers.get(usize::from(register)).ok_or("no such register")?;
        value.ok_or_else(|| format!("r{register}, which was never set").into())
    }

    fn set(&mut self, register: u8, value: u64) -> Step<()> {
        match register {
            0..10 => self.registers[usize::from(register)] = Some(value),
            _ => return Err("a register that cannot be written".into()),
        }
        Ok(())
    }

    /// Value of the second operand.
    fn operand(&self, insn: Insn) -> Step<u64> {
        match insn.opcode & op::X {
            0 => Ok(i64::from(insn.immediate) as u64),
            _ => self.get(insn.src()),
        }
    }

    fn address(&self, register: u8, insn: Insn) -> Step<u64> {
        Ok(self.get(register)?.wrapping_add_signed(i64::from(insn.offset)))
    }

    /// Executes one instruction; returns the result if it ends the program.
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
                    _ => return Err("an unknown mode".into()),
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
        if let op::LOAD_ACQUIRE | op::STORE_RELEASE = insn.immediate {
            return self.ordered(insn, size);
        }
        let address = self.address(insn.dst(), insn)?;
        let (old, operand) = (self.memory.read(address, size)?, self.get(insn.src())?);
        if insn.immediate == op::CMPXCHG {
            let mask = if size == 8 { u64::MAX } else { u64::from(u32::MAX) };
            if self.get(0)? & mask == old {
                self.memory.write(address, size, operand)?;
            }
            return self.set(0, old);
        }
        let new = match u8::try_from(insn.immediate & !op::FETCH) {
            Ok(op::ADD) => old.wrapping_add(operand),
            Ok(op::OR) => old | operand,
            Ok(op::AND) => old & operand,
            Ok(op::XOR) => old ^ operand,
            _ if insn.immediate == op::XCHG => operand,
            _ => return Err("an unknown atomic operation".into()),
        };
        self.memory.write(address, size, new)?;
        match insn.immediate & op::FETCH {
            0 => Ok(()),
            _ => self.set(insn.src(), old),
        }
    }

    fn ordered(&mut self, insn: Insn, size: usize) -> Step<()> {
        if insn.immediate == op::LOAD_ACQUIRE {
            let value = self.memory.read(self.address(insn.src(), insn)?, size)?;
            return self.set(insn.dst(), value);
        }
        let value = self.get(insn.src())?;
        self.memory.write(self.address(insn.dst(), insn)?, size, value)
    }

    fn load(&mut self, insn: Insn, size: usize) -> Step<Option<u64>> {
        let offset = match insn.opcode & op::MODE {
            op::IMM => {
                self.load_double(insn)?;
                return Ok(None);
            }
            op::ABS => 0,
            op::IND => self.get(insn.src())?,
            _ => return Err("an unknown mode".into()),
        };
        if self.get(6)? != self.context {
            return Err("a packet load without the context in r6".into());
        }
        let offset = offset.wrapping_add_signed(i64::from(insn.immediate));
        self.registers[ARGUMENTS].fill(None);
        match self.host.packet(self.memory, offset, size)? {
            Some(value) => {
                self.registers[0] = Some(value);
                self.index += 1;
                Ok(None)
            }
            None => self.leave(Some(0)),
        }
    }

    fn load_double(&mut self, insn: Insn) -> Step<()> {
        let high = self.code.insns.get(self.index + 1).ok_or("half a load")?.immediate;
        let value = match insn.src() {
            0 => u64::from(insn.immediate as u32) | u64::from(high as u32) << 32,
            op::PSEUDO_FUNC => {
                let target = self.index as i64 + 1 + i64::from(insn.immediate);
                FUNCTIONS + u64::try_from(target).map_err(|_| "an unknown function")?
            }
            kind => self.host.name(self.memory, kind, [insn.immediate, high])?,
        };
        self.index += 2;
        self.set(insn.dst(), value)
    }

    fn jump(&mut self, insn: Insn) -> Step<Option<u64>> {
        let distance = match insn.opcode {
            op::CALL => return self.call(insn),
            op::EXIT => {
                return self.leave(self.registers[0]);
            }
            op::JA => i64::from(insn.offset),
            op::JA32 => i64::from(insn.immediate),
            // The budget never runs out.
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
            (0, HELPER_LOOP) => {
                let context = self.get(3)?;
                let all = self.get(1)?;
                let callback = self.get(2)?;
                return self.walk(callback, all, vec![], context).map(|()| None);
            }
            _ => {}
        }
        let mut arguments = Arguments([None; 5]);
        arguments.0.copy_from_slice(&self.registers[ARGUMENTS]);
        let answer = self.host.call(self.memory, insn, &arguments)?;
        self.returned(None);
        match answer {
            Answer::Value(value) => self.registers[0] = Some(value),
            Answer::Unknown => {}
            Answer::Leave(result) => return self.leave(Some(result)),
            Answer::End(result) => return Ok(Some(result)),
            Answer::ForEach { callback, elements, context } => {
                let all = elements.len() as u64;
                return self.walk(callback, all, elements, context).map(|()| None);
            }
        }
        self.index += 1;
        Ok(None)
    }

    /// Sets the registers as after a call.
    fn returned(&mut self, result: Option<u64>) {
        self.registers[ARGUMENTS].fill(None);
        self.registers[0] = result;
    }

    /// Calls a function of the program repeatedly.
    fn walk(&mut self, callback: u64, all: u64, elements: Vec<[u64; 3]>, context: u64) -> Step<()> {
        if all == 0 {
            self.returned(Some(0));
            self.index += 1;
            return Ok(());
        }
        let callback = callback.checked_sub(FUNCTIONS).ok_or("no callback")? as usize;
        let turns = Turns { next: 0, all, callback, context, elements };
        self.turn(self.index + 1, turns)
    }

    /// Starts one callback.
    fn turn(&mut self, return_to: usize, mut turns: Turns) -> Step<()> {
        let element = usize::try_from(turns.next).ok().and_then(|at| turns.elements.get(at));
        let arguments = match element {
            Some(&[map, key, value]) => [map, key, value, turns.context].map(Some).to_vec(),
            None => vec![Some(turns.next), Some(turns.context)],
        };
        turns.next += 1;
        self.index = turns.callback;
        self.enter(return_to, Some(turns))?;
        self.registers[1..=arguments.len()].copy_from_slice(&arguments);
        Ok(())
    }

    fn enter(&mut self, return_to: usize, turns: Option<Turns>) -> Step<()> {
        let mut saved = [None; 5];
        saved.copy_from_slice(&self.registers[SAVED]);
        self.frames.push(Frame { return_to, saved, turns });
        if self.frames.len() >= FRAMES_MAX {
            return Err("too many frames".into());
        }
        self.registers.fill(None);
        self.registers[10] = Some(self.memory.enter(self.frames.len()));
        Ok(())
    }

    /// Returns from a function; yields the result if it was the entry. Subprograms need no result unless it is read.
    fn leave(&mut self, result: Option<u64>) -> Step<Option<u64>> {
        let unset = "the end of a function without a result";
        let Some(frame) = self.frames.pop() else { return result.ok_or(unset.into()).map(Some) };
        self.registers.fill(None);
        self.registers[SAVED].copy_from_slice(&frame.saved);
        self.index = frame.return_to;
        self.registers[0] = match frame.turns {
            None => result,
            Some(turns) => match result.ok_or(unset)? {
                0 if turns.next < turns.all => {
                    return self.turn(frame.return_to, turns).map(|()| None);
                }
                0 | 1 => Some(turns.next),
                _ => return Err("a callback may return 0 or 1 only".into()),
            },
        };
        Ok(None)
    }
}
