//! Listening sockets that the service manager has bound and passed on (`sd_listen_fds(3)`).
//!
//! The sockets outlive the process, so connections wait in the kernel's queue during a restart.

#![expect(unsafe_code, reason = "an inherited descriptor is identified only by its number")]

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};

use rustix::net::SocketType;
use rustix::net::sockopt::{socket_acceptconn, socket_type};

/// Takes the sockets that were passed to this process. The caller must call this function only
/// once, at startup.
///
/// # Errors
/// One line if a passed descriptor is not a listening TCP socket.
pub fn inherited_sockets() -> Result<Vec<TcpListener>, String> {
    let cannot = |error: io::Error| format!("cannot use the sockets that systemd passed: {error}");
    let passed = sd_notify::listen_fds().map_err(cannot)?;
    passed
        .map(|descriptor| {
            // SAFETY: the service manager passed the descriptor to this very process (LISTEN_PID
            // names it), and `listen_fds` has verified that it is open. No other code in the
            // process uses the descriptor, because this function is called only once, at startup.
            let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
            listener(socket).map_err(|reason| {
                format!(
                    "descriptor {descriptor}, passed by systemd, is not a listening TCP socket: {reason} (set \
                     ListenStream=IP:PORT and Accept=no in the .socket unit)"
                )
            })
        })
        .collect()
}

/// Returns the socket as a listener.
///
/// # Errors
/// The reason why the socket is not a listening TCP socket.
fn listener(socket: OwnedFd) -> Result<TcpListener, String> {
    let unreadable = |error| io::Error::from(error).to_string();
    if socket_type(socket.as_fd()).map_err(unreadable)? != SocketType::STREAM {
        return Err("it is a datagram socket".to_owned());
    }
    if !socket_acceptconn(socket.as_fd()).map_err(unreadable)? {
        return Err("it does not listen".to_owned());
    }
    // `local_addr` fails for an address that is not an IP address.
    let socket = TcpListener::from(socket);
    socket.local_addr().map_err(|_| "it has no IP address".to_owned())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpStream, UdpSocket};
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn only_a_listening_tcp_socket_is_accepted() {
        let listening = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listening.local_addr().unwrap();
        let connected = TcpStream::connect(address).unwrap();
        assert_eq!(listener(listening.into()).unwrap().local_addr().unwrap(), address);
        let datagram = UdpSocket::bind("127.0.0.1:0").unwrap();
        let directory = tempfile::tempdir().unwrap();
        let local = UnixListener::bind(directory.path().join("socket")).unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        for (socket, reason) in [
            (OwnedFd::from(connected), "it does not listen"),
            (datagram.into(), "it is a datagram socket"),
            (local.into(), "it has no IP address"),
            (file.into(), "Socket operation on non-socket"),
        ] {
            let error = listener(socket).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
