//! A traced target behaves as if untraced, however it leaves an allocation: by exceptions, longjmp, or coroutines that
//! never resume, and with backtraces of its own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::heap::support::{exact, heap, turn_for_heap};

const CPP: [&str; 6] =
    ["c++", "-O1", "-g", "-fno-builtin", "-fno-optimize-sibling-calls", "ways_out.cpp"];
const RUST: [&str; 5] = ["rustc", "-O", "-g", "--edition=2024", "ways_out.rust"];

fn build(folder: &Path, name: &str, by: &[&str], flags: &[&str]) -> PathBuf {
    let program = folder.join(name);
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings/heap");
    let mut command = Command::new(by[0]);
    command.current_dir(sources).args(&by[1..]).arg("-o").arg(&program).args(flags);
    let output = command.output().expect("a compiler");
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
            let env = preload.iter().flat_map(|preload| ["env".to_owned(), preload.clone()]);
            env.chain(words).collect()
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
        assert_eq!(found.below("keep").at_end, (100_000, 100), "{alone:?}\n{}", found.stderr);
    };
    check(&build(folder, "static", &CPP, &["-static"]), None);
    check(&build(folder, "own", &CPP, &["-DOWN"]), None);
    check(&build(folder, "rust", &RUST, &[]), None);
    let program = build(folder, "dynamic", &CPP, &[]);
    check(&program, None);
    check(&program, Some(&build(folder, "own.so", &CPP, &["-DOWN", "-shared", "-fPIC"])));
    // mimalloc itself aborts on an oversized `operator new`.
    for library in ["libjemalloc.so.2", "libtcmalloc_minimal.so.4"] {
        let mut paths = ["x86_64", "aarch64"]
            .map(|machine| PathBuf::from(format!("/usr/lib/{machine}-linux-gnu/{library}")))
            .into_iter();
        match paths.find(|path| path.exists()) {
            Some(library) => check(&program, Some(&library)),
            None => assert!(std::env::var_os("CI").is_none(), "CI has {library}"),
        }
    }
}

#[test]
fn calls_without_an_end_are_told() {
    let source = r#"
#include <setjmp.h>
static jmp_buf out;
static char pool[1 << 20];
static size_t used_bytes;
OWN void *malloc(size_t size) {
    if (size == 4242) longjmp(out, 1);
    used_bytes += (size + 15) & ~15;
    return pool + used_bytes - ((size + 15) & ~15);
}
void free(void *block) {}
OWN void jumps(void) { for (volatile int i = 0; i < 20; i++) if (!setjmp(out)) used(malloc(4242)); }
OWN void keeps(void) { for (int i = 0; i < 10; i++) used(malloc(100)); }
int main(void) { jumps(); keeps(); return 0; }
"#;
    let Some(found) = exact(source) else { return };
    assert_eq!(found.of("keeps").at_end, (1000, 10), "{}", found.stderr);
    assert_eq!(found.of("jumps").total, (0, 0), "{}", found.stderr);
    assert!(found.stderr.contains(": 20 of "), "{}", found.stderr);
    assert!(found.stderr.contains("came to no end that is watched"), "{}", found.stderr);
}

/// A library with prefixed allocator functions: one that the kernel cannot probe, one that cannot be followed, and an
/// ordinary one.
#[cfg(target_arch = "x86_64")]
const STRANGE: &str = r#"
    .globl je_malloc, je_realloc, je_calloc
    .type je_malloc, @function
je_malloc:
    lock incq count(%rip)
    mov $0, %eax
    ret
    .size je_malloc, . - je_malloc
    .type je_realloc, @function
je_realloc:
    lea count(%rip), %rax
    jmp *(%rax,%rdi,8)
    .size je_realloc, . - je_realloc
    .type je_calloc, @function
je_calloc:
    push %rbx
    lea count(%rip), %rax
    pop %rbx
    ret
    .size je_calloc, . - je_calloc
    .data
count: .quad 0
    .section .note.GNU-stack, "", @progbits
"#;

#[cfg(target_arch = "x86_64")]
#[test]
fn what_cannot_be_probed_is_left_out() {
    let Some((_turn, folder)) = turn_for_heap() else { return };
    let (code, library) = (folder.path().join("strange.s"), folder.path().join("strange.so"));
    fs::write(&code, STRANGE).expect("write source");
    let flags = ["-shared", "-o"];
    let status = Command::new("cc").args(flags).args([&library, &code]).status().expect("cc");
    assert!(status.success());
    let source = r#"
OWN void mine(void) { for (int i = 0; i < 20; i++) used(malloc(1000)); }
int main(int count, char **words) {
    mine();
    wait_ms(300);
    if (!dlopen(words[1], RTLD_NOW)) return 1;
    wait_ms(300);
    mine();
    return 0;
}
"#;
    let program = crate::heap::support::build(folder.path(), "loads", source);
    let words = [&program, &library].map(|path| path.to_str().expect("UTF-8"));
    let found = heap(folder.path(), &["--exact", "-v", "--"], &words).ended_with(0);
    assert_eq!(found.of("mine").at_end, (40_000, 40), "{}", found.stderr);
    let says = |what: &str| assert!(found.stderr.contains(what), "{what}\n{}", found.stderr);
    says("strange.so: je_calloc\n");
    says("strange.so cannot be watched (the kernel refuses it: there is an instruction");
    says("strange.so cannot be watched (where they return is not known)");
}
