//! Reload of the configuration of the running server, by commands and by requests.

use std::path::Path;
use std::sync::{Arc, OnceLock, Weak};

use async_trait::async_trait;

use sealgate_config::{Config, Difference};
use sealgate_domain::audit::AuditEvent;
use sealgate_store::{Store, StoreError};

/// Reloads the configuration of the running server.
#[async_trait]
pub trait Reload: Send + Sync {
    /// Reads the file again and applies it. Returns the changed settings, such as
    /// `rate_limits.token` or `app wiki: route`. Without a `request`, it is a command of the operator.
    ///
    /// # Errors
    /// [`ReloadFault`]. Nothing was changed then.
    async fn reload(&self, request: Option<ReloadRequest>) -> Result<Vec<String>, ReloadFault>;

    /// Reads the file, and returns the changes that a reload would apply. Changes nothing.
    ///
    /// # Errors
    /// Every error of the file, one line each.
    async fn pending(&self) -> Result<PendingReload, Vec<String>>;

    /// Returns the configuration file.
    fn file(&self) -> &Path;
}

/// Reload that a user requested.
pub struct ReloadRequest {
    event: AuditEvent,
    fingerprint: String,
    store: Arc<Store>,
}

impl ReloadRequest {
    /// Creates the request. `event` is the audit event of the reload, without its detail. `fingerprint` is
    /// the [`Config::fingerprint`] of the configuration that the user has confirmed. `store` is the
    /// store of the user's request: see [`Store::require_permission`].
    pub fn new(event: AuditEvent, fingerprint: String, store: Arc<Store>) -> Self {
        Self { event, fingerprint, store }
    }

    /// Returns the fingerprint of the configuration that the user has confirmed.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Returns the audit event, if the user may still reload. To be called before the first change.
    ///
    /// # Errors
    /// [`ReloadFault::NotPermitted`].
    pub async fn permitted(self) -> Result<AuditEvent, ReloadFault> {
        self.store.require_permission().await.map_err(ReloadFault::NotPermitted)?;
        Ok(self.event)
    }
}

/// Content of the configuration file, compared with the running configuration.
#[derive(Debug)]
pub struct PendingReload {
    pub config: Config,
    pub difference: Difference,
}

/// Reason why a reload changed nothing.
#[derive(Debug)]
pub enum ReloadFault {
    /// Every reason, one line each.
    Refused(Vec<String>),
    /// The file has changed since the user confirmed its content.
    ChangedMeanwhile,
    /// The user has lost the session or the role since the request began, or this cannot be read.
    NotPermitted(StoreError),
}

impl ReloadFault {
    /// Returns the reasons, one line each.
    pub fn into_lines(self) -> Vec<String> {
        match self {
            Self::Refused(lines) => lines,
            Self::ChangedMeanwhile => vec!["the configuration file has changed meanwhile".to_owned()],
            Self::NotPermitted(error) => vec![error.to_string()],
        }
    }
}

/// Access of requests to the reload of the server that processes them.
#[derive(Default)]
pub struct ReloadHandle(OnceLock<Weak<dyn Reload>>);

impl ReloadHandle {
    /// Sets the reload of this server. Later calls have no effect.
    pub fn set(&self, reload: &Arc<dyn Reload>) {
        // The reload has the state of the server, which has this handle.
        let _ = self.0.set(Arc::downgrade(reload));
    }

    fn get(&self) -> Result<Arc<dyn Reload>, Vec<String>> {
        let reload = self.0.get().and_then(Weak::upgrade);
        reload.ok_or_else(|| vec!["this server cannot reload its configuration".to_owned()])
    }

    /// Reads the configuration file, and returns the changes that a reload would apply.
    ///
    /// # Errors
    /// Every error of the file, one line each.
    pub async fn pending(&self) -> Result<PendingReload, Vec<String>> {
        self.get()?.pending().await
    }

    /// Reloads the configuration. Returns the changed settings. The reload continues if the request
    /// that awaits it ends.
    ///
    /// # Errors
    /// [`ReloadFault`]. Nothing was changed then.
    pub async fn reload(&self, request: ReloadRequest) -> Result<Vec<String>, ReloadFault> {
        let reload = self.get().map_err(ReloadFault::Refused)?;
        let reloading = tokio::spawn(async move { reload.reload(Some(request)).await });
        let failed = |error| Err(ReloadFault::Refused(vec![format!("the reload failed: {error}")]));
        reloading.await.unwrap_or_else(failed)
    }
}
