//! Values by address: lines, files, frame sizes.
//!
//! Each step is two variable-length integers: the difference of the value, and the number of instructions that it
//! applies to (golang.org/s/go12symtab, "PC-Value Table Encoding").

use object::ReadRef;

use super::bytes::Bytes;

/// Bytes per read, which is aligned to this size, so that a cache has each piece once.
const PIECE_BYTES: u64 = 64;
/// Maximum bytes of an encoded 32-bit integer.
const NUMBER_BYTES_MAX: u32 = 5;

/// The values of a function, each with its end address.
#[derive(Debug, Clone)]
pub(crate) struct Values<'data, R> {
    bytes: Bytes<R>,
    at: u64,
    piece: &'data [u8],
    piece_at: u64,
    pc: u64,
    /// End of the function.
    end: u64,
    quantum: u64,
    value: i32,
    is_first: bool,
}

impl<'data, R: ReadRef<'data>> Values<'data, R> {
    pub(super) fn new(bytes: Bytes<R>, at: u64, start: u64, end: u64, quantum: u64) -> Self {
        let (piece, piece_at) = (&[][..], 0);
        Self { bytes, at, piece, piece_at, pc: start, end, quantum, value: -1, is_first: true }
    }

    /// The value at an address of the function.
    pub(super) fn at(mut self, address: u64) -> Option<i32> {
        self.find(|(_, end)| address < *end).map(|(value, _)| value)
    }

    fn byte(&mut self) -> Option<u8> {
        let index = self.at.checked_sub(self.piece_at)?;
        let found = self.piece.get(usize::try_from(index).ok()?);
        let byte = match found {
            Some(&byte) => byte,
            None => {
                self.piece_at = self.at - self.at % PIECE_BYTES;
                let len = PIECE_BYTES.min(self.bytes.len().checked_sub(self.piece_at)?);
                self.piece = self.bytes.slice(self.piece_at, len)?;
                *self.piece.get((self.at - self.piece_at) as usize)?
            }
        };
        self.at += 1;
        Some(byte)
    }

    fn number(&mut self) -> Option<u32> {
        let mut number = 0;
        for index in 0..NUMBER_BYTES_MAX {
            let byte = self.byte()?;
            number |= u32::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
}

impl<'data, R: ReadRef<'data>> Iterator for Values<'data, R> {
    type Item = (i32, u64);

    /// A step applies to at least one instruction, so a function has no more steps than bytes.
    fn next(&mut self) -> Option<(i32, u64)> {
        if self.pc >= self.end {
            return None;
        }
        let change = self.number()?;
        if change == 0 && !self.is_first {
            return None;
        }
        self.is_first = false;
        let sign = if change & 1 == 0 { 0 } else { u32::MAX };
        self.value = self.value.wrapping_add((change >> 1 ^ sign) as i32);
        let instructions = self.number().filter(|&count| count > 0)?;
        self.pc = self.pc.checked_add(u64::from(instructions) * self.quantum)?;
        Some((self.value, self.pc))
    }
}
