//! Names that were found before: a recording in windows meets the same code again and again.

use rustc_hash::FxHashMap;

use super::{
    places::{CodePlace, Space},
    tables::{Named, Tables},
};
use crate::model::{Function, Line};

/// Places that are kept, at least the half of them that was used last.
const PLACES_MAX: usize = 1 << 17;

/// A function, and its place in the source.
type KnownLine = (Function, Option<String>, Option<u32>);

/// Names by place, of code that stays what it is.
#[derive(Debug, Default)]
pub(crate) struct KnownNames {
    young: FxHashMap<(Space, u64), Vec<KnownLine>>,
    old: FxHashMap<(Space, u64), Vec<KnownLine>>,
}

impl KnownNames {
    /// The names of a place, if they are known.
    pub(super) fn get(&mut self, place: &CodePlace) -> Option<&[KnownLine]> {
        let key = key(place)?;
        if let Some(lines) = self.old.remove(&key) {
            self.put(key, lines);
        }
        self.young.get(&key).map(Vec::as_slice)
    }

    /// Keeps what was found.
    pub(super) fn keep(&mut self, place: &CodePlace, named: &Named, tables: &Tables) {
        let Some(key) = key(place) else { return };
        let known = |line: &Line| {
            let function = tables.functions.entries.get(line.function as usize)?;
            Some((function.clone(), line.file.clone(), line.line))
        };
        if let Some(lines) = named.lines.iter().map(known).collect() {
            self.put(key, lines);
        }
    }

    /// The kernel has other code now.
    pub(crate) fn forget_kernel(&mut self) {
        for names in [&mut self.young, &mut self.old] {
            names.retain(|(space, _), _| *space != Space::Kernel);
        }
    }

    fn put(&mut self, key: (Space, u64), lines: Vec<KnownLine>) {
        if self.young.len() >= PLACES_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, lines);
    }
}

/// Code of a file or of the kernel; what compilers make at run time may be other code tomorrow.
fn key(place: &CodePlace) -> Option<(Space, u64)> {
    match place.space {
        Space::File(_) | Space::Kernel => Some((place.space, place.address)),
        Space::Anonymous(..) | Space::Unmapped => None,
    }
}
