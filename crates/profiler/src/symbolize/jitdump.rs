//! Names in jitdump files: JIT-compiled code with names, lines and times, as written by the compiler. Bytes in,
//! code out.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::jitdump::{Fields, Header, JitDumpError, split};

/// File name in debug information that means: same as the previous entry.
const SAME_FILE: &[u8] = b"\xff";
/// V8 adds the size of an ELF header to the addresses of lines, since `perf inject` puts one before each function.
/// So no line of such a file is lower, and some function has one exactly at its start.
const ELF_HEADER: u64 = 0x40;
/// Maximum number of code entries, since each takes memory even if it is small in the file.
const CODES_MAX: usize = 1 << 20;

/// Code at an address from some time on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Code {
    pub start: u64,
    pub size: u64,
    /// `CLOCK_MONOTONIC`, nanoseconds; 0 if the compiler uses another clock.
    pub since_ns: u64,
    pub name: Arc<str>,
    lines: Lines,
    /// Excess of the line offsets.
    shift: u64,
}

/// Source lines by offset in the code, ascending: each is valid up to the next.
type Lines = Arc<[(u64, Arc<str>, u32)]>;

impl Code {
    fn contains(&self, address: u64) -> bool {
        address.checked_sub(self.start).is_some_and(|offset| offset < self.size)
    }

    /// File and line of an address in the code.
    pub(crate) fn line(&self, address: u64) -> Option<(&str, u32)> {
        let offset = address.checked_sub(self.start)?.checked_add(self.shift)?;
        let after = self.lines.partition_point(|(start, ..)| *start <= offset);
        let (_, file, line) = self.lines.get(after.checked_sub(1)?)?;
        Some((file, *line))
    }
}

/// A record about code.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Record<'a> {
    Load { code: u64, size: u64, index: u64, name: &'a [u8] },
    Move { to: u64, size: u64, index: u64 },
    DebugInfo { code: u64, entries: Vec<(u64, u32, &'a [u8])> },
    Other,
}

/// All code of a file, in the order of writing. Stops at a truncated record: the compiler may have been writing it.
pub(crate) fn parse(bytes: &[u8]) -> Result<Vec<Code>, JitDumpError> {
    let header = Header::parse(bytes)?;
    let mut rest = bytes.get(header.size..).unwrap_or_default();
    let mut codes = Codes::default();
    while let Some((prefix, body, after)) = split(rest) {
        codes.take(record(prefix.id, body), if header.has_times { prefix.time_ns } else { 0 });
        rest = after;
    }
    if codes.lowest == Some(ELF_HEADER) {
        codes.codes.iter_mut().for_each(|code| code.shift = ELF_HEADER);
    }
    Ok(codes.codes)
}

/// Decodes a record; nothing if its type is unknown or its body too short.
fn record(id: u32, body: &[u8]) -> Record<'_> {
    let fields = Fields(body);
    let known = match id {
        0 => fields.load(),
        1 => fields.moved(),
        2 => fields.debug_info(),
        _ => None,
    };
    known.unwrap_or(Record::Other)
}

impl<'a> Fields<'a> {
    /// pid, tid (4 bytes each), vma, code_addr, code_size, code_index, name.
    fn load(self) -> Option<Record<'a>> {
        let [code, size, index] = [16, 24, 32].map(|at| self.u64(at));
        Some(Record::Load { code: code?, size: size?, index: index?, name: self.text(40)? })
    }

    /// pid, tid, vma, old_code_addr, new_code_addr, code_size, code_index.
    fn moved(self) -> Option<Record<'a>> {
        let [to, size, index] = [24, 32, 40].map(|at| self.u64(at));
        Some(Record::Move { to: to?, size: size?, index: index? })
    }

    /// code_addr, nr_entry; then for each entry code_addr, line, discrim (4 bytes each), name.
    fn debug_info(self) -> Option<Record<'a>> {
        let (code, count) = (self.u64(0)?, self.u64(8)?);
        let mut entries = Vec::new();
        let mut at = 16;
        // The count is not trusted: the bytes decide.
        for _ in 0..count {
            let Some(name) = self.text(at + 16) else { break };
            entries.push((self.u64(at)?, self.u32(at + 8)?, name));
            at += 16 + name.len() + 1;
        }
        Some(Record::DebugInfo { code, entries })
    }
}

