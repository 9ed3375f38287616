//! The text output: which function is blamed, what counts as a leak, and the reliability of figures.

use std::{fs, path::Path, process::Command};

use crate::{
    ran::Ran,
    support::{build, command, exact, heap, turn_for_heap},
};

/// Runs a C++ program and records every allocation; `None` without a compiler.
fn of_cpp(folder: &Path, source: &str) -> Option<String> {
    let (file, program) = (folder.join("target.cpp"), folder.join("target"));
    fs::write(&file, source).expect("write");
    let flags = ["-std=c++17", "-O1", "-g", "-fno-optimize-sibling-calls", "-o"];
    let built = Command::new("g++").args(flags).arg(&program).arg(&file).status();
    if !built.ok()?.success() {
        return None;
    }
    let program = program.to_str().expect("UTF-8");
    Some(heap(folder, &["--exact", "--"], &[program]).ended_with(0).stderr)
}

/// The part of a text below a title.
fn below<'a>(text: &'a str, title: &str) -> &'a str {
    let rest = text.split_once(title).unwrap_or_else(|| panic!("no {title:?} in {text}")).1;
    rest.split("\n\n").next().expect("a part")
}

#[test]
fn who_calls_a_wrapper_is_blamed() {
    let Some((_turn, folder)) = turn_for_heap() else { return };
    // Nested calls, like `strdup` of a library with its own allocator.
    let source = r#"
#include <string.h>
OWN void *zmalloc(size_t size) { return used(malloc(size)); }
OWN char *zstrdup(const char *text) { char *copy = zmalloc(strlen(text) + 1); strcpy(copy, text); return copy; }
OWN void answer(void) { free(used(zmalloc(20000))); }
OWN void remember(void) { used(zmalloc(5000)); }
OWN void name(void) { used(zstrdup("a name that stays")); }
OWN void title(void) { free(used(zstrdup("another"))); }
// In parts, of which one is called by the next alone.
OWN void *part(size_t size) { return used(malloc(size)); }
OWN void *whole(size_t size) { return used(part(size)); }
OWN void ask(void) { free(used(whole(90))); }
OWN void note(void) { used(whole(60)); }
// Not a wrapper: it is one thing to both who call it.
OWN void *session(void) { return used(malloc(700)); }
OWN void log_in(void) { session(); }
OWN void sign_up(void) { session(); }
int main(void) {
    for (int i = 0; i < 50; i++) { answer(); remember(); name(); title(); log_in(); sign_up(); ask(); note(); }
    return 0;
}
"#;
    let text = exact(folder.path(), source).ended_with(0).stderr;
    let check = |title: &str, expected: &[&str], absent: &[&str]| {
        let found = below(&text, title);
        let has = |row: &&&str| found.lines().any(|line| line.contains(**row));
        assert!(expected.iter().all(|row| has(&row)), "{expected:?} in {text}");
        assert!(!absent.iter().any(|row| has(&row)), "none of {absent:?} in {text}");
    };
    let kept =
        ["250 KB", "remember (target.c:", "← main, by zmalloc", "name (target.c:", ", by zstrdup"];
    check("Most bytes live at the end", &kept, &["answer (", "title ("]);
    check("Most bytes live at the peak", &["answer (target.c:"], &[]);
    check("Most bytes allocated", &["1,000 KB", "answer (target.c:", "session (target.c:"], &[]);
    check(
        "Perhaps leaks",
        &[
            "remember (target.c:",
            "name (target.c:",
            "← log_in and 1 more",
            "note (target.c:",
            "by whole",
        ],
        &["answer (", "title (", "zmalloc (", "zstrdup ("],
    );
}

