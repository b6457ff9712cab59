//! The servers of an application: names resolved once at the start, peers built beforehand, round robin over those that
//! answer a TCP connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use pingora::lb::LoadBalancer;
use pingora::lb::health_check::TcpHealthCheck;
use pingora::lb::selection::RoundRobin;
use pingora::upstreams::peer::HttpPeer;
use tokio::sync::watch;
use tokio::time::timeout;
use url::{Host, Url};

use super::upgrade::UpgradeConnector;
use crate::config::{App, authority};

/// The longest silence on a WebSocket: people leave tabs open, and many applications never ping.
pub(super) const UPGRADED_SILENCE: Duration = Duration::from_hours(1);
/// How long an idle connection to an upstream is kept.
const IDLE: Duration = Duration::from_secs(30);
const CHECK_EVERY: Duration = Duration::from_secs(5);
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// The servers of one application.
pub(crate) struct Upstreams {
    servers: Vec<Server>,
    balancer: LoadBalancer<RoundRobin>,
}

/// One address of an upstream.
pub(super) struct Server {
    address: SocketAddr,
    pub(super) peer: HttpPeer,
    /// For requests that ask to switch protocols.
    pub(super) upgrade_peer: HttpPeer,
    /// Its own `Host`, where the client's is not to reach it.
    pub(super) host: Option<HeaderValue>,
}

impl Upstreams {
    /// Resolves the application's upstreams. Blocks on the resolver: for the start only.
    ///
    /// # Errors
    /// One line that names the upstream that cannot be used.
    pub(crate) fn resolve(app: &App) -> Result<Self, String> {
        let mut servers: Vec<Server> = Vec::new();
        for upstream in &app.upstreams {
            let url = &upstream.url;
            let fault = |why: String| format!("app {}: cannot use upstream {url}: {why}", app.name);
            let addresses = url.socket_addrs(|| None).map_err(|error| fault(error.to_string()))?;
            for address in addresses {
                // Health is kept by address, so that one address is one server.
                if !servers.iter().any(|server| server.address == address) {
                    servers.push(server(app, url, address).map_err(&fault)?);
                }
            }
        }
        if servers.is_empty() {
            return Err(format!("app {}: no upstream has an address", app.name));
        }
        let addresses: Vec<SocketAddr> = servers.iter().map(|server| server.address).collect();
        let mut balancer = LoadBalancer::try_from_iter(addresses)
            .map_err(|error| format!("app {}: cannot balance its upstreams: {error}", app.name))?;
        let mut check = TcpHealthCheck::new();
        check.peer_template.options.connection_timeout = Some(CHECK_TIMEOUT);
        // One lost packet is no failure.
        check.consecutive_failure = 2;
        balancer.set_health_check(check);
        Ok(Self { servers, balancer })
    }

    /// Whether there is more than one server.
    pub(super) const fn has_choice(&self) -> bool {
        self.servers.len() > 1
    }

    /// The next server: one that is healthy and not `avoid`; failing that any but `avoid`; failing that any. A check
    /// can lag behind, so that a server thought dead is worth a try when there is no better one.
    pub(super) fn pick(&self, avoid: Option<SocketAddr>) -> Option<&Server> {
        if let [only] = self.servers.as_slice() {
            return Some(only);
        }
        let next = |accept: &dyn Fn(SocketAddr, bool) -> bool| {
            let accept = |backend: &pingora::lb::Backend, healthy| {
                backend.addr.as_inet().is_some_and(|address| accept(*address, healthy))
            };
            self.balancer.select_with(b"", self.servers.len(), accept)
        };
        let backend = next(&|address, healthy| healthy && Some(address) != avoid)
            .or_else(|| next(&|address, _| Some(address) != avoid))
            .or_else(|| next(&|_, _| true))?;
        self.servers.iter().find(|server| Some(&server.address) == backend.addr.as_inet())
    }
}

