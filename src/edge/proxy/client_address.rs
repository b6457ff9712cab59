//! Address of the client behind trusted proxies.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use http::{HeaderMap, HeaderName};
use ipnet::IpNet;
use pingora::protocols::http::ServerSession;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

pub(crate) fn peer(session: &ServerSession) -> IpAddr {
    let peer = session.client_addr().and_then(|address| address.as_inet()).map(SocketAddr::ip);
    peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
}

/// Client behind trusted proxies.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ForwardedClient {
    pub(crate) address: IpAddr,
    /// Whether the address is the client's, and not that of a proxy that reported none.
    pub(crate) is_known: bool,
    /// Whether the client uses TLS.
    pub(crate) secure: bool,
}

/// Returns the client's address and whether the client uses TLS.
///
/// `peer` is the address of the connection, and `own_tls` whether the connection uses TLS. Any
/// client can send `X-Forwarded-For` and `X-Forwarded-Proto`, so they are used only if `peer` is
/// trusted.
///
/// Each proxy appends the address of its own client to `X-Forwarded-For`. So the list is read from
/// the right, up to the first address that is not trusted. Addresses to the left of it are
/// unverified. If all addresses are trusted, the leftmost is the client. If an address that must be
/// read is invalid, `peer` is returned.
///
/// `X-Forwarded-Proto` is read from the right too. The element of the proxy that the client
/// connected to counts, or the first element if the list is too short. `ws` and `wss` mean `http`
/// and `https`.
pub(crate) fn client_address(peer: IpAddr, own_tls: bool, headers: &HeaderMap, trusted: &[IpNet]) -> ForwardedClient {
    let peer = peer.to_canonical();
    let is_trusted = |address: &IpAddr| trusted.iter().any(|net| net.contains(address));
    if !is_trusted(&peer) {
        return ForwardedClient { address: peer, is_known: true, secure: own_tls };
    }
    let mut address = peer;
    let lines = headers.get_all(FORWARDED_FOR).iter();
    let mut hops = 0;
    'walk: for line in lines.rev() {
        // Read as bytes: otherwise a client could send a non-ASCII element, which would make the
        // whole list invalid and hide the client behind the proxy's address.
        for hop in line.as_bytes().rsplit(|byte| *byte == b',') {
            if !is_trusted(&address) {
                break 'walk;
            }
            hops += 1;
            match str::from_utf8(hop).ok().and_then(|hop| hop_address(hop.trim_matches([' ', '\t']))) {
                Some(hop) => address = hop,
                None => {
                    return ForwardedClient { address: peer, is_known: false, secure: secure(own_tls, headers, 1) };
                }
            }
        }
    }
    ForwardedClient { address, is_known: hops > 0, secure: secure(own_tls, headers, hops) }
}

/// Parses an element of `X-Forwarded-For`: an address, to which some proxies add a port or the zone
/// of a link-local address (RFC 4007 §11).
fn hop_address(text: &str) -> Option<IpAddr> {
    if let Some((address, _zone)) = text.split_once('%') {
        return address.trim_start_matches('[').parse().ok().map(IpAddr::V6);
    }
    let address = text.parse::<IpAddr>().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|socket| socket.ip()));
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok().map(IpAddr::V6);
    address.or_else(bracketed).map(|address| address.to_canonical())
}

