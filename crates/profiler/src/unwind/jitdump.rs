//! Unwind information in jitdump files: reads records in order while the compiler is still writing. Bytes in,
//! changes out.

use std::{collections::BTreeMap, sync::Arc};

use wingbeat_profiler_abi::unwind::{FP, Rule};
use wingbeat_unwind::{Image, RuleId, Rules};

use crate::jitdump::{Fields, Header, PREFIX, Prefix, split};

/// Record types.
const LOAD: u32 = 0;
const MOVE: u32 = 1;
const UNWINDING: u32 = 4;

/// Maximum size of the call frame information for one piece of code. V8 writes some hundred bytes.
pub(crate) const EH_FRAME_BYTES_MAX: usize = 256 << 10;
/// Longer code is ignored.
const CODE_BYTES_MAX: u64 = 1 << 30;

/// Rules by offset in the code, ascending: each is valid up to the next.
pub(crate) type Rows = Arc<[(u32, RuleId)]>;

/// A change of code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// New code at an address. Without rows, it has no unwind information.
    Load {
        start: u64,
        size: u64,
        rows: Rows,
    },
    Move {
        from: u64,
        to: u64,
    },
}

/// Call frame information in a record, for the code that follows.
#[derive(Debug, Default)]
struct EhFrame {
    bytes: Vec<u8>,
    /// Its address in the process, if known. Otherwise it is relative to the next code, and valid only for that.
    address: Option<u64>,
}

/// Reads the records of one file in order.
#[derive(Debug)]
pub(crate) struct Reader {
    header: Header,
    eh_frame: EhFrame,
}

impl Reader {
    pub(crate) fn new(header: Header) -> Self {
        Self { header, eh_frame: EhFrame::default() }
    }

    /// Reads the complete records at the start of some bytes, and returns their length. `found` gets each change
    /// with the time from which on it is valid: 0 if the file has no times.
    pub(crate) fn read(
        &mut self,
        bytes: &[u8],
        rules: &mut Rules,
        mut found: impl FnMut(u64, Change),
    ) -> usize {
        let mut rest = bytes;
        while let Some((prefix, body, after)) = split(rest) {
            if let Some(change) = self.record(prefix.id, body, rules) {
                found(self.time_ns(prefix), change);
            }
            rest = after;
        }
        bytes.len() - rest.len()
    }

    /// Handles a record too long to be read completely, by its start.
    pub(crate) fn read_long(
        &mut self,
        bytes: &[u8],
        rules: &mut Rules,
        mut found: impl FnMut(u64, Change),
    ) {
        let Some(prefix) = Prefix::parse(bytes) else { return };
        match prefix.id {
            UNWINDING => self.eh_frame = EhFrame::default(),
            id => {
                if let Some(change) = self.record(id, &bytes[PREFIX..], rules) {
                    found(self.time_ns(prefix), change);
                }
            }
        }
    }

    fn time_ns(&self, prefix: Prefix) -> u64 {
        if self.header.has_times { prefix.time_ns } else { 0 }
    }

    fn record(&mut self, id: u32, body: &[u8], rules: &mut Rules) -> Option<Change> {
        let fields = Fields(body);
        match id {
            // pid, tid (4 bytes each), vma, code_addr, code_size.
            LOAD => {
                let (start, size) = (fields.u64(16)?, fields.u64(24)?);
                let rows = self.rows(start, size, rules);
                (size > 0).then_some(Change::Load { start, size, rows })
            }
            // pid, tid, vma, old_code_addr, new_code_addr.
            MOVE => Some(Change::Move { from: fields.u64(16)?, to: fields.u64(24)? }),
            UNWINDING => {
                self.eh_frame = eh_frame(body).unwrap_or_default();
                None
            }
            _ => None,
        }
    }

