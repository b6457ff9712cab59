//! Protocol of the admin socket, and its client, which the command line uses.
//!
//! Each command has a connection of its own, with one line of JSON in each direction.

use std::io;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;
use zeroize::Zeroizing;

use crate::answer::Answer;
use crate::command::Command;
use crate::socket;

/// Maximum length of a command, in bytes. An import of many users can reach this length.
pub(super) const MAX_COMMAND_LENGTH: usize = 16 << 20;
/// Initial capacity of the buffer, in bytes. It is sufficient for nearly every command.
const INITIAL_BUFFER_BYTES: usize = 64 * 1024;

/// Maximum time that each side waits for bytes of the peer.
pub(super) const LINE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum time for the execution of a command.
///
/// The time is long, because revoking the grants of a user or a client takes one durable write for
/// each grant, and there may be thousands of grants.
pub(super) const EXECUTION_TIMEOUT: Duration = Duration::from_mins(2);

/// Reply of the server.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reply {
    Answer(Answer),
    /// The command failed; one line per error.
    Errors(Vec<String>),
}

/// Serialises a value as a line, which may contain a password.
///
/// # Errors
/// If the value cannot be written as JSON, which does not happen for the values used here.
pub(super) fn line(value: &impl Serialize) -> serde_json::Result<Zeroizing<Vec<u8>>> {
    let mut line = SecretLine::new();
    serde_json::to_writer(&mut line, value)?;
    line.push(b"\n");
    Ok(line.bytes)
}

/// Buffer for bytes that may contain a password.
///
/// A growing `Vec` leaves copies behind; this buffer wipes the previous allocation.
struct SecretLine {
    bytes: Zeroizing<Vec<u8>>,
}

impl SecretLine {
    fn new() -> Self {
        Self { bytes: Zeroizing::new(Vec::with_capacity(INITIAL_BUFFER_BYTES)) }
    }

    /// Reserves capacity for `more` bytes.
    fn reserve(&mut self, more: usize) {
        let needed = self.bytes.len() + more;
        if needed > self.bytes.capacity() {
            let mut larger = Zeroizing::new(Vec::with_capacity(needed.max(4 * self.bytes.capacity())));
            larger.extend_from_slice(&self.bytes);
            self.bytes = larger;
        }
    }

    fn push(&mut self, more: &[u8]) {
        self.reserve(more.len());
        self.bytes.extend_from_slice(more);
    }
}

impl io::Write for SecretLine {
    fn write(&mut self, more: &[u8]) -> io::Result<usize> {
        self.push(more);
        Ok(more.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads up to the end of the line.
///
/// Returns `None` if the line does not end within `limit` bytes or before the end of the stream.
pub(super) async fn read_line(
    stream: &mut (impl AsyncRead + Unpin),
    limit: usize,
) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
    let mut line = SecretLine::new();
    let mut stream = stream.take(u64::try_from(limit).unwrap_or(u64::MAX));
    loop {
        let start = line.bytes.len();
        line.reserve(1);
        if stream.read_buf(&mut *line.bytes).await? == 0 {
            return Ok(None);
        }
        if let Some(end) = line.bytes.iter().skip(start).position(|&byte| byte == b'\n') {
            line.bytes.truncate(start + end);
            return Ok(Some(line.bytes));
        }
    }
}

/// Maximum length of an answer, in bytes: several times that of a page of the largest clients.
const MAX_ANSWER_LENGTH: usize = 64 << 20;

/// Reason why a server did not answer a command.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No server runs: there is no socket, or a killed server has left one behind.
    #[error("no server answers on the admin socket")]
    NoServer,
    /// The server did not execute the command; one line per error.
    #[error("{}", .0.join("; "))]
    Refused(Vec<String>),
    /// A server runs, but communication failed.
    #[error("{0}")]
    Failed(String),
}

/// Sends a command to the server that listens on the socket `path`.
///
/// `store` is the directory of the server's store. The server may run as the owner of this
/// directory.
pub async fn ask(path: &Path, store: &Path, command: &Command) -> Result<Answer, AskError> {
    let socket = path.display();
    let mut stream = match UnixStream::connect(path).await {
        Ok(stream) => stream,
        Err(error) => return Err(no_connection(path, &error)),
    };
    if !socket::may_serve(&stream, store) {
        return Err(AskError::Failed(format!(
            "the admin socket {socket} and the store belong to different users; nothing was sent"
        )));
    }
    let line = line(command).map_err(|error| AskError::Failed(error.to_string()))?;
    if line.len() > MAX_COMMAND_LENGTH {
        return Err(AskError::Failed(format!("the command is longer than {MAX_COMMAND_LENGTH} bytes; split it")));
    }
    let silent = |_| AskError::Failed(format!("the server on {socket} does not answer; see its log"));
    // A server that refuses this user sends an answer and closes the connection without reading.
    // This answer is more useful than the error of the write, so read the answer before reporting
    // the error.
    let written = timeout(LINE_TIMEOUT, stream.write_all(&line)).await.map_err(silent)?;
    drop(line);
    let longest = EXECUTION_TIMEOUT + 2 * LINE_TIMEOUT;
    let read = timeout(longest, read_line(&mut stream, MAX_ANSWER_LENGTH)).await.map_err(silent)?;
    let Ok(Some(line)) = read else {
        let why = written.and(read).err().map_or_else(String::new, |error| format!(" ({error})"));
        return Err(AskError::Failed(format!(
            "the server on {socket} closed the connection without an answer{why}; see its log"
        )));
    };
    match serde_json::from_slice(&line) {
        Ok(Reply::Answer(answer)) => Ok(answer),
        Ok(Reply::Errors(lines)) => Err(AskError::Refused(lines)),
        Err(_) => Err(AskError::Failed(format!("the server on {socket} has another version; restart it"))),
    }
}

fn no_connection(path: &Path, error: &io::Error) -> AskError {
    let socket = path.display();
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => AskError::NoServer,
        ErrorKind::PermissionDenied => AskError::Failed(format!(
            "this user may not use the admin socket {socket}; run the command as the server's user or as root"
        )),
        ErrorKind::WouldBlock => AskError::Failed(format!("the server on {socket} is busy; try again")),
        _ => AskError::Failed(format!("cannot reach the server on {socket}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_is_read_completely_or_refused() {
        let mut sent = &b"{}\nrest"[..];
        assert_eq!(read_line(&mut sent, 100).await.unwrap().unwrap().as_slice(), b"{}");
        let mut unended = &b"{}"[..];
        assert!(read_line(&mut unended, 100).await.unwrap().is_none());
        let mut long = vec![b'x'; 3 * INITIAL_BUFFER_BYTES];
        long.push(b'\n');
        assert_eq!(read_line(&mut long.as_slice(), usize::MAX).await.unwrap().unwrap().len(), 3 * INITIAL_BUFFER_BYTES);
        assert_eq!(line(&"x".repeat(3 * INITIAL_BUFFER_BYTES)).unwrap().len(), 3 * INITIAL_BUFFER_BYTES + 3);
        let long = vec![b'x'; 5000];
        assert!(read_line(&mut long.as_slice(), 4999).await.unwrap().is_none());
    }
}