/// Code read so far.
#[derive(Default)]
struct Codes {
    codes: Vec<Code>,
    /// Last position of each code index in `codes`.
    by_index: FxHashMap<u64, usize>,
    /// Lines, which precede the code that they belong to.
    lines: FxHashMap<u64, Lines>,
    files: FxHashMap<Vec<u8>, Arc<str>>,
    /// Lowest offset of a line.
    lowest: Option<u64>,
}

impl Codes {
    fn take(&mut self, record: Record<'_>, since_ns: u64) {
        match record {
            Record::Load { code, size, index, name } => {
                let lines = self.lines.remove(&code).unwrap_or_default();
                let name = String::from_utf8_lossy(name).into();
                self.push(index, Code { start: code, size, since_ns, name, lines, shift: 0 });
            }
            Record::Move { to, size, index } => {
                let Some(&known) = self.by_index.get(&index) else { return };
                let moved = Code { start: to, size, since_ns, ..self.codes[known].clone() };
                self.push(index, moved);
            }
            Record::DebugInfo { code, entries } => {
                let lines = self.lines_of(code, &entries);
                self.lines.insert(code, lines);
            }
            Record::Other => {}
        }
    }

    fn push(&mut self, index: u64, code: Code) {
        if self.codes.len() < CODES_MAX && !code.name.is_empty() {
            self.by_index.insert(index, self.codes.len());
            self.codes.push(code);
        }
    }

    fn lines_of(&mut self, code: u64, entries: &[(u64, u32, &[u8])]) -> Lines {
        let mut lines: Vec<(u64, Arc<str>, u32)> = Vec::new();
        for &(address, line, name) in entries {
            let file = match lines.last() {
                Some((_, file, _)) if name == SAME_FILE => Arc::clone(file),
                _ => self.file(name),
            };
            if let Some(offset) = address.checked_sub(code) {
                lines.push((offset, file, line));
                self.lowest = Some(self.lowest.map_or(offset, |lowest| lowest.min(offset)));
            }
        }
        lines.sort_by_key(|(offset, ..)| *offset);
        lines.into()
    }

    fn file(&mut self, name: &[u8]) -> Arc<str> {
        if let Some(known) = self.files.get(name) {
            return Arc::clone(known);
        }
        let file: Arc<str> = String::from_utf8_lossy(name).into();
        self.files.insert(name.to_vec(), Arc::clone(&file));
        file
    }
}

/// Code by address and time.
#[derive(Debug, Default)]
pub(crate) struct JitCode {
    /// Ordered by address.
    codes: Vec<Code>,
    /// For each, its order of writing, and the maximum end of the codes up to it.
    order: Vec<u32>,
    reach: Vec<u64>,
}

impl JitCode {
    /// Creates the index for codes in the order of writing.
    pub(crate) fn new(codes: Vec<Code>) -> Self {
        let mut codes: Vec<(u32, Code)> = (0..).zip(codes).collect();
        codes.sort_by_key(|(_, code)| code.start);
        let (order, codes): (Vec<u32>, Vec<Code>) = codes.into_iter().unzip();
        let reach = codes.iter().scan(0, |reach, code| {
            *reach = code.start.saturating_add(code.size).max(*reach);
            Some(*reach)
        });
        Self { reach: reach.collect(), order, codes }
    }

    pub(crate) fn get(&self, id: u32) -> Option<&Code> {
        self.codes.get(id as usize)
    }

