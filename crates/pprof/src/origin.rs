//! Classifies the origin of a frame's code: only own code is blamed.
//!
//! Path of the source file → crate, as paths of its other functions place it → names of common crates → own.

use std::collections::HashMap;

use crate::names::plain;

/// Origin of a frame's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    /// The author of the benchmark, as far as known.
    Own,
    /// A dependency, a standard library, a runtime, a harness.
    Library,
    Kernel,
    /// Not code: why a thread does not run.
    State,
}

/// Folders of library sources: the standard library, crates from a registry, from git or vendored, Go's own packages
/// and modules, and Debian's build paths.
const LIBRARY_FILES: [&str; 13] = [
    "/rustc/",
    "library/std/",
    "library/core/",
    "library/alloc/",
    // Below `CARGO_HOME`, wherever it is.
    "/registry/src/",
    "/git/checkouts/",
    "/vendor/",
    "/usr/lib/go",
    "/usr/local/go/",
    "/pkg/mod/",
    "/usr/include/",
    "/usr/src/",
    "/sysdeps/",
];

/// Name prefixes of library functions, for use without source files.
const LIBRARY_NAMES: [&str; 9] =
    ["runtime.", "testing.", "_int_", "__", "_dl_", "_start", "main::main", "benchmark::", "std__"];

/// Functions of C libraries, also where they are linked into the program.
const C_FUNCTIONS: [&str; 9] =
    ["malloc", "calloc", "realloc", "free", "memcpy", "memmove", "memset", "memcmp", "strlen"];

/// Crates of Rust's standard library. Their functions are library code even if the profile has another crate's file.
const STANDARD_CRATES: [&str; 8] = [
    "std",
    "core",
    "alloc",
    "proc_macro",
    "test",
    "hashbrown",
    "compiler_builtins",
    "rustc_demangle",
];

/// Common crates of registries, for profiles without paths of source files. Of `futures_util` the first part is here.
const COMMON_CRATES: [&str; 58] = [
    "actix",
    "aho",
    "anyhow",
    "arrow",
    "async",
    "aws",
    "axum",
    "base64",
    "bincode",
    "bytes",
    "chrono",
    "clap",
    "criterion",
    "crossbeam",
    "dashmap",
    "diesel",
    "divan",
    "flate2",
    "futures",
    "gimli",
    "h2",
    "httparse",
    "hyper",
    "indexmap",
    "itertools",
    "jemallocator",
    "libc",
    "memchr",
    "mimalloc",
    "mio",
    "miniz",
    "ndarray",
    "nom",
    "once",
    "openssl",
    "parking",
    "polling",
    "prost",
    "quinn",
    "rand",
    "rayon",
    "regex",
    "reqwest",
    "ring",
    "rusqlite",
    "rustls",
    "serde",
    "smallvec",
    "socket2",
    "sqlx",
    "tikv",
    "tokio",
    "tonic",
    "tower",
    "tracing",
    "zerocopy",
    "zstd",
    "ryu",
];

/// Name parts of functions in which a harness evaluates its measurements, which is not benchmark time.
const EVALUATION: [&str; 4] =
    ["criterion::analysis::", "criterion::stats::", "criterion::report::", "criterion::plot::"];

/// Whether a harness evaluates its measurements in this function.
pub(crate) fn evaluates(name: &str) -> bool {
    EVALUATION.iter().any(|part| name.contains(part))
}

/// Classifies code by mapped file, function name and source file.
pub(crate) fn origin(image: &str, name: &str, file: &str) -> Origin {
    let is_state =
        image == "[state]" || (name.starts_with('[') && name.ends_with(']') && file.is_empty());
    if image.starts_with("[kernel") || image.ends_with(".ko") {
        return Origin::Kernel;
    }
    if is_state && image != "[bpf]" {
        return Origin::State;
    }
    let image_name = image.rsplit('/').next().unwrap_or(image);
    let is_library = image_name.contains(".so") || image == "[vdso]";
    let is_file =
        LIBRARY_FILES.iter().any(|folder| file.contains(folder)) || file.starts_with("./");
    let is_name = LIBRARY_NAMES.iter().any(|begin| name.starts_with(begin));
    let is_named = is_name && (file.is_empty() || name.starts_with('_'));
    let is_known = || C_FUNCTIONS.contains(&name) || is_of_library_crate(name);
    match is_library || is_file || is_named || !has_path(file) && is_known() {
        true => Origin::Library,
        false => Origin::Own,
    }
}

fn has_path(file: &str) -> bool {
    file.contains('/')
}

fn is_of_library_crate(name: &str) -> bool {
    let name = plain(name);
    let Some(of) = crate_of(&name) else { return false };
    let family = of.split('_').next().unwrap_or(of);
    STANDARD_CRATES.contains(&of) || COMMON_CRATES.contains(&family)
}

/// The crate, or namespace, that a function belongs to: `a` of `a::f`, of `<&mut a::B as c::D>::e` and of
/// `<T as a::D>::e`.
fn crate_of(name: &str) -> Option<&str> {
    let begin = |text: &'_ str| -> Option<usize> {
        let mut rest = text;
        loop {
            let next = rest.trim_start_matches(['<', '&', '*', '[', '(', ' ']);
            let next = ["mut ", "const ", "dyn "]
                .iter()
                .fold(next, |text, word| text.strip_prefix(word).unwrap_or(text));
            if next.len() == rest.len() {
                break;
            }
            rest = next;
        }
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
        (end > 0 && rest[end..].starts_with("::")).then_some(text.len() - rest.len())
    };
    let trait_at = || name.find(" as ").map(|at| at + " as ".len());
    let at = begin(name).or_else(|| {
        let at = trait_at().filter(|_| name.starts_with('<'))?;
        Some(at + begin(&name[at..])?)
    })?;
    name[at..].split("::").next()
}

