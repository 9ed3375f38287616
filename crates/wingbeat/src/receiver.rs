//! Who gets what a verb writes: the user who called sudo, or the one for whom `cargo wingbeat` did. Files belong to
//! them, and pictures open in their browser, never in one of root.

use std::{
    env, fs, io,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::Context as _;
use wingbeat_profile::{session::Caller, summary::Output};

use crate::{
    output::{PendingFile, pending},
    shell::warning,
};

/// Shows pictures as the desktop does.
const OPENER: &str = "xdg-open";

/// An opener that finds no browser says so within this time; one that found it may run until that is closed.
const OPENER_FAILS_WITHIN: Duration = Duration::from_millis(300);

/// Flags that tell who it is, and whether to show them the picture.
#[derive(Debug, clap::Args)]
pub(crate) struct ReceiverArgs {
    /// Open the flame graph in the browser of the user who called, under sudo too
    #[arg(long)]
    pub(crate) open: bool,
    /// A file that tells whose rights, folder and environment the command gets; it is removed
    #[arg(long, value_name = "FILE", hide = true, requires = "command")]
    launch_as: Option<PathBuf>,
}

impl ReceiverArgs {
    pub(crate) fn get(&self) -> anyhow::Result<Receiver> {
        let Some(path) = &self.launch_as else { return Receiver::who_called(self.open) };
        let failed = || format!("cannot read {}, which `cargo wingbeat` wrote", path.display());
        let bytes = fs::read(path).with_context(failed)?;
        let caller = Caller::from_bytes(&bytes).with_context(failed)?;
        // The environment may have secrets in it. A file that is something else stays.
        fs::remove_file(path).with_context(failed)?;
        Ok(Receiver { caller: Some(caller), opens: self.open })
    }

    /// The command line of this process as somebody could repeat it: without the file that is gone.
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

/// Who gets the files, and whether to show them the picture.
#[derive(Debug)]
pub(crate) struct Receiver {
    caller: Option<Caller>,
    opens: bool,
}

impl Receiver {
    /// Whoever called sudo, if there is something to show them. Other files belong to root, as its commands do.
    pub(crate) fn who_called(opens: bool) -> anyhow::Result<Self> {
        let caller =
            if opens { Caller::of_sudo().context("cannot tell who called")? } else { None };
        Ok(Self { caller, opens })
    }

    /// As whom to run a command, if `cargo wingbeat` called.
    pub(crate) fn launches_as(&self, args: &ReceiverArgs) -> Option<Caller> {
        self.caller.clone().filter(|_| args.launch_as.is_some())
    }

    /// A file of theirs to write.
    pub(crate) fn file(&self, path: &Path) -> anyhow::Result<PendingFile> {
        let file = pending(path)?;
        if let Some(Caller { user, group, .. }) = self.caller.as_ref().filter(|it| it.is_other()) {
            file.give_to(*user, *group)
                .with_context(|| format!("cannot give {} to its user", path.display()))?;
        }
        Ok(file)
    }

    /// Shows the first picture that was written, if that was asked for. Whether it can is no matter of the exit code.
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
        // Ctrl-C is not meant for the browser.
        command.process_group(0);
        if let Some(caller) = &self.caller {
            caller.lend_to(&mut command);
        }
        let child = command.spawn().with_context(|| format!("cannot run {OPENER}"))?;
        failure_of(child).with_context(|| format!("{OPENER} failed"))
    }
}

/// Is it a flame graph?
pub(crate) fn is_picture(path: &Path) -> bool {
    path.extension().is_some_and(|suffix| suffix == "svg")
}

/// Waits for as long as an opener takes to fail.
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
