//! The installed PostgreSQL, the user that it runs as, and what removes its folder when the process ends.

use std::{
    fmt, fs,
    os::unix::{fs::chown, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::Context as _;

/// Oldest supported major version.
const VERSION_OLDEST: u32 = 15;

/// Where Debian installs the programs of each version, outside `PATH`.
const VERSIONS: &str = "/usr/lib/postgresql";

/// The user of Debian's package.
const OWNER: &str = "postgres";

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
    /// Whether a supported PostgreSQL is installed.
    pub(crate) fn is_there() -> bool {
        newest().is_some()
    }

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
    let found = users.lines().find_map(|line| {
        let mut fields = line.strip_prefix(OWNER)?.strip_prefix(':')?.split(':').skip(1);
        let (user, group) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        Some(Owner { user, group })
    });
    found.with_context(|| {
        format!("PostgreSQL does not run as root, and there is no user `{OWNER}` in /etc/passwd")
    })
}

/// Waits for EOF on stdin, which follows any end of the parent; then stops each cluster immediately.
const WAIT: &str = r#"
cat >/dev/null
for pid in "$2"/*/postmaster.pid; do
    [ -e "$pid" ] && "$1" stop --silent --mode immediate --pgdata "$(dirname "$pid")"
done
rm -rf "$2"
"#;

/// A temporary folder, and the shell process that removes it.
pub(crate) struct Keeper {
    folder: PathBuf,
    shell: Child,
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Keeper").field(&self.folder).finish()
    }
}

impl Keeper {
    pub(crate) fn new(installed: &Installed) -> anyhow::Result<Self> {
        let made = tempfile::Builder::new().prefix("wingbeat-postgres-").tempdir();
        let folder = made.context("cannot make a temporary folder")?.keep();
        if let Some(owner) = installed.owner() {
            chown(&folder, Some(owner.user), Some(owner.group))
                .with_context(|| format!("cannot give {} away", folder.display()))?;
        }
        let shell = installed
            .as_owner(Path::new("/bin/sh"))
            .args(["-c", WAIT, "keeper"])
            .arg(installed.program("pg_ctl"))
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C is for the tests, and must not kill the process that cleans up after them.
            .process_group(0)
            .spawn()
            .context("cannot start /bin/sh")?;
        Ok(Self { folder, shell })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