    /// The rows of code, from the information before it.
    fn rows(&mut self, start: u64, size: u64, rules: &mut Rules) -> Rows {
        let (bytes, address) = match self.eh_frame.address {
            Some(address) => (self.eh_frame.bytes.clone(), Some(address)),
            None => (std::mem::take(&mut self.eh_frame.bytes), behind(start, size)),
        };
        let (Some(end), Some(address)) = (start.checked_add(size), address) else {
            return Rows::default();
        };
        if bytes.is_empty() || size > CODE_BYTES_MAX {
            return Rows::default();
        }
        let machine = self.header.machine;
        let Ok(image) = Image::of_code(machine, start..end, address, bytes) else {
            return Rows::default();
        };
        if image.entries() == 0 {
            return Rows::default();
        }
        let mut rows = Vec::new();
        image.rules(start..end, |at, rule| rows.push(((at - start) as u32, rules.id_of(rule))));
        rows.into()
    }
}

/// Address that the section would have in an ELF file of the code: after it, at a multiple of eight
/// (`jit_write_elf` of tools/perf/util/genelf.c, where code also begins at such a multiple).
fn behind(start: u64, size: u64) -> Option<u64> {
    start.checked_add(size.checked_next_multiple_of(8)?)
}

/// unwinding_size, eh_frame_hdr_size, mapped_size; then `.eh_frame` and `.eh_frame_hdr`. LLVM writes them in
/// reverse order, and its `.eh_frame` is for all code of a module.
fn eh_frame(body: &[u8]) -> Option<EhFrame> {
    let fields = Fields(body);
    let [all, index] = [0, 8].map(|at| fields.u64(at).and_then(|size| usize::try_from(size).ok()));
    let (all, index) = (all?, index?);
    let data = body.get(24..)?.get(..all)?;
    let size = all.checked_sub(index).filter(|&size| size <= EH_FRAME_BYTES_MAX)?;
    if index == LLVM_INDEX_BYTES && data.starts_with(&LLVM_INDEX) {
        let address = Some(Fields(data).u64(LLVM_INDEX.len())?);
        return Some(EhFrame { bytes: data.get(index..)?.to_vec(), address });
    }
    Some(EhFrame { bytes: data.get(..size)?.to_vec(), address: None })
}

/// Start of an `.eh_frame_hdr` that has only the address of `.eh_frame` (`createX64EHFrameHeader` of
/// llvm/lib/ExecutionEngine/Orc/Debugging/PerfSupportPlugin.cpp, LLVM 20): version 1, an absolute address, no
/// table. No `.eh_frame` begins like this, since it would be the length of an entry.
const LLVM_INDEX: [u8; 4] = [1, 0x0c, 0xff, 0xff];
const LLVM_INDEX_BYTES: usize = 12;

// Current JIT-compiled code of a process, with its unwind rules. Compilers report only new code. It replaces the code that was at its addresses.

/// Maximum pieces of code with rules in one process, and their rows: any others have no rules.
const PIECES_MAX: usize = 1 << 18;
const ROWS_MAX: usize = 1 << 21;

/// The rule inside a function with a frame pointer.
const FRAMED: Rule = Rule::framed(FP, 16).saving_fp(-2);

/// All pieces of a process, none overlapping.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pieces {
    by_start: BTreeMap<u64, Piece>,
    rows: usize,
}

#[derive(Debug, Clone)]
struct Piece {
    end: u64,
    rows: Rows,
}

impl Pieces {
    /// Applies a change of code.
    pub(crate) fn take(&mut self, change: Change) {
        match change {
            Change::Load { start, size, rows } => self.put(start, size, rows),
            Change::Move { from, to } => {
                let Some(piece) = self.remove(from) else { return };
                self.put(to, piece.end - from, piece.rows);
            }
        }
    }

    fn put(&mut self, start: u64, size: u64, rows: Rows) {
        let end = start.saturating_add(size);
        while let Some((&before, piece)) = self.by_start.range(..end).next_back()
            && piece.end > start
        {
            self.remove(before);
        }
        let has_room = self.by_start.len() < PIECES_MAX && self.rows + rows.len() <= ROWS_MAX;
        if has_room && start < end && !rows.is_empty() {
            self.rows += rows.len();
            self.by_start.insert(start, Piece { end, rows });
        }
    }

