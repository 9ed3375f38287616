//! Finds the allocator functions of a file by name.
//!
//! Every definition counts: the C library's, and those of another allocator that a program bundles, possibly with
//! a prefix, or links.

use std::collections::BTreeMap;

use object::{Object as _, ObjectSymbol as _, ReadRef, SymbolKind};
use wingbeat_profiler_abi::heap::{EXIT_FILLS, EXIT_REGISTER_SHIFT, call};

use super::{
    code::Text,
    exits::{Exit, Other, ends},
};
use crate::heap::probe_site::{Code, probe_site};

/// A function to probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Function {
    pub name: String,
    /// One of [`call`], possibly with [`call::NEW_IS_OTHERS`].
    pub call: u64,
    /// ELF addresses: the first, and one past the last.
    pub range: (u64, u64),
    pub entry: Probe,
    /// Exits where the block is known, each with its cookie; empty for a function that frees.
    pub exits: Vec<(Probe, u64)>,
}

/// A probe position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Probe {
    /// Byte offset in the file.
    pub offset: u64,
    /// Whether the kernel emulates the instruction there instead of single-stepping it.
    pub is_emulated: bool,
}

/// The allocator functions that a file defines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Allocator {
    pub functions: Vec<Function>,
    /// Names of functions that cannot be probed because their exits are unknown.
    pub left_out: Vec<String>,
}

/// Names without a prefix, and their kinds.
const NAMES: &[(&str, u64)] = &[
    // C, POSIX and C library extensions.
    ("malloc", call::MALLOC),
    ("calloc", call::CALLOC),
    ("realloc", call::REALLOC),
    ("reallocarray", call::REALLOCARRAY),
    ("free", call::FREE),
    ("cfree", call::FREE),
    ("free_sized", call::FREE),
    ("free_aligned_sized", call::FREE),
    ("posix_memalign", call::POSIX_MEMALIGN),
    ("aligned_alloc", call::ALIGNED),
    ("memalign", call::ALIGNED),
    ("valloc", call::MALLOC),
    ("pvalloc", call::MALLOC),
    // jemalloc.
    ("mallocx", call::MALLOC),
    ("rallocx", call::REALLOC),
    ("dallocx", call::FREE),
    ("sdallocx", call::FREE),
    // mimalloc.
    ("zalloc", call::MALLOC),
    ("malloc_small", call::MALLOC),
    ("zalloc_small", call::MALLOC),
    ("mallocn", call::CALLOC),
    ("reallocn", call::REALLOCARRAY),
    ("reallocf", call::REALLOC),
    ("malloc_aligned", call::MALLOC),
    ("zalloc_aligned", call::MALLOC),
    ("realloc_aligned", call::REALLOC),
    ("heap_malloc", call::ALIGNED),
    ("heap_zalloc", call::ALIGNED),
    ("heap_malloc_aligned", call::ALIGNED),
    ("free_size", call::FREE),
    ("free_size_aligned", call::FREE),
    ("free_aligned", call::FREE),
    // mimalloc and tcmalloc.
    ("new", call::MALLOC),
    ("new_nothrow", call::MALLOC),
    ("newarray", call::MALLOC),
    ("newarray_nothrow", call::MALLOC),
    ("delete", call::FREE),
    ("delete_sized", call::FREE),
    ("deletearray", call::FREE),
    ("deletearray_sized", call::FREE),
];

/// Number of names that may have no prefix: the others, of mimalloc and tcmalloc, are common words.
const PLAIN: usize = 13;

/// Prefixes used by libraries and by programs that link them.
const PREFIXES: [&str; 5] = ["", "je_", "_rjem_", "mi_", "tc_"];

