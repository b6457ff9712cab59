//! Listening sockets, bound before any service starts.
//!
//! Because of this order, the program stops with one error line if a port is in use. The address of
//! a listener is known even if the kernel chose the port.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::net::TcpSocket;

use super::tls::Tls;

/// Maximum number of connections that wait to be accepted.
const BACKLOG: u32 = 4096;

/// A bound socket and its TLS configuration, if any.
pub struct Listener {
    pub(crate) socket: TcpListener,
    pub(crate) address: SocketAddr,
    pub(crate) tls: Option<Arc<Tls>>,
}

impl Listener {
    /// Binds `address` and starts to listen. Connections wait in the kernel's queue until a service
    /// accepts them.
    ///
    /// # Errors
    /// `cannot listen on ADDRESS: …`
    pub fn bind(address: SocketAddr, tls: Option<Arc<Tls>>) -> Result<Self, String> {
        TcpListener::bind(address).and_then(|socket| Self::from_socket(socket, tls)).map_err(|error| {
            let hint = match error.kind() {
                std::io::ErrorKind::PermissionDenied => " (a port below 1024 needs CAP_NET_BIND_SERVICE)",
                std::io::ErrorKind::AddrInUse => " (another process uses it; `ss -ltnp` shows which)",
                _ => "",
            };
            format!("cannot listen on {address}: {error}{hint}")
        })
    }

    /// Takes the listening socket with this address from `sockets`, or binds a new one.
    ///
    /// # Errors
    /// `cannot listen on ADDRESS: …`
    pub fn take_or_bind(
        sockets: &mut Vec<TcpListener>,
        address: SocketAddr,
        tls: Option<Arc<Tls>>,
    ) -> Result<Self, String> {
        let found = sockets.iter().position(|socket| socket.local_addr().is_ok_and(|bound| bound == address));
        match found {
            Some(at) => Self::from_socket(sockets.swap_remove(at), tls)
                .map_err(|error| format!("cannot listen on {address}, a socket that systemd passed: {error}")),
            None => Self::bind(address, tls),
        }
    }

    fn from_socket(socket: TcpListener, tls: Option<Arc<Tls>>) -> std::io::Result<Self> {
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        Ok(Self { socket, address, tls })
    }

    /// Registers the socket with the runtime and raises its backlog, so that a burst of connections
    /// fits.
    ///
    /// The standard library sets a backlog of 128. The kernel limits it to `net.core.somaxconn`.
    ///
    /// # Errors
    /// If the runtime or the kernel refuses.
    pub(crate) fn accepting(socket: TcpListener) -> std::io::Result<tokio::net::TcpListener> {
        // Calling `listen` on a listening socket only changes its backlog.
        TcpSocket::from_std_stream(TcpStream::from(OwnedFd::from(socket))).listen(BACKLOG)
    }

    /// Returns the address of the bound socket.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_reports_the_port_that_the_kernel_chose() {
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), None).unwrap();
        assert_ne!(listener.address().port(), 0);
    }

    #[test]
    fn a_port_in_use_is_reported_in_one_line() {
        let first = Listener::bind("127.0.0.1:0".parse().unwrap(), None).unwrap();
        let error = Listener::bind(first.address(), None).err().unwrap();
        assert!(error.starts_with(&format!("cannot listen on {}: ", first.address())), "{error}");
    }
}
