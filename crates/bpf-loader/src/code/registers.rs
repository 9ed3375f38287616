//! Sets of registers.

use std::fmt;

/// A set of the registers r0 to r10.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Registers(u16);

impl Registers {
    /// The frame pointer, which cannot be written.
    pub const FRAME_POINTER: u8 = 10;
    /// The empty set.
    pub const NONE: Self = Self(0);
    /// The result of a call: r0.
    pub const RESULT: Self = Self(1);
    /// The arguments of a call: r1 to r5.
    pub const ARGUMENTS: Self = Self(0b11_1110);
    /// Registers clobbered by a call: r0 to r5.
    pub const CALLER_SAVED: Self = Self(0b11_1111);
    /// Writable registers: r0 to r9.
    pub const WRITABLE: Self = Self(0x3ff);

    /// The set of one register.
    pub const fn one(register: u8) -> Self {
        Self(1 << (register & 0xf))
    }

    /// Whether it contains `register`.
    pub const fn has(self, register: u8) -> bool {
        self.0 & Self::one(register).0 != 0
    }

    /// Union.
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Intersection.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Difference.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Number of registers.
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The registers, ascending.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        let mut left = self;
        std::iter::from_fn(move || {
            let register = left.first()?;
            left = left.without(Self::one(register));
            Some(register)
        })
    }

    /// The lowest register.
    pub fn first(self) -> Option<u8> {
        (!self.is_empty()).then_some(self.0.trailing_zeros() as u8)
    }
}

impl FromIterator<u8> for Registers {
    fn from_iter<T: IntoIterator<Item = u8>>(registers: T) -> Self {
        registers.into_iter().fold(Self::NONE, |set, register| set.or(Self::one(register)))
    }
}

impl fmt::Debug for Registers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.iter().map(|register| format!("r{register}")).collect();
        f.write_str(if names.is_empty() { "-" } else { "" })?;
        f.write_str(&names.join(" "))
    }
}
