//! A table that numbers distinct entries.

use std::{borrow::Borrow, hash::Hash};

use rustc_hash::FxHashMap;

/// A table that stores each entry once.
#[derive(Debug)]
pub struct Interner<T> {
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
    pub fn id(&mut self, entry: T) -> u32 {
        *self.ids.entry(entry).or_insert_with_key(|entry| {
            self.entries.push(entry.clone());
            // Memory runs out before numbers do.
            self.entries.len() as u32 - 1
        })
    }

    /// Same for a borrowed entry, which is copied only if it is missing.
    pub fn id_of<Q>(&mut self, entry: &Q) -> u32
    where
        T: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = T> + ?Sized,
    {
        match self.ids.get(entry) {
            Some(id) => *id,
            None => self.id(entry.to_owned()),
        }
    }
}
