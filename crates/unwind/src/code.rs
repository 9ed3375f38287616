//! Derives rules from machine code without call frame information.
//!
//! Debian's musl is built without call frame information, and some hand-written assembly has none. The pushes of such a
//! function are visible in its instructions. Only proven facts become rules (`flow.rs`); everything else stays a gap.

mod aarch64;
mod flow;
mod state;
mod stubs;

use std::ops::Range;

use iced_x86::{InstructionInfoFactory, Mnemonic};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use wingbeat_profiler_abi::unwind::Rule;

use flow::{ALIGNMENT, Code, CodePart, Explorer};

/// Maximum code to analyse in one file: it takes an eighth of a second per megabyte, during which samples wait.
/// musl has 400 KB. Node has 2 MB in one block, with frame pointers.
const CODE_BYTES_MAX: u64 = 512 << 10;
/// An instruction is decoded a few times.
const LOOKS_PER_BYTE: u64 = 4;
/// Average size of an instruction, in bytes.
const INSTRUCTION_BYTES: usize = 4;
/// Maximum instructions of an entry point.
const ENTRY_INSTRUCTIONS_MAX: usize = 16;

/// Input of the analysis.
pub(crate) struct Sources<'a> {
    /// Code without call frame information.
    pub(crate) gaps: Vec<Range<u64>>,
    /// Entry point of the program.
    pub(crate) entry: u64,
    /// Returns the addresses of symbols.
    pub(crate) functions: &'a dyn Fn() -> Vec<u64>,
    /// Reads bytes at an address.
    pub(crate) read: &'a dyn Fn(u64, u64) -> Option<Vec<u8>>,
}

/// Rules for code without call frame information.
#[derive(Debug, Default)]
pub(crate) struct CodeRules {
    /// By address, not overlapping.
    rows: Vec<(Range<u64>, Rule)>,
}

impl CodeRules {
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn read(sources: &Sources<'_>) -> Self {
        if sources.gaps.is_empty() {
            return Self::default();
        }
        let mut bytes_left = CODE_BYTES_MAX;
        let mut parts = Vec::new();
        for gap in &sources.gaps {
            let bytes = gap.end - gap.start;
            if bytes > bytes_left {
                continue;
            }
            bytes_left -= bytes;
            let bytes = (sources.read)(gap.start, bytes);
            parts.extend(bytes.map(|bytes| CodePart { start: gap.start, bytes }));
        }
        parts.sort_by_key(|part| part.start);
        let code = Code { parts, read: sources.read };
        let mut rows: Vec<(Range<u64>, Rule)> = code
            .parts
            .iter()
            .flat_map(|part| stubs::find(&part.bytes, part.start))
            .map(|stub| (stub.start..stub.end, stub.rule))
            .collect();
        let entry = entry_point(&code, sources.entry);
        rows.extend(entry.clone().map(|(range, _)| (range, Rule::END)));
        let own: Vec<Range<u64>> = rows.iter().map(|(range, _)| range.clone()).collect();
        let mut search = Search::new(&code, own, CODE_BYTES_MAX - bytes_left);
        search.run((sources.functions)().into_iter().chain(entry.map(|(_, called)| called)));
        let rule = |visit: &flow::Visit| visit.state.rule();
        let visits = search.explorer.known.iter();
        rows.extend(visits.filter_map(|(address, visit)| {
            Some((*address..address.saturating_add(visit.bytes), rule(visit)?))
        }));
        Self { rows: apart(rows) }
    }

    /// On aarch64: rules of the stubs recognized in this code.
    pub(crate) fn of_stubs(
        code: &[Range<u64>],
        read: &dyn Fn(u64, u64) -> Option<Vec<u8>>,
    ) -> Self {
        let of_part = |part: &Range<u64>| {
            let bytes = read(part.start, part.end - part.start);
            bytes.map_or_else(Vec::new, |bytes| aarch64::find(&bytes, part.start))
        };
        let rows = code.iter().flat_map(of_part);
        Self { rows: apart(rows.map(|part| (part.start..part.end, part.rule)).collect()) }
    }

    /// Emits the rules of a stretch that no entry covers.
    pub(crate) fn emit(&self, stretch: Range<u64>, emit: &mut dyn FnMut(u64, Rule)) {
        let mut at = stretch.start;
        let first = self.rows.partition_point(|(range, _)| range.end <= stretch.start);
        for (range, rule) in &self.rows[first..] {
            if range.start >= stretch.end {
                break;
            }
            if range.start > at {
                emit(at, Rule::GAP);
            }
            emit(range.start.max(at), *rule);
            at = range.end;
        }
        if at < stretch.end {
            emit(at, Rule::GAP);
        }
    }
}

/// Sorts rows and removes overlaps: the later row takes precedence.
fn apart(mut rows: Vec<(Range<u64>, Rule)>) -> Vec<(Range<u64>, Rule)> {
    rows.sort_by_key(|(range, _)| (range.start, range.end));
    let mut kept: Vec<(Range<u64>, Rule)> = Vec::new();
    for (range, rule) in rows {
        if let Some((last, before)) = kept.last_mut() {
            if last.end == range.start && *before == rule {
                last.end = range.end;
                continue;
            }
            last.end = last.end.min(range.start);
            if last.is_empty() {
                kept.pop();
            }
        }
        kept.push((range, rule));
    }
    kept
}

