//! Runs test programs, two at a time.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::Instant,
};

use anyhow::Context as _;

use super::{
    outcome::{Outcome, Verdict},
    programs::Program,
};
use wingbeat_steps::command::{Rights, repository};

/// Folder of the programs' output.
const OUTPUT: &str = "target/test-output";

/// Runs the tests whose names contain `filter`. One lane starts with the kernel tests, the other with the rest;
/// whichever finishes first helps the other.
pub(super) fn run_all(
    programs: &[Program],
    filter: Option<&str>,
    rights: Rights,
    verdict: &mut Verdict,
) -> anyhow::Result<()> {
    let output = repository().join(OUTPUT);
    fs::create_dir_all(&output).with_context(|| format!("cannot create {}", output.display()))?;
    let waiting = Mutex::new(programs.iter().enumerate().collect::<Vec<_>>());
    let outcomes = Mutex::new(Vec::new());
    let lane = |of_kernel: bool| {
        loop {
            let next = {
                let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
                let wanted = waiting.iter().position(|(_, it)| it.is_of_kernel == of_kernel);
                let index = wanted.or_else(|| (!waiting.is_empty()).then_some(0));
                index.map(|index| waiting.remove(index))
            };
            let Some((index, program)) = next else { break };
            let outcome = run(program, filter.as_slice(), rights, &output);
            outcome.say();
            outcomes.lock().unwrap_or_else(PoisonError::into_inner).push((index, outcome));
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| lane(true));
        lane(false);
    });
    let mut outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    outcomes.sort_by_key(|(index, _)| *index);

    for (index, outcome) in outcomes {
        let alone = |test: &str| {
            eprintln!("once more, alone: {} {test}", programs[index].name);
            run(&programs[index], &["--exact", test], rights, &output).is_good()
        };
        verdict.add(&outcome, alone);
    }
    Ok(())
}

/// Runs a program to completion, with these harness arguments.
fn run(program: &Program, words: &[&str], rights: Rights, output: &Path) -> Outcome {
    let start = Instant::now();
    let mut command = rights.command(program.path.as_os_str());
    command.args(words).current_dir(&program.folder).stdin(Stdio::null());
    // Variables that cargo sets for a test.
    command.env("CARGO_MANIFEST_DIR", &program.folder);
    let client = repository().join("target/debug/wingbeat-rust-client");
    command.env("WINGBEAT_RUST_CLIENT", client);
    let text = match merged(&mut command, &output.join(file_name(&program.name))) {
        Ok(text) => text,
        Err(error) => format!("cannot run {}: {error:#}", program.path.display()),
    };
    Outcome::read(&program.name, &text, start.elapsed())
}

fn file_name(name: &str) -> String {
    format!("{}.log", name.replace('/', "-"))
}

/// Combined stdout and stderr of a command in order, through a file.
fn merged(command: &mut Command, path: &Path) -> anyhow::Result<String> {
    let file =
        fs::File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    command.stdout(file.try_clone()?).stderr(file);
    let status = command.status()?;
    let mut text = String::from_utf8_lossy(&fs::read(path)?).into_owned();
    if !status.success() {
        text += &format!("\n{}{status}\n", super::outcome::ENDED);
    }
    Ok(text)
}
