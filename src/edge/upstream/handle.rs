//! Second handle of an upstream connection, which closes the connection from outside Pingora.
//!
//! An upstream may respond before it has received the whole body. Pingora then reuses the
//! connection once the body was written. The upstream would parse the unread part of the body as
//! the next request.

#![expect(unsafe_code, reason = "Pingora identifies a connection only by its descriptor number")]

use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use pingora::protocols::l4::ext::get_tcp_info;

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
    fn a_handle_closes_a_unix_socket_connection() {
        let (mut one, mut other) = UnixStream::pair().unwrap();
        Handle::from_descriptor(one.as_raw_fd()).unwrap().end();
        assert_eq!((one.read(&mut [0]).unwrap(), other.read(&mut [0]).unwrap()), (0, 0));
        assert!(Handle::from_descriptor(-1).is_none());
    }
}
