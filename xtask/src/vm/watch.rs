//! `cargo xtask watch-programs`: what the verifier made of the programs that a command loads.
//!
//! Whoever loads a program sets its constants first, and the verifier prunes by them: so programs are
//! looked at where they are at work, and not loaded once more from their objects.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    process::{Command, ExitCode, Stdio},
    thread,
    time::Duration,
};

use anyhow::Context as _;
use wingbeat_bpf::program::{Info, full_name, ids, open};

/// How often programs are looked for. They stay for seconds.
const PERIOD: Duration = Duration::from_millis(20);

/// Runs the command with its output thrown away, and prints each program that is new while it runs, as
/// CSV in the columns that `wingbeat bench --format csv` has too.
pub(crate) fn run(words: &[String]) -> anyhow::Result<ExitCode> {
    let (program, arguments) = words.split_first().context("a command is missing")?;
    let before = ids().context("cannot list eBPF programs, which takes root")?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.spawn().with_context(|| format!("cannot run {program}"))?;
    let mut found = BTreeMap::new();
    let status = loop {
        for id in ids().context("cannot list eBPF programs")? {
            if !before.contains(&id)
                && let Some((name, instructions)) = look(id)
            {
                found.insert(name, instructions);
            }
        }
        if let Some(status) = child.try_wait().context("cannot wait for the command")? {
            break status;
        }
        thread::sleep(PERIOD);
    };
    let mut out = io::stdout().lock();
    writeln!(out, "prog_name,verdict,total_insns")?;
    for (name, instructions) in found {
        writeln!(out, "{name},success,{instructions}")?;
    }
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Name and instructions; none of a program that is gone by now.
fn look(id: u32) -> Option<(String, u32)> {
    let program = open(id).ok()?;
    let info = Info::of(&program).ok()?;
    let name = full_name(&program).ok().flatten().unwrap_or(info.name);
    Some((name, info.verified_instructions))
}
