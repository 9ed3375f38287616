//! `wingbeat generate`: shell completions and man pages, generated from the command-line definition.
//!
//! Hidden, because it is for packagers. The output is reproducible.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use clap::{Command, ValueEnum as _, builder::Resettable};
use clap_complete::{aot, aot::Shell};
use clap_mangen::roff::{Roff, roman};

const NAME: &str = "wingbeat";

/// Flags of `wingbeat generate`.
#[derive(Debug, clap::Args)]
pub(crate) struct GenerateArgs {
    /// Folder to write to, created if missing
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Writes `completions/` and `man/`.
pub(crate) fn run(args: &GenerateArgs, cli: &Command) -> anyhow::Result<ExitCode> {
    let command = definition(cli);
    let folder = |name: &str| {
        let folder = args.folder.join(name);
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))
            .map(|()| folder)
    };
    completions(&command, &folder("completions")?)?;
    let mut pages = Vec::new();
    man_pages(&command, &mut pages)?;
    write(&folder("man")?, &pages)?;
    Ok(ExitCode::SUCCESS)
}

/// The command line without this verb, including what clap adds while parsing.
pub(crate) fn definition(whole: &Command) -> Command {
    let about = whole.get_about().cloned().unwrap_or_default();
    let verbs = whole.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned();
    let mut command = Command::new(NAME)
        .version(env!("CARGO_PKG_VERSION"))
        .about(about)
        .args(whole.get_arguments().cloned())
        .subcommands(verbs)
        .subcommand_required(true)
        .disable_help_subcommand(true);
    command.build();
    command
}

fn completions(command: &Command, folder: &Path) -> anyhow::Result<()> {
    for shell in Shell::value_variants() {
        aot::generate_to(*shell, &mut command.clone(), NAME, folder)
            .with_context(|| format!("cannot write completions to {}", folder.display()))?;
    }
    Ok(())
}

/// Man pages of the command and each verb: file name and text.
pub(crate) fn man_pages(
    command: &Command,
    pages: &mut Vec<(String, String)>,
) -> anyhow::Result<()> {
    let name = command.get_display_name().unwrap_or(NAME).to_owned();
    let notes = command.get_after_long_help().or_else(|| command.get_after_help());
    // The usage names no flags: they follow. Notes would be reflowed, but examples have columns.
    let shown = command.clone().override_usage(usage(command));
    let shown = shown.after_help(Resettable::Reset).after_long_help(Resettable::Reset);
    let mut page = Vec::new();
    clap_mangen::Man::new(shown)
        .source(format!("{NAME} {}", env!("CARGO_PKG_VERSION")))
        .render(&mut page)
        .context("cannot format a man page")?;
    let mut text = String::from_utf8(page)?;
    if let Some(notes) = notes {
        let mut section = Roff::new();
        section.control("SH", ["NOTES"]).control("nf", []);
        for line in notes.to_string().lines() {
            section.text([roman(line)]);
        }
        text += &section.control("fi", []).to_roff();
    }
    pages.push((format!("{name}.1"), text));
    command.get_subcommands().try_for_each(|verb| man_pages(verb, pages))
}

/// Usage of a verb, one form per line: `wingbeat diff [OPTIONS] <BEFORE> <AFTER>`.
fn usage(verb: &Command) -> String {
    let usage = verb.clone().render_usage().to_string();
    let lines = usage.trim_start_matches("Usage:").lines().map(str::trim);
    lines.collect::<Vec<_>>().join("\n")
}

fn write(folder: &Path, files: &[(String, String)]) -> anyhow::Result<()> {
    files.iter().try_for_each(|(name, text)| {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    })
}
