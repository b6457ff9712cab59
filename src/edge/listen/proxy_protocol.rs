//! PROXY protocol, versions 1 and 2 (`proxy-protocol.txt` of HAProxy). A load balancer that does
//! not read HTTP sends the client's address before the first byte of the client.

use std::io;
use std::net::SocketAddr;

use proxy_header::{Error, ParseConfig, ProxyHeader};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// Maximum length of a header, in bytes. In version 2, further fields may follow the addresses.
/// They are not used.
const MAX_HEADER: usize = 1024;

/// Reads the header and returns the client's address.
///
/// Returns `None` if the load balancer itself has opened the connection, for example for a health
/// check. The bytes after the header remain in the socket.
///
/// # Errors
/// `UnexpectedEof` if the connection ends before the header is complete, and `InvalidData` if there
/// is no valid header.
pub(super) async fn read_client_address(socket: &mut TcpStream) -> io::Result<Option<SocketAddr>> {
    let config = ParseConfig { include_tlvs: false, ..ParseConfig::default() };
    let mut buffer = vec![0; MAX_HEADER];
    // Bytes of the header that were taken from the socket.
    let mut length = 0;
    loop {
        let peeked = socket.peek(&mut buffer[length..]).await?;
        if peeked == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let available = length + peeked;
        match ProxyHeader::parse(&buffer[..available], config) {
            Ok((header, end)) => {
                let address = header.proxied_address().map(|addresses| addresses.source);
                socket.read_exact(&mut buffer[length..end]).await?;
                return Ok(address);
            }
            // All available bytes belong to the header.
            Err(Error::BufferTooShort) if available < MAX_HEADER => {
                socket.read_exact(&mut buffer[length..available]).await?;
                length = available;
            }
            Err(_) => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;
    use tokio::time::sleep;

    use super::*;

    const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

    /// Sends `pieces` one after the other, and returns the outcome and the bytes after the header.
    async fn read(pieces: &[&[u8]]) -> (io::Result<Option<SocketAddr>>, Vec<u8>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut socket, _) = listener.accept().await.unwrap();
        let pieces: Vec<Vec<u8>> = pieces.iter().map(|piece| piece.to_vec()).collect();
        tokio::spawn(async move {
            for piece in pieces {
                client.write_all(&piece).await.unwrap();
                sleep(Duration::from_millis(5)).await;
            }
        });
        let outcome = read_client_address(&mut socket).await;
        let mut rest = Vec::new();
        if outcome.is_ok() {
            socket.read_to_end(&mut rest).await.unwrap();
        }
        (outcome, rest)
    }

    async fn client(pieces: &[&[u8]]) -> (Option<String>, Vec<u8>) {
        let (outcome, rest) = read(pieces).await;
        (outcome.unwrap().map(|address| address.to_string()), rest)
    }

    #[tokio::test]
    async fn both_versions_are_read_up_to_the_first_byte_of_the_client() {
        let text = b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 443\r\nGET /";
        assert_eq!(client(&[text]).await, (Some("192.0.2.7:4711".to_owned()), b"GET /".to_vec()));
        let text = b"PROXY TCP6 2001:db8::7 2001:db8::1 4711 443\r\n\r\n";
        assert_eq!(client(&[text]).await, (Some("[2001:db8::7]:4711".to_owned()), b"\r\n".to_vec()));
        // A field of type 4 (padding) follows the addresses.
        let binary =
            [V2, &[0x21, 0x11, 0, 17, 192, 0, 2, 7, 10, 0, 0, 1, 0, 80, 1, 187, 4, 0, 2, 0, 0], b"GET"].concat();
        assert_eq!(client(&[&binary]).await, (Some("192.0.2.7:80".to_owned()), b"GET".to_vec()));
    }

    #[tokio::test]
    async fn a_header_may_arrive_in_pieces() {
        for cut in 1..40 {
            let text = b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 443\r\nGET /";
            let (first, second) = text.split_at(cut);
            assert_eq!(client(&[first, second]).await, (Some("192.0.2.7:4711".to_owned()), b"GET /".to_vec()), "{cut}");
        }
    }

    #[tokio::test]
    async fn a_connection_of_the_load_balancer_has_no_client() {
        assert_eq!(client(&[b"PROXY UNKNOWN\r\nGET"]).await, (None, b"GET".to_vec()));
        let local = [V2, &[0x20, 0, 0, 0], b"GET"].concat();
        assert_eq!(client(&[&local]).await, (None, b"GET".to_vec()));
    }

    #[tokio::test]
    async fn anything_else_is_an_error() {
        let long = [b"PROXY TCP4 192.0.2.7 ".as_slice(), &[b'1'; 200]].concat();
        let huge = [V2, &[0x21, 0x11, 0xff, 0xff], &[0; 2000]].concat();
        for bytes in [&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..], b"PROXY TCP4 192.0.2.7 a 1 2\r\nxxxxxxx", &long, &huge]
        {
            let kind = read(&[bytes]).await.0.unwrap_err().kind();
            assert_eq!(kind, io::ErrorKind::InvalidData, "{:?}", String::from_utf8_lossy(bytes));
        }
        assert_eq!(read(&[b"PROXY TCP4"]).await.0.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(read(&[]).await.0.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
