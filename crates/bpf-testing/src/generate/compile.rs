//! Compiles statements to bytecode.

use proptest::sample::Index;
use wingbeat_bpf_loader::code::{Code, Insn, Registers, op};

use super::{Condition, Entry, Function, Kind, Operand, Program, Statement, Turns};
use crate::{
    assemble::{Assembler, Label, load, store, store_immediate},
    model::{HELPER_LOOP, HELPER_SKB_LOAD_BYTES, KFUNC_THROW},
};

/// 8-byte slots for the statements' data.
const SLOTS: u8 = 5;
/// Nesting depth of loops with a counter on the stack; deeper loops run their bodies once.
const STACK_TURNS: u8 = 3;

pub(super) fn compile(program: &Program) -> Code {
    let mut assembler = Assembler::default();
    let labels: Vec<Label> = program.functions.iter().map(|_| assembler.label()).collect();
    let reached = reached(program);
    for (number, function) in program.functions.iter().enumerate() {
        if reached[number] {
            assembler.bind(labels[number]).function(&format!("function_{number}"));
            Compiler::new(program, number, &labels, &mut assembler).function(function);
        } else {
            // The label is unused.
            assembler.bind(labels[number]);
        }
    }
    assembler.finish()
}

/// A loop being compiled.
struct Open {
    /// Target of `break`, and whether it was used.
    out: (Label, bool),
    /// Target of `continue`, and whether it was used.
    on: (Label, bool),
}

struct Compiler<'a> {
    program: &'a Program,
    number: usize,
    labels: &'a [Label],
    out: &'a mut Assembler,
    set: Registers,
    /// Registers used as loop counters.
    reserved: Registers,
    stack_turns: u8,
    loops: Vec<Open>,
}

impl<'a> Compiler<'a> {
    fn new(
        program: &'a Program,
        number: usize,
        labels: &'a [Label],
        out: &'a mut Assembler,
    ) -> Self {
        let (set, reserved) = (Registers::NONE, Registers::NONE);
        Self { program, number, labels, out, set, reserved, stack_turns: 0, loops: Vec::new() }
    }

    fn function(&mut self, function: &Function) {
        self.line();
        for slot in 0..SLOTS {
            self.out.emit(store_immediate(op::DW, 10, offset(slot), i32::from(slot) * 77));
        }
        match function.kind {
            Kind::Entry => self.enter_program(),
            Kind::Called => self.set = Registers::ARGUMENTS,
            Kind::Callback => {
                // The caller's first slot, to which the context points.
                self.out.emit(load(op::DW, 3, 2, 0)).add_register(3, 1);
                self.out.emit(store(op::DW, 2, 0, 3));
                self.set = [1, 3].into_iter().collect();
            }
        }
        if self.program.is_crowded {
            (0..10).for_each(|register| _ = self.readable(register));
        }
        if self.statements(&function.body) {
            self.leave();
        }
    }

    /// Fills the slots with values that the verifier does not know.
    fn enter_program(&mut self) {
        let bytes = 16;
        match self.program.entry {
            Entry::SocketFilter | Entry::Model => {
                self.out.copy(6, 1).mov(2, 0).copy(3, 10).add(3, i32::from(offset(1)));
                self.out.mov(4, bytes).call(HELPER_SKB_LOAD_BYTES);
                if self.has_packet_loads() {
                    self.out.emit(Insn::new(op::LD | op::ABS | op::W, 0, 0, 0, 4));
                    self.out.copy(7, 0).alu_immediate(op::AND, 7, 31);
                    self.out.emit(Insn::new(op::LD | op::IND | op::H, 0, 7, 0, 2));
                    self.reserved = Registers::one(6);
                } else {
                    self.out.emit(load(op::W, 0, 6, 0));
                }
                self.set = Registers::one(0);
            }
            Entry::Xdp => {
                let short = self.out.label();
                self.out.emit(load(op::W, 2, 1, 0)).emit(load(op::W, 3, 1, 4));
                self.out.copy(4, 2).add(4, bytes);
                self.out.jump(Insn::new(op::JMP | op::JGT | op::X, 4, 3, 0, 0), short);
                for slot in 0..2 {
                    self.out.emit(load(op::DW, 5, 2, 8 * i16::from(slot)));
                    self.out.emit(store(op::DW, 10, offset(slot), 5));
                }
                self.out.bind(short).alu(op::SUB, 3, 2);
                self.out.emit(store(op::DW, 10, offset(2), 3));
            }
        }
    }

