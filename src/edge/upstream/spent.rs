//! Ends a connection to an upstream from outside: Pingora keeps one whose upstream has answered before the body was there,
//! once the body has been written. What the upstream has not read of it would then stand before the next request.

#![expect(unsafe_code, reason = "Pingora tells a connection's descriptor by its number alone")]

use std::net::{Shutdown, TcpStream};
use std::os::fd::{BorrowedFd, RawFd};

/// A second handle of a connection. Dropping it ends nothing.
pub(in crate::edge) struct Handle(TcpStream);

impl Handle {
    /// A handle of the connection with this descriptor; none when there are no more descriptors. The connection must be open,
    /// as it is in Pingora's hook that names the descriptor.
    pub(in crate::edge) fn of(descriptor: RawFd) -> Option<Self> {
        // Pingora has -1 for a connection that is not a socket's.
        if descriptor < 0 {
            return None;
        }
        // SAFETY: the caller's connection is open for the length of this call, and the borrow ends with it.
        let owned = unsafe { BorrowedFd::borrow_raw(descriptor) }.try_clone_to_owned().ok()?;
        // A Unix socket's too: only the call below is made with it, which is the same for both.
        Some(Self(TcpStream::from(owned)))
    }

    /// Ends the connection in both directions. Whoever looks whether it can be used again sees its end.
    pub(in crate::edge) fn end(&self) {
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
    fn both_ends_see_the_end_and_the_descriptor_stays_its_owners() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let handle = Handle::of(client.as_raw_fd()).unwrap();
        handle.end();
        drop(handle);
        assert_eq!((client.read(&mut [0]).unwrap(), server.read(&mut [0]).unwrap()), (0, 0));
        assert!(client.local_addr().is_ok());
    }

    #[test]
    fn a_unix_sockets_connection_ends_too() {
        let (mut one, mut other) = UnixStream::pair().unwrap();
        Handle::of(one.as_raw_fd()).unwrap().end();
        assert_eq!((one.read(&mut [0]).unwrap(), other.read(&mut [0]).unwrap()), (0, 0));
        assert!(Handle::of(-1).is_none());
    }
}
