//! Cache of names: a recording in windows meets the same code again and again.
//!
//! For files with a build id, whole functions are cached, so that other addresses in them need no access to the
//! file. These may be stored on disk (`store`) for the next process.

pub(crate) mod store;

use std::{
    io, mem,
    path::Path,
    time::{Duration, Instant},
};

use rustc_hash::FxHashMap;

use self::store::{Functions, KnownFunction, NameStore};
use super::tables::{Named, Tables};
use crate::symbolize::locations::{CodeLocation, Space};
use crate::{
    model::{Function, Line},
    recorder::binaries::Binaries,
    unwind::Image,
};

/// Maximum number of locations; at least the most recently used half is kept.
const LOCATIONS_MAX: usize = 1 << 17;

/// Maximum number of functions; those of least recently used files are evicted.
const FUNCTIONS_MAX: usize = 1 << 17;

/// Interval of writing new functions.
const SAVE_INTERVAL: Duration = Duration::from_secs(60);

/// Functions starting before an address to consider: functions may be nested.
const NESTED_MAX: usize = 4;

/// A function and its source position.
pub(super) type KnownLine = (Function, Option<String>, Option<u32>);

/// Names by location, for immutable code.
#[derive(Debug, Default)]
pub(crate) struct KnownNames {
    young: FxHashMap<(Space, u64), Vec<KnownLine>>,
    old: FxHashMap<(Space, u64), Vec<KnownLine>>,
    /// By build id.
    files: FxHashMap<Vec<u8>, KnownFile>,
    functions: usize,
    /// Counter of windows.
    window: u64,
    store: Option<NameStore>,
    saved: Option<Instant>,
    pub(crate) counts: NameCounts,
}

/// Counts of file accesses for names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NameCounts {
    /// Files with a build id that were read, per window.
    pub read: u64,
    /// Files whose names were on disk.
    pub loaded: u64,
    /// Names files written.
    pub saved: u64,
}

#[derive(Debug, Default)]
struct KnownFile {
    functions: Functions,
    /// Some functions are not on disk.
    is_new: bool,
    /// Last use.
    window: u64,
}

impl KnownNames {
    /// Also stores names in a folder, up to a size in bytes.
    pub(crate) fn keep_in(&mut self, folder: &Path, bytes_max: u64) -> io::Result<()> {
        self.store = Some(NameStore::open(folder, bytes_max)?);
        Ok(())
    }

    /// The names of a location, if cached.
    pub(super) fn get(
        &mut self,
        location: &CodeLocation,
        binaries: &Binaries,
    ) -> Option<Vec<KnownLine>> {
        if let Some(build_id) = build_id(location, binaries)
            && let Some((_, known)) = self.function(build_id, location.address)
        {
            let function = Function { name: known.name.clone(), is_symbol: true };
            let (file, line) = known.source.clone().unzip();
            return Some(vec![(function, file, line)]);
        }
        let key = key(location)?;
        if let Some(lines) = self.old.remove(&key) {
            self.put(key, lines);
        }
        self.young.get(&key).cloned()
    }

    /// The function of a file at an address.
    fn function(&mut self, build_id: &[u8], address: u64) -> Option<(&u64, &KnownFunction)> {
        if !self.files.contains_key(build_id) {
            let kept = self.store.as_mut().and_then(|store| store.load(build_id));
            self.counts.loaded += u64::from(kept.is_some());
            let functions = kept.unwrap_or_default();
            self.functions += functions.len();
            let file = KnownFile { functions, is_new: false, window: self.window };
            self.files.insert(build_id.to_vec(), file);
        }
        let file = self.files.get_mut(build_id)?;
        file.window = self.window;
        let before = file.functions.range(..=address).rev().take(NESTED_MAX);
        before.into_iter().find(|(_, function)| address < function.end)
    }

