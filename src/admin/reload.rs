//! Reloading the configuration, as far as commands go: what does it is handed in.

use async_trait::async_trait;

use super::answer::Reloaded;

/// What `--help` says.
pub(super) const ABOUT: &str = "\
Apply the configuration file to the running server without dropping a connection.

Applications, routes, upstreams, rate limits, sign-in limits, pages, the log filter, certificates and most lifetimes change at \
once. Requests in progress complete under the old rules. Open WebSockets and streams continue while the new rules permit them. \
If the file has an error, or changes a setting that needs a restart (such as server.listen), the command names it and nothing \
changes. SIGHUP does the same, with its result only in the log.";

/// What reloads the configuration of a running server.
#[async_trait]
pub(crate) trait Reload: Send + Sync {
    /// Reads the file again and takes all of it over.
    ///
    /// # Errors
    /// Every reason why nothing was changed, one line each.
    async fn reload(&self) -> Result<Reloaded, Vec<String>>;
}
