//! Who sent a request, as far as it can be known: made once at the edge, carried in the request's extensions.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};

use http::request::Parts;

/// Where a request came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The client's address; behind a trusted proxy the one that the proxy names.
    pub address: IpAddr,
    /// Who opened the connection that the request came on: the client, or a proxy before us.
    pub peer: IpAddr,
    /// Whether the client came over TLS, to us or to a trusted proxy.
    pub secure: bool,
    /// Names the request in logs, answers and towards the application.
    pub request_id: String,
}

impl Origin {
    /// What the edge knows of who sent this request.
    pub fn of(head: &Parts) -> Cow<'_, Self> {
        head.extensions.get::<Self>().map_or_else(|| Cow::Owned(Self::unknown()), Cow::Borrowed)
    }

    /// Of a request of which nothing is known.
    pub const fn unknown() -> Self {
        let nowhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Self { address: nowhere, peer: nowhere, secure: false, request_id: String::new() }
    }

    /// The client's address as text. The standard library writes one of IPv4 by its general formatter, at the price of a gate's
    /// decision.
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

/// Stands in the extensions of a request that is asked about again while its exchange is open: nobody sent it anew, so it
/// counts as no use of a session and as no decision.
#[derive(Debug, Clone, Copy)]
pub struct Again;

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
        fn so_is_one_with_short_numbers(octets in prop::array::uniform4(0..=110_u8)) {
            let address = IpAddr::from(octets);
            prop_assert_eq!(text(address), address.to_string());
        }
    }
}
