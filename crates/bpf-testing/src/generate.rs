//! Random programs that terminate, pass the verifier, and cover unusual code.
//!
//! They are generated as statements, so that loops are bounded and nothing is read before it is set. All registers hold
//! plain numbers; some come from the packet, so that the verifier cannot predict every branch. The result depends on
//! everything computed.

mod compile;

use proptest::prelude::*;
use wingbeat_bpf_loader::code::{Code, op};

/// Kind of program to generate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// A socket filter; uses legacy packet loads if it has no subprograms.
    SocketFilter,
    Xdp,
    /// Like a socket filter, with calls that may not return; for the interpreter only.
    Model,
}

/// A generated program.
#[derive(Debug, Clone)]
pub struct Program {
    entry: Entry,
    /// The entry, then functions, each of which calls later ones only.
    functions: Vec<Function>,
    /// Whether jumps are `gotol` where possible (Linux 6.6).
    has_long_jumps: bool,
    /// Whether functions start by filling all registers, which leaves few free.
    is_crowded: bool,
    /// Whether to use instructions of cpu v4 (Linux 6.6).
    has_version_4: bool,
}

#[derive(Debug, Clone)]
struct Function {
    kind: Kind,
    body: Vec<Statement>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Entry,
    Called,
    Callback,
}

/// A register, or an immediate.
#[derive(Debug, Clone, Copy)]
enum Operand {
    Register(u8),
    Immediate(i32),
}

#[derive(Debug, Clone, Copy)]
struct Condition {
    operation: u8,
    is_wide: bool,
    left: u8,
    right: Operand,
}

/// Storage of a loop counter.
#[derive(Debug, Clone, Copy)]
enum Turns {
    Register(u8),
    Stack,
}

#[derive(Debug, Clone)]
enum Statement {
    Compute {
        operation: u8,
        is_wide: bool,
        dst: u8,
        operand: Operand,
    },
    Extend {
        dst: u8,
        src: u8,
        bits: i16,
    },
    Swap {
        dst: u8,
        class: u8,
        is_big: bool,
        bits: i32,
    },
    Double {
        dst: u8,
        low: i32,
        high: i32,
    },
    Store {
        slot: u8,
        size: u8,
        operand: Operand,
    },
    Load {
        dst: u8,
        slot: u8,
        size: u8,
        is_signed: bool,
    },
    Atomic {
        slot: u8,
        operation: i32,
        src: u8,
        is_wide: bool,
    },
    If {
        condition: Condition,
        then: Vec<Statement>,
        otherwise: Vec<Statement>,
    },
    Repeat {
        turns: i32,
        counted_in: Turns,
        tested_first: bool,
        body: Vec<Statement>,
    },
    /// Exits the innermost loop.
    Break(Condition),
    /// Continues the innermost loop.
    Continue(Condition),
    Call {
        function: prop::sample::Index,
        arguments: [Operand; 5],
    },
    Loop {
        function: prop::sample::Index,
        turns: i32,
    },
    Return(Operand),
    /// A call that may not return, or a packet load that may be out of bounds.
    Escape {
        kind: u8,
        operand: Operand,
    },
}

impl Program {
    pub fn code(&self) -> Code {
        compile::compile(self)
    }

    /// The same program without cpu v4 instructions, for kernels before Linux 6.6.
    #[must_use]
    pub fn without_version_4(self) -> Self {
        Self { has_long_jumps: false, has_version_4: false, ..self }
    }

    pub fn entry(&self) -> Entry {
        self.entry
    }
}

/// Programs of a kind: an entry, and up to three functions and callbacks.
pub fn program(entry: Entry) -> impl Strategy<Value = Program> {
    let kind = prop_oneof![2 => Just(Kind::Called), 1 => Just(Kind::Callback)];
    let function = (kind, statements(2)).prop_map(|(kind, body)| Function { kind, body });
    let functions = prop::collection::vec(function, 0..4);
    (statements(4), functions, any::<bool>(), any::<bool>()).prop_map(
        move |(body, mut functions, has_long_jumps, is_crowded)| {
            functions.insert(0, Function { kind: Kind::Entry, body });
            Program { entry, functions, has_long_jumps, is_crowded, has_version_4: true }
        },
    )
}

