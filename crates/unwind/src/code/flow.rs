//! Follows the control flow of a function, and derives the state before each of its instructions.
//!
//! The returns are the proof. A return finds its address on top of the stack, or the program would crash. So if
//! all paths from an assumed start lead to returns with the original stack, and agree wherever they meet, the
//! assumption was right. After one contradiction, all results are discarded.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpKind,
    Register,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::code::state::{Contradiction, State};

/// Code at an address.
#[derive(Debug)]
pub(super) struct CodePart {
    pub(super) start: u64,
    pub(super) bytes: Vec<u8>,
}

impl CodePart {
    pub(super) fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes.len() as u64)
    }
}

/// A file's code without call frame information.
pub(super) struct Code<'a> {
    /// By address, not overlapping.
    pub(super) parts: Vec<CodePart>,
    /// Reads bytes at an address, of code or other data.
    pub(super) read: &'a dyn Fn(u64, u64) -> Option<Vec<u8>>,
}

impl Code<'_> {
    pub(super) fn has(&self, address: u64) -> bool {
        self.at(address).is_some()
    }

    /// The bytes from an address to the end of its part.
    pub(super) fn at(&self, address: u64) -> Option<&[u8]> {
        let after = self.parts.partition_point(|part| part.start <= address);
        let part = self.parts.get(after.checked_sub(1)?)?;
        let skipped = usize::try_from(address - part.start).ok()?;
        part.bytes.get(skipped..).filter(|bytes| !bytes.is_empty())
    }

    pub(super) fn instruction(&self, address: u64) -> Option<Instruction> {
        let bytes = self.at(address)?;
        let bytes = &bytes[..bytes.len().min(INSTRUCTION_BYTES_MAX)];
        let found = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).decode();
        (!found.is_invalid()).then_some(found)
    }
}

const INSTRUCTION_BYTES_MAX: usize = 15;
/// Maximum instructions to search for a return.
const CALLEE_INSTRUCTIONS_MAX: usize = 256;
/// Compilers align functions and loops.
pub(super) const ALIGNMENT: u64 = 16;

/// State of an instruction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Visit {
    pub(super) state: State,
    pub(super) bytes: u64,
}

/// A function followed without a contradiction.
#[derive(Debug, Default)]
pub(super) struct Explored {
    pub(super) visits: FxHashMap<u64, Visit>,
    /// Contains a return, or reaches code with one.
    pub(super) has_return: bool,
    /// Call targets, and code addresses used otherwise.
    pub(super) called: Vec<u64>,
    pub(super) taken: Vec<u64>,
}

/// State shared by explorations.
pub(super) struct Explorer<'a> {
    pub(super) code: &'a Code<'a>,
    /// Apparent function starts. A call directly before one does not continue there.
    pub(super) beginnings: FxHashSet<u64>,
    /// Addresses with rules of their own.
    pub(super) stubs: FxHashSet<u64>,
    /// Visits of accepted functions.
    pub(super) known: FxHashMap<u64, Visit>,
    /// Whether functions have a return.
    pub(super) returning: FxHashMap<u64, bool>,
    pub(super) factory: InstructionInfoFactory,
    /// Remaining instructions to decode.
    pub(super) budget: u64,
}

/// An exploration in progress.
#[derive(Clone, Default)]
struct Exploration {
    visits: FxHashMap<u64, Visit>,
    /// Predecessor from which an instruction was first reached.
    before: FxHashMap<u64, u64>,
    to_do: Vec<(u64, State)>,
    /// Code after calls that may not return.
    doubtful: Vec<(u64, State)>,
    has_return: bool,
    called: Vec<u64>,
    taken: Vec<u64>,
}

