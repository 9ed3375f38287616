//! Third-party clients push to a local server, and its pages show their profiles.

use std::{error::Error, path::Path, process::Command};

use axum::http::StatusCode;
use time::{Duration, OffsetDateTime};
use wingbeat_server::{
    access::{KeyKind, KeyText},
    database::{KeyOwner, NewKey, NewProject, Visibility},
    router,
    settings::DataLocation,
    storage::open,
};
use wingbeat_track::model::ProjectName;
use xtask::{command::repository, fetched};

use super::{Server, get};

/// A public project, and a key of it.
fn project(folder: &Path) -> Result<KeyText, Box<dyn Error>> {
    let (database, now) = (open(&DataLocation::from(folder))?, OffsetDateTime::now_utc());
    let name = ProjectName::new("fleet")?;
    let new = NewProject { name, slug: None, url: None, visibility: Visibility::Public };
    let owner = KeyOwner::Project(database.create_project(&new, now)?.id);
    let key = KeyText::random(KeyKind::Project)?;
    let (hash, expires) = (key.digest(), now + Duration::hours(1));
    let name = "client".to_owned();
    database.create_key(&NewKey { owner, name, hash, creator: None, expires }, now)?;
    Ok(key)
}

/// Percentage of a frame in a flame graph.
fn part(page: &str, frame: &str) -> f64 {
    let told = page.split_once(&format!("<title>{frame}\n")).map(|(_, rest)| rest);
    let told = told.and_then(|rest| rest.split_once("</title>")).map_or("", |(told, _)| told);
    let part = told.rsplit_once('(').and_then(|(_, part)| part.strip_suffix(" %)"));
    part.and_then(|part| part.parse().ok()).unwrap_or(0.0)
}

/// A server with a project, and its key.
struct Fleet {
    server: Server,
    key: KeyText,
}

impl Fleet {
    fn start() -> Result<Self, Box<dyn Error>> {
        let server = Server::start()?;
        let key = project(server.folder.path())?;
        Ok(Self { server, key })
    }

    /// Runs a client with the server's address and the key.
    fn run(&self, command: &mut Command) -> Result<(), Box<dyn Error>> {
        let status = command.arg(self.server.url()).arg(self.key.as_str()).status()?;
        assert!(status.success(), "{command:?}");
        Ok(())
    }

    fn page(&self, path: &str) -> String {
        let router = router(&self.server.app);
        let (status, _, page) = self.server.runtime.block_on(get(&router, path));
        assert_eq!(status, StatusCode::OK, "{path}: {page}");
        page
    }
}

#[test]
fn the_client_for_python() -> Result<(), Box<dyn Error>> {
    let Some(packages) = fetched::python_packages() else { return Ok(()) };
    let fleet = Fleet::start()?;
    let script = repository().join("crates/server/tests/clients/work.py");
    fleet.run(Command::new("python3").arg(script).env("PYTHONPATH", packages))?;
    let services = fleet.page("/perf/fleet/profiles");
    assert!(services.contains(">python.app<"), "{services}");
    let all = fleet.page("/perf/fleet/profiles/python.app?last=15m");
    assert!(part(&all, "work") > 90.0 && part(&all, "hot") > 80.0, "{all}");
    assert!(all.contains("&lt;b&gt;north&lt;/b&gt;") && all.contains("cpython"), "{all}");
    let second = fleet.page("/perf/fleet/profiles/python.app?last=15m&label=phase%3Dsecond");
    assert!(part(&second, "hot") > 80.0, "{second}");
    Ok(())
}

#[test]
fn the_client_for_rust() -> Result<(), Box<dyn Error>> {
    let Some(client) = fetched::rust_client() else { return Ok(()) };
    let fleet = Fleet::start()?;
    fleet.run(&mut Command::new(client))?;
    let all = fleet.page("/perf/fleet/profiles/rust.app?last=15m");
    let (work, hot) = ("wingbeat_rust_client::work", "wingbeat_rust_client::hot");
    assert!(part(&all, work) > 90.0 && part(&all, hot) > 80.0, "{all}");
    assert!(all.contains(">north<") && all.contains("com.grafana.pyroscope/rust"), "{all}");
    Ok(())
}
