//! Classifies the origin of a frame's code: only own code is blamed.

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

/// Folders of library sources: the standard library, crates from a registry or from git, Go's own packages and
/// modules, and Debian's build paths.
const LIBRARY_FILES: [&str; 12] = [
    "/rustc/",
    "/library/std/",
    "/library/core/",
    "/library/alloc/",
    "/.cargo/registry/",
    "/.cargo/git/",
    "/usr/lib/go",
    "/usr/local/go/",
    "/pkg/mod/",
    "/usr/include/",
    "/usr/src/",
    "/sysdeps/",
];

/// Name prefixes of library functions, for use without source files.
const LIBRARY_NAMES: [&str; 24] = [
    "std::",
    "core::",
    "alloc::",
    "criterion::",
    "divan::",
    "test::",
    "tokio::",
    "rayon::",
    "rayon_core::",
    "hashbrown::",
    "<alloc::",
    "<core::",
    "<std::",
    "<&",
    "<criterion::",
    "runtime.",
    "testing.",
    "_int_",
    "__",
    "_dl_",
    "_start",
    "main::main",
    "benchmark::",
    "std__",
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
    match is_library || is_file || (is_name && (file.is_empty() || name.starts_with('_'))) {
        true => Origin::Library,
        false => Origin::Own,
    }
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
    }
}