impl Explorer<'_> {
    /// Follows a function from its start.
    pub(super) fn explore(&mut self, start: u64) -> Option<Explored> {
        let mut exploration =
            Exploration { to_do: vec![(start, State::ENTRY)], ..Exploration::default() };
        self.follow(&mut exploration, start, &FxHashMap::default()).ok()?;
        // Code after a call that does not return is not part of the function. It is if it leads to a return, or
        // back to code that is part.
        while let Some((address, state)) = exploration.doubtful.pop() {
            let mut further = exploration.clone();
            self.spend(exploration.visits.len() as u64).ok()?;
            further.to_do.push((address, state));
            further.has_return = false;
            if self.follow(&mut further, start, &exploration.visits).is_ok() && further.has_return {
                exploration = further;
            }
        }
        let Exploration { visits, has_return, called, taken, .. } = exploration;
        Some(Explored { visits, has_return, called, taken })
    }

    fn spend(&mut self, instructions: u64) -> Result<(), Contradiction> {
        self.budget = self.budget.checked_sub(instructions).ok_or(Contradiction)?;
        Ok(())
    }

    /// Processes the work list. Reaching a `proven` address counts as a return.
    fn follow(
        &mut self,
        exploration: &mut Exploration,
        start: u64,
        proven: &FxHashMap<u64, Visit>,
    ) -> Result<(), Contradiction> {
        while let Some((address, state)) = exploration.to_do.pop() {
            self.spend(1)?;
            if !state.is_known() || self.stubs.contains(&address) {
                continue;
            }
            if !self.code.has(address) {
                // A tail call to another function.
                exploration.has_return |= state.can_return();
                if state.can_return() { continue } else { return Err(Contradiction) }
            }
            if address != start && self.beginnings.contains(&address) && state.can_return() {
                continue;
            }
            let before = exploration.visits.get(&address).or_else(|| self.known.get(&address));
            let mut state = state;
            if let Some(before) = before {
                state = before.state.meet(&state)?;
                exploration.has_return |=
                    self.known.contains_key(&address) || proven.contains_key(&address);
                if state == before.state {
                    continue;
                }
                if !exploration.visits.contains_key(&address) || !state.is_known() {
                    return Err(Contradiction);
                }
            }
            let instruction = self.code.instruction(address).ok_or(Contradiction)?;
            exploration.visits.insert(address, Visit { state, bytes: instruction.len() as u64 });
            self.add_successors(exploration, &instruction, state)?;
        }
        Ok(())
    }

    /// Determines the successors of an instruction.
    fn add_successors(
        &mut self,
        exploration: &mut Exploration,
        instruction: &Instruction,
        state: State,
    ) -> Result<(), Contradiction> {
        self.note_addresses(exploration, instruction);
        let (next_ip, target) = (instruction.next_ip(), instruction.near_branch_target());
        let is_conditional = match instruction.flow_control() {
            FlowControl::Return => {
                let is_return = instruction.mnemonic() == Mnemonic::Ret;
                exploration.has_return |= is_return;
                if is_return && !state.can_return() {
                    return Err(Contradiction);
                }
                return Ok(());
            }
            FlowControl::Interrupt | FlowControl::Exception => return Ok(()),
            _ if instruction.mnemonic() == Mnemonic::Hlt => return Ok(()),
            FlowControl::IndirectBranch => return self.branch(exploration, instruction, state),
            FlowControl::UnconditionalBranch => {
                exploration.push(instruction.ip(), target, state);
                return Ok(());
            }
            FlowControl::ConditionalBranch => true,
            // A call to the next instruction reads its own address, and is not a call.
            FlowControl::Call if instruction.is_call_near() && target == next_ip => {
                return Err(Contradiction);
            }
            _ => false,
        };
        let is_call = instruction.is_call_near() || instruction.is_call_near_indirect();
        let after = state.after(instruction, &mut self.factory)?;
        if is_conditional {
            exploration.push(instruction.ip(), target, after);
        }
        if is_call && self.looks_like_end(next_ip) && !self.returns(instruction)? {
            if !self.beginnings.contains(&next_ip) && self.code.has(next_ip) {
                exploration.doubtful.push((next_ip, after));
            }
            return Ok(());
        }
        exploration.push(instruction.ip(), next_ip, after);
        Ok(())
    }

    /// Whether the target of a call has a return. If so, the call returns.
    fn returns(&mut self, call: &Instruction) -> Result<bool, Contradiction> {
        if !call.is_call_near() {
            return Ok(false);
        }
        let target = call.near_branch_target();
        if let Some(returns) = self.returning.get(&target) {
            return Ok(*returns);
        }
        let returns = self.has_return(target)?;
        self.returning.insert(target, returns);
        Ok(returns)
    }

    /// Whether a function has a return.
    fn has_return(&mut self, target: u64) -> Result<bool, Contradiction> {
        let (mut to_do, mut seen) = (vec![target], FxHashSet::default());
        while let Some(address) = to_do.pop() {
            if seen.len() == CALLEE_INSTRUCTIONS_MAX || !seen.insert(address) {
                continue;
            }
            self.spend(1)?;
            let Some(instruction) = self.code.instruction(address) else { continue };
            let next_ip = instruction.next_ip();
            match instruction.flow_control() {
                FlowControl::Return => return Ok(true),
                FlowControl::UnconditionalBranch => to_do.push(instruction.near_branch_target()),
                FlowControl::ConditionalBranch => {
                    to_do.extend([next_ip, instruction.near_branch_target()]);
                }
                FlowControl::IndirectBranch | FlowControl::Interrupt | FlowControl::Exception => {}
                // The target may be a function that does not return.
                FlowControl::Call if self.is_end(next_ip) => {}
                _ if instruction.mnemonic() == Mnemonic::Hlt => {}
                _ => to_do.push(next_ip),
            }
        }
        Ok(false)
    }

    /// Whether the address after a call may be another function.
    fn looks_like_end(&self, next_ip: u64) -> bool {
        next_ip.is_multiple_of(ALIGNMENT) || self.is_end(next_ip)
    }

    /// Whether another function, or padding before one, follows a call.
    fn is_end(&self, next_ip: u64) -> bool {
        let is_padding = |instruction: Instruction| {
            matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3)
        };
        self.beginnings.contains(&next_ip) || self.code.instruction(next_ip).is_none_or(is_padding)
    }

    /// Handles a jump: through a jump table of the function, or to another function.
    fn branch(
        &mut self,
        exploration: &mut Exploration,
        instruction: &Instruction,
        state: State,
    ) -> Result<(), Contradiction> {
        self.spend(exploration.visits.len() as u64 / 8)?;
        let visited = Visited { visits: &exploration.visits, before: &exploration.before };
        for target in jump_targets(self.code, instruction, &visited).unwrap_or_default() {
            exploration.push(instruction.ip(), target, state);
        }
        Ok(())
    }

    fn note_addresses(&self, exploration: &mut Exploration, instruction: &Instruction) {
        if instruction.is_call_near() {
            exploration.called.push(instruction.near_branch_target());
        }
        exploration.taken.extend(taken(instruction).filter(|address| self.code.has(*address)));
    }
}