/// The instructions of a program's entry point, which has no caller, up to its first call, and the call's target.
fn entry_point(code: &Code<'_>, entry: u64) -> Option<(Range<u64>, u64)> {
    if !stubs::is_entry(code.at(entry)?) {
        return None;
    }
    let mut at = entry;
    for _ in 0..ENTRY_INSTRUCTIONS_MAX {
        let instruction = code.instruction(at)?;
        at = instruction.next_ip();
        if instruction.is_call_near() || instruction.is_call_near_indirect() {
            return Some((entry..at, instruction.near_branch_target()));
        }
    }
    None
}

/// State of the function search.
struct Search<'a> {
    explorer: Explorer<'a>,
    tried: FxHashSet<u64>,
    /// Addresses that code uses other than by calls.
    taken: Vec<u64>,
}

impl<'a> Search<'a> {
    fn new(code: &'a Code<'a>, own: Vec<Range<u64>>, bytes: u64) -> Self {
        let explorer = Explorer {
            code,
            beginnings: FxHashSet::default(),
            stubs: own.into_iter().flatten().collect(),
            known: FxHashMap::with_capacity_and_hasher(
                bytes as usize / INSTRUCTION_BYTES,
                FxBuildHasher,
            ),
            returning: FxHashMap::default(),
            factory: InstructionInfoFactory::new(),
            budget: bytes * LOOKS_PER_BYTE,
        };
        Self { explorer, tried: FxHashSet::default(), taken: Vec::new() }
    }

    /// Symbols and call targets are functions. Addresses used otherwise are functions if they are aligned like
    /// functions, or return. Code that merely follows the end of other code is a function if it returns.
    fn run(&mut self, functions: impl Iterator<Item = u64>) {
        self.sweep();
        let code = self.explorer.code;
        let functions: Vec<u64> = functions.filter(|address| code.has(*address)).collect();
        self.explorer.beginnings.extend(&functions);
        self.explore_all(functions, |_, _| true);
        self.explore_taken();
        let mut found: Vec<u64> = self.unreached();
        found.retain(|address| !self.tried.contains(address));
        self.explore_all(found, |_, returns| returns);
        self.explore_taken();
    }

    /// Explores addresses that code uses other than by calls, transitively.
    fn explore_taken(&mut self) {
        let mut seen = FxHashSet::default();
        while !self.taken.is_empty() {
            let mut taken = std::mem::take(&mut self.taken);
            taken.retain(|address| seen.insert(*address));
            self.explore_all(taken, |address, returns| {
                returns || address.is_multiple_of(ALIGNMENT)
            });
        }
    }

    /// Records apparent call targets, instruction by instruction.
    fn sweep(&mut self) {
        let code = self.explorer.code;
        for part in &code.parts {
            let mut at = part.start;
            while at < part.end() {
                let Some(instruction) = code.instruction(at) else {
                    at += 1;
                    continue;
                };
                at = instruction.next_ip();
                let target = match instruction.is_call_near() {
                    true => Some(instruction.near_branch_target()),
                    false => flow::taken(&instruction),
                };
                self.explorer.beginnings.extend(target.filter(|target| code.has(*target)));
            }
        }
    }

    /// Explores functions and everything that they call.
    fn explore_all(&mut self, starts: Vec<u64>, is_accepted: impl Fn(u64, bool) -> bool) {
        for start in starts {
            let mut to_do = vec![(start, false)];
            while let Some((address, is_called)) = to_do.pop() {
                if self.explorer.known.contains_key(&address)
                    || self.explorer.stubs.contains(&address)
                    || !self.explorer.code.has(address)
                    || !self.tried.insert(address)
                {
                    continue;
                }
                let Some(found) = self.explorer.explore(address) else { continue };
                if is_called || is_accepted(address, found.has_return) {
                    self.explorer.known.extend(found.visits);
                    to_do.extend(found.called.into_iter().map(|called| (called, true)));
                    self.taken.extend(found.taken);
                } else {
                    // A call to it may be found later.
                    self.tried.remove(&address);
                }
            }
        }
    }

    /// Aligned code addresses that nothing refers to.
    fn unreached(&self) -> Vec<u64> {
        let code = self.explorer.code;
        let mut found = Vec::new();
        for part in &code.parts {
            let (mut at, mut is_first) = (part.start, true);
            while at < part.end() {
                if let Some(visit) = self.explorer.known.get(&at) {
                    at += visit.bytes.max(1);
                    is_first = true;
                    continue;
                }
                let Some(instruction) = code.instruction(at) else {
                    at += 1;
                    continue;
                };
                let is_padding = matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3);
                if !is_padding && (is_first || at.is_multiple_of(ALIGNMENT)) {
                    found.push(at);
                    is_first = false;
                }
                at = instruction.next_ip();
            }
        }
        found
    }
}

