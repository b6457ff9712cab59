//! Checks of the environment that Sealgate cannot set up: names, ports, and the applications. Used
//! by `init` and `doctor`.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use sealgate_config::{App, Config, Upstream, host_name, is_loopback_host};

/// Timeout of one query to the resolver, or of one connection to an application.
pub(super) const TIMEOUT: Duration = Duration::from_secs(3);

/// Returns one line with a remedy for each problem. `is_served` is true if the server itself uses
/// the ports.
pub(super) fn survey(config: &Config, is_served: bool) -> Vec<String> {
    let mut problems = Vec::new();
    let issuer = config.issuer.url().host_str().unwrap_or_default();
    let mut hosts: Vec<&str> =
        config.apps.iter().filter(|app| !app.is_wildcard()).map(|app| host_name(&app.host)).collect();
    hosts.insert(0, issuer);
    hosts.dedup();
    problems.extend(hosts.into_iter().filter_map(name));
    if !is_served {
        problems.extend(config.server.listen.iter().chain(&config.server.redirect_listen).filter_map(port));
    }
    problems.extend(config.apps.iter().flat_map(upstreams));
    problems
}

/// Checks that a host name resolves to this machine. Browsers themselves resolve `localhost` and
/// all names that end with `.localhost`.
fn name(host: &str) -> Option<String> {
    if is_loopback_host(host) {
        return None;
    }
    match resolve(host) {
        None => Some(without_address(host)),
        Some(addresses) if addresses.iter().all(|address| !is_local(address.ip())) => {
            let first = addresses.first().map(|address| address.ip().to_string()).unwrap_or_default();
            Some(format!(
                "the name {host} has the address {first}, which this machine does not have: correct the record, unless a \
                 load balancer or NAT leads here"
            ))
        }
        Some(_) => None,
    }
}

/// Returns the message about a name that does not resolve.
pub(super) fn without_address(host: &str) -> String {
    format!("the name {host} has no address: add an A or AAAA record that leads browsers to this machine")
}

/// Resolves a host name in a bounded time.
pub(super) fn resolve(host: &str) -> Option<Vec<SocketAddr>> {
    let (sender, receiver) = mpsc::channel();
    let host = host.to_owned();
    let resolver = thread::Builder::new().spawn(move || {
        let addresses = (host.trim_matches(['[', ']']), 443).to_socket_addrs().map(Vec::from_iter);
        // After the timeout, the receiver no longer exists.
        let _ = sender.send(addresses);
    });
    resolver.ok()?;
    receiver.recv_timeout(TIMEOUT).ok()?.ok().filter(|addresses| !addresses.is_empty())
}

/// Returns whether this machine has the address.
pub(super) fn is_local(address: IpAddr) -> bool {
    TcpListener::bind((address, 0)).is_ok()
}

/// Returns the reason why the server could not listen on an address, if there is one. Call this
/// function only while no server runs.
pub(super) fn port(address: &SocketAddr) -> Option<String> {
    let port = address.port();
    match TcpListener::bind(address).map_err(|error| error.kind()) {
        Ok(_) => None,
        Err(ErrorKind::AddrInUse) => Some(format!(
            "{address} is in use: stop the program that `ss -ltnp 'sport = :{port}'` names, or change server.listen"
        )),
        // This process lacks the capability, but the service has it.
        Err(ErrorKind::PermissionDenied) => {
            Some(format!("port {port} needs root or CAP_NET_BIND_SERVICE: without these, use a port above 1023"))
        }
        Err(error) => Some(format!("cannot listen on {address} ({error}): change server.listen")),
    }
}

/// Connects to each upstream of an application. Returns a line for each upstream that does not
/// answer.
pub(super) fn upstreams(app: &App) -> Vec<String> {
    let problem = |upstream: &Upstream| {
        let is_reached = match upstream {
            Upstream::Url(_) => {
                addresses(upstream).iter().any(|address| TcpStream::connect_timeout(address, TIMEOUT).is_ok())
            }
            Upstream::Socket(path) => UnixStream::connect(path).is_ok(),
        };
        let (name, place) = (&app.name, place(upstream));
        (!is_reached)
            .then(|| format!("the application {name} does not answer on {place}: start it, or correct its upstreams"))
    };
    app.all_upstreams().into_iter().filter_map(problem).collect()
}

/// Returns the address of an upstream as `HOST:PORT`, or its socket path.
pub(super) fn place(upstream: &Upstream) -> String {
    match upstream {
        Upstream::Url(url) => {
            let port = url.port_or_known_default().unwrap_or_default();
            format!("{}:{port}", url.host_str().unwrap_or_default())
        }
        Upstream::Socket(path) => path.display().to_string(),
    }
}

/// Resolves the address of an upstream. Returns no address for a Unix socket.
pub(super) fn addresses(upstream: &Upstream) -> Vec<SocketAddr> {
    let Upstream::Url(url) = upstream else { return Vec::new() };
    let (host, port) = (url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or_default());
    let addresses = resolve(host).unwrap_or_default();
    addresses.into_iter().map(|address| SocketAddr::new(address.ip(), port)).collect()
}