impl Exploration {
    fn push(&mut self, from: u64, address: u64, state: State) {
        self.before.entry(address).or_insert(from);
        self.to_do.push((address, state));
    }
}

/// The address that an instruction loads into a register, if it may be code.
pub(super) fn taken(instruction: &Instruction) -> Option<u64> {
    match instruction.mnemonic() {
        Mnemonic::Lea if instruction.is_ip_rel_memory_operand() => {
            Some(instruction.ip_rel_memory_address())
        }
        Mnemonic::Mov if matches!(instruction.op1_kind(), OpKind::Immediate32) => {
            Some(u64::from(instruction.immediate32()))
        }
        Mnemonic::Mov if matches!(instruction.op1_kind(), OpKind::Immediate32to64) => {
            u64::try_from(instruction.immediate32to64()).ok()
        }
        _ => None,
    }
}

// Jump tables of `switch` statements: reads the addresses for an indirect jump.
//
// Compilers check the case number with a comparison just before, which gives the length of the table. A misread
// table leads to contradictions, and so to no rules.

/// Instructions before the jump to examine.
const BEFORE_MAX: usize = 48;
const CASES_MAX: u64 = 4096;

/// The instructions of a function visited so far.
pub(super) struct Visited<'a> {
    pub(super) visits: &'a FxHashMap<u64, Visit>,
    /// Predecessor from which each was first reached.
    pub(super) before: &'a FxHashMap<u64, u64>,
}