    fn remove(&mut self, start: u64) -> Option<Piece> {
        let piece = self.by_start.remove(&start)?;
        self.rows -= piece.rows.len();
        Some(piece)
    }

    /// The rule at an address; `None` if no code with rules is there.
    pub(crate) fn rule_at(&self, address: u64) -> Option<RuleId> {
        let (start, piece) = self.by_start.range(..=address).next_back()?;
        if address >= piece.end {
            return None;
        }
        let offset = address - start;
        let after = piece.rows.partition_point(|(from, _)| u64::from(*from) <= offset);
        Some(piece.rows.get(after.checked_sub(1)?)?.1)
    }
}

/// Whether frame pointer walks go wrong in most of a piece of code. At the start and end they do in any code.
pub(crate) fn needs_rules(rows: &Rows, size: u64, rules: &Rules) -> bool {
    let ends = rows.iter().skip(1).map(|(offset, _)| u64::from(*offset)).chain([size]);
    let without: u64 = rows
        .iter()
        .zip(ends)
        .filter(|((_, id), _)| {
            let rule = rules.get(*id);
            rule != FRAMED && rule != Rule::GAP
        })
        .map(|((offset, _), end)| end.saturating_sub(u64::from(*offset)))
        .sum();
    without > size / 2
}

#[cfg(test)]
pub(crate) mod tests {

    use proptest::prelude::*;
    use wingbeat_unwind::Rules;

    use super::*;

    const HEADER: Header = Header { size: 40, machine: 62, has_times: true };

    pub(crate) fn record(id: u32, time_ns: u64, body: &[u8]) -> Vec<u8> {
        let size = (PREFIX + body.len()) as u32;
        let prefix = [id, size].into_iter().flat_map(u32::to_le_bytes);
        prefix.chain(time_ns.to_le_bytes()).chain(body.iter().copied()).collect()
    }

    pub(crate) fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    pub(crate) fn load(time_ns: u64, start: u64, size: u64) -> Vec<u8> {
        let code = [b"f\0".as_slice(), &vec![0x90; size as usize]].concat();
        record(LOAD, time_ns, &[words(&[7, start, start, size, 0]), code].concat())
    }

    pub(crate) fn moved(time_ns: u64, from: u64, to: u64) -> Vec<u8> {
        record(MOVE, time_ns, &words(&[7, to, from, to, 16, 0]))
    }

    /// `.eh_frame` at an address, with functions that save a register after 4 bytes.
    pub(crate) fn frames(address: u64, functions: &[(u64, u32)]) -> Vec<u8> {
        let shared: [u8; 24] = [
            20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 12, 7, 8, 0x90, 1, 0,
            0,
        ];
        let mut bytes = shared.to_vec();
        for (start, size) in functions {
            let at = bytes.len() as u32;
            bytes.extend([20, at + 4].into_iter().flat_map(u32::to_le_bytes));
            let place = address.wrapping_add(u64::from(at) + 8);
            bytes.extend((start.wrapping_sub(place) as i32).to_le_bytes());
            bytes.extend(size.to_le_bytes());
            bytes.extend([0, 0x44, 14, 24, 0, 0, 0, 0]);
        }
        bytes.extend([0; 4]);
        bytes
    }

    /// In perf's format: `.eh_frame`, then a header of 20 bytes.
    pub(crate) fn unwinding(frames: &[u8]) -> Vec<u8> {
        let size = frames.len() as u64 + 20;
        record(UNWINDING, 1, &[&words(&[size, 20, size]), frames, &[0; 20]].concat())
    }

    /// In LLVM's format.
    fn unwinding_of_llvm(frames: &[u8], address: u64) -> Vec<u8> {
        let size = frames.len() as u64 + LLVM_INDEX_BYTES as u64;
        let sizes = words(&[size, LLVM_INDEX_BYTES as u64, 0]);
        record(UNWINDING, 1, &[&sizes, LLVM_INDEX.as_slice(), &words(&[address]), frames].concat())
    }

