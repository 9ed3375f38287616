//! A table that numbers distinct entries.

use std::hash::Hash;

use rustc_hash::FxHashMap;

/// A table that stores each entry once.
#[derive(Debug)]
pub(crate) struct Interner<T> {
    pub entries: Vec<T>,
    ids: FxHashMap<T, u32>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), ids: FxHashMap::default() }
    }
}

impl<T: Clone + Eq + Hash> Interner<T> {
    /// Returns the index of an entry, adding it if missing.
    pub(crate) fn id(&mut self, entry: T) -> u32 {
        *self.ids.entry(entry).or_insert_with_key(|entry| {
            self.entries.push(entry.clone());
            self.entries.len() as u32 - 1
        })
    }
}
