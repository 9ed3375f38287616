//! Names in Go programs linked without symbols.

use std::{cell::OnceCell, fs::File};

use wingbeat_unwind::GoTable;

use crate::foreign::Bounded;

/// A file that may be a Go program. It is read on demand, and only as far as necessary.
#[derive(Default)]
pub(super) struct GoNames<'a> {
    data: Option<Bounded<'a>>,
}

/// Its function table, searched on first use; `None` if there is none.
#[derive(Default)]
pub(super) struct Functions<'g, 'a>(OnceCell<Option<GoTable<&'g Bounded<'a>>>>);

impl<'a> GoNames<'a> {
    pub(super) fn new(file: Option<&'a File>) -> Self {
        Self { data: file.map(Bounded::new) }
    }

    /// The function at an address, with file and line.
    pub(super) fn place<'g>(
        &'g self,
        functions: &Functions<'g, 'a>,
        address: u64,
    ) -> Option<(String, Option<(String, u32)>)> {
        let table = functions.0.get_or_init(|| GoTable::find(self.data.as_ref()?));
        let found = table.as_ref()?.location(address)?;
        let source = found.source.map(|(file, line)| (file.into_owned(), line));
        Some((found.function.into_owned(), source))
    }
}
