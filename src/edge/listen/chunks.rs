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
//!
//! Chunks that arrive together are merged into one. Pingora handles and forwards each chunk on its
//! own, so a body of small chunks would take a hundred times the processor time of its bytes.

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

/// Maximum number of bytes of chunk extensions in a body, in addition to the number of its data bytes.
/// The server ignores extensions.
const MAX_EXTENSION_BYTES: u64 = 16 * 1024;

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
    /// Number of bytes of extensions that the rest of the body may still have.
    extension_bytes: u64,
}

/// Chunk whose bytes are all present.
struct CompleteChunk<'b> {
    data: &'b [u8],
    extension_bytes: usize,
    /// Length of the chunk with its framing, in bytes.
    length: usize,
}

impl ChunkChecker {
    pub(crate) const fn new() -> Self {
        Self { state: ChunkState::Size(0), remaining: 0, extension_bytes: MAX_EXTENSION_BYTES }
    }

    /// Checks the next bytes of the body. Returns bytes to use instead, if the chunks in them can be
    /// merged: they have the same data and trailers, and no extensions.
    ///
    /// # Errors
    /// If the framing is malformed, or if the extensions are too long.
    pub(crate) fn merge(&mut self, bytes: &[u8]) -> Result<Option<Vec<u8>>, MalformedChunk> {
        let start = self.advance(bytes, ChunkState::Size(0))?;
        let (mut end, mut count) = (start, 0);
        let (mut first, mut data) = (&[][..], Vec::new());
        while self.state == ChunkState::Size(0)
            && let Some(chunk) = CompleteChunk::parse(bytes.get(end..).unwrap_or_default())
        {
            self.take_extension(chunk.extension_bytes)?;
            self.extension_bytes = self.extension_bytes.saturating_add(chunk.data.len() as u64);
            end += chunk.length;
            count += 1;
            // A single chunk stays as it is.
            match count {
                1 => first = chunk.data,
                2 => data = [first, chunk.data].concat(),
                _ => data.extend_from_slice(chunk.data),
            }
        }
        let rest = bytes.get(end..).unwrap_or_default();
        self.advance(rest, ChunkState::Ended)?;
        let before = bytes.get(..start).unwrap_or_default();
        let merged = || [before, format!("{:x}\r\n", data.len()).as_bytes(), &data, b"\r\n", rest].concat();
        Ok((count > 1).then(merged))
    }

    /// Checks the next bytes of the body, up to a state. Returns the number of checked bytes.
    fn advance(&mut self, bytes: &[u8], until: ChunkState) -> Result<usize, MalformedChunk> {
        let mut at = 0;
        while self.state != until
            && self.state != ChunkState::Ended
            && let Some(byte) = bytes.get(at)
        {
            if self.state == ChunkState::Data {
                let length = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(bytes.len() - at);
                self.remaining -= length as u64;
                self.extension_bytes = self.extension_bytes.saturating_add(length as u64);
                if self.remaining == 0 {
                    self.state = ChunkState::DataCr;
                }
                at += length;
                continue;
            }
            self.state = self.after(self.state, *byte)?;
            if self.state == ChunkState::Extension {
                self.take_extension(1)?;
            }
            at += 1;
        }
        Ok(at)
    }

    fn take_extension(&mut self, bytes: usize) -> Result<(), MalformedChunk> {
        self.extension_bytes = self.extension_bytes.checked_sub(bytes as u64).ok_or(MalformedChunk)?;
        Ok(())
    }

