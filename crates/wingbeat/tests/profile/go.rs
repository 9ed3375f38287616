//! Stacks and names of programs in Go, with and without symbols and DWARF.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    support::{Run, launch, turn_in_folder},
    target::emulation_percent,
};

/// Builds the server; `None` if there is no Go.
fn server(folder: &Path, name: &str, flags: &[&str]) -> Option<PathBuf> {
    let program = folder.join(name);
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/profile/go/server.go");
    let mut go = Command::new("go");
    go.env("GOFLAGS", "").arg("build").args(flags).arg("-o").arg(&program).arg(source);
    let Ok(output) = go.output() else {
        eprintln!("skipped: there is no go (package golang-go)");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

/// Functions without a caller: of goroutines, of the scheduler's threads, of what grows stacks.
const OUTERMOST: [&str; 5] =
    ["runtime.goexit", "runtime.mcall", "runtime.mstart", "runtime.morestack", "runtime.rt0_go"];

/// Samples whose outermost function is one of these.
fn samples_from(run: &Run, functions: &[&str]) -> u64 {
    let outermost = |stack: &str| {
        let function = stack.split(';').nth(1).unwrap_or_default();
        // Symbols name the calling convention.
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
        let Some(program) = server(folder.path(), name, flags) else { return };
        let run = launch(folder.path(), &["-F", "499"], &program, &["2000"]);
        let samples = run.samples();
        let broken = run.number("/stacks/broken") + run.number("/stacks/truncated");
        // A few more at the beginning and at the end, as processes come and go.
        let limit = samples as f64 * (0.5 + emulation_percent()) / 100.0 + 3.0;
        assert!(samples > 300 && broken as f64 <= limit, "{name}: {}", run.summary);
        assert!(samples_from(&run, &OUTERMOST) * 100 > samples * 99, "{name}: {:?}", run.folded);
        let serving = "runtime.goexit;net/http.(*Server).Serve.func";
        let serving =
            run.percent_with(serving).max(run.percent_with(&serving.replace(";net", ".abi0;net")));
        let handling = run.percent_with(";main.handle;main.items;");
        assert!(serving > 20.0 && handling > 5.0, "{name}: {:?}", run.folded);
        assert!(run.samples_with("+0x") * 100 < samples, "{name}: {:?}", run.folded);
    }
}
