//! A file's code, by address.

use std::{cell::Cell, collections::HashMap};

use object::{
    Object as _, ObjectSegment as _, ObjectSymbol as _, ObjectSymbolTable as _, ReadRef,
    RelocationTarget,
};

/// A file's code.
pub(crate) struct Text<'data> {
    segments: Vec<Segment<'data>>,
    /// Functions of the file itself by the slots through which it calls them, so that others can override them.
    own: HashMap<u64, u64>,
    /// Remaining instructions to decode.
    left: Cell<usize>,
}

struct Segment<'data> {
    address: u64,
    bytes: &'data [u8],
    file_offset: u64,
}

impl<'data> Text<'data> {
    pub(crate) fn of<R: ReadRef<'data>>(file: &object::File<'data, R>) -> Self {
        let code = file.segments().filter(|segment| segment.permissions().executable());
        let segments = code.filter_map(|segment| {
            let bytes = segment.data().ok()?;
            Some(Segment { address: segment.address(), bytes, file_offset: segment.file_range().0 })
        });
        Self { segments: segments.collect(), own: own(file), left: Cell::new(LOOKS_MAX) }
    }

    /// Code at a single address.
    #[cfg(test)]
    pub(super) fn at(address: u64, bytes: &'data [u8]) -> Self {
        let segments = vec![Segment { address, bytes, file_offset: 0 }];
        Self { segments, own: HashMap::new(), left: Cell::new(LOOKS_MAX) }
    }

    #[cfg(test)]
    pub(super) fn link(&mut self, slot: u64, function: u64) {
        self.own.insert(slot, function);
    }

    /// The function of this file that the loader stores in a memory slot, unless another file defines the same name.
    pub(super) fn own(&self, slot: u64) -> Option<u64> {
        self.own.get(&slot).copied()
    }

    /// Counts a decoded instruction; `None` beyond the limit.
    pub(super) fn look(&self) -> Option<()> {
        self.left.set(self.left.get().checked_sub(1)?);
        Some(())
    }

    /// The bytes from an address to the end of its segment.
    pub(crate) fn from(&self, address: u64) -> Option<&'data [u8]> {
        self.segments.iter().find_map(|segment| {
            let within = usize::try_from(address.checked_sub(segment.address)?).ok()?;
            segment.bytes.get(within..).filter(|bytes| !bytes.is_empty())
        })
    }

    /// File offset of the byte at an address.
    pub(crate) fn offset(&self, address: u64) -> Option<u64> {
        self.segments.iter().find_map(|segment| {
            let within = address.checked_sub(segment.address)?;
            (within < segment.bytes.len() as u64).then(|| segment.file_offset + within)
        })
    }
}

fn own<'data, R: ReadRef<'data>>(file: &object::File<'data, R>) -> HashMap<u64, u64> {
    let Some(symbols) = file.dynamic_symbol_table() else { return HashMap::new() };
    let relocations = file.dynamic_relocations().into_iter().flatten();
    let own = relocations.filter_map(|(slot, relocation)| {
        let RelocationTarget::Symbol(index) = relocation.target() else { return None };
        let symbol = symbols.symbol_by_index(index).ok()?;
        symbol.is_definition().then_some((slot, symbol.address()))
    });
    own.collect()
}

/// Maximum instructions to decode per file, since files are untrusted. A C library needs 2,000.
pub(super) const LOOKS_MAX: usize = 100_000;
