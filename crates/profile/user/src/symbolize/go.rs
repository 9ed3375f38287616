//! Names in Go programs that were linked without symbols.

use std::fs::File;

use object::read::ReadCache;
use wingbeat_unwind::GoTable;

use super::places::Space;
use crate::recorder::binaries::Binaries;

/// A file that may be of Go. It is read when somebody asks, and no more of it than the answers need.
pub(super) struct GoNames<'a> {
    data: Option<ReadCache<&'a File>>,
}

impl<'a> GoNames<'a> {
    pub(super) fn new(binaries: &'a Binaries, space: Space) -> Self {
        let file = match space {
            Space::File(id) => binaries.get(id).and_then(|binary| binary.file()),
            Space::Anonymous(..) | Space::Kernel | Space::Unmapped => None,
        };
        Self { data: file.map(ReadCache::new) }
    }

    /// The file's table of functions; `None` if it has none.
    pub(super) fn table(&self) -> Option<GoTable<&ReadCache<&'a File>>> {
        GoTable::find(self.data.as_ref()?)
    }
}