    /// All code at an address, by time. Compilers do not report when code is freed: it stays until it is replaced.
    pub(crate) fn at(&self, address: u64) -> Vec<u32> {
        let after = self.codes.partition_point(|code| code.start <= address);
        let mut found: Vec<u32> = (0..after)
            .rev()
            .take_while(|&index| self.reach[index] > address)
            .filter(|&index| self.codes[index].contains(address))
            .map(|index| index as u32)
            .collect();
        found.sort_by_key(|&id| (self.codes[id as usize].since_ns, self.order[id as usize]));
        found
    }
}

/// Reading valid and broken jitdump files.
#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        jitdump::HEADER,
        unwind::jitdump::tests::{record, words},
    };

    const ARCH_TIMESTAMP: u64 = 1;

    fn header(flags: u64) -> Vec<u8> {
        let magic = u32::from_le_bytes(*b"DTiJ");
        let words = [magic, 1, HEADER as u32, 62, 0, 7].into_iter().flat_map(u32::to_le_bytes);
        words.chain([0, flags].into_iter().flat_map(u64::to_le_bytes)).collect()
    }

    fn load(time_ns: u64, start: u64, size: u64, index: u64, name: &str) -> Vec<u8> {
        let code = [name.as_bytes(), b"\0", &vec![0x90; size as usize]].concat();
        record(0, time_ns, &[words(&[7, start, start, size, index]), code].concat())
    }

    fn moved(time_ns: u64, from: u64, to: u64, size: u64, index: u64) -> Vec<u8> {
        record(1, time_ns, &words(&[7, to, from, to, size, index]))
    }

    fn debug_info(start: u64, entries: &[(u64, u32, &[u8])]) -> Vec<u8> {
        let mut body = words(&[start, entries.len() as u64]);
        for (address, line, file) in entries {
            body.extend(words(&[*address, u64::from(*line)]));
            body.extend([file, b"\0".as_slice()].concat());
        }
        record(2, 1, &body)
    }

    /// `time start+size name`, in the order of writing.
    fn texts(codes: &[Code]) -> Vec<String> {
        let text = |code: &Code| {
            let Code { start, size, since_ns, name, .. } = code;
            format!("{since_ns} {start:x}+{size:x} {name}")
        };
        codes.iter().map(text).collect()
    }

    #[test]
    fn records_give_code_in_their_order() {
        let check = |flags, records: &[Vec<u8>], expected: &[&str]| {
            let bytes = [header(flags), records.concat()].concat();
            assert_eq!(texts(&parse(&bytes).expect("a jitdump file")), expected);
        };
        check(0, &[], &[]);
        let two = [load(5, 0x1000, 16, 0, "a"), load(6, 0x1000, 8, 1, "b c")];
        check(0, &two, &["5 1000+10 a", "6 1000+8 b c"]);
        check(ARCH_TIMESTAMP, &two, &["0 1000+10 a", "0 1000+8 b c"]);
        let moves =
            [load(5, 0x1000, 16, 3, "a"), moved(6, 0x1000, 0x2000, 16, 3), moved(7, 1, 2, 3, 4)];
        check(0, &moves, &["5 1000+10 a", "6 2000+10 a"]);
        // A close record, unwinding information, and an unknown type.
        let others = [record(3, 1, &[]), record(4, 1, &[0; 24]), record(99, 1, b"x")];
        check(0, &[others.concat(), load(5, 1, 1, 0, "a")], &["5 1+1 a"]);
        // Without a name, with a short body, and truncated.
        let short = [load(5, 1, 1, 0, ""), record(0, 1, &[0; 30]), load(6, 2, 1, 0, "a")];
        check(0, &short, &["6 2+1 a"]);
        check(0, &[load(5, 1, 1, 0, "a"), load(6, 2, 1, 0, "b")[..40].to_vec()], &["5 1+1 a"]);
        check(0, &[[0; 16].to_vec(), load(5, 1, 1, 0, "a")], &[]);
    }

    #[test]
    fn lines_hold_up_to_the_next() {
        let entries: [(u64, u32, &[u8]); 4] = [
            (0x1008, 7, b"b.js"),
            (0x1004, 6, SAME_FILE),
            (0x1002, 5, b"a.js"),
            (0xfff, 1, b"c.js"),
        ];
        let records = [
            debug_info(0x1000, &entries),
            load(5, 0x1000, 16, 0, "a"),
            moved(6, 0x1000, 0x2000, 16, 0),
            load(7, 0x1000, 16, 1, "later"),
        ];
        let codes = parse(&[header(0), records.concat()].concat()).expect("a jitdump file");
        let check = |code: usize, address, expected| {
            assert_eq!(codes[code].line(address), expected, "{address:x}");
        };
        check(0, 0x1001, None);
        check(0, 0x1002, Some(("a.js", 5)));
        check(0, 0x1004, Some(("b.js", 6)));
        check(0, 0x100f, Some(("b.js", 7)));
        check(1, 0x2003, Some(("a.js", 5)));
        check(2, 0x1004, None);
    }

    #[test]
    fn lines_of_v8_lie_behind_an_elf_header() {
        let check = |first, address, expected| {
            let records = [
                debug_info(0x1000, &[(first, 5, b"a.js"), (0x1048, 6, b"a.js")]),
                load(5, 0x1000, 16, 0, "a"),
            ];
            let codes = parse(&[header(0), records.concat()].concat()).expect("a jitdump file");
            assert_eq!(codes[0].line(address).map(|(_, line)| line), expected, "{address:x}");
        };
        check(0x1040, 0x1000, Some(5));
        check(0x1040, 0x1008, Some(6));
        check(0x1041, 0x1000, None);
        check(0x103f, 0x1008, None);
    }

    #[test]
    fn an_address_has_all_code_that_was_there() {
        let records = [
            load(5, 0x1000, 0x100, 0, "long"),
            load(6, 0x1010, 8, 1, "within"),
            load(4, 0x1010, 4, 2, "before"),
            load(7, u64::MAX, 0, 3, "none"),
        ];
        let codes = parse(&[header(0), records.concat()].concat()).expect("a jitdump file");
        let code = JitCode::new(codes);
        let check = |address, expected: &[&str]| {
            let names = code.at(address).into_iter().filter_map(|id| code.get(id));
            let names: Vec<&str> = names.map(|code| &*code.name).collect();
            assert_eq!(names, expected, "{address:x}");
        };
        check(0xfff, &[]);
        check(0x1000, &["long"]);
        check(0x1010, &["before", "long", "within"]);
        check(0x1017, &["long", "within"]);
        check(0x10ff, &["long"]);
        check(0x1100, &[]);
        check(u64::MAX, &[]);
        // Without times, the last one written is the newest.
        let records = [
            load(5, 0x1010, 8, 0, "within"),
            load(9, 0x1000, 0x100, 1, "long"),
            load(7, 0x1010, 8, 2, "again"),
        ];
        let bytes = [header(ARCH_TIMESTAMP), records.concat()].concat();
        let code = JitCode::new(parse(&bytes).expect("a jitdump file"));
        let last = code.at(0x1010).last().and_then(|&id| code.get(id));
        assert_eq!(last.map(|code| &*code.name), Some("again"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
            len in any::<prop::sample::Index>(),
        ) {
            let records = [
                debug_info(0x1000, &[(0x1002, 5, b"a.js"), (0x1004, 6, SAME_FILE)]),
                load(5, 0x1000, 16, 0, "a"),
                moved(6, 0x1000, 0x2000, 16, 0),
            ];
            let mut bytes = [header(0), records.concat()].concat();
            for (at, byte) in damage {
                *at.get_mut(&mut bytes) = byte;
            }
            bytes.truncate(len.index(bytes.len() + 1));
            let code = JitCode::new(parse(&bytes).unwrap_or_default());
            for address in [0, 0x1000, 0x1004, 0x2003, u64::MAX] {
                for id in code.at(address) {
                    let found = code.get(id).expect("a known id");
                    prop_assert!(found.contains(address));
                    let _ = found.line(address);
                }
            }
        }
    }
}
