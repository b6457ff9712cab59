//! The user PIN: read once from a file that only its owner can read, zeroized when dropped, and
//! never printed.

use std::path::Path;

use cryptoki::types::AuthPin;

use super::error::SignerOpenError;
use sealgate_config::read_secret_file;

/// Reads the PIN: the file's content without one trailing newline.
///
/// # Errors
/// [`SignerOpenError::PinFile`] when the file is absent, readable by group or others, empty, or holds no PIN.
pub(super) fn read(path: &Path) -> Result<AuthPin, SignerOpenError> {
    let pin = read_secret_file(path, "the token's user PIN")
        .map_err(|reason| SignerOpenError::PinFile { path: path.to_owned(), reason })?;
    Ok(AuthPin::from(Box::<str>::from(pin.as_str())))
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
