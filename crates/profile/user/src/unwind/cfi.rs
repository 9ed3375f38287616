//! Unwind rules from `.eh_frame`, reduced to what the two registers of a frame need.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, FrameDescriptionEntry, NativeEndian,
    ParsedEhFrameHdr, Register, RegisterRule, UnwindContext, UnwindSection as _, UnwindTableRow,
};

type Bytes<'a> = EndianSlice<'a, NativeEndian>;

/// DWARF numbers of the registers, from the psABI of each architecture.
#[cfg(target_arch = "x86_64")]
mod register {
    use gimli::{Register, X86_64};
    pub(super) const SP: Register = X86_64::RSP;
    pub(super) const BP: Register = X86_64::RBP;
    pub(super) const RETURN: Register = X86_64::RA;
}
#[cfg(target_arch = "aarch64")]
mod register {
    use gimli::{AArch64, Register};
    pub(super) const SP: Register = AArch64::SP;
    pub(super) const BP: Register = AArch64::X29;
    pub(super) const RETURN: Register = AArch64::X30;
}

/// How to get from a function to its caller, at one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnwindRow {
    /// There is no caller: the entry point of a thread.
    End,
    /// The canonical frame address is a register plus an offset, and the return address lies at an
    /// offset from it.
    Frame {
        /// What the canonical frame address counts from.
        base: Base,
        /// Canonical frame address minus base.
        cfa_offset: i64,
        /// Place of the return address, minus canonical frame address.
        return_offset: i64,
        /// Place of the caller's frame pointer, minus canonical frame address, if it was saved.
        bp_offset: Option<i64>,
    },
    /// Something that needs more than this reader knows: an expression, another register.
    Other,
}

/// A register that frames are addressed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    /// The stack pointer: no frame pointer here.
    Sp,
    Bp,
}

/// The unwind tables of one file.
#[derive(Debug)]
pub(crate) struct Cfi {
    eh_frame: Vec<u8>,
    index: Option<Vec<u8>>,
    bases: BaseAddresses,
}

impl Cfi {
    /// From the sections with their addresses; `text` is the address of `.text`.
    pub(crate) fn new(eh_frame: (u64, Vec<u8>), index: Option<(u64, Vec<u8>)>, text: u64) -> Self {
        let mut bases = BaseAddresses::default().set_eh_frame(eh_frame.0).set_text(text);
        if let Some((address, _)) = &index {
            bases = bases.set_eh_frame_hdr(*address);
        }
        Self { eh_frame: eh_frame.1, index: index.map(|(_, bytes)| bytes), bases }
    }

    /// The rule at an ELF address; `None` if the table does not cover it.
    pub(crate) fn row(&self, address: u64) -> Option<UnwindRow> {
        let eh_frame = EhFrame::new(&self.eh_frame, NativeEndian);
        let mut context = UnwindContext::new();
        let bases = &self.bases;
        let row = match self.parsed_index() {
            Some(index) => {
                let entry = self.indexed_entry(&index, &eh_frame, address)?;
                entry.unwind_info_for_address(&eh_frame, bases, &mut context, address).ok()?
            }
            // Without an index: one by one. Linkers make one by default.
            None => eh_frame
                .unwind_info_for_address(bases, &mut context, address, EhFrame::cie_from_offset)
                .ok()?,
        };
        Some(reduce(row))
    }

    /// As gimli's `fde_for_address`, which takes it for granted that the index points behind the
    /// beginning of the table that it belongs to.
    fn indexed_entry<'a>(
        &self,
        index: &ParsedEhFrameHdr<Bytes<'a>>,
        eh_frame: &EhFrame<Bytes<'a>>,
        address: u64,
    ) -> Option<FrameDescriptionEntry<Bytes<'a>>> {
        let pointer = index.table()?.lookup(address, &self.bases).ok()?.direct().ok()?;
        let table = index.eh_frame_ptr().direct().ok()?;
        let offset = usize::try_from(pointer.checked_sub(table)?).ok()?;
        let entry =
            eh_frame.fde_from_offset(&self.bases, offset.into(), EhFrame::cie_from_offset).ok()?;
        entry.contains(address).then_some(entry)
    }

    fn parsed_index(&self) -> Option<ParsedEhFrameHdr<Bytes<'_>>> {
        let bytes = self.index.as_deref()?;
        let index = EhFrameHdr::new(bytes, NativeEndian);
        let parsed = index.parse(&self.bases, size_of::<usize>() as u8).ok()?;
        // More entries than bytes are a lie, with which gimli's binary search overflows.
        let (entries, _) = parsed.table()?.iter(&self.bases).size_hint();
        (entries <= bytes.len()).then_some(parsed)
    }
}

fn reduce(row: &UnwindTableRow<usize>) -> UnwindRow {
    let CfaRule::RegisterAndOffset { register, offset: cfa_offset } = *row.cfa() else {
        return UnwindRow::Other;
    };
    let base = match register {
        register::SP => Base::Sp,
        register::BP => Base::Bp,
        _ => return UnwindRow::Other,
    };
    let return_offset = match saved_at(row, register::RETURN) {
        Saved::At(offset) => offset,
        Saved::Undefined => return UnwindRow::End,
        Saved::Unchanged | Saved::Other => return UnwindRow::Other,
    };
    let bp_offset = match saved_at(row, register::BP) {
        Saved::At(offset) => Some(offset),
        Saved::Undefined | Saved::Unchanged => None,
        Saved::Other => return UnwindRow::Other,
    };
    UnwindRow::Frame { base, cfa_offset, return_offset, bp_offset }
}

enum Saved {
    /// In memory, at an offset from the canonical frame address.
    At(i64),
    /// Said to have no value: for the return address, how entry points are marked.
    Undefined,
    /// Still in its register.
    Unchanged,
    Other,
}

fn saved_at(row: &UnwindTableRow<usize>, register: Register) -> Saved {
    match row.register(register) {
        Some(RegisterRule::Offset(offset)) => Saved::At(offset),
        Some(RegisterRule::Undefined) => Saved::Undefined,
        None | Some(RegisterRule::SameValue) => Saved::Unchanged,
        Some(_) => Saved::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An index with absolute addresses of 8 bytes each: of the table, then of one entry.
    fn index(entries: u64, table: u64, entry: u64) -> Vec<u8> {
        let udata8 = 4;
        let words = [table, entries, 0x1000, entry].into_iter().flat_map(u64::to_le_bytes);
        [1, udata8, udata8, udata8].into_iter().chain(words).collect()
    }

    #[test]
    fn an_index_that_lies_gives_no_rule() {
        let check = |entries, table, entry| {
            let index = Some((0x3000, index(entries, table, entry)));
            let tables = Cfi::new((0x4000, vec![0; 32]), index, 0x1000);
            assert_eq!(tables.row(0x1000), None, "{entries:#x} {table:#x} {entry:#x}");
        };
        check(1, 0x4000, 0x4000);
        check(1, 0x4000, 0x3fff);
        check(1, 0x4000, u64::MAX);
        check(u64::MAX, 0x4000, 0x4000);
        check(2, 0x4000, 0x4000);
    }
}