    /// The kernel allows packet loads only in programs of one function, unless it has BTF for them.
    fn has_packet_loads(&self) -> bool {
        self.program.entry != Entry::Xdp
            && reached(self.program).iter().filter(|&&it| it).count() == 1
    }

    /// Combines the function's values into its result.
    fn leave(&mut self) {
        self.line();
        if !self.set.has(0) {
            self.out.mov(0, 0);
        }
        for register in self.set.without(self.reserved).without(Registers::RESULT).iter() {
            self.out.alu_immediate(op::MUL, 0, 31).add_register(0, register);
        }
        for slot in 0..SLOTS {
            self.out.emit(load(op::DW, 1, 10, offset(slot)));
            self.out.alu_immediate(op::MUL, 0, 31).add_register(0, 1);
        }
        self.result(0);
    }

    /// Returns the value of a register.
    fn result(&mut self, register: u8) {
        if register != 0 {
            self.out.copy(0, register);
        }
        match self.program.functions[self.number].kind {
            Kind::Entry => {
                self.out.copy(1, 0).alu_immediate(op::RSH, 1, 32).alu(op::XOR, 0, 1);
                self.out.emit(Insn::new(op::ALU | op::MOV | op::X, 0, 0, 0, 0));
            }
            Kind::Called => {}
            Kind::Callback => _ = self.out.alu_immediate(op::AND, 0, 1),
        }
        self.out.exit();
    }

    /// Compiles statements; returns whether control reaches their end.
    fn statements(&mut self, statements: &[Statement]) -> bool {
        statements.iter().all(|statement| self.statement(statement))
    }

    /// Starts the next source line.
    fn line(&mut self) {
        let number = self.out.lines() as u32 + 1;
        self.out.line(number);
    }

    fn statement(&mut self, statement: &Statement) -> bool {
        self.line();
        match statement {
            &Statement::Compute { operation, is_wide, dst, operand } => {
                self.compute(operation, is_wide, dst, operand);
            }
            &Statement::Extend { dst, src, bits } => {
                let (dst, src) = (self.writable(dst), self.readable(src));
                self.extend(dst, src, bits);
                self.mark(dst);
            }
            &Statement::Swap { dst, class, is_big, bits } => {
                let dst = self.writable(dst);
                let dst = self.readable(dst);
                let class = if self.program.has_version_4 { class } else { op::ALU };
                let order = if is_big && class == op::ALU { op::X } else { 0 };
                self.out.emit(Insn::new(class | op::END | order, dst, 0, 0, bits));
            }
            &Statement::Double { dst, low, high } => {
                let dst = self.writable(dst);
                self.out.load_double(dst, 0, low, high);
                self.mark(dst);
            }
            &Statement::Store { slot, size, operand: Operand::Immediate(value) } => {
                self.out.emit(store_immediate(size, 10, offset(slot % SLOTS), value));
            }
            &Statement::Store { slot, size, operand: Operand::Register(src) } => {
                let src = self.readable(src);
                self.out.emit(store(size, 10, offset(slot % SLOTS), src));
            }
            &Statement::Load { dst, slot, size, is_signed } => {
                self.load(dst, slot % SLOTS, size, is_signed);
            }
            &Statement::Atomic { slot, operation, src, is_wide } => {
                self.atomic(slot % SLOTS, operation, src, is_wide);
            }
            Statement::If { condition, then, otherwise } => {
                return self.branch(condition, then, otherwise);
            }
            Statement::Repeat { turns, counted_in, tested_first, body } => {
                return self.repeat(*turns, *counted_in, *tested_first, body);
            }
            Statement::Break(condition) => self.go_out(condition, |open| &mut open.out),
            Statement::Continue(condition) => self.go_out(condition, |open| &mut open.on),
            Statement::Call { function, arguments } => {
                let callee = callee(self.program, self.number, function, Kind::Called);
                callee.inspect(|&callee| self.call(callee, arguments));
            }
            Statement::Loop { function, turns } => {
                let callee = callee(self.program, self.number, function, Kind::Callback);
                callee.inspect(|&callee| self.call_loop(callee, *turns));
            }
            Statement::Return(operand) => {
                let register = self.in_register(*operand);
                self.result(register);
                return false;
            }
            &Statement::Escape { kind, operand } => self.escape(kind, operand),
        }
        true
    }

