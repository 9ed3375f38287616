//! Functions of an allocator in a file, by their names.
//!
//! Every definition counts, whoever calls it: that of the C library, of another one that a program brings along, with
//! the prefix that it gave to its functions, or was linked with.

use std::collections::BTreeMap;

use object::{Object as _, ObjectSegment as _, ObjectSymbol as _, ReadRef, SymbolKind};
use wingbeat_profile_common::heap::call;

use super::place::{Code, place};

/// A function to be probed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Function {
    pub name: String,
    /// One of [`call`], perhaps with [`call::NEW_IS_OTHERS`].
    pub call: u64,
    /// Its ELF addresses: the first, and one past the last.
    pub range: (u64, u64),
    /// The place to probe, as an offset in the file.
    pub offset: u64,
    /// Whether the kernel carries out the instruction there by itself, instead of stepping over it.
    pub is_emulated: bool,
}

/// Names without a prefix, and what they do.
const NAMES: &[(&str, u64)] = &[
    // C, POSIX, and what the C libraries add.
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

/// Names that stand without a prefix: mimalloc's and tcmalloc's others are words that any program may use.
const PLAIN: usize = 13;

/// What libraries, and programs that link them, put before the names.
const PREFIXES: [&str; 5] = ["", "je_", "_rjem_", "mi_", "tc_"];

/// Operators of C++ (Itanium C++ ABI, 5.1.5). Those of the standard library end in `malloc`, which is another file's.
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

/// What a function of this name does, if it is one of an allocator.
fn call_of(name: &str) -> Option<u64> {
    PREFIXES.iter().find_map(|prefix| {
        let rest = name.strip_prefix(prefix)?;
        let names = if prefix.is_empty() { &NAMES[..PLAIN] } else { NAMES };
        names.iter().find(|(known, _)| *known == rest).map(|(_, call)| *call)
    })
}

/// The functions of an allocator that an ELF file defines, by their addresses; none where it defines none, or cannot
/// be read.
pub(crate) fn functions<'data>(data: impl ReadRef<'data>) -> Vec<Function> {
    let Ok(file) = object::File::parse(data) else { return Vec::new() };
    if !file.is_64() {
        return Vec::new();
    }
    let mut found: BTreeMap<u64, (String, u64, u64)> = BTreeMap::new();
    let mut operators: BTreeMap<u64, (String, u64, u64)> = BTreeMap::new();
    // Of several names for the same function the first stays: those with a table of their own come first.
    for symbol in file.dynamic_symbols().chain(file.symbols()) {
        if !symbol.is_definition() || symbol.kind() != SymbolKind::Text || symbol.size() == 0 {
            continue;
        }
        let Ok(name) = symbol.name() else { continue };
        let name = name.split('@').next().unwrap_or(name);
        let (address, size) = (symbol.address(), symbol.size());
        if let Some(call) = call_of(name) {
            found.entry(address).or_insert_with(|| (name.to_owned(), call, size));
        } else if let Some((_, call)) = OPERATORS.iter().find(|(known, _)| *known == name) {
            operators.entry(address).or_insert_with(|| (name.to_owned(), *call, size));
        }
    }
    let allocates = |(_, call, _): &(String, u64, u64)| *call != call::FREE;
    if !found.values().any(allocates) {
        return Vec::new();
    }
    for (address, operator) in operators {
        found.entry(address).or_insert(operator);
    }
    let starts: Vec<u64> = found.keys().copied().collect();
    let function = |(&address, (name, call, size)): (&u64, &(String, u64, u64))| {
        let (code, offset) = code(&file, address, *size)?;
        let code = Code { bytes: code, address };
        let end = address.checked_add(*size)?;
        let mut call = *call;
        let is_other = |target| target != address && starts.contains(&target);
        // Beyond its end is `realloc`, perhaps by the linkage table, which has no symbol.
        let is_beyond = |target| !(address..end).contains(&target);
        if call == call::REALLOCARRAY && code.jumps_to(is_beyond) {
            return None;
        }
        if call != call::FREE && code.jumps_to(is_other) {
            if !code.returns() {
                // Whatever it does is done by the other function.
                return None;
            }
            if call == call::REALLOC || call == call::REALLOCARRAY {
                call |= call::NEW_IS_OTHERS;
            }
        }
        let place = place(&code, call == call::FREE);
        Some(Function {
            name: name.clone(),
            call,
            range: (address, end),
            offset: offset.checked_add(place.offset)?,
            is_emulated: place.is_emulated,
        })
    };
    found.iter().filter_map(function).collect()
}

/// The bytes of a function, and where they begin in the file.
fn code<'data, R: ReadRef<'data>>(
    file: &object::File<'data, R>,
    address: u64,
    size: u64,
) -> Option<(&'data [u8], u64)> {
    file.segments().find_map(|segment| {
        let bytes = segment.data_range(address, size).ok()??;
        let within = address.checked_sub(segment.address())?;
        Some((bytes, segment.file_range().0.checked_add(within)?))
    })
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
        let found = functions(&*fs::read(&library.path).expect("read"));
        for name in ["malloc", "calloc", "realloc", "free", "posix_memalign"] {
            let call = call_of(name).expect("known");
            let does = |it: &Function| it.call & !call::NEW_IS_OTHERS == call;
            assert!(found.iter().any(does), "{name}: {found:?}");
        }
        let mut offsets: Vec<u64> = found.iter().map(|it| it.offset).collect();
        offsets.dedup();
        assert_eq!(offsets.len(), found.len(), "{found:?}");
        // `realloc` does its work, and is probed.
        assert!(found.iter().all(|it| it.name != "reallocarray"), "{found:?}");
    }

    #[test]
    fn files_without_an_allocator() {
        assert_eq!(functions(&b"#!/bin/sh\n"[..]), []);
        assert_eq!(functions(&[][..]), []);
    }
}
