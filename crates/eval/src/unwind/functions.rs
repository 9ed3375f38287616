//! Which function a frame is in, the same for all tools: they name functions differently, but the table
//! of unwind rules in each file says where each begins.

use std::{
    collections::{HashMap, HashSet},
    fs,
};

use object::{Object as _, ObjectSection as _, ObjectSegment as _};

use super::stacks::{Frame, Place};

/// The functions that no other function called: the starts of processes and threads.
const ROOTS: [&str; 7] =
    ["_start", "_dl_start_user", "clone", "__clone", "clone3", "__clone3", "thread_start"];

/// Code that was made while the program ran is one function, as perf and wingbeat cannot split it alike.
const MADE: &str = "[code in no file]";

/// Code that the kernel brings along.
const VDSO: &str = "[vdso]";

/// A function, by its file and where it begins; by a name where that is not known.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Function {
    At(String, u64),
    Named(String),
}

/// What is known of the files and functions that were seen so far.
#[derive(Debug, Default)]
pub(super) struct Functions {
    files: HashMap<String, Option<File>>,
    names: HashMap<Function, String>,
    roots: HashSet<Function>,
}

/// What a file says about its code.
#[derive(Debug, Default)]
struct File {
    /// Where functions begin, in order.
    starts: Vec<u64>,
    entry: u64,
    /// Offset in the file, its size, and the address.
    segments: Vec<(u64, u64, u64)>,
}

impl Functions {
    /// The function of a frame; remembers its name for the tables.
    pub(super) fn of(&mut self, frame: &Frame) -> Function {
        let file = self.files.entry(frame.file.clone()).or_insert_with(|| File::read(&frame.file));
        let function = match file.as_ref().map(|file| (file, file.start(frame.place))) {
            Some((file, Some(start))) => {
                let function = Function::At(frame.file.clone(), start);
                if file.start(Place::Address(file.entry)) == Some(start) {
                    self.roots.insert(function.clone());
                }
                function
            }
            Some((_, None)) => Function::Named(frame.name.clone()),
            None if frame.file == VDSO => Function::Named(VDSO.to_owned()),
            None => Function::Named(MADE.to_owned()),
        };
        if ROOTS.contains(&frame.name.as_str()) {
            self.roots.insert(function.clone());
        }
        self.names.entry(function.clone()).or_insert_with(|| frame.name.clone());
        function
    }

    pub(super) fn is_root(&self, function: &Function) -> bool {
        self.roots.contains(function)
    }

    /// What it was called by the first tool that saw it.
    pub(super) fn name<'a>(&'a self, function: &'a Function) -> &'a str {
        match function {
            Function::Named(name) => name,
            Function::At(..) => self.names.get(function).map_or("", String::as_str),
        }
    }
}

impl File {
    fn read(path: &str) -> Option<Self> {
        if !path.starts_with('/') {
            return None;
        }
        let data = fs::read(path).ok()?;
        let file = object::File::parse(&*data).ok()?;
        let header = file.section_by_name(".eh_frame_hdr");
        let starts = header.and_then(|it| starts(it.address(), it.data().ok()?));
        let segment = |it: object::Segment<'_, '_>| {
            let (offset, size) = it.file_range();
            (offset, size, it.address())
        };
        Some(Self {
            starts: starts.unwrap_or_default(),
            entry: file.entry(),
            segments: file.segments().map(segment).collect(),
        })
    }

    /// Where the function at a place begins.
    fn start(&self, place: Place) -> Option<u64> {
        let address = match place {
            Place::Address(address) => address,
            Place::Relative(distance) => {
                let base = self.segments.iter().map(|it| it.2.saturating_sub(it.0)).min();
                distance + base?
            }
            Place::Offset(at) => {
                let holds =
                    |&&(offset, size, _): &&(u64, u64, u64)| (offset..offset + size).contains(&at);
                let (offset, _, address) = self.segments.iter().find(holds)?;
                at - offset + address
            }
            Place::Nowhere => return None,
        };
        let after = self.starts.partition_point(|&start| start <= address);
        self.starts.get(after.checked_sub(1)?).copied()
    }
}

/// The first addresses in a table as linkers make it: of pairs of distances from the table, in order.
fn starts(address: u64, table: &[u8]) -> Option<Vec<u64>> {
    let (header, pairs) = table.split_at_checked(12)?;
    // Version 1, any pointer of four bytes, the count as a number, pairs of signed distances.
    let [1, _, 0x03, 0x3b, ..] = header else { return None };
    let count = u32::from_le_bytes(header[8..].try_into().ok()?) as usize;
    let distance = |pair: &[u8]| Some(i32::from_le_bytes(pair[..4].try_into().ok()?));
    let pairs = pairs.chunks_exact(8).take(count);
    pairs.map(|pair| address.checked_add_signed(distance(pair)?.into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_in_all_ways_of_counting() {
        let file = File {
            starts: vec![0x40_1000, 0x40_1040],
            entry: 0x40_1000,
            segments: vec![(0, 0x100, 0x40_0000), (0x200, 0x1000, 0x40_1000)],
        };
        let check = |place, expected| assert_eq!(file.start(place), expected, "{place:?}");
        check(Place::Address(0x40_1040), Some(0x40_1040));
        check(Place::Address(0x40_103f), Some(0x40_1000));
        check(Place::Address(0x40_0fff), None);
        check(Place::Offset(0x241), Some(0x40_1040));
        check(Place::Offset(0x1200), None);
        check(Place::Nowhere, None);
    }

    #[test]
    fn tables_of_starts_are_read() {
        let check = |table: &[u8], expected: Option<&[u64]>| {
            assert_eq!(starts(0x1000, table).as_deref(), expected, "{table:?}");
        };
        let head = [1, 0x1b, 0x03, 0x3b, 0, 0, 0, 0, 2, 0, 0, 0];
        let pairs = [0xf0, 0xff, 0xff, 0xff, 9, 9, 9, 9, 0x10, 0, 0, 0, 9, 9, 9, 9];
        check(&[&head[..], &pairs].concat(), Some(&[0xff0, 0x1010]));
        check(&[1, 0x1b, 0x03, 0xff, 0, 0, 0, 0, 2, 0, 0, 0], None);
        check(&head[..11], None);
    }
}