    fn load(&mut self, dst: u8, slot: u8, size: u8, is_signed: bool) {
        let dst = self.writable(dst);
        let is_signed = is_signed && size != op::DW && self.program.has_version_4;
        let mode = if is_signed { op::MEMSX } else { op::MEM };
        self.out.emit(Insn::new(op::LDX | mode | size, dst, 10, offset(slot), 0));
        self.mark(dst);
    }

    /// Jumps out of the innermost loop, if there is one.
    fn go_out(&mut self, condition: &Condition, way: fn(&mut Open) -> &mut (Label, bool)) {
        if let Some(open) = self.loops.last_mut() {
            let (label, is_used) = way(open);
            *is_used = true;
            let label = *label;
            self.jump_if(condition, label);
        }
    }

    /// The register, or another one if it is reserved.
    fn writable(&self, register: u8) -> u8 {
        if self.reserved.has(register) { register % 6 } else { register }
    }

    /// The register, initialized with a number.
    fn readable(&mut self, register: u8) -> u8 {
        // The context is a pointer, not a number.
        let register =
            if self.reserved.has(register) && !self.set.has(register) { 0 } else { register };
        if !self.set.has(register) {
            self.out.emit(load(op::DW, register, 10, offset(register % SLOTS)));
            self.mark(register);
        }
        register
    }

    /// The register of an operand; immediates are loaded into one.
    fn in_register(&mut self, operand: Operand) -> u8 {
        match operand {
            Operand::Register(register) => self.readable(register),
            Operand::Immediate(value) => {
                self.out.mov(0, value);
                self.mark(0);
                0
            }
        }
    }

    fn mark(&mut self, register: u8) {
        self.set = self.set.or(Registers::one(register));
    }

    /// Sign-extends the lowest bits.
    fn extend(&mut self, dst: u8, src: u8, bits: i16) {
        if self.program.has_version_4 {
            self.out.emit(Insn::new(op::ALU64 | op::MOV | op::X, dst, src, bits, 0));
        } else {
            let above = 64 - i32::from(bits);
            self.out.copy(dst, src);
            self.out.alu_immediate(op::LSH, dst, above).alu_immediate(op::ARSH, dst, above);
        }
    }

    fn compute(&mut self, operation: u8, is_wide: bool, dst: u8, operand: Operand) {
        let class = if is_wide { op::ALU64 } else { op::ALU };
        let mut dst = self.writable(dst);
        if operation != op::MOV {
            dst = self.readable(dst);
        }
        let insn = match operand {
            _ if operation == op::NEG => Insn::new(class | operation, dst, 0, 0, 0),
            Operand::Register(src) => {
                let src = self.readable(src);
                Insn::new(class | operation | op::X, dst, src, 0, 0)
            }
            Operand::Immediate(value) => {
                let value = match operation {
                    op::LSH | op::RSH | op::ARSH => value & 31,
                    op::DIV | op::MOD => value | 1,
                    _ => value,
                };
                Insn::new(class | operation, dst, 0, 0, value)
            }
        };
        self.out.emit(insn);
        self.mark(dst);
    }

