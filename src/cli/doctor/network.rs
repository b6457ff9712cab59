//! Checks of the network: names, ports and certificates as browsers see them, connections to the
//! applications, and the mail server.

use std::collections::HashSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use super::server::ServerState;
use super::{Examination, Finding, Topic, validity};
use crate::cli::outside;
use sealgate_config::{App, Config, EXPIRES_SOON, IssuerUrl, Presence, Upstream, is_loopback_host, not_after};
use sealgate_core::expiry::ORDERED_EXPIRES_SOON;
use sealgate_system::fetch::Web;
use sealgate_system::presented::{BrowserVerdict, presented};

/// Timeout for a connection to an address of this machine.
const LOCAL_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum length of the discovery document, in bytes.
const MAX_DOCUMENT: u64 = 64 * 1024;
/// Tables of the sockets of this network namespace (`proc_pid_net(5)`).
const SOCKET_TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
/// State of a listening socket in the socket tables.
const LISTENING: &str = "0A";

/// Checks that a stopped server could listen on its addresses.
pub(super) fn ports(config: &Config, state: &ServerState) -> Vec<Finding> {
    if !matches!(state, ServerState::Stopped) {
        return Vec::new();
    }
    let addresses = config.server.listen.iter().chain(&config.server.redirect_listen);
    addresses.filter_map(outside::port).map(|problem| Finding::problem(Topic::Ports, problem)).collect()
}

/// Public origin of the installation.
struct Origin {
    host: String,
    port: u16,
    is_https: bool,
    /// Number of days before the expiry of the certificate. In this period, the expiry is reported.
    soon: i64,
    /// URL of the issuer, if this is the issuer's origin.
    issuer: Option<String>,
    needs_client_certificate: bool,
}

/// Returns the checks of each public origin.
pub(super) fn public(config: &Config, state: &Arc<ServerState>) -> Vec<Examination> {
    let mut known = HashSet::new();
    let urls = config.apps.iter().filter_map(|app| IssuerUrl::parse(&app.origin(&config.issuer)?).ok());
    let urls = [config.issuer.clone()].into_iter().chain(urls);
    let needs_client_certificate =
        config.server.client_certificates.as_ref().is_some_and(|policy| policy.demand == Presence::Required);
    let origins = urls.enumerate().filter_map(|(number, url)| {
        let (host, port) = (url.url().host_str()?.to_owned(), url.url().port_or_known_default()?);
        if !known.insert((host.clone(), port)) {
            return None;
        }
        let is_ordered = config.acme.as_ref().is_some_and(|acme| acme.hosts.contains(&host));
        Some(Origin {
            is_https: url.is_https(),
            soon: if is_ordered { ORDERED_EXPIRES_SOON } else { EXPIRES_SOON },
            issuer: (number == 0).then(|| config.issuer.as_str().to_owned()),
            needs_client_certificate,
            host,
            port,
        })
    });
    let examination = |origin: Origin| {
        let state = Arc::clone(state);
        Examination::new(Topic::Dns, move || origin.examine(&state)).also(&[Topic::Certificate, Topic::Issuer])
    };
    origins.map(examination).collect()
}

impl Origin {
    fn examine(&self, state: &ServerState) -> Vec<Finding> {
        let (addresses, mut findings) = match self.addresses() {
            Ok(resolved) => resolved,
            Err(finding) => return vec![finding],
        };
        // The report already states that the server is stopped.
        if matches!(state, ServerState::Stopped) {
            return findings;
        }
        let is_accepted = !self.is_https || {
            let finding = self.certificate(&addresses);
            let is_accepted = finding.state == super::CheckState::Ok;
            findings.push(finding);
            is_accepted
        };
        if let Some(issuer) = self.issuer.as_ref().filter(|_| is_accepted && !self.needs_client_certificate) {
            findings.push(answers(issuer));
        }
        findings
    }

    /// Resolves the host. Browsers themselves resolve `localhost` and all names that end with
    /// `.localhost`.
    fn addresses(&self) -> Result<(Vec<SocketAddr>, Vec<Finding>), Finding> {
        let host = &self.host;
        if is_loopback_host(host) {
            let loopback = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
            return Ok((loopback.map(|address| SocketAddr::new(address, self.port)).to_vec(), Vec::new()));
        }
        let Some(socket_addresses) = outside::resolve(host) else {
            return Err(Finding::problem(Topic::Dns, outside::without_address(host)));
        };
        let mut addresses: Vec<IpAddr> = socket_addresses.iter().map(SocketAddr::ip).collect();
        addresses.dedup();
        let address_list = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let place = if addresses.iter().any(|address| outside::is_local(*address)) {
            "of this machine"
        } else {
            "of another machine, such as a load balancer"
        };
        let finding = Finding::ok(Topic::Dns, format!("the name {host} has the address {address_list}, {place}"));
        Ok((addresses.into_iter().map(|address| SocketAddr::new(address, self.port)).collect(), vec![finding]))
    }

