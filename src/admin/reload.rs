//! Reloading the configuration, as far as commands go: what does it is handed in.

use std::path::PathBuf;

use async_trait::async_trait;
use serde_json::json;

use super::answer::Answer;
use super::view;

/// What reloads the configuration of a running server.
#[async_trait]
pub trait Reload: Send + Sync {
    /// Reads the file again and takes all of it over.
    ///
    /// # Errors
    /// Every reason why nothing was changed, one line each.
    async fn reload(&self) -> Result<Reloaded, Vec<String>>;
}

/// What a reload did.
#[derive(Debug)]
pub struct Reloaded {
    /// The file that was read.
    pub file: PathBuf,
    /// What has changed, such as `rate_limits.token` or `app wiki: route`.
    pub changed: Vec<String>,
}

impl Reloaded {
    pub(super) fn into_answer(self) -> Answer {
        view::object(json!({ "config": self.file, "changed": self.changed }))
    }
}