    fn atomic(&mut self, slot: u8, operation: i32, src: u8, is_wide: bool) {
        let size = if is_wide { op::DW } else { op::W };
        // A fetch overwrites the source.
        let src = self.writable(src);
        let src = self.readable(src);
        if operation == op::CMPXCHG {
            self.readable(0);
        }
        self.out.emit(Insn::new(op::STX | op::ATOMIC | size, 10, src, offset(slot), operation));
    }

    fn jump_if(&mut self, condition: &Condition, to: Label) {
        let class = if condition.is_wide { op::JMP } else { op::JMP32 };
        let left = self.readable(condition.left);
        let insn = match condition.right {
            Operand::Register(right) => {
                let right = self.readable(right);
                Insn::new(class | condition.operation | op::X, left, right, 0, 0)
            }
            Operand::Immediate(value) => Insn::new(class | condition.operation, left, 0, 0, value),
        };
        self.out.jump(insn, to);
    }

    fn goto(&mut self, to: Label) {
        match self.program.has_long_jumps {
            true => self.out.goto_long(to),
            false => self.out.goto(to),
        };
    }

    fn branch(
        &mut self,
        condition: &Condition,
        then: &[Statement],
        otherwise: &[Statement],
    ) -> bool {
        let (other, join) = (self.out.label(), self.out.label());
        self.jump_if(condition, other);
        let before = self.set;
        let goes_on = self.statements(then);
        let after_then = std::mem::replace(&mut self.set, before);
        // Otherwise the jump would target the next instruction, which compilers never emit.
        if goes_on && !otherwise.is_empty() {
            self.goto(join);
        }
        self.out.bind(other);
        let other_goes_on = self.statements(otherwise);
        self.out.bind(join);
        self.set = match (goes_on, other_goes_on) {
            (true, true) => self.set.and(after_then),
            (true, false) => after_then,
            _ => self.set,
        };
        goes_on || other_goes_on
    }

    fn repeat(
        &mut self,
        turns: i32,
        counted_in: Turns,
        tested_first: bool,
        body: &[Statement],
    ) -> bool {
        let (top, on, end) = (self.out.label(), self.out.label(), self.out.label());
        let register = match counted_in {
            Turns::Register(register) if !self.reserved.has(register) => Some(register),
            _ => None,
        };
        if register.is_none() && self.stack_turns == STACK_TURNS {
            return true;
        }
        let place = offset(SLOTS + self.stack_turns);
        self.out.emit(match register {
            Some(register) => Insn::new(op::ALU64 | op::MOV, register, 0, 0, turns),
            None => store_immediate(op::DW, 10, place, turns),
        });
        let reserved = self.reserved;
        // Initialized on every path to the top.
        self.set = self.set.without(Registers::RESULT);
        if calls(body) {
            self.set = self.set.without(Registers::CALLER_SAVED);
        }
        match register {
            Some(register) => {
                self.mark(register);
                self.reserved = self.reserved.or(Registers::one(register));
            }
            None => self.stack_turns += 1,
        }
        let at_top = self.set;
        self.out.bind(top);
        if tested_first {
            self.count_down(register, place);
            self.out.branch(op::JSLT, register.unwrap_or(0), 0, end);
        }
        self.loops.push(Open { out: (end, false), on: (on, false) });
        let goes_on = self.statements(body);
        let open = self.loops.pop();
        let has = |way: fn(&Open) -> bool| open.as_ref().is_some_and(way);
        let turns_around = goes_on || has(|open| open.on.1);
        self.out.bind(on);
        self.set = at_top;
        if turns_around && tested_first {
            self.goto(top);
        } else if turns_around {
            self.count_down(register, place);
            self.out.branch(op::JNE, register.unwrap_or(0), 0, top);
        }
        self.out.bind(end);
        self.reserved = reserved;
        self.stack_turns -= u8::from(register.is_none());
        turns_around || tested_first || has(|open| open.out.1)
    }

