//! Unwind information in jitdump files: reads records in order while the compiler is still writing. Bytes in,
//! changes out.

use std::sync::Arc;

use wingbeat_unwind::{Image, RuleId, Rules};

use crate::jitdump::{Fields, Header, PREFIX, Prefix, split};

/// Record types.
const LOAD: u32 = 0;
const MOVE: u32 = 1;
const UNWINDING: u32 = 4;

/// Maximum size of the call frame information for one piece of code. V8 writes some hundred bytes.
pub(crate) const EH_FRAME_BYTES_MAX: usize = 256 << 10;
/// Longer code is ignored.
const CODE_BYTES_MAX: u64 = 1 << 30;

/// Rules by offset in the code, ascending: each is valid up to the next.
pub(crate) type Rows = Arc<[(u32, RuleId)]>;

/// A change of code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// New code at an address. Without rows, it has no unwind information.
    Load {
        start: u64,
        size: u64,
        rows: Rows,
    },
    Move {
        from: u64,
        to: u64,
    },
}

/// Call frame information in a record, for the code that follows.
#[derive(Debug, Default)]
struct EhFrame {
    bytes: Vec<u8>,
    /// Its address in the process, if known. Otherwise it is relative to the next code, and valid only for that.
    address: Option<u64>,
}

/// Reads the records of one file in order.
#[derive(Debug)]
pub(crate) struct Reader {
    header: Header,
    eh_frame: EhFrame,
}

impl Reader {
    pub(crate) fn new(header: Header) -> Self {
        Self { header, eh_frame: EhFrame::default() }
    }

    /// Reads the complete records at the start of some bytes, and returns their length. `found` gets each change
    /// with the time from which on it is valid: 0 if the file has no times.
    pub(crate) fn read(
        &mut self,
        bytes: &[u8],
        rules: &mut Rules,
        mut found: impl FnMut(u64, Change),
    ) -> usize {
        let mut rest = bytes;
        while let Some((prefix, body, after)) = split(rest) {
            if let Some(change) = self.record(prefix.id, body, rules) {
                found(self.time_ns(prefix), change);
            }
            rest = after;
        }
        bytes.len() - rest.len()
    }

    /// Handles a record too long to be read completely, by its start.
    pub(crate) fn read_long(
        &mut self,
        bytes: &[u8],
        rules: &mut Rules,
        mut found: impl FnMut(u64, Change),
    ) {
        let Some(prefix) = Prefix::parse(bytes) else { return };
        match prefix.id {
            UNWINDING => self.eh_frame = EhFrame::default(),
            id => {
                if let Some(change) = self.record(id, &bytes[PREFIX..], rules) {
                    found(self.time_ns(prefix), change);
                }
            }
        }
    }

    fn time_ns(&self, prefix: Prefix) -> u64 {
        if self.header.has_times { prefix.time_ns } else { 0 }
    }

    fn record(&mut self, id: u32, body: &[u8], rules: &mut Rules) -> Option<Change> {
        let fields = Fields(body);
        match id {
            // pid, tid (4 bytes each), vma, code_addr, code_size.
            LOAD => {
                let (start, size) = (fields.u64(16)?, fields.u64(24)?);
                let rows = self.rows(start, size, rules);
                (size > 0).then_some(Change::Load { start, size, rows })
            }
            // pid, tid, vma, old_code_addr, new_code_addr.
            MOVE => Some(Change::Move { from: fields.u64(16)?, to: fields.u64(24)? }),
            UNWINDING => {
                self.eh_frame = eh_frame(body).unwrap_or_default();
                None
            }
            _ => None,
        }
    }

    /// The rows of code, from the information before it.
    fn rows(&mut self, start: u64, size: u64, rules: &mut Rules) -> Rows {
        let (bytes, address) = match self.eh_frame.address {
            Some(address) => (self.eh_frame.bytes.clone(), Some(address)),
            None => (std::mem::take(&mut self.eh_frame.bytes), behind(start, size)),
        };
        let (Some(end), Some(address)) = (start.checked_add(size), address) else {
            return Rows::default();
        };
        if bytes.is_empty() || size > CODE_BYTES_MAX {
            return Rows::default();
        }
        let machine = self.header.machine;
        let Ok(image) = Image::of_code(machine, start..end, address, bytes) else {
            return Rows::default();
        };
        if image.entries() == 0 {
            return Rows::default();
        }
        let mut rows = Vec::new();
        image.rules(start..end, |at, rule| rows.push(((at - start) as u32, rules.id_of(rule))));
        rows.into()
    }
}

/// Address that the section would have in an ELF file of the code: after it, at a multiple of eight
/// (`jit_write_elf` of tools/perf/util/genelf.c, where code also begins at such a multiple).
fn behind(start: u64, size: u64) -> Option<u64> {
    start.checked_add(size.checked_next_multiple_of(8)?)
}

/// unwinding_size, eh_frame_hdr_size, mapped_size; then `.eh_frame` and `.eh_frame_hdr`. LLVM writes them in
/// reverse order, and its `.eh_frame` is for all code of a module.
fn eh_frame(body: &[u8]) -> Option<EhFrame> {
    let fields = Fields(body);
    let [all, index] = [0, 8].map(|at| fields.u64(at).and_then(|size| usize::try_from(size).ok()));
    let (all, index) = (all?, index?);
    let data = body.get(24..)?.get(..all)?;
    let size = all.checked_sub(index).filter(|&size| size <= EH_FRAME_BYTES_MAX)?;
    if index == LLVM_INDEX_BYTES && data.starts_with(&LLVM_INDEX) {
        let address = Some(Fields(data).u64(LLVM_INDEX.len())?);
        return Some(EhFrame { bytes: data.get(index..)?.to_vec(), address });
    }
    Some(EhFrame { bytes: data.get(..size)?.to_vec(), address: None })
}

/// Start of an `.eh_frame_hdr` that has only the address of `.eh_frame` (`createX64EHFrameHeader` of
/// llvm/lib/ExecutionEngine/Orc/Debugging/PerfSupportPlugin.cpp, LLVM 20): version 1, an absolute address, no
/// table. No `.eh_frame` begins like this, since it would be the length of an entry.
const LLVM_INDEX: [u8; 4] = [1, 0x0c, 0xff, 0xff];
const LLVM_INDEX_BYTES: usize = 12;

#[cfg(test)]
pub(crate) mod tests;
