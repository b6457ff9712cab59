//! Listening sockets, bound before anything starts: a port in use stops the start with one line, and the address is
//! known even when the port was left to the kernel. And the certificate, checked before anything starts.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use pingora::listeners::tls::Acceptor;
use pingora::tls::{ServerConfig, install_default_crypto_provider};
use rustls::server::ResolvesServerCert;
use tokio::net::TcpSocket;

use super::certificate::Certificate;
use crate::config::Tls;

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 4096;

/// A bound socket, and the TLS that is spoken on it if any.
pub(crate) struct Listener {
    pub(super) socket: TcpListener,
    pub(super) address: SocketAddr,
    pub(super) tls: Option<Arc<Acceptor>>,
}

impl Listener {
    /// Binds `address` and starts to listen; connections wait in the kernel's queue until the server runs.
    ///
    /// # Errors
    /// `cannot listen on ADDRESS: …`
    pub(crate) fn bind(address: SocketAddr, tls: Option<Arc<Acceptor>>) -> Result<Self, String> {
        TcpListener::bind(address).and_then(|socket| Self::from_socket(socket, tls)).map_err(|error| {
            let hint = match error.kind() {
                std::io::ErrorKind::PermissionDenied => " (a port below 1024 needs CAP_NET_BIND_SERVICE)",
                std::io::ErrorKind::AddrInUse => " (another process has it; `ss -ltnp` shows which)",
                _ => "",
            };
            format!("cannot listen on {address}: {error}{hint}")
        })
    }

    /// Takes the socket with this address from those that listen already, or else binds one.
    ///
    /// # Errors
    /// `cannot listen on ADDRESS: …`
    pub(crate) fn take_or_bind(
        sockets: &mut Vec<TcpListener>,
        address: SocketAddr,
        tls: Option<Arc<Acceptor>>,
    ) -> Result<Self, String> {
        let found = sockets.iter().position(|socket| socket.local_addr().is_ok_and(|bound| bound == address));
        match found {
            Some(at) => Self::from_socket(sockets.swap_remove(at), tls)
                .map_err(|error| format!("cannot listen on {address}, a socket of systemd's: {error}")),
            None => Self::bind(address, tls),
        }
    }

    /// Takes over a socket that listens already.
    fn from_socket(socket: TcpListener, tls: Option<Arc<Acceptor>>) -> std::io::Result<Self> {
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        Ok(Self { socket, address, tls })
    }

    /// Hands the socket to the runtime, with a queue that holds a burst: the kernel caps it at `net.core.somaxconn`, and
    /// the standard library asks for 128 only.
    ///
    /// # Errors
    /// The runtime or the kernel refuses it.
    pub(super) fn accepting(socket: TcpListener) -> std::io::Result<tokio::net::TcpListener> {
        // To listen again on a listening socket changes its queue and nothing else.
        TcpSocket::from_std_stream(TcpStream::from(OwnedFd::from(socket))).listen(BACKLOG)
    }

    /// The address that it is bound to.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }
}

/// TLS with the certificate of these files, and the certificate, which is to be watched. HTTP/2 is offered, HTTP/1.1 too;
/// TLS 1.2 and 1.3.
///
/// # Errors
/// One line that names the file and what is wrong with it.
pub(crate) fn load_tls(files: &Tls) -> Result<(Arc<Acceptor>, Arc<Certificate>), String> {
    // The only provider that this build of rustls has; a second call changes nothing.
    install_default_crypto_provider();
    let certificate = Arc::new(Certificate::load(files)?);
    let resolver = Arc::clone(&certificate) as Arc<dyn ResolvesServerCert>;
    let mut config = ServerConfig::builder().with_no_client_auth().with_cert_resolver(resolver);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok((Arc::new(Acceptor::from_server_config(Arc::new(config))), certificate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_port_is_bound_and_named() {
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), None).unwrap();
        assert_ne!(listener.address().port(), 0);
    }

    #[test]
    fn a_port_in_use_is_one_clear_line() {
        let first = Listener::bind("127.0.0.1:0".parse().unwrap(), None).unwrap();
        let error = Listener::bind(first.address(), None).err().unwrap();
        assert!(error.starts_with(&format!("cannot listen on {}: ", first.address())), "{error}");
    }

    #[test]
    fn unusable_certificates_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let files = Tls { certificate: dir.path().join("chain.pem"), key: dir.path().join("key.pem") };
        let error = load_tls(&files).err().unwrap();
        assert!(error.contains("chain.pem") && error.contains("cannot read"), "{error}");
        std::fs::write(&files.certificate, "not a certificate").unwrap();
        std::fs::write(&files.key, "not a key").unwrap();
        let error = load_tls(&files).err().unwrap();
        assert!(error.contains("chain.pem") && error.contains("PEM"), "{error}");
    }
}
