//! What is watched behaves as if it were not watched, in whatever way it leaves an allocation: by exceptions, jumps,
//! and coroutines that never come back, with backtraces that it takes itself.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::support::{heap, turn_for_heap};

fn build(folder: &Path, name: &str, flags: &[&str]) -> PathBuf {
    let program = folder.join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/heap/ways_out.cpp");
    let mut command = Command::new("c++");
    command.args(["-O1", "-g", "-fno-builtin", "-fno-optimize-sibling-calls", "-o"]);
    let output = command.args([&program, &source]).args(flags).output().expect("c++");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

#[test]
fn each_allocator_is_left_in_each_way() {
    let Some((_turn, folder)) = turn_for_heap() else { return };
    let folder = folder.path();
    let (plain, watched) = (folder.join("plain"), folder.join("watched"));
    let check = |program: &Path, preload: Option<&Path>| {
        let preload = preload.map(|path| format!("LD_PRELOAD={}", path.display()));
        let words = |file: &Path| -> Vec<String> {
            let words = [program, file].map(|path| path.display().to_string());
            ["env".to_owned()].into_iter().chain(preload.clone()).chain(words).collect()
        };
        let alone = words(&plain);
        let status = Command::new(&alone[0]).args(&alone[1..]).status().expect("run it");
        assert_eq!(status.code(), Some(5), "{alone:?}");
        let with_us = words(&watched);
        let with_us: Vec<&str> = with_us.iter().map(String::as_str).collect();
        let found = heap(folder, &["--exact", "--"], &with_us).ended_with(5);
        let read = |path| fs::read_to_string(path).expect("what it wrote");
        let expected = read(&plain);
        assert!(expected.contains("ticks: 0 cut\n"), "{alone:?}: {expected}");
        assert_eq!(read(&watched), expected, "{alone:?}");
        assert_eq!(found.of("keep").at_end, (100_000, 100), "{alone:?}\n{}", found.stderr);
    };
    check(&build(folder, "dynamic", &[]), None);
    check(&build(folder, "static", &["-static"]), None);
    check(&build(folder, "own", &["-DOWN"]), None);
    let library = build(folder, "own.so", &["-DOWN", "-shared", "-fPIC"]);
    let program = folder.join("dynamic");
    check(&program, Some(&library));
    let jemalloc = ["x86_64", "aarch64"]
        .map(|machine| PathBuf::from(format!("/usr/lib/{machine}-linux-gnu/libjemalloc.so.2")));
    match jemalloc.iter().find(|path| path.exists()) {
        Some(library) => check(&program, Some(library)),
        None => assert!(std::env::var_os("CI").is_none(), "CI has jemalloc"),
    }
}
