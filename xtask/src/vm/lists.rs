//! apt's lists of packages: this machine's, and lists of our own for another processor or another suite of Debian.
//! Lists and configuration of this machine's package manager are not touched for these.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, bail};

use super::architecture::Architecture;
use crate::setup;
use wingbeat_steps::command::{output_of, run_logged};

/// Suites that are asked for a kernel that this machine's lists do not have: the newest, and older ones.
pub(super) const SUITES: &[&str] = &["sid", "trixie", "bullseye"];

/// What Debian signs its suites with, where its package installs that.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Where apt looks for packages.
#[derive(Debug, Clone)]
pub(super) struct Lists {
    architecture: &'static str,
    /// With the lists, where they are ours.
    folder: Option<PathBuf>,
    /// A file with the one place that packages come from; none for those of this machine.
    sources: Option<PathBuf>,
}

impl Lists {
    /// Of what this machine's package manager is set up for. Those for another machine are kept in `place`.
    pub(super) fn of_machine(architecture: &Architecture, place: &Path) -> Self {
        let folder = (!architecture.is_native()).then(|| place.join("apt"));
        Self { architecture: architecture.name, folder, sources: None }
    }

    /// Of another suite, from where this machine has Debian's packages; kept in `place`.
    pub(super) fn of_suite(
        suite: &str,
        architecture: &Architecture,
        place: &Path,
    ) -> anyhow::Result<Self> {
        let mut ask = Command::new("apt-get");
        ask.args(["indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages"]);
        let said = output_of(&mut ask).unwrap_or_default();
        let Some(archive) = archive(&said) else {
            bail!(
                "this machine's package manager has no packages of Debian to tell where {suite} is"
            );
        };
        let folder = place.join(format!("apt-{suite}"));
        let sources = folder.join("sources.list");
        let line = format!("deb [signed-by={KEYRING}] {archive} {suite} main\n");
        fs::create_dir_all(&folder)
            .and_then(|()| fs::write(&sources, line))
            .with_context(|| format!("cannot write {}", sources.display()))?;
        let (folder, sources) = (Some(folder), Some(sources));
        Ok(Self { architecture: architecture.name, folder, sources })
    }

    /// One of apt's programs.
    pub(super) fn apt(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let mut option = |name: &str, value: &str| {
            command.arg("-o").arg(format!("{name}={value}"));
        };
        if let Some(folder) = &self.folder {
            option("APT::Architecture", self.architecture);
            option("APT::Architectures::", self.architecture);
            option("Dir::State", &folder.join("state").to_string_lossy());
            option("Dir::State::status", &folder.join("status").to_string_lossy());
            option("Dir::Cache", &folder.join("cache").to_string_lossy());
        }
        if let Some(sources) = &self.sources {
            option("Dir::Etc::sourcelist", &sources.to_string_lossy());
            option("Dir::Etc::sourceparts", "/dev/null");
        }
        command
    }

    /// Fetches them.
    pub(super) fn update(&self) -> anyhow::Result<()> {
        let Some(folder) = &self.folder else { return setup::package_lists() };
        let context = || format!("cannot create {}", folder.display());
        for below in ["state/lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(folder.join(below)).with_context(context)?;
        }
        // Nothing is installed there, so that all that a package needs is fetched with it.
        fs::write(folder.join("status"), "").with_context(context)?;
        run_logged(self.apt("apt-get").arg("update"), &folder.join("log"))?;
        Ok(())
    }
}

/// Where Debian's own packages come from, in lines of label and address.
fn archive(said: &str) -> Option<&str> {
    said.lines().find_map(|line| line.strip_prefix("Debian "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::architecture::AMD64;

    #[test]
    fn packages_come_from_where_this_machine_has_them() {
        let said = "nodistro https://example.org/node/\nDebian-Security http://example.org/security/\n\
                    Debian http://example.org/debian/\nDebian http://example.net/debian/\n";
        assert_eq!(archive(said), Some("http://example.org/debian/"));
        assert_eq!(archive("Ubuntu http://example.org/ubuntu/"), None);
        assert_eq!(archive(""), None);
    }

    #[test]
    fn only_lists_of_our_own_have_options() {
        let words = |lists: &Lists| {
            let command = lists.apt("apt-cache");
            command.get_args().map(|it| it.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        let machine = Lists::of_machine(&AMD64, Path::new("/p"));
        assert_eq!(words(&machine), [""; 0]);
        let ours = Lists {
            folder: Some("/p/apt-sid".into()),
            sources: Some("/p/apt-sid/sources.list".into()),
            ..machine
        };
        let words = words(&ours);
        for option in [
            "APT::Architecture=amd64",
            "Dir::State=/p/apt-sid/state",
            "Dir::Etc::sourcelist=/p/apt-sid/sources.list",
            "Dir::Etc::sourceparts=/dev/null",
        ] {
            assert!(words.iter().any(|word| word == option), "{option} in {words:?}");
        }
    }
}
