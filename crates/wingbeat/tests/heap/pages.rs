//! `wingbeat profile --mode pages`: where memory is touched first, with and without symbols.

use std::process::Command;

use crate::{
    ran::Ran,
    support::{HEAD, build, finished},
    target::{build_with, read_folded, turn_in_folder},
};

/// Touches 40 MB in one function, and 10 MB in another, by small pages: some kernels give large ones unasked.
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

#[test]
fn flags_about_time() {
    for flag in
        [&["--summary-json", "-"][..], &["--fold-runtime"], &["--wakers"], &["--format", "json"]]
    {
        let words = [flag, &["--", "true"]].concat();
        Ran::of(&mut profile(&words)).ended_with(2).tells(flag[0]);
    }
    let unknown = ["-o", "x.json.gz", "--", "true"];
    Ran::of(&mut profile(&unknown)).ended_with(1).tells(".json (DHAT)");
}
