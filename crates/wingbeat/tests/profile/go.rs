//! Stacks and names of Go programs, with and without symbols and DWARF.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    support::{Run, launch, turn_in_folder},
    target::emulation_percent,
};

/// Builds a program; `None` without Go, and where its table is not used for unwinding.
fn build(folder: &Path, source: &str, name: &str, flags: &[&str]) -> Option<PathBuf> {
    if cfg!(not(target_arch = "x86_64")) {
        return None;
    }
    let program = folder.join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/profile/go").join(source);
    let mut go = Command::new("go");
    go.env("GOFLAGS", "").arg("build").args(flags).arg("-o").arg(&program).arg(source);
    let Ok(output) = go.output() else {
        eprintln!("skipped: there is no go (package golang-go)");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

/// Functions without a caller: of goroutines, of the scheduler's threads, of stack growth.
const OUTERMOST: [&str; 5] =
    ["runtime.goexit", "runtime.mcall", "runtime.mstart", "runtime.morestack", "runtime.rt0_go"];

/// Samples whose outermost function is one of these.
fn samples_from(run: &Run, functions: &[&str]) -> u64 {
    let outermost = |stack: &str| {
        let function = stack.split(';').nth(1).unwrap_or_default();
        // Symbols include the calling convention.
        functions.contains(&function.trim_end_matches(".abi0"))
    };
    run.folded.iter().filter(|(stack, _)| outermost(stack)).map(|(_, count)| count).sum()
}

#[test]
fn a_server_in_go_is_whole_and_has_names() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let stripped = "-ldflags=-s -w";
    let builds = [
        ("plain", &[][..]),
        ("stripped", &[stripped]),
        ("independent", &["-buildmode=pie", stripped]),
    ];
    for (name, flags) in builds {
        let Some(program) = build(folder.path(), "server.go", name, flags) else { return };
        let run = launch(folder.path(), &["-F", "499"], &program, &["2000"]);
        let samples = run.samples();
        let broken = run.number("/stacks/broken") + run.number("/stacks/truncated");
        // A few more at the start and end, as processes come and go.
        let limit = samples as f64 * (0.5 + emulation_percent()) / 100.0 + 3.0;
        assert!(samples > 300 && broken as f64 <= limit, "{name}: {}", run.summary);
        assert!(samples_from(&run, &OUTERMOST) * 100 > samples * 99, "{name}: {:?}", run.folded);
        let serving = run.percent_with(";net/http.(*conn).serve;");
        let handling = run.percent_with(";main.handle;main.items;");
        assert!(serving > 20.0 && handling > 5.0, "{name}: {:?}", run.folded);
        assert!(run.samples_with("+0x") * 100 < samples, "{name}: {:?}", run.folded);
    }
}

/// Each of them has its own stack: the goroutine's, and the thread's.
#[test]
fn walks_go_through_c_and_back() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let Some(program) = build(folder.path(), "calls.go", "calls", &[]) else { return };
    let run = launch(folder.path(), &["-F", "499"], &program, &["1500"]);
    let is_whole = |stack: &str| {
        let names = ["goexit", ";main.callsC;", "asmcgocall", ";c_middle;", ";main.goWork;"];
        let places = names.map(|name| stack.find(name));
        places.is_sorted() && places[0].is_some() && stack.contains(";main.spin")
    };
    let whole = run.folded.iter().filter(|(stack, _)| is_whole(stack));
    let whole: u64 = whole.map(|(_, count)| count).sum();
    assert!(run.samples() > 300 && whole * 100 > run.samples() * 90, "{:?}", run.folded);
}
