//! Destination of an import: a new store of the configured kind, invisible until it is complete.

use std::path::Path;
use std::sync::Arc;

use super::failure::CommandFailure;
use sealgate_config::StoreConfig;
use sealgate_store::engine::Engine;
use sealgate_store::postgres::{NewPostgresStore, PostgresSettings};
use sealgate_store::sled::{NewStore, Options, SledEngine};

/// A store under construction. It is discarded if it is dropped before [`ImportTarget::finish`].
pub(super) enum ImportTarget {
    // In this order: the engine closes before its files are removed.
    Files { engine: Arc<SledEngine>, new: NewStore },
    Database(NewPostgresStore),
}

impl ImportTarget {
    /// Creates an empty store, unless one exists.
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

    /// Moves the complete store to its final location.
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

/// Returns the directory of a file-based store.
pub(super) fn directory(store: &StoreConfig) -> Option<&Path> {
    match store {
        StoreConfig::Sled(files) => Some(&files.path),
        StoreConfig::Postgres(_) => None,
    }
}
