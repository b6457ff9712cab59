//! Parsers of single values: addresses, hosts, URLs, paths and names.
//!
//! Each error states the problem and the allowed values. Constants for durations are in seconds.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::IpNet;
use url::{Host, Url};

use crate::app::split_port;
use crate::app_hosts::{MAX_HOST_LENGTH, MAX_LABEL_LENGTH, WILDCARD};
use crate::{IssuerUrl, Upstream, authority};
use sealgate_domain::mail_address::MailAddress;
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_domain::profile::is_group;
use sealgate_domain::user::Email;

/// Maximum length of a token label in bytes. The token pads it with blanks (`CK_TOKEN_INFO`).
const MAX_TOKEN_LABEL_LENGTH: usize = 32;

/// Parses the issuer. Its path must be one that requests can have.
pub(super) fn issuer(text: &str) -> Result<IssuerUrl, String> {
    let issuer = IssuerUrl::parse(text).map_err(|problem| format!("{text:?}: {problem}"))?;
    host_name(issuer.host())?;
    if !issuer.path_prefix().is_empty() {
        route_path(issuer.path_prefix())?;
    }
    Ok(issuer)
}

/// Parses a listener's address. Rejects conflicts with the other listeners.
pub(super) fn listener(text: &str, others: &[SocketAddr]) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_| {
        format!(
            "{text:?} is not an address; write IP:PORT, such as \"0.0.0.0:443\", \"127.0.0.1:8080\" or \"[::]:443\""
        )
    })?;
    match others.iter().find(|other| collide(**other, address)) {
        Some(other) => {
            Err(format!("{text} conflicts with the listener on {other}; write another port, or leave one out"))
        }
        None => Ok(address),
    }
}

/// Returns whether the kernel would refuse to bind the second listener.
///
/// An IPv4 and an IPv6 address never conflict here, because a sysctl determines whether `[::]`
/// includes 0.0.0.0.
fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    let overlap = one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified();
    let given = one.port() != 0 || one.ip() == other.ip();
    one.port() == other.port() && one.is_ipv4() == other.is_ipv4() && overlap && given
}

/// Parses the network of a trusted proxy, or a single address.
pub(super) fn proxies(text: &str) -> Result<IpNet, String> {
    network(text, "any client could forge its own address; write your proxies' addresses")
}

/// Parses a network of clients, or a single address.
pub(super) fn clients(text: &str) -> Result<IpNet, String> {
    network(text, "the rule has no condition; leave networks out")
}

/// Parses a private network to which requests may be sent, or a single address.
pub(super) fn recipients(text: &str) -> Result<IpNet, String> {
    network(text, "no address would be protected; write the networks of your clients")
}

/// Returns the error of an IPv4 network in IPv6 form, which no address would match: addresses are
/// compared in IPv4 form.
fn mapped(text: &str) -> String {
    format!("{text:?} is an IPv4 network in IPv6 form; write it in IPv4 form, such as \"10.0.0.0/8\"")
}

/// Parses a network or a single address. `consequence` says what a network of all addresses means.
fn network(text: &str, consequence: &str) -> Result<IpNet, String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return if address.to_canonical() == address { Ok(IpNet::from(address)) } else { Err(mapped(text)) };
    }
    let network: IpNet = text
        .parse()
        .map_err(|_| format!("{text:?} is not a network; write one such as \"10.0.0.0/8\" or \"192.0.2.7\""))?;
    if network.prefix_len() == 0 {
        return Err(format!("{text} is every address, so {consequence}"));
    }
    if network.addr().to_canonical() != network.addr() {
        return Err(mapped(text));
    }
    if network.trunc() != network {
        return Err(format!(
            "{text} has bits set outside the network's prefix; write {} or {}",
            network.trunc(),
            network.addr()
        ));
    }
    Ok(network)
}

/// Parses a name: not empty, without control characters, and without blanks at its ends.
pub(super) fn name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.trim() != text || text.chars().any(char::is_control) {
        return Err(format!("{text:?} is not a name; write a text without blanks around it"));
    }
    Ok(text.to_owned())
}

/// Parses the name of a user group.
pub(super) fn group(text: &str) -> Result<String, String> {
    let problem = || format!("{text:?} is not a group; write 1 to 100 characters without a comma");
    is_group(text).then(|| text.to_owned()).ok_or_else(problem)
}