    /// Caches names.
    pub(super) fn keep(
        &mut self,
        location: &CodeLocation,
        named: &Named,
        tables: &Tables,
        binaries: &Binaries,
    ) {
        let Some(key) = key(location) else { return };
        let known = |line: &Line| {
            let function = tables.functions.entries.get(line.function as usize)?;
            Some((function.clone(), line.file.clone(), line.line))
        };
        let Some(lines) = named.lines.iter().map(known).collect::<Option<Vec<_>>>() else { return };
        match (build_id(location, binaries), &lines[..]) {
            (Some(build_id), [(function, file, line)]) if function.is_symbol => {
                let source = file.clone().zip(*line);
                let whole = named.range.filter(|(start, end)| {
                    source.is_none() && (*start..*end).contains(&location.address)
                });
                // If the function's extent is unknown, only this address.
                let one = (location.address, location.address.saturating_add(1));
                let (start, end) = whole.unwrap_or(one);
                let function = KnownFunction { end, name: function.name.clone(), source };
                let file = self.files.entry(build_id.to_vec()).or_default();
                file.window = self.window;
                file.is_new = true;
                let before = file.functions.insert(start, function);
                self.functions += usize::from(before.is_none());
            }
            _ => self.put(key, lines),
        }
    }

    /// Counts that a file with a build id is read.
    pub(super) fn reads(&mut self, space: Space, binaries: &Binaries) {
        let location = CodeLocation { space, address: 0, code: None };
        self.counts.read += u64::from(build_id(&location, binaries).is_some());
    }

    /// Removes kernel names, since its code has changed.
    pub(crate) fn forget_kernel(&mut self) {
        for names in [&mut self.young, &mut self.old] {
            names.retain(|(space, _), _| *space != Space::Kernel);
        }
    }

    /// Ends a window: stores new names on disk if due, and evicts the least recently used.
    ///
    /// # Errors
    ///
    /// Writing failed. It is retried with the next window.
    pub(crate) fn next_window(&mut self) -> io::Result<()> {
        self.window += 1;
        let is_due = self.saved.is_none_or(|saved| saved.elapsed() >= SAVE_INTERVAL);
        let saved = if is_due { self.save() } else { Ok(()) };
        if self.functions > FUNCTIONS_MAX {
            let mut windows: Vec<u64> = self.files.values().map(|file| file.window).collect();
            windows.sort_unstable();
            let middle = windows.get(windows.len() / 2).copied().unwrap_or(0);
            self.files.retain(|_, file| file.window > middle);
            self.functions = self.files.values().map(|file| file.functions.len()).sum();
        }
        saved
    }

    /// Frees memory; names on disk stay.
    pub(crate) fn shed(&mut self) {
        // Names that are not on disk can be found again.
        let _ = self.save();
        self.young = FxHashMap::default();
        self.old = FxHashMap::default();
        self.files = FxHashMap::default();
        self.functions = 0;
    }

    fn save(&mut self) -> io::Result<()> {
        let Some(store) = &mut self.store else { return Ok(()) };
        self.saved = Some(Instant::now());
        for (build_id, file) in self.files.iter_mut().filter(|(_, file)| file.is_new) {
            store.save(build_id, &file.functions)?;
            self.counts.saved += 1;
            file.is_new = false;
        }
        Ok(())
    }

    fn put(&mut self, key: (Space, u64), lines: Vec<KnownLine>) {
        if self.young.len() >= LOCATIONS_MAX / 2 {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(key, lines);
    }
}

impl Drop for KnownNames {
    fn drop(&mut self) {
        // No caller is left to report an error to.
        let _ = self.save();
    }
}

fn build_id<'a>(location: &CodeLocation, binaries: &'a Binaries) -> Option<&'a [u8]> {
    let Space::File(id) = location.space else { return None };
    binaries.get(id)?.image().map(Image::build_id).filter(|it| !it.is_empty())
}

/// Code of a file or of the kernel. JIT-compiled code may change.
fn key(location: &CodeLocation) -> Option<(Space, u64)> {
    match location.space {
        Space::File(_) | Space::Kernel => Some((location.space, location.address)),
        Space::Anonymous(..) | Space::Unmapped => None,
    }
}
