//! Reloading the configuration, as far as commands go: what does it is handed in.

use async_trait::async_trait;

use super::answer::Reloaded;

/// What `--help` says.
pub(super) const ABOUT: &str = "\
Have the running server take over its configuration file, without dropping a connection.

Applications, routes, upstreams, rate limits, limits on failed sign-ins, pages, the log's filter, certificates and most \
lifetimes change at once; requests under way end as they began; open WebSockets and streams go on while the new rules \
still let them through. All of the file is taken over, or nothing: a fault, or a key that only a start reads (such as \
server.listen), is named, and everything stays as it was. SIGHUP does the same, and tells the log alone.";

/// What reloads the configuration of a running server.
#[async_trait]
pub(crate) trait Reload: Send + Sync {
    /// Reads the file again and takes all of it over.
    ///
    /// # Errors
    /// Every reason why nothing was changed, one line each.
    async fn reload(&self) -> Result<Reloaded, Vec<String>>;
}
