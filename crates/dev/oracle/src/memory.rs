//! Memory of the interpreter: stack frames, and areas at addresses of their own.

use std::{collections::BTreeMap, ops::Range};

use crate::Step;

/// Bytes of the stack of one function (`MAX_BPF_STACK`, include/linux/filter.h, Linux 6.18).
const STACK_BYTES: usize = 512;
/// Address of the stack.
const STACK: u64 = 0x4000_0000;
/// Distance of stack frames.
const FRAME: u64 = 0x1_0000;
/// Areas without an address of their own begin here.
const ALLOCATED: u64 = 0x10_0000_0000;
/// Bytes between areas at least, so that what runs out of one does not run into the next.
const GAP: u64 = 64;

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
    pub value: u64,
}

/// Bytes at an address.
#[derive(Debug, Clone)]
pub(crate) struct Area {
    pub(crate) bytes: Vec<u8>,
    /// The part that a program may reach.
    pub(crate) visible: Range<usize>,
    pub(crate) is_writable: bool,
    /// Parts that nothing is known of.
    unknown: Vec<Range<usize>>,
}

impl Area {
    pub(crate) fn new(bytes: Vec<u8>, is_writable: bool) -> Self {
        Self { visible: 0..bytes.len(), bytes, is_writable, unknown: Vec::new() }
    }

    /// An area of which nothing is known yet; a write tells.
    pub(crate) fn unknown(len: usize) -> Self {
        Self { unknown: (0..len).map(|at| at..at + 1).collect(), ..Self::new(vec![0; len], true) }
    }

    /// Sets bytes, which are known from now on.
    pub(crate) fn put(&mut self, at: usize, bytes: &[u8]) {
        let range = at..at + bytes.len();
        self.unknown.retain(|unknown| unknown.end <= range.start || range.end <= unknown.start);
        if let Some(slot) = self.bytes.get_mut(range) {
            slot.copy_from_slice(bytes);
        }
    }
}

/// What a program can read and write.
#[derive(Debug, Default)]
pub struct Memory {
    areas: BTreeMap<u64, Area>,
    next: u64,
    /// Bytes of each frame; `None` where nothing was written.
    frames: Vec<Vec<Option<u8>>>,
    pub(crate) writes: Vec<Write>,
    /// Index of the instruction that runs.
    pub(crate) index: usize,
}

impl Memory {
    pub(crate) fn place(&mut self, address: u64, area: Area) {
        self.areas.insert(address, area);
    }

    /// Puts bytes somewhere; their address.
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

    /// A fresh frame for that many functions under way; its frame pointer.
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

    /// The area with these bytes, and where in it they are.
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
