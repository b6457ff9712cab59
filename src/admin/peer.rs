//! Who may be at the other end of the socket. File permissions say the same; this also holds where somebody got the
//! permissions wrong, or put a socket of their own where ours should be to be told passwords.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tokio::net::UnixStream;

/// Whether a command may come from this peer: root, or the user that the server runs as.
pub(super) fn may_command(stream: &UnixStream) -> bool {
    uid(stream).is_some_and(|peer| peer == 0 || peer == own_uid())
}

/// Whether this peer may be the server: root, ourselves, or the owner of the store.
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
