//! The user PIN: read once from a file that only its owner can read, kept where it is wiped and never printed.

use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use cryptoki::types::AuthPin;
use zeroize::Zeroizing;

use super::error::SignerOpenError;

/// No token takes a longer PIN; a longer file is not a PIN.
const LONGEST_PIN: usize = 255;

/// Where systemd puts a unit's credentials. It lets the unit's user in through an access control list, whose mask `stat`
/// shows as the group's bits; the group itself has no access.
const SYSTEMD_CREDENTIALS: &str = "/run/credentials/";

/// Reads the PIN: the file's content without one trailing newline.
///
/// # Errors
/// [`SignerOpenError::PinFile`] when the file is absent, readable by group or others, empty, or holds no PIN.
pub(super) fn read(path: &Path) -> Result<AuthPin, SignerOpenError> {
    read_checked(path).map_err(|reason| SignerOpenError::PinFile { path: path.to_owned(), reason })
}

fn read_checked(path: &Path) -> Result<AuthPin, String> {
    // Without O_NONBLOCK, opening a pipe that nobody writes to would hang the start.
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .map_err(|error| format!("cannot be read ({error})"))?;
    // Asked of the open file, so that what is checked is what is read.
    let metadata = file.metadata().map_err(|error| format!("cannot be read ({error})"))?;
    check_access(path, &metadata)?;

    let mut content = Zeroizing::new(Vec::with_capacity(LONGEST_PIN + 3));
    file.take(LONGEST_PIN as u64 + 3).read_to_end(&mut content).map_err(|error| format!("cannot be read ({error})"))?;
    let pin = content.strip_suffix(b"\r\n").or_else(|| content.strip_suffix(b"\n")).unwrap_or(&content);
    let pin = std::str::from_utf8(pin).map_err(|_| "is not UTF-8 text; write the PIN and nothing else".to_owned())?;
    match pin.len() {
        0 => Err("is empty; write the token's user PIN into it".into()),
        1..=LONGEST_PIN => Ok(AuthPin::from(Box::<str>::from(pin))),
        _ => Err(format!("holds more than {LONGEST_PIN} bytes; write the PIN and nothing else")),
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
        return Err(format!("is open to others than its owner (mode {mode:04o}); run: chmod 0400 {path}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret;
    use std::os::unix::fs::PermissionsExt;

    fn pin_of(content: &[u8], mode: u32) -> Result<String, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pin");
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        read(&path).map(|pin| pin.expose_secret().to_owned()).map_err(|error| error.to_string())
    }

    #[test]
    fn one_trailing_newline_is_no_part_of_the_pin() {
        assert_eq!(pin_of(b"123456\n", 0o600).unwrap(), "123456");
        assert_eq!(pin_of(b"123456\r\n", 0o400).unwrap(), "123456");
        assert_eq!(pin_of(b" 12 34 ", 0o600).unwrap(), " 12 34 ");
        assert_eq!(pin_of(b"1234\n\n", 0o600).unwrap(), "1234\n");
    }

    #[test]
    fn file_that_group_or_others_can_use_is_refused() {
        for mode in [0o640, 0o604, 0o660, 0o610, 0o644] {
            let error = pin_of(b"123456", mode).unwrap_err();
            assert!(error.contains("chmod 0400"), "{error}");
            assert!(!error.contains("123456"), "{error}");
        }
    }

    #[test]
    fn empty_long_or_binary_content_is_refused() {
        assert!(pin_of(b"\n", 0o600).unwrap_err().contains("is empty"));
        assert!(pin_of(&[b'1'; 256], 0o600).unwrap_err().contains("more than 255"));
        assert_eq!(pin_of(&[b'1'; 255], 0o600).unwrap().len(), 255);
        assert!(pin_of(&[0xff, 0xfe], 0o600).unwrap_err().contains("UTF-8"));
    }

    #[test]
    fn absent_file_and_directory_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let absent = read(&directory.path().join("pin")).unwrap_err().to_string();
        assert!(absent.contains("cannot be read"), "{absent}");
        assert!(read(directory.path()).unwrap_err().to_string().contains("not a regular file"));
    }
}
