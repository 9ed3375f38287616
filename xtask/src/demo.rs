//! `cargo xtask demo`: from a fresh clone to a flame graph.

use std::{ffi::OsStr, fs, process::ExitCode};

use anyhow::{Context as _, bail};

use wingbeat_steps::{
    command::{Rights, cargo, display, repository},
    steps::Steps,
};

const WINGBEAT: &str = "target/quick/wingbeat";
const AMICABLE: &str = "target/quick/amicable";
const OUT: &str = "target/demo";

/// Builds, and profiles `examples/amicable`. Needs no installation: the repository has the compiled kernel half. Omits
/// the server, which is half of the build.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let mut steps = Steps::default();
    steps.run(cargo().env("CARGO_INCREMENTAL", "0").args([
        "build",
        "--profile",
        "quick",
        "--no-default-features",
        "-p",
        "wingbeat",
        "-p",
        "amicable",
    ]))?;

    let root = repository();
    fs::create_dir_all(root.join(OUT)).with_context(|| format!("cannot create {OUT}"))?;
    let rights = Rights::now();
    let picture = format!("{OUT}/amicable.svg");
    let folded = format!("{OUT}/amicable.folded");
    let mut profile = rights.command(OsStr::new(WINGBEAT));
    profile.args(["profile", "-F", "499", "-o", &picture, "-o", &folded, "--", AMICABLE]);
    if rights == Rights::None {
        bail!(
            "profiling needs root and there is no sudo; as root, in {}, run:\n    {}",
            root.display(),
            display(&profile)
        );
    }
    steps.run(&mut profile)?;
    explain(&picture, &folded);
    Ok(ExitCode::SUCCESS)
}

fn explain(picture: &str, folded: &str) {
    let root = repository();
    eprintln!("The flame graph:   {}", root.join(picture).display());
    eprintln!("  Open it in a browser; a click on a frame zooms, Ctrl-F searches.");
    eprintln!("The folded stacks: {}", root.join(folded).display());
    eprintln!("  One line per stack with its samples: for grep, and for `wingbeat diff`.");
    eprintln!(
        "`cargo build --release -p wingbeat` builds all of wingbeat, optimized, `serve` included."
    );
    eprintln!("Next, profile a process of your own for ten seconds:");
    eprintln!("  sudo {WINGBEAT} profile --pid PID -d 10s -o mine.svg");
}