/// Returns whether the client used TLS to the proxy that is `hops` hops away. The trusted peer is
/// one hop away.
fn secure(own_tls: bool, headers: &HeaderMap, hops: usize) -> bool {
    let lines = headers.get_all(FORWARDED_PROTO).iter().rev();
    let elements = lines.flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b','));
    let Some(scheme) = elements.take(hops.max(1)).last().map(<[u8]>::trim_ascii) else { return own_tls };
    let is_any_of = |schemes: [&[u8]; 2]| schemes.iter().any(|known| scheme.eq_ignore_ascii_case(known));
    if is_any_of([b"https", b"wss"]) {
        true
    } else if is_any_of([b"http", b"ws"]) {
        false
    } else {
        own_tls
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn nets() -> Vec<IpNet> {
        vec!["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()]
    }

    fn headers(lines: &[&str]) -> HeaderMap {
        lines.iter().map(|line| (FORWARDED_FOR, HeaderValue::from_str(line).unwrap())).collect()
    }

    fn client(peer: &str, lines: &[&str]) -> String {
        client_address(peer.parse().unwrap(), false, &headers(lines), &nets()).address.to_string()
    }

    #[test]
    fn x_forwarded_for_of_an_untrusted_peer_is_ignored() {
        assert_eq!(client("192.0.2.1", &["198.51.100.7"]), "192.0.2.1");
    }

    #[test]
    fn the_right_most_untrusted_address_is_the_client() {
        assert_eq!(client("10.0.0.1", &["203.0.113.9, 198.51.100.7, 10.2.2.2"]), "198.51.100.7");
    }

    #[test]
    fn several_lines_are_one_list() {
        assert_eq!(client("10.0.0.1", &["203.0.113.9", "198.51.100.7", "10.2.2.2"]), "198.51.100.7");
    }

    #[test]
    fn a_client_inside_the_trusted_network_is_the_left_most() {
        assert_eq!(client("10.0.0.1", &["10.3.3.3, 10.2.2.2"]), "10.3.3.3");
    }

    #[test]
    fn ports_brackets_and_mapped_addresses_are_read() {
        assert_eq!(client("10.0.0.1", &["198.51.100.7:4711"]), "198.51.100.7");
        assert_eq!(client("10.0.0.1", &["[2001:db8::1]:4711"]), "2001:db8::1");
        assert_eq!(client("10.0.0.1", &["[2001:db8::1]"]), "2001:db8::1");
        assert_eq!(client("::ffff:10.0.0.1", &["::ffff:198.51.100.7"]), "198.51.100.7");
    }

    #[test]
    fn a_malformed_list_yields_the_peers_address() {
        for list in ["unknown", "", "198.51.100.7,", "198.51.100.7, 10.0.0.x", "_hidden", "1.2.3.4.5"] {
            assert_eq!(client("10.0.0.1", &[list]), "10.0.0.1", "{list:?}");
        }
    }

    #[test]
    fn forwarded_headers_of_untrusted_peers_are_ignored() {
        assert_eq!(client("10.0.0.1", &["rubbish, 198.51.100.7"]), "198.51.100.7");
    }

    #[test]
    fn invalid_bytes_do_not_hide_the_client() {
        for claim in [&b"\xff"[..], b"\xff\xfe, \xc5\x9f", b"\xff,", b"10.0.0.9\xff", b"\x80 10.0.0.9"] {
            let list = [claim, b", 198.51.100.7, 10.2.2.2"].concat();
            let one = HeaderMap::from_iter([(FORWARDED_FOR, HeaderValue::from_bytes(&list).unwrap())]);
            let mut two = HeaderMap::from_iter([(FORWARDED_FOR, HeaderValue::from_bytes(claim).unwrap())]);
            two.append(FORWARDED_FOR, HeaderValue::from_static("198.51.100.7"));
            for headers in [one, two] {
                let ForwardedClient { address, .. } =
                    client_address("10.0.0.1".parse().unwrap(), false, &headers, &nets());
                assert_eq!(address.to_string(), "198.51.100.7", "{claim:?}");
            }
        }
    }

    #[test]
    fn the_scheme_of_a_trusted_proxy_counts() {
        let proto = |value: &'static str| HeaderMap::from_iter([(FORWARDED_PROTO, HeaderValue::from_static(value))]);
        let secure = |peer: &str, own, value| client_address(peer.parse().unwrap(), own, &proto(value), &nets()).secure;
        assert!(secure("10.0.0.1", false, "https"));
        assert!(!secure("10.0.0.1", true, "http"));
        assert!(!secure("10.0.0.1", false, "https, http"), "a list is read from the right");
        assert!(secure("10.0.0.1", false, "http, https"));
        assert!(secure("10.0.0.1", false, "WSS") && !secure("10.0.0.1", true, "ws"));
        assert!(secure("10.0.0.1", true, "gopher") && !secure("10.0.0.1", false, ""));
        assert!(!secure("192.0.2.1", false, "https"));
        assert!(secure("192.0.2.1", true, "http"));
    }

    #[test]
    fn the_scheme_of_the_proxy_next_to_the_client_counts() {
        let secure = |hops: &'static str, schemes: &'static str| {
            let fields = [(FORWARDED_FOR, hops), (FORWARDED_PROTO, schemes)];
            let fields = fields.map(|(name, value)| (name, HeaderValue::from_static(value)));
            client_address("10.0.0.1".parse().unwrap(), false, &HeaderMap::from_iter(fields), &nets()).secure
        };
        assert!(secure("198.51.100.7, 10.2.2.2", "https, http"));
        assert!(!secure("198.51.100.7, 10.2.2.2", "http, https"));
        assert!(secure("198.51.100.7, 10.2.2.2", "https"), "the nearest proxy passes it on as it came");
        assert!(!secure("203.0.113.9, 198.51.100.7", "https, http"), "what the client has claimed does not count");
    }

    fn any_address() -> impl Strategy<Value = IpAddr> {
        prop_oneof![
            any::<u32>().prop_map(|bits| IpAddr::V4(bits.into())),
            any::<u128>().prop_map(|bits| IpAddr::V6(bits.into())),
            (0_u32..1 << 24).prop_map(|low| IpAddr::V4((0x0a00_0000 | low).into())),
        ]
    }

    proptest! {
        #[test]
        fn an_untrusted_peer_is_always_the_client(peer in any_address(), list in "[ -~]{0,60}") {
            let peer = peer.to_canonical();
            prop_assume!(!nets().iter().any(|net| net.contains(&peer)));
            let ForwardedClient { address, secure, .. } = client_address(peer, true, &headers(&[&list]), &nets());
            prop_assert_eq!(address, peer);
            prop_assert!(secure);
        }

        #[test]
        fn elements_left_of_the_client_are_ignored(
            claims in "[ -~]{0,40}", client in any_address(), proxies in prop::collection::vec(0_u32..1 << 24, 0..4),
        ) {
            let client = client.to_canonical();
            prop_assume!(!nets().iter().any(|net| net.contains(&client)));
            let mut list = format!("{claims},{client}");
            for low in proxies {
                list = format!("{list}, {}", IpAddr::V4((0x0a00_0000 | low).into()));
            }
            let peer: IpAddr = "10.0.0.1".parse().unwrap();
            prop_assert_eq!(client_address(peer, false, &headers(&[&list]), &nets()).address, client);
        }

        #[test]
        fn the_result_is_the_peer_or_an_element_of_the_list(
            peer in any_address(), hops in prop::collection::vec(any_address(), 0..6), rubbish in "[ -~]{0,8}", at in 0_usize..7,
        ) {
            let mut elements: Vec<String> = hops.iter().map(ToString::to_string).collect();
            elements.insert(at.min(elements.len()), rubbish);
            let list = elements.join(", ");
            let ForwardedClient { address, .. } = client_address(peer, false, &headers(&[&list]), &nets());
            let named = elements.iter().any(|element| hop_address(element.trim()) == Some(address));
            prop_assert!(address == peer.to_canonical() || named);
        }
    }
}
