//! `wingbeat profile --mode pages`: first touches and mappings, with and without symbols.

use std::process::Command;

use crate::{
    heap::support::{HEAD, build, finished},
    ran::Ran,
    target::{build_with, read_folded, turn_in_folder},
};

/// Touches 40 MB in one function, and 10 MB in another, in small pages: some kernels use large ones by default.
const GROW: &str = r#"
#include <sys/prctl.h>
OWN void touch(size_t mb) {
    char *memory = used(malloc(mb << 20));
    for (size_t at = 0; at < mb << 20; at += 1024) memory[at] = 1;
}
OWN void load(void) { for (int i = 0; i < 4; i++) touch(10); }
OWN void list(void) { touch(10); }
int main(void) { prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); load(); list(); return 0; }
"#;

const MB: f64 = (1 << 20) as f64;

fn profile(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wingbeat"));
    command.args(["profile", "--mode", "pages"]).args(words);
    command
}

#[test]
fn memory_is_of_the_function_that_touches_it_first() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let program = build(folder.path(), "grow", GROW);
    let file = folder.path().join("out.json");
    let output = profile(&["--faults", "4", "-o"]).arg(&file).arg("--").arg(program).output();
    let run = finished(folder.path(), output.expect("run wingbeat")).ended_with(0);
    let check = |function: &str, mb: f64| {
        let found = run.touched_below(function) as f64 / MB;
        assert!((found / mb - 1.0).abs() < 0.15, "{function}: {found} MB\n{}", run.stderr);
    };
    check("load", 40.0);
    check("list", 10.0);
    assert!(run.stderr.contains("Most memory touched first"), "{}", run.stderr);
}

#[test]
fn a_program_without_symbols() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let flags = ["-static", "-s", "-fno-builtin"];
    let program = build_with(folder.path(), "bare", &[HEAD, GROW].concat(), &flags);
    let file = folder.path().join("out.folded");
    let output = profile(&["--faults", "1", "-o"]).arg(&file).arg("--").arg(program).output();
    let run = Ran::from(output.expect("run wingbeat")).ended_with(0);
    let total: u64 = read_folded(&file).iter().map(|(_, bytes)| bytes).sum();
    let found = total as f64 / MB;
    assert!((found / 50.0 - 1.0).abs() < 0.05, "{found} MB\n{}", run.stderr);
}

/// Maps and unmaps in all ways, each in a separate function.
const MAP: &str = r#"
#include <sys/mman.h>
OWN char *anonymous(size_t kb) {
    return used(mmap(0, kb << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}
OWN void half(void) { char *memory = anonymous(1024); munmap(memory + (256 << 10), 512 << 10); }
OWN void grown(void) { used(mremap(anonymous(1024), 1 << 20, 3 << 20, MREMAP_MAYMOVE)); }
OWN void broken(void) { used(sbrk(0)); used(sbrk(1 << 20)); used(sbrk(-(256 << 10))); }
OWN void refused(void) { used(mmap(0, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)); }
OWN void of_file(void) { used(mmap(0, 1 << 20, PROT_READ, MAP_PRIVATE, open("/proc/self/exe", O_RDONLY), 0)); }
OWN void replaced(void) {
    char *memory = anonymous(1024);
    mmap(memory, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, open("/proc/self/exe", O_RDONLY), 0);
}
OWN void in_child(void) { if (!fork()) { anonymous(128); _exit(0); } wait(0); }
int main(void) {
    half(); grown(); broken(); refused(); of_file(); replaced(); in_child();
    return 0;
}
"#;

#[test]
fn address_space_is_of_who_asked_for_it() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let program = build(folder.path(), "map", &["#include <fcntl.h>\n", MAP].concat());
    let file = folder.path().join("out.json");
    let output = profile(&["--show", "kept", "-o"]).arg(&file).arg("--").arg(program).output();
    let run = finished(folder.path(), output.expect("run wingbeat")).ended_with(0);
    let check = |function: &str, total_kb: u64, kept_kb: u64| {
        let found = run.below(function);
        let found = (found.total.0 >> 10, found.at_end.0 >> 10);
        assert_eq!(found, (total_kb, kept_kb), "{function}: {}", run.stderr);
    };
    check("half", 1024, 512);
    // The grown mapping is a different one.
    check("grown", 4096, 3072);
    check("broken", 1024, 768);
    check("of_file", 0, 0);
    check("replaced", 1024, 1020);
    check("in_child", 128, 128);
    assert_eq!(run.below("half").total.1, 1);
    check("refused", 0, 0);
    assert!(!run.stderr.contains("mappings-lost"), "{}", run.stderr);
}

#[test]
fn a_running_process_knows_its_break() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let source = r#"
OWN void grow(void) { used(sbrk(1 << 20)); }
int main(void) {
    // Its own calls do not ask where the break is.
    used(sbrk(1 << 20));
    for (int i = 0; i < 300; i++) { wait_ms(10); if (i >= 100 && i < 104) grow(); }
    return 0;
}"#;
    let program = build(folder.path(), "running", source);
    let mut target = Command::new(program).spawn().expect("start the target");
    let file = folder.path().join("out.json");
    let pid = target.id().to_string();
    let output =
        profile(&["--show", "mapped", "-d", "3s", "--pid", &pid, "-o"]).arg(&file).output();
    target.wait().expect("the end of the target");
    let run = finished(folder.path(), output.expect("run wingbeat")).ended_with(0);
    assert_eq!(run.below("grow").total, (4 << 20, 4), "{}", run.stderr);
}

#[test]
fn the_memory_to_show() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let program = build(folder.path(), "grow", GROW);
    let show = |which: &str| {
        let file = folder.path().join(which).with_extension("folded");
        let mut command = profile(&["--show", which, "-o"]);
        let output = command.arg(&file).arg("--").arg(&program).output();
        let run = Ran::from(output.expect("run wingbeat")).ended_with(0);
        let of = |(stack, bytes): (String, u64)| stack.contains(";touch").then_some(bytes);
        let found = read_folded(&file).into_iter().filter_map(of).sum::<u64>() as f64 / MB;
        assert!((found / 50.0 - 1.0).abs() < 0.2, "{which}: {found} MB\n{}", run.stderr);
    };
    ["touched", "mapped", "kept"].into_iter().for_each(show);
}
