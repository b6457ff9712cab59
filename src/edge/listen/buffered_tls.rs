//! Write buffer on top of TLS.
//!
//! With the buffer, a response head and a small body are encrypted as one record. Over HTTP/2, the
//! responses of several streams are sent in one record, with one system call.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_trait::async_trait;
use bytes::{Buf, BytesMut};
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::protocols::tls::{SslDigest, TlsRef};
use pingora::protocols::{
    ALPN, GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl, Stream, TimingDigest,
    UniqueID,
};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use super::connection::WRITE_BUFFER;
use super::write_buffer::WriteBuffer;

/// Size of the write buffer for HTTP/2, in bytes: the maximum length of a TLS record (RFC 8446
/// §5.1).
const HTTP2_BUFFER: usize = 16 * 1024;

/// A TLS stream, with a write buffer for its plaintext.
#[derive(Debug)]
pub(crate) struct BufferedTlsStream {
    /// Bytes that were already read from the stream. Reading returns them first.
    read_ahead: BytesMut,
    io: WriteBuffer<Stream>,
    /// Whether several exchanges share the stream (HTTP/2).
    is_multiplexed: bool,
    /// Whether anything was written since the last `poll_flush`.
    has_new_data: bool,
}

impl BufferedTlsStream {
    /// Creates a stream for HTTP/1, which has one exchange after another.
    pub(crate) fn http1(stream: Stream) -> Self {
        let io = WriteBuffer::new(WRITE_BUFFER, stream);
        Self { read_ahead: BytesMut::new(), io, is_multiplexed: false, has_new_data: false }
    }

    /// Creates a stream for HTTP/2, which has concurrent exchanges. `read_ahead` was already read
    /// from the stream, and the next reads return it.
    pub(crate) fn http2(read_ahead: BytesMut, stream: Stream) -> Self {
        Self { read_ahead, io: WriteBuffer::new(HTTP2_BUFFER, stream), is_multiplexed: true, has_new_data: false }
    }
}

impl AsyncRead for BufferedTlsStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.read_ahead.is_empty() {
            let outcome = Pin::new(&mut self.io).poll_read(cx, buf);
            // An exchange that waits for input has nothing more to write, as in
            // [`super::connection`].
            if outcome.is_pending()
                && !self.is_multiplexed
                && !self.io.is_empty()
                && let Poll::Ready(Err(error)) = Pin::new(&mut self.io).poll_flush(cx)
            {
                return Poll::Ready(Err(error));
            }
            return outcome;
        }
        let length = self.read_ahead.len().min(buf.remaining());
        buf.put_slice(self.read_ahead.get(..length).unwrap_or_default());
        self.read_ahead.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for BufferedTlsStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.has_new_data = true;
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    /// Flushes the buffer.
    ///
    /// Over HTTP/2, each response requests a flush. If anything was written since the previous
    /// request, the task first yields, so that other streams can add their responses. The buffer is
    /// flushed when no stream has added a response, or when the buffer is full.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_multiplexed && std::mem::take(&mut self.has_new_data) && !self.io.is_empty() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.has_new_data = true;
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        // True even if the TLS stream cannot write several slices at once: the buffer copies the
        // slices.
        true
    }
}

#[async_trait]
impl Shutdown for BufferedTlsStream {
    async fn shutdown(&mut self) {
        let _ = self.io.flush().await;
        Shutdown::shutdown(&mut **self.io.get_mut()).await;
    }
}

impl UniqueID for BufferedTlsStream {
    fn id(&self) -> i32 {
        self.io.get_ref().id()
    }
}

impl Ssl for BufferedTlsStream {
    fn get_ssl(&self) -> Option<&TlsRef> {
        self.io.get_ref().get_ssl()
    }

    fn get_ssl_digest(&self) -> Option<Arc<SslDigest>> {
        self.io.get_ref().get_ssl_digest()
    }

    fn selected_alpn_proto(&self) -> Option<ALPN> {
        self.io.get_ref().selected_alpn_proto()
    }
}

impl Peek for BufferedTlsStream {}

impl GetTimingDigest for BufferedTlsStream {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        self.io.get_ref().get_timing_digest()
    }
}

impl GetProxyDigest for BufferedTlsStream {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        self.io.get_ref().get_proxy_digest()
    }
}

impl GetSocketDigest for BufferedTlsStream {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        self.io.get_ref().get_socket_digest()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use tokio::io::AsyncReadExt;

    use super::super::connection::tests::pair;
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(5);

    async fn flush_once(stream: &mut BufferedTlsStream) -> bool {
        poll_fn(|cx| Poll::Ready(Pin::new(&mut *stream).poll_flush(cx).is_ready())).await
    }

    #[tokio::test]
    async fn consecutive_responses_are_sent_together() {
        let (connection, mut client) = pair(TIMEOUT).await;
        let mut stream = BufferedTlsStream::http2(BytesMut::new(), Box::new(connection));
        for answer in [b"first ", b"second", b" third"] {
            stream.write_all(answer).await.unwrap();
            assert!(!flush_once(&mut stream).await, "others get their turn");
        }
        assert!(flush_once(&mut stream).await, "nothing has come since");
        let mut read = [0; 64];
        assert_eq!(client.read(&mut read).await.unwrap(), 18);
        assert!(flush_once(&mut stream).await, "there is nothing to flush");
    }

    #[tokio::test]
    async fn a_full_buffer_does_not_wait() {
        let (connection, mut client) = pair(TIMEOUT).await;
        let mut stream = BufferedTlsStream::http2(BytesMut::new(), Box::new(connection));
        let answer = [b'x'; HTTP2_BUFFER / 2 + 1];
        for _ in 0..2 {
            stream.write_all(&answer).await.unwrap();
            assert!(!flush_once(&mut stream).await);
        }
        client.read_exact(&mut vec![0; answer.len()]).await.unwrap();
    }

    #[tokio::test]
    async fn sequential_exchanges_do_not_wait() {
        let (connection, mut client) = pair(TIMEOUT).await;
        let mut stream = BufferedTlsStream::http1(Box::new(connection));
        stream.write_all(b"head").await.unwrap();
        stream.write_all(b"body").await.unwrap();
        assert!(flush_once(&mut stream).await);
        let mut read = [0; 64];
        assert_eq!(client.read(&mut read).await.unwrap(), 8);
    }

    #[tokio::test]
    async fn gathered_bytes_are_sent_before_the_end() {
        let (connection, mut client) = pair(TIMEOUT).await;
        let mut stream = BufferedTlsStream::http2(BytesMut::new(), Box::new(connection));
        stream.write_all(b"last words").await.unwrap();
        Shutdown::shutdown(&mut stream).await;
        let mut read = Vec::new();
        client.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, b"last words");
    }

    #[tokio::test]
    async fn bytes_read_ahead_are_returned() {
        let (connection, mut client) = pair(TIMEOUT).await;
        client.write_all(b"then").await.unwrap();
        client.shutdown().await.unwrap();
        let mut stream = BufferedTlsStream::http2(BytesMut::from("first "), Box::new(connection));
        let mut read = String::new();
        stream.read_to_string(&mut read).await.unwrap();
        assert_eq!(read, "first then");
    }
}
