//! An upstream of the configuration: an IP address, a Unix socket, or a host name.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::{Arc, RwLock};
use std::time::Duration;
use std::{fmt, io};

use http::HeaderValue;
use url::Host;

use sealgate_config::{App, Upstream, authority};

/// Upstream of the configuration, prepared for connections.
pub(super) struct UpstreamSource {
    pub(super) configured: Arc<Upstream>,
    pub(super) place: UpstreamPlace,
    /// Name that the server's certificate must have. `None` if the server does not use TLS.
    pub(super) tls: Option<String>,
    /// `Host` of the upstream.
    pub(super) host: HeaderValue,
}

pub(super) enum UpstreamPlace {
    At(Address),
    Named { host: String, port: u16, found: RwLock<Found> },
}

/// Addresses of a host name, as far as lookups have found them.
#[derive(Default)]
pub(super) struct Found {
    /// Addresses from the last successful lookup.
    pub(super) addresses: Vec<SocketAddr>,
    /// Whether the last lookup failed. Only the first of several failures is logged.
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
                // `curl` sends this `Host` over a Unix socket too.
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

/// Maximum number of addresses that are used for one name. A larger service has its own load
/// balancer.
const MAX_ADDRESSES: usize = 64;

/// Resolver of upstream host names.
#[derive(Clone)]
pub struct Resolver {
    /// Returns the addresses of a host at a port. May block.
    pub find: Arc<Find>,
    /// Interval between lookups of a name. Failed lookups are repeated sooner.
    pub every: Duration,
}

/// Sorted addresses, at least one, or the reason of the failure.
pub(super) type LookupAnswer = Result<Vec<SocketAddr>, String>;

/// Function that returns the addresses of a host at a port.
pub(crate) type Find = dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync;

impl Resolver {
    /// Returns the resolver of the operating system, as `/etc/nsswitch.conf` configures it.
    pub fn system() -> Self {
        let find = |host: &str, port: u16| (host, port).to_socket_addrs().map(Iterator::collect);
        // The operating system's resolver does not return a time to live.
        Self { find: Arc::new(find), every: Duration::from_secs(10) }
    }

    /// Resolves a name in a new thread and passes the result to `tell`.
    ///
    /// The operating system's resolver blocks, for half a minute if its servers do not answer. If
    /// no thread can be started, `tell` is dropped.
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
