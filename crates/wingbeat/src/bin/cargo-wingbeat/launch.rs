//! Handing the program to `wingbeat`, by sudo where that needs more rights.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    io::Write as _,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::Context as _;
use rustix::process::geteuid;
use wingbeat_bpf::{caller::Caller, rights::Rights};

use crate::{
    Failure,
    words::{Kind, Request, Verb},
};

/// Stands for the program where flags are checked.
const WORD: &str = "PROGRAM";

/// How `wingbeat` gets the rights that it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// It has them, or needs none.
    Itself,
    Sudo,
}

/// The `wingbeat` beside this program, else the one in `PATH`.
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

/// The exit code, if `wingbeat` refuses its flags; it says why.
pub(crate) fn refused(wingbeat: &Path, request: &Request) -> Result<Option<ExitCode>, Failure> {
    let mut command = Command::new(wingbeat);
    command.args(["--only-parse", WORD, request.verb.name()]).args(&request.for_wingbeat);
    let status = command.args(["--", WORD]).status();
    let status = status.with_context(|| format!("cannot run {}", wingbeat.display()))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok((code != 0).then(|| ExitCode::from(code)))
}

/// How this verb gets its rights, before anything is built.
pub(crate) fn rights(wingbeat: &Path, verb: Verb) -> Result<By, Failure> {
    // Root that lacks a right gets it from nobody: `wingbeat` tells what to do.
    let has_rights = geteuid().is_root()
        || Rights::current().is_ok_and(|rights| rights.missing_for_profile().is_empty());
    // Whoever gave the binary capabilities gave it those that it names.
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

/// Becomes `wingbeat`, which runs the program; returns only if it cannot.
pub(crate) fn launch(
    request: &Request,
    wingbeat: &Path,
    by: By,
    program: &Path,
    caller: &Caller,
) -> Result<ExitCode, Failure> {
    let mut words: Vec<OsString> = vec![request.verb.name().into()];
    words.extend(request.for_wingbeat.iter().cloned());
    let mut command = match by {
        By::Sudo => Command::new("sudo"),
        By::Itself => Command::new(wingbeat),
    };
    match request.verb {
        Verb::Run => {
            // One word would go to a shell, which divides it at spaces.
            let has_shell = words.iter().any(|word| {
                let word = word.to_string_lossy();
                ["--shell", "--flag", "--exec"].iter().any(|flag| word.starts_with(flag))
            });
            if !has_shell {
                words.push("--exec".into());
            }
            let here = env::current_dir().context("the current folder is gone")?;
            words.push("--".into());
            if here != caller.folder {
                let change: [&OsStr; 3] =
                    ["sh".as_ref(), "-c".as_ref(), "cd -- \"$0\" && exec \"$@\"".as_ref()];
                words.extend(change.map(OsString::from));
                words.push(caller.folder.clone().into());
            }
            Caller { folder: here, ..caller.clone() }.lend_to(&mut command);
        }
        Verb::Profile | Verb::Heap => {
            words.push("--launch-as".into());
            words.push(written(caller)?.into());
            words.push("--".into());
        }
    }
    if by == By::Sudo {
        let what = "wingbeat needs rights that you do not have; the program itself runs as you";
        anstream::eprintln!("running it by sudo: {what}");
        command.arg("--").arg(wingbeat);
    }
    command.args(words).arg(program).args(program_words(request));
    let error = command.exec();
    Err(Failure {
        code: 1,
        text: format!("cannot run {}: {error}", command.get_program().display()),
    })
}

/// Writes who calls to a file that only they can read, and that `wingbeat` removes.
fn written(caller: &Caller) -> Result<PathBuf, Failure> {
    // In memory, and gone when they log out, should sudo refuse.
    let session = caller.variable("XDG_RUNTIME_DIR").map(PathBuf::from);
    let folder = session.filter(|folder| folder.is_dir()).unwrap_or_else(env::temp_dir);
    let write = || {
        let mut file = tempfile::Builder::new().prefix("cargo-wingbeat-").tempfile_in(&folder)?;
        file.write_all(&caller.to_bytes())?;
        file.keep().map(|(_, path)| path).map_err(|error| error.error)
    };
    Ok(write().with_context(|| format!("cannot write to {}", folder.display()))?)
}

/// What the program gets. Cargo gives benchmarks a flag, by which Criterion and others tell them from tests.
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
