//! Name resolution, apart from the handling of requests.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of addresses used for one name. A larger set has a load balancer of its own.
const MAX_ADDRESSES: usize = 64;

/// Resolver for the names of upstreams.
#[derive(Clone)]
pub struct Resolver {
    /// Finds the addresses of a host at a port. May block.
    pub find: Arc<Find>,
    /// Time that an answer is used before the name is resolved again. Failed lookups are repeated
    /// sooner.
    pub every: Duration,
}

/// The addresses in order, at least one, or the reason of the failure.
pub(super) type LookupAnswer = Result<Vec<SocketAddr>, String>;

/// Function that finds the addresses of a host at a port.
pub(crate) type Find = dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync;

impl Resolver {
    /// Returns the system's resolver, as configured in `/etc/nsswitch.conf`.
    pub fn system() -> Self {
        let find = |host: &str, port: u16| (host, port).to_socket_addrs().map(Iterator::collect);
        // The system's resolver does not return a time to live.
        Self { find: Arc::new(find), every: Duration::from_secs(10) }
    }

    /// Resolves a name in a thread of its own and passes the answer to `tell`.
    ///
    /// The system's resolver blocks, for half a minute if its servers do not answer, and must not
    /// delay other work. If no thread can be started, `tell` is dropped.
    pub(super) fn begin(&self, host: &str, port: u16, tell: impl FnOnce(LookupAnswer) + Send + 'static) {
        let (find, host) = (Arc::clone(&self.find), host.to_owned());
        let lookup = move || tell(sorted((*find)(&host, port)));
        let _ = std::thread::Builder::new().name("resolver".to_owned()).spawn(lookup);
    }
}

fn sorted(found: io::Result<Vec<SocketAddr>>) -> LookupAnswer {
    let mut addresses = found.map_err(|error| error.to_string())?;
    addresses.truncate(MAX_ADDRESSES);
    addresses.sort_unstable();
    addresses.dedup();
    if addresses.is_empty() { Err("the name has no address".to_owned()) } else { Ok(addresses) }
}
