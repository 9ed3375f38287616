//! Location of the test servers' data: a folder, or in a second run of the tests of [`MODULES`], a PostgreSQL database.

use std::{
    env,
    process::{Command, Stdio},
    thread,
};

use tempfile::TempDir;
use wingbeat_server::{
    App,
    database::Database,
    profiles::ProfilesPlace,
    settings::{DataLocation, Settings},
    storage,
};

/// Modules whose tests keep data in a [`Kept`].
const MODULES: [&str; 2] = ["access::", "api::"];

/// Set in the second run.
const ENGINE: &str = "WINGBEAT_TEST_ENGINE";

/// A new location, with the guards that keep it alive.
pub(crate) struct Kept {
    pub(crate) place: DataLocation,
    folder: TempDir,
}

impl Kept {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let place = if env::var_os(ENGINE).is_some() {
            let url = wingbeat_pg_testing::database().expect("PostgreSQL is there");
            let primary = wingbeat_sql::PostgresUrl::parse(&url).expect("a URL");
            DataLocation::Postgres { primary, replica: None }
        } else {
            DataLocation::from(folder.path())
        };
        Self { place, folder }
    }

    /// Settings for the location, with defaults otherwise.
    pub(crate) fn settings(&self) -> Settings {
        let profiles_place = ProfilesPlace::within(self.folder.path());
        Settings { profiles_place, ..Settings::of(self.place.clone()) }
    }

    /// Reads or changes the database.
    pub(crate) fn database<T: Send>(&self, ask: impl FnOnce(&Database) -> T + Send) -> T {
        apart(|| ask(&storage::open(&self.place).expect("opened")))
    }
}

pub(crate) fn open(settings: Settings) -> App {
    apart(|| App::open(settings).expect("opened"))
}

/// Runs on another thread: PostgreSQL connections block, which async threads must not.
fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(work).join().expect("no panic"))
}

/// Runs the tests of [`MODULES`] again.
#[test]
fn on_postgres() {
    if env::var_os(ENGINE).is_some() || wingbeat_pg_testing::cluster().is_none() {
        return;
    }
    let output = Command::new(env::current_exe().expect("a program"))
        .args(MODULES)
        .env(ENGINE, "postgres")
        .stdin(Stdio::null())
        .output()
        .expect("started");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("test result: ok."), "{said}");
}
