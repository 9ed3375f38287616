//! State shared by all handlers.

use std::{ops::Deref, sync::Arc};

use tokio::task;
use uuid::Uuid;

use crate::{
    access::Access,
    metrics::Metrics,
    profiles::Profiles,
    series::Refresher,
    service::Idle,
    settings::Settings,
    storage::{Storage, StorageError},
};

/// State shared by all handlers. Cheap to clone.
#[derive(Debug, Clone)]
pub struct App(Arc<Shared>);

#[derive(Debug)]
pub struct Shared {
    pub settings: Settings,
    pub storage: Arc<Storage>,
    pub access: Access,
    pub metrics: Metrics,
    pub series: Refresher,
    pub profiles: Profiles,
    pub idle: Idle,
}

impl App {
    /// Opens or creates the database.
    pub fn open(settings: Settings) -> Result<Self, StorageError> {
        let storage = Storage::open(&settings.location)?;
        Ok(Self::of(settings, storage))
    }

    /// Wraps open database.
    pub fn of(settings: Settings, storage: Storage) -> Self {
        let access = Access::of(&settings.public_url);
        let storage = Arc::new(storage);
        let place = settings.profiles_place.clone();
        let profiles = Profiles::of(Arc::clone(&storage), place, settings.profiles);
        Self(Arc::new(Shared {
            settings,
            storage,
            access,
            metrics: Metrics::default(),
            series: Refresher::default(),
            profiles,
            idle: Idle::default(),
        }))
    }
}

impl App {
    /// Deletes the profiles of a deleted project. If that fails, they expire with age.
    pub(crate) async fn forget_profiles(&self, project: Uuid) {
        let app = self.clone();
        let forget = move || app.profiles.forget(&project.to_string());
        match task::spawn_blocking(forget).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(
                "the profiles of the deleted project {project} are still there: {error}"
            ),
            Err(error) => tracing::warn!(
                "the profiles of the deleted project {project} are still there: {error}"
            ),
        }
    }
}

impl Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}
