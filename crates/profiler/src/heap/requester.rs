//! Determines the function of the program that wanted a block, and the sites that may leak.
//!
//! A stack leads from the allocator through libraries, and through functions of the program that allocate for others,
//! to the one that wanted the memory. Libraries are recognized by the file or the language of a frame. Functions that
//! allocate for others have no common name, so they are recognized by their role in the recording (`wrappers`).

use std::collections::{HashMap, HashSet};

use crate::{
    export::places::is_c_library,
    model::{Amount, Frame, FrameId, FunctionId, Line, Mode, Profile, Site},
};

/// Where a program requested memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Requester {
    pub function: String,
    pub file: Option<String>,
    pub line: Option<u32>,
    /// Its caller.
    pub caller: Option<String>,
    /// The wrapper that it called, unless that is the allocator or a collection.
    pub by: Option<String>,
}

/// Names of C library functions that programs do not reuse, for programs that link it statically: functions that
/// return memory, request it from the kernel or fill it, and the C++ operators.
const C_LIBRARY: [&str; 5] = [
    "malloc calloc realloc reallocarray memalign aligned_alloc posix_memalign valloc strdup strndup",
    "mmap mmap64 mremap brk sbrk memset memcpy memmove glibc_morecore minimal_malloc tcache_init",
    "sysmalloc sysmalloc_mmap _int_malloc _int_realloc _int_memalign mremap_chunk",
    "operator_new operator_new[] operator_delete operator_delete[]",
    // Functions without other names.
    "_start __libc_start_main __libc_start_main_impl __libc_start_call_main __libc_csu_init",
];

fn is_of_c_library(name: &str) -> bool {
    let name = name.replace(' ', "_");
    let bare =
        name.trim_start_matches("__GI_").trim_start_matches("__libc_").trim_start_matches("__");
    C_LIBRARY.iter().flat_map(|it| it.split(' ')).any(|it| it == name || it == bare)
}

/// Files of allocators that replace the C library's.
const ALLOCATORS: [&str; 3] = ["libjemalloc", "libtcmalloc", "libmimalloc"];

/// Part of the names of `#[global_allocator]` functions.
const ALLOCATOR_OF_RUST: &str = "core::alloc::global::GlobalAlloc";

/// Kind of a function in a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The program's.
    Own,
    /// The allocator, or between it and the program.
    Library,
    /// As `Library`, but it also does other work: the C library's.
    Helper,
}

/// Classifies a function by its name and by the files of its source and code.
fn kind(name: &str, source: Option<&str>, file: &str) -> Kind {
    if ALLOCATORS.iter().any(|it| file.starts_with(it)) || is_of_c_library(name) {
        return Kind::Library;
    }
    let is_from = |part| source.is_some_and(|source| source.contains(part));
    let is_library = match arguments_at(name) {
        // A C++ name.
        Some(at) => {
            let name = without_result(&name[..at]);
            is_of_c_library(name) || ["std::", "__gnu_cxx::"].iter().any(|it| name.starts_with(it))
        }
        None => {
            is_of_rust(name)
                || name.contains(ALLOCATOR_OF_RUST)
                || ["__rust", "__rdl_", "__rg_", "_rjem_"].iter().any(|it| name.starts_with(it))
                // Names of CPU-specific variants.
                || ["__memset_", "__memcpy_", "__memmove_"].iter().any(|it| name.starts_with(it))
        }
    };
    let sources = ["/rustc/", "/rust/library/", "malloc/malloc.c", "malloc/arena.c"];
    match is_library || sources.into_iter().any(is_from) {
        true => Kind::Library,
        false if is_c_library(file) => Kind::Helper,
        false => Kind::Own,
    }
}

