//! Which function of the program a block is for, and which places may leak.

use crate::model::{Amount, Frame, Line, Profile, Site};

/// Where a program asked for memory: the innermost function that is not one of the allocator or of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// Names that a Rust library's own methods have as generic functions, by their crate.
fn is_library(name: &str, file: Option<&str>) -> bool {
    let bare =
        name.trim_start_matches("__GI_").trim_start_matches("__libc_").trim_start_matches("__");
    LIBRARIES.iter().any(|begin| name.starts_with(begin))
        || HELPERS.contains(&bare)
        || ["je_", "_rjem_", "mi_", "tc_"].iter().any(|prefix| name.starts_with(prefix))
        || file.is_some_and(|file| file.contains("/rustc/") || file.contains("/rust/library/"))
}

impl SitePlace {
    /// The place of a site; without any function of the program, the innermost one.
    pub fn of(profile: &Profile, site: &Site) -> Self {
        let lines: Vec<(&Frame, &Line)> = profile
            .frames_of(site.stack)
            .flat_map(|frame| frame.lines.iter().map(move |line| (frame, line)))
            .collect();
        let name = |line: &Line| {
            profile.functions.get(line.function as usize).map_or("", |it| it.name.as_str())
        };
        let is_own = |(_, line): &&(&Frame, &Line)| !is_library(name(line), line.file.as_deref());
        let at = lines.iter().position(|it| is_own(&it)).unwrap_or(0);
        let Some((_, line)) = lines.get(at) else {
            let function = "[unknown]".to_owned();
            return Self { function, file: None, line: None, caller: None };
        };
        let caller = lines[at + 1..].iter().find(is_own).map(|(_, line)| name(line).to_owned());
        Self { function: name(line).to_owned(), file: line.file.clone(), line: line.line, caller }
    }
}

/// Places that allocate again and again, and of whose blocks hardly any is freed: by the bytes that are left, largest
/// first.
pub fn suspects(profile: &Profile) -> Vec<&Site> {
    let is_suspect = |site: &&Site| {
        let Amount { blocks, bytes, .. } = site.at_end;
        blocks >= BLOCKS_MIN && bytes >= KEPT_SHARE * site.total.bytes
    };
    let mut sites: Vec<&Site> = profile.sites.iter().filter(is_suspect).collect();
    sites.sort_by(|a, b| b.at_end.bytes.total_cmp(&a.at_end.bytes));
    sites
}

/// A block that is allocated once and kept is what programs have.
const BLOCKS_MIN: f64 = 3.0;

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
    }
}
