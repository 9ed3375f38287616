//! User stacks as the tools write them, and whether they are complete: the tools name functions
//! differently, but the table of unwind rules in each file has the start of each.

use std::{
    collections::{HashMap, HashSet},
    io::BufRead,
};

use gimli::{BaseAddresses, EhFrameHdr, LittleEndian};
use object::{Object as _, ObjectSection as _, ObjectSegment as _};

use crate::prelude::*;

/// Where code lies in its file, as the tool counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// Bytes from the start of the file: perf.
    Offset(u64),
    /// As the file's headers count: wingbeat.
    Address(u64),
    /// From the lowest address in the headers: samply.
    Relative(u64),
    Nowhere,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Frame {
    file: String,
    place: Place,
    name: String,
}

/// User stacks, each with its outermost frame, the number of its frames, and the samples with it. Frames of the kernel
/// and of inlined functions do not count.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Stacks {
    stacks: Vec<(Frame, u64, u64)>,
    /// Also of those without a user stack.
    pub(crate) samples: u64,
}

impl Stacks {
    fn add(&mut self, outermost: Option<Frame>, depth: usize, samples: u64) {
        self.samples += samples;
        self.stacks.extend(outermost.map(|frame| (frame, depth as u64, samples)));
    }

    /// The share of stacks that begin where a process or a thread begins, and the mean depth.
    pub(crate) fn complete_and_depth(&self, functions: &mut Functions) -> Option<(f64, f64)> {
        let (mut samples, mut rooted, mut frames) = (0, 0, 0);
        for (outermost, depth, weight) in &self.stacks {
            samples += weight;
            frames += weight * depth;
            rooted += weight * u64::from(functions.is_root(outermost));
        }
        let of_samples = |count: u64| count as f64 / samples as f64;
        (samples > 0).then(|| (of_samples(rooted), of_samples(frames)))
    }
}

/// Reads `perf script --no-inline -F pid,ip,sym,dso`: a line for each sample, then one for each frame.
pub(crate) fn of_perf(script: impl BufRead) -> Result<Stacks> {
    let (mut found, mut outermost, mut depth) = (Stacks::default(), None, 0);
    for line in script.split(b'\n') {
        let line = line.context("cannot read what perf printed")?;
        let line = String::from_utf8_lossy(&line);
        if let Some(frame) = line.strip_prefix('\t') {
            let frame = perf_frame(frame);
            depth += usize::from(frame.is_some());
            outermost = frame.or(outermost);
        } else if line.trim().is_empty() {
            // The end of a sample.
            found.add(outermost.take(), std::mem::take(&mut depth), 1);
        }
    }
    Ok(found)
}

/// `7b835d _start (/usr/bin/node)`; nothing for the kernel's half of the addresses, and for the address
/// of ones that ends a stack that perf gave up.
fn perf_frame(line: &str) -> Option<Frame> {
    let (address, rest) = line.trim_start().split_once(' ')?;
    let address = u64::from_str_radix(address, 16).ok()?;
    let (name, file) = rest.trim_end().strip_suffix(')')?.rsplit_once(" (")?;
    let place = if file.starts_with('/') { Place::Offset(address) } else { Place::Nowhere };
    (address >> 63 == 0).then(|| Frame { file: file.to_owned(), place, name: name.to_owned() })
}

/// Reads a profile for the Firefox Profiler; `place` says how its addresses count.
pub(crate) fn of_firefox(json: impl Read, place: fn(u64) -> Place) -> Result<Stacks> {
    let profile: Value =
        serde_json::from_reader(json).context("not a profile for the Firefox Profiler")?;
    let mut found = Stacks::default();
    for thread in profile["threads"].as_array().into_iter().flatten() {
        let thread = Thread { profile: &profile, thread };
        let count = thread.column("/frameTable/func").len();
        let frames: Vec<_> = (0..count).map(|index| thread.frame(index, place)).collect();
        let weights = thread.column("/samples/weight");
        for (index, stack) in thread.column("/samples/stack").iter().enumerate() {
            let weight = weights.get(index).map_or(Some(1), Value::as_u64).unwrap_or(0);
            if weight > 0 && !stack.is_null() {
                let stack = thread.stack(stack).filter_map(|at| frames.get(at)?.as_ref());
                let stack: Vec<&Frame> = stack.collect();
                found.add(stack.last().copied().cloned(), stack.len(), weight);
            }
        }
    }
    Ok(found)
}

