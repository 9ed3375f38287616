//! A server as a process, on SQLite or PostgreSQL, and requests to it.

use std::net::TcpListener;

use ureq::{Agent, Body, http::Response};
use wingbeat_pg_testing::{Cluster, Settings};

use crate::prelude::*;

/// A server that did nothing for this long has done what it had to do.
const IDLE: Duration = Duration::from_millis(1500);

pub(super) enum Store {
    Sqlite(PathBuf),
    /// As its packages set it up: what was committed survives a power failure. And the URL of a database.
    Postgres(Cluster, String),
}

impl Store {
    pub(super) fn sqlite(folder: PathBuf) -> Result<Self> {
        fs::create_dir_all(&folder).context("cannot create the server's folder")?;
        Ok(Self::Sqlite(folder))
    }

    pub(super) fn postgres() -> Result<Self> {
        let settings = Settings { durable: true, ..Settings::default() };
        let cluster = Cluster::start(&settings).context("cannot start PostgreSQL")?;
        let url = cluster.fresh()?;
        Ok(Self::Postgres(cluster, url))
    }

    pub(super) fn place(&self) -> String {
        match self {
            Self::Sqlite(folder) => folder.join("server.db").display().to_string(),
            Self::Postgres(_, url) => url.clone(),
        }
    }

    pub(super) fn bytes(&self) -> Result<f64> {
        match self {
            Self::Sqlite(folder) => {
                let entries = fs::read_dir(folder)?.flatten();
                let sizes = entries.filter_map(|entry| entry.metadata().ok()).map(|it| it.len());
                Ok(sizes.sum::<u64>() as f64)
            }
            Self::Postgres(cluster, url) => {
                let name = url.rsplit('/').next().unwrap_or_default();
                let size = cluster.sql(name, "SELECT pg_database_size(current_database())")?;
                size.trim().parse().context("PostgreSQL returned no size")
            }
        }
    }
}

pub(super) struct Server {
    process: Running,
    root: String,
    agent: Agent,
    /// The content of an `Authorization` header.
    key: String,
}

impl Server {
    pub(super) fn wingbeat(program: &Path, store: &Store, messages: &Path) -> Result<Self> {
        let address = free_address()?;
        let on_store = |words, more: &[&dyn AsRef<OsStr>]| {
            let mut command = command(words, more);
            match store {
                Store::Sqlite(folder) => command.arg("--data").arg(folder),
                Store::Postgres(_, url) => command.env("WINGBEAT_SERVE_DATABASE", url),
            };
            command.env("WINGBEAT_LOG", "warn");
            command
        };
        let words = "{} serve --allow-anonymous-runs --listen {}";
        let serve = on_store(words, &[&program, &address]);
        let server = Self::started(serve, &address, "/healthz", messages)?;
        let add = "{} serve user add peer@example.org --role member";
        output(&mut on_store(add, &[&program]))?;
        let create = "{} serve key create --user peer@example.org --name all --quiet";
        let key = output(&mut on_store(create, &[&program]))?;
        Ok(Self { key: format!("Bearer {}", key.trim()), ..server })
    }

    /// Bencher's API server, with its data in a folder.
    pub(super) fn bencher(program: &Path, folder: &Path, messages: &Path) -> Result<Self> {
        let address = free_address()?;
        let config = json!({
            "console": { "url": "http://127.0.0.1:1" },
            "security": { "issuer": "http://127.0.0.1:1", "secret_key": "only for this comparison" },
            "server": { "bind_address": address, "request_body_max_bytes": 4 << 20 },
            "logging": { "name": "bencher", "log": { "stderr_terminal": { "level": "error" } } },
            "database": { "file": folder.join("bencher.db") },
        });
        let mut serve = Command::new(program);
        serve.env("BENCHER_CONFIG", config.to_string()).current_dir(folder);
        Self::started(serve, &address, "/v0/server/version", messages)
    }

    fn started(mut serve: Command, address: &str, asked: &str, messages: &Path) -> Result<Self> {
        let process = Running::start(&mut serve, messages)?;
        let agent = Agent::config_builder().http_status_as_error(false).proxy(None).build();
        let (root, agent) = (format!("http://{address}"), agent.new_agent());
        let server = Self { process, root, agent, key: String::new() };
        server.process.wait_until("it answers", || server.get(asked).is_ok())?;
        server.wait_until_idle()?;
        Ok(server)
    }

    pub(super) fn get(&self, path: &str) -> Result<String> {
        let url = format!("{}{path}", self.root);
        read(&url, self.agent.get(&url).header("authorization", &self.key).call())
    }

    pub(super) fn post(&self, path: &str, body: &str) -> Result<()> {
        let url = format!("{}{path}", self.root);
        let request = self.agent.post(&url).header("content-type", "application/json");
        let request = request.header("authorization", &self.key);
        read(&url, request.send(body)).map(drop)
    }

    pub(super) fn wait_until_idle(&self) -> Result<()> {
        let (begin, mut last) = (Instant::now(), self.ticks_and_mb()?.0);
        loop {
            thread::sleep(IDLE);
            let now = self.ticks_and_mb()?.0;
            // A hundredth of a second is that of a timer.
            if now <= last + 1.0 {
                return Ok(());
            }
            ensure!(begin.elapsed() < LIMIT, "the server is still busy");
            last = now;
        }
    }

    /// Its CPU time in hundredths of a second, and its resident memory. It starts no processes.
    pub(super) fn ticks_and_mb(&self) -> Result<(f64, f64)> {
        let stat = text_of(Path::new(&format!("/proc/{}/stat", self.process.pid())));
        ticks_and_mb(&stat).context("the server is not there any more")
    }
}

/// A port of loopback that nobody uses.
fn free_address() -> Result<String> {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    Ok(free.context("loopback has no free port")?.to_string())
}

fn ticks_and_mb(stat: &str) -> Option<(f64, f64)> {
    // The name of the program may have blanks and brackets; the state after it is the third field.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
    Some((field(14)? + field(15)?, field(24)? * rustix::param::page_size() as f64 / 1e6))
}

fn read(url: &str, answer: Result<Response<Body>, ureq::Error>) -> Result<String> {
    let mut answer = answer.with_context(|| format!("no answer from {url}"))?;
    let status = answer.status();
    let text = answer.body_mut().with_config().limit(1 << 30).read_to_string();
    let text = text.with_context(|| format!("{url} ended early"))?;
    let begin: String = text.chars().take(300).collect();
    ensure!(status.is_success(), "{url} answered {status}: {begin}");
    Ok(text)
}

/// Imports a history into a store whose server does not run.
pub(super) fn import(
    program: &Path,
    store: &Store,
    messages: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    let mut command = command("{} import - --store {}", &[&program, &store.place()]);
    let mut process = Running::connected(&mut command, Stdio::piped(), Stdio::null(), messages)?;
    let mut to = BufWriter::with_capacity(1 << 20, process.stdin().context("it has no stdin")?);
    let written = write(&mut to).and_then(|()| to.flush());
    drop(to);
    process.finish()?;
    written.context("cannot write the history")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read() {
        let stat = "7 (a) b) S 3 7 7 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 5 6 77 9 10";
        let memory_mb = 77.0 * rustix::param::page_size() as f64 / 1e6;
        assert_eq!(ticks_and_mb(stat), Some((30.0, memory_mb)));
        assert_eq!(ticks_and_mb("7 (a) S 3"), None);
    }
}