/// Format of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JumpTable {
    /// 8-byte addresses, in programs at fixed addresses.
    Absolute(u64),
    /// 4-byte offsets from the table, whose address is in a register.
    Relative(Register),
}

/// The targets of a jump, if there is a table and all of them are code.
pub(super) fn jump_targets(
    code: &Code<'_>,
    jump: &Instruction,
    visited: &Visited<'_>,
) -> Option<Vec<u64>> {
    let mut table = (jump.op0_kind() == OpKind::Memory
        && jump.memory_base() == Register::None
        && jump.memory_index_scale() == 8)
        .then(|| JumpTable::Absolute(jump.memory_displacement64()));
    let (mut loaded, mut last) = (Vec::new(), None);
    let mut at = jump.ip();
    for _ in 0..BEFORE_MAX {
        at = *visited.before.get(&at)?;
        let instruction = code.instruction(at)?;
        match (instruction.mnemonic(), table) {
            (Mnemonic::Movsxd, None) if instruction.memory_index_scale() == 4 => {
                table = Some(JumpTable::Relative(instruction.memory_base()));
            }
            (Mnemonic::Mov, None) if instruction.memory_index_scale() == 8 => {
                let is_absolute = instruction.memory_base() == Register::None;
                table =
                    is_absolute.then(|| JumpTable::Absolute(instruction.memory_displacement64()));
            }
            (Mnemonic::Lea, _) if instruction.is_ip_rel_memory_operand() => {
                loaded.push((instruction.op0_register(), instruction.ip_rel_memory_address()));
            }
            (Mnemonic::Cmp, _) if last.is_none() => {
                last = instruction.try_immediate(1).ok().filter(|last| *last < CASES_MAX);
                last?;
            }
            _ => {}
        }
        if table.is_some() && last.is_some() {
            break;
        }
    }
    let (table, last) = (table?, last?);
    let start = match table {
        JumpTable::Absolute(start) => start,
        // The table's address may be loaded much earlier.
        JumpTable::Relative(base) => match loaded.iter().find(|(register, _)| *register == base) {
            Some((_, start)) => *start,
            None => only_address(code, base, visited)?,
        },
    };
    (0..=last).map(|number| jump_target(code, table, start, number)).collect()
}

fn jump_target(code: &Code<'_>, table: JumpTable, start: u64, number: u64) -> Option<u64> {
    let word = |bytes: u64| (code.read)(start.checked_add(number * bytes)?, bytes);
    let target = match table {
        JumpTable::Absolute(_) => u64::from_le_bytes(word(8)?.try_into().ok()?),
        JumpTable::Relative(_) => {
            let distance = i32::from_le_bytes(word(4)?.try_into().ok()?);
            start.wrapping_add_signed(distance.into())
        }
    };
    code.has(target).then_some(target)
}

/// The address that a function loads into a register, if there is only one: compilers load it before a loop.
fn only_address(code: &Code<'_>, register: Register, visited: &Visited<'_>) -> Option<u64> {
    let mut found = None;
    for at in visited.visits.keys() {
        let instruction = code.instruction(*at)?;
        if instruction.mnemonic() == Mnemonic::Lea
            && instruction.op0_register() == register
            && instruction.is_ip_rel_memory_operand()
        {
            let address = instruction.ip_rel_memory_address();
            if found.is_some_and(|found| found != address) {
                return None;
            }
            found = Some(address);
        }
    }
    found
}
