//! User stacks as the tools write them, and the function of each frame: the tools name functions
//! differently, but the table of unwind rules in each file has the start of each.

use std::{
    collections::{HashMap, HashSet},
    io::BufRead,
};

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

/// Stacks without the kernel's frames, and without inlined functions, which have no frame of their own.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Stacks {
    frames: Vec<Frame>,
    /// Positions in `frames`, innermost first, and the samples with this stack.
    stacks: Vec<(Vec<usize>, u64)>,
}

impl Stacks {
    pub(crate) fn samples(&self) -> f64 {
        self.stacks.iter().map(|(_, samples)| *samples as f64).sum()
    }
}

/// Reads `perf script --no-inline -F pid,ip,sym,dso`: a line for each sample, then one for each frame.
pub(crate) fn of_perf(script: impl BufRead) -> Result<Stacks> {
    let (mut found, mut known) = (Stacks::default(), HashMap::new());
    for line in script.split(b'\n') {
        let line = line.context("cannot read what perf printed")?;
        let line = String::from_utf8_lossy(&line);
        let Some(frame) = line.strip_prefix('\t') else {
            found.stacks.extend((!line.trim().is_empty()).then(|| (Vec::new(), 1)));
            continue;
        };
        if let (Some(frame), Some((stack, _))) = (perf_frame(frame), found.stacks.last_mut()) {
            let next = known.len();
            stack.push(*known.entry(frame.clone()).or_insert(next));
            found.frames.extend((known.len() > next).then_some(frame));
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
        // A frame's position in `frames`, where it is one of those that count.
        let mut frames: Vec<Option<usize>> = Vec::new();
        for index in 0..thread.column("/frameTable/func").len() {
            let frame = thread.frame(index, place);
            frames.push(frame.is_some().then_some(found.frames.len()));
            found.frames.extend(frame);
        }
        let weights = thread.column("/samples/weight");
        for (index, stack) in thread.column("/samples/stack").iter().enumerate() {
            let weight = weights.get(index).map_or(Some(1), Value::as_u64).unwrap_or(0);
            if weight > 0 && !stack.is_null() {
                let stack = thread.stack(stack).filter_map(|frame| *frames.get(frame)?).collect();
                found.stacks.push((stack, weight));
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

    /// A frame, unless it is inlined, or of the kernel.
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

const VDSO: &str = "[vdso]";

/// A function, by its file and its start; by a name where that is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Function {
    At(String, u64),
    Named(String),
}

/// The files and functions that were seen so far.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    files: HashMap<String, Option<Code>>,
    roots: HashSet<Function>,
}

#[derive(Debug, Default)]
struct Code {
    starts: Vec<u64>,
    entry: u64,
    /// Offset in the file, size, and address.
    segments: Vec<(u64, u64, u64)>,
}

impl Functions {
    fn of(&mut self, frame: &Frame) -> Function {
        let file = self.files.entry(frame.file.clone()).or_insert_with(|| Code::read(&frame.file));
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
            // Made while the program ran: perf and wingbeat cannot divide it alike.
            None => Function::Named("[code in no file]".to_owned()),
        };
        if ROOTS.contains(&frame.name.as_str()) {
            self.roots.insert(function.clone());
        }
        function
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

    /// The start of the function at a place.
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

/// What a tool saw of user code.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// Samples with a user stack.
    pub(crate) samples: u64,
    /// Of these, those whose stack begins where a process or a thread begins.
    rooted: u64,
    frames: u64,
}

impl Seen {
    pub(crate) fn of(stacks: &Stacks, functions: &mut Functions) -> Self {
        let known: Vec<Function> = stacks.frames.iter().map(|it| functions.of(it)).collect();
        let mut seen = Self::default();
        for (stack, samples) in &stacks.stacks {
            let Some(&outermost) = stack.last() else { continue };
            seen.samples += samples;
            seen.frames += samples * stack.len() as u64;
            seen.rooted += samples * u64::from(functions.roots.contains(&known[outermost]));
        }
        seen
    }

    /// The share of complete stacks, and the mean depth.
    pub(crate) fn complete_and_depth(&self) -> Option<(f64, f64)> {
        let of_samples = |count: u64| count as f64 / self.samples as f64;
        (self.samples > 0).then(|| (of_samples(self.rooted), of_samples(self.frames)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(stacks: &Stacks) -> Vec<(Vec<&str>, u64)> {
        let name = |&frame: &usize| stacks.frames[frame].name.as_str();
        stacks.stacks.iter().map(|(stack, n)| (stack.iter().map(name).collect(), *n)).collect()
    }

    #[test]
    fn stacks_of_perf() {
        let text = "  7 \n\t 1b a::operator() (x) (/x)\n\t 2 b (/x)\n\tffffffffffffffff [unknown] ([unknown])\n\n  7 \n\
            \tffffffff821f26e7 k (m)\n\t 2 b (/x)\n\t 3 c ([unknown])\nnonsense\n\n 8 \n\n";
        let found = of_perf(text.as_bytes()).expect("text");
        let expected =
            [(vec!["a::operator() (x)", "b"], 1), (vec!["b", "c"], 1), (vec![], 1), (vec![], 1)];
        assert_eq!(shown(&found), expected);
        let places: Vec<_> = found.frames.iter().map(|it| it.place).collect();
        assert_eq!(places, [Place::Offset(0x1b), Place::Offset(2), Place::Nowhere]);
    }

    #[test]
    fn stacks_of_a_firefox_profile() {
        let json = r#"{"meta": {"categories": [{"name": "User"}, {"name": "Kernel"}]},
            "libs": [{"path": "/x"}], "threads": [{"stringArray": ["main", "inlined", "k"],
            "frameTable": {"func": [0, 1, 2], "category": [0, 0, 1], "inlineDepth": [0, 1, 0],
                "address": [16, 16, -1]},
            "funcTable": {"name": [0, 1, 2], "resource": [0, 0, -1]}, "resourceTable": {"lib": [0]},
            "stackTable": {"frame": [0, 1, 2], "prefix": [null, 0, 1]},
            "samples": {"stack": [2, null, 0, 1], "weight": [1, 1, 0, 3]}}]}"#;
        let found = of_firefox(json.as_bytes(), Place::Address).expect("a profile");
        assert_eq!(shown(&found), [(vec!["main"], 1), (vec!["main"], 3)]);
        let (file, name) = ("/x".to_owned(), "main".to_owned());
        assert_eq!(found.frames, [Frame { file, place: Place::Address(16), name }]);
        assert!(of_firefox(&b"?"[..], Place::Address).is_err());
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

    #[test]
    fn depth_and_completeness() {
        let mut functions = Functions::default();
        let mut seen = |stacks: &[(&str, u64)]| {
            let mut made = Stacks::default();
            for (stack, samples) in stacks {
                let first = made.frames.len();
                // A file with a table, and no place in it.
                let (file, place) = ("/proc/self/exe", Place::Nowhere);
                made.frames.extend(stack.split_whitespace().map(|name| Frame {
                    file: file.to_owned(),
                    place,
                    name: name.to_owned(),
                }));
                made.stacks.push(((first..made.frames.len()).collect(), *samples));
            }
            Seen::of(&made, &mut functions)
        };
        let shallow = seen(&[("b a _start", 3), ("a", 1), ("", 5)]);
        assert_eq!(shallow.complete_and_depth(), Some((0.75, 2.5)));
        assert_eq!(seen(&[]).complete_and_depth(), None);
    }
}
