//! Network origin of a request. The edge determines the origin once, and stores it in the request's
//! extensions.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};

use http::request::Parts;

/// Network origin of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Address of the client. Behind a trusted proxy, the address that the proxy reports.
    pub address: IpAddr,
    /// Whether `address` is the address of the client. Otherwise it is the address of a trusted
    /// proxy that reported no valid client address.
    pub is_address_known: bool,
    /// Address of the connection's peer: the client, or a proxy in front of the server.
    pub peer: IpAddr,
    /// Whether the client used TLS, to this server or to the trusted proxy.
    pub secure: bool,
    /// Id of the request. The log, the response and the forwarded request contain it.
    pub request_id: String,
}

impl Origin {
    /// Returns the origin that the edge stored for this request.
    pub fn from_head(head: &Parts) -> Cow<'_, Self> {
        head.extensions.get::<Self>().map_or_else(|| Cow::Owned(Self::unknown()), Cow::Borrowed)
    }

    /// Returns a placeholder for a request of unknown origin.
    pub const fn unknown() -> Self {
        let nowhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Self { address: nowhere, is_address_known: true, peer: nowhere, secure: false, request_id: String::new() }
    }

    /// Returns the client's address, or `None` if the address is not known.
    pub fn known_address(&self) -> Option<IpAddr> {
        self.is_address_known.then_some(self.address)
    }

    /// Returns the client's address as text.
    ///
    /// IPv4 addresses are formatted here, because the formatter of the standard library takes as
    /// long as a whole decision of the gateway.
    pub fn address_text(&self) -> String {
        let IpAddr::V4(address) = self.address else { return self.address.to_string() };
        let mut text = String::with_capacity(15);
        for (place, number) in address.octets().into_iter().enumerate() {
            if place > 0 {
                text.push('.');
            }
            for divisor in [100, 10, 1] {
                if number >= divisor || divisor == 1 {
                    text.push(char::from(b'0' + number / divisor % 10));
                }
            }
        }
        text
    }
}

/// Request extension that marks the check of an exchange in progress.
///
/// The client has sent no new request. So the check counts neither as a use of the session nor as a
/// decision in the metrics.
#[derive(Debug, Clone, Copy)]
pub struct Reauthorization;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(address: IpAddr) -> String {
        Origin { address, ..Origin::unknown() }.address_text()
    }

    proptest! {
        #[test]
        fn an_address_is_written_as_the_standard_library_writes_it(address: IpAddr) {
            prop_assert_eq!(text(address), address.to_string());
        }

        #[test]
        fn addresses_with_short_numbers_are_formatted_too(octets in prop::array::uniform4(0..=110_u8)) {
            let address = IpAddr::from(octets);
            prop_assert_eq!(text(address), address.to_string());
        }
    }
}
