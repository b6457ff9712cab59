//! From names to addresses, off the requests' path.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

/// Addresses of a name that are used; who has more behind one name does not need us to balance.
const MOST_ADDRESSES: usize = 64;

/// How names are looked up.
#[derive(Clone)]
pub struct Resolver {
    /// Finds the addresses of a host at a port. May block.
    pub find: Arc<Find>,
    /// How long an answer is used before the name is looked up again; failures are repeated sooner.
    pub every: Duration,
}

/// The addresses in order, at least one, or why there are none.
pub(super) type LookupAnswer = Result<Vec<SocketAddr>, String>;

/// Finds the addresses of a host at a port.
pub(crate) type Find = dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync;

impl Resolver {
    /// The machine's own, as `/etc/nsswitch.conf` has it.
    pub fn system() -> Self {
        let find = |host: &str, port: u16| (host, port).to_socket_addrs().map(Iterator::collect);
        // The system does not say how long an answer is good for.
        Self { find: Arc::new(find), every: Duration::from_secs(10) }
    }

    /// Looks a name up in a thread of its own: the system's resolver blocks, for half a minute when its servers are silent,
    /// and nobody else may have to wait for that. `tell` gets the answer; without a thread it is dropped.
    pub(super) fn begin(&self, host: &str, port: u16, tell: impl FnOnce(LookupAnswer) + Send + 'static) {
        let (find, host) = (Arc::clone(&self.find), host.to_owned());
        let lookup = move || tell(sorted((*find)(&host, port)));
        let _ = std::thread::Builder::new().name("resolver".to_owned()).spawn(lookup);
    }
}

fn sorted(found: io::Result<Vec<SocketAddr>>) -> LookupAnswer {
    let mut addresses = found.map_err(|error| error.to_string())?;
    addresses.truncate(MOST_ADDRESSES);
    addresses.sort_unstable();
    addresses.dedup();
    if addresses.is_empty() { Err("the name has no address".to_owned()) } else { Ok(addresses) }
}
