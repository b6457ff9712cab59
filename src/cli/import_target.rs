//! Where an import goes: a store of the kind that the configuration names, built where nobody sees it.

use std::path::Path;
use std::sync::Arc;

use super::failure::CommandFailure;
use crate::config::StoreConfig;
use crate::store::engine::Engine;
use crate::store::postgres::{NewPostgresStore, PostgresSettings};
use crate::store::sled::{NewStore, Options, SledEngine};

/// A store in the making. Dropped before [`ImportTarget::finish`], nothing of it stays.
pub(super) enum ImportTarget {
    // In this order: the engine closes before its files are removed.
    Files { engine: Arc<SledEngine>, new: NewStore },
    Database(NewPostgresStore),
}

impl ImportTarget {
    /// An empty one, where there is none yet.
    pub(super) async fn begin(store: &StoreConfig) -> Result<Self, CommandFailure> {
        match store {
            StoreConfig::Sled(files) => {
                let new = NewStore::begin(files).map_err(CommandFailure::line)?;
                let options = Options { discard: true, ..Options::default() };
                let engine = SledEngine::open_with(new.settings(), options, Arc::new(()));
                Ok(Self::Files { engine: Arc::new(engine.map_err(CommandFailure::line)?), new })
            }
            StoreConfig::Postgres(settings) => {
                let settings = PostgresSettings::of(settings, None).map_err(CommandFailure::line)?;
                NewPostgresStore::begin(&settings).await.map(Self::Database).map_err(CommandFailure::line)
            }
        }
    }

    pub(super) fn engine(&self) -> Arc<dyn Engine> {
        match self {
            Self::Files { engine, .. } => Arc::clone(engine) as _,
            Self::Database(new) => new.engine(),
        }
    }

    /// Puts it in its place, whole.
    pub(super) async fn finish(self) -> Result<(), CommandFailure> {
        match self {
            Self::Files { engine, new } => {
                engine.close();
                drop(engine);
                new.finish().map_err(CommandFailure::line)
            }
            Self::Database(new) => new.finish().await.map_err(CommandFailure::line),
        }
    }
}

/// The directory that a store has of its own.
pub(super) fn directory(store: &StoreConfig) -> Option<&Path> {
    match store {
        StoreConfig::Sled(files) => Some(&files.path),
        StoreConfig::Postgres(_) => None,
    }
}
