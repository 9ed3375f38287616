//! Builds with cargo, as the calling user.

use std::{
    collections::BTreeSet,
    env,
    ffi::OsString,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
};

use anyhow::Context as _;
use serde::Deserialize;
use wingbeat_bpf_loader::caller::Caller;

use crate::{
    Failure, code_of, profiles,
    targets::{Chosen, Target, Workspace},
    words::{Kind, Request},
};

/// Root's home, which others cannot read.
const OF_ROOT: &str = "/root";

/// The calling user, with an environment in which their cargo works.
pub(crate) fn caller() -> Result<Caller, Failure> {
    let Some(mut caller) = Caller::of_sudo().context("cannot tell who called sudo")? else {
        return Ok(Caller::this().context("cannot tell who calls")?);
    };
    // Rustup sets these for root, from root's home.
    let is_of_root = |(name, value): &(OsString, OsString)| {
        let names = ["CARGO", "CARGO_HOME", "RUSTUP_HOME", "LD_LIBRARY_PATH"];
        names.iter().any(|other| name == other) && Path::new(value).starts_with(OF_ROOT)
    };
    if caller.variable("RUSTUP_HOME").is_some_and(|home| Path::new(home).starts_with(OF_ROOT)) {
        caller.environment.retain(|(name, _)| name != "RUSTUP_TOOLCHAIN");
    }
    caller.environment.retain(|variable| !is_of_root(variable));
    let home = caller.variable("HOME").map(Path::new);
    let home =
        caller.variable("CARGO_HOME").map(PathBuf::from).or(home.map(|it| it.join(".cargo")));
    if let Some(programs) = home.map(|home| home.join("bin")).filter(|it| it.join("cargo").exists())
    {
        // The caller's cargo, not root's.
        caller.set("CARGO", programs.join("cargo"));
        let paths = caller.variable("PATH").map(env::split_paths).into_iter().flatten();
        let paths = env::join_paths([programs].into_iter().chain(paths));
        caller.set("PATH", paths.context("cannot extend PATH")?);
    }
    Ok(caller)
}

fn cargo(caller: &Caller) -> Command {
    let mut command = Command::new(caller.variable("CARGO").unwrap_or("cargo".as_ref()));
    caller.lend_to(&mut command);
    command
}

/// Runs `cargo metadata`.
pub(crate) fn workspace(request: &Request, caller: &Caller) -> Result<Workspace, Failure> {
    let mut command = cargo(caller);
    command.args(["metadata", "--no-deps", "--format-version", "1"]);
    if let Some(manifest) = &request.manifest {
        command.arg("--manifest-path").arg(manifest);
    }
    let output = command.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    check(output.status)?;
    Ok(serde_json::from_slice(&output.stdout).context("cannot read what `cargo metadata` says")?)
}