    /// A line for each change, with its rules.
    fn texts(records: &[Vec<u8>], header: Header) -> Vec<String> {
        let (mut rules, mut changes) = (Rules::new(), Vec::new());
        let bytes = records.concat();
        let read = Reader::new(header)
            .read(&bytes, &mut rules, |time, change| changes.push((time, change)));
        assert_eq!(read, bytes.len());
        let text = |(time_ns, change): &(u64, Change)| match change {
            Change::Load { start, size, rows } => {
                let rows = rows.iter().map(|&(at, id)| format!(" {at}: {:?}", rules.get(id)));
                format!("{time_ns} {start:x}+{size:x}{}", rows.collect::<String>())
            }
            Change::Move { from, to } => format!("{time_ns} {from:x}->{to:x}"),
        };
        changes.iter().map(text).collect()
    }

    const RULES: &str = " 0: cfa=r7+8 ra=c-8 4: cfa=r7+24 ra=c-8";

    #[test]
    fn rules_are_those_of_the_code_that_follows() {
        let check = |records: &[Vec<u8>], expected: &[&str]| {
            assert_eq!(texts(records, HEADER), expected);
        };
        let info = unwinding(&frames(0x1010, &[(0x1000, 13)]));
        let with_rules = format!("5 1000+d{RULES}");
        check(&[info.clone(), load(5, 0x1000, 13)], &[&with_rules]);
        // Relative to the code, at any address.
        check(&[info.clone(), load(5, 0x9000, 13)], &[&format!("5 9000+d{RULES}")]);
        // Other records may come in between; it applies to one piece of code only.
        let records =
            [info.clone(), record(2, 1, &[0; 16]), load(5, 0x1000, 13), load(6, 0x2000, 13)];
        check(&records, &[&with_rules, "6 2000+d"]);
        check(
            &[info.clone(), load(5, 0x1000, 13), moved(6, 0x1000, 0x2000)],
            &[&with_rules, "6 1000->2000"],
        );
        // The newer one applies; V8 writes an empty one for code without.
        check(&[info.clone(), unwinding(&[0; 4]), load(5, 0x1000, 13)], &["5 1000+d"]);
        let longer = unwinding(&frames(0x1018, &[(0x1000, 13)]));
        check(&[longer, load(5, 0x1000, 13)], &["5 1000+d"]);
        check(&[load(5, 0x1000, 0)], &[]);
    }

    /// What Node 20 wrote for a function of 404 bytes: `.eh_frame` and its header.
    const V8: [u8; 88] = [
        0x18, 0, 0, 0, 0, 0, 0, 0, 3, b'z', b'L', b'R', 0, 1, 0x78, 16, 2, 0xff, 0x1b, 12, 7, 8,
        0x90, 1, 0, 0, 0, 0, 0x20, 0, 0, 0, 0x20, 0, 0, 0, 0x44, 0xfe, 0xff, 0xff, 0x92, 1, 0, 0,
        0, 0x4f, 14, 16, 0x86, 2, 0x43, 13, 6, 0x74, 13, 7, 0x41, 14, 8, 0x52, 12, 6, 16, 0, 0, 0,
        0, 0, 1, 0x1b, 3, 0x3b, 0xb8, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0x24, 0xfe, 0xff, 0xff, 0xd8,
        0xff, 0xff, 0xff,
    ];

    #[test]
    fn rules_of_v8() {
        let info = record(UNWINDING, 1, &[&words(&[88, 20, 88]), V8.as_slice()].concat());
        let rules = [
            "5 1000+194 0: cfa=r7+8 ra=c-8",
            "15: cfa=r7+16 fp=c-16 ra=c-8",
            "18: cfa=r6+16 fp=c-16 ra=c-8",
            "70: cfa=r7+16 fp=c-16 ra=c-8",
            "71: cfa=r7+8 fp=c-16 ra=c-8",
            "89: cfa=r6+16 fp=c-16 ra=c-8",
            "402: gap",
        ];
        assert_eq!(texts(&[info, load(5, 0x1000, 404)], HEADER), [rules.join(" ")]);
    }

