//! Shortens paths of third-party files: `library/core/src/num/mod.rs` of Rust,
//! `network-types-0.0.8/src/ip.rs` of a crate. The prefix depends on the machine that compiled.

/// Folder of registry crate sources, with a subfolder per registry.
const REGISTRY: &str = "/registry/src/";

/// Sources of git dependencies: repository, then commit, then its files.
const CHECKOUTS: &str = "/git/checkouts/";

/// Sources of Rust itself, and the markers that identify them as Rust's library.
const LIBRARY: &str = "/library/";
const RUST: [&str; 2] = ["rustc", "rustlib"];

/// The part of a path that identifies a third-party file; other paths are returned unchanged.
pub(super) fn shortened(path: &str) -> &str {
    of_rust(path).or_else(|| of_crate(path)).unwrap_or(path)
}

/// `library/…` of `/rustc/COMMIT/library/…`, and of `…/lib/rustlib/src/rust/library/…`.
fn of_rust(path: &str) -> Option<&str> {
    let (start, _) = path.split_once(LIBRARY)?;
    let is_rust = start.split('/').any(|folder| RUST.iter().any(|name| folder.starts_with(name)));
    is_rust.then(|| path.get(start.len() + 1..))?
}

/// `NAME-VERSION/…` of a registry, `NAME-HASH/COMMIT/…` of git.
fn of_crate(path: &str) -> Option<&str> {
    let of_registry = || Some(path.split_once(REGISTRY)?.1.split_once('/')?.1);
    of_registry().or_else(|| Some(path.split_once(CHECKOUTS)?.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_others_go_without_where_they_lie() {
        let check = |path, expected: &str| assert_eq!(shortened(path), expected);
        check("/rustc/59807616e1fa2540/library/core/src/cmp.rs", "library/core/src/cmp.rs");
        check(
            "/home/someone/.rustup/toolchains/nightly/lib/rustlib/src/rust/library/core/src/cmp.rs",
            "library/core/src/cmp.rs",
        );
        check("/usr/src/rustc-1.85.0/library/core/src/cmp.rs", "library/core/src/cmp.rs");
        check(
            "/home/a/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/network-types-0.0.8/src/ip.rs",
            "network-types-0.0.8/src/ip.rs",
        );
        check(
            "/home/a/.cargo/git/checkouts/aya-c55fbc69175ac116/a1b2c3d/ebpf/src/lib.rs",
            "aya-c55fbc69175ac116/a1b2c3d/ebpf/src/lib.rs",
        );
        for own in ["src/main.rs", "/home/a/library/core/src/cmp.rs", "/library/a.rs", "", "é"] {
            check(own, own);
        }
        check("/a/registry/src/", "/a/registry/src/");
    }
}
