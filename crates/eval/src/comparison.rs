//! What all comparisons share: rights, the wingbeat under test, Ctrl-C, where and when something was
//! measured, and where its figures and tables go.

use std::{
    env,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::{Context as _, bail};
use clap::Args;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use xtask::{
    command::{Rights, Steps, cargo, display, repository},
    conditions, folders, marked,
};

/// Where everything that a run leaves behind lies, below the repository's root.
const OUT: &str = "target/peers";

/// Processes that want a CPU beside ours, above which the figures are worth little.
const LOAD_MAX: f64 = 0.5;

/// Flags of most comparisons.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// The wingbeat to test [default: a build of this tree]
    #[arg(long, value_name = "FILE")]
    wingbeat: Option<PathBuf>,
    /// Also write the tables into this file, between its marks
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Vec<PathBuf>,
}

/// Writes tables into these files, between the marks that each has.
pub(crate) fn write(files: &[PathBuf], parts: &[(&str, &str)]) -> anyhow::Result<()> {
    for file in files {
        marked::write(file, parts)?;
        eprintln!("wrote the tables into {}", file.display());
    }
    Ok(())
}

impl Common {
    /// The wingbeat to test, built unless it was named.
    pub(crate) fn wingbeat(&self) -> anyhow::Result<PathBuf> {
        match &self.wingbeat {
            Some(program) => fs::canonicalize(program)
                .with_context(|| format!("cannot find {}", program.display())),
            None => Ok(build(&["wingbeat"])?.join("wingbeat")),
        }
    }

    /// Writes the tables where they were wanted.
    pub(crate) fn write(&self, marks: &str, text: &str) -> anyhow::Result<()> {
        write(&self.markdown, &[(marks, text)])
    }

    /// Keeps the figures, prints the tables, and writes them where they were wanted.
    pub(crate) fn finish(
        &self,
        name: &str,
        figures: &impl Serialize,
        text: &str,
        stop: &Stop,
    ) -> anyhow::Result<ExitCode> {
        let file = out("")?.join(format!("{}.json", name.replace(' ', "-")));
        keep(figures, &file)?;
        println!("{text}");
        eprintln!("wrote all figures to {}", file.display());
        if stop.is_asked() {
            eprintln!("stopped early: no other file was written");
            return Ok(ExitCode::FAILURE);
        }
        self.write(&format!("peers {name}"), text)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// A release build of these packages, and the folder that it is in.
pub(crate) fn build(packages: &[&str]) -> anyhow::Result<PathBuf> {
    let packages = packages.iter().flat_map(|package| ["-p", package]);
    Steps::default().run(cargo().args(["build", "--release"]).args(packages))?;
    Ok(repository().join("target/release"))
}

pub(crate) fn need_root(what: &str, subcommand: &str) -> anyhow::Result<()> {
    if Rights::now() != Rights::Root {
        bail!(
            "{what} root: run `sudo -E env PATH=\"$PATH\" cargo xtask peers {subcommand}`, or become root"
        );
    }
    Ok(())
}

/// A folder for what a run leaves behind.
pub(crate) fn out(name: &str) -> anyhow::Result<PathBuf> {
    let out = repository().join(OUT).join(name);
    fs::create_dir_all(&out).with_context(|| format!("cannot create {}", out.display()))?;
    Ok(out)
}

/// An empty folder below that one, for files that stay until the same name comes again.
pub(crate) fn fresh(name: &str) -> anyhow::Result<PathBuf> {
    let dir = repository().join(OUT).join("runs").join(name);
    folders::fresh(&dir)?;
    Ok(dir)
}

/// Writes all figures, for [`kept`] and for whoever wants to look closer.
pub(crate) fn keep(figures: &impl Serialize, file: &Path) -> anyhow::Result<()> {
    let json =
        serde_json::to_string_pretty(figures).context("cannot turn the figures into JSON")?;
    fs::write(file, json).with_context(|| format!("cannot write {}", file.display()))
}

/// Reads what [`keep`] wrote, or a tool.
pub(crate) fn kept<T: DeserializeOwned>(file: &Path) -> anyhow::Result<T> {
    let text = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_slice(&text)
        .with_context(|| format!("{} does not hold such figures", file.display()))
}

/// A file to write, emptied if it is there.
pub(crate) fn create(file: &Path) -> anyhow::Result<File> {
    File::create(file).with_context(|| format!("cannot write {}", file.display()))
}

/// Becomes true on Ctrl-C and SIGTERM, so that settings of the machine are put back.
#[derive(Debug)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Watches from now on.
    pub(crate) fn on_signals() -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop))
                .context("cannot watch for Ctrl-C")?;
        }
        Ok(Self(stop))
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// What came of a step; `None` when Ctrl-C ended it, which also reaches the tools: what they say then
    /// means nothing.
    pub(crate) fn unless_asked<T>(&self, outcome: anyhow::Result<T>) -> anyhow::Result<Option<T>> {
        if self.is_asked() { Ok(None) } else { outcome.map(Some) }
    }
}

