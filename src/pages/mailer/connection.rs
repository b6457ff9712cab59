//! Connection to the mail server: TCP, TLS, EHLO.
//!
//! The size of the server's replies is limited. All replies from before TLS are discarded.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use lettre::transport::smtp::client::{AsyncSmtpConnection, AsyncTokioStream};
use lettre::transport::smtp::extension::ClientId;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::answer;
use sealgate_config::{MailConfig, MailTls};
use sealgate_system::named_certificate::NamedOrIssued;

/// Maximum number of bytes that are read from a mail server per connection. The library limits the
/// number of lines of a reply, but not the length of a line.
const MAX_RECEIVED_BYTES: usize = 64 * 1024;

/// Maximum length of a reply before TLS, in bytes.
const MAX_REPLY_LENGTH: usize = 8 * 1024;

/// Greeting that is passed to the library if the server has already sent its own greeting.
const GREETING: &[u8] = b"220 ready\r\n";

/// Address and TLS settings of the server.
pub(super) struct MailRoute {
    host: String,
    port: u16,
    tls: MailTls,
    hello: ClientId,
    hello_text: String,
    /// TLS settings and the name in the certificate. `None` without TLS.
    connector: Option<(TlsConnector, ServerName<'static>)>,
    /// Timeout for connecting to one of the host's addresses.
    connect_timeout: Duration,
}

impl MailRoute {
    /// Reads the TLS settings.
    ///
    /// # Errors
    /// One line, if the certificate authorities cannot be read.
    pub(super) fn new(config: &MailConfig) -> Result<Self, String> {
        let connector = match config.tls {
            MailTls::None => None,
            MailTls::StartTls | MailTls::Implicit => {
                let name = ServerName::try_from(config.host.clone())
                    .map_err(|_| format!("mail.host: {:?} is no name of a server", config.host))?;
                Some((TlsConnector::from(Arc::new(client_config(config.ca_file.as_deref())?)), name))
            }
        };
        let (hello, hello_text) = match config.hello.parse() {
            Ok(std::net::IpAddr::V4(address)) => (ClientId::Ipv4(address), format!("[{address}]")),
            Ok(std::net::IpAddr::V6(address)) => (ClientId::Ipv6(address), format!("[IPv6:{address}]")),
            Err(_) => (ClientId::Domain(config.hello.clone()), config.hello.clone()),
        };
        let (host, port, tls) = (config.host.clone(), config.port, config.tls);
        Ok(Self { host, port, tls, hello, hello_text, connector, connect_timeout: config.timeout / 2 })
    }

    /// Returns host and port for error messages.
    pub(super) fn server(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Opens a connection, with TLS as configured, and reads the greeting.
    ///
    /// # Errors
    /// One line with the cause and the remedy.
    pub(super) async fn open(&self) -> Result<AsyncSmtpConnection, String> {
        let mut socket = self.connect().await?;
        let server = self.server();
        let stream: Box<dyn AsyncTokioStream> = match (&self.connector, self.tls) {
            (None, _) => Box::new(LimitedStream::new(socket, &[])),
            (Some(connector), MailTls::StartTls) => {
                self.ask_for_tls(&mut socket).await?;
                Box::new(LimitedStream::new(self.encrypt(connector, socket).await?, GREETING))
            }
            (Some(connector), _) => Box::new(LimitedStream::new(self.encrypt(connector, socket).await?, &[])),
        };
        let connected = AsyncSmtpConnection::connect_with_transport(stream, &self.hello).await;
        connected.map_err(|error| match error.status() {
            Some(_) => format!("{server} does not accept our greeting ({})", answer::reply(&error)),
            None => {
                format!("{server} does not speak SMTP as expected ({}){}", answer::reply(&error), self.hint())
            }
        })
    }

    /// Returns a hint to try the other TLS mode.
    fn hint(&self) -> &'static str {
        match self.tls {
            MailTls::None => "",
            MailTls::StartTls => "; if the server expects TLS from the first byte, write tls = \"implicit\"",
            MailTls::Implicit => "; if the server sends a greeting before TLS, write tls = \"starttls\"",
        }
    }

    async fn connect(&self) -> Result<TcpStream, String> {
        let server = self.server();
        let addresses = lookup_host((self.host.as_str(), self.port)).await;
        let addresses = addresses.map_err(|error| format!("{server} cannot be found ({error}); correct mail.host"))?;
        let mut last = "the name has no address".to_owned();
        for address in addresses {
            // Cleartext must stay on this machine, even if the resolver returns another address.
            if self.tls == MailTls::None && !address.ip().is_loopback() {
                last = format!("{} is not on this machine, and tls is \"none\"", address.ip());
                continue;
            }
            last = match timeout(self.connect_timeout, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => error.to_string(),
                Err(_) => "no answer".to_owned(),
            };
        }
        Err(format!("cannot connect to {server} ({last})"))
    }

