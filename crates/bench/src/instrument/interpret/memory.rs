//! Memory of the interpreter: stack frames, context, packet, and the value of one map.

use std::ops::Range;

use crate::instrument::frame::STACK_BYTES_MAX;

/// Address of the context.
pub(super) const CONTEXT: u64 = 0x1000_0000;
/// Address of the packet.
const PACKET: u64 = 0x2000_0000;
/// Address of the map's value.
pub(super) const VALUE: u64 = 0x3000_0000;
/// Address of the stack.
const STACK: u64 = 0x4000_0000;
/// Distance of stack frames.
const FRAME: u64 = 0x1_0000;

/// A write to the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// Index of the instruction that writes.
    pub index: usize,
    /// How many functions were under way.
    pub frame: usize,
    /// Where, relative to the frame pointer.
    pub offset: i64,
    /// How many bytes.
    pub size: usize,
    /// What, cut to its size.
    pub value: u64,
}

/// What a program can read and write.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    context: Vec<u8>,
    packet: Vec<u8>,
    value: Vec<u8>,
    /// Bytes of each frame; `None` where nothing was written.
    frames: Vec<Vec<Option<u8>>>,
    writes: Vec<Write>,
    /// Index of the instruction that runs.
    pub(super) index: usize,
}

impl Memory {
    /// For a socket filter, whose context begins with the length of the packet.
    pub fn of_socket_filter(packet: &[u8], value_size: usize) -> Self {
        let context = (packet.len() as u32).to_le_bytes().to_vec();
        Self { context, packet: packet.to_vec(), value: vec![0; value_size], ..Self::default() }
    }

    /// For an XDP program, whose context begins with the addresses of the packet and of its end.
    pub fn of_xdp(packet: &[u8], value_size: usize) -> Self {
        let end = PACKET + packet.len() as u64;
        let context = [PACKET, end].map(|address| (address as u32).to_le_bytes()).concat();
        Self { context, packet: packet.to_vec(), value: vec![0; value_size], ..Self::default() }
    }

    /// A fresh frame for that many functions under way; its frame pointer.
    pub(super) fn enter(&mut self, depth: usize) -> u64 {
        self.frames.resize(depth + 1, vec![]);
        self.frames[depth] = vec![None; STACK_BYTES_MAX as usize];
        STACK + FRAME * depth as u64 + u64::from(STACK_BYTES_MAX)
    }

    pub(super) fn finish(self) -> (Vec<Write>, Vec<u8>) {
        (self.writes, self.value)
    }

    pub(super) fn read(&self, address: u64, size: usize) -> Result<u64, &'static str> {
        let mut bytes = [0; 8];
        let found = &mut bytes[..size];
        if let Some((depth, range)) = self.in_stack(address, size) {
            for (byte, &stored) in found.iter_mut().zip(&self.frames[depth][range]) {
                *byte = stored.ok_or("stack that was never written")?;
            }
        } else {
            let places = [(CONTEXT, &self.context), (PACKET, &self.packet), (VALUE, &self.value)];
            let inside = |&(start, memory): &(u64, &Vec<u8>)| {
                let start = address.checked_sub(start)? as usize;
                memory.get(start..start.checked_add(size)?).map(<[u8]>::to_vec)
            };
            let stored = places.iter().find_map(inside).ok_or("a read out of bounds")?;
            found.copy_from_slice(&stored);
        }
        Ok(u64::from_le_bytes(bytes))
    }

    pub(super) fn write(
        &mut self,
        address: u64,
        size: usize,
        value: u64,
    ) -> Result<(), &'static str> {
        let bytes = &value.to_le_bytes()[..size];
        if let Some((frame, range)) = self.in_stack(address, size) {
            let offset = range.start as i64 - i64::from(STACK_BYTES_MAX);
            for (stored, &byte) in self.frames[frame][range].iter_mut().zip(bytes) {
                *stored = Some(byte);
            }
            let value = if size == 8 { value } else { value & ((1 << (8 * size)) - 1) };
            self.writes.push(Write { index: self.index, frame, offset, size, value });
            return Ok(());
        }
        let start = address.checked_sub(VALUE).ok_or("a write out of bounds")? as usize;
        let end = start.checked_add(size).ok_or("a write out of bounds")?;
        let stored = self.value.get_mut(start..end).ok_or("a write out of bounds")?;
        stored.copy_from_slice(bytes);
        Ok(())
    }

    /// Bytes of the packet in network order.
    pub(super) fn packet(&self, offset: u64, size: usize) -> Option<u64> {
        let start = usize::try_from(offset).ok()?;
        let bytes = self.packet.get(start..start.checked_add(size)?)?;
        Some(bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)))
    }

    /// Copies bytes of the packet to an address; whether they are all there.
    pub(super) fn load_packet(
        &mut self,
        offset: u64,
        to: u64,
        len: usize,
    ) -> Result<bool, &'static str> {
        let start = offset as usize;
        let range = start.checked_add(len).and_then(|end| self.packet.get(start..end));
        let bytes = range.map(<[u8]>::to_vec);
        // The kernel writes zeros where it has nothing to write.
        for (index, byte) in bytes.clone().unwrap_or_else(|| vec![0; len]).into_iter().enumerate() {
            self.write(to + index as u64, 1, u64::from(byte))?;
        }
        Ok(bytes.is_some())
    }

    fn in_stack(&self, address: u64, size: usize) -> Option<(usize, Range<usize>)> {
        let offset = address.checked_sub(STACK)?;
        let (depth, start) = ((offset / FRAME) as usize, (offset % FRAME) as usize);
        let end = start.checked_add(size)?;
        (end <= self.frames.get(depth)?.len()).then_some((depth, start..end))
    }
}