/// Parses the domain of e-mail addresses. Returns it with A-labels in lower case, the form that
/// mail servers use.
pub(super) fn mail_domain(text: &str) -> Result<String, String> {
    let problem = || format!("{text:?} is not a domain; write it without the @, such as \"example.com\"");
    let address = Email::parse(&format!("a@{text}")).and_then(|address| MailAddress::from_email(&address));
    address.map(|address| address.domain().to_owned()).ok_or_else(problem)
}

pub(super) fn token_label(text: &str) -> Result<String, String> {
    if text.len() > MAX_TOKEN_LABEL_LENGTH {
        return Err(format!("{text:?} has {} bytes; a token's label has at most {MAX_TOKEN_LABEL_LENGTH}", text.len()));
    }
    name(text)
}

/// Parses the name of an application. It becomes part of a client id, log lines and metrics.
pub(super) fn app_name(text: &str) -> Result<String, String> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    if text.is_empty() || text.len() > 63 || !text.bytes().all(allowed) {
        return Err(format!("{text:?} is not a valid application name; write 1 to 63 of a-z, 0-9, - and _"));
    }
    Ok(text.to_owned())
}

/// Parses a host, with or without a port, in the form of a `Host` header.
pub(super) fn host(text: &str) -> Result<String, String> {
    if text.contains(['/', '@', '?', '#', '\\']) {
        return Err(format!("{text:?} is not a host; write only the host, such as \"wiki.example.com\""));
    }
    let (name, port) = split_port(text);
    host_name(name)?;
    let is_valid = |port: &str| port.parse::<u16>().is_ok_and(|number| number > 0 && number.to_string() == port);
    if port.is_some_and(|port| !is_valid(port)) {
        return Err(format!("{text:?} has an invalid port; write a port from 1 to 65535, or none"));
    }
    Ok(text.to_owned())
}

/// Parses the host of an application, which may be a wildcard.
///
/// A wildcard is the whole first label, and at least two labels follow. `*.com` would be the hosts of
/// everyone.
pub(super) fn app_host(text: &str) -> Result<String, String> {
    let Some(rest) = text.strip_prefix(WILDCARD) else {
        if text.contains('*') {
            return Err(format!("{text:?}: a wildcard is the whole first label; write one such as \"*.example.com\""));
        }
        return host(text);
    };
    if rest.contains('*') {
        return Err(format!("{text:?} has two wildcards; write one such as \"*.example.com\""));
    }
    let valid = host(&format!("a.{rest}")).map_err(|_| {
        format!("{text:?} is not a wildcard of a host name; write one such as \"*.example.com\", in lower case")
    })?;
    if split_port(&valid).0.split('.').count() < 3 {
        return Err(format!("{text:?} has one label after the *; write at least two, such as \"*.example.com\""));
    }
    Ok(text.to_owned())
}

/// Parses the host of clients' metadata documents.
pub(super) fn document_host(text: &str) -> Result<String, String> {
    host_name(text)?;
    let has_name = matches!(Host::parse(text), Ok(Host::Domain(name)) if name.contains('.'));
    let problem = || format!("{text:?} is not a public host name; write one such as \"claude.ai\"");
    has_name.then(|| text.to_owned()).ok_or_else(problem)
}

