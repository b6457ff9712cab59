//! Reads a secret, such as a PIN or a password, from a file that only its owner can read.

use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use zeroize::Zeroizing;

/// Default maximum length of a secret, bytes. A longer file does not contain a secret.
const LONGEST: usize = 255;

/// Parent of the systemd credential directories.
///
/// systemd grants access to the unit's user with an access control list, whose mask `stat` shows as
/// the group's bits. The group itself has no access.
const SYSTEMD_CREDENTIALS: &str = "/run/credentials/";

/// Returns the file's content without one trailing newline.
///
/// `what` names the secret in errors, such as `the token's user PIN`.
///
/// # Errors
/// The reason, without the file's name: the file is absent, readable by group or others, empty, too
/// long or not text.
pub fn read_secret_file(path: &Path, what: &str) -> Result<Zeroizing<String>, String> {
    read_longer_secret_file(path, what, LONGEST)
}

/// Like [`read_secret_file`], for secrets of up to `longest` bytes.
pub fn read_longer_secret_file(path: &Path, what: &str, longest: usize) -> Result<Zeroizing<String>, String> {
    // Without `O_NONBLOCK`, opening a pipe without a writer would block.
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .map_err(|error| format!("cannot be read ({error})"))?;
    // Read from the open file, so that the checked file is the file that is read.
    let metadata = file.metadata().map_err(|error| format!("cannot be read ({error})"))?;
    check_access(path, &metadata)?;

    let mut content = Zeroizing::new(Vec::with_capacity(longest + 3));
    file.take(longest as u64 + 3).read_to_end(&mut content).map_err(|error| format!("cannot be read ({error})"))?;
    let secret = content.strip_suffix(b"\r\n").or_else(|| content.strip_suffix(b"\n")).unwrap_or(&content);
    let secret =
        std::str::from_utf8(secret).map_err(|_| format!("is not UTF-8 text; write {what} and nothing else"))?;
    match secret.len() {
        0 => Err(format!("is empty; write {what} into it")),
        length if length <= longest => Ok(Zeroizing::new(secret.to_owned())),
        _ => Err(format!("has more than {longest} bytes; write {what} and nothing else")),
    }
}

fn check_access(path: &Path, metadata: &Metadata) -> Result<(), String> {
    if !metadata.is_file() {
        return Err("is not a regular file".into());
    }
    let forbidden = if path.starts_with(SYSTEMD_CREDENTIALS) { 0o007 } else { 0o077 };
    let mode = metadata.mode() & 0o777;
    if mode & forbidden != 0 {
        let path = path.display();
        return Err(format!("can be accessed by other users (mode {mode:04o}); run: chmod 0400 {path}"));
    }
    Ok(())
}
