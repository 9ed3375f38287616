//! `cargo xtask walkthrough`: runs every command of docs/zero-to-hero.md in order.
//!
//! Commands are extracted from the document, so that it shows exactly what was run.

mod document;
mod scratch;
mod session;

use std::{
    fs,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};

use crate::setup::{self, Tool};
use document::Step;
use session::{Ended, Session};
use wingbeat_steps::{
    command::{Rights, cargo, repository},
    conditions, marked,
    steps::Steps,
};

/// The document, from the repository root.
const DOCUMENT: &str = "docs/zero-to-hero.md";

/// Marks around the date and machine of the document's output.
const CONDITIONS: &str = "conditions";

/// The document finds processes by name.
const PROCPS: Tool = Tool { name: "pkill", package: "procps", purpose: "docs/zero-to-hero.md" };

/// The last chapter opens links.
const CURL: Tool = Tool { name: "curl", package: "curl", purpose: "docs/zero-to-hero.md" };

/// Time limit for a patient reader, and for CI.
const LIMIT: Duration = Duration::from_mins(12);

/// Runs the document in a scratch clone, starting at a chapter. With `update`, replaces its output and pictures.
pub(crate) fn run(update: bool, from: usize) -> anyhow::Result<ExitCode> {
    if Rights::now() == Rights::None {
        bail!("the walkthrough loads eBPF programs and there is no sudo: run this as root");
    }
    let root = repository();
    let text = fs::read_to_string(root.join(DOCUMENT))
        .with_context(|| format!("cannot read {DOCUMENT}"))?;
    let mut steps =
        document::steps(&text).with_context(|| format!("{DOCUMENT} is not understood"))?;
    steps.retain(|step| step.chapter == 0 || step.chapter >= from);

    let mut before = Steps::default();
    before.time("cargo xtask setup", |_| {
        setup::run().and_then(|()| setup::programs(&[PROCPS, CURL]))
    })?;
    // Built like `cargo xtask test`, so that CI builds it once.
    let wingbeat = ["test", "--profile", "quick", "--workspace", "--no-run", "--test", "verbs"];
    before.run(cargo().args(wingbeat))?;
    before.run(cargo().args(["build", "--release", "-p", "amicable"]))?;

    let place = root.join("target/walkthrough");
    let clone = scratch::clone(&place)?;
    let mut session = Session::start(scratch::bash(&place)?, &clone)?;
    let start = Instant::now();
    let mut outputs = Vec::with_capacity(steps.len());
    for step in &steps {
        let output = take(&mut session, step, &clone)
            .with_context(|| format!("{DOCUMENT}, line {}", step.line))?;
        outputs.push(output);
    }
    drop(session);
    let took = start.elapsed();
    eprintln!("{} steps of {DOCUMENT} in {} s, as they should be", steps.len(), took.as_secs());
    if took > LIMIT {
        bail!("that is more than the {} s that it may take", LIMIT.as_secs());
    }
    if update {
        let updated = document::updated(&text, &steps, &outputs);
        // The conditions apply to the whole document.
        let updated = if from == 0 { with_conditions(&updated)? } else { updated };
        fs::write(root.join(DOCUMENT), updated)
            .with_context(|| format!("cannot write {DOCUMENT}"))?;
        for (step, output) in steps.iter().zip(&outputs) {
            draw(step, output, &clone, &root)?;
        }
        eprintln!("updated {DOCUMENT} and its pictures; look at them");
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a step and checks its output; returns the last command's output.
fn take(session: &mut Session, step: &Step, clone: &Path) -> anyhow::Result<String> {
    let mut last = String::new();
    for (index, command) in step.commands.iter().enumerate() {
        eprintln!("$ {command}");
        let start = Instant::now();
        let ended = session.run(command).with_context(|| format!("`{command}`"))?;
        eprintln!("    {:.1} s", start.elapsed().as_secs_f64());
        let Ended { output, code } = ended;
        let wanted = if index + 1 == step.commands.len() { step.exits.as_slice() } else { &[0] };
        if !wanted.contains(&code) {
            bail!("`{command}` ended with {code}, not with one of {wanted:?}:\n{output}");
        }
        last = portable(&output, &[clone, &repository()]);
    }
    for check in &step.checks {
        let fault = match &check.file {
            None => check.fault(&last),
            Some(file) => {
                let bytes = fs::read(clone.join(file)).with_context(|| format!("no {file}"))?;
                check.fault(&String::from_utf8_lossy(&bytes))
            }
        };
        if let Some(fault) = fault {
            bail!("{fault}\n{last}");
        }
    }
    Ok(last)
}

/// Creates the pictures of a step.
fn draw(step: &Step, output: &str, clone: &Path, root: &Path) -> anyhow::Result<()> {
    for (from, to) in &step.pictures {
        fs::copy(clone.join(from), root.join(to))
            .with_context(|| format!("cannot copy {from} to {to}"))?;
    }
    if let Some(file) = &step.drawing {
        let svg = anstyle_svg::Term::new().render_svg(&step.terminal(output));
        fs::write(root.join(file), svg).with_context(|| format!("cannot write {file}"))?;
    }
    Ok(())
}

/// Output without our folders, which differ from the reader's.
fn portable(output: &str, folders: &[&Path]) -> String {
    folders.iter().fold(output.to_owned(), |output, folder| {
        output.replace(&format!("{}/", folder.display()), "")
    })
}

fn with_conditions(text: &str) -> anyhow::Result<String> {
    let (date, machine) = (conditions::date(), conditions::machine());
    let sentence = format!("The output is of {date}, from {machine}.");
    marked::replace(text, CONDITIONS, &sentence).context("the document has no place for the date")
}
