//! Symbols of JIT-compiled code by process, from jitdump files and a perf map.

use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    rc::Rc,
};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    jitdump::is_dump,
    recorder::{Recorder, binaries::BinaryId, owners::Owner},
    symbolize::{
        Refused,
        jitdump::{self, Code, JitCode},
    },
    untrusted_file::{Unread, read_trusted, trust},
};

/// Larger files are truncated: a million functions of a perf map take less.
const BYTES_MAX: u64 = 256 << 20;

/// Code of all processes, read on first use.
pub(super) struct Jits<'a> {
    recorder: &'a Recorder,
    by_pid: FxHashMap<u32, Rc<JitSymbols>>,
}

/// Symbols of one process.
#[derive(Debug, Default)]
pub(super) struct JitSymbols {
    code: JitCode,
    map: PerfMap,
    refused: Vec<Refused>,
}

impl<'a> Jits<'a> {
    pub(super) fn new(recorder: &'a Recorder) -> Self {
        Self { recorder, by_pid: FxHashMap::default() }
    }

    pub(super) fn of(&mut self, pid: u32) -> Rc<JitSymbols> {
        let symbols = self.by_pid.entry(pid);
        Rc::clone(symbols.or_insert_with(|| Rc::new(JitSymbols::read(pid, self.recorder))))
    }
}

impl JitSymbols {
    fn read(pid: u32, recorder: &Recorder) -> Self {
        let owner = recorder.owners.get(pid);
        let user = owner.map(|owner| owner.user);
        let mut symbols = Self::default();
        let mut codes = Vec::new();
        for id in dumps(pid, recorder) {
            let Some(binary) = recorder.binaries.get(id) else { continue };
            let Some(file) = binary.file() else { continue };
            match trust(file, user) {
                Ok(()) => codes.extend(read_dump(file)),
                Err(Unread::Refused(why)) => {
                    symbols.refused.push(Refused::new(pid, binary.path.clone(), why));
                }
                Err(Unread::Missing) => {}
            }
        }
        symbols.code = JitCode::new(codes);
        match PerfMap::read(pid, owner) {
            Ok(map) => symbols.map = map,
            Err(refused) => symbols.refused.push(refused),
        }
        symbols
    }

    /// The code at an address at a time; if there was none yet, the first one there. Without a time, the last.
    pub(super) fn code_at(&self, address: u64, time_ns: Option<u64>) -> Option<u32> {
        let known = self.code.at(address);
        let Some(time_ns) = time_ns else { return known.last().copied() };
        let since = |id: u32| self.code.get(id).map_or(0, |code| code.since_ns);
        let later = known.partition_point(|&id| since(id) <= time_ns);
        known.get(later.saturating_sub(1)).copied()
    }

    /// Times at which code at an address was replaced.
    pub(super) fn changes_at(&self, address: u64) -> impl Iterator<Item = u64> {
        let known = self.code.at(address).into_iter().skip(1);
        known.filter_map(|id| Some(self.code.get(id)?.since_ns))
    }

    pub(super) fn code(&self, id: u32) -> Option<&Code> {
        self.code.get(id)
    }

    /// The name of an address in the perf map.
    pub(super) fn name(&self, address: u64) -> Option<&str> {
        self.map.find(address)
    }

    pub(super) fn refused(&self) -> &[Refused] {
        &self.refused
    }
}

/// The jitdump files that a process has mapped, which is how compilers announce them.
fn dumps(pid: u32, recorder: &Recorder) -> FxHashSet<BinaryId> {
    let generations = recorder.spaces.all().filter(|generation| generation.pid == pid);
    let mapped = generations.flat_map(|generation| &generation.mappings);
    mapped
        .map(|mapping| mapping.binary)
        .filter(|&id| recorder.binaries.get(id).is_some_and(|binary| is_dump(&binary.path)))
        .collect()
}

/// The code in an open file; empty if its contents do not match its name.
fn read_dump(mut file: &File) -> Vec<Code> {
    let mut bytes = Vec::new();
    let read =
        file.seek(SeekFrom::Start(0)).and_then(|_| file.take(BYTES_MAX).read_to_end(&mut bytes));
    if read.is_err() {
        return Vec::new();
    }
    jitdump::parse(&bytes).unwrap_or_default()
}

