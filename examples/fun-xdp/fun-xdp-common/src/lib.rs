//! What the example `fun-xdp` makes of a source address, in four versions of one function.
//!
//! The kernel half calls these functions for each packet, the benchmarks call the same ones in user
//! space, and the classes cross the border in a queue. Versions 3 and 4 give the same answers. One
//! of the two costs several times as much as the other, which tests of answers cannot show.
//!
//! Addresses are in host order, as `u32::from(Ipv4Addr)` gives them: 10.0.0.3 is `0x0a00_0003`. The
//! number that is divided is the whole address; the last octet is its lowest eight bits.
#![cfg_attr(not(test), no_std)]

use core::fmt;

/// Class of a source address. In the queue map it is its discriminant: four bytes in native byte
/// order.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceAddr {
    /// Divisible by 3.
    Fizz,
    /// Divisible by 5.
    Buzz,
    /// Divisible by 3 and by 5.
    FizzBuzz,
    /// The last octet is a Fibonacci number. Takes precedence over the other classes.
    Fibonacci,
}

// Both halves agree on the size: C enums have the size of `int`.
const _: () = assert!(size_of::<SourceAddr>() == size_of::<u32>());

impl SourceAddr {
    /// All classes, indexed by discriminant.
    pub const ALL: [Self; 4] = [Self::Fizz, Self::Buzz, Self::FizzBuzz, Self::Fibonacci];

    /// The class with this discriminant: decodes values from the queue.
    pub fn from_raw(raw: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|class| *class as u32 == raw)
    }

    /// Version 1: Fizz.
    pub fn new_v1(address: u32) -> Option<Self> {
        address.is_multiple_of(3).then_some(Self::Fizz)
    }

    /// Version 2: FizzBuzz.
    pub fn new_v2(address: u32) -> Option<Self> {
        match (address % 3, address % 5) {
            (0, 0) => Some(Self::FizzBuzz),
            (0, _) => Some(Self::Fizz),
            (_, 0) => Some(Self::Buzz),
            _ => None,
        }
    }

    /// Version 3: FizzBuzzFibonacci, computed.
    pub fn new_v3(address: u32) -> Option<Self> {
        if is_fibonacci(last_octet(address)) {
            Some(Self::Fibonacci)
        } else {
            Self::new_v2(address)
        }
    }

    /// Version 4: FizzBuzzFibonacci, looked up.
    pub fn new_v4(address: u32) -> Option<Self> {
        match last_octet(address) {
            0 | 1 | 2 | 3 | 5 | 8 | 13 | 21 | 34 | 55 | 89 | 144 | 233 => Some(Self::Fibonacci),
            _ => Self::new_v2(address),
        }
    }
}

impl fmt::Display for SourceAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fizz => "Fizz",
            Self::Buzz => "Buzz",
            Self::FizzBuzz => "FizzBuzz",
            Self::Fibonacci => "Fibonacci",
        })
    }
}

fn last_octet(address: u32) -> u8 {
    let [.., last] = address.to_be_bytes();
    last
}

/// Walks the Fibonacci numbers up to `octet`.
///
/// In 32 bits: after 233 comes 377. In eight it would be 121, and the walk would go on, find
/// numbers that are none (241, for one), and take up to some hundred steps more.
fn is_fibonacci(octet: u8) -> bool {
    let octet = u32::from(octet);
    let (mut current, mut next) = (0, 1);
    while current < octet {
        (current, next) = (next, current + next);
    }
    current == octet
}

#[cfg(test)]
mod tests;