fn statements(depth: u32) -> impl Strategy<Value = Vec<Statement>> {
    let nested = simple().prop_recursive(depth, 40, 6, |inner| {
        let block = || prop::collection::vec(inner.clone(), 0..6);
        let turns = prop_oneof![(6..10_u8).prop_map(Turns::Register), Just(Turns::Stack)];
        prop_oneof![
            4 => inner.clone(),
            3 => (condition(), block(), block()).prop_map(|(condition, then, otherwise)| {
                Statement::If { condition, then, otherwise }
            }),
            3 => (1..5, turns, any::<bool>(), block()).prop_map(
                |(turns, counted_in, tested_first, body)| {
                    Statement::Repeat { turns, counted_in, tested_first, body }
                },
            ),
        ]
    });
    prop::collection::vec(nested, 1..8)
}

fn simple() -> impl Strategy<Value = Statement> {
    prop_oneof![
        6 => compute(),
        1 => (register(), register(), prop::sample::select(vec![8, 16, 32]))
            .prop_map(|(dst, src, bits)| Statement::Extend { dst, src, bits }),
        1 => (
            register(),
            prop::sample::select(vec![op::ALU, op::ALU64]),
            any::<bool>(),
            prop::sample::select(vec![16, 32, 64]),
        )
            .prop_map(|(dst, class, is_big, bits)| Statement::Swap { dst, class, is_big, bits }),
        1 => (register(), any::<i32>(), any::<i32>())
            .prop_map(|(dst, low, high)| Statement::Double { dst, low, high }),
        2 => (any::<u8>(), size(), operand())
            .prop_map(|(slot, size, operand)| Statement::Store { slot, size, operand }),
        2 => (register(), any::<u8>(), size(), any::<bool>())
            .prop_map(|(dst, slot, size, is_signed)| Statement::Load { dst, slot, size, is_signed }),
        1 => (any::<u8>(), atomic_operation(), register(), any::<bool>()).prop_map(
            |(slot, operation, src, is_wide)| Statement::Atomic { slot, operation, src, is_wide },
        ),
        1 => condition().prop_map(Statement::Break),
        1 => condition().prop_map(Statement::Continue),
        1 => (any::<prop::sample::Index>(), [(); 5].map(|()| operand()))
            .prop_map(|(function, arguments)| Statement::Call { function, arguments }),
        // Linux 6.18 rejects callbacks that are never called ("No program to jit").
        1 => (any::<prop::sample::Index>(), 1..5)
            .prop_map(|(function, turns)| Statement::Loop { function, turns }),
        1 => (condition(), operand()).prop_map(|(condition, operand)| Statement::If {
            condition,
            then: vec![Statement::Return(operand)],
            otherwise: vec![],
        }),
        1 => (0..3_u8, operand()).prop_map(|(kind, operand)| Statement::Escape { kind, operand }),
    ]
}

fn compute() -> impl Strategy<Value = Statement> {
    let operations = Vec::from_iter((op::ADD..=op::ARSH).step_by(0x10));
    (prop::sample::select(operations), any::<bool>(), register(), operand()).prop_map(
        |(operation, is_wide, dst, operand)| Statement::Compute {
            operation,
            is_wide,
            dst,
            operand,
        },
    )
}

fn atomic_operation() -> impl Strategy<Value = i32> {
    let operations = [op::ADD, op::OR, op::AND, op::XOR].map(i32::from);
    let fetching = operations.map(|operation| operation | op::FETCH);
    prop::sample::select([&operations[..], &fetching, &[op::XCHG, op::CMPXCHG]].concat())
}

fn condition() -> impl Strategy<Value = Condition> {
    let less = (op::JLT..=op::JSLE).step_by(0x10);
    let operations = Vec::from_iter((op::JEQ..=op::JSGE).step_by(0x10).chain(less));
    (prop::sample::select(operations), any::<bool>(), register(), operand())
        .prop_map(|(operation, is_wide, left, right)| Condition { operation, is_wide, left, right })
}

fn register() -> impl Strategy<Value = u8> {
    0..10_u8
}

fn size() -> impl Strategy<Value = u8> {
    prop::sample::select(vec![op::B, op::H, op::W, op::DW])
}

fn operand() -> impl Strategy<Value = Operand> {
    prop_oneof![
        register().prop_map(Operand::Register),
        (-4..20).prop_map(Operand::Immediate),
        any::<i32>().prop_map(Operand::Immediate),
    ]
}
