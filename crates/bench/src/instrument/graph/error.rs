//! Why a program has no graph.

/// A program that the verifier would refuse, found before it is asked. Indices are those of
/// instructions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    #[error("the program has no instructions; check that the object has code in the section")]
    Empty,
    #[error(
        "instruction {index} is unknown (opcode {opcode:#04x}); it may be newer than this version of \
         wingbeat, or the bytecode is damaged: check with llvm-objdump -d"
    )]
    UnknownInsn { index: usize, opcode: u8 },
    #[error(
        "instruction {index} calls or jumps through a register, so its target is unknown; \
         compilers do that for function pointers and for switch tables: replace them by if or \
         match, or build with -fno-jump-tables"
    )]
    Indirect { index: usize },
    #[error(
        "the 64-bit load at instruction {index} lacks its second half; the bytecode is damaged"
    )]
    HalfLoad { index: usize },
    #[error(
        "the jump at instruction {index} leads to {target}, outside of its function \
         ({first}..{end}); the bytecode is damaged or was not linked"
    )]
    JumpOutside { index: usize, target: i64, first: usize, end: usize },
    #[error(
        "instruction {target} is the second half of a 64-bit load, but instruction {index} refers to it"
    )]
    IntoLoad { index: usize, target: usize },
    #[error(
        "instruction {index} refers to a function at {target}, but the program has {insns} \
         instructions; it was not linked"
    )]
    CallOutside { index: usize, target: i64, insns: usize },
    #[error(
        "the function that begins at instruction {insn_index} is out of order or not in the program"
    )]
    Functions { insn_index: u32 },
    #[error(
        "the function that ends with instruction {index} continues into the next one; its last \
         instruction has to be exit or a jump"
    )]
    FallsOut { index: usize },
}