pub(super) fn host_name(text: &str) -> Result<(), String> {
    let problem = || format!("{text:?} is not a host name; write one such as \"wiki.example.com\", without wildcards");
    let host = Host::parse(text).map_err(|_| problem())?;
    if host.to_string() != text {
        return Err(format!("{text:?} is not the form that browsers send; write \"{host}\""));
    }
    let Host::Domain(domain) = host else { return Ok(()) };
    let is_valid = |part: &str| {
        !part.is_empty()
            && part.len() <= MAX_LABEL_LENGTH
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    if domain.len() > MAX_HOST_LENGTH || !domain.split('.').all(is_valid) { Err(problem()) } else { Ok(()) }
}

/// Parses the public origin of an application, which must have the issuer's scheme.
pub(super) fn app_url(text: &str, host: Option<&str>, issuer: Option<&IssuerUrl>) -> Result<Url, String> {
    let url = origin(text)?;
    if format!("{}://{}", url.scheme(), authority(&url)) != text {
        return Err(format!("{text:?} is not in normal form; write \"{}://{}\"", url.scheme(), authority(&url)));
    }
    if let Some(issuer) = issuer.filter(|issuer| issuer.scheme() != url.scheme()) {
        // The session cookie has the attribute `Secure` if the issuer uses https, and browsers do
        // not send such a cookie over http.
        return Err(format!("{text:?} has another scheme than the issuer; write {}://", issuer.scheme()));
    }
    let agrees = |host: &str| match split_port(host) {
        (_, Some(_)) => host == authority(&url),
        (name, None) => Some(name) == url.host_str(),
    };
    match host.filter(|host| !agrees(host)) {
        Some(host) => Err(format!("{text:?} has another host or port than host = {host:?}; write the same")),
        None => Ok(url),
    }
}

/// Parses the place at which a browser arrives after the sign-out: a path, or an absolute URL.
pub(super) fn after_sign_out(text: &str) -> Result<String, String> {
    let fault = |problem: &str| {
        format!("{text:?} {problem}; write a path such as \"/\", or a URL such as \"https://www.example.com/\"")
    };
    // Browsers read `//host` and `/\\host` as another host, and ignore line breaks.
    if text.contains('\\') || text.bytes().any(|byte| !(b'!'..=b'~').contains(&byte)) || text.starts_with("//") {
        return Err(fault("is neither a path nor a URL"));
    }
    if text.contains('#') {
        return Err(fault("has a fragment"));
    }
    if text.starts_with('/') {
        return Ok(text.to_owned());
    }
    let url = Url::parse(text).map_err(|_| fault("is neither a path nor a URL"))?;
    if !["http", "https"].contains(&url.scheme()) || !url.username().is_empty() || url.password().is_some() {
        return Err(fault("is not a plain http or https URL"));
    }
    Ok(url.into())
}

/// Parses the URL of an upstream. Rejects Sealgate's own listeners.
pub(super) fn upstream(text: &str, listen: &[SocketAddr]) -> Result<Upstream, String> {
    let url = origin(text)?;
    let port = url.port_or_known_default().unwrap_or_default();
    if port == 0 {
        return Err(format!("{text:?} has port 0; write the port that the server listens on"));
    }
    let addresses = match url.host() {
        Some(Host::Ipv4(address)) => vec![IpAddr::from(address)],
        Some(Host::Ipv6(address)) => vec![IpAddr::from(address)],
        Some(Host::Domain(name)) if is_localhost(name) => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
        Some(Host::Domain(_)) | None => Vec::new(),
    };
    let ours = |listener: &&SocketAddr| {
        addresses.iter().any(|address| is_listener((*address, port).into(), std::slice::from_ref(*listener)))
    };
    match listen.iter().find(ours) {
        Some(listener) => {
            Err(format!("{text:?} is Sealgate's own listener on {listener}; write the application's server"))
        }
        None => Ok(Upstream::Url(url)),
    }
}

/// Returns whether a name is `localhost` or below it, which are the loopback addresses (RFC 6761 §6.3).
fn is_localhost(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name == "localhost" || name.ends_with(".localhost")
}

/// Returns whether a connection to this address reaches one of these listeners of the same machine.
///
/// The kernel connects to a loopback address instead of an unspecified one. A listener on an unspecified
/// address accepts connections to every address of the machine, of which only the loopback addresses are
/// known here.
fn is_listener(address: SocketAddr, listeners: &[SocketAddr]) -> bool {
    let ip = address.ip().to_canonical();
    let is_local = ip.is_loopback() || ip.is_unspecified();
    listeners.iter().filter(|listener| listener.port() == address.port()).any(|listener| {
        let listener = listener.ip().to_canonical();
        // Of an unspecified address, the machine may have either kind.
        let accepts_any = listener.is_unspecified() || (ip.is_unspecified() && listener.is_loopback());
        listener == ip || (is_local && accepts_any)
    })
}

/// Parses a host name or IP address that a certificate can contain.
pub(super) fn certificate_name(text: &str) -> Result<String, String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(address.to_string());
    }
    if text.starts_with(WILDCARD) {
        return Err(format!(
            "{text:?} is a wildcard, which needs a certificate from files, because the authority verifies control over \
             single hosts only; leave it out, and add the certificate to server.tls"
        ));
    }
    let domain = host_name(text).is_ok() && !text.contains('_') && matches!(Host::parse(text), Ok(Host::Domain(_)));
    let problem = || format!("{text:?} cannot be in a certificate; write a host name or an IP address, without a port");
    domain.then(|| text.to_owned()).ok_or_else(problem)
}

