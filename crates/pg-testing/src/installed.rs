//! The installed PostgreSQL, and the user that it runs as.

use std::{
    fs,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context as _;

/// Oldest supported major version.
pub const VERSION_OLDEST: u32 = 15;

/// Where Debian installs the programs of each version, outside `PATH`.
const VERSIONS: &str = "/usr/lib/postgresql";

/// The user of Debian's package.
const OWNER: &str = "postgres";

/// Whether a supported PostgreSQL is installed.
#[must_use]
pub fn is_installed() -> bool {
    newest().is_some()
}

/// Folder of the newest version's programs.
fn newest() -> Option<PathBuf> {
    let versions = fs::read_dir(VERSIONS).ok()?.flatten();
    versions
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path())))
        .filter(|(version, path)| *version >= VERSION_OLDEST && path.join("bin/initdb").is_file())
        .max_by_key(|(version, _)| *version)
        .map(|(_, path)| path.join("bin"))
}

/// The programs, and the user to run them as: PostgreSQL refuses to run as root.
#[derive(Debug, Clone)]
pub(crate) struct Installed {
    programs: PathBuf,
    owner: Option<Owner>,
}

/// A user other than the current one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner {
    pub(crate) user: u32,
    pub(crate) group: u32,
}

impl Installed {
    pub(crate) fn find() -> anyhow::Result<Self> {
        let programs = newest().with_context(|| {
            format!(
                "no PostgreSQL {VERSION_OLDEST} or newer in {VERSIONS}; install the package \
                 `postgresql`, or run `cargo xtask setup`"
            )
        })?;
        let owner = if rustix::process::geteuid().is_root() { Some(owner()?) } else { None };
        Ok(Self { programs, owner })
    }

    pub(crate) fn owner(&self) -> Option<Owner> {
        self.owner
    }

    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    /// A command that runs as the server's user, in a world-accessible folder.
    pub(crate) fn as_owner(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir("/");
        if let Some(Owner { user, group }) = self.owner {
            command.uid(user).gid(group);
        }
        command
    }
}

fn owner() -> anyhow::Result<Owner> {
    let users = fs::read_to_string("/etc/passwd").context("cannot read /etc/passwd")?;
    find_owner(&users).with_context(|| {
        format!("PostgreSQL does not run as root, and there is no user `{OWNER}` in /etc/passwd")
    })
}

fn find_owner(users: &str) -> Option<Owner> {
    let fields: Vec<_> =
        users.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|f| f[0] == OWNER)?;
    Some(Owner { user: fields.get(2)?.parse().ok()?, group: fields.get(3)?.parse().ok()? })
}
