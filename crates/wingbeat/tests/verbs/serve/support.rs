//! A server process, and a client.

use std::{
    collections::BTreeSet,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, ChildStderr, Command, Stdio},
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;
use wingbeat_server::{
    access::{KeyKind, KeyText, digest, random_text},
    database::{Database, KeyOwner, NewKey, NewProject, NewUser, Role, User, Visibility},
    settings::DataLocation,
    storage::open,
};
use wingbeat_track::model::ProjectName;

pub(crate) const WINGBEAT: &str = env!("CARGO_BIN_EXE_wingbeat");

/// A running server. Killed on drop.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
    log: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
    has_ended: bool,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Server {
    /// Starts a server on a folder, on a free port.
    pub(crate) fn start(data: &Path) -> Self {
        let mut command = Command::new(WINGBEAT);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data);
        Self::of(command)
    }

    /// Starts a server on a database, on a free port.
    pub(crate) fn start_on(url: &str) -> Self {
        let mut command = Command::new(WINGBEAT);
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        command.env("WINGBEAT_SERVE_DATABASE", url);
        Self::of(command)
    }

    /// Starts a server by a command, and waits until it listens.
    pub(crate) fn of(mut command: Command) -> Self {
        // Ignores the settings of the user who runs the tests.
        command.env_remove("WINGBEAT_LOG").stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped"));
        let log = Arc::new(Mutex::new(String::new()));
        let address = loop {
            let mut line = String::new();
            let length = lines.read_line(&mut line).expect("text");
            assert_ne!(length, 0, "the server ended: {}", log.lock().expect("sound"));
            log.lock().expect("sound").push_str(&line);
            let json: Value = serde_json::from_str(&line).unwrap_or_default();
            if json["message"] == "listening" {
                break json["address"].as_str().expect("an address").to_owned();
            }
        };
        let kept = Arc::clone(&log);
        let keep = move |mut lines: BufReader<ChildStderr>| {
            let mut line = String::new();
            while lines.read_line(&mut line).is_ok_and(|length| length > 0) {
                kept.lock().expect("sound").push_str(&line);
                line.clear();
            }
        };
        let reader = Some(thread::spawn(move || keep(lines)));
        Self { child, address, log, reader, has_ended: false }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Sends a signal, waits for the end, and returns the exit code and the log.
    pub(crate) fn end(mut self, signal: Signal) -> (Option<i32>, String) {
        kill_process(self.pid(), signal).expect("sent");
        let code = self.child.wait().expect("it ends").code();
        self.has_ended = true;
        self.reader.take().expect("there").join().expect("no panic");
        let log = self.log.lock().expect("sound").clone();
        (code, log)
    }

    pub(crate) fn get(&self, path: &str, key: &str) -> Answer {
        request(&self.address, "GET", path, &bearer(key), "").expect("answered")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.has_ended {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

pub(crate) fn bearer(key: &str) -> String {
    if key.is_empty() { String::new() } else { format!("Authorization: Bearer {key}\r\n") }
}

/// Sends a request on its own connection. A truncated response is an error.
pub(crate) fn request(
    address: &str,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> io::Result<Answer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}Content-Length: \
         {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let cut = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(cut)?;
    let header = |name: &str| {
        let lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(found, _)| *found == name).map(|(_, value)| value).next()
    };
    let length: Option<usize> = header("content-length").and_then(|it| it.parse().ok());
    if length != Some(body.len()) {
        return Err(cut());
    }
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).ok_or_else(cut)?;
    Ok(Answer { status, head: head.to_owned(), body: body.to_owned() })
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A team at a location: a project with a member who has a key.
#[derive(Debug, Clone)]
pub(crate) struct Team {
    place: DataLocation,
    project: i64,
    member: User,
    pub(crate) key: String,
}

impl Team {
    pub(crate) fn new(place: impl Into<DataLocation>) -> Self {
        let (now, place) = (OffsetDateTime::now_utc(), place.into());
        let database = open(&place).expect("opened");
        let name = ProjectName::new("own").expect("a name");
        let new = NewProject { name, slug: None, url: None, visibility: Visibility::Internal };
        let project = database.create_project(&new, now).expect("made").id;
        let new =
            NewUser { name: "Ada".into(), email: "ada@example.org".into(), role: Role::Admin };
        let member = database.create_user(&new, now).expect("written").expect("made");
        let text = KeyText::random(KeyKind::User).expect("random");
        let owner = KeyOwner::User(member.id);
        let expires = now + time::Duration::hours(1);
        let new =
            NewKey { owner, name: "tests".into(), hash: text.digest(), creator: None, expires };
        database.create_key(&new, now).expect("made");
        Self { place, project, member, key: text.as_str().to_owned() }
    }

    fn database(&self) -> Database {
        open(&self.place).expect("opened")
    }

    /// Session cookie of the member.
    pub(crate) fn cookie(&self) -> String {
        let (secret, now) = (random_text().expect("random"), OffsetDateTime::now_utc());
        let expires = now + time::Duration::days(14);
        let create = self.database().create_session(&digest(&secret), self.member.id, now, expires);
        create.expect("written");
        format!("wingbeat={secret}")
    }

    /// Creates a key of the project: a write.
    pub(crate) fn write(&self, address: &str, name: &str) -> io::Result<Answer> {
        let headers = format!("{}Content-Type: application/json\r\n", bearer(&self.key));
        let body = format!("{{\"name\": \"{name}\"}}");
        request(address, "POST", "/v0/projects/own/keys", &headers, &body)
    }

    /// Sends a report with this idempotency key, like `bencher run`.
    pub(crate) fn run(&self, address: &str, uuid: Uuid, value: usize) -> io::Result<Answer> {
        let results = format!("{{\"parse\": {{\"latency\": {{\"value\": {value}.5}}}}}}");
        let body = serde_json::json!({
            "project": "own",
            "idempotency_key": uuid,
            "branch": "main",
            "testbed": "ci",
            "start_time": "2026-01-02T03:04:05Z",
            "end_time": "2026-01-02T03:04:06Z",
            "results": [results],
            "settings": { "adapter": "json" },
        });
        let headers = format!("{}Content-Type: application/json\r\n", bearer(&self.key));
        request(address, "POST", "/v0/run", &headers, &body.to_string())
    }

    /// UUIDs of the project's reports on disk.
    pub(crate) fn reports(&self) -> BTreeSet<Uuid> {
        self.database().reports_of(self.project).expect("read").into_iter().collect()
    }

    /// Names of the project's keys on disk, sorted.
    pub(crate) fn written(&self) -> Vec<String> {
        let keys = self.database().keys(KeyOwner::Project(self.project)).expect("read");
        let mut names: Vec<String> = keys.into_iter().map(|key| key.name).collect();
        names.sort();
        names
    }
}
