//! Which function of the program a block is for, and which places may leak.

use std::collections::HashMap;

use crate::model::{Amount, Frame, Line, Mode, Profile, Site};

/// Where a program asked for memory: the innermost function that is not one of the allocator or of a collection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SitePlace {
    pub function: String,
    pub file: Option<String>,
    pub line: Option<u32>,
    /// The function that called it.
    pub caller: Option<String>,
}

/// How names begin that stand between a program and its allocator: functions of languages' libraries.
const LIBRARIES: [&str; 21] = [
    "alloc::",
    "<alloc::",
    "core::",
    "<core::",
    "std::",
    "<std::",
    "hashbrown::",
    "<hashbrown::",
    "__rust",
    "__rustc",
    "operator new",
    "__gnu_cxx::",
    "void std::",
    "<T as ",
    "<I as ",
    "<F as ",
    "<U as ",
    "<S as ",
    "<A as ",
    "<[T]>::",
    "<str>::",
];

/// Names of functions that allocate for others.
const HELPERS: [&str; 12] = [
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "valloc",
    "strdup",
    "strndup",
    "xmalloc",
    "xrealloc",
];

/// Names of functions by which a C library and its allocator ask the kernel for memory.
const CALLS: [&str; 15] = [
    "mmap",
    "mmap64",
    "mremap",
    "brk",
    "brk_call",
    "sbrk",
    "glibc_morecore",
    "minimal_malloc",
    "sysmalloc",
    "sysmalloc_mmap",
    "_int_malloc",
    "_int_realloc",
    "_int_memalign",
    "mremap_chunk",
    "tcache_init",
];

/// What functions of a `#[global_allocator]` have in their names.
const ALLOCATOR_OF_RUST: &str = "core::alloc::global::GlobalAlloc";

/// Is it a function between a program and its allocator, by its name, or by the file that it is in?
fn is_library(name: &str, file: Option<&str>) -> bool {
    let bare =
        name.trim_start_matches("__GI_").trim_start_matches("__libc_").trim_start_matches("__");
    LIBRARIES.iter().any(|begin| name.starts_with(begin))
        || HELPERS.contains(&bare)
        || CALLS.contains(&bare)
        || ["memset", "memcpy", "memmove"].iter().any(|begin| bare.starts_with(begin))
        || name.contains(ALLOCATOR_OF_RUST)
        || ["je_", "_rjem_", "mi_", "tc_"].iter().any(|prefix| name.starts_with(prefix))
        || file.is_some_and(|file| {
            let is_in = |part| file.contains(part);
            is_in("/rustc/")
                || is_in("/rust/library/")
                || is_in("malloc/malloc.c")
                || is_in("malloc/arena.c")
        })
}

impl SitePlace {
    /// The place of a site; without any function of the program, what called the allocator.
    pub fn of(profile: &Profile, site: &Site) -> Self {
        // The first frame is the function of the allocator. Of a page fault it is what touched the memory, below the
        // frames of the kernel.
        let is_user = |frame: &&Frame| {
            let binary = frame.binary.and_then(|id| profile.binaries.get(id as usize));
            binary.is_none_or(|binary| !binary.kind.is_kernel())
        };
        let skipped = usize::from(profile.meta.mode == Mode::Heap);
        let frames = profile.frames_of(site.stack).skip(skipped).filter(is_user);
        let lines: Vec<&Line> = frames.flat_map(|frame| &frame.lines).collect();
        let name = |line: &Line| {
            profile.functions.get(line.function as usize).map_or("", |it| it.name.as_str())
        };
        let is_own = |line: &&Line| !is_library(name(line), line.file.as_deref());
        let at = lines.iter().position(is_own).unwrap_or(0);
        let Some(line) = lines.get(at) else {
            let function = "[unknown]".to_owned();
            return Self { function, file: None, line: None, caller: None };
        };
        let mut callers = lines[at + 1..].iter().copied();
        Self {
            function: name(line).to_owned(),
            file: line.file.clone(),
            line: line.line,
            caller: callers.find(is_own).map(|line| name(line).to_owned()),
        }
    }
}

/// What all stacks allocated that have the same place.
#[derive(Debug, Clone, PartialEq)]
pub struct PlaceSum {
    /// With the caller that most bytes came by.
    pub place: SitePlace,
    pub total: Amount,
    pub at_peak: Amount,
    pub at_end: Amount,
}

/// Sites of a profile by their places, in the order of their bytes in total.
pub fn by_place(profile: &Profile, sites: &[Site]) -> Vec<PlaceSum> {
    let mut sites: Vec<&Site> = sites.iter().collect();
    sites.sort_by(|a, b| b.total.bytes.total_cmp(&a.total.bytes));
    let mut known: HashMap<SitePlace, usize> = HashMap::new();
    let mut sums: Vec<PlaceSum> = Vec::new();
    for site in sites {
        let place = SitePlace::of(profile, site);
        let at = *known.entry(SitePlace { caller: None, ..place.clone() }).or_insert_with(|| {
            let none = Amount::default();
            sums.push(PlaceSum { place, total: none, at_peak: none, at_end: none });
            sums.len() - 1
        });
        sums[at].total += site.total;
        sums[at].at_peak += site.at_peak;
        sums[at].at_end += site.at_end;
    }
    sums.sort_by(|a, b| b.total.bytes.total_cmp(&a.total.bytes));
    sums
}

/// Places that allocate again and again, and of whose blocks hardly any is freed: by the bytes that are left, largest
/// first.
pub fn suspects(places: &[PlaceSum]) -> Vec<&PlaceSum> {
    let is_suspect = |sum: &&PlaceSum| {
        let Amount { samples, bytes, .. } = sum.at_end;
        samples >= SAMPLES_MIN && bytes >= KEPT_SHARE * sum.total.bytes
    };
    let mut found: Vec<&PlaceSum> = places.iter().filter(is_suspect).collect();
    found.sort_by(|a, b| b.at_end.bytes.total_cmp(&a.at_end.bytes));
    found
}

/// A block that is allocated once and kept is what programs have, and one sample may be chance.
const SAMPLES_MIN: u64 = 3;

/// Share of the bytes of a place that are left.
const KEPT_SHARE: f64 = 0.9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_libraries() {
        let check = |name: &str, file: Option<&str>, expected: bool| {
            assert_eq!(is_library(name, file), expected, "{name}");
        };
        check("malloc", None, true);
        check("__libc_malloc", None, true);
        check("alloc::raw_vec::RawVec<T,A>::grow_one", None, true);
        check("<alloc::vec::Vec<T,A> as core::ops::Deref>::deref", None, true);
        check("allocate_page", None, false);
        check("shop::cart::add", Some("src/cart.rs"), false);
        check("shop::cart::add", Some("/rustc/5980/library/alloc/src/vec/mod.rs"), true);
        check("operator new(unsigned long)", None, true);
        check("__GI___libc_malloc", None, true);
        check("<mimalloc::MiMalloc as core::alloc::global::GlobalAlloc>::alloc", None, true);
    }
}
