//! Unwind rules of Go functions, from the table that Go's runtime uses to walk stacks.
//!
//! Programs linked with `-w` have no call frame information. If there is any, it was generated from this table,
//! and lacks other knowledge of the runtime: which functions have no caller, and which ones switch stacks.

use std::ops::Range;

use object::ReadRef;
use rustc_hash::FxHashMap;
use wingbeat_profiler_abi::unwind::Rule;

use crate::{
    gopclntab::{GoFunction, GoTable},
    interpret::Registers,
};

/// `abi.FuncFlag` of Go's internal/abi/symtab.go: the outermost function of a stack.
const TOP_FRAME: u8 = 1;
/// The function sets the stack pointer to a value that is not an offset from the old one.
const SP_WRITE: u8 = 2;

/// Functions without a caller. The scheduler runs on its own stack, below `mcall`; stack growth runs below
/// `morestack`. Go's profiles end there too.
const OUTERMOST: [&[u8]; 7] = [
    b"runtime.goexit",
    b"runtime.mstart",
    b"runtime.rt0_go",
    b"runtime.mcall",
    b"runtime.morestack",
    b"runtime.gogo",
    b"_rt0_amd64_linux",
];
/// Functions that call others on another stack, for versions that do not flag them.
const SWITCHING: [&[u8]; 5] = [
    b"runtime.systemstack",
    b"runtime.asmcgocall",
    b"runtime.cgocallback",
    b"runtime.nanotime1",
    b"runtime.walltime1",
];
/// Functions to which signal handlers return, by Go version.
const RESTORERS: [&[u8]; 2] = [b"runtime.sigreturn", b"runtime.sigreturn__sigaction"];
/// The signal handler. Go's walks end there, ours continue to the interrupted code.
const HANDLER: &[u8] = b"runtime.sigtramp";

/// How to unwind a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Outermost,
    Switching,
    Restorer,
}

fn kind(name: &[u8], flags: u8) -> Kind {
    if RESTORERS.contains(&name) {
        Kind::Restorer
    } else if name == HANDLER {
        Kind::Plain
    } else if flags & TOP_FRAME != 0 || OUTERMOST.contains(&name) {
        Kind::Outermost
    } else if flags & SP_WRITE != 0 || SWITCHING.contains(&name) {
        Kind::Switching
    } else {
        Kind::Plain
    }
}

/// The rules of all functions in a program's table.
#[derive(Debug)]
pub(crate) struct GoRules {
    range: Range<u64>,
    functions: u64,
    /// By offset from the first function.
    rows: Vec<(u32, u16)>,
    /// By number; `None` for code that the table does not describe, such as C.
    rules: Vec<Option<Rule>>,
    ids: FxHashMap<Option<Rule>, u16>,
}

