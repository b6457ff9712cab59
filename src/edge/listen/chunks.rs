//! Checks the chunk lines of a request's body before Pingora parses them (RFC 9112 §7.1).
//!
//! Pingora accepts malformed chunk lines:
//!
//! - It reads a size without digits as the last chunk.
//! - It accepts white space after a size.
//! - It accepts any byte in an extension, including line feeds.
//!
//! A proxy in front of Sealgate might end the line at a line feed in an extension. The proxy would
//! then split the body into other chunks than Sealgate. An attacker could smuggle a request: the
//! proxy would read that request as data of the body, but Sealgate would execute it.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use async_trait::async_trait;
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::protocols::tls::{SslDigest, TlsRef};
use pingora::protocols::{
    ALPN, GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl, Stream, TimingDigest,
    UniqueID,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Maximum number of hexadecimal digits of a chunk size, so that it fits into 64 bits.
const MAX_SIZE_DIGITS: u8 = 16;

/// Error of a request body with a malformed chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MalformedChunk;

impl fmt::Display for MalformedChunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a chunk of the request's body is malformed")
    }
}

impl std::error::Error for MalformedChunk {}

/// Part of the chunked body to which the next byte must belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChunkState {
    /// The chunk size, or the byte after the size. The number counts the digits that were read so
    /// far.
    Size(u8),
    Extension,
    /// The line feed at the end of a chunk line.
    SizeEnd,
    Data,
    DataCr,
    DataLf,
    /// The first byte of a trailer field or of the empty line that ends the body.
    TrailerStart,
    Trailer,
    TrailerLf,
    /// The line feed of the empty line that ends the body.
    LastLf,
    /// The body has ended.
    Ended,
}

/// State machine that checks a chunked body. Skips the data of chunks.
#[derive(Debug)]
pub(crate) struct ChunkChecker {
    state: ChunkState,
    /// Value of the chunk size while it is parsed. Afterwards, the number of bytes of the chunk
    /// that are still to come.
    remaining: u64,
}

impl ChunkChecker {
    pub(crate) const fn new() -> Self {
        Self { state: ChunkState::Size(0), remaining: 0 }
    }

    /// Checks the next bytes of the body.
    ///
    /// # Errors
    /// If the framing is malformed.
    pub(crate) fn check(&mut self, mut bytes: &[u8]) -> Result<(), MalformedChunk> {
        while let Some((byte, rest)) = bytes.split_first() {
            match self.state {
                ChunkState::Ended => return Ok(()),
                ChunkState::Data => {
                    let length = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(bytes.len());
                    self.remaining -= length as u64;
                    if self.remaining == 0 {
                        self.state = ChunkState::DataCr;
                    }
                    bytes = bytes.get(length..).unwrap_or_default();
                    continue;
                }
                next => self.state = self.after(next, *byte)?,
            }
            bytes = rest;
        }
        Ok(())
    }

    fn after(&mut self, next: ChunkState, byte: u8) -> Result<ChunkState, MalformedChunk> {
        let is_text = byte == b'\t' || (byte >= b' ' && byte != 0x7f);
        Ok(match (next, byte) {
            (ChunkState::Size(digits), _) if byte.is_ascii_hexdigit() && digits < MAX_SIZE_DIGITS => {
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                self.remaining = if digits == 0 { 0 } else { self.remaining << 4 } | u64::from(digit);
                ChunkState::Size(digits + 1)
            }
            (ChunkState::Size(1..), b';') => ChunkState::Extension,
            (ChunkState::Size(1..) | ChunkState::Extension, b'\r') => ChunkState::SizeEnd,
            (ChunkState::Extension, _) if is_text => ChunkState::Extension,
            (ChunkState::SizeEnd, b'\n') if self.remaining == 0 => ChunkState::TrailerStart,
            (ChunkState::SizeEnd, b'\n') => ChunkState::Data,
            (ChunkState::DataCr, b'\r') => ChunkState::DataLf,
            (ChunkState::DataLf, b'\n') => ChunkState::Size(0),
            (ChunkState::TrailerStart, b'\r') => ChunkState::LastLf,
            (ChunkState::Trailer, b'\r') => ChunkState::TrailerLf,
            (ChunkState::TrailerStart | ChunkState::Trailer, _) if is_text => ChunkState::Trailer,
            (ChunkState::TrailerLf, b'\n') => ChunkState::TrailerStart,
            (ChunkState::LastLf, b'\n') => ChunkState::Ended,
            _ => return Err(MalformedChunk),
        })
    }
}

