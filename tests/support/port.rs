//! Ports for servers that are yet to start.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// Below those that the kernel deals out to outgoing connections (32768 on, on Linux): one of these may be gone to such a
/// connection by the time that the server binds it.
const FIRST: u16 = 10_000;
const COUNT: u16 = 22_000;

/// A port that nobody uses, and that no test takes again while this process lives.
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

/// Whether the port is this process's until it ends. Two test programs at once would otherwise meet on a port that one of
/// them has found and not yet bound: the tests then talk to each other's servers.
fn reserve(port: u16) -> bool {
    let name = format!("sealgate-tests/port/{port}");
    let address = SocketAddr::from_abstract_name(name).expect("a short name");
    UnixListener::bind_addr(&address).map(std::mem::forget).is_ok()
}