    fn count_down(&mut self, register: Option<u8>, place: i16) {
        match register {
            Some(register) => _ = self.out.add(register, -1),
            None => {
                self.out.emit(load(op::DW, 0, 10, place)).add(0, -1);
                self.out.emit(store(op::DW, 10, place, 0));
            }
        }
    }

    fn call(&mut self, callee: usize, arguments: &[Operand; 5]) {
        for (register, &operand) in (1..).zip(arguments) {
            match operand {
                Operand::Register(src) => {
                    let src = self.readable(src);
                    self.out.copy(register, src);
                }
                Operand::Immediate(value) => _ = self.out.mov(register, value),
            }
            self.mark(register);
        }
        self.out.call_function(self.labels[callee]);
        self.after_call();
    }

    fn call_loop(&mut self, callee: usize, turns: i32) {
        self.out.mov(1, turns).load_function(2, self.labels[callee]).copy(3, 10);
        self.out.add(3, i32::from(offset(0))).mov(4, 0).call(HELPER_LOOP);
        self.after_call();
    }

    fn after_call(&mut self) {
        self.set = self.set.without(Registers::CALLER_SAVED).or(Registers::RESULT);
    }

    fn escape(&mut self, kind: u8, operand: Operand) {
        let value = self.in_register(operand);
        let is_entry = self.number == 0;
        match kind {
            0 if is_entry && self.has_packet_loads() => {
                let index = if value == 6 { 0 } else { value };
                self.out.copy(0, index).alu_immediate(op::AND, 0, 63);
                self.out.emit(Insn::new(op::LD | op::IND | op::B, 0, 0, 0, 2));
            }
            1 if self.program.entry == Entry::Model => {
                self.out.copy(1, value).call_kfunc(KFUNC_THROW);
            }
            2 if self.program.entry == Entry::Model => {
                self.out.copy(3, value).mov(1, 0).mov(2, 0).call(op::HELPER_TAIL_CALL);
            }
            _ => return,
        }
        self.after_call();
    }
}

/// Offset of a slot from the frame pointer.
fn offset(slot: u8) -> i16 {
    -8 * (i16::from(slot) + 1)
}

/// The verifier rejects functions that are never called.
pub(super) fn reached(program: &Program) -> Vec<bool> {
    let mut reached = vec![false; program.functions.len()];
    reached[0] = true;
    for number in 0..program.functions.len() {
        if reached[number] {
            mark(program, number, &program.functions[number].body, &mut reached);
        }
    }
    reached
}

fn mark(program: &Program, number: usize, body: &[Statement], reached: &mut [bool]) {
    for statement in body {
        match statement {
            Statement::If { then, otherwise, .. } => {
                mark(program, number, then, reached);
                mark(program, number, otherwise, reached);
            }
            Statement::Repeat { body, .. } => mark(program, number, body, reached),
            Statement::Call { function, .. } => {
                let callee = callee(program, number, function, Kind::Called);
                callee.into_iter().for_each(|it| reached[it] = true);
            }
            Statement::Loop { function, .. } => {
                let callee = callee(program, number, function, Kind::Callback);
                callee.into_iter().for_each(|it| reached[it] = true);
            }
            _ => {}
        }
    }
}

/// A later function of a kind. Callbacks call nothing, because nested loops take the verifier long.
pub(super) fn callee(program: &Program, number: usize, index: &Index, kind: Kind) -> Option<usize> {
    if program.functions[number].kind == Kind::Callback {
        return None;
    }
    let later = number + 1..program.functions.len();
    let candidates: Vec<usize> = later.filter(|&it| program.functions[it].kind == kind).collect();
    (!candidates.is_empty()).then(|| candidates[index.index(candidates.len())])
}

/// Whether these statements may clobber registers.
pub(super) fn calls(statements: &[Statement]) -> bool {
    statements.iter().any(|statement| match statement {
        Statement::Call { .. } | Statement::Loop { .. } | Statement::Escape { .. } => true,
        Statement::If { then, otherwise, .. } => calls(then) || calls(otherwise),
        Statement::Repeat { body, .. } => calls(body),
        _ => false,
    })
}
