//! The user who receives output files: the one who ran sudo, or for whom `cargo wingbeat` did. Files belong to them,
//! and pictures open in their browser, never in root's.

use std::{
    env, fs, io,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::Context as _;
use wingbeat_profiler::{session::Caller, summary::Output};

use crate::{
    output::{PendingFile, pending},
    shell::warning,
};

/// Opens pictures with the desktop's default application.
const OPENER: &str = "xdg-open";

/// An opener without a browser fails within this time; with one, it may run until the browser is closed.
const OPENER_FAILS_WITHIN: Duration = Duration::from_millis(300);

/// Flags about the user who receives the output, and whether to open it for them.
#[derive(Debug, clap::Args)]
pub(crate) struct ReceiverArgs {
    /// Open the flame graph in the browser of the user who called, under sudo too
    #[arg(long)]
    pub(crate) open: bool,
    /// A file with the rights, folder and environment of the command; removed once read
    #[arg(long, value_name = "FILE", hide = true, requires = "command")]
    launch_as: Option<PathBuf>,
}

impl ReceiverArgs {
    pub(crate) fn get(&self) -> anyhow::Result<Receiver> {
        let Some(path) = &self.launch_as else { return Receiver::who_called(self.open) };
        let failed = || format!("cannot read {}, which `cargo wingbeat` wrote", path.display());
        let bytes = fs::read(path).with_context(failed)?;
        let caller = Caller::from_bytes(&bytes).with_context(failed)?;
        // The environment may contain secrets. Deletes the file only if its format matches.
        fs::remove_file(path).with_context(failed)?;
        Ok(Receiver { caller: Some(caller), opens: self.open })
    }

    /// A repeatable command line of this process: without the deleted file.
    pub(crate) fn command_line() -> Vec<String> {
        let mut words: Vec<String> =
            env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
        let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
        if let Some(at) = words[..end].iter().position(|word| word == "--launch-as") {
            words.drain(at..end.min(at + 2));
        }
        words
    }
}

/// Owner of the files, and whether to open the picture.
#[derive(Debug)]
pub(crate) struct Receiver {
    caller: Option<Caller>,
    opens: bool,
}

impl Receiver {
    /// The user who ran sudo, if a picture is to be opened. Other files belong to root, like those of other commands
    /// run as root.
    pub(crate) fn who_called(opens: bool) -> anyhow::Result<Self> {
        let caller =
            if opens { Caller::of_sudo().context("cannot tell who called")? } else { None };
        Ok(Self { caller, opens })
    }

    /// User to run a command as, if called by `cargo wingbeat`.
    pub(crate) fn launches_as(&self, args: &ReceiverArgs) -> Option<Caller> {
        self.caller.clone().filter(|_| args.launch_as.is_some())
    }

    /// An output file of this user.
    pub(crate) fn file(&self, path: &Path) -> anyhow::Result<PendingFile> {
        let file = pending(path)?;
        if let Some(Caller { user, group, .. }) = self.caller.as_ref().filter(|it| it.is_other()) {
            file.give_to(*user, *group)
                .with_context(|| format!("cannot give {} to its user", path.display()))?;
        }
        Ok(file)
    }

    /// Opens the first written picture if requested. Failure does not affect the exit code.
    pub(crate) fn show(&self, outputs: &[Output]) {
        let is_wanted = |output: &&Output| self.opens && is_picture(Path::new(&output.path));
        if let Some(picture) = outputs.iter().find(is_wanted)
            && let Err(error) = self.open(&picture.path)
        {
            warning!("{error:#}; open {} in a browser yourself", picture.path);
        }
    }

    fn open(&self, path: &str) -> anyhow::Result<()> {
        let mut command = Command::new(OPENER);
        command.arg(path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Ctrl-C must not reach the browser.
        command.process_group(0);
        if let Some(caller) = &self.caller {
            caller.lend_to(&mut command);
        }
        let child = command.spawn().with_context(|| format!("cannot run {OPENER}"))?;
        failure_of(child).with_context(|| format!("{OPENER} failed"))
    }
}

/// Whether it is a flame graph.
pub(crate) fn is_picture(path: &Path) -> bool {
    path.extension().is_some_and(|suffix| suffix == "svg")
}

/// Waits long enough for an opener to fail.
fn failure_of(mut child: Child) -> io::Result<()> {
    let step = Duration::from_millis(10);
    for _ in 0..OPENER_FAILS_WITHIN.div_duration_f64(step) as u32 {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(io::Error::other(status.to_string())),
            None => thread::sleep(step),
        }
    }
    Ok(())
}
