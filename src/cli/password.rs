//! Reads a password from standard input, because other users of the machine can see arguments and
//! environment.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;

use zeroize::Zeroizing;

use super::failure::CommandFailure;
use sealgate_domain::secret::Secret;

/// Maximum length of the input, in bytes. Every accepted password is shorter.
const MAX_INPUT_BYTES: usize = 8192;

pub(super) fn read() -> Result<Secret, CommandFailure> {
    read_secret("password")
}

/// Reads a secret from standard input. `what` names the secret in errors.
pub(super) fn read_secret(what: &str) -> Result<Secret, CommandFailure> {
    let unread = |error: io::Error| CommandFailure::line(format_args!("cannot read the {what}: {error}"));
    // The buffer of std is bypassed, because it is not zeroized.
    let descriptor = io::stdin().as_fd().try_clone_to_owned().map_err(unread)?;
    let line = first_line(&mut File::from(descriptor)).map_err(unread)?;
    let text = std::str::from_utf8(&line).map_err(|_| CommandFailure::line(format_args!("the {what} is not UTF-8")))?;
    if text.is_empty() {
        return Err(CommandFailure::line(format_args!("standard input has no {what}")));
    }
    Ok(Secret::new(text))
}

fn first_line(input: &mut impl Read) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut line = Zeroizing::new(vec![0; MAX_INPUT_BYTES]);
    let mut filled = 0;
    let end = loop {
        let Some(room) = line.get_mut(filled..).filter(|room| !room.is_empty()) else {
            return Err(io::Error::other("the first line is too long"));
        };
        match input.read(room) {
            Ok(0) => break filled,
            Ok(read) => {
                let start = filled;
                filled += read;
                if let Some(end) = line.iter().take(filled).skip(start).position(|&byte| byte == b'\n') {
                    break start + end;
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    };
    line.truncate(end);
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_line_is_read_without_its_line_end() {
        for (input, line) in
            [("pass word\nrest", "pass word"), ("ends\r\n", "ends"), ("bare", "bare"), ("", ""), ("\n", "")]
        {
            assert_eq!(first_line(&mut input.as_bytes()).unwrap().as_slice(), line.as_bytes());
        }
    }

    #[test]
    fn a_line_without_an_end_is_read_up_to_the_limit() {
        assert!(first_line(&mut io::repeat(b'x')).is_err());
    }
}
