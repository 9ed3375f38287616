//! What all handlers share.

use std::{ops::Deref, sync::Arc};

use crate::{
    access::Access,
    metrics::Metrics,
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
        Self(Arc::new(Shared {
            settings,
            storage,
            access,
            metrics: Metrics::default(),
            series: Refresher::default(),
            rest: Rest::default(),
        }))
    }
}

impl Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}
