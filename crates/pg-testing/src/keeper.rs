//! Removes a folder of clusters when the process that created it ends.

use std::{
    fmt, fs,
    os::unix::{fs::chown, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Stdio},
};

use anyhow::Context as _;

use crate::installed::Installed;

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