fn server(app: &App, url: &Url, address: SocketAddr) -> Result<Server, String> {
    let tls = url.scheme() == "https";
    let name = match url.host() {
        Some(Host::Domain(name)) => name.to_owned(),
        Some(Host::Ipv4(address)) => address.to_string(),
        Some(Host::Ipv6(address)) => address.to_string(),
        None => String::new(),
    };
    // An empty name would silently turn the check of the certificate off.
    if name.is_empty() {
        return Err("it names no host".to_owned());
    }
    let host = HeaderValue::from_str(&authority(url)).map_err(|_| "its host is not valid".to_owned())?;
    let mut peer = HttpPeer::new(address, tls, name);
    // Pingora's own defaults are to wait for ever.
    peer.options.connection_timeout = Some(app.connect_timeout);
    peer.options.total_connection_timeout = Some(app.connect_timeout);
    peer.options.read_timeout = Some(app.read_timeout);
    peer.options.write_timeout = Some(app.write_timeout);
    peer.options.idle_timeout = Some(IDLE);
    let mut upgrade_peer = peer.clone();
    upgrade_peer.options.read_timeout = Some(UPGRADED_SILENCE);
    upgrade_peer.options.custom_l4 = Some(Arc::new(UpgradeConnector { connect_timeout: app.connect_timeout }));
    // Its connections are never those of ordinary requests.
    upgrade_peer.group_key = 1;
    Ok(Server { address, peer, upgrade_peer, host: (!app.preserve_host).then_some(host) })
}

/// Checks all servers of all applications, over and over, until `stop` turns true.
pub(crate) async fn watch_health(all: Arc<[Upstreams]>, mut stop: watch::Receiver<bool>) {
    loop {
        for upstreams in all.iter() {
            upstreams.balancer.backends().run_health_check(true).await;
        }
        if timeout(CHECK_EVERY, stop.wait_for(|stop| *stop)).await.is_ok() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Upstream;

    fn app(urls: &[&str]) -> App {
        App {
            url: None,
            name: "wiki".to_owned(),
            host: "wiki.example".to_owned(),
            upstreams: urls.iter().map(|url| Upstream { url: url.parse().unwrap() }).collect(),
            routes: Vec::new(),
            audience: None,
            clients: None,
            identity: crate::config::Identity::default(),
            preserve_host: false,
            connect_timeout: Duration::from_secs(1),
            read_timeout: Duration::from_secs(1),
            write_timeout: Duration::from_secs(1),
        }
    }

    fn picked(upstreams: &Upstreams, avoid: Option<SocketAddr>) -> SocketAddr {
        upstreams.pick(avoid).unwrap().address
    }

    #[test]
    fn servers_take_turns() {
        let upstreams = Upstreams::resolve(&app(&["http://127.0.0.1:1", "http://127.0.0.2:1"])).unwrap();
        let turns: Vec<_> = (0..4).map(|_| picked(&upstreams, None)).collect();
        assert_ne!(turns[0], turns[1]);
        assert_eq!(turns[..2], turns[2..]);
    }

    #[test]
    fn a_server_that_failed_is_not_asked_again_at_once() {
        let upstreams = Upstreams::resolve(&app(&["http://127.0.0.1:1", "http://127.0.0.2:1"])).unwrap();
        let failed = "127.0.0.1:1".parse().unwrap();
        for _ in 0..4 {
            assert_ne!(picked(&upstreams, Some(failed)), failed);
        }
    }

    #[test]
    fn the_only_server_is_always_worth_a_try() {
        let upstreams = Upstreams::resolve(&app(&["http://127.0.0.1:1"])).unwrap();
        let only = "127.0.0.1:1".parse().unwrap();
        assert_eq!(picked(&upstreams, Some(only)), only);
    }

    #[tokio::test]
    async fn servers_found_dead_are_skipped_while_another_lives() {
        let alive = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let dead = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let urls = [format!("http://{}", alive.local_addr().unwrap()), format!("http://{dead}")];
        let upstreams = Upstreams::resolve(&app(&[&urls[0], &urls[1]])).unwrap();
        for _ in 0..2 {
            upstreams.balancer.backends().run_health_check(true).await;
        }
        for _ in 0..4 {
            assert_eq!(picked(&upstreams, None), alive.local_addr().unwrap());
        }
    }

    #[test]
    fn the_host_and_the_name_on_the_certificate_are_the_upstreams_own() {
        let upstreams = Upstreams::resolve(&app(&["https://127.0.0.1:8443"])).unwrap();
        let server = upstreams.pick(None).unwrap();
        assert_eq!(server.peer.sni, "127.0.0.1");
        assert_eq!(server.host.as_ref().unwrap(), "127.0.0.1:8443");
    }

    #[test]
    fn an_unknown_name_is_one_clear_line() {
        let error = Upstreams::resolve(&app(&["http://no-such-host.invalid:80"])).err().unwrap();
        assert!(error.starts_with("app wiki: cannot use upstream http://no-such-host.invalid"), "{error}");
    }
}
