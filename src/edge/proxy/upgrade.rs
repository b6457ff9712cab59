//! Connections to upstreams for requests that ask to switch protocols (`WebSocket`).
//!
//! Pingora 0.9.1 closes such a connection if it reads the upstream's 101 before the end of the
//! request's own, empty body (cloudflare/pingora#946). With a fast upstream nearby this happens
//! often. Pingora waits for both in one `select!`, and the end of the body is always ready first.
//! So it suffices that the first read after a write yields once.

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
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

#[derive(Debug)]
pub(crate) struct UpgradeConnector {
    /// Maximum time for connecting.
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
        Ok(Stream::from(VirtualSocketStream::new(Box::new(TurnTaking { socket, has_written: false }))))
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

/// A socket whose first read after a write yields once.
#[derive(Debug)]
struct TurnTaking {
    socket: Socket,
    has_written: bool,
}

impl VirtualSocket for TurnTaking {
    fn set_socket_option(&self, option: VirtualSockOpt) -> io::Result<()> {
        match (&self.socket, option) {
            (Socket::Tcp(socket), VirtualSockOpt::NoDelay) => socket.set_nodelay(true),
            // The peers of this proxy set no other options.
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
        self.socket.pin().poll_read(cx, buf)
    }
}

impl AsyncWrite for TurnTaking {
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