/// A thread of such a profile, whose tables later versions keep for all threads at once.
struct Thread<'a> {
    profile: &'a Value,
    thread: &'a Value,
}

impl<'a> Thread<'a> {
    fn column(&self, path: &str) -> &'a [Value] {
        let found = self.thread.pointer(path).or_else(|| self.profile["shared"].pointer(path));
        found.and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    fn number(&self, path: &str, index: usize) -> Option<usize> {
        self.column(path).get(index)?.as_u64()?.try_into().ok()
    }

    fn stack(&self, stack: &Value) -> impl Iterator<Item = usize> {
        let first = stack.as_u64().and_then(|stack| usize::try_from(stack).ok());
        std::iter::successors(first, |&stack| self.number("/stackTable/prefix", stack))
            .filter_map(|stack| self.number("/stackTable/frame", stack))
    }

    fn frame(&self, index: usize, place: fn(u64) -> Place) -> Option<Frame> {
        let category = self.number("/frameTable/category", index);
        let category = category.map(|it| &self.profile["meta"]["categories"][it]["name"]);
        let is_kernel = category.is_some_and(|name| name == "Kernel" || name == "BPF");
        if is_kernel || self.number("/frameTable/inlineDepth", index).unwrap_or(0) > 0 {
            return None;
        }
        let function = self.number("/frameTable/func", index)?;
        let name = self.number("/funcTable/name", function);
        let name = name.and_then(|name| self.column("/stringArray").get(name)?.as_str());
        let resource = self.number("/funcTable/resource", function);
        let library = resource.and_then(|resource| self.number("/resourceTable/lib", resource));
        let file = library.and_then(|library| self.profile["libs"][library]["path"].as_str());
        let address = self.column("/frameTable/address").get(index).and_then(Value::as_u64);
        Some(Frame {
            file: file.unwrap_or_default().to_owned(),
            place: address.map_or(Place::Nowhere, place),
            name: name.unwrap_or_default().to_owned(),
        })
    }
}

/// The functions that no other function called: the starts of processes and threads.
const ROOTS: [&str; 7] =
    ["_start", "_dl_start_user", "clone", "__clone", "clone3", "__clone3", "thread_start"];

/// The files and roots that were seen so far. samply names nothing: its roots are those that others named.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    files: HashMap<String, Option<Code>>,
    /// By file and start.
    roots: HashSet<(String, u64)>,
}

#[derive(Debug, Default)]
struct Code {
    starts: Vec<u64>,
    entry: u64,
    segments: Vec<(u64, u64, u64)>,
}

impl Functions {
    fn is_root(&mut self, frame: &Frame) -> bool {
        let file = self.files.entry(frame.file.clone()).or_insert_with(|| Code::read(&frame.file));
        let start = file.as_ref().and_then(|file| Some((file, file.start(frame.place)?)));
        let is_named = ROOTS.contains(&frame.name.as_str());
        let Some((file, start)) = start else { return is_named };
        let function = (frame.file.clone(), start);
        if is_named || file.start(Place::Address(file.entry)) == Some(start) {
            self.roots.insert(function.clone());
        }
        self.roots.contains(&function)
    }
}

impl Code {
    fn read(path: &str) -> Option<Self> {
        let data = path.starts_with('/').then(|| fs::read(path).ok())??;
        let file = object::File::parse(&*data).ok()?;
        let header = file.section_by_name(".eh_frame_hdr");
        let starts = header.and_then(|it| starts(it.address(), it.data().ok()?));
        let segments =
            file.segments().map(|it| (it.file_range().0, it.file_range().1, it.address()));
        let segments = segments.collect();
        Some(Self { starts: starts.unwrap_or_default(), entry: file.entry(), segments })
    }