/// Position of a C++ function's arguments, if any: parentheses that are not within other brackets, and neither
/// `operator()` nor `(anonymous namespace)`.
fn arguments_at(name: &str) -> Option<usize> {
    let mut depth = 0_i32;
    // By bytes: names may be non-ASCII.
    let bytes = name.as_bytes();
    for (at, byte) in name.bytes().enumerate() {
        let is_operator = bytes[..at].ends_with(b"operator");
        match byte {
            b'(' if depth == 0 && !is_operator && !bytes[at..].starts_with(b"(anonymous") => {
                return Some(at);
            }
            b'<' | b'{' | b'(' if !is_operator => depth += 1,
            b'>' | b'}' | b')' if depth > 0 => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The name of a C++ function without its return type, which template instances have before it.
fn without_result(name: &str) -> &str {
    let mut depth = 0_i32;
    let mut start = 0;
    for (at, byte) in name.bytes().enumerate() {
        match byte {
            b'<' | b'(' | b'{' => depth += 1,
            b'>' | b')' | b'}' => depth -= 1,
            b' ' if depth == 0 && !name[start..at].ends_with("operator") => start = at + 1,
            _ => {}
        }
    }
    &name[start..]
}

/// Whether a function is from Rust's own libraries. `<A as B>::f` is if `A` is one of their types; if `A` is a
/// parameter or built in, if `B` is theirs.
fn is_of_rust(name: &str) -> bool {
    let is_path = |path: &str| {
        let path = path.trim_start_matches(['<', '&', '*']).trim_start_matches("mut ");
        ["alloc::", "core::", "std::", "hashbrown::"].iter().any(|it| path.starts_with(it))
    };
    let Some(rest) = name.strip_prefix('<').filter(|_| !is_path(name)) else {
        return is_path(name);
    };
    let is_parameter = rest.starts_with(|first: char| first.is_ascii_uppercase())
        && rest[1..].starts_with([' ', '>']);
    let is_built_in = rest.starts_with(['[', '(', '&', '*']) || rest.starts_with("str>");
    let of_trait = rest.split_once(" as ").map(|(_, of)| of);
    (is_parameter || is_built_in) && of_trait.is_none_or(is_path)
}

/// The functions of a stack, innermost first.
struct Calls<'a> {
    lines: Vec<(&'a Line, Kind)>,
}

/// Kinds of a frame's functions; `None` in the kernel. `allocators` are functions that returned blocks.
fn kinds(profile: &Profile, frame: &Frame, allocators: &HashSet<FunctionId>) -> Option<Vec<Kind>> {
    let binary = frame.binary.and_then(|id| profile.binaries.get(id as usize));
    if binary.is_some_and(|binary| binary.kind.is_kernel()) {
        return None;
    }
    let file = binary.map_or("", |binary| binary.name());
    let kind = |line: &Line| {
        let name = profile.functions.get(line.function as usize).map_or("", |it| &it.name);
        match allocators.contains(&line.function) {
            true => Kind::Library,
            false => kind(name, line.file.as_deref(), file),
        }
    };
    Some(frame.lines.iter().map(kind).collect())
}

impl<'a> Calls<'a> {
    /// The functions of a site, with the kinds of all frames.
    fn of(profile: &'a Profile, site: &Site, kinds: &[Option<Vec<Kind>>]) -> Self {
        let stack = profile.stacks.get(site.stack as usize).map_or(&[][..], |it| &it.frames);
        let of_frame = |id: &FrameId| {
            let (frame, kinds) = (profile.frames.get(*id as usize)?, kinds.get(*id as usize)?);
            Some(frame.lines.iter().zip(kinds.as_ref()?.iter().copied()))
        };
        Self { lines: stack.iter().filter_map(of_frame).flatten().collect() }
    }

    fn function(&self, at: usize) -> FunctionId {
        self.lines[at].0.function
    }

    /// The next function of the program with another name.
    fn caller_of(&self, at: usize) -> Option<usize> {
        let is_other =
            |it: &usize| self.lines[*it].1 == Kind::Own && self.function(*it) != self.function(at);
        (at + 1..self.lines.len()).find(is_other)
    }

    /// The first function of the program that is not a wrapper.
    fn requester(&self, wrappers: &HashSet<FunctionId>) -> Option<usize> {
        let own = |it: &usize| self.lines[*it].1 == Kind::Own;
        let mut all = (0..self.lines.len()).filter(own);
        let first = all.next()?;
        let is_place = |it: &usize| !wrappers.contains(&self.function(*it));
        Some(Some(first).into_iter().chain(all).find(is_place).unwrap_or(first))
    }
}

/// Whether a function's callers differ in what they allocated in total and still have. If so, they want different
/// sizes, or their blocks have different lifetimes.
fn differ<'a>(callers: impl Iterator<Item = &'a (Amount, Amount)>) -> bool {
    let all: Vec<_> = callers.filter(|(total, _)| total.bytes > 0.0).collect();
    let sizes = all.iter().map(|(total, _)| total.bytes / total.blocks);
    let known = all.iter().filter(|(total, _)| total.samples >= SAMPLES_MIN);
    let kept = known.map(|(total, at_end)| at_end.bytes / total.bytes);
    let range = |all: &mut dyn Iterator<Item = f64>| {
        all.fold((f64::MAX, 0.0), |(least, most), it| (it.min(least), it.max(most)))
    };
    let ((least, most), (first, last)) = (range(&mut { sizes }), range(&mut { kept }));
    most > least * 1.01 || last - first >= 0.5
}

/// Functions that allocate for others (`xmalloc`, `g_malloc`). Nothing else is between the allocator and such a
/// function, several functions call it, and their allocations differ. Most of what is allocated below it comes
/// through it directly, and it is not recursive. Functions called only by it are part of it.
fn wrappers(calls: &[(Calls<'_>, &Site)]) -> HashSet<FunctionId> {
    let mut below: HashMap<FunctionId, f64> = HashMap::new();
    let mut recursive = HashSet::new();
    for (calls, site) in calls {
        let mut seen = HashSet::new();
        let own = calls.lines.iter().filter(|(_, kind)| *kind == Kind::Own);
        let mut own: Vec<FunctionId> = own.map(|(line, _)| line.function).collect();
        own.dedup();
        for function in own {
            match seen.insert(function) {
                true => *below.entry(function).or_default() += site.total.bytes,
                false => drop(recursive.insert(function)),
            }
        }
    }
    let mut found = HashSet::new();
    loop {
        let mut through: HashMap<FunctionId, Vec<(&Calls<'_>, usize, &Site)>> = HashMap::new();
        for (calls, site) in calls {
            if let Some(at) = calls.requester(&found) {
                through.entry(calls.function(at)).or_default().push((calls, at, *site));
            }
        }
        let before = found.len();
        for (mut function, mut sites) in through {
            let bytes: f64 = sites.iter().map(|(.., site)| site.total.bytes).sum();
            let mut chain = Vec::new();
            while bytes * 2.0 > below.get(&function).copied().unwrap_or_default()
                && !recursive.contains(&function)
            {
                chain.push(function);
                let mut callers: HashMap<FunctionId, (Amount, Amount)> = HashMap::new();
                sites.retain_mut(|(calls, at, site)| {
                    let Some(caller) = calls.caller_of(*at) else { return false };
                    let (total, at_end) = callers.entry(calls.function(caller)).or_default();
                    *total += site.total;
                    *at_end += site.at_end;
                    *at = caller;
                    true
                });
                match callers.keys().next() {
                    Some(only) if callers.len() == 1 => function = *only,
                    _ => {
                        found.extend(chain.drain(..).filter(|_| differ(callers.values())));
                        break;
                    }
                }
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

/// Sum over all stacks that are the same from the allocator to the requester and its caller.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequesterSum {
    pub requester: Requester,
    /// Functions between the allocator and the requester.
    between: Vec<FunctionId>,
    pub total: Amount,
    pub at_peak: Amount,
    pub at_end: Amount,
}

/// A table row: a requester, with the caller through which most came.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub requester: Requester,
    /// Number of further callers.
    pub others: usize,
    pub amount: Amount,
}

/// Groups the sites of a profile by requester.
pub fn by_requester(profile: &Profile, sites: &[Site]) -> Vec<RequesterSum> {
    let is_heap = profile.meta.mode == Mode::Heap;
    // The first frame of an allocation is the probed function.
    let probed = sites.iter().filter(|_| is_heap).filter_map(|site| {
        profile.frames_of(site.stack).next()?.lines.last().map(|line| line.function)
    });
    let allocators: HashSet<FunctionId> = probed.collect();
    let kinds: Vec<_> = profile.frames.iter().map(|it| kinds(profile, it, &allocators)).collect();
    let calls = sites.iter().map(|site| (Calls::of(profile, site, &kinds), site));
    let calls: Vec<_> = calls.collect();
    let wrappers = wrappers(&calls);
    let name = |id: FunctionId| profile.functions.get(id as usize).map_or("", |it| &it.name);
    let mut known: HashMap<(Requester, Vec<FunctionId>), usize> = HashMap::new();
    let mut sums: Vec<RequesterSum> = Vec::new();
    for (calls, site) in &calls {
        // Without a function of the program, use the allocator's caller.
        let allocator = usize::from(is_heap && calls.lines.len() > 1);
        let at = calls.requester(&wrappers).unwrap_or(allocator);
        let (requester, between) = match calls.lines.get(at) {
            None => {
                let requester =
                    Requester { function: "[unknown]".to_owned(), ..Requester::default() };
                (requester, Vec::new())
            }
            Some((line, _)) => {
                let between: Vec<_> = (0..at).map(|it| calls.function(it)).collect();
                let by =
                    calls.lines[..at].iter().rev().find(|(it, _)| it.function != line.function);
                let is_named = |id: FunctionId| {
                    profile.functions.get(id as usize).is_some_and(|it| it.is_symbol)
                };
                let by = by.filter(|(it, kind)| *kind != Kind::Library && is_named(it.function));
                let requester = Requester {
                    function: name(line.function).to_owned(),
                    file: line.file.clone(),
                    line: line.line,
                    caller: calls.caller_of(at).map(|it| name(calls.function(it)).to_owned()),
                    by: by.map(|(line, _)| name(line.function).to_owned()),
                };
                (requester, between)
            }
        };
        let at = *known.entry((requester.clone(), between.clone())).or_insert_with(|| {
            sums.push(RequesterSum { requester, between, ..RequesterSum::default() });
            sums.len() - 1
        });
        sums[at].total += site.total;
        sums[at].at_peak += site.at_peak;
        sums[at].at_end += site.at_end;
    }
    sums
}

/// Requesters by an amount, most first. Requesters with none are left out.
pub fn rows(sums: &[RequesterSum], of: impl Fn(&RequesterSum) -> Amount) -> Vec<Row> {
    let mut rows: Vec<Row> = merged(sums.iter()).iter().map(|same| row(same, &of)).collect();
    rows.retain(|row| row.amount.bytes() > 0);
    rows.sort_by(|a, b| b.amount.bytes.total_cmp(&a.amount.bytes));
    rows
}

/// Groups sums with the same requester and any caller.
fn merged<'a>(sums: impl Iterator<Item = &'a RequesterSum>) -> Vec<Vec<&'a RequesterSum>> {
    let mut known: HashMap<Requester, usize> = HashMap::new();
    let mut all: Vec<Vec<&RequesterSum>> = Vec::new();
    for sum in sums {
        let key = Requester { caller: None, by: None, ..sum.requester.clone() };
        let at = *known.entry(key).or_insert(all.len());
        match all.get_mut(at) {
            Some(same) => same.push(sum),
            None => all.push(vec![sum]),
        }
    }
    all
}

/// The row of sums with the same requester.
fn row(same: &[&RequesterSum], of: impl Fn(&RequesterSum) -> Amount) -> Row {
    let mut callers: HashMap<Option<&str>, f64> = HashMap::new();
    for sum in same.iter().filter(|sum| of(sum).bytes > 0.0) {
        *callers.entry(sum.requester.caller.as_deref()).or_default() += of(sum).bytes;
    }
    let most = same.iter().rev().max_by(|a, b| {
        let of_caller = |sum: &RequesterSum| callers.get(&sum.requester.caller.as_deref()).copied();
        let key = |sum: &RequesterSum| (of_caller(sum).unwrap_or_default(), of(sum).bytes);
        key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal)
    });
    Row {
        requester: most.map(|sum| sum.requester.clone()).unwrap_or_default(),
        others: callers.len().saturating_sub(1),
        amount: same.iter().map(|sum| of(sum)).sum(),
    }
}

/// Requesters that allocate repeatedly and hardly free anything, or only what a growing container replaced: by
/// remaining bytes, most first.
pub fn suspects(sums: &[RequesterSum]) -> Vec<Row> {
    let is_kept = |total: Amount, at_end: Amount| {
        at_end.samples >= SAMPLES_MIN && at_end.bytes >= KEPT_SHARE * total.bytes
    };
    let leaks = |sum: &&RequesterSum| {
        let RequesterSum { total, at_end, .. } = **sum;
        is_kept(total, at_end) || is_grown(total, at_end)
    };
    let mut found = Vec::new();
    for same in merged(sums.iter()) {
        let total = same.iter().map(|sum| sum.total).sum();
        let at_end = same.iter().map(|sum| sum.at_end).sum();
        let all = match is_kept(total, at_end) {
            true => same,
            false => same.into_iter().filter(leaks).collect(),
        };
        found.push(row(&all, |sum| sum.at_end));
    }
    found.retain(|row| row.amount.samples > 0);
    found.sort_by(|a, b| b.amount.bytes.total_cmp(&a.amount.bytes));
    found
}

/// A block allocated once and kept is normal, and one sample may be chance.
const SAMPLES_MIN: u64 = 3;

/// Minimum share of remaining bytes of a suspect.
const KEPT_SHARE: f64 = 0.9;

/// Whether the freed blocks are those that growing containers leave behind. Doubling frees half of the new size
/// each time: in the end, as much remains as was freed in total, in one block much larger than most others.
/// Growing by half leaves a third.
fn is_grown(total: Amount, at_end: Amount) -> bool {
    let (blocks, bytes) = (total.blocks - at_end.blocks, total.bytes - at_end.bytes);
    at_end.samples >= SAMPLES_MIN
        && at_end.bytes >= 0.3 * total.bytes
        && at_end.bytes / at_end.blocks >= 2.0 * bytes / blocks.max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_libraries() {
        let check = |name: &str, source: Option<&str>, file: &str, expected: Kind| {
            assert_eq!(kind(name, source, file), expected, "{name}");
        };
        let library = |name| check(name, None, "a.out", Kind::Library);
        let own = |name| check(name, None, "a.out", Kind::Own);
        library("malloc");
        library("__GI___libc_malloc");
        library("__memset_avx2_unaligned_erms");
        library("operator new(unsigned long)");
        library("alloc::raw_vec::RawVec<T,A>::grow_one");
        library("<alloc::vec::Vec<T,A> as core::ops::Deref>::deref");
        library("<T as alloc::slice::hack::ConvertVec>::to_vec");
        library("<[T]>::to_vec");
        library("<&mut core::fmt::Formatter as core::fmt::Write>::write_str");
        library("<mimalloc::MiMalloc as core::alloc::global::GlobalAlloc>::alloc");
        library("std::vector<int, std::allocator<int> >::push_back(int&&)");
        library("std::shared_ptr<std::enable_if<!(a), b>::type> std::make_shared<Node>()");
        library("void std::vector<int>::_M_realloc_insert<int>(int&&)");
        library("std::make_shared<Node>");
        library("int* __gnu_cxx::new_allocator<int>::allocate(unsigned long, void const*)");
        own("größe_prüfen");
        own("größe::prüfen(unsigned long) const");
        own("allocate_page");
        own("core::Server::open_session()");
        own("alloc::fill_pool()");
        own("memset_pool_init");
        own("tc_add_filter");
        own("mi_open_table");
        own("xmalloc");
        own("start_thread");
        library("__libc_start_main_impl");
        own("std::vector<int> shop::make<int>(int)");
        own("(anonymous namespace)::core::fill()");
        own("shop::Cart::operator()(int)");
        own("bool shop::operator< <int>(int)");
        own("<shop::Cart as core::clone::Clone>::clone");
        own("<T as shop::Stock>::fill");
        check("shop::cart::add", Some("src/cart.rs"), "shop", Kind::Own);
        let source = Some("/rustc/5980/library/alloc/src/vec/mod.rs");
        check("shop::cart::add", source, "shop", Kind::Library);
        check("fopen", None, "libc.so.6", Kind::Helper);
        check("extent_alloc", None, "libjemalloc.so.2", Kind::Library);
    }

    #[test]
    fn containers_that_grew() {
        let amount = |blocks: f64, bytes: f64| Amount {
            blocks,
            bytes,
            samples: blocks as u64,
            ..Amount::default()
        };
        let check = |total: (f64, f64), at_end: (f64, f64), expected: bool| {
            let found = is_grown(amount(total.0, total.1), amount(at_end.0, at_end.1));
            assert_eq!(found, expected, "{total:?} {at_end:?}");
        };
        // 50 times 4, 8, … 32,768 bytes.
        check((700.0, 3_276_600.0), (50.0, 1_638_400.0), true);
        // Growing by half.
        check((700.0, 3_000_000.0), (50.0, 1_000_000.0), true);
        // Half of the blocks, all of one size.
        check((100.0, 100_000.0), (50.0, 50_000.0), false);
        // A single one.
        check((14.0, 65_532.0), (1.0, 32_768.0), false);
        check((700.0, 3_276_600.0), (5.0, 163_840.0), false);
    }

    proptest::proptest! {
        #[test]
        fn any_name_has_a_kind(name in "([a-z<>{}() :ö€]|operator|\\(anonymous|<[A-Z]| as ){0,12}") {
            let _ = kind(&name, None, "a.out");
        }
    }
}
