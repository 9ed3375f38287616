//! Packing, with a program in place of wingbeat: a release takes minutes to build.

use std::{
    collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command,
    thread, time::Duration,
};

use super::*;

/// Prints its name; replaces the binary in these tests.
const PROGRAM: &str = "#!/bin/sh\necho wingbeat \"$@\"\n";

/// A release folder inside another folder.
fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().expect("a temporary folder");
    let folder = place.path().join("wingbeat-1");
    for (name, text, mode) in [
        ("wingbeat", PROGRAM, 0o711),
        ("cargo-wingbeat", PROGRAM, 0o711),
        ("README.md", "README.md", 0o600),
        ("LICENSE-MIT", "MIT\n\nAs it is.\n", 0o600),
        ("completions/wingbeat.bash", "bash", 0o644),
        ("completions/_wingbeat", "zsh", 0o600),
        ("completions/wingbeat.fish", "fish", 0o644),
        ("man/wingbeat.1", "man/wingbeat.1", 0o644),
    ] {
        let file = folder.join(name);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder in it");
        fs::write(&file, text).expect("a file in it");
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("its mode");
    }
    place
}

/// Whether dpkg exists; prints a message if not.
fn has_dpkg() -> bool {
    let has = ["dpkg", "dpkg-deb"].iter().all(|program| find_program(program).is_some());
    if !has {
        eprintln!("skipped: dpkg is not installed");
    }
    has
}

/// The package bytes of two runs with different file times.
fn packed_twice(pack: impl Fn(&Path, &Path) -> anyhow::Result<()>) -> [Vec<u8>; 2] {
    let packed = || {
        let place = place();
        let file = place.path().join("packed");
        pack(&place.path().join("wingbeat-1"), &file).expect("it is packed");
        fs::read(&file).expect("it is there")
    };
    let first = packed();
    // Archives have a resolution of seconds.
    thread::sleep(Duration::from_millis(1_100));
    [first, packed()]
}

#[test]
fn the_same_files_give_the_same_archive() {
    let [first, second] = packed_twice(pack);
    assert!(first == second, "the archives differ");
}

#[test]
fn the_same_files_give_the_same_package() {
    if has_dpkg() {
        let [first, second] = packed_twice(deb::pack);
        assert!(first == second, "the packages differ");
    }
}

#[test]
fn what_comes_out_is_what_went_in() {
    let place = place();
    let (archive, root) = (place.path().join("a.tar.gz"), place.path().join("wingbeat-1"));
    pack(&root, &archive).expect("it is packed");
    fs::remove_dir_all(&root).expect("it was there");
    let mut tar = Command::new("tar");
    let status = tar.arg("-xzf").arg(&archive).arg("-C").arg(place.path()).status();
    assert!(status.is_ok_and(|status| status.success()), "tar takes it");
    let found = ["README.md", "man/wingbeat.1", "wingbeat"].map(|name| {
        let path = root.join(name);
        let mode = fs::metadata(&path).expect("it is there").permissions().mode() & 0o777;
        (fs::read_to_string(&path).expect("text"), mode)
    });
    let expected = [("README.md", 0o644), ("man/wingbeat.1", 0o644), (PROGRAM, 0o755)];
    assert_eq!(
        BTreeMap::from(found),
        BTreeMap::from(expected.map(|(text, mode)| (text.to_owned(), mode)))
    );
}

#[test]
fn the_package_is_installed_and_runs() {
    if !has_dpkg() {
        return;
    }
    let place = place();
    let package = place.path().join("a.deb");
    deb::pack(&place.path().join("wingbeat-1"), &package).expect("it is packed");
    let root = place.path().join("root");
    check::install(&package, &root).expect("dpkg installs it");
    let output = Command::new(root.join("usr/bin/wingbeat")).arg("--version").output();
    assert_eq!(output.expect("it runs").stdout, b"wingbeat --version\n");
    let installed = folders::below(&root.join("usr")).expect("a folder");
    let inside = |path: &PathBuf| {
        let mode = fs::metadata(path).expect("a file").permissions().mode() & 0o777;
        let name = path.strip_prefix(&root).expect("below the root").to_string_lossy();
        format!("{mode:o} {name}")
    };
    let expected = [
        "755 usr/bin/cargo-wingbeat",
        "755 usr/bin/wingbeat",
        "644 usr/share/bash-completion/completions/wingbeat",
        "644 usr/share/doc/wingbeat/changelog.gz",
        "644 usr/share/doc/wingbeat/copyright",
        "644 usr/share/fish/vendor_completions.d/wingbeat.fish",
        "644 usr/share/man/man1/wingbeat.1.gz",
        "644 usr/share/zsh/vendor-completions/_wingbeat",
    ];
    assert_eq!(installed.iter().map(inside).collect::<Vec<_>>(), expected);
    let status = fs::read_to_string(root.join("var/lib/dpkg/status")).expect("dpkg's list");
    assert!(status.contains("Package: wingbeat\nStatus: install ok installed\n"), "{status}");
    // It depends on no package, however it is linked.
    assert!(!status.contains("\nDepends:"), "{status}");
}

#[test]
fn checksums_are_those_that_sha256sum_checks() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let file = place.path().join("a");
    fs::write(&file, "a").expect("a file in it");
    sums(place.path(), &[&file]).expect("they are written");
    let check = || {
        let mut sha256sum = Command::new("sha256sum");
        let status = sha256sum.args(["--check", "--status", SUMS]).current_dir(place.path());
        status.status().expect("sha256sum runs").success()
    };
    assert!(check());
    fs::write(&file, "b").expect("another file");
    assert!(!check());
}
