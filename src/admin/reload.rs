//! Interface for reloading the configuration.

use std::path::Path;

use async_trait::async_trait;

use super::answer::Reloaded;

/// Text of `--help`.
pub(super) const ABOUT: &str = "\
Apply the configuration file to the running server without dropping a connection.

Applications, routes, upstreams, rate limits, sign-in limits, pages, the log filter, certificates and most lifetimes change at \
once. Requests in progress complete under the old rules. Open WebSockets and streams continue while the new rules permit them. \
If the file has an error, or changes a setting that needs a restart (such as server.listen), the command names it and nothing \
changes. SIGHUP does the same, with its result only in the log.";

/// Reloads the configuration of a running server.
#[async_trait]
pub trait Reload: Send + Sync {
    /// Reads the file again and applies it.
    ///
    /// # Errors
    /// Every reason why nothing was changed, one line each.
    async fn reload(&self) -> Result<Reloaded, Vec<String>>;

    /// Returns the configuration file.
    fn file(&self) -> &Path;
}