/// Connection during a request with a chunked body. Reading fails at the first malformed chunk.
#[derive(Debug)]
pub(crate) struct CheckedChunks {
    stream: Stream,
    checker: ChunkChecker,
}

impl CheckedChunks {
    pub(crate) fn new(stream: Stream, checker: ChunkChecker) -> Self {
        Self { stream, checker }
    }

    pub(crate) fn into_inner(self) -> Stream {
        self.stream
    }
}

impl AsyncRead for CheckedChunks {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let read = buf.filled().get(before..).unwrap_or_default();
        Poll::Ready(self.checker.check(read).map_err(|malformed| io::Error::new(io::ErrorKind::InvalidData, malformed)))
    }
}

impl AsyncWrite for CheckedChunks {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[async_trait]
impl Shutdown for CheckedChunks {
    async fn shutdown(&mut self) {
        Shutdown::shutdown(&mut *self.stream).await;
    }
}

impl UniqueID for CheckedChunks {
    fn id(&self) -> i32 {
        self.stream.id()
    }
}

impl Ssl for CheckedChunks {
    fn get_ssl(&self) -> Option<&TlsRef> {
        self.stream.get_ssl()
    }

    fn get_ssl_digest(&self) -> Option<Arc<SslDigest>> {
        self.stream.get_ssl_digest()
    }

    fn selected_alpn_proto(&self) -> Option<ALPN> {
        self.stream.selected_alpn_proto()
    }
}

impl Peek for CheckedChunks {}

impl GetTimingDigest for CheckedChunks {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        self.stream.get_timing_digest()
    }
}

impl GetProxyDigest for CheckedChunks {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        self.stream.get_proxy_digest()
    }
}

impl GetSocketDigest for CheckedChunks {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        self.stream.get_socket_digest()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a body that arrives in pieces of `piece` bytes.
    fn checked(body: &[u8], piece: usize) -> Result<ChunkState, MalformedChunk> {
        let mut checker = ChunkChecker::new();
        for bytes in body.chunks(piece) {
            checker.check(bytes)?;
        }
        Ok(checker.state)
    }

    #[test]
    fn valid_bodies_pass_in_pieces_of_any_size() {
        for body in [
            &b"0\r\n\r\n"[..],
            b"5\r\nhello\r\n0\r\n\r\n",
            b"00000a;name=\"value; \xc3\xa7\"\r\n0123456789\r\n0;last\r\n\r\n",
            b"3\r\n\r\n0\r\n0\r\nExpires: never\r\nX-Sum: 1\r\n\r\n",
            b"FFFFFFFFFFFFFFFF;x\r\n",
        ] {
            for piece in [1, 2, 3, 64] {
                let expected = if body.starts_with(b"F") { ChunkState::Data } else { ChunkState::Ended };
                assert_eq!(checked(body, piece), Ok(expected), "{body:?}");
            }
        }
        assert_eq!(checked(b"0\r\n\r\n\0\n\r", 64), Ok(ChunkState::Ended), "what follows is another's");
    }

    #[test]
    fn lines_that_parsers_read_in_two_ways_are_refused() {
        for body in [
            &b"\r\n\r\n"[..],
            b"5\nhello\r\n0\r\n\r\n",
            b"5;a\nhello\r\n0\r\n\r\n",
            b"5;a\rb\r\nhello\r\n0\r\n\r\n",
            b"5;\0\r\nhello\r\n0\r\n\r\n",
            b"5 \r\nhello\r\n0\r\n\r\n",
            b" 5\r\nhello\r\n0\r\n\r\n",
            b"0x5\r\nhello\r\n0\r\n\r\n",
            b"+5\r\nhello\r\n0\r\n\r\n",
            b"-1\r\n",
            b";a\r\n\r\n",
            b"00000000000000005\r\nhello\r\n0\r\n\r\n",
            b"5\r\nhello0\r\n\r\n",
            b"5\r\nhello\n0\r\n\r\n",
            b"5\r\nhello\r0\r\n\r\n",
            b"0\r\n\n",
            b"0\r\nX: a\n\r\n",
            b"0\r\nX: a\rY: b\r\n\r\n",
        ] {
            for piece in [1, 64] {
                assert_eq!(checked(body, piece), Err(MalformedChunk), "{:?}", body.escape_ascii().to_string());
            }
        }
    }
}