/// Functions of a few instructions, with and without proof.
#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 0x1000;

    /// Checks the rules of some code without any entry, given symbols.
    fn check(code: &[u8], functions: &[u64], expected: &[&str]) {
        let end = START + code.len() as u64;
        let read = |address: u64, bytes: u64| {
            let start = usize::try_from(address.checked_sub(START)?).ok()?;
            code.get(start..start.checked_add(bytes as usize)?).map(<[u8]>::to_vec)
        };
        let (gaps, functions) = (std::iter::once(START..end).collect(), || functions.to_vec());
        let rules =
            CodeRules::read(&Sources { gaps, entry: 0, functions: &functions, read: &read });
        let mut found = Vec::new();
        rules.emit(START..end, &mut |address, rule| {
            found.push(format!("{:x} {rule:?}", address - START));
        });
        assert_eq!(found, expected, "{code:02x?}");
    }

    #[test]
    fn functions_that_return_are_proven() {
        let plain = ["0 cfa=r7+8 ra=c-8", "1 cfa=r7+16 ra=c-8", "2 cfa=r7+8 ra=c-8"];
        // push rbx; pop rbx; ret
        check(&[0x53, 0x5b, 0xc3], &[], &plain);
        // push rbx; ret: does not return to a return address.
        check(&[0x53, 0xc3], &[], &["0 gap"]);
        check(&[0x53, 0xc3], &[START], &["0 gap"]);
        // push rbx; jz to the return, with the pushed value on the stack
        check(&[0x53, 0x74, 0x01, 0x5b, 0xc3], &[START], &["0 gap"]);
        // push rbx; hlt: never returns, so it is a function only with a symbol.
        check(&[0x53, 0xf4], &[], &["0 gap"]);
        check(&[0x53, 0xf4], &[START], &plain[..2]);
        // An invalid or truncated instruction.
        check(&[0x53, 0x06, 0x5b, 0xc3], &[START], &["0 gap", "2 cfa=r7+8 ra=c-8"][..1]);
        check(&[0x53, 0x48], &[START], &["0 gap"]);
    }

    #[test]
    fn code_behind_a_call_that_does_not_return_is_another_function() {
        // push rbx; call 0x10; (nop up to 0x10) ud2, then 0x20: push rbp; push rbx; pop rbx; pop rbp; ret
        let mut code = vec![0x90; 0x20];
        code[..6].copy_from_slice(&[0x53, 0xe8, 0x0a, 0, 0, 0]);
        code[0x10..0x12].copy_from_slice(&[0x0f, 0x0b]);
        code.extend([0x55, 0x53, 0x5b, 0x5d, 0xc3]);
        let expected = [
            "0 cfa=r7+8 ra=c-8",
            "1 cfa=r7+16 ra=c-8",
            "6 gap",
            "10 cfa=r7+8 ra=c-8",
            "12 gap",
            "20 cfa=r7+8 ra=c-8",
            "21 cfa=r7+16 ra=c-8",
            "22 cfa=r7+24 ra=c-8",
            "23 cfa=r7+16 ra=c-8",
            "24 cfa=r7+8 ra=c-8",
        ];
        check(&code, &[START], &expected);
    }

    #[test]
    fn cases_are_found_by_their_table() {
        // cmp edi, 1; ja 0x18; lea rdx, [rip+0x1c]; movsxd rax, [rdx+4*rdi]; add rax, rdx; jmp rax
        let mut code = vec![
            0x53, 0x83, 0xff, 0x01, 0x77, 0x12, 0x48, 0x8d, 0x15, 0x13, 0, 0, 0, 0x48, 0x63, 0x04,
            0xba, 0x48, 0x01, 0xd0, 0xff, 0xe0, 0x90, 0x90, 0x5b, 0xc3, 0x90, 0x90, 0x5b, 0xc3,
            0x90, 0x90,
        ];
        code.extend((0x18_i32 - 0x20).to_le_bytes());
        code.extend((0x1c_i32 - 0x20).to_le_bytes());
        let expected = [
            "0 cfa=r7+8 ra=c-8",
            "1 cfa=r7+16 ra=c-8",
            "16 gap",
            "18 cfa=r7+16 ra=c-8",
            "19 cfa=r7+8 ra=c-8",
            "1a gap",
            "1c cfa=r7+16 ra=c-8",
            "1d cfa=r7+8 ra=c-8",
            "1e gap",
        ];
        check(&code, &[START], &expected);
    }

    #[test]
    fn any_bytes() {
        // A pseudorandom byte generator: each start gives other instructions.
        let mut seed = 1_u64;
        for len in 0..400 {
            let code: Vec<u8> = (0..len)
                .map(|_| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (seed >> 33) as u8
                })
                .collect();
            let read = |address: u64, bytes: u64| {
                let start = usize::try_from(address.checked_sub(START)?).ok()?;
                code.get(start..start.checked_add(bytes as usize)?).map(<[u8]>::to_vec)
            };
            let gaps = std::iter::once(START..START + len).collect();
            let sources = Sources { gaps, entry: START, functions: &|| vec![START], read: &read };
            let mut last = None;
            CodeRules::read(&sources).emit(START..START + len, &mut |address, _| {
                assert!(last < Some(address));
                last = Some(address);
            });
        }
    }
}