    fn after(&mut self, next: ChunkState, byte: u8) -> Result<ChunkState, MalformedChunk> {
        let is_text = is_text(byte);
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

/// Returns whether an extension or a trailer field may contain the byte.
const fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

impl<'b> CompleteChunk<'b> {
    /// Parses a chunk at the start of the bytes. `None` if it is incomplete, malformed, or the last one:
    /// [`ChunkChecker::advance`] decides then.
    fn parse(bytes: &'b [u8]) -> Option<Self> {
        let digits = bytes.iter().take(usize::from(MAX_SIZE_DIGITS)).take_while(|byte| byte.is_ascii_hexdigit());
        let (mut size, mut end) = (0_usize, 0);
        for digit in digits {
            size = size.checked_mul(16)? + usize::try_from(char::from(*digit).to_digit(16)?).ok()?;
            end += 1;
        }
        let extension_bytes = match bytes.get(end)? {
            b';' => bytes.get(end..)?.iter().position(|byte| !is_text(*byte))?,
            _ => 0,
        };
        let start = end + extension_bytes;
        let data = bytes.get(start..)?.strip_prefix(b"\r\n")?;
        let (data, rest) = data.split_at_checked(size)?;
        rest.strip_prefix(b"\r\n")?;
        (size > 0).then_some(Self { data, extension_bytes, length: start + size + 4 })
    }
}

/// Connection during a request with a chunked body. Merges chunks. Reading fails at the first
/// malformed chunk.
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
        let merged = self.checker.merge(read);
        if let Some(merged) = merged.map_err(|malformed| io::Error::new(io::ErrorKind::InvalidData, malformed))? {
            // Merged chunks are shorter.
            buf.set_filled(before);
            buf.put_slice(&merged);
        }
        Poll::Ready(Ok(()))
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
            checker.merge(bytes)?;
        }
        Ok(checker.state)
    }

    /// Returns the body that Pingora reads, if it arrives in pieces of `piece` bytes.
    fn merged(body: &[u8], piece: usize) -> Vec<u8> {
        let mut checker = ChunkChecker::new();
        let merge = |bytes: &[u8]| checker.merge(bytes).unwrap().unwrap_or_else(|| bytes.to_vec());
        body.chunks(piece).flat_map(merge).collect()
    }

    /// Returns the data of a body without malformed chunks, and the bytes from the last chunk on.
    fn decoded(mut body: &[u8]) -> (Vec<u8>, &[u8]) {
        let mut data = Vec::new();
        while let Some(end) = body.windows(2).position(|two| two == b"\r\n") {
            let size = str::from_utf8(&body[..end]).unwrap().split(';').next().unwrap();
            let size = usize::from_str_radix(size, 16).unwrap();
            if size == 0 {
                break;
            }
            data.extend_from_slice(&body[end + 2..end + 2 + size]);
            assert_eq!(&body[end + 2 + size..end + 4 + size], b"\r\n");
            body = &body[end + 4 + size..];
        }
        (data, body)
    }

    #[test]
    fn chunks_that_arrive_together_are_merged() {
        let last = "0;last\r\nX-Sum: 1\r\n\r\nGET / HTTP/1.1\r\n";
        assert_eq!(merged(b"1\r\na\r\n2;x=y\r\nbc\r\n0\r\n\r\n", 64), b"3\r\nabc\r\n0\r\n\r\n");
        assert_eq!(merged(b"5\r\nhello\r\n0\r\n\r\n", 64), b"5\r\nhello\r\n0\r\n\r\n");
        let body = format!("{}{last}", "1\r\na\r\n2;x\r\n\r\n\r\n00a\r\n0123456789\r\n".repeat(300));
        for piece in [1, 2, 3, 7, 64, 1000, 100_000] {
            let merged = merged(body.as_bytes(), piece);
            assert_eq!(decoded(&merged), decoded(body.as_bytes()), "{piece}");
            assert!(merged.len() <= body.len(), "{piece}");
        }
        assert!(merged(body.as_bytes(), 100_000).len() < 300 * 13 + 100);
    }

    #[test]
    fn the_extensions_of_a_body_are_limited() {
        let chunk =
            |data: usize, extension: usize| format!("{data:x};{}\r\n{}\r\n", "e".repeat(extension), "d".repeat(data));
        for piece in [1000, 100_000] {
            let checked = |body: String| checked(body.as_bytes(), piece);
            assert!(checked(chunk(1, 100).repeat(100)).is_ok());
            assert_eq!(checked(chunk(1, 100).repeat(200)), Err(MalformedChunk));
            assert!(checked(chunk(1000, 900).repeat(200)).is_ok());
            assert_eq!(checked(chunk(1, 17_000)), Err(MalformedChunk));
        }
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