fn origin(text: &str) -> Result<Url, String> {
    let allowed = "write scheme, host and port only, such as \"http://127.0.0.1:8081\"";
    let url = Url::parse(text).map_err(|error| format!("{text:?} is not a URL ({error}); {allowed}"))?;
    let spelled = ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme));
    if !spelled || url.host_str().is_none_or(str::is_empty) {
        return Err(format!("{text:?} is not http:// or https:// with a host; {allowed}"));
    }
    let bare = url.username().is_empty() && url.password().is_none() && !text.contains('@');
    if !bare || url.path() != "/" || text.contains(['?', '#', '\\']) {
        return Err(format!("{text:?} has other parts; {allowed}"));
    }
    Ok(url)
}

/// Parses the path of a rule, which must be in the canonical form that request paths are converted
/// to.
pub(super) fn route_path(text: &str) -> Result<String, String> {
    let problem = |what: &str| Err(format!("{text:?} {what}"));
    if !text.starts_with('/') {
        return problem("does not start with /; write, for example, \"/api/\"");
    }
    if text.contains("//") {
        return problem("has an empty segment; write single slashes");
    }
    if text.split('/').any(|part| part == "." || part == "..") {
        return problem("has a dot segment; write the path that it resolves to");
    }
    if text.contains('*') {
        return problem("has a *, which is not a wildcard; end the path with / to cover every path below it");
    }
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~!$&'()+,=:@".contains(&byte);
    if !text.bytes().all(is_valid) {
        return problem("has a character that a route cannot have; write letters, digits and -._~!$&'()+,=:@/");
    }
    Ok(text.to_owned())
}

/// Parses the path that replaces the path of a route at the upstream.
pub(super) fn upstream_path(text: &str) -> Result<String, String> {
    let path = route_path(text)?;
    if path.ends_with('/') {
        Ok(path)
    } else {
        Err(format!("{text:?} does not end in /; write \"{text}/\", because it replaces the start of longer paths"))
    }
}

/// Parses a method. Methods are case-sensitive (RFC 9110 §9.1).
pub(super) fn method(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > 32 || !text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-') {
        return Err(format!("{text:?} is not a method; write, for example, \"GET\" or \"POST\""));
    }
    if text == "CONNECT" || text == "TRACE" {
        return Err(format!("{text} is never forwarded to an application; leave it out"));
    }
    Ok(text.to_owned())
}

/// Parses an origin in the form of an `Origin` header.
pub(super) fn web_origin(text: &str) -> Result<String, String> {
    if text == "*" {
        return Err("\"*\" would allow every website; write the origins that you trust with users' sessions".to_owned());
    }
    let url = origin(text)?;
    let written = format!("{}://{}", url.scheme(), authority(&url));
    if written == text {
        Ok(written)
    } else {
        Err(format!("{text:?} is not the form that browsers send; write {written:?}"))
    }
}

/// Parses a word without blanks and quotation marks, so that it can be part of a challenge (RFC
/// 9110 §11.6).
pub(super) fn word(text: &str) -> Result<String, String> {
    let is_valid = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
    if text.is_empty() || text.len() > 128 || !text.bytes().all(is_valid) {
        return Err(format!(
            "{text:?} has invalid characters or an invalid length; write 1 to 128 visible ASCII characters \
             without quotation marks"
        ));
    }
    Ok(text.to_owned())
}

pub(super) const MINUTE: u64 = 60;
pub(super) const HOUR: u64 = 60 * MINUTE;
pub(super) const DAY: u64 = 24 * HOUR;
/// Parses the name of a signature algorithm.
pub(super) fn algorithm(text: &str) -> Result<Algorithm, String> {
    Algorithm::parse(text)
        .ok_or_else(|| format!("{text:?} is not supported; write \"RS256\", \"PS256\", \"ES256\" or \"EdDSA\""))
}
