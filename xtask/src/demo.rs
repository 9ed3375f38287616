//! `cargo xtask demo`: from a fresh clone to a flame graph.

use std::{ffi::OsStr, fs};

use anyhow::{Context as _, bail};
use xtask::command::{Rights, Steps, cargo, display, repository};

const WINGBEAT: &str = "target/quick/wingbeat";
const OUT: &str = "target/demo";

/// Builds, and profiles `examples/amicable`. Needs no installation: the repository has the compiled kernel half. Omits
/// the server, which is half of the build.
pub(crate) fn run() -> anyhow::Result<()> {
    let mut steps = Steps::default();
    let build = ["build", "--profile", "quick", "--no-default-features", "-p", "wingbeat", "-p"];
    steps.run(cargo().env("CARGO_INCREMENTAL", "0").args(build).arg("amicable"))?;

    let root = repository();
    fs::create_dir_all(root.join(OUT)).with_context(|| format!("cannot create {OUT}"))?;
    let rights = Rights::now();
    let [picture, folded] = ["svg", "folded"].map(|suffix| format!("{OUT}/amicable.{suffix}"));
    let mut profile = rights.command(OsStr::new(WINGBEAT));
    profile.args(["profile", "-F", "499", "-o", &picture, "-o", &folded, "--"]);
    profile.arg("target/quick/amicable");
    let root = root.display();
    if rights == Rights::None {
        let command = display(&profile);
        bail!("profiling needs root and there is no sudo; as root, in {root}, run:\n    {command}");
    }
    steps.run(&mut profile)?;
    eprintln!(
        "\
The flame graph:   {root}/{picture}
  Open it in a browser; a click on a frame zooms, Ctrl-F searches.
The folded stacks: {root}/{folded}
  One line per stack with its samples: for grep, and for `wingbeat diff`.
`cargo build --release -p wingbeat` builds all of wingbeat, optimized, `serve` included.
Next, profile a process of your own for ten seconds:
  sudo {WINGBEAT} profile --pid PID -d 10s -o mine.svg"
    );
    Ok(())
}
