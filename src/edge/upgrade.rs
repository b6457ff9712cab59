//! Connections to upstreams for requests that ask to switch protocols (`WebSocket`).
//!
//! Pingora 0.9.1 ends such a connection at once when it happens to read the upstream's 101 before it has seen the end of
//! the request's own, empty body (cloudflare/pingora#946); an upstream that is near and fast hits this often. Both are
//! waited for in one `select!`, the body's end is always there first, and so it is enough that the first read after a
//! write lets the other side take its turn.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use pingora::connectors::l4::Connect;
use pingora::protocols::l4::socket::SocketAddr;
use pingora::protocols::l4::stream::Stream;
use pingora::protocols::l4::virt::{VirtualSockOpt, VirtualSocket, VirtualSocketStream};
use pingora::{Error, ErrorType, OrErr, Result};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Connects for an upgrade.
#[derive(Debug)]
pub(super) struct UpgradeConnector {
    /// The longest that a connection may take.
    pub(super) connect_timeout: Duration,
}

#[async_trait]
impl Connect for UpgradeConnector {
    async fn connect(&self, address: &SocketAddr) -> Result<Stream> {
        let address = address.as_inet().ok_or_else(|| Error::explain(ErrorType::ConnectError, "not an IP address"))?;
        let connected = timeout(self.connect_timeout, TcpStream::connect(address));
        let connected = connected.await.or_err(ErrorType::ConnectTimedout, "connecting for an upgrade")?;
        let socket = connected.or_err(ErrorType::ConnectRefused, "connecting for an upgrade")?;
        Ok(Stream::from(VirtualSocketStream::new(Box::new(TurnTaking { socket, has_written: false }))))
    }
}

/// A socket whose first read after a write waits for the next turn.
#[derive(Debug)]
struct TurnTaking {
    socket: TcpStream,
    has_written: bool,
}

impl VirtualSocket for TurnTaking {
    fn set_socket_option(&self, option: VirtualSockOpt) -> io::Result<()> {
        match option {
            VirtualSockOpt::NoDelay => self.socket.set_nodelay(true),
            // Our peers ask for nothing else.
            _ => Ok(()),
        }
    }
}

impl AsyncRead for TurnTaking {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if std::mem::take(&mut self.has_written) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Pin::new(&mut self.socket).poll_read(cx, buf)
    }
}

impl AsyncWrite for TurnTaking {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.has_written = true;
        Pin::new(&mut self.socket).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