    /// Reads the greeting and sends EHLO and STARTTLS in clear (RFC 3207). Discards the replies.
    async fn ask_for_tls(&self, socket: &mut TcpStream) -> Result<(), String> {
        let server = self.server();
        let lost = |error: io::Error| format!("{server} closed the connection before TLS ({error}){}", self.hint());
        let (code, _) = reply(socket).await.map_err(lost)?;
        if code != *b"220" {
            return Err(format!(
                "{server} accepts no connections now (its greeting is {})",
                String::from_utf8_lossy(&code)
            ));
        }
        socket.write_all(format!("EHLO {}\r\n", self.hello_text).as_bytes()).await.map_err(lost)?;
        let (code, words) = reply(socket).await.map_err(lost)?;
        let offers = words.iter().any(|word| word.eq_ignore_ascii_case("STARTTLS"));
        if code != *b"250" || !offers {
            return Err(format!("{server} offers no STARTTLS, and mails are not sent in clear{}", self.hint()));
        }
        socket.write_all(b"STARTTLS\r\n").await.map_err(lost)?;
        match reply(socket).await.map_err(lost)? {
            (code, _) if code == *b"220" => Ok(()),
            (code, _) => Err(format!("{server} refuses STARTTLS ({})", String::from_utf8_lossy(&code))),
        }
    }

    async fn encrypt(
        &self,
        (connector, name): &(TlsConnector, ServerName<'static>),
        socket: TcpStream,
    ) -> Result<tokio_rustls::client::TlsStream<TcpStream>, String> {
        connector.connect(name.clone(), socket).await.map_err(|error| {
            let server = self.server();
            let ours = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
            match ours {
                Some(rustls::Error::InvalidCertificate(fault)) => format!(
                    "the certificate of {server} is not trusted ({fault}); write the name in the certificate as mail.host, or the \
                     certificate of its authority in mail.ca_file"
                ),
                _ => format!("{server} does not speak TLS as expected ({error}){}", self.hint()),
            }
        })
    }
}

/// Creates a TLS configuration that trusts the system's certificate authorities and the
/// certificates of the file.
fn client_config(ca_file: Option<&Path>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    let mut certificates = Vec::new();
    let native = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(native.unwrap_or_default());
    if let Some(path) = ca_file {
        let fault = |error: &dyn fmt::Display| format!("mail.ca_file: {} cannot be used ({error})", path.display());
        for certificate in CertificateDer::pem_file_iter(path).map_err(|error| fault(&error))? {
            let certificate = certificate.map_err(|error| fault(&error))?;
            roots.add(certificate.clone()).map_err(|error| fault(&error))?;
            certificates.push(certificate);
        }
    }
    let provider = sealgate_system::tls::provider();
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let config = config.map_err(|error| format!("TLS: {error}"))?;
    if certificates.is_empty() {
        return Ok(config.with_root_certificates(roots).with_no_client_auth());
    }
    let verifier = NamedOrIssued::new(roots, certificates, provider).map_err(|error| format!("TLS: {error}"))?;
    Ok(config.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// Reads a reply before TLS: its code and its lines.
///
/// Reads byte by byte, so that data that an attacker injects stays in the socket. The TLS handshake
/// then fails on this data. Injected data must not count as a reply after TLS.
async fn reply(socket: &mut TcpStream) -> io::Result<([u8; 3], Vec<String>)> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "no reply of SMTP");
    let (mut words, mut line, mut read) = (Vec::new(), Vec::new(), 0);
    loop {
        let byte = socket.read_u8().await?;
        read += 1;
        if read > MAX_REPLY_LENGTH {
            return Err(wrong());
        }
        if byte != b'\n' {
            line.push(byte);
            continue;
        }
        let code = *line.first_chunk::<3>().filter(|code| code.iter().all(u8::is_ascii_digit)).ok_or_else(wrong)?;
        words.push(String::from_utf8_lossy(line.get(4..).unwrap_or_default()).trim().to_owned());
        match line.get(3) {
            Some(b'-') => line.clear(),
            None | Some(b' ' | b'\r') => return Ok((code, words)),
            Some(_) => return Err(wrong()),
        }
    }
}

/// Stream that limits the number of bytes read from the server.
struct LimitedStream<S> {
    stream: S,
    /// Bytes to return before the server's bytes.
    first: &'static [u8],
    left: usize,
}

impl<S> LimitedStream<S> {
    fn new(stream: S, first: &'static [u8]) -> Self {
        Self { stream, first, left: MAX_RECEIVED_BYTES }
    }
}

impl<S> fmt::Debug for LimitedStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LimitedStream")
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LimitedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.first.is_empty() {
            let (now, later) = self.first.split_at(self.first.len().min(buffer.remaining()));
            buffer.put_slice(now);
            self.first = later;
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        let read = buffer.filled().len() - before;
        match self.left.checked_sub(read) {
            Some(left) => self.left = left,
            None => return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "its answer has no end"))),
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for LimitedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl AsyncTokioStream for LimitedStream<TcpStream> {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.stream.peer_addr()
    }
}

impl AsyncTokioStream for LimitedStream<tokio_rustls::client::TlsStream<TcpStream>> {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.stream.get_ref().0.peer_addr()
    }
}
