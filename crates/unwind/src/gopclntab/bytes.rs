//! Bounds-checked reads of the table.

use object::ReadRef;

/// The bytes of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bytes<R> {
    data: R,
    start: u64,
    len: u64,
}

impl<'data, R: ReadRef<'data>> Bytes<R> {
    pub(super) fn new(data: R, start: u64, len: u64) -> Self {
        Self { data, start, len }
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn slice(&self, at: u64, len: u64) -> Option<&'data [u8]> {
        if at.checked_add(len)? > self.len {
            return None;
        }
        self.data.read_bytes_at(self.start.checked_add(at)?, len).ok()
    }

    pub(super) fn byte(&self, at: u64) -> Option<u8> {
        self.slice(at, 1)?.first().copied()
    }

    /// An integer of 4 or 8 bytes.
    pub(super) fn word(&self, at: u64, len: u64) -> Option<u64> {
        let bytes = self.slice(at, len)?;
        match len {
            4 => bytes.first_chunk().map(|bytes| u32::from_le_bytes(*bytes).into()),
            _ => bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)),
        }
    }

    /// Nonempty text up to a zero byte, of at most `len_max` bytes.
    pub(super) fn text(&self, at: u64, len_max: u64) -> Option<&'data [u8]> {
        if at >= self.len {
            return None;
        }
        let start = self.start.checked_add(at)?;
        let end = start.checked_add(len_max.min(self.len - at))?;
        let text = self.data.read_bytes_at_until(start..end, 0).ok()?;
        (!text.is_empty()).then_some(text)
    }
}