    #[test]
    fn rules_of_llvm_are_for_all_code_of_a_module() {
        let info = frames(0x7000, &[(0x1000, 16), (0x2000, 16)]);
        let records = [
            unwinding_of_llvm(&info, 0x7000),
            load(5, 0x2000, 16),
            load(6, 0x1000, 16),
            load(7, 0x3000, 16),
        ];
        let expected =
            [format!("5 2000+10{RULES}"), format!("6 1000+10{RULES}"), "7 3000+10".to_owned()];
        assert_eq!(texts(&records, HEADER), expected);
    }

    #[test]
    fn other_clocks_and_machines() {
        let records = [unwinding(&frames(0x1010, &[(0x1000, 16)])), load(5, 0x1000, 16)];
        let check = |header, expected: &str| assert_eq!(texts(&records, header), [expected]);
        check(Header { has_times: false, ..HEADER }, &format!("0 1000+10{RULES}"));
        check(Header { machine: 3, ..HEADER }, "5 1000+10");
    }

    #[test]
    fn sizes_that_are_lies() {
        let check = |sizes: [u64; 3], data: &[u8]| {
            let info = record(UNWINDING, 1, &[&words(&sizes), data].concat());
            assert_eq!(texts(&[info, load(5, 0x1000, 16)], HEADER), ["5 1000+10"]);
        };
        let frames = frames(0x1010, &[(0x1000, 16)]);
        let size = frames.len() as u64;
        check([size + 1, 0, 0], &frames);
        check([u64::MAX, 0, 0], &frames);
        check([size, size + 1, 0], &frames);
        check([size, size, 0], &frames);
        check([8, 0, 0], &frames);
        check([0, 0, 0], &[]);
    }

    #[test]
    fn records_that_are_too_long_to_be_read() {
        let (mut rules, mut changes) = (Rules::new(), Vec::new());
        let mut reader = Reader::new(HEADER);
        let info = unwinding(&frames(0x1010, &[(0x1000, 16)]));
        reader.read(&info, &mut rules, |_, _| ());
        let mut found = |time, change| changes.push((time, change));
        reader.read_long(&info[..40], &mut rules, &mut found);
        reader.read_long(&load(5, 0x1000, 16)[..56], &mut rules, &mut found);
        reader.read_long(&load(5, 0x1000, 16)[..20], &mut rules, &mut found);
        let expected = Change::Load { start: 0x1000, size: 16, rows: Rows::default() };
        assert_eq!(changes, [(5, expected)]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
            len in any::<prop::sample::Index>(),
        ) {
            let records = [
                unwinding(&frames(0x1010, &[(0x1000, 16)])),
                load(5, 0x1000, 16),
                moved(6, 0x1000, 0x2000),
                unwinding_of_llvm(&frames(0x7000, &[(0x1000, 16), (0x2000, 16)]), 0x7000),
                load(7, 0x1000, 16),
            ];
            let mut bytes = records.concat();
            for (at, byte) in damage {
                *at.get_mut(&mut bytes) = byte;
            }
            bytes.truncate(len.index(bytes.len() + 1));
            let mut rules = Rules::new();
            let read = Reader::new(HEADER).read(&bytes, &mut rules, |_, change| {
                if let Change::Load { size, rows, .. } = change {
                    assert!(rows.is_sorted_by(|a, b| a.0 < b.0));
                    assert!(rows.last().is_none_or(|(at, _)| u64::from(*at) < size));
                    assert!(rows.first().is_none_or(|(at, _)| *at == 0));
                }
            });
            prop_assert!(read <= bytes.len());
        }
    }

