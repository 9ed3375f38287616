//! A real PostgreSQL for tests and comparisons: the newest installed version, in a temporary folder, reached over a
//! Unix socket there, and removed when the process ends, even by `SIGKILL`.
//!
//! Tests call [`database`]: all tests of a process share one server, and each has its own database.

mod installed;

use std::{
    env, fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use anyhow::{Context as _, bail};

use self::installed::{Installed, Keeper};

/// The server of this process, started on first use. None if PostgreSQL is not installed, so that the test is skipped;
/// in CI that is a failure.
///
/// # Panics
///
/// If it does not start, or none is installed and `CI` is set.
#[must_use]
pub fn cluster() -> Option<&'static Cluster> {
    // Statics are never dropped: the keeper notices the end of the process.
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    if !Installed::is_there() && env::var_os("CI").is_none() {
        eprintln!("skipped: no PostgreSQL is installed; `cargo xtask setup` installs it");
        return None;
    }
    Some(CLUSTER.get_or_init(|| match Cluster::start(&Settings::default()) {
        Ok(cluster) => cluster,
        Err(error) => panic!("PostgreSQL does not start: {error:#}"),
    }))
}

/// URL of a new, empty database of [`cluster`].
///
/// # Panics
///
/// Like [`cluster`], or if the server does not create the database.
#[must_use]
pub fn database() -> Option<String> {
    match cluster()?.fresh() {
        Ok(url) => Some(url),
        Err(error) => panic!("cannot create a database: {error:#}"),
    }
}

/// Settings of a cluster.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Whether commits survive a power failure, as in production; tests do not need that.
    pub durable: bool,
    /// Additional lines of `postgresql.conf`.
    pub lines: Vec<String>,
    /// Files in the data directory, readable by the owner only: name and content.
    pub files: Vec<(String, String)>,
}

/// How to stop a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Closes connections and flushes everything.
    Fast,
    /// Like a crash.
    Immediate,
}

/// A server. Dropping the last of a primary and its replicas removes the server and its folder.
#[derive(Debug)]
pub struct Cluster {
    installed: Installed,
    keeper: Arc<Keeper>,
    data: PathBuf,
    databases: AtomicUsize,
}

impl Cluster {
    /// Creates and starts an empty cluster.
    ///
    /// # Errors
    ///
    /// If PostgreSQL is not installed or does not start; includes the end of its log.
    pub fn start(settings: &Settings) -> anyhow::Result<Self> {
        let installed = Installed::find()?;
        let keeper = Arc::new(Keeper::new(&installed)?);
        let cluster = Self::at("primary", installed, keeper);
        let mut initdb = cluster.installed.as_owner(&cluster.installed.program("initdb"));
        initdb
            .args(["--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync"])
            .args(["--no-instructions", "--username", "postgres", "--pgdata"]);
        run(initdb.arg(&cluster.data))?;
        cluster.configure(&settings.text(cluster.keeper.folder()))?;
        for (name, content) in &settings.files {
            cluster.write(&cluster.data.join(name), content)?;
        }
        cluster.start_again()?;
        Ok(cluster)
    }

    /// Creates a streaming replica, which receives commits shortly after the primary.
    ///
    /// # Errors
    ///
    /// If the copy fails, or the replica does not start.
    pub fn replica(&self) -> anyhow::Result<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(1);
        let name = format!("replica-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let replica = Self::at(&name, self.installed.clone(), Arc::clone(&self.keeper));
        let mut copy = self.installed.as_owner(&self.installed.program("pg_basebackup"));
        copy.args(["--write-recovery-conf", "--checkpoint", "fast", "--no-sync"]);
        copy.args(["--username", "postgres", "--host"]).arg(self.socket_folder());
        run(copy.arg("--pgdata").arg(&replica.data))?;
        let sockets = replica.socket_folder();
        fs::create_dir(&sockets).or_else(|e| if sockets.is_dir() { Ok(()) } else { Err(e) })?;
        replica.own(&sockets)?;
        replica.configure(&format!("unix_socket_directories = '{}'\n", sockets.display()))?;
        replica.start_again()?;
        Ok(replica)
    }

    fn at(name: &str, installed: Installed, keeper: Arc<Keeper>) -> Self {
        let data = keeper.folder().join(name);
        Self { installed, keeper, data, databases: AtomicUsize::new(0) }
    }