impl GoRules {
    /// Reads a whole table. `None` if functions overlap, or have more rows than the table has bytes, so that it is
    /// not a valid table.
    pub(crate) fn read<'data>(table: &GoTable<impl ReadRef<'data>>) -> Option<Self> {
        let table = table.whole()?;
        let range = table.range()?;
        let mut rules = Self {
            range: range.clone(),
            functions: table.functions(),
            rows: Vec::new(),
            rules: Vec::new(),
            ids: FxHashMap::default(),
        };
        let mut at = range.start;
        for number in 0..table.functions() {
            let function = table.function(number)?;
            if function.start < at || function.end < function.start || function.end > range.end {
                return None;
            }
            at = function.end;
            rules.add(&table, &function)?;
            if rules.rows.len() as u64 > table.len() {
                return None;
            }
        }
        Some(rules)
    }

    /// Addresses from the first function to the end of the last.
    pub(crate) fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Number of functions.
    pub(crate) fn functions(&self) -> usize {
        usize::try_from(self.functions).unwrap_or(usize::MAX)
    }

    /// Parts of a stretch with their rules, in address order.
    pub(crate) fn rules(
        &self,
        stretch: Range<u64>,
    ) -> impl Iterator<Item = (Range<u64>, Option<Rule>)> {
        let start_of = |index: usize| self.range.start + u64::from(self.rows[index].0);
        let after = self.rows.partition_point(move |(distance, _)| {
            self.range.start + u64::from(*distance) <= stretch.start
        });
        (after.saturating_sub(1)..self.rows.len())
            .map(move |index| {
                let end =
                    if index + 1 < self.rows.len() { start_of(index + 1) } else { self.range.end };
                let rule = self.rules[usize::from(self.rows[index].1)];
                (start_of(index).max(stretch.start)..end.min(stretch.end), rule)
            })
            .take_while(move |(part, _)| part.start < stretch.end)
            .filter(|(part, _)| part.start < part.end)
    }

    fn add<'data, R: ReadRef<'data>>(
        &mut self,
        table: &GoTable<R>,
        function: &GoFunction,
    ) -> Option<()> {
        let name = table.name(function).unwrap_or_default();
        let kind = kind(name, table.flags(function).unwrap_or(0));
        match kind {
            Kind::Outermost => return self.push(function.start, Some(Rule::END)),
            // A walk takes the address that a handler returns to for that after a call.
            Kind::Restorer => {
                let start = function.start.saturating_sub(1).max(self.range.start);
                return self.push(start, Some(Rule::SIGNAL));
            }
            Kind::Plain | Kind::Switching => {}
        }
        let Some(values) = table.stack_bytes(function) else {
            return self.push(function.start, None);
        };
        let has_frame = kind == Kind::Switching && values.clone().any(|(bytes, _)| bytes > 0);
        let mut at = function.start;
        for (bytes, end) in values {
            let is_switched = kind == Kind::Switching && (bytes > 0 || !has_frame);
            self.push(at, Some(if is_switched { Rule::OTHER_STACK } else { rule(bytes) }))?;
            at = end;
        }
        // Damaged from there on.
        if at == function.start {
            self.push(at, None)?;
        }
        Some(())
    }

    /// Adds a row, or replaces the last. `None` if there is no room.
    fn push(&mut self, address: u64, rule: Option<Rule>) -> Option<()> {
        let distance = u32::try_from(address.checked_sub(self.range.start)?).ok()?;
        let id = match self.ids.get(&rule) {
            Some(&id) => id,
            None => {
                let id = u16::try_from(self.rules.len()).ok()?;
                self.rules.push(rule);
                self.ids.insert(rule, id);
                id
            }
        };
        if self.rows.last().is_some_and(|last| last.0 == distance) {
            self.rows.pop();
        }
        if self.rows.last().is_none_or(|last| last.1 != id) {
            self.rows.push((distance, id));
        }
        Some(())
    }
}

/// The rule of a function that has moved the stack pointer by `bytes`. A function with a frame saves its caller's
/// frame pointer directly below the return address (cmd/internal/obj/x86/obj6.go). Before Go 1.21 it was stored
/// one instruction after the frame was set up.
fn rule(bytes: i32) -> Rule {
    let plain = Rule::framed(Registers::X86_64.sp, bytes.saturating_add(8));
    if bytes > 0 { plain.saving_fp(-2) } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_left_by_flags_and_names() {
        let check = |name: &str, flags, expected| {
            assert_eq!(kind(name.as_bytes(), flags), expected, "{name} {flags}");
        };
        check("main.main", 0, Kind::Plain);
        check("main.main", 4, Kind::Plain);
        check("runtime.goexit", TOP_FRAME, Kind::Outermost);
        check("runtime.mstart", TOP_FRAME | 4, Kind::Outermost);
        // No flags before Go 1.17.
        check("runtime.goexit", 0, Kind::Outermost);
        check("runtime.systemstack", 0, Kind::Switching);
        check("runtime.systemstack_switch", 0, Kind::Plain);
        check("time.now", SP_WRITE, Kind::Switching);
        check("runtime.mcall", SP_WRITE, Kind::Outermost);
        check("runtime.sigtramp", TOP_FRAME, Kind::Plain);
        check("runtime.sigreturn", 0, Kind::Restorer);
        check("runtime.sigreturn__sigaction", 4, Kind::Restorer);
    }

    #[test]
    fn rules_by_size_of_frame() {
        let check = |bytes, expected: &str| assert_eq!(format!("{:?}", rule(bytes)), expected);
        check(0, "cfa=r7+8 ra=c-8");
        check(8, "cfa=r7+16 fp=c-16 ra=c-8");
        check(120, "cfa=r7+128 fp=c-16 ra=c-8");
        // Assembly that pops its return address.
        check(-8, "cfa=r7+0 ra=c-8");
        check(i32::MAX, "cfa=r7+2147483647 fp=c-16 ra=c-8");
    }
}