/// C++ operators (Itanium C++ ABI, 5.1.5). Those of the standard library end in `malloc`, which is in another file.
const OPERATORS: &[(&str, u64)] = &[
    ("_Znwm", call::MALLOC),
    ("_Znam", call::MALLOC),
    ("_ZnwmRKSt9nothrow_t", call::MALLOC),
    ("_ZnamRKSt9nothrow_t", call::MALLOC),
    ("_ZnwmSt11align_val_t", call::MALLOC),
    ("_ZnamSt11align_val_t", call::MALLOC),
    ("_ZnwmSt11align_val_tRKSt9nothrow_t", call::MALLOC),
    ("_ZnamSt11align_val_tRKSt9nothrow_t", call::MALLOC),
    ("_ZdlPv", call::FREE),
    ("_ZdaPv", call::FREE),
    ("_ZdlPvm", call::FREE),
    ("_ZdaPvm", call::FREE),
    ("_ZdlPvSt11align_val_t", call::FREE),
    ("_ZdaPvSt11align_val_t", call::FREE),
    ("_ZdlPvmSt11align_val_t", call::FREE),
    ("_ZdaPvmSt11align_val_t", call::FREE),
    ("_ZdlPvRKSt9nothrow_t", call::FREE),
    ("_ZdaPvRKSt9nothrow_t", call::FREE),
];

/// Kind of the allocator function with this name, if it is one.
fn call_of(name: &str) -> Option<u64> {
    PREFIXES.iter().find_map(|prefix| {
        let rest = name.strip_prefix(prefix)?;
        let names = if prefix.is_empty() { &NAMES[..PLAIN] } else { NAMES };
        names.iter().find(|(known, _)| *known == rest).map(|(_, call)| *call)
    })
}

impl Allocator {
    /// Returns a file's functions, by address; none if it defines none or cannot be read.
    pub(crate) fn of<'data>(data: impl ReadRef<'data>) -> Self {
        let Ok(file) = object::File::parse(data) else { return Self::default() };
        if !file.is_64() {
            return Self::default();
        }
        let mut found: BTreeMap<u64, Symbol> = BTreeMap::new();
        let mut operators: BTreeMap<u64, Symbol> = BTreeMap::new();
        // Of several names for one function the first is used: dynamic symbols come first.
        for symbol in file.dynamic_symbols().chain(file.symbols()) {
            if !symbol.is_definition() || symbol.kind() != SymbolKind::Text || symbol.size() == 0 {
                continue;
            }
            let Ok(name) = symbol.name() else { continue };
            let name = name.split('@').next().unwrap_or(name);
            let of_call = |call, is_operator| Symbol {
                name: name.to_owned(),
                call,
                size: symbol.size(),
                is_operator,
            };
            if let Some(call) = call_of(name) {
                found.entry(symbol.address()).or_insert_with(|| of_call(call, false));
            } else if let Some((_, call)) = OPERATORS.iter().find(|(known, _)| *known == name) {
                operators.entry(symbol.address()).or_insert_with(|| of_call(*call, true));
            }
        }
        if !found.values().any(|symbol| symbol.call != call::FREE) {
            return Self::default();
        }
        for (address, operator) in operators {
            found.entry(address).or_insert(operator);
        }
        let text = Text::of(&file);
        let filler = || file.dynamic_symbols().chain(file.symbols());
        let filler = filler()
            .find(|it| it.is_definition() && it.name() == Ok("memset"))
            .map(|it| it.address());
        let mut allocator = Self::default();
        for (&address, symbol) in &found {
            match function(&text, (address, symbol), &found, filler) {
                Ok(function) => allocator.functions.extend(function),
                Err(UnknownEnd) => allocator.left_out.push(symbol.name.clone()),
            }
        }
        allocator
    }
}

#[derive(Debug)]
struct Symbol {
    name: String,
    call: u64,
    size: u64,
    is_operator: bool,
}

/// A function with a computed jump.
struct UnknownEnd;