    fn start(&self, place: Place) -> Option<u64> {
        let address = match place {
            Place::Address(address) => address,
            Place::Relative(distance) => {
                let base = self.segments.iter().map(|it| it.2.saturating_sub(it.0)).min();
                distance + base?
            }
            Place::Offset(at) => {
                let mut segments = self.segments.iter();
                let holds = segments.find(|it| (it.0..it.0 + it.1).contains(&at));
                at - holds?.0 + holds?.2
            }
            Place::Nowhere => return None,
        };
        let after = self.starts.partition_point(|&start| start <= address);
        self.starts.get(after.checked_sub(1)?).copied()
    }
}

/// The starts of functions in a table at this address, in order.
fn starts(address: u64, table: &[u8]) -> Option<Vec<u64>> {
    let bases = BaseAddresses::default().set_eh_frame_hdr(address);
    let header = EhFrameHdr::new(table, LittleEndian).parse(&bases, 8).ok()?;
    header.table()?.iter(&bases).map(|entry| entry.ok()?.0.direct().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(stacks: &Stacks) -> Vec<(&str, Place, u64, u64)> {
        let stacks = stacks.stacks.iter();
        stacks.map(|(frame, depth, n)| (frame.name.as_str(), frame.place, *depth, *n)).collect()
    }

    #[test]
    fn stacks_are_read() {
        let text = "  7 \n\t 2 b (/x)\n\t 1b a::operator() (x) (/x)\n\tffffffffffffffff [unknown] ([unknown])\n\n  7 \n\
            \tffffffff821f26e7 k (m)\n\t 3 _start ([unknown])\n\n 8 \n\n";
        let found = of_perf(text.as_bytes()).expect("text");
        let expected =
            [("a::operator() (x)", Place::Offset(0x1b), 2, 1), ("_start", Place::Nowhere, 1, 1)];
        assert_eq!(shown(&found), expected);
        assert_eq!(found.complete_and_depth(&mut Functions::default()), Some((0.5, 1.5)));
        let json = r#"{"meta": {"categories": [{"name": "User"}, {"name": "Kernel"}]},
            "libs": [{"path": "/x"}], "threads": [{"stringArray": ["main", "inlined", "k"],
            "frameTable": {"func": [0, 1, 2], "category": [0, 0, 1], "inlineDepth": [0, 1, 0],
                "address": [16, 16, -1]},
            "funcTable": {"name": [0, 1, 2], "resource": [0, 0, -1]}, "resourceTable": {"lib": [0]},
            "stackTable": {"frame": [0, 1, 2], "prefix": [null, 0, 1]},
            "samples": {"stack": [2, null, 0, 1], "weight": [1, 1, 0, 3]}}]}"#;
        let found = of_firefox(json.as_bytes(), Place::Address).expect("a profile");
        let main = |samples| ("main", Place::Address(16), 1, samples);
        assert_eq!((shown(&found), found.samples), (vec![main(1), main(3)], 4));
        assert_eq!(found.stacks[0].0.file, "/x");
        assert!(of_firefox(&b"?"[..], Place::Address).is_err());
        assert_eq!(Stacks::default().complete_and_depth(&mut Functions::default()), None);
    }

    #[test]
    fn starts_are_found_however_a_tool_counts() {
        let segments = vec![(0, 0x100, 0x40_0000), (0x200, 0x1000, 0x40_1000)];
        let file = Code { starts: vec![0x40_1000, 0x40_1040], entry: 0x40_1000, segments };
        let check = |place, expected| assert_eq!(file.start(place), expected, "{place:?}");
        check(Place::Address(0x40_1040), Some(0x40_1040));
        check(Place::Address(0x40_0fff), None);
        check(Place::Offset(0x241), Some(0x40_1040));
        check(Place::Offset(0x1200), None);
        check(Place::Nowhere, None);
        let head = [1, 0x1b, 0x03, 0x3b, 0, 0, 0, 0, 2, 0, 0, 0];
        let pairs = [0xf0, 0xff, 0xff, 0xff, 9, 9, 9, 9, 0x10, 0, 0, 0, 9, 9, 9, 9];
        let table = [&head[..], &pairs].concat();
        assert_eq!(starts(0x1000, &table), Some(vec![0xff0, 0x1010]));
        assert_eq!(starts(0x1000, &head[..11]), None);
    }
}