/// Where, when and how something was measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    pub(crate) date: String,
    machine: String,
    pub(crate) command: String,
    /// Things to know about the conditions, each a sentence.
    pub(crate) notes: Vec<String>,
}

impl Origin {
    pub(crate) fn now() -> Self {
        let arguments: Vec<String> = env::args().skip(1).collect();
        let mut notes = Vec::new();
        let load = fs::read_to_string("/proc/loadavg").ok().and_then(|text| load_of(&text));
        if let Some(load) = load.filter(|load| *load > LOAD_MAX) {
            let note = format!(
                "The machine was busy when this began (load {load}): other programs took CPU time, and \
                 the figures vary more than they should."
            );
            eprintln!("warning: {note}");
            notes.push(note);
        }
        Self {
            date: conditions::date(),
            machine: conditions::machine(),
            command: format!("cargo xtask peers {}", measuring(&arguments).join(" ")),
            notes,
        }
    }

    /// The sentence above the tables, with more about how often it was measured, and the notes.
    pub(crate) fn text(&self, more: &str) -> String {
        let Self { date, machine, command, notes } = self;
        let mut text = format!("Measured on {date} with `{command}`: {machine}{more}.\n");
        for note in notes {
            text.push_str(&format!("\n- {}\n", note.trim_end()));
        }
        text
    }
}

/// The arguments that decide what is measured: without those that say where tables go, or where a tool
/// lies.
fn measuring(arguments: &[String]) -> Vec<&str> {
    const PLACES: [&str; 6] =
        ["--bencher-api", "--markdown", "--programs", "--svg", "--veristat", "--wingbeat"];
    let mut rest = arguments.iter();
    let mut kept = Vec::new();
    while let Some(argument) = rest.next() {
        match argument.split_once('=') {
            Some((name, _)) if PLACES.contains(&name) => {}
            None if PLACES.contains(&argument.as_str()) => _ = rest.next(),
            _ => kept.push(argument.as_str()),
        }
    }
    kept
}

fn load_of(loadavg: &str) -> Option<f64> {
    loadavg.split_whitespace().next()?.parse().ok()
}

/// Runs a command for its standard output; a failure quotes what it said last.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let said = command.stdin(Stdio::null()).output();
    let said = said.with_context(|| format!("cannot run `{}`", display(command)))?;
    let stdout = String::from_utf8_lossy(&said.stdout).into_owned();
    if !said.status.success() {
        let all = stdout + &String::from_utf8_lossy(&said.stderr);
        bail!("`{}` failed ({}): {}", display(command), said.status, last_line(&all));
    }
    Ok(stdout)
}

/// The last line of text that is not blank.
pub(crate) fn last_line(text: &str) -> &str {
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    line.unwrap_or("it said nothing")
}

/// Those of these names, in their order; all when there are none.
pub(crate) fn chosen<T: Copy>(
    all: &[T],
    what: &str,
    name: fn(&T) -> &'static str,
    names: &[String],
) -> anyhow::Result<Vec<T>> {
    let known: Vec<&str> = all.iter().map(name).collect();
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("there is no {what} \"{name}\": choose from {}", known.join(", "));
    }
    let is_chosen = |it: &&T| names.is_empty() || names.iter().any(|wanted| wanted == name(it));
    Ok(all.iter().filter(is_chosen).copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_kept_without_files() {
        let check = |text: &str, expected: &str| {
            let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            assert_eq!(measuring(&words).join(" "), expected);
        };
        check("profile --markdown a.md --hz 99", "profile --hz 99");
        check("profile --markdown=a.md", "profile");
        check("profile --markdown", "profile");
        check("profile --programs a --quick", "profile --quick");
        check("bench objects --veristat v --folder a=b", "bench objects --folder a=b");
    }

    #[test]
    fn load_is_read() {
        assert_eq!(load_of("0.52 0.58 0.59 1/467 12"), Some(0.52));
    }

    #[test]
    fn failed_commands_are_quoted() {
        let mut command = Command::new("sh");
        let error = output(command.args(["-c", "echo out; echo gone wrong >&2; exit 3"]));
        let said = error.expect_err("it exits with 3").to_string();
        assert!(said.ends_with("failed (exit status: 3): gone wrong"), "{said}");
        assert_eq!(output(Command::new("echo").arg("a")).expect("echo works"), "a\n");
    }

    #[test]
    fn unknown_names_are_refused() {
        let chosen = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            chosen(&["a", "b", "c"], "thing", |name| name, &names)
                .map_err(|error| error.to_string())
        };
        assert_eq!(chosen(&["d"]), Err("there is no thing \"d\": choose from a, b, c".to_owned()));
        assert_eq!(chosen(&[]), Ok(vec!["a", "b", "c"]));
        assert_eq!(chosen(&["c", "a"]), Ok(vec!["a", "c"]));
    }
}
