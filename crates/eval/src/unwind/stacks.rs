//! User stacks as the tools tell them, frame by frame, each a place in a file. Text in, stacks out.

use std::{
    collections::HashMap,
    io::{BufRead, Read},
};

use anyhow::Context as _;
use serde_json::Value;

/// Where code lies in its file, in the tool's own way of counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// Bytes from the start of the file: perf.
    Offset(u64),
    /// As the file's own headers count: wingbeat.
    Address(u64),
    /// From the lowest address that the headers name: samply.
    Relative(u64),
    /// In no file.
    Nowhere,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Frame {
    pub(super) file: String,
    pub(super) place: Place,
    pub(super) name: String,
}

/// Stacks of frames that really are on the stack: inlined functions have none of their own.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Stacks {
    pub(super) frames: Vec<Frame>,
    /// Positions in `frames`, innermost first, without the kernel's; and how many samples had them.
    pub(super) stacks: Vec<(Vec<usize>, u64)>,
}

/// Reads `perf script --no-inline -F pid,ip,sym,dso`: a line for each sample, then one for each frame.
pub(super) fn of_perf(script: impl BufRead) -> anyhow::Result<Stacks> {
    let mut found = Stacks::default();
    let mut known = HashMap::new();
    for line in script.split(b'\n') {
        let line = line.context("cannot read what perf printed")?;
        let line = String::from_utf8_lossy(&line);
        let Some(frame) = line.strip_prefix('\t') else {
            if !line.trim().is_empty() {
                found.stacks.push((Vec::new(), 1));
            }
            continue;
        };
        if let (Some(frame), Some((stack, _))) = (perf_frame(frame), found.stacks.last_mut()) {
            let next = known.len();
            stack.push(*known.entry(frame.clone()).or_insert(next));
            if known.len() > next {
                found.frames.push(frame);
            }
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
    let frame = || Frame { file: file.to_owned(), place, name: name.to_owned() };
    (address >> 63 == 0).then(frame)
}

/// Reads a profile for the Firefox Profiler.
///
/// samply names nothing in it, and counts from the lowest address of the file: `place` says how.
pub(super) fn of_firefox(json: impl Read, place: fn(u64) -> Place) -> anyhow::Result<Stacks> {
    let profile: Value =
        serde_json::from_reader(json).context("this is no profile for the Firefox Profiler")?;
    let mut found = Stacks::default();
    for thread in profile["threads"].as_array().into_iter().flatten() {
        let thread = Thread { profile: &profile, thread };
        // A frame's position in `frames`, where it is one of those that count.
        let count = thread.column("/frameTable/func").len();
        let frames: Vec<Option<usize>> = (0..count)
            .map(|index| {
                found.frames.push(thread.frame(index, place)?);
                Some(found.frames.len() - 1)
            })
            .collect();
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

    /// The frames of a stack, innermost first.
    fn stack(&self, stack: &Value) -> impl Iterator<Item = usize> {
        let first = stack.as_u64().and_then(|stack| usize::try_from(stack).ok());
        std::iter::successors(first, |&stack| self.number("/stackTable/prefix", stack))
            .filter_map(|stack| self.number("/stackTable/frame", stack))
    }

    /// A frame, unless it is inlined, or of the kernel.
    fn frame(&self, index: usize, place: fn(u64) -> Place) -> Option<Frame> {
        let category = self.number("/frameTable/category", index);
        let category =
            category.map(|category| &self.profile["meta"]["categories"][category]["name"]);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(stacks: &Stacks) -> Vec<(Vec<&str>, u64)> {
        let name = |&frame: &usize| stacks.frames[frame].name.as_str();
        stacks.stacks.iter().map(|(stack, n)| (stack.iter().map(name).collect(), *n)).collect()
    }

    #[test]
    fn perf_frames_are_read() {
        let check = |line: &str, expected: Option<(&str, Place, &str)>| {
            let found = perf_frame(line);
            let found = found.as_ref().map(|it| (it.file.as_str(), it.place, it.name.as_str()));
            assert_eq!(found, expected, "{line}");
        };
        let offset = Place::Offset(0x1b);
        check("   1b main (/bin/a)", Some(("/bin/a", offset, "main")));
        check("1b a::operator() (x) (/bin/a)", Some(("/bin/a", offset, "a::operator() (x)")));
        check("1b [unknown] ([unknown])", Some(("[unknown]", Place::Nowhere, "[unknown]")));
        check("ffffffffffffffff [unknown] ([unknown])", None);
        check("ffffffff821f26e7 do_it ([kernel.kallsyms])", None);
        check("nonsense", None);
    }

    #[test]
    fn stacks_of_perf() {
        let text = "  7 \n\t 1 a (/x)\n\t 2 b (/x)\n\n  7 \n\tffffffff821f26e7 k (m)\n\t 2 b (/x)\n\n 8 \n\n";
        let found = of_perf(text.as_bytes()).expect("text");
        assert_eq!(shown(&found), [(vec!["a", "b"], 1), (vec!["b"], 1), (vec![], 1)]);
        assert_eq!(found.frames.len(), 2);
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
}
