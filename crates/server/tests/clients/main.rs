//! Third-party clients push to a local server, and its pages show their profiles.

use std::{error::Error, path::Path, process::Command};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Request, StatusCode},
};
use time::{Duration, OffsetDateTime};
use tokio::{net::TcpListener, sync::oneshot};
use tower::ServiceExt as _;
use wingbeat_server::{
    App,
    access::{KeyKind, KeyText},
    registry::{KeyOwner, NewKey, NewProject, Visibility},
    router,
    service::serve,
    settings::{DataLocation, Settings},
    storage::open_registry,
};
use wingbeat_track::model::ProjectName;
use xtask::{command::repository, fetched};

/// A public project, and a key of it.
fn project(folder: &Path) -> Result<KeyText, Box<dyn Error>> {
    let (registry, now) = (open_registry(&DataLocation::from(folder))?, OffsetDateTime::now_utc());
    let name = ProjectName::new("fleet")?;
    let new = NewProject { name, slug: None, url: None, visibility: Visibility::Public };
    let owner = KeyOwner::Project(registry.create_project(&new, now)?.id);
    let key = KeyText::random(KeyKind::Project)?;
    let (hash, expires) = (key.digest(), now + Duration::hours(1));
    let name = "client".to_owned();
    registry.create_key(&NewKey { owner, name, hash, creator: None, expires }, now)?;
    Ok(key)
}

async fn page(router: &Router, path: &str) -> String {
    let request = Request::get(path).body(Body::empty()).expect("a request");
    let answer = router.clone().oneshot(request).await.expect("answered");
    let status = answer.status();
    let bytes = to_bytes(answer.into_body(), usize::MAX).await.expect("read");
    let page = String::from_utf8(bytes.to_vec()).expect("text");
    assert_eq!(status, StatusCode::OK, "{path}: {page}");
    page
}

/// Percentage of a frame in a flame graph.
fn part(page: &str, frame: &str) -> f64 {
    let told = page.split_once(&format!("<title>{frame}\n")).map(|(_, rest)| rest);
    let told = told.and_then(|rest| rest.split_once("</title>")).map_or("", |(told, _)| told);
    let part = told.rsplit_once('(').and_then(|(_, part)| part.strip_suffix(" %)"));
    part.and_then(|part| part.parse().ok()).unwrap_or(0.0)
}

/// A server with a project, on a free port, until dropped.
struct Server {
    runtime: tokio::runtime::Runtime,
    app: App,
    url: String,
    key: KeyText,
    stop: Option<oneshot::Sender<()>>,
    _folder: tempfile::TempDir,
}

impl Server {
    fn start() -> Result<Self, Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let key = project(folder.path())?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let app = App::open(Settings::of(folder.path()))?;
        let (stop, stopped) = oneshot::channel::<()>();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let url = format!("http://{}", listener.local_addr()?);
        let stopped = async { stopped.await.unwrap_or_default() };
        runtime.spawn(serve(app.clone(), listener, stopped));
        Ok(Self { runtime, app, url, key, stop: Some(stop), _folder: folder })
    }

    /// Runs a client with the server's address and the key.
    fn run(&self, command: &mut Command) -> Result<(), Box<dyn Error>> {
        let status = command.arg(&self.url).arg(self.key.as_str()).status()?;
        assert!(status.success(), "{command:?}");
        Ok(())
    }

    fn page(&self, path: &str) -> String {
        self.runtime.block_on(page(&router(&self.app), path))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server may have stopped by itself.
        let _ = self.stop.take().map(|stop| stop.send(()));
    }
}

#[test]
fn the_client_for_python() -> Result<(), Box<dyn Error>> {
    let Some(packages) = fetched::python_packages() else { return Ok(()) };
    let server = Server::start()?;
    let script = repository().join("crates/server/tests/clients/work.py");
    server.run(Command::new("python3").arg(script).env("PYTHONPATH", packages))?;
    let services = server.page("/perf/fleet/profiles");
    assert!(services.contains(">python.app<"), "{services}");
    let all = server.page("/perf/fleet/profiles/python.app?last=15m");
    assert!(part(&all, "work") > 90.0 && part(&all, "hot") > 80.0, "{all}");
    assert!(all.contains("&lt;b&gt;north&lt;/b&gt;") && all.contains("cpython"), "{all}");
    let second = server.page("/perf/fleet/profiles/python.app?last=15m&label=phase%3Dsecond");
    assert!(part(&second, "hot") > 80.0, "{second}");
    Ok(())
}

#[test]
fn the_client_for_rust() -> Result<(), Box<dyn Error>> {
    let Some(client) = fetched::rust_client() else { return Ok(()) };
    let server = Server::start()?;
    server.run(&mut Command::new(client))?;
    let all = server.page("/perf/fleet/profiles/rust.app?last=15m");
    let (work, hot) = ("wingbeat_rust_client::work", "wingbeat_rust_client::hot");
    assert!(part(&all, work) > 90.0 && part(&all, hot) > 80.0, "{all}");
    assert!(all.contains(">north<") && all.contains("com.grafana.pyroscope/rust"), "{all}");
    Ok(())
}