    /// Judges the certificate that browsers get.
    fn certificate(&self, addresses: &[SocketAddr]) -> Finding {
        let Self { host, port, .. } = self;
        let name = host.trim_matches(['[', ']']);
        let place = format!("{host}:{port}");
        let mut refusal = String::new();
        for address in addresses {
            match presented(*address, name, outside::TIMEOUT) {
                Ok(presented) => {
                    let ends = not_after(&presented.certificate).unwrap_or_default();
                    let finding = validity(&place, ends, self.soon);
                    return match presented.verdict {
                        _ if finding.state == super::CheckState::Problem => finding,
                        BrowserVerdict::Accepted => finding,
                        BrowserVerdict::UnknownIssuer => Finding::warning(
                            Topic::Certificate,
                            format!(
                                "{place}: no authority that this machine trusts issued the certificate: use one of a \
                                 public authority ([acme]), or install your own authority on all devices"
                            ),
                        ),
                        BrowserVerdict::Refused(reason) => Finding::problem(
                            Topic::Certificate,
                            format!(
                                "{place}: browsers reject the certificate ({reason}): correct server.tls or [acme]"
                            ),
                        ),
                    };
                }
                Err(error) => refusal = format!("{place} cannot be reached at {address} ({error})"),
            }
        }
        let remedy = "open the port in the firewall, or correct the DNS record";
        // If the address is not local, this is only a warning: the router may not forward packets
        // of this machine to the machine's own public address.
        if addresses.iter().any(|address| outside::is_local(address.ip())) {
            Finding::problem(Topic::Certificate, format!("{refusal}: {remedy}"))
        } else {
            Finding::warning(Topic::Certificate, format!("{refusal}: {remedy}; if browsers reach it, ignore this"))
        }
    }
}

/// Checks that the issuer answers at its public URL.
fn answers(issuer: &str) -> Finding {
    let url = format!("{issuer}/.well-known/openid-configuration");
    let read = Web::new(outside::TIMEOUT, MAX_DOCUMENT).and_then(|web| web.json(&url));
    match read {
        Ok(document) if document["issuer"] == issuer => Finding::ok(Topic::Issuer, format!("{issuer} answers")),
        Ok(document) => Finding::problem(
            Topic::Issuer,
            format!("another issuer answers at {issuer}: {}; correct the DNS record or the proxy", document["issuer"]),
        ),
        Err(error) => Finding::problem(Topic::Issuer, format!("{error}: check listeners, proxy and firewall")),
    }
}

/// Checks that the servers of an application accept connections.
pub(super) fn upstream(app: &App) -> Vec<Finding> {
    let silent = outside::upstreams(app);
    if silent.is_empty() {
        let places = app.all_upstreams().into_iter().map(outside::place).collect::<Vec<_>>().join(", ");
        return vec![Finding::ok(Topic::Upstream, format!("the application {} answers on {places}", app.name))];
    }
    let finding = if silent.len() < app.all_upstreams().len() { Finding::warning } else { Finding::problem };
    silent.into_iter().map(|line| finding(Topic::Upstream, line)).collect()
}

/// Checks whether the servers of an application accept connections from other machines. Such
/// connections bypass the gateway and can forge identity headers.
pub(super) fn bypass(app: &App) -> Vec<Finding> {
    let name = &app.name;
    let own = own_addresses();
    let finding = |upstream: &Upstream| {
        let place = outside::place(upstream);
        let addresses = outside::addresses(upstream);
        let Some(port) = addresses.first().map(SocketAddr::port) else {
            return matches!(upstream, Upstream::Socket(_)).then(|| {
                Finding::ok(Topic::Bypass, format!("the application {name} listens on a Unix socket, {place}"))
            });
        };
        if !addresses.iter().any(|address| address.ip().is_loopback() || outside::is_local(address.ip())) {
            let message = format!(
                "the application {name} is on another machine, {place}: let that machine's firewall accept \
                 connections only from this machine; this cannot be checked from here"
            );
            return Some(Finding::ok(Topic::Bypass, message));
        }
        let reached = own.iter().map(|address| SocketAddr::new(*address, port));
        let reached = reached.filter(|address| TcpStream::connect_timeout(address, LOCAL_TIMEOUT).is_ok());
        let reached: Vec<_> = reached.map(|address| address.to_string()).collect();
        if reached.is_empty() {
            return Some(Finding::ok(Topic::Bypass, format!("the application {name} listens on loopback only")));
        }
        let listeners = listeners(port).iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(", ");
        let listens = if listeners.is_empty() { String::new() } else { format!(" (it listens on {listeners})") };
        Some(Finding::warning(
            Topic::Bypass,
            format!(
                "the application {name} can be reached without a sign-in at {}{listens}: bind it to 127.0.0.1, or block \
                 the port in the firewall",
                reached.join(", ")
            ),
        ))
    };
    app.all_upstreams().into_iter().filter_map(finding).collect()
}

