//! `cargo xtask walkthrough`: runs every command of docs/zero-to-hero.md in order.
//!
//! Commands are extracted from the document, so that it shows exactly what was run. They run in a clone, because they
//! create branches, commits and files.

mod document;

use std::{
    env,
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::{
        fs::{PermissionsExt as _, symlink},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use xtask::{
    command::{Rights, Steps, cargo, find_program, repository, run_logged},
    conditions, folders, marked,
};

use crate::setup::{self, Tool};
use document::Step;

/// The document, from the repository root.
const DOCUMENT: &str = "docs/zero-to-hero.md";

/// Programs that the document calls, besides those of tests.
const NEEDED: [Tool; 2] = [
    Tool { name: "pkill", package: "procps", purpose: DOCUMENT },
    Tool { name: "curl", package: "curl", purpose: DOCUMENT },
];

/// Time limit for a patient reader, and for CI.
const LIMIT: Duration = Duration::from_mins(12);

/// Runs the document in a scratch clone, starting at a chapter. With `update`, replaces its output and pictures.
pub(crate) fn run(update: bool, from: usize) -> anyhow::Result<()> {
    Rights::required()?;
    let root = repository();
    let file = root.join(DOCUMENT);
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {DOCUMENT}"))?;
    let mut steps = document::steps(&text).with_context(|| format!("cannot parse {DOCUMENT}"))?;
    steps.retain(|step| step.chapter == 0 || step.chapter >= from);

    let mut before = Steps::default();
    before.time("cargo xtask setup", |_| setup::run().and_then(|()| setup::programs(&NEEDED)))?;
    // Built like `cargo xtask test`, so that CI builds it once.
    let wingbeat = ["test", "--profile", "quick", "--workspace", "--no-run", "--test", "verbs"];
    before.run(cargo().args(wingbeat))?;
    before.run(cargo().args(["build", "--release", "-p", "amicable"]))?;

    let folder = root.join("target/walkthrough");
    let clone = clone(&folder)?;
    let mut session = Session::start(bash(&folder)?.current_dir(&clone), &folder.join("output"))?;
    let start = Instant::now();
    let mut outputs = Vec::with_capacity(steps.len());
    for step in &steps {
        let output = take(&mut session, step, &clone);
        outputs.push(output.with_context(|| format!("{DOCUMENT}, line {}", step.line))?);
    }
    drop(session);
    let took = start.elapsed();
    eprintln!("{} steps of {DOCUMENT} succeeded in {} s", steps.len(), took.as_secs());
    ensure!(took <= LIMIT, "that is more than the limit of {} s", LIMIT.as_secs());
    if update {
        let mut updated = document::updated(&text, &steps, &outputs);
        // The conditions apply to the whole document.
        if from == 0 {
            let (date, machine) = (conditions::date(), conditions::machine());
            let sentence = format!("The output is of {date}, from {machine}.");
            updated = marked::replace(&updated, "conditions", &sentence)
                .with_context(|| format!("{DOCUMENT} has no marks for the date"))?;
        }
        fs::write(&file, updated).with_context(|| format!("cannot write {DOCUMENT}"))?;
        for (step, output) in steps.iter().zip(&outputs) {
            draw(step, output, &clone, &root)?;
        }
        eprintln!("updated {DOCUMENT} and its pictures; look at them");
    }
    Ok(())
}

/// Runs a step and checks its output; returns the last command's output.
fn take(session: &mut Session, step: &Step, clone: &Path) -> anyhow::Result<String> {
    let mut last = String::new();
    for (index, command) in step.commands.iter().enumerate() {
        eprintln!("$ {command}");
        let start = Instant::now();
        let (output, code) = session.run(command).with_context(|| format!("`{command}`"))?;
        eprintln!("    {:.1} s", start.elapsed().as_secs_f64());
        let expected = if index + 1 == step.commands.len() { step.exits.as_slice() } else { &[0] };
        if !expected.contains(&code) {
            bail!("`{command}` exited with {code}, not with one of {expected:?}:\n{output}");
        }
        // Without our folders, which differ from the reader's.
        last = [clone, &repository()]
            .iter()
            .fold(output, |output, folder| output.replace(&format!("{}/", folder.display()), ""));
    }
    for check in &step.checks {
        let text = match &check.file {
            None => &last,
            Some(file) => &fs::read_to_string(clone.join(file))
                .with_context(|| format!("cannot read {file}"))?,
        };
        if let Some(fault) = check.fault(text) {
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

/// Makes the clone, on a branch `main` that includes uncommitted changes.
const CLONE: &str = r#"
export GIT_INDEX_FILE="$1/index"
git read-tree HEAD && git add --all && tree=$(git write-tree) && unset GIT_INDEX_FILE || exit
commit=$(git rev-parse HEAD)
[ "$tree" = "$(git rev-parse 'HEAD^{tree}')" ] || commit=$(git commit-tree -p HEAD -m "Add uncommitted changes" "$tree")
git clone --quiet --shared --no-checkout . "$1/wingbeat" && cd "$1/wingbeat" && git checkout --quiet -B main "$commit"
"#;

/// The clone shares our target folder, which has the build of `cargo xtask demo` that the document requires.
fn clone(folder: &Path) -> anyhow::Result<PathBuf> {
    folders::fresh(folder)?;
    let mut sh = Command::new("sh");
    sh.args(["-c", CLONE, "sh"]).arg(folder).current_dir(repository()).envs(AUTHOR);
    run_logged(&mut sh, &folder.join("clone.log"))?;
    let clone = folder.join("wingbeat");
    symlink(repository().join("target"), clone.join("target")).context("cannot link target")?;
    Ok(clone)
}

/// Of commits.
const AUTHOR: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "walkthrough"),
    ("GIT_AUTHOR_EMAIL", "walkthrough@localhost"),
    ("GIT_COMMITTER_NAME", "walkthrough"),
    ("GIT_COMMITTER_EMAIL", "walkthrough@localhost"),
];

/// Replaces sudo for root. The flags are about the environment, which stays as it is.
const SUDO: &str = r#"#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
exec "$@"
"#;

/// Bash with a terminal's environment: without our variables, and with an author for commits.
fn bash(folder: &Path) -> anyhow::Result<Command> {
    // Ends a command that hangs; leftovers are in its process group.
    let mut bash = Command::new("timeout");
    bash.args(["--kill-after=5", "900", "bash"]);
    const OURS: [&str; 6] =
        ["CARGO_PKG_", "CARGO_MANIFEST_", "GITHUB_", "GITLAB_", "WINGBEAT_", "BENCHER_"];
    for (key, _) in env::vars_os() {
        let name = key.to_string_lossy();
        if name == "CI" || name == "RUST_LOG" || OURS.iter().any(|ours| name.starts_with(ours)) {
            bash.env_remove(&key);
        }
    }
    bash.envs(AUTHOR);
    if Rights::now() == Rights::Root && find_program("sudo").is_none() {
        // Root in a container has no sudo, and needs none.
        let sudo = folder.join("bin/sudo");
        let written = fs::create_dir_all(folder.join("bin"))
            .and_then(|()| fs::write(&sudo, SUDO))
            .and_then(|()| fs::set_permissions(&sudo, fs::Permissions::from_mode(0o755)));
        written.with_context(|| format!("cannot write {}", sudo.display()))?;
        let path = env::var_os("PATH").unwrap_or_default();
        let all = [folder.join("bin")].into_iter().chain(env::split_paths(&path));
        bash.env("PATH", env::join_paths(all).context("PATH cannot be extended")?);
    }
    Ok(bash)
}

/// One shell in which the document's commands run, like in the terminal of a reader who copies them: variables and
/// background jobs persist between commands.
#[derive(Debug)]
struct Session {
    shell: Child,
    commands: ChildStdin,
    /// One line for each command.
    codes: BufReader<ChildStdout>,
    /// File with stdout and stderr of all commands.
    output: File,
}

impl Session {
    fn start(bash: &mut Command, output: &Path) -> anyhow::Result<Self> {
        let mut shell = bash
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A separate process group, so that leftovers can be killed together.
            .process_group(0)
            .spawn()
            .context("cannot start bash")?;
        let mut commands = shell.stdin.take().context("bash has no input")?;
        let codes = BufReader::new(shell.stdout.take().context("bash has no output")?);
        File::create(output).with_context(|| format!("cannot write {}", output.display()))?;
        let output = (output, File::open(output)?);
        writeln!(commands, "exec 3>&1 >>'{}' 2>&1", output.0.display())?;
        Ok(Self { shell, commands, codes, output: output.1 })
    }

    /// Runs a command to its end; its output and exit code.
    fn run(&mut self, command: &str) -> anyhow::Result<(String, i32)> {
        // Braces instead of parentheses: no subshell. Jobs in the background do not keep the pipe.
        writeln!(self.commands, "{{\n{command}\n}} </dev/null 3>&-\necho $? >&3")
            .context("bash is gone")?;
        let (mut code, mut output) = (String::new(), Vec::new());
        self.codes.read_line(&mut code)?;
        self.output.read_to_end(&mut output)?;
        let output = String::from_utf8_lossy(&output).into_owned();
        let code = code.trim().parse();
        let code = code.with_context(|| format!("bash ended, after:\n{output}"))?;
        Ok((output, code))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(group) = i32::try_from(self.shell.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::TERM);
            // Interrupted profilers detach and write; whatever remains then is stuck.
            thread::sleep(Duration::from_millis(300));
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_share_a_shell() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let output = folder.path().join("output");
        let mut session = Session::start(&mut Command::new("bash"), &output).expect("bash");
        let mut check = |command: &str, output: &str, code| {
            assert_eq!(session.run(command).expect(command), (output.to_owned(), code));
        };
        check("a=5", "", 0);
        check("echo $a; echo late >&2", "5\nlate\n", 0);
        check("printf 'no end'", "no end", 0);
        check("cat; (exit 3)", "", 3);
        check("sleep 60 & echo", "\n", 0);
        check("kill -0 $! && echo lives", "lives\n", 0);
        check("echo a \\\n    b", "a b\n", 0);
        assert!(session.run("exit 1").expect_err("bash is gone").to_string().contains("ended"));
    }
}
