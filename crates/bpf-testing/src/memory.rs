//! Memory of the interpreter: stack frames, and areas with separate addresses.

use std::{collections::BTreeMap, ops::Range};

use crate::Step;

/// Stack size of one function in bytes (`MAX_BPF_STACK`, include/linux/filter.h, Linux 6.18).
const STACK_BYTES: usize = 512;
/// Base address of the stack.
const STACK: u64 = 0x4000_0000;
/// Distance between stack frames.
const FRAME: u64 = 0x1_0000;
/// Base of areas without a fixed address.
const ALLOCATED: u64 = 0x10_0000_0000;
/// Minimum gap between areas in bytes, so that an overrun does not reach the next one.
const GAP: u64 = 64;

/// A write to the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// Index of the writing instruction.
    pub index: usize,
    /// Depth of the call stack.
    pub frame: usize,
    /// Offset from the frame pointer.
    pub offset: i64,
    /// Size in bytes.
    pub size: usize,
    pub value: u64,
}

/// Bytes at an address.
#[derive(Debug, Clone)]
pub(crate) struct Area {
    pub(crate) bytes: Vec<u8>,
    /// The part that the program may access.
    pub(crate) visible: Range<usize>,
    pub(crate) is_writable: bool,
    /// Ranges with unknown contents.
    unknown: Vec<Range<usize>>,
}

impl Area {
    pub(crate) fn new(bytes: Vec<u8>, is_writable: bool) -> Self {
        Self { visible: 0..bytes.len(), bytes, is_writable, unknown: Vec::new() }
    }

    /// An area of unknown contents until written.
    pub(crate) fn unknown(len: usize) -> Self {
        Self { unknown: (0..len).map(|at| at..at + 1).collect(), ..Self::new(vec![0; len], true) }
    }

    /// Sets bytes, which are known afterwards.
    pub(crate) fn put(&mut self, at: usize, bytes: &[u8]) {
        let range = at..at + bytes.len();
        self.unknown.retain(|unknown| unknown.end <= range.start || range.end <= unknown.start);
        if let Some(slot) = self.bytes.get_mut(range) {
            slot.copy_from_slice(bytes);
        }
    }
}

/// Memory that a program can access.
#[derive(Debug, Default)]
pub struct Memory {
    areas: BTreeMap<u64, Area>,
    next: u64,
    /// Bytes of each frame; `None` if not written.
    frames: Vec<Vec<Option<u8>>>,
    pub(crate) writes: Vec<Write>,
    /// Index of the current instruction.
    pub(crate) index: usize,
}

impl Memory {
    pub(crate) fn place(&mut self, address: u64, area: Area) {
        self.areas.insert(address, area);
    }

    /// Allocates an area for the bytes; returns its address.
    pub(crate) fn allocate(&mut self, bytes: Vec<u8>) -> u64 {
        let address = ALLOCATED + self.next;
        self.next += (bytes.len() as u64).next_multiple_of(8) + GAP;
        self.place(address, Area::new(bytes, true));
        address
    }

    pub(crate) fn area(&self, address: u64) -> Option<&Area> {
        self.areas.get(&address)
    }

    pub(crate) fn area_mut(&mut self, address: u64) -> Step<&mut Area> {
        self.areas.get_mut(&address).ok_or_else(|| "nothing lies there".into())
    }

    /// Creates a fresh frame at this call depth; returns its frame pointer.
    pub(crate) fn enter(&mut self, depth: usize) -> u64 {
        self.frames.resize(depth + 1, vec![]);
        self.frames[depth] = vec![None; STACK_BYTES];
        STACK + FRAME * depth as u64 + STACK_BYTES as u64
    }

    pub(crate) fn read(&self, address: u64, size: usize) -> Step<u64> {
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(&self.bytes(address, size)?);
        Ok(u64::from_le_bytes(bytes))
    }

    pub(crate) fn write(&mut self, address: u64, size: usize, value: u64) -> Step<()> {
        self.put(address, &value.to_le_bytes()[..size])?;
        if let Some((frame, range)) = self.in_stack(address, size) {
            let offset = range.start as i64 - STACK_BYTES as i64;
            let value = if size == 8 { value } else { value & ((1 << (8 * size)) - 1) };
            self.writes.push(Write { index: self.index, frame, offset, size, value });
        }
        Ok(())
    }

    pub(crate) fn bytes(&self, address: u64, len: usize) -> Step<Vec<u8>> {
        if let Some((depth, range)) = self.in_stack(address, len) {
            let bytes: Option<Vec<u8>> = self.frames[depth][range].iter().copied().collect();
            return bytes.ok_or_else(|| "stack that was never written".into());
        }
        let (area, range) = self.find(address, len).ok_or("a read out of bounds")?;
        let is_unknown =
            |unknown: &Range<usize>| unknown.start < range.end && range.start < unknown.end;
        if area.unknown.iter().any(is_unknown) {
            let at = range.start;
            return Err(format!("a part of the context that is not known here, at {at}").into());
        }
        Ok(area.bytes[range].to_vec())
    }

    pub(crate) fn put(&mut self, address: u64, bytes: &[u8]) -> Step<()> {
        if let Some((frame, range)) = self.in_stack(address, bytes.len()) {
            for (stored, &byte) in self.frames[frame][range].iter_mut().zip(bytes) {
                *stored = Some(byte);
            }
            return Ok(());
        }
        let out = "a write out of bounds";
        let (area, range) = self.find(address, bytes.len()).ok_or(out)?;
        if !area.is_writable {
            return Err(out.into());
        }
        let start = address - range.start as u64;
        self.area_mut(start)?.put(range.start, bytes);
        Ok(())
    }

    /// Finds the area that contains these bytes, and their range in it.
    fn find(&self, address: u64, len: usize) -> Option<(&Area, Range<usize>)> {
        let (start, area) = self.areas.range(..=address).next_back()?;
        let at = usize::try_from(address - start).ok()?;
        let range = at..at.checked_add(len)?;
        let is_visible = area.visible.start <= range.start && range.end <= area.visible.end;
        is_visible.then_some((area, range))
    }

    fn in_stack(&self, address: u64, size: usize) -> Option<(usize, Range<usize>)> {
        let offset = address.checked_sub(STACK)?;
        let (depth, start) = ((offset / FRAME) as usize, (offset % FRAME) as usize);
        let end = start.checked_add(size)?;
        (end <= self.frames.get(depth)?.len()).then_some((depth, start..end))
    }
}