/// What source files of a profile say about crates, for their functions without one.
#[derive(Debug, Default)]
pub(crate) struct Crates {
    /// Functions of own code, and of libraries.
    counts: HashMap<String, (usize, usize)>,
}

impl Crates {
    /// Learns from a function with a path.
    pub(crate) fn learn(&mut self, name: &str, file: Option<&str>, origin: Origin) {
        let name = plain(name);
        let of = crate_of(&name).filter(|of| !STANDARD_CRATES.contains(of));
        let (Some(of), true) = (of, file.is_some_and(has_path)) else { return };
        let (own, library) = self.counts.entry(of.to_owned()).or_default();
        match origin {
            Origin::Own => *own += 1,
            Origin::Library => *library += 1,
            Origin::Kernel | Origin::State => {}
        }
    }

    /// Whether a function without a path, taken for own code, is a library's.
    pub(crate) fn are_against(&self, name: &str, file: Option<&str>) -> bool {
        let name = plain(name);
        let known = crate_of(&name).and_then(|of| self.counts.get(of));
        !file.is_some_and(has_path) && known.is_some_and(|(own, library)| library > own)
    }
}

/// Whether only the lack of a path makes it own code.
pub(crate) fn is_guess(name: &str, file: Option<&str>) -> bool {
    !file.is_some_and(has_path) && crate_of(&plain(name)).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_wrote_it() {
        let check = |image, name, file, expected| assert_eq!(origin(image, name, file), expected);
        check("/t/bench-1", "guilty::step", "/home/a/guilty/src/lib.rs", Origin::Own);
        check("/t/bench-1", "guilty::step", "", Origin::Own);
        check(
            "/t/bench-1",
            "<usize>::unchecked_add",
            "/rustc/59/library/core/src/num/mod.rs",
            Origin::Library,
        );
        check(
            "/t/bench-1",
            "criterion::x",
            "/home/a/.cargo/registry/src/i/criterion-0.8/src/a.rs",
            Origin::Library,
        );
        check("/t/bench-1", "core::fmt::x", "", Origin::Library);
        check(
            "/usr/lib/x86_64-linux-gnu/libc.so.6",
            "malloc",
            "./malloc/malloc.c",
            Origin::Library,
        );
        check("[kernel]", "do_syscall_64", "", Origin::Kernel);
        check("[state]", "[sleeping]", "", Origin::State);
        check("[bpf]", "fun_xdp", "/home/a/src/main.rs", Origin::Own);
        // All of one mapped file, with and without debug information.
        let registry = "/usr/local/cargo/registry/src/index/serde_json-1.0/src/de.rs";
        check("/app/server", "serde_json::de::from_str", registry, Origin::Library);
        check("/app/server", "<shop::Cart as serde::ser::Serialize>::serialize", "", Origin::Own);
        check("/app/server", "<T as serde::ser::Serialize>::serialize", "", Origin::Library);
        for name in [
            "tokio::runtime::task::poll",
            "hyper_util::rt::tokio::f",
            "<&mut serde_json::de::Deserializer<R> as serde::Deserializer>::deserialize_map",
            "<alloc::vec::Vec<shop::Item> as core::clone::Clone>::clone",
            "core[0123456789abcdef]::ptr::drop_in_place::<shop::Cart>",
            "core::fmt::write",
        ] {
            check("/app/server", name, "", Origin::Library);
            check("/app/server", name, "mod.rs", Origin::Library);
        }
        check("/app/server", "malloc", "", Origin::Library);
        check("/app/server", "malloc", "/src/shop/allocator.c", Origin::Own);
        // A trait of one's own for a type of a library, by its file.
        check("/app/server", "<alloc::vec::Vec<T> as shop::Sum>::f", "/src/shop/a.rs", Origin::Own);
    }

    #[test]
    fn crates_are_first_parts_of_paths() {
        let check = |name, expected: Option<&str>| assert_eq!(crate_of(name), expected, "{name}");
        check("a::b::c", Some("a"));
        check("<&mut a::B<c::D> as e::F>::g", Some("a"));
        check("<&[u8] as a::B>::c", Some("a"));
        check("<dyn a::B as c::D>::e", Some("a"));
        check("main", None);
        check("main.run.func1", None);
        check("f<a::B>", None);
        check("<é as b", None);
        check("", None);
    }

    #[test]
    fn paths_of_some_functions_place_the_others() {
        let mut crates = Crates::default();
        let file = Some("/home/ada/.cargo/registry/src/i/fancy-1.0/src/lib.rs");
        crates.learn("fancy::a", file, Origin::Library);
        crates.learn("shop::a", Some("/src/shop/src/lib.rs"), Origin::Own);
        let check = |name, file, expected| {
            assert_eq!(crates.are_against(name, file), expected, "{name}");
        };
        check("<fancy::B as shop::C>::d", None, true);
        check("fancy::b", Some("lib.rs"), true);
        check("fancy::b", Some("/src/patched/fancy/src/lib.rs"), false);
        check("shop::b", None, false);
        check("unheard::b", None, false);
    }
}
