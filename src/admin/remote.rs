//! Client side of the admin socket, used by the command line.

use std::io::{self, ErrorKind};
use std::path::Path;

use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::answer::Answer;
use super::command::Command;
use super::peer;
use super::wire::{self, Reply};

/// Maximum length of an answer, bytes; several times a page of the largest clients.
const MAX_ANSWER_LENGTH: usize = 64 << 20;

/// Reason why a server did not answer a command.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No server runs: there is no socket, or a killed server left one behind.
    #[error("no server answers on the admin socket")]
    NobodyListens,
    /// The server did not execute the command; one line per error.
    #[error("{}", .0.join("; "))]
    Refused(Vec<String>),
    /// A server runs, but communication failed.
    #[error("{0}")]
    Failed(String),
}

/// Sends a command to the server that listens on the socket `path`.
///
/// `store` is its store's directory, whose owner is the user that the server may run as.
pub async fn ask(path: &Path, store: &Path, command: &Command) -> Result<Answer, AskError> {
    let shown = path.display();
    let mut stream = match UnixStream::connect(path).await {
        Ok(stream) => stream,
        Err(error) => return Err(no_connection(path, &error)),
    };
    if !peer::may_serve(&stream, store) {
        return Err(AskError::Failed(format!(
            "the admin socket {shown} and the store belong to different users; nothing was sent"
        )));
    }
    let line = wire::line(command).map_err(|error| AskError::Failed(error.to_string()))?;
    if line.len() > wire::MAX_COMMAND_LENGTH {
        return Err(AskError::Failed(format!(
            "the command is longer than {} bytes; split it",
            wire::MAX_COMMAND_LENGTH
        )));
    }
    let silent = |_| AskError::Failed(format!("the server on {shown} does not answer; see its log"));
    // A server that refuses this user answers and closes without reading. Its answer is more useful
    // than the broken pipe.
    let written = timeout(wire::PATIENCE, stream.write_all(&line)).await.map_err(silent)?;
    drop(line);
    let longest = wire::EXECUTION + 2 * wire::PATIENCE;
    let read = timeout(longest, wire::read_line(&mut stream, MAX_ANSWER_LENGTH)).await.map_err(silent)?;
    let Ok(Some(line)) = read else {
        let why = written.and(read).err().map_or_else(String::new, |error| format!(" ({error})"));
        return Err(AskError::Failed(format!(
            "the server on {shown} closed the connection without an answer{why}; see its log"
        )));
    };
    match serde_json::from_slice(&line) {
        Ok(Reply::Answer(answer)) => Ok(answer),
        Ok(Reply::Errors(lines)) => Err(AskError::Refused(lines)),
        Err(_) => Err(AskError::Failed(format!("the server on {shown} has another version; restart it"))),
    }
}

fn no_connection(path: &Path, error: &io::Error) -> AskError {
    let shown = path.display();
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => AskError::NobodyListens,
        ErrorKind::PermissionDenied => AskError::Failed(format!(
            "this user may not use the admin socket {shown}; run the command as the server's user or as root"
        )),
        ErrorKind::WouldBlock => AskError::Failed(format!("the server on {shown} is busy; try again")),
        _ => AskError::Failed(format!("cannot reach the server on {shown}: {error}")),
    }
}
