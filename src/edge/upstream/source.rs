//! An upstream in the configuration: an IP address, a Unix socket, or a name, which is resolved
//! in the background.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::{Arc, RwLock};
use std::time::Duration;
use std::{fmt, io};

use http::HeaderValue;
use url::Host;

use sealgate_config::{App, Upstream, authority};

/// Configuration of an upstream, prepared for connections.
pub(super) struct UpstreamSource {
    pub(super) configured: Arc<Upstream>,
    pub(super) place: UpstreamPlace,
    /// Name to expect on its certificate, if it uses TLS.
    pub(super) tls: Option<String>,
    /// The upstream's own `Host`.
    pub(super) host: HeaderValue,
}

pub(super) enum UpstreamPlace {
    At(Address),
    Named { host: String, port: u16, found: RwLock<Found> },
}

/// Result of the lookups of a name.
#[derive(Default)]
pub(super) struct Found {
    /// Addresses from the last successful lookup.
    pub(super) addresses: Vec<SocketAddr>,
    /// Whether the last lookup failed. The failure was logged.
    pub(super) failing: bool,
}

impl Found {
    pub(super) fn is_good(&self) -> bool {
        !self.failing && !self.addresses.is_empty()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Address {
    Ip(SocketAddr),
    Socket(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Socket(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl UpstreamSource {
    pub(super) fn new(app: &App, upstream: &Upstream) -> Result<Self, String> {
        let configured = Arc::new(upstream.clone());
        let url = match upstream {
            Upstream::Url(url) => url,
            Upstream::Socket(path) => {
                // Curl and other clients send this `Host` over a Unix socket.
                let host = HeaderValue::from_static("localhost");
                return Ok(Self {
                    configured,
                    place: UpstreamPlace::At(Address::Socket(path.clone())),
                    tls: None,
                    host,
                });
            }
        };
        let fault = |why: &str| format!("cannot use upstream {url}: {why}");
        let port = url.port_or_known_default().ok_or_else(|| fault("it has no port"))?;
        let at = |address: IpAddr| UpstreamPlace::At(Address::Ip((address, port).into()));
        let (place, name) = match url.host() {
            Some(Host::Domain(name)) => {
                let found = RwLock::default();
                (UpstreamPlace::Named { host: name.to_owned(), port, found }, name.to_owned())
            }
            Some(Host::Ipv4(address)) => (at(address.into()), address.to_string()),
            Some(Host::Ipv6(address)) => (at(address.into()), address.to_string()),
            None => return Err(fault("it has no host")),
        };
        let host = HeaderValue::from_str(&authority(url)).map_err(|_| fault("its host is not valid"))?;
        let name = app.upstream_tls.server_name.clone().unwrap_or(name);
        Ok(Self { configured, place, tls: (url.scheme() == "https").then_some(name), host })
    }
}

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