/// Checks that the mail server accepts connections.
pub(super) fn mail(config: &Config) -> Vec<Finding> {
    let Some(mail) = &config.mail else { return Vec::new() };
    let (host, port) = (&mail.host, mail.port);
    let addresses = outside::resolve(host).unwrap_or_default();
    let mut addresses = addresses.iter().map(|address| SocketAddr::new(address.ip(), port));
    let is_reached = addresses.any(|address| TcpStream::connect_timeout(&address, outside::TIMEOUT).is_ok());
    vec![if is_reached {
        Finding::ok(Topic::Mail, format!("{host}:{port} accepts connections"))
    } else {
        let message =
            format!("{host}:{port} does not accept connections: correct mail.host and mail.port, or the firewall");
        Finding::problem(Topic::Mail, message)
    }]
}

/// Returns the addresses of this machine at which other machines may reach it.
fn own_addresses() -> Vec<IpAddr> {
    let four = fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
    let six = fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    let mut addresses = local_v4(&four);
    addresses.sort_unstable();
    addresses.dedup();
    let six = local_v6(&six);
    addresses.into_iter().map(IpAddr::from).chain(six.into_iter().map(IpAddr::from)).collect()
}

/// Reads the local addresses of a routing table. Each line has an address, and the next line its
/// kind.
fn local_v4(table: &str) -> Vec<Ipv4Addr> {
    let mut last = None;
    let mut addresses = Vec::new();
    for line in table.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse::<Ipv4Addr>().ok();
        } else if line == "/32 host LOCAL" {
            addresses.extend(last.filter(|address| !address.is_loopback()));
        }
    }
    addresses
}

/// Reads the addresses of the interfaces, without link-local addresses, which need a zone.
fn local_v6(table: &str) -> Vec<Ipv6Addr> {
    let addresses = table.lines().filter_map(|line| line.split_whitespace().next());
    let addresses = addresses.filter_map(|word| Some(Ipv6Addr::from(u128::from_str_radix(word, 16).ok()?)));
    addresses.filter(|address| !address.is_loopback() && !address.is_unicast_link_local()).collect()
}

/// Returns the addresses, other than loopback addresses, at which a program of this machine listens
/// on this port.
fn listeners(port: u16) -> Vec<SocketAddr> {
    let tables = SOCKET_TABLES.iter().filter_map(|table| fs::read_to_string(table).ok());
    let sockets: Vec<_> = tables.flat_map(|table| listening(&table)).collect();
    sockets.into_iter().filter(|address| address.port() == port && !address.ip().is_loopback()).collect()
}

/// Reads the listening sockets of a table.
fn listening(table: &str) -> Vec<SocketAddr> {
    let socket = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let (local, state) = (words.next()?, words.nth(1)?);
        let (address, port) = local.split_once(':')?;
        let port = u16::from_str_radix(port, 16).ok()?;
        (state == LISTENING).then_some(())?;
        Some(SocketAddr::new(kernel_address(address)?, port))
    };
    table.lines().filter_map(socket).collect()
}

/// Parses an address as the kernel prints it: 32-bit words in the machine's byte order.
fn kernel_address(text: &str) -> Option<IpAddr> {
    let word = |at: usize| Some(u32::from_str_radix(text.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    if text.len() == 8 {
        return Some(Ipv4Addr::from(word(0)?).into());
    }
    let mut bytes = [0; 16];
    for (place, at) in bytes.chunks_exact_mut(4).zip([0, 8, 16, 24]) {
        place.copy_from_slice(&word(at)?);
    }
    Some(Ipv6Addr::from(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses_are_read_from_the_kernel_s_tables() {
        let table = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 127.0.0.1\n        /32 host LOCAL\n     |-- 192.0.2.2\n        \
            /32 host LOCAL\n     |-- 192.0.2.255\n        /32 link BROADCAST\n";
        assert_eq!(local_v4(table), [Ipv4Addr::new(192, 0, 2, 2)]);
        let table = "00000000000000000000000000000001 01 80 10 80 lo\nfe8000000000000000fc00fffe000001 02 40 20 80 eth0\n\
            fd000000000000000000000000000002 02 40 00 82 eth0\n";
        assert_eq!(local_v6(table), ["fd00::2".parse::<Ipv6Addr>().unwrap()]);
    }

    #[test]
    fn listening_sockets_are_read_from_the_kernel_s_tables() {
        let head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";
        let any = "00000000:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1";
        let connected = "00000000:1F92 00000000:0000 01 00000000:00000000 00:00000000 00000000     0        0 1 1";
        let addresses = listening(&format!("{head}   0: {any}\n   1: {connected}\n"));
        assert_eq!(addresses, ["0.0.0.0:8081".parse::<SocketAddr>().unwrap()]);
        if cfg!(target_endian = "little") {
            assert_eq!(kernel_address("0100007F"), Some("127.0.0.1".parse().unwrap()));
            assert_eq!(kernel_address("00000000000000000000000001000000"), Some("::1".parse().unwrap()));
        }
        assert_eq!(kernel_address("short"), None);
    }
}
