//! apt's package lists: this machine's, and separate ones for another processor or Debian suite, which leave this
//! machine's lists and configuration untouched.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, bail};

use super::architecture::Architecture;
use crate::setup;
use xtask::command::{output_of, run_logged};

/// Suites to search for a kernel missing in this machine's lists: the newest, and older ones.
pub(super) const SUITES: &[&str] = &["sid", "trixie", "bullseye"];

/// Debian's signing keys, where its package installs them.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// A set of package lists.
#[derive(Debug, Clone)]
pub(super) struct Lists {
    architecture: &'static str,
    /// Folder of separate lists.
    folder: Option<PathBuf>,
    /// A file with their only package source; none for this machine's lists.
    sources: Option<PathBuf>,
}

impl Lists {
    /// Lists of this machine's configured sources. Those for another architecture are kept in `place`.
    pub(super) fn of_machine(architecture: &Architecture, place: &Path) -> Self {
        let folder = (!architecture.is_native()).then(|| place.join("apt"));
        Self { architecture: architecture.name, folder, sources: None }
    }

    /// Lists of another suite, from this machine's Debian mirror; kept in `place`.
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

    /// Fetches the lists.
    pub(super) fn update(&self) -> anyhow::Result<()> {
        let Some(folder) = &self.folder else { return setup::package_lists() };
        let context = || format!("cannot create {}", folder.display());
        for below in ["state/lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(folder.join(below)).with_context(context)?;
        }
        // With nothing installed, all dependencies of a package are downloaded with it.
        fs::write(folder.join("status"), "").with_context(context)?;
        run_logged(self.apt("apt-get").arg("update"), &folder.join("log"))?;
        Ok(())
    }
}

/// Address of Debian's own packages, in lines of label and address.
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
