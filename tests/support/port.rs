//! Free ports for servers that a test starts.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// Start of the range, below the ports that the kernel assigns to outgoing connections (32768 and
/// higher on Linux). An outgoing connection could take such a port before the server binds it.
const FIRST: u16 = 10_000;
const COUNT: u16 = 22_000;

/// Returns an unused port. No test gets it again while this process runs.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = std::process::id().wrapping_mul(7919) % u32::from(COUNT);
    for _ in 0..COUNT {
        let step = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = FIRST + u16::try_from((start + step) % u32::from(COUNT)).expect("below COUNT");
        if reserve(port) && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port from {FIRST} on is free");
}

/// Reserves a port for this process until it ends. Returns whether it was free.
///
/// Otherwise two test programs could find the same unbound port, and their tests would talk to each
/// other's servers.
fn reserve(port: u16) -> bool {
    let name = format!("sealgate-tests/port/{port}");
    let address = SocketAddr::from_abstract_name(name).expect("a short name");
    UnixListener::bind_addr(&address).map(std::mem::forget).is_ok()
}
