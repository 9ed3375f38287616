//! Where the data of a measured server lies: in files, or in a PostgreSQL that runs for this alone.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use clap::ValueEnum;
use serde::Serialize;
use wingbeat_pg_testing::{Cluster, Settings};

use super::server::Place;

/// What keeps the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
pub(super) enum Engine {
    Sqlite,
    Postgres,
}

/// Where data can be put.
pub(super) enum Stored {
    Files(PathBuf),
    /// As its packages set it up: what was committed survives a power failure.
    Postgres(Cluster),
}

impl Engine {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
        }
    }
}

impl Stored {
    pub(super) fn new(engine: Engine, folder: &Path) -> anyhow::Result<Self> {
        Ok(match engine {
            Engine::Sqlite => Self::Files(folder.to_owned()),
            Engine::Postgres => {
                let settings = Settings { durable: true, ..Settings::default() };
                Self::Postgres(Cluster::start(&settings).context("cannot start PostgreSQL")?)
            }
        })
    }

    /// An empty place.
    pub(super) fn place(&self, name: &str) -> anyhow::Result<Place> {
        Ok(match self {
            Self::Files(folder) => Place::Folder(folder.join(name)),
            Self::Postgres(cluster) => Place::Database(cluster.fresh()?),
        })
    }

    /// Bytes that a place takes on the disk.
    pub(super) fn bytes(&self, place: &Place) -> anyhow::Result<u64> {
        match (self, place) {
            (Self::Postgres(cluster), Place::Database(url)) => {
                let name = url.rsplit('/').next().unwrap_or_default();
                let size = cluster.sql(name, "SELECT pg_database_size(current_database())")?;
                size.trim().parse().context("PostgreSQL tells no size")
            }
            (_, Place::Folder(folder)) => {
                let entries = fs::read_dir(folder)?.flatten();
                Ok(entries.filter_map(|entry| entry.metadata().ok()).map(|it| it.len()).sum())
            }
            (Self::Files(_), Place::Database(url)) => anyhow::bail!("{url} is no folder"),
        }
    }
}