    /// Stops the server and keeps its data.
    ///
    /// # Errors
    ///
    /// If it does not stop within a minute.
    pub fn stop(&self, how: Stop) -> anyhow::Result<()> {
        let mode = if how == Stop::Fast { "fast" } else { "immediate" };
        run(self.control("stop").args(["--mode", mode]))
    }

    /// Restarts the server after [`Self::stop`], and waits until it accepts connections.
    ///
    /// # Errors
    ///
    /// If it does not within a minute; includes the end of its log.
    pub fn start_again(&self) -> anyhow::Result<()> {
        let log = self.data.with_extension("log");
        let started = run(self.control("start").arg("--log").arg(&log));
        started.with_context(|| {
            let text = fs::read_to_string(&log).unwrap_or_default();
            let lines: Vec<_> = text.lines().collect();
            lines[lines.len().saturating_sub(10)..].join("\n")
        })
    }

    fn control(&self, what: &str) -> Command {
        let mut command = self.installed.as_owner(&self.installed.program("pg_ctl"));
        command.args([what, "--silent", "--wait", "--timeout", "60", "--pgdata"]).arg(&self.data);
        command
    }

    /// Creates an empty database; returns its URL.
    ///
    /// # Errors
    ///
    /// If the server does not create it.
    pub fn fresh(&self) -> anyhow::Result<String> {
        let name = format!("fresh_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name}"))?;
        Ok(self.url(&name))
    }

    /// URL of a database, for any client. The socket folder serves as the host.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        let folder = self.socket_folder().display().to_string().replace('/', "%2F");
        format!("postgres://postgres@{folder}/{database}")
    }

    /// Runs SQL text; returns one line per row, columns separated by `|`.
    ///
    /// # Errors
    ///
    /// The server's error message.
    pub fn sql(&self, database: &str, text: &str) -> anyhow::Result<String> {
        let mut psql = Command::new(self.installed.program("psql"));
        psql.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"])
            .args(["--set", "ON_ERROR_STOP=1", "--username", "postgres", "--host"])
            .arg(self.socket_folder())
            .args(["--dbname", database, "--command", text])
            .env_remove("PGPORT");
        output(&mut psql)
    }

    /// PID of the postmaster.
    ///
    /// # Errors
    ///
    /// If the server is not running.
    pub fn process(&self) -> anyhow::Result<u32> {
        let file = self.data.join("postmaster.pid");
        let text = fs::read_to_string(&file).context("PostgreSQL does not run")?;
        let line = text.lines().next().unwrap_or_default();
        line.parse().with_context(|| format!("no process in {}", file.display()))
    }

    fn socket_folder(&self) -> PathBuf {
        match self.data.file_name() {
            Some(name) if name != "primary" => self.data.with_extension("s"),
            _ => self.keeper.folder().to_owned(),
        }
    }

    fn own(&self, path: &Path) -> anyhow::Result<()> {
        if let Some(owner) = self.installed.owner() {
            std::os::unix::fs::chown(path, Some(owner.user), Some(owner.group))?;
        }
        Ok(())
    }

    fn write(&self, path: &Path, content: &str) -> anyhow::Result<()> {
        let write = || {
            fs::write(path, content)?;
            fs::set_permissions(path, fs::Permissions::from_mode(0o600))
        };
        write().with_context(|| format!("cannot write {}", path.display()))?;
        self.own(path)
    }

    fn configure(&self, lines: &str) -> anyhow::Result<()> {
        let path = self.data.join("postgresql.conf");
        let context = || format!("cannot write {}", path.display());
        let mut file = fs::OpenOptions::new().append(true).open(&path).with_context(context)?;
        file.write_all(lines.as_bytes()).with_context(context)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Stops a replica before its primary; the keeper stops the rest.
        if Arc::strong_count(&self.keeper) > 1 {
            let _ = self.stop(Stop::Immediate);
        }
    }
}

impl Settings {
    fn text(&self, sockets: &Path) -> String {
        let mut text = format!(
            "listen_addresses = ''\nunix_socket_directories = '{}'\nmax_connections = 200\n\
             timezone = 'UTC'\nlog_timezone = 'UTC'\n",
            sockets.display()
        );
        if !self.durable {
            text += "fsync = off\nsynchronous_commit = off\nfull_page_writes = off\n";
        }
        for line in &self.lines {
            text += line;
            text += "\n";
        }
        text
    }
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    output(command).map(drop)
}

fn output(command: &mut Command) -> anyhow::Result<String> {
    let program = command.get_program().display().to_string();
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {program}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{program}: {}, {}", output.status, stderr.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

#[cfg(test)]
mod tests;