// `/tmp/perf-PID.map`: the symbol file of JIT compilers. One line per function: start and size in hexadecimal,
// then the name (tools/perf/Documentation/jit-interface.txt).

/// The functions of one process, ordered by address.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PerfMap {
    entries: Vec<(u64, u64, String)>,
}

impl PerfMap {
    /// Reads the file of a process, in its own `/tmp` or in ours. Fails if it is not trusted.
    pub(super) fn read(pid: u32, owner: Option<&Owner>) -> Result<Self, Refused> {
        // In a container the compiler knows only its own PID.
        let inner = owner
            .and_then(|owner| Some((owner.tmp.as_ref()?.try_clone().ok()?, owner.innermost_pid)));
        let outer = File::open("/tmp").ok().map(|folder| (folder, pid));
        let user = owner.map(|owner| owner.user);
        let mut refused = None;
        for (folder, number) in [inner, outer].into_iter().flatten() {
            let name = format!("perf-{number}.map");
            match read_trusted(folder, &name, user, BYTES_MAX) {
                Ok(bytes) => return Ok(Self::parse(&String::from_utf8_lossy(&bytes))),
                Err(Unread::Refused(why)) => {
                    refused.get_or_insert_with(|| Refused::new(pid, format!("/tmp/{name}"), why));
                }
                Err(Unread::Missing) => {}
            }
        }
        refused.map_or_else(|| Ok(Self::default()), Err)
    }

    pub(crate) fn parse(text: &str) -> Self {
        let mut entries: Vec<_> = text.lines().filter_map(parse_line).collect();
        // Stable: of two functions at one address the later is the newer.
        entries.sort_by_key(|(start, _, _)| *start);
        Self { entries }
    }

    /// Name of the function at an address.
    pub(crate) fn find(&self, address: u64) -> Option<&str> {
        let after = self.entries.partition_point(|(start, _, _)| *start <= address);
        let (start, size, name) = self.entries.get(after.checked_sub(1)?)?;
        (address - start < *size).then_some(name)
    }
}

fn parse_line(line: &str) -> Option<(u64, u64, String)> {
    let mut fields = line.splitn(3, ' ');
    let mut number = || {
        let digits = fields.next()?;
        u64::from_str_radix(digits.strip_prefix("0x").unwrap_or(digits), 16).ok()
    };
    let (start, size) = (number()?, number()?);
    let name = fields.next()?.trim();
    (!name.is_empty()).then(|| (start, size, name.to_owned()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn finds_functions_and_ignores_nonsense() {
        let map = PerfMap::parse(
            "1000 10 LazyCompile:~add file.js:3\nnonsense\n0x2000 8 b\nffffffffffffffffff 1 x\n2000 8 c\n10 5 \n",
        );
        let check = |address, expected| assert_eq!(map.find(address), expected, "{address:x}");
        check(0xfff, None);
        check(0x1000, Some("LazyCompile:~add file.js:3"));
        check(0x100f, Some("LazyCompile:~add file.js:3"));
        check(0x1010, None);
        check(0x2007, Some("c"));
        check(0x2008, None);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "([0-9a-fx ]{0,20}[ a-z]{0,4}\n?){0,8}", address: u64) {
            if let Some(name) = PerfMap::parse(&text).find(address) {
                prop_assert!(text.contains(name));
            }
        }

        #[test]
        fn the_newest_of_the_nearest_functions_is_found(
            functions in prop::collection::vec((0..64_u64, 0..8_u64, any::<bool>()), 0..24),
            junk in prop::collection::vec("[g-z ]{0,8}", 24),
        ) {
            let mut text = String::new();
            for (number, ((start, size, prefix), junk)) in functions.iter().zip(&junk).enumerate() {
                let prefix = if *prefix { "0x" } else { "" };
                text += &format!("{prefix}{start:x} {size:x} f{number}\n{junk}\n");
            }
            let map = PerfMap::parse(&text);
            for address in 0..80 {
                let nearest = (0..functions.len())
                    .filter(|&number| functions[number].0 <= address)
                    .max_by_key(|&number| (functions[number].0, number))
                    .filter(|&number| address - functions[number].0 < functions[number].1);
                let expected = nearest.map(|number| format!("f{number}"));
                prop_assert_eq!(map.find(address), expected.as_deref(), "{:#x}", address);
            }
        }
    }
}