#[test]
fn own_names_that_begin_like_those_of_libraries_and_containers_that_grow() {
    let Some((_turn, folder)) = turn_for_heap() else { return };
    let source = r#"
#include <memory>
#include <stdlib.h>
#include <string>
#include <unordered_map>
#include <vector>
#define OWN __attribute__((noinline))
struct Node { long words[20]; };
static std::vector<void *> kept;
namespace core { struct Server { OWN void open_session() { kept.push_back(malloc(3000)); } }; }
namespace alloc { OWN void fill_pool() { kept.push_back(malloc(3000)); } }
extern "C" OWN void tc_add_filter() { kept.push_back(malloc(3000)); }
extern "C" OWN void mi_open_table() { kept.push_back(malloc(3000)); }
extern "C" OWN void memset_pool_init() { kept.push_back(malloc(3000)); }
OWN void numbers() { auto *it = new std::vector<int>; for (int i = 0; i < 5000; i++) it->push_back(i); kept.push_back(it); }
OWN void table() { auto *it = new std::unordered_map<int, int>; for (int i = 0; i < 500; i++) (*it)[i] = i; kept.push_back(it); }
OWN void text() { auto *it = new std::string; for (int i = 0; i < 5000; i++) it->push_back('a'); kept.push_back(it); }
OWN void buffer() { size_t size = 64; void *it = malloc(size); while (size < 20000) it = realloc(it, size *= 2); kept.push_back(it); }
OWN void shared() { kept.push_back(new std::shared_ptr<Node>(std::make_shared<Node>())); }
OWN void fine() { std::vector<int> it; for (int i = 0; i < 5000; i++) it.push_back(i); kept.push_back(nullptr); }
int main() {
    kept.reserve(10000);
    core::Server server;
    for (int i = 0; i < 20; i++) {
        server.open_session(); alloc::fill_pool(); tc_add_filter(); mi_open_table(); memset_pool_init();
        numbers(); table(); text(); buffer(); shared(); fine();
    }
}
"#;
    let Some(text) = of_cpp(folder.path(), source) else {
        eprintln!("skipped: no g++");
        return;
    };
    let leaks = below(&text, "Perhaps leaks");
    let containers = ["numbers()", "table()", "text()", "buffer()"];
    let own = [
        "core::Server::open_session()",
        "alloc::fill_pool()",
        "tc_add_filter",
        "mi_open_table",
        "memset_pool_init",
    ];
    for row in containers.iter().chain(&own) {
        assert!(leaks.contains(&format!("  {row} (target.cpp:")), "{row}: {text}");
    }
    assert!(!leaks.contains(" fine()"), "{text}");
}

#[test]
fn how_far_figures_can_be_trusted() {
    let Some((_turn, folder)) = turn_for_heap() else { return };
    let check = |source: &str, expected: &[&str], absent: &[&str]| {
        let program = build(folder.path(), "target", source);
        let mut command = command(folder.path(), &["--exact", "--"]);
        let ran = Ran::of(command.arg(program));
        assert!(expected.iter().all(|text| ran.stderr.contains(text)), "{}", ran.stderr);
        assert!(!absent.iter().any(|text| ran.stderr.contains(text)), "{}", ran.stderr);
    };
    check(
        "static volatile size_t huge = (size_t)1 << 62; \
         int main(void) { for (int i = 0; i < 9; i++) malloc(huge); used(malloc(104857600)); return 0; }",
        &[
            "10 allocations, 0 frees",
            "of which 9 got no block",
            "105 MB in 1 block",
            "which is the peak",
        ],
        &["at least", "at most", "memory-elsewhere"],
    );
    // Memory that no probe sees.
    check(
        "#include <string.h>\n#include <sys/mman.h>\nint main(void) { used(malloc(100)); for (int i = 0; i < 50; i++) \
         memset(mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, 1 << 20); \
         wait_ms(300); return 0; }",
        &["the memory of the target grew by", "`wingbeat profile --mode pages`"],
        &[],
    );
    check(
        "int main(void) { if (fork()) { wait_ms(300); return 0; } for (int i = 0; i < 20; i++) { wait_ms(100); \
         used(malloc(100)); } return 0; }",
        &["total   at least ", "and its child target (PID ", " runs on", "--pid "],
        &[],
    );
}
