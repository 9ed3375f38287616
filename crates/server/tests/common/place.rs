//! Where the servers of tests keep everything: in a folder, or, when the tests are run once more, in a database of
//! PostgreSQL.

use std::{
    env,
    process::{Command, Stdio},
    thread,
};

use tempfile::TempDir;
use wingbeat_server::{
    App,
    registry::Registry,
    settings::{Place, Settings},
    storage::open_registry,
};

/// Is set where the tests are run once more.
const ENGINE: &str = "WINGBEAT_TEST_ENGINE";

/// A new place, and what lasts as long as it is used.
pub(crate) struct Kept {
    pub(crate) place: Place,
    folder: TempDir,
}

impl Kept {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let place = if env::var_os(ENGINE).is_some() {
            let url = wingbeat_postgres::database().expect("PostgreSQL is there");
            let primary = wingbeat_sql::PostgresUrl::parse(&url).expect("a URL");
            Place::Postgres { primary, replica: None }
        } else {
            Place::from(folder.path())
        };
        Self { place, folder }
    }

    /// Settings for the place, with the defaults of everything else.
    pub(crate) fn settings(&self) -> Settings {
        Settings { files: self.folder.path().to_owned(), ..Settings::of(self.place.clone()) }
    }

    /// Asks the registry, or changes it.
    pub(crate) fn registry<T: Send>(&self, ask: impl FnOnce(&Registry) -> T + Send) -> T {
        apart(|| ask(&open_registry(&self.place).expect("opened")))
    }
}

/// Opens the databases.
pub(crate) fn open(settings: Settings) -> App {
    apart(|| App::open(settings).expect("opened"))
}

/// Connections to PostgreSQL block, which no thread may do that drives others.
fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(work).join().expect("no panic"))
}

/// All tests of this program once more.
#[test]
fn on_postgres() {
    if env::var_os(ENGINE).is_some() || wingbeat_postgres::cluster().is_none() {
        return;
    }
    let output = Command::new(env::current_exe().expect("a program"))
        .env(ENGINE, "postgres")
        .stdin(Stdio::null())
        .output()
        .expect("started");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("test result: ok."), "{said}");
}
