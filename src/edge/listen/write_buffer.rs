//! Write buffer whose memory exists only while it contains bytes, so that idle connections have none.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream with a write buffer. Reading does not flush it.
#[derive(Debug)]
pub(super) struct WriteBuffer<W> {
    io: W,
    /// Bytes that are not yet written to `io`. Without capacity while there are none.
    bytes: Vec<u8>,
    /// Number of leading `bytes` that are already written.
    written: usize,
    capacity: usize,
}

impl<W: AsyncWrite + Unpin> WriteBuffer<W> {
    /// Creates a buffer of this size in bytes. With 0, nothing is buffered.
    pub(super) fn new(capacity: usize, io: W) -> Self {
        Self { io, bytes: Vec::new(), written: 0, capacity }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn get_ref(&self) -> &W {
        &self.io
    }

    pub(super) fn get_mut(&mut self) -> &mut W {
        &mut self.io
    }

    /// Returns the stream. Discards the bytes in the buffer.
    pub(super) fn into_inner(self) -> W {
        self.io
    }

    /// Writes the buffered bytes to the stream, and frees the buffer.
    fn poll_empty(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.bytes.get(self.written..).filter(|rest| !rest.is_empty()) {
            match ready!(Pin::new(&mut self.io).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.written += written,
            }
        }
        self.bytes = Vec::new();
        self.written = 0;
        Poll::Ready(Ok(()))
    }

    /// Appends bytes that fit.
    fn push(&mut self, bytes: &[u8]) {
        if self.bytes.capacity() == 0 {
            self.bytes.reserve_exact(self.capacity);
        }
        self.bytes.extend_from_slice(bytes);
    }
}

impl<W: AsyncRead + Unpin> AsyncRead for WriteBuffer<W> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for WriteBuffer<W> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.bytes.len() + buf.len() > self.capacity {
            ready!(self.poll_empty(cx))?;
        }
        if buf.len() >= self.capacity {
            return Pin::new(&mut self.io).poll_write(cx, buf);
        }
        self.push(buf);
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = bufs.iter().map(|buf| buf.len()).sum::<usize>();
        if self.bytes.len() + length > self.capacity {
            ready!(self.poll_empty(cx))?;
        }
        if length >= self.capacity {
            return Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        }
        for buf in bufs {
            self.push(buf);
        }
        Poll::Ready(Ok(length))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_empty(cx))?;
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_empty(cx))?;
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}
