//! Name resolution that keeps requests for a public server out of private networks.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use http::Uri;
use ipnet::IpNet;
use ureq::Error;
use ureq::config::Config;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// Resolver for the documents of one issuer.
///
/// Only the issuer's own host, which the operator has configured, may have private addresses. Otherwise
/// the issuer's metadata could make this server send requests to internal services. The addresses of
/// the issuer's host change nothing about other hosts, because the issuer may control them.
///
/// A proxy of the environment resolves names itself, so its rules apply instead.
#[derive(Debug)]
pub(crate) struct GuardedResolver {
    resolver: DefaultResolver,
    /// Host of the issuer, as in a URL.
    host: String,
}

/// A host other than the issuer's has an address in a private network.
#[derive(Debug)]
struct PrivateAddress(IpAddr);

impl fmt::Display for PrivateAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the address {} is private, which only the host of the issuer may have; have the provider's metadata name \
             that host",
            self.0
        )
    }
}

impl std::error::Error for PrivateAddress {}

impl GuardedResolver {
    pub(crate) fn new(host: &str) -> Self {
        let host = host.to_ascii_lowercase();
        Self { resolver: DefaultResolver::default(), host }
    }

    /// Checks the addresses of a host.
    fn check(&self, host: &str, addresses: &[IpAddr]) -> Result<(), PrivateAddress> {
        if host.eq_ignore_ascii_case(&self.host) {
            return Ok(());
        }
        match addresses.iter().find(|address| !is_public(**address)) {
            Some(address) => Err(PrivateAddress(*address)),
            None => Ok(()),
        }
    }
}

impl Resolver for GuardedResolver {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let resolved = self.resolver.resolve(uri, config, timeout)?;
        let addresses: Vec<_> = resolved.iter().map(SocketAddr::ip).collect();
        self.check(uri.host().unwrap_or_default(), &addresses).map_err(|fault| Error::Other(Box::new(fault)))?;
        Ok(resolved)
    }
}

/// Resolver that accepts only public addresses, and addresses in listed networks.
///
/// The connection uses the addresses that this resolver returns, so a name cannot resolve to another
/// address afterwards.
#[derive(Debug, Default)]
pub(crate) struct PublicResolver {
    resolver: DefaultResolver,
    networks: Vec<IpNet>,
}

impl PublicResolver {
    /// Creates a resolver that also accepts addresses in these networks.
    pub(crate) fn with_networks(networks: &[IpNet]) -> Self {
        Self { resolver: DefaultResolver::default(), networks: networks.to_vec() }
    }

    fn accepts(&self, address: IpAddr) -> bool {
        is_public(address) || self.networks.iter().any(|network| network.contains(&address.to_canonical()))
    }
}

/// A host does not have public addresses only.
#[derive(Debug)]
struct NotPublic(IpAddr);

impl fmt::Display for NotPublic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the address {} is not public", self.0)
    }
}

impl std::error::Error for NotPublic {}

impl Resolver for PublicResolver {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let resolved = self.resolver.resolve(uri, config, timeout)?;
        match resolved.iter().map(SocketAddr::ip).find(|address| !self.accepts(*address)) {
            Some(address) => Err(Error::Other(Box::new(NotPublic(address)))),
            None => Ok(resolved),
        }
    }
}

/// Returns whether an address is reachable from the Internet (IANA special-purpose registries, RFC
/// 6890).
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_shared = a == 100 && (64..128).contains(&b);
    let is_protocol_assignment = (a, b, c) == (192, 0, 0);
    let is_benchmark = a == 198 && (b == 18 || b == 19);
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || a == 0
        || a >= 224
        || is_shared
        || is_protocol_assignment
        || is_benchmark)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    match segments {
        // NAT64 (RFC 6052) reaches the embedded IPv4 address.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            let [a, b] = high.to_be_bytes();
            let [c, d] = low.to_be_bytes();
            is_public_v4(Ipv4Addr::new(a, b, c, d))
        }
        [0x2001, 0xdb8, ..] => false,
        // Only 2000::/3 is allocated as global unicast.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn private_addresses_are_recognized() {
        for address in addresses(&["93.184.216.34", "1.1.1.1", "2606:4700::1111", "64:ff9b::1.1.1.1"]) {
            assert!(is_public(address), "{address}");
        }
        for address in addresses(&[
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "192.0.0.1",
            "192.0.2.1",
            "198.18.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "ff02::1",
            "2001:db8::1",
            "::ffff:10.0.0.1",
            "64:ff9b::10.0.0.1",
        ]) {
            assert!(!is_public(address), "{address}");
        }
    }

    #[test]
    fn only_the_host_of_the_issuer_may_have_private_addresses() {
        let resolver = GuardedResolver::new("op.test");
        assert!(resolver.check("keys.test", &addresses(&["10.0.0.1"])).is_err(), "before the issuer is resolved");
        assert!(resolver.check("OP.test", &addresses(&["1.1.1.1"])).is_ok());
        assert!(resolver.check("keys.test", &addresses(&["1.0.0.1"])).is_ok());
        assert!(resolver.check("keys.test", &addresses(&["1.0.0.1", "169.254.169.254"])).is_err());
        // The issuer controls its own name, so this changes nothing about other hosts.
        assert!(resolver.check("op.test", &addresses(&["1.1.1.1", "10.0.0.1"])).is_ok());
        assert!(resolver.check("op.test", &addresses(&["10.0.0.1"])).is_ok());
        assert!(resolver.check("keys.test", &addresses(&["10.0.0.2"])).is_err());
    }

    #[test]
    fn a_public_resolver_accepts_no_other_address() {
        let resolve = |uri: &str| {
            let uri: Uri = uri.parse().unwrap();
            PublicResolver::default().resolve(&uri, &Config::default(), NextTimeout::default())
        };
        for uri in [
            "https://127.0.0.1/x",
            "https://localhost/x",
            "https://10.0.0.1/x",
            "https://169.254.169.254/x",
            "https://[::1]/x",
            "https://[fe80::1]/x",
            "https://[::ffff:10.0.0.1]/x",
        ] {
            assert!(resolve(uri).unwrap_err().to_string().contains("is not public"), "{uri}");
        }
        assert!(resolve("https://1.1.1.1/x").is_ok());
        let networks = ["10.0.0.0/8", "::1/128"].map(|network| network.parse().unwrap());
        let resolver = PublicResolver::with_networks(&networks);
        for (uri, is_accepted) in [
            ("https://10.1.2.3/x", true),
            ("https://[::ffff:10.0.0.1]/x", true),
            ("https://[::1]/x", true),
            ("https://1.1.1.1/x", true),
            ("https://127.0.0.1/x", false),
            ("https://192.168.0.1/x", false),
            ("https://169.254.169.254/x", false),
        ] {
            let outcome = resolver.resolve(&uri.parse().unwrap(), &Config::default(), NextTimeout::default());
            assert_eq!(outcome.is_ok(), is_accepted, "{uri}");
        }
    }

    #[test]
    fn a_request_to_a_private_address_is_refused_before_it_connects() {
        let resolver = GuardedResolver::new("op.test");
        let uri: Uri = "http://127.0.0.1:9/".parse().unwrap();
        let outcome = resolver.resolve(&uri, &Config::default(), NextTimeout::default());
        assert!(outcome.unwrap_err().to_string().contains("127.0.0.1 is private"));
        let resolver = GuardedResolver::new("127.0.0.1");
        assert!(resolver.resolve(&uri, &Config::default(), NextTimeout::default()).is_ok());
    }
}
