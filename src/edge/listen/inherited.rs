//! Listening sockets that the service manager has bound and passed on (`sd_listen_fds(3)`).
//!
//! They outlive the process, so connections wait in the kernel's queue during a restart.

#![expect(unsafe_code, reason = "an inherited descriptor is identified only by its number")]

use std::net::TcpListener;
use std::os::fd::{FromRawFd, OwnedFd};

/// Takes the sockets that were passed to this process. Must be called only once, at the start.
///
/// # Errors
/// One line if a passed descriptor is not a listening TCP socket.
pub fn inherited_sockets() -> Result<Vec<TcpListener>, String> {
    let cannot = |error: std::io::Error| format!("cannot use the sockets that systemd passed: {error}");
    let passed = sd_notify::listen_fds().map_err(cannot)?;
    passed
        .map(|descriptor| {
            // SAFETY: the service manager passed the descriptor to this very process (LISTEN_PID
            // names it), and `listen_fds` has verified that it is open. No other code in the
            // process uses it: this is the start, and the only call.
            let socket = TcpListener::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
            let fault = |error| {
                format!(
                    "descriptor {descriptor}, passed by systemd, is not a TCP socket ({error}); write \
                     ListenStream=IP:PORT"
                )
            };
            socket.local_addr().map_err(fault).map(|_| socket)
        })
        .collect()
}
