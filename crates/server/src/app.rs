//! What all handlers share.

use std::{ops::Deref, sync::Arc};

use crate::{
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
}

impl App {
    /// Opens the databases, or makes them.
    pub fn open(settings: Settings) -> Result<Self, StorageError> {
        let storage = Storage::open(&settings.data)?;
        Ok(Self(Arc::new(Shared { settings, storage })))
    }
}

impl Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}
