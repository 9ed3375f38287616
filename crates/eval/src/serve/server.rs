//! A server as a process, and questions to it.

use std::{
    fs,
    io::{self, BufWriter, Write},
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use ureq::{Agent, Body, http::Response};

use crate::account::Account;

/// How long a server may take to answer the first time, or to become idle.
const PATIENCE: Duration = Duration::from_secs(180);

/// A server that did nothing for this long has done what it had to do.
const IDLE: Duration = Duration::from_millis(1500);

pub(super) struct Server {
    process: Child,
    root: String,
    agent: Agent,
}

/// Where a server keeps everything.
#[derive(Debug, Clone)]
pub(super) enum Place {
    Folder(PathBuf),
    /// The URL of a database of PostgreSQL.
    Database(String),
}

/// Imports a history into the store of a server that does not run yet.
pub(super) fn import(
    program: &Path,
    place: &Place,
    write: impl FnOnce(&mut dyn Write) -> io::Result<u64>,
) -> anyhow::Result<u64> {
    let mut command = Command::new(program);
    command.args(["import", "-", "--store"]);
    match place {
        Place::Folder(data) => {
            fs::create_dir_all(data)
                .with_context(|| format!("cannot create {}", data.display()))?;
            command.arg(data.join("results.db"));
        }
        Place::Database(url) => drop(command.arg(url)),
    }
    let mut process =
        command.stdin(Stdio::piped()).spawn().context("cannot start wingbeat import")?;
    let to = process.stdin.take().context("it has no stdin")?;
    let mut to = BufWriter::with_capacity(1 << 20, to);
    let metrics = write(&mut to).and_then(|metrics| to.flush().map(|()| metrics));
    drop(to);
    let status = process.wait().context("cannot wait for wingbeat import")?;
    ensure!(status.success(), "wingbeat import failed: {status}");
    metrics.context("cannot write the history")
}

/// A port of loopback that nobody uses.
pub(super) fn free_address() -> anyhow::Result<SocketAddr> {
    let free = TcpListener::bind("127.0.0.1:0").context("no port is free")?;
    free.local_addr().context("the port has no address")
}

impl Server {
    /// `wingbeat serve` with the data of a place.
    pub(super) fn wingbeat(program: &Path, place: &Place) -> anyhow::Result<Self> {
        let address = free_address()?;
        let mut command = Command::new(program);
        command.args(["serve", "--allow-anonymous-runs", "--listen", &address.to_string()]);
        match place {
            Place::Folder(data) => command.arg("--data").arg(data),
            Place::Database(url) => command.env("WINGBEAT_SERVE_DATABASE", url),
        };
        command.env("WINGBEAT_LOG", "warn").stdout(Stdio::null());
        Self::start("wingbeat serve", command, address, "/healthz")
    }

    /// A server that answers at this path once it is there.
    pub(super) fn start(
        name: &str,
        mut command: Command,
        address: SocketAddr,
        path: &str,
    ) -> anyhow::Result<Self> {
        let process = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let agent = Agent::config_builder().http_status_as_error(false).proxy(None).build();
        let mut server =
            Self { process, root: format!("http://{address}"), agent: agent.new_agent() };
        let begin = Instant::now();
        while server.get(path).is_err() {
            if let Some(status) = server.process.try_wait().context("cannot wait for it")? {
                bail!("{name} ended: {status}");
            }
            ensure!(begin.elapsed() < PATIENCE, "{name} gives no answer");
            thread::sleep(Duration::from_millis(50));
        }
        server.wait_until_idle()?;
        Ok(server)
    }

    pub(super) fn get(&self, path: &str) -> anyhow::Result<String> {
        let url = format!("{}{path}", self.root);
        read(&url, self.agent.get(&url).call())
    }

    pub(super) fn post(&self, path: &str, body: &str) -> anyhow::Result<String> {
        let url = format!("{}{path}", self.root);
        let request = self.agent.post(&url).header("content-type", "application/json");
        read(&url, request.send(body))
    }

    /// Waits until it has done what it does by the way.
    pub(super) fn wait_until_idle(&self) -> anyhow::Result<()> {
        let begin = Instant::now();
        let mut last = self.account()?.ticks;
        loop {
            thread::sleep(IDLE);
            let now = self.account()?.ticks;
            // A hundredth of a second is that of a timer.
            if now <= last + 1 {
                return Ok(());
            }
            ensure!(begin.elapsed() < PATIENCE, "the server is still busy");
            last = now;
        }
    }

    fn account(&self) -> anyhow::Result<Account> {
        Account::of(self.process.id())
    }

    /// Memory that it holds, in MB.
    pub(super) fn resident_mb(&self) -> anyhow::Result<f64> {
        Ok(self.account()?.memory_bytes as f64 / 1e6)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn read(url: &str, answer: Result<Response<Body>, ureq::Error>) -> anyhow::Result<String> {
    let mut answer = answer.with_context(|| format!("no answer from {url}"))?;
    let status = answer.status();
    let text = answer.body_mut().with_config().limit(1 << 30).read_to_string();
    let text = text.with_context(|| format!("{url} ended early"))?;
    let begin: String = text.chars().take(300).collect();
    ensure!(status.is_success(), "{url} answered {status}: {begin}");
    Ok(text)
}
