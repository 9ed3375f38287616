//! `watch-programs COMMAND …`: prints verifier statistics of the programs that a command loads.
//!
//! A loader sets constants before loading, and the verifier prunes branches by them. So this
//! inspects the loaded programs instead of loading them again from their objects. `cargo xtask vm`
//! runs it in its guests.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    error::Error,
    ffi::OsString,
    fs,
    io::{self, Write as _},
    process::{Command, ExitCode, Stdio},
    thread,
    time::Duration,
};

use wingbeat_bpf_loader::program::{ProgramInfo, full_name, ids, open};

/// Polling interval. Programs stay loaded for seconds.
const PERIOD: Duration = Duration::from_millis(20);

/// Program name used by `wingbeat_bpf_loader::probe`.
const ATTEMPT: &str = "wingbeat_probe";

fn main() -> ExitCode {
    match run(env::args_os().skip(1)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the command with its output discarded, and prints each program that it holds meanwhile, as
/// CSV with a subset of the columns of `wingbeat bench --format csv`.
fn run(mut words: impl Iterator<Item = OsString>) -> Result<ExitCode, Box<dyn Error>> {
    let program = words.next().ok_or("a command is missing")?;
    // Check privileges first, for a clear error.
    ids().map_err(|error| format!("cannot list eBPF programs, which needs root: {error}"))?;
    let mut command = Command::new(&program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null());
    let mut child =
        command.spawn().map_err(|error| format!("cannot run {}: {error}", program.display()))?;
    let mut found = BTreeMap::new();
    let status = loop {
        found.extend(held(child.id()).into_iter().filter_map(look));
        if let Some(status) = child.try_wait()? {
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

/// Programs held by a process: others may load theirs meanwhile.
fn held(pid: u32) -> BTreeSet<u32> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    let program = |text: String| {
        let id = text.lines().find_map(|line| line.strip_prefix("prog_id:"))?;
        id.trim().parse().ok()
    };
    descriptors.filter_map(|it| program(fs::read_to_string(it.path()).ok()?)).collect()
}

/// Name and instructions; `None` if the program is already gone.
fn look(id: u32) -> Option<(String, u32)> {
    let program = open(id).ok()?;
    let info = ProgramInfo::of(&program).ok()?;
    let name = full_name(&program).ok().flatten().unwrap_or(info.name);
    // A kernel probe, which may or may not be seen depending on timing.
    if name == ATTEMPT {
        return None;
    }
    Some((name, info.verified_instructions))
}
