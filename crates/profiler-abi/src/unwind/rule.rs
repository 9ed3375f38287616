//! Unwind rules.

#[cfg(not(target_arch = "bpf"))]
use core::fmt;

/// DWARF number of the stack pointer (psABI of x86-64, figure 3.36; DWARF for the Arm 64-bit Architecture, 4.1).
pub const SP: u8 = if cfg!(machine = "aarch64") { 31 } else { 7 };
/// DWARF number of the frame pointer.
pub const FP: u8 = if cfg!(machine = "aarch64") { 29 } else { 6 };
/// Number of registers that call frame information may use.
pub const REGISTERS: usize = 32;

/// How to compute the canonical frame address (CFA), the stack pointer before the call.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::IntoBytes, zerocopy::Immutable))]
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cfa {
    /// No call frame information covers the address.
    Gap = 0,
    /// Outermost frame: the entry point of a thread.
    End = 1,
    /// [`register`](Rule::register) plus [`offset`](Rule::offset).
    Register = 2,
    /// The word at `register` plus `offset`, plus [`addend`](Rule::addend): functions that align their stack, and
    /// some hand-written assembly.
    Memory = 3,
    /// The stack pointer plus 8, and 8 more from byte `offset` of a 16-byte slot on: the procedure linkage table
    /// on x86-64, where one expression covers all slots.
    Plt = 4,
    /// The kernel's signal frame, with all registers in memory at fixed offsets.
    Signal = 5,
    /// An expression or register that the walker does not support.
    Unsupported = 6,
    /// By the frame pointer, which leads to another stack: a coroutine's, from functions that the runtime calls on
    /// a stack of its own.
    OtherStack = 7,
    /// The return from `clone`: in the parent, a function that pushed nothing; in the child, whose `rax` is 0, the
    /// outermost frame. x86-64 only.
    Clone = 8,
}

/// Location of the caller's frame pointer.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::IntoBytes, zerocopy::Immutable))]
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FramePointer {
    /// In its register.
    Same = 0,
    /// In memory, [`fp_words`](Rule::fp_words) words from the CFA.
    Saved = 1,
    /// In memory, `fp_words` words from this function's frame pointer.
    SavedAtFp = 2,
    /// In memory, `fp_words` words from the stack pointer.
    SavedAtSp = 3,
    /// Unknown from here on.
    Lost = 4,
}

/// Location of the return address.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::IntoBytes, zerocopy::Immutable))]
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ReturnAddress {
    /// In memory, [`return_words`](Rule::return_words) words from the CFA.
    Saved = 0,
    /// In the register with DWARF number `return_words`: leaf functions on aarch64, or functions that popped it.
    Register = 1,
}

/// How to get from a function to its caller at one address, with DWARF register numbers.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::IntoBytes, zerocopy::Immutable))]
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rule {
    pub cfa: Cfa,
    pub fp: FramePointer,
    pub ra: ReturnAddress,
    /// Base register of the CFA.
    pub register: u8,
    /// Bytes.
    pub offset: i32,
    /// Bytes.
    pub addend: i32,
    pub fp_words: i16,
    pub return_words: i16,
}

const _: () = assert!(size_of::<Rule>() == 16);

impl Rule {
    const NOTHING: Self = Self {
        cfa: Cfa::Gap,
        fp: FramePointer::Same,
        ra: ReturnAddress::Saved,
        register: 0,
        offset: 0,
        addend: 0,
        fp_words: 0,
        return_words: 0,
    };
    pub const GAP: Self = Self::NOTHING;
    pub const END: Self = Self { cfa: Cfa::End, ..Self::NOTHING };
    pub const SIGNAL: Self = Self { cfa: Cfa::Signal, ..Self::NOTHING };
    pub const OTHER_STACK: Self = Self { cfa: Cfa::OtherStack, ..Self::NOTHING };
    pub const CLONE: Self =
        Self { cfa: Cfa::Clone, register: SP, offset: 8, return_words: -1, ..Self::NOTHING };
    pub const UNSUPPORTED: Self = Self { cfa: Cfa::Unsupported, ..Self::NOTHING };

    /// The most common rule: CFA at `offset` bytes from a register, with the return address directly below it.
    pub const fn framed(register: u8, offset: i32) -> Self {
        Self { cfa: Cfa::Register, register, offset, return_words: -1, ..Self::NOTHING }
    }

    /// Adds that the caller's frame pointer is saved `fp_words` words from the CFA.
    pub const fn saving_fp(self, fp_words: i16) -> Self {
        Self { fp: FramePointer::Saved, fp_words, ..self }
    }

    /// Adds that the return address is in a register.
    pub const fn returning_to(self, register: i16) -> Self {
        Self { ra: ReturnAddress::Register, return_words: register, ..self }
    }
}

#[cfg(not(target_arch = "bpf"))]
/// Formats like `readelf --debug-dump=frames-interp`: `cfa=rsp+8 fp=c-16 ra=c-8`, with register numbers.
impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { register, offset, addend, fp_words, return_words, .. } = *self;
        match self.cfa {
            Cfa::Gap => return f.write_str("gap"),
            Cfa::End => return f.write_str("end"),
            Cfa::Signal => return f.write_str("signal"),
            Cfa::Unsupported => return f.write_str("unsupported"),
            Cfa::OtherStack => return f.write_str("other stack"),
            Cfa::Clone => return f.write_str("clone"),
            Cfa::Register => write!(f, "cfa=r{register}{offset:+}")?,
            Cfa::Memory => write!(f, "cfa=*(r{register}{offset:+}){addend:+}")?,
            Cfa::Plt => write!(f, "cfa=plt{offset}")?,
        }
        let fp_bytes = i32::from(fp_words) * 8;
        match self.fp {
            FramePointer::Same => {}
            FramePointer::Saved => write!(f, " fp=c{fp_bytes:+}")?,
            FramePointer::SavedAtFp => write!(f, " fp=*(fp{fp_bytes:+})")?,
            FramePointer::SavedAtSp => write!(f, " fp=*(sp{fp_bytes:+})")?,
            FramePointer::Lost => f.write_str(" fp=?")?,
        }
        match self.ra {
            ReturnAddress::Saved => write!(f, " ra=c{:+}", i32::from(return_words) * 8),
            ReturnAddress::Register => write!(f, " ra=r{return_words}"),
        }
    }
}