/// One JSON message of a cargo build.
#[derive(Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
enum Message {
    CompilerArtifact {
        manifest_path: PathBuf,
        target: Target,
        profile: Profile,
        executable: Option<PathBuf>,
    },
    BuildScriptExecuted {
        linked_paths: Vec<String>,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Builds the target, adds the environment of `cargo run`, and returns the program's path.
pub(crate) fn build(
    request: &Request,
    workspace: &Workspace,
    chosen: &Chosen<'_>,
    caller: &mut Caller,
) -> Result<PathBuf, Failure> {
    let mut child = command(request, workspace, chosen, caller)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run cargo")?;
    let (mut program, mut libraries) = (None, BTreeSet::new());
    let lines = child.stdout.take().map(BufReader::new).into_iter().flat_map(BufReader::lines);
    for line in lines {
        let line = line.context("cannot read what cargo says")?;
        // Lines that are not messages come from compiler wrappers.
        match serde_json::from_str(&line) {
            Ok(Message::CompilerArtifact { manifest_path, target, profile, executable })
                if is_it(chosen, &manifest_path, &target, profile.test) =>
            {
                program = executable.or(program);
            }
            Ok(Message::BuildScriptExecuted { linked_paths }) => {
                let paths = linked_paths.iter().map(|path| without_kind(path));
                libraries.extend(paths.filter(|it| it.starts_with(&workspace.target_directory)));
            }
            _ => {}
        }
    }
    check(child.wait().context("cannot wait for cargo")?)?;
    let Some(program) = program else {
        let (kind, name) = (chosen.kind.name(), &chosen.target.name);
        let text = format!("cargo built the {kind} {name}, but named no program that can be run");
        return Err(Failure { code: 1, text });
    };
    complete(caller, chosen, &program, libraries)?;
    Ok(program)
}

/// A library folder without its kind prefix: `native=/home/me/target/release/build/z-1/out`.
fn without_kind(path: &str) -> PathBuf {
    let kinds = ["dependency", "crate", "native", "framework", "all"];
    match path.split_once('=') {
        Some((kind, path)) if kinds.contains(&kind) => path.into(),
        _ => path.into(),
    }
}

fn command(
    request: &Request,
    workspace: &Workspace,
    chosen: &Chosen<'_>,
    caller: &Caller,
) -> Command {
    let (verb, standard): (&[&str], _) = match chosen.kind {
        Kind::Bin | Kind::Example => (&["build"], "release"),
        Kind::Test | Kind::UnitTest => (&["test", "--no-run"], "release"),
        Kind::Bench => (&["bench", "--no-run"], "bench"),
    };
    let profile = request.profile.as_deref().unwrap_or(standard);
    let mut command = cargo(caller);
    command.args(verb).arg("--manifest-path").arg(&chosen.package.manifest_path);
    match chosen.kind {
        Kind::UnitTest if chosen.target.is_library() => command.arg("--lib"),
        Kind::UnitTest => command.args(["--bin", &chosen.target.name]),
        kind => command.arg(format!("--{}", kind.name())).arg(&chosen.target.name),
    };
    command.args(["--profile", profile]).args(&request.for_cargo);
    for setting in profiles::settings(profile, &workspace.workspace_root, caller) {
        command.arg("--config").arg(setting);
    }
    command.arg("--message-format=json-render-diagnostics");
    command
}

/// Whether an artifact is the requested target. Tests also build the bins of their package.
fn is_it(chosen: &Chosen<'_>, manifest: &Path, target: &Target, is_test: bool) -> bool {
    let is_of_kind = match chosen.kind {
        Kind::UnitTest => is_test,
        Kind::Bin => !is_test,
        _ => true,
    };
    let same = target.name == chosen.target.name && target.kind == chosen.target.kind;
    is_of_kind && same && manifest == chosen.package.manifest_path
}

/// Sets the environment and folder that cargo sets for a program of this kind.
fn complete(
    caller: &mut Caller,
    chosen: &Chosen<'_>,
    program: &Path,
    libraries: BTreeSet<PathBuf>,
) -> Result<(), Failure> {
    let package = chosen.package;
    let folder = package.manifest_path.parent().unwrap_or(&caller.folder).to_owned();
    let place = program.parent().unwrap_or(&folder).to_owned();
    let before = caller.variable("LD_LIBRARY_PATH").map(env::split_paths).into_iter().flatten();
    let paths = libraries.into_iter().chain([place.join("deps"), place]).chain(before);
    let paths = env::join_paths(paths).context("cannot extend LD_LIBRARY_PATH")?;
    caller.set("LD_LIBRARY_PATH", paths);
    caller.set("CARGO_MANIFEST_DIR", &folder);
    caller.set("CARGO_MANIFEST_PATH", &package.manifest_path);
    caller.set("CARGO_PKG_NAME", &package.name);
    caller.set("CARGO_PKG_VERSION", &package.version);
    if !matches!(chosen.kind, Kind::Bin | Kind::Example) {
        caller.folder = folder;
    }
    Ok(())
}

/// Cargo has printed the error.
fn check(status: ExitStatus) -> Result<(), Failure> {
    match code_of(status) {
        0 => Ok(()),
        code => Err(Failure { code, text: String::new() }),
    }
}
