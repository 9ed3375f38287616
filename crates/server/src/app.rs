//! What all handlers share.

use std::{ops::Deref, sync::Arc};

use tokio::task;
use uuid::Uuid;

use crate::{
    access::Access,
    metrics::Metrics,
    profiles::Profiles,
    series::Refresher,
    service::Rest,
    settings::Settings,
    storage::{Storage, StorageError},
};

/// What all handlers share. Clones are cheap.
#[derive(Debug, Clone)]
pub struct App(Arc<Shared>);

#[derive(Debug)]
pub struct Shared {
    pub settings: Settings,
    pub storage: Storage,
    pub access: Access,
    pub metrics: Metrics,
    pub series: Refresher,
    pub profiles: Profiles,
    pub rest: Rest,
}

impl App {
    /// Opens the databases, or makes them.
    pub fn open(settings: Settings) -> Result<Self, StorageError> {
        let storage = Storage::open(&settings.place)?;
        Ok(Self::of(settings, storage))
    }

    /// For databases that are open.
    pub fn of(settings: Settings, storage: Storage) -> Self {
        let access = Access::of(&settings.public_url);
        let profiles = Profiles::of(&settings.files, settings.profiles);
        Self(Arc::new(Shared {
            settings,
            storage,
            access,
            metrics: Metrics::default(),
            series: Refresher::default(),
            profiles,
            rest: Rest::default(),
        }))
    }
}

impl App {
    /// Removes the profiles of a project that is gone. If that fails now, they go when they are too old.
    pub(crate) async fn forget_profiles(&self, project: Uuid) {
        let app = self.clone();
        let forget = move || app.profiles.forget(&project.to_string());
        match task::spawn_blocking(forget).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!("profiles of {project} are still there: {error}"),
            Err(error) => tracing::warn!("profiles of {project} are still there: {error}"),
        }
    }
}

impl Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}