    fn loaded(start: u64, size: u64, rows: &[(u32, u16)]) -> Change {
        let rows = rows.iter().map(|&(offset, id)| (offset, RuleId(id))).collect();
        Change::Load { start, size, rows }
    }

    fn pieces(changes: &[Change]) -> Pieces {
        let mut pieces = Pieces::default();
        changes.iter().cloned().for_each(|change| pieces.take(change));
        pieces
    }

    #[test]
    fn new_code_replaces_what_lay_there() {
        let check = |changes: &[Change], expected: &[(u64, u16)]| {
            let pieces = pieces(changes);
            let addresses = (0..0x40).map(|at| 0x1000 + at);
            let found = addresses.filter_map(|at| Some((at, pieces.rule_at(at)?.0)));
            let mut found: Vec<_> = found.collect();
            found.dedup_by_key(|(_, id)| *id);
            assert_eq!(found, expected, "{changes:x?}");
        };
        let first = loaded(0x1000, 0x20, &[(0, 2), (8, 3)]);
        check(std::slice::from_ref(&first), &[(0x1000, 2), (0x1008, 3)]);
        check(&[first.clone(), loaded(0x1010, 0x10, &[(0, 4)])], &[(0x1010, 4)]);
        check(&[first.clone(), loaded(0x1010, 0x10, &[])], &[]);
        check(
            &[first.clone(), loaded(0x1020, 1, &[(0, 4)])],
            &[(0x1000, 2), (0x1008, 3), (0x1020, 4)],
        );
        check(
            &[first.clone(), Change::Move { from: 0x1000, to: 0x1010 }],
            &[(0x1010, 2), (0x1018, 3)],
        );
        check(
            &[first.clone(), Change::Move { from: 0x1001, to: 0x1010 }],
            &[(0x1000, 2), (0x1008, 3)],
        );
        check(&[first, loaded(0, u64::MAX, &[])], &[]);
        check(&[loaded(u64::MAX, 5, &[(0, 2)])], &[]);
    }

    #[test]
    fn code_without_frame_pointers_needs_rules() {
        let mut rules = Rules::new();
        let framed = rules.id_of(FRAMED).0;
        let other = rules.id_of(Rule::framed(7, 8)).0;
        let check = |rows: &[(u32, u16)], expected| {
            let Change::Load { rows, size, .. } = loaded(0, 100, rows) else { return };
            assert_eq!(needs_rules(&rows, size, &rules), expected, "{rows:?}");
        };
        check(&[], false);
        check(&[(0, other), (4, framed), (98, other)], false);
        check(&[(0, other)], true);
        check(&[(0, other), (49, framed)], false);
        check(&[(0, other), (51, framed)], true);
        check(&[(0, 0), (40, other)], true);
        check(&[(0, 0), (60, other)], false);
    }

    proptest! {
        #[test]
        fn an_address_has_the_rule_that_was_put_there_last(
            loads in prop::collection::vec((0..64_u64, 1..16_u64, any::<bool>()), 0..24),
        ) {
            let mut changes = Vec::new();
            let mut expected = vec![(usize::MAX, None); 96];
            for (number, &(start, size, has_rules)) in loads.iter().enumerate() {
                let id = number as u16 + 2;
                let rows: &[(u32, u16)] = if has_rules { &[(0, id)] } else { &[] };
                changes.push(loaded(start, size, rows));
                // Partly overwritten code is removed as a whole.
                let covered = start as usize..(start + size) as usize;
                let gone: Vec<usize> = expected[covered.clone()].iter().map(|it| it.0).collect();
                for at in &mut expected {
                    if at.1.is_some() && gone.contains(&at.0) {
                        *at = (usize::MAX, None);
                    }
                }
                expected[covered].fill((number, has_rules.then_some(id)));
            }
            let pieces = pieces(&changes);
            for (address, (_, id)) in expected.iter().enumerate() {
                prop_assert_eq!(pieces.rule_at(address as u64).map(|id| id.0), *id, "{}", address);
            }
        }
    }
}
