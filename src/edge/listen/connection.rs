//! TCP connection of a client, as a Pingora stream.
//!
//! A connection counts towards the quota until it is closed. Writing fails if the peer reads
//! nothing for too long. When a connection has unread input and is closed, some of that input is
//! read first. Otherwise the kernel would send a reset, which can overtake the response.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::protocols::{
    GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl, TimingDigest, UniqueID,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep, timeout_at};

use super::quota::ConnectionPermit;
use super::write_buffer::WriteBuffer;

/// Size of the write buffer, in bytes. A response head and a small body fit into one packet.
pub(crate) const WRITE_BUFFER: usize = 4096;
/// Maximum time for reading the remaining input of a closed connection.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of bytes of the remaining input that are read.
const LINGER_BYTES: usize = 1024 * 1024;

pub(crate) struct Connection {
    /// `None` only while the connection is being dropped.
    io: Option<WriteBuffer<TcpStream>>,
    /// Bytes that were read and then put back.
    unread: Vec<u8>,
    socket: Arc<SocketDigest>,
    id: i32,
    write_timeout: Duration,
    stall: Option<Pin<Box<Sleep>>>,
    ended: bool,
    ticket: Option<ConnectionPermit>,
}

impl Connection {
    /// Creates a connection.
    ///
    /// `write_timeout` is the maximum time in which the peer accepts no byte. `buffer` is the size
    /// of the write buffer in bytes: 0 if TLS is used, because [`super::buffered_tls`] then has the
    /// buffer.
    pub(crate) fn new(
        io: TcpStream,
        peer: SocketAddr,
        ticket: ConnectionPermit,
        write_timeout: Duration,
        buffer: usize,
    ) -> Self {
        let id = io.as_raw_fd();
        let socket = SocketDigest::from_raw_fd(id);
        let _ = socket.peer_addr.set(Some(peer.into()));
        let io = Some(WriteBuffer::new(buffer, io));
        Self {
            io,
            unread: Vec::new(),
            socket: Arc::new(socket),
            id,
            write_timeout,
            stall: None,
            ended: false,
            ticket: Some(ticket),
        }
    }

    /// Puts bytes back, so that the next read returns them. The caller must not call this function
    /// again before these bytes were read.
    pub(super) fn unread(&mut self, bytes: Vec<u8>) {
        self.unread = bytes;
    }

    fn io(&mut self) -> io::Result<Pin<&mut WriteBuffer<TcpStream>>> {
        self.io.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Returns the outcome of a write, or an error if the peer has accepted no byte for too long.
    fn unless_stalled<T>(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.stall = None;
            return outcome;
        }
        let write_timeout = self.write_timeout;
        let stall = self.stall.get_or_insert_with(|| Box::pin(sleep(write_timeout)));
        ready!(stall.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.unread.is_empty() {
            let length = self.unread.len().min(buf.remaining());
            buf.put_slice(&self.unread[..length]);
            self.unread.drain(..length);
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        let outcome = self.io()?.poll_read(cx, buf);
        // An exchange that waits for input has nothing more to write at the moment, so the buffer
        // is flushed. Otherwise Pingora would flush a head with `Content-Length` only at the end of
        // the body, possibly seconds later.
        if outcome.is_pending()
            && self.io.as_ref().is_some_and(|io| !io.is_empty())
            && let Poll::Ready(Err(error)) = self.as_mut().poll_flush(cx)
        {
            return Poll::Ready(Err(error));
        }
        let outcome = ready!(outcome);
        self.ended |= outcome.is_err() || buf.filled().len() == before;
        Poll::Ready(outcome)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = self.io()?.poll_write(cx, buf);
        self.unless_stalled(cx, outcome)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = self.io()?.poll_flush(cx);
        self.unless_stalled(cx, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = self.io()?.poll_shutdown(cx);
        self.unless_stalled(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = self.io()?.poll_write_vectored(cx, bufs);
        self.unless_stalled(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let (Some(io), Some(ticket)) = (self.io.take(), self.ticket.take()) else { return };
        let socket = io.into_inner();
        let unread = !self.ended && socket.try_read(&mut [0; 1]).is_ok_and(|read| read > 0);
        if unread && let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(linger(socket, ticket));
        }
    }
}

/// Shuts down the sending side, then reads the remaining input. Meanwhile, the connection counts
/// towards the quota.
async fn linger(mut socket: TcpStream, _ticket: ConnectionPermit) {
    let _ = socket.shutdown().await;
    let end = Instant::now() + LINGER_TIMEOUT;
    let (mut read, mut buffer) = (0, vec![0; 16 * 1024]);
    while read < LINGER_BYTES {
        match timeout_at(end, socket.read(&mut buffer)).await {
            Ok(Ok(bytes)) if bytes > 0 => read += bytes,
            _ => break,
        }
    }
}

#[async_trait]
impl Shutdown for Connection {
    async fn shutdown(&mut self) {
        let _ = AsyncWriteExt::shutdown(self).await;
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl UniqueID for Connection {
    fn id(&self) -> i32 {
        self.id
    }
}

impl Ssl for Connection {}
impl Peek for Connection {}

impl GetTimingDigest for Connection {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        Vec::new()
    }
}

impl GetProxyDigest for Connection {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        None
    }
}

impl GetSocketDigest for Connection {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        Some(Arc::clone(&self.socket))
    }
}

#[cfg(test)]
pub(in crate::listen) mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::Quota;

    pub(in crate::listen) async fn pair(write_timeout: Duration) -> (Connection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (socket, peer) = listener.accept().await.unwrap();
        let quota = Quota::new(1, 1, 1, Vec::new());
        let ticket = quota.admit(quota.wait_for_capacity().await, peer.ip()).unwrap();
        (Connection::new(socket, peer, ticket, write_timeout, WRITE_BUFFER), client)
    }

    #[tokio::test]
    async fn writing_to_a_peer_that_does_not_read_times_out() {
        let (mut connection, _client) = pair(Duration::from_millis(100)).await;
        let piece = vec![0; 1 << 20];
        let error = loop {
            if let Err(error) = connection.write_all(&piece).await {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn small_writes_are_sent_together() {
        let (mut connection, mut client) = pair(Duration::from_secs(5)).await;
        connection.write_all(b"head").await.unwrap();
        connection.write_all(b"body").await.unwrap();
        connection.flush().await.unwrap();
        let mut read = [0; 64];
        assert_eq!(client.read(&mut read).await.unwrap(), 8);
    }

    #[tokio::test]
    async fn a_sending_peer_reads_the_response_instead_of_a_reset() {
        let (mut connection, mut client) = pair(Duration::from_secs(5)).await;
        client.write_all(&[b'x'; 1000]).await.unwrap();
        connection.read_exact(&mut [0; 10]).await.unwrap();
        connection.write_all(b"last words").await.unwrap();
        connection.flush().await.unwrap();
        drop(connection);
        sleep(Duration::from_millis(50)).await;
        client.write_all(&[b'x'; 1000]).await.unwrap();
        let mut read = Vec::new();
        client.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, b"last words");
    }
}
