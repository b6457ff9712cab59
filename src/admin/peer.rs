//! Checks of the peer of a socket.
//!
//! File permissions enforce the same. These checks also protect if the permissions are wrong, or if
//! an attacker created a socket at this path to receive passwords.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tokio::net::UnixStream;

/// Returns whether commands from this peer are accepted: root, or the user that the server runs as.
pub(super) fn may_command(stream: &UnixStream) -> bool {
    uid(stream).is_some_and(|peer| peer == 0 || peer == own_uid())
}

/// Returns whether this peer can be the server: root, the current user, or the owner of the store.
pub(super) fn may_serve(stream: &UnixStream, store: &Path) -> bool {
    let owner = std::fs::metadata(store).ok().map(|metadata| metadata.uid());
    uid(stream).is_some_and(|peer| peer == 0 || peer == own_uid() || Some(peer) == owner)
}

fn uid(stream: &UnixStream) -> Option<u32> {
    stream.peer_cred().ok().map(|peer| peer.uid())
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}
