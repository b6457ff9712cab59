//! Upstream connections that only one client connection uses.
//!
//! NTLM, and Negotiate as IIS implements it, authenticate a connection instead of a request. The
//! application serves all further requests on that connection as the user who signed in. With a
//! shared pool, these could be requests of another user. So after the first `Authorization` with
//! such a scheme, the client connection has its own upstream connection, which closes with it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use http::{HeaderMap, HeaderName};
use pingora::upstreams::peer::HttpPeer;

use super::handle::Handle;
use super::server::UpstreamServer;
use super::source::Address;

/// Schemes in `Authorization` and `WWW-Authenticate` that may authenticate the connection.
const CONNECTION_SCHEMES: [&[u8]; 4] = [b"ntlm", b"negotiate", b"kerberos", b"credssp"];

/// Returns whether this field contains a scheme that may authenticate the connection.
pub(crate) fn authenticates_connection(fields: &HeaderMap, name: &HeaderName) -> bool {
    fields.get_all(name).iter().any(|line| {
        let line = line.as_bytes();
        // A scheme is at the start of the line or after a comma. A token of a kilobyte has no comma.
        is_connection_scheme(line)
            || memchr::memchr_iter(b',', line).any(|comma| line.get(comma + 1..).is_some_and(is_connection_scheme))
    })
}

/// Returns whether the text begins with a scheme that may authenticate the connection.
fn is_connection_scheme(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    CONNECTION_SCHEMES.iter().any(|known| {
        text.split_at_checked(known.len()).is_some_and(|(scheme, rest)| {
            scheme.eq_ignore_ascii_case(known) && !rest.first().is_some_and(u8::is_ascii_alphanumeric)
        })
    })
}

/// Upstream connection that only one client connection uses. Dropping it closes the upstream
/// connection.
pub(crate) struct PinnedConnection {
    number: u64,
    open: Mutex<Option<OpenConnection>>,
}

struct OpenConnection {
    server: Address,
    handle: Handle,
}

impl PinnedConnection {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self { number: NEXT.fetch_add(1, Ordering::Relaxed), open: Mutex::default() }
    }

    /// Restricts the peer to this client's own connection. Pingora's pool uses the group as a part
    /// of its key.
    ///
    /// The lowest bit of the group remains unchanged: it separates upgraded connections.
    pub(crate) fn restrict(&self, peer: &mut HttpPeer) {
        peer.group_key ^= self.number << 1;
        // The connection closes with the client's connection, which has an idle timeout.
        peer.options.idle_timeout = None;
    }

    /// Stores a new upstream connection and closes the previous one.
    pub(crate) fn hold(&self, server: &UpstreamServer, handle: Handle) {
        let open = OpenConnection { server: server.address.clone(), handle };
        if let Some(before) = self.open.lock().unwrap_or_else(PoisonError::into_inner).replace(open) {
            before.handle.end();
        }
    }

    /// Returns the server of the upstream connection, if one is open.
    pub(super) fn server(&self) -> Option<Address> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.as_ref().map(|open| open.server.clone())
    }
}

impl Drop for PinnedConnection {
    fn drop(&mut self) {
        if let Some(open) = self.open.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            open.handle.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};

    use super::*;

    #[test]
    fn schemes_that_authenticate_the_connection_are_recognised() {
        for (value, expected) in [
            ("NTLM", true),
            ("ntlm TlRMTVNTUAAB", true),
            ("Negotiate", true),
            ("Basic realm=\"x\", NEGOTIATE", true),
            ("Kerberos YII=", true),
            ("CredSSP TlRM", true),
            ("Basic bnRsbQ==", false),
            ("Digest realm=\"ntlm\"", false),
            ("NTLMv2 x", false),
            ("Bearer negotiate", false),
            ("", false),
        ] {
            for name in [AUTHORIZATION, WWW_AUTHENTICATE] {
                let fields = HeaderMap::from_iter([(name.clone(), HeaderValue::from_static(value))]);
                assert_eq!(authenticates_connection(&fields, &name), expected, "{value:?}");
            }
        }
        let mut two = HeaderMap::from_iter([(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=x"))]);
        two.append(WWW_AUTHENTICATE, HeaderValue::from_static("NTLM"));
        assert!(authenticates_connection(&two, &WWW_AUTHENTICATE));
    }

    #[test]
    fn each_pinned_connection_has_its_own_group() {
        let group = |pin: &PinnedConnection, key| {
            let mut peer = HttpPeer::new("127.0.0.1:1", false, String::new());
            peer.group_key = key;
            pin.restrict(&mut peer);
            peer.group_key
        };
        let (one, other) = (PinnedConnection::new(), PinnedConnection::new());
        assert_ne!(group(&one, 0), 0);
        assert_ne!(group(&one, 0), group(&other, 0));
        assert_eq!((group(&one, 0) & 1, group(&one, 1) & 1), (0, 1), "upgrades stay apart");
    }
}
