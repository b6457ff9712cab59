//! Ports for servers that are yet to start.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below those that the kernel deals out to outgoing connections (32768 on, on Linux): one of these may be gone to such a
/// connection by the time that the server binds it.
const FIRST: u16 = 10_000;
const COUNT: u16 = 22_000;

/// A port that nobody uses, another one each time in this process. Processes begin at different places.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = std::process::id().wrapping_mul(7919) % u32::from(COUNT);
    for _ in 0..COUNT {
        let step = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = FIRST + u16::try_from((start + step) % u32::from(COUNT)).expect("below COUNT");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port from {FIRST} on is free");
}
