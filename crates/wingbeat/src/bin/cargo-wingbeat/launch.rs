//! Launches `wingbeat` on the program, with sudo if it needs more privileges.

use std::{
    env,
    ffi::OsString,
    fs,
    io::{self, Write as _},
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::{Arc, atomic::AtomicBool},
};

use anyhow::Context as _;
use rustix::process::geteuid;
use signal_hook::{
    consts::{SIGINT, SIGQUIT},
    flag,
};
use wingbeat_bpf_loader::{caller::Caller, rights::Rights};

use crate::{
    Failure, code_of,
    words::{Kind, Request, Verb},
};

/// Placeholder for the program while checking flags.
const WORD: &str = "PROGRAM";

/// How `wingbeat` gets its privileges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// Has them, or needs none.
    Itself,
    Sudo,
}

/// The `wingbeat` next to this program, else the one in `PATH`.
pub(crate) fn wingbeat() -> Result<PathBuf, Failure> {
    let beside = env::current_exe().ok().map(|path| path.with_file_name("wingbeat"));
    let found = beside.filter(|path| is_program(path)).or_else(|| in_path("wingbeat"));
    found.ok_or_else(|| Failure {
        code: 1,
        text: "there is no wingbeat beside cargo-wingbeat, and none in PATH; install both: `cargo install --path \
               crates/wingbeat`"
            .to_owned(),
    })
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

/// Exit code if `wingbeat` rejects its flags; it prints the reason.
pub(crate) fn refused(wingbeat: &Path, request: &Request) -> Result<Option<ExitCode>, Failure> {
    let mut command = Command::new(wingbeat);
    command.args(["--only-parse", WORD, request.verb.name()]).args(&request.for_wingbeat);
    let status = command.args(["--", WORD]).status();
    let status = status.with_context(|| format!("cannot run {}", wingbeat.display()))?;
    let code = code_of(status);
    Ok((code != 0).then(|| ExitCode::from(code)))
}

/// Determines how this verb gets its privileges, before any build.
pub(crate) fn rights(wingbeat: &Path, verb: Verb) -> Result<By, Failure> {
    // Sudo cannot help root: `wingbeat` explains what is missing.
    let has_rights = geteuid().is_root()
        || Rights::current().is_ok_and(|rights| rights.missing_for_profile().is_empty());
    // File capabilities on the binary suffice.
    let is_granted = || {
        let mut value = [0; 64];
        rustix::fs::getxattr(wingbeat, "security.capability", &mut value).is_ok()
    };
    if verb == Verb::Run || has_rights || is_granted() {
        return Ok(By::Itself);
    }
    if in_path("sudo").is_some() {
        return Ok(By::Sudo);
    }
    let text = format!(
        "`wingbeat {}` needs rights that you do not have, and there is no sudo; as root, grant them once by `setcap \
         cap_bpf,cap_perfmon,cap_sys_ptrace,cap_checkpoint_restore,cap_dac_read_search,cap_syslog+ep {}`",
        verb.name(),
        wingbeat.display()
    );
    Err(Failure { code: 1, text })
}

/// Execs `wingbeat` on the program, or waits for the sudo that starts it.
pub(crate) fn launch(
    request: &Request,
    wingbeat: &Path,
    by: By,
    program: &Path,
    caller: &Caller,
) -> Result<ExitCode, Failure> {
    let mut command = match by {
        By::Sudo => Command::new("sudo"),
        By::Itself => Command::new(wingbeat),
    };
    if by == By::Sudo {
        command.arg("--").arg(wingbeat);
    }
    command.arg(request.verb.name()).args(&request.for_wingbeat);
    let file = match request.verb {
        Verb::Run => {
            run_here(&mut command, request, caller)?;
            None
        }
        Verb::Profile | Verb::Heap => {
            let file = written(caller)?;
            command.arg("--launch-as").arg(&file).arg("--");
            Some(file)
        }
    };
    command.arg(program).args(program_words(request));
    let ended = match by {
        By::Sudo => {
            let what = "wingbeat needs rights that you do not have; the program itself runs as you";
            anstream::eprintln!("running it by sudo: {what}");
            wait_for(&mut command)
        }
        By::Itself => Err(command.exec()),
    };
    // Exists if wingbeat never ran.
    if let Some(file) = file {
        let _ = fs::remove_file(file);
    }
    let failed = || format!("cannot run {}", command.get_program().display());
    Ok(ended.with_context(failed)?)
}

/// Waits for sudo. Ctrl-C reaches it and its children, which end after writing their recording.
fn wait_for(command: &mut Command) -> io::Result<ExitCode> {
    let is_asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGQUIT] {
        flag::register(signal, Arc::clone(&is_asked))?;
    }
    Ok(ExitCode::from(code_of(command.status()?)))
}

/// Makes `wingbeat run` start the program in its folder, but find its own files in the current one.
fn run_here(command: &mut Command, request: &Request, caller: &Caller) -> Result<(), Failure> {
    let has_shell = request.for_wingbeat.iter().any(|word| {
        let word = word.to_string_lossy();
        ["--shell", "--flag", "--exec"].iter().any(|flag| word.starts_with(flag))
    });
    if !has_shell {
        // A single word would go to a shell, which splits at spaces.
        command.arg("--exec");
    }
    command.arg("--");
    let here = env::current_dir().context("the current folder is gone")?;
    if here != caller.folder {
        command.args(["sh", "-c", "cd -- \"$0\" && exec \"$@\""]).arg(&caller.folder);
    }
    Caller { folder: here, ..caller.clone() }.lend_to(command);
    Ok(())
}

/// Writes the caller's identity to a private file, which `wingbeat` deletes.
fn written(caller: &Caller) -> Result<PathBuf, Failure> {
    // In memory, if there is such a folder.
    let session = caller.variable("XDG_RUNTIME_DIR").map(PathBuf::from);
    let folder = session.filter(|folder| folder.is_dir()).unwrap_or_else(env::temp_dir);
    let write = || {
        let mut file = tempfile::Builder::new().prefix("cargo-wingbeat-").tempfile_in(&folder)?;
        file.write_all(&caller.to_bytes())?;
        file.keep().map(|(_, path)| path).map_err(|error| error.error)
    };
    Ok(write().with_context(|| format!("cannot write to {}", folder.display()))?)
}

/// Arguments of the program. Cargo passes a flag to benchmarks, by which Criterion and others distinguish them from
/// tests.
fn program_words(request: &Request) -> Vec<OsString> {
    let mut words = request.for_program.clone();
    let is_bench = match &request.target {
        Some((kind, _)) => *kind == Kind::Bench,
        None => request.verb == Verb::Run,
    };
    if is_bench && !words.iter().any(|word| word == "--bench") {
        words.push("--bench".into());
    }
    words
}
