//! Recognition of `WebSocket` handshakes, and connections to upstreams for them.
//!
//! An upgraded connection has an upstream connection of its own, and by default a timeout of an
//! hour instead of a minute. So only a valid handshake is upgraded, not every request with
//! `Upgrade`.
//!
//! Pingora 0.9.1 has a bug: it closes the connection if it reads the upstream's 101 before the end
//! of the request's own, empty body (cloudflare/pingora#946). A fast upstream often causes that.
//! Pingora waits for both in one `select!`, and the end of the body is always ready first. So it is
//! enough that the first read after a write yields once.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONNECTION, HeaderName, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::{HeaderMap, Method, Version, request};
use pingora::connectors::l4::Connect;
use pingora::protocols::l4::socket::SocketAddr;
use pingora::protocols::l4::stream::Stream;
use pingora::protocols::l4::virt::{VirtualSockOpt, VirtualSocket, VirtualSocketStream};
use pingora::{Error, ErrorType, OrErr, Result};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

#[derive(Debug)]
pub(crate) struct UpgradeConnector {
    /// Maximum time for connecting to an upstream.
    pub(crate) connect_timeout: Duration,
}

#[async_trait]
impl Connect for UpgradeConnector {
    async fn connect(&self, address: &SocketAddr) -> Result<Stream> {
        let socket = match (address.as_inet(), address.as_unix().and_then(|address| address.as_pathname())) {
            (Some(address), _) => Socket::Tcp(self.connected(TcpStream::connect(address)).await?),
            (None, Some(path)) => Socket::Unix(self.connected(UnixStream::connect(path)).await?),
            (None, None) => return Error::e_explain(ErrorType::ConnectError, "neither an IP address nor a path"),
        };
        Ok(Stream::from(VirtualSocketStream::new(Box::new(YieldingSocket { socket, has_written: false }))))
    }
}

impl UpgradeConnector {
    async fn connected<S>(&self, connecting: impl Future<Output = io::Result<S>>) -> Result<S> {
        let connected = timeout(self.connect_timeout, connecting).await;
        let connected = connected.or_err(ErrorType::ConnectTimedout, "cannot connect for an upgrade")?;
        connected.or_err(ErrorType::ConnectRefused, "cannot connect for an upgrade")
    }
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

trait Duplex: AsyncRead + AsyncWrite + Unpin {}

impl Duplex for TcpStream {}
impl Duplex for UnixStream {}

impl Socket {
    fn pin(&mut self) -> Pin<&mut dyn Duplex> {
        match self {
            Self::Tcp(socket) => Pin::new(socket),
            Self::Unix(socket) => Pin::new(socket),
        }
    }
}

/// Socket whose first read after a write yields once.
#[derive(Debug)]
struct YieldingSocket {
    socket: Socket,
    has_written: bool,
}

impl VirtualSocket for YieldingSocket {
    fn set_socket_option(&self, option: VirtualSockOpt) -> io::Result<()> {
        match (&self.socket, option) {
            (Socket::Tcp(socket), VirtualSockOpt::NoDelay) => socket.set_nodelay(true),
            // The proxy sets no other options.
            _ => Ok(()),
        }
    }
}

impl AsyncRead for YieldingSocket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if std::mem::take(&mut self.has_written) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.socket.pin().poll_read(cx, buf)
    }
}

impl AsyncWrite for YieldingSocket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.has_written = true;
        self.socket.pin().poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.pin().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.pin().poll_shutdown(cx)
    }
}

/// Returns whether this head is a valid handshake of a client (RFC 6455 §4.1).
pub(crate) fn is_handshake(head: &request::Parts) -> bool {
    let headers = &head.headers;
    head.method == Method::GET
        && head.version == Version::HTTP_11
        && only_value(headers, &UPGRADE).is_some_and(|value| value.eq_ignore_ascii_case(b"websocket"))
        && list_contains(headers, &CONNECTION, b"upgrade")
        && only_value(headers, &SEC_WEBSOCKET_VERSION) == Some(b"13")
        && only_value(headers, &SEC_WEBSOCKET_KEY).is_some_and(is_key)
}

/// Returns whether the value is the base64 form of 16 bytes.
fn is_key(value: &[u8]) -> bool {
    STANDARD.decode(value).is_ok_and(|bytes| bytes.len() == 16)
}

/// Returns the value of a field that is present exactly once.
fn only_value<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h [u8]> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    values.next().is_none().then(|| first.as_bytes().trim_ascii())
}

/// Returns whether a list field contains this element.
fn list_contains(headers: &HeaderMap, name: &HeaderName, member: &[u8]) -> bool {
    let lines = headers.get_all(name).iter();
    lines
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b','))
        .any(|one| one.trim_ascii().eq_ignore_ascii_case(member))
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    const VALID: [(&str, &str); 4] = [
        ("upgrade", "websocket"),
        ("connection", "keep-alive, Upgrade"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];

    fn head(method: &str, version: Version, fields: &[(&str, &str)]) -> request::Parts {
        let mut request = Request::builder().method(method).version(version).uri("/");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_valid_handshake_is_recognized() {
        assert!(is_handshake(&head("GET", Version::HTTP_11, &VALID)));
        let mut shouted = VALID;
        shouted[0].1 = "WebSocket";
        assert!(is_handshake(&head("GET", Version::HTTP_11, &shouted)));
    }

    #[test]
    fn missing_or_repeated_fields_are_no_handshake() {
        for left_out in 0..VALID.len() {
            let fields: Vec<_> =
                VALID.iter().enumerate().filter(|(index, _)| *index != left_out).map(|(_, field)| *field).collect();
            assert!(!is_handshake(&head("GET", Version::HTTP_11, &fields)), "{fields:?}");
        }
        for more in [("upgrade", "h2c"), ("sec-websocket-key", VALID[3].1), ("sec-websocket-version", "13")] {
            let fields = [&VALID[..], &[more]].concat();
            assert!(!is_handshake(&head("GET", Version::HTTP_11, &fields)), "{more:?}");
        }
    }

    #[test]
    fn other_methods_versions_or_values_are_no_handshake() {
        assert!(!is_handshake(&head("POST", Version::HTTP_11, &VALID)));
        assert!(!is_handshake(&head("GET", Version::HTTP_10, &VALID)));
        assert!(!is_handshake(&head("GET", Version::HTTP_2, &VALID)));
        for (index, value) in [
            (0, "anything"),
            (0, "websocket, h2c"),
            (1, "keep-alive"),
            (1, "x-upgrade"),
            (2, "12"),
            (3, "dGhlIHNhbXBsZSBub25jZQ"),
            (3, "c2hvcnQ="),
            (3, ""),
        ] {
            let mut fields = VALID;
            fields[index].1 = value;
            assert!(!is_handshake(&head("GET", Version::HTTP_11, &fields)), "{value:?}");
        }
    }
}
