//! State of one more register, apart from stack and frame pointer, that continuing a walk elsewhere needs. Sized
//! for the space left in a record.

use super::walk::address_of;

/// State of one register. On x86-64, whether `rax` is zero, since `clone` returns zero in a new thread; on
/// aarch64, the return address in the link register.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[cfg_attr(feature = "zerocopy", derive(zerocopy::KnownLayout, zerocopy::Immutable))]
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beside([u8; 6]);

const ZERO: u8 = 1;
const OTHER: u8 = 2;

impl Beside {
    /// The register is unknown.
    pub const UNKNOWN: Self = Self([0; 6]);

    /// Creates a state from whether the register is zero.
    pub const fn is_zero(is_zero: bool) -> Self {
        Self([if is_zero { ZERO } else { OTHER }, 0, 0, 0, 0, 0])
    }

    /// Whether the register is zero, if known.
    pub const fn as_is_zero(self) -> Option<bool> {
        match self.0[0] {
            0 => None,
            known => Some(known == ZERO),
        }
    }

    /// Creates a state from an address. Its upper bits are dropped, and zero counts as no address.
    pub const fn link(link: u64) -> Self {
        let [a, b, c, d, e, f, ..] = address_of(link).to_le_bytes();
        Self([a, b, c, d, e, f])
    }

    /// The address, if known.
    pub const fn as_link(self) -> Option<u64> {
        let [a, b, c, d, e, f] = self.0;
        match u64::from_le_bytes([a, b, c, d, e, f, 0, 0]) {
            0 => None,
            link => Some(link),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_comes_out() {
        assert_eq!((Beside::UNKNOWN.as_link(), Beside::UNKNOWN.as_is_zero()), (None, None));
        for is_zero in [false, true] {
            assert_eq!(Beside::is_zero(is_zero).as_is_zero(), Some(is_zero));
        }
        for link in [1, 0xaaaa_bbbb_ccdc, (1 << 48) - 1] {
            assert_eq!(Beside::link(link).as_link(), Some(link));
        }
    }
}
