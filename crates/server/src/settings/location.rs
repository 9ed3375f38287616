//! Location of a server's data: a folder, or a PostgreSQL database.

use std::{
    convert::Infallible,
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use anyhow::{Context as _, bail};
use serde::Deserialize;
use wingbeat_sql::PostgresUrl;

use super::Given;

/// Location of the data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataLocation {
    /// An SQLite database in a folder, which has one server.
    Folder(PathBuf),
    /// A PostgreSQL database, which may have several servers.
    Postgres {
        primary: PostgresUrl,
        /// Replica for reads of pages.
        replica: Option<PostgresUrl>,
    },
}

/// URL of a database, possibly with a password. Redacted when displayed.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct DatabaseUrl(String);

impl DataLocation {
    pub(super) fn from_given(
        given: &Given,
        variable: impl Fn(&str) -> Option<String>,
    ) -> anyhow::Result<Self> {
        let parsed = |url: &DatabaseUrl| PostgresUrl::parse(&url.0);
        let replica = given.read_database.as_ref().map(parsed).transpose()?;
        match (&given.database, &given.data) {
            // A container sets its folder; the database set by the operator overrides it.
            (Some(primary), _) => Ok(Self::Postgres { primary: parsed(primary)?, replica }),
            _ if replica.is_some() => {
                bail!("--read-database needs --database: it names a replica of that database")
            }
            (None, Some(data)) => Ok(Self::Folder(data.clone())),
            (None, None) => default_data(variable)
                .map(Self::Folder)
                .context("no data folder: HOME is not set; name one with --data"),
        }
    }
}

impl<P: AsRef<Path> + ?Sized> From<&P> for DataLocation {
    fn from(folder: &P) -> Self {
        Self::Folder(folder.as_ref().to_owned())
    }
}

/// Without passwords.
impl fmt::Display for DataLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => folder.display().fmt(f),
            Self::Postgres { primary, .. } => primary.fmt(f),
        }
    }
}

impl From<String> for DatabaseUrl {
    fn from(url: String) -> Self {
        Self(url)
    }
}

impl FromStr for DatabaseUrl {
    type Err = Infallible;

    fn from_str(url: &str) -> Result<Self, Infallible> {
        Ok(Self(url.to_owned()))
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DatabaseUrl(…)")
    }
}

/// The folder that systemd created for the service, or one in the user's home.
pub(super) fn default_data(variable: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let read = |name: &str| variable(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    read("STATE_DIRECTORY").or_else(|| {
        let shared = read("XDG_DATA_HOME").or_else(|| Some(read("HOME")?.join(".local/share")))?;
        Some(shared.join("wingbeat/serve"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    #[test]
    fn the_nearest_who_names_a_place_decides() {
        let folder = || Given { data: Some("/d".into()), ..Given::default() };
        let url = || Some(DatabaseUrl("postgres://ada:secret@h/db".to_owned()));
        let database = || Given { database: url(), read_database: url(), ..Given::default() };
        let check = |given: Given, expected: Result<&str, &str>| {
            assert!(!format!("{given:?}").contains("secret"));
            let found = Settings::from_given(given, |_| None).map(|it| it.location.to_string());
            match (&found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(found), Err(expected)) => {
                    assert!(found.to_string().contains(expected), "{found}");
                }
                _ => panic!("{found:?}"),
            }
        };
        check(folder().or(database()), Ok("/d"));
        check(database().or(folder()), Ok("postgres://ada@h/db"));
        check(Given { data: Some("/d".into()), ..database() }, Ok("postgres://ada@h/db"));
        check(Given { database: None, ..database() }, Err("needs --database"));
        let other = Some(DatabaseUrl("mysql://h/db".to_owned()));
        check(Given { database: other, ..Given::default() }, Err("postgres://"));
    }
}