/// The probes of a function; `None` if another function does its work.
fn function(
    text: &Text<'_>,
    (address, symbol): (u64, &Symbol),
    all: &BTreeMap<u64, Symbol>,
    filler: Option<u64>,
) -> Result<Option<Function>, UnknownEnd> {
    let (Some(bytes), Some(end)) = (text.from(address), address.checked_add(symbol.size)) else {
        return Ok(None);
    };
    let size = usize::try_from(symbol.size).unwrap_or(usize::MAX).min(bytes.len());
    let is_free = symbol.call == call::FREE;
    let mut call = symbol.call;
    let mut exits = Vec::new();
    if !is_free {
        let other = |target| match all.get(&target) {
            Some(symbol) => (symbol.call != call::FREE).then_some(Other::Probed),
            None => (Some(target) == filler).then_some(Other::Fills),
        };
        // `posix_memalign` stores the block in memory, possibly at the very end.
        let by_returns = call == call::POSIX_MEMALIGN;
        let ends = ends(text, address, by_returns, other).ok_or(UnknownEnd)?;
        // The function called by an operator returns the block. And a `reallocarray` that does not do the work
        // jumps to `realloc`.
        let is_others = symbol.is_operator && ends.calls_other
            || symbol.call == call::REALLOCARRAY
                && (ends.is_handed_on || ends.exits.iter().any(|exit| exit.leaves));
        if is_others || ends.exits.iter().all(|exit| exit.leaves) {
            return Ok(None);
        }
        if ends.is_handed_on && call == call::REALLOC {
            call |= call::NEW_IS_OTHERS;
        }
        // Only `calloc` may jump to a function with the block as its argument, to clear it.
        let is_exit = |exit: &&Exit| !exit.leaves || call == call::CALLOC;
        exits = ends
            .exits
            .iter()
            .filter(is_exit)
            .filter_map(|exit| {
                let offset = text.offset(exit.address)?;
                let cookie = exit.depth
                    | u64::from(exit.register) << EXIT_REGISTER_SHIFT
                    | if exit.leaves { EXIT_FILLS } else { 0 };
                let is_near = exit.depth >> EXIT_REGISTER_SHIFT == 0;
                is_near.then_some((Probe { offset, is_emulated: exit.is_emulated }, cookie))
            })
            .collect();
    }
    let site = probe_site(&Code { bytes: &bytes[..size], address }, is_free);
    let offset = text.offset(address + site.offset);
    Ok(offset.map(|offset| Function {
        name: symbol.name.clone(),
        call,
        range: (address, end),
        entry: Probe { offset, is_emulated: site.is_emulated },
        exits,
    }))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn names_with_and_without_prefixes() {
        let check =
            |name: &str, expected: Option<u64>| assert_eq!(call_of(name), expected, "{name}");
        check("malloc", Some(call::MALLOC));
        check("_rjem_sdallocx", Some(call::FREE));
        check("mi_zalloc_aligned", Some(call::MALLOC));
        check("tc_deletearray_sized", Some(call::FREE));
        check("je_posix_memalign", Some(call::POSIX_MEMALIGN));
        check("new", None);
        check("delete", None);
        check("malloc_usable_size", None);
        check("xmalloc", None);
    }

    #[test]
    fn the_c_library_of_this_machine_has_them() {
        let mappings = crate::proc::executable_mappings(std::process::id());
        let library =
            mappings.iter().find(|it| it.path.contains("libc.so") || it.path.contains("libc-"));
        let Some(library) = library else {
            eprintln!("skipped: this test has no shared C library");
            return;
        };
        let found = Allocator::of(&*fs::read(&library.path).expect("read"));
        assert_eq!(found.left_out, [""; 0]);
        let found = found.functions;
        for name in ["malloc", "calloc", "realloc", "free", "posix_memalign"] {
            let call = call_of(name).expect("known");
            let does = |it: &Function| it.call & !call::NEW_IS_OTHERS == call;
            assert!(found.iter().any(does), "{name}: {found:?}");
        }
        let mut offsets: Vec<u64> = found.iter().map(|it| it.entry.offset).collect();
        offsets.dedup();
        assert_eq!(offsets.len(), found.len(), "{found:?}");
        // `realloc` does its work, and is probed.
        assert!(found.iter().all(|it| it.name != "reallocarray"), "{found:?}");
    }

    #[test]
    fn files_without_an_allocator() {
        assert_eq!(Allocator::of(&b"#!/bin/sh\n"[..]), Allocator::default());
        assert_eq!(Allocator::of(&[][..]), Allocator::default());
    }
}
