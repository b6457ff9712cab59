//! Checks what `sealgate init` cannot set up: names, ports, and the applications.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use sealgate_config::{App, Config, Upstream, host_name, is_loopback_host};

/// Timeout for one question to the resolver or connection to an application.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Returns one line with a remedy for each problem. `is_served`: the server itself uses the ports.
pub(super) fn survey(config: &Config, is_served: bool) -> Vec<String> {
    let mut problems = Vec::new();
    let issuer = config.issuer.url().host_str().unwrap_or_default();
    let mut hosts: Vec<&str> = config.apps.iter().map(|app| host_name(&app.host)).collect();
    hosts.insert(0, issuer);
    hosts.dedup();
    problems.extend(hosts.into_iter().filter_map(name));
    if !is_served {
        problems.extend(config.server.listen.iter().chain(&config.server.redirect_listen).filter_map(port));
    }
    problems.extend(config.apps.iter().flat_map(upstreams));
    problems
}

/// Checks that a host name resolves to this machine. Browsers resolve `localhost` and all names below it
/// themselves.
fn name(host: &str) -> Option<String> {
    if is_loopback_host(host) {
        return None;
    }
    match resolve(host) {
        None => {
            Some(format!("the name {host} has no address: add an A or AAAA record that leads browsers to this machine"))
        }
        Some(addresses) if addresses.iter().all(|address| !is_local(*address)) => {
            let first = addresses.first().map(|address| address.ip().to_string()).unwrap_or_default();
            Some(format!(
                "the name {host} has the address {first}, which this machine does not have: correct the record, unless a \
                 load balancer or NAT leads here"
            ))
        }
        Some(_) => None,
    }
}

/// Resolves a host name in a bounded time.
fn resolve(host: &str) -> Option<Vec<SocketAddr>> {
    let (sender, receiver) = mpsc::channel();
    let host = host.to_owned();
    let resolver = thread::Builder::new().spawn(move || {
        let found = (host.trim_matches(['[', ']']), 443).to_socket_addrs().map(Vec::from_iter);
        // The receiver may have given up.
        let _ = sender.send(found);
    });
    resolver.ok()?;
    receiver.recv_timeout(TIMEOUT).ok()?.ok().filter(|addresses| !addresses.is_empty())
}

fn is_local(address: SocketAddr) -> bool {
    TcpListener::bind((address.ip(), 0)).is_ok()
}

fn port(address: &SocketAddr) -> Option<String> {
    let port = address.port();
    match TcpListener::bind(address).map_err(|error| error.kind()) {
        Ok(_) => None,
        Err(ErrorKind::AddrInUse) => Some(format!(
            "{address} is in use: stop the program that `ss -ltnp 'sport = :{port}'` names, or change server.listen"
        )),
        // The service has the capability.
        Err(ErrorKind::PermissionDenied) => {
            Some(format!("port {port} needs root or CAP_NET_BIND_SERVICE: use a port above 1023 without"))
        }
        Err(error) => Some(format!("cannot listen on {address} ({error}): change server.listen")),
    }
}

/// Tries each upstream of an application.
fn upstreams(app: &App) -> Vec<String> {
    let problem = |upstream: &Upstream| {
        let (place, is_reached) = match upstream {
            Upstream::Url(url) => {
                let (host, port) =
                    (url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or_default());
                let addresses = resolve_upstream(host, port);
                let is_reached = addresses.iter().any(|address| TcpStream::connect_timeout(address, TIMEOUT).is_ok());
                (format!("{host}:{port}"), is_reached)
            }
            Upstream::Socket(path) => (path.display().to_string(), UnixStream::connect(path).is_ok()),
        };
        let name = &app.name;
        (!is_reached)
            .then(|| format!("the application {name} does not answer on {place}: start it, or correct its upstreams"))
    };
    app.upstreams.iter().filter_map(problem).collect()
}

fn resolve_upstream(host: &str, port: u16) -> Vec<SocketAddr> {
    let addresses = resolve(host).unwrap_or_default();
    addresses.into_iter().map(|address| SocketAddr::new(address.ip(), port)).collect()
}
