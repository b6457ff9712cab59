//! Second handle of an upstream connection, which closes the connection from outside Pingora.
//!
//! An upstream may respond before it has received the whole body. Pingora then reuses the
//! connection once the body was written. The upstream would parse the unread part of the body as
//! the next request.

#![expect(unsafe_code, reason = "Pingora identifies a connection only by its descriptor number")]

use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use pingora::protocols::l4::ext::{get_socket_cookie, get_tcp_info};

/// Identity of a connection that Pingora owns. The kernel never uses the number of a socket again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionId {
    pub(super) descriptor: RawFd,
    socket: u64,
}

impl ConnectionId {
    /// Returns the identity of the connection that has this descriptor now.
    pub(super) fn of(descriptor: RawFd) -> Option<Self> {
        Some(Self { descriptor, socket: get_socket_cookie(descriptor).ok()? })
    }

    /// Returns whether the connection is not closed.
    pub(super) fn is_open(self) -> bool {
        Self::of(self.descriptor) == Some(self)
    }

    /// Closes the connection in both directions, unless Pingora has closed it.
    pub(super) fn end(self) {
        // Another connection may have the descriptor by now, so the socket is checked after the
        // handle was created.
        if let Some(handle) = Handle::from_descriptor(self.descriptor)
            && get_socket_cookie(handle.0.as_raw_fd()).is_ok_and(|socket| socket == self.socket)
        {
            handle.end();
        }
    }
}

/// Second handle of a connection. Dropping it does not close the connection.
pub(crate) struct Handle(TcpStream);

impl Handle {
    /// Returns a handle of the connection with this descriptor, or `None` if the process has no
    /// free descriptors.
    ///
    /// The connection must be open, as it is in Pingora's hook that passes the descriptor.
    pub(crate) fn from_descriptor(descriptor: RawFd) -> Option<Self> {
        // Pingora uses -1 for a connection without a socket.
        if descriptor < 0 {
            return None;
        }
        // SAFETY: the caller's connection is open for the length of this call, and the borrow ends
        // with it.
        let owned = unsafe { BorrowedFd::borrow_raw(descriptor) }.try_clone_to_owned().ok()?;
        // The descriptor may belong to a Unix socket. The handle is only used for `shutdown`, which
        // is the same for both.
        Some(Self(TcpStream::from(owned)))
    }

    /// Returns whether a read would return bytes of the peer, or the end of the connection.
    pub(crate) fn has_bytes(&self) -> bool {
        // Does not block: a duplicated descriptor shares the flag `O_NONBLOCK` of the original one.
        self.0.peek(&mut [0]).is_ok()
    }

    /// Returns the time since the peer has sent bytes, or `None` if the connection is a Unix socket.
    pub(crate) fn silence(&self) -> Option<Duration> {
        let info = get_tcp_info(self.0.as_raw_fd()).ok()?;
        Some(Duration::from_millis(info.tcpi_last_data_recv.into()))
    }

    /// Closes the connection in both directions. Pingora detects that before it reuses the
    /// connection.
    pub(crate) fn end(&self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn ending_a_handle_closes_the_connection_on_both_sides() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let handle = Handle::from_descriptor(client.as_raw_fd()).unwrap();
        handle.end();
        drop(handle);
        assert_eq!((client.read(&mut [0]).unwrap(), server.read(&mut [0]).unwrap()), (0, 0));
        assert!(client.local_addr().is_ok());
    }

    #[test]
    fn only_the_identified_connection_is_closed() {
        let (one, mut other) = UnixStream::pair().unwrap();
        let id = ConnectionId::of(one.as_raw_fd()).unwrap();
        assert!(id.is_open());
        // Another connection with the same descriptor.
        drop(one);
        let (again, mut its_other) = UnixStream::pair().unwrap();
        let reused = ConnectionId { descriptor: again.as_raw_fd(), ..id };
        assert!(!reused.is_open());
        reused.end();
        its_other.set_nonblocking(true).unwrap();
        assert_eq!(its_other.read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        assert_eq!(other.read(&mut [0]).unwrap(), 0);
        ConnectionId::of(again.as_raw_fd()).unwrap().end();
        assert_eq!(its_other.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn a_handle_closes_a_unix_socket_connection() {
        let (mut one, mut other) = UnixStream::pair().unwrap();
        Handle::from_descriptor(one.as_raw_fd()).unwrap().end();
        assert_eq!((one.read(&mut [0]).unwrap(), other.read(&mut [0]).unwrap()), (0, 0));
        assert!(Handle::from_descriptor(-1).is_none());
    }
}
