//! Body of a response that the front sends in parts, because it is too long for the memory.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::mpsc;

/// Body in parts, as an extension of a response. The edge writes each part before it takes the next
/// one, so one part waits at most.
#[derive(Clone)]
pub struct BodyStream(Arc<Mutex<Option<mpsc::Receiver<BodyPart>>>>);

/// Part of a body.
enum BodyPart {
    Bytes(Bytes),
    /// The body is complete.
    End,
}

/// Sender of the parts. If it is dropped before [`BodySender::end`], the client learns that the body is
/// incomplete.
pub struct BodySender(mpsc::Sender<BodyPart>);

impl BodyStream {
    /// Creates a body and the sender of its parts.
    pub fn new() -> (BodySender, Self) {
        let (sender, receiver) = mpsc::channel(1);
        (BodySender(sender), Self(Arc::new(Mutex::new(Some(receiver)))))
    }

    /// Takes the parts. Returns `None` if they were taken before.
    pub fn take(&self) -> Option<BodyParts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().map(BodyParts)
    }
}

impl fmt::Debug for BodyStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BodyStream")
    }
}

impl BodySender {
    /// Sends a part. Waits until the previous one was written. Returns whether the client still
    /// receives the response.
    pub async fn send(&self, part: Bytes) -> bool {
        self.0.send(BodyPart::Bytes(part)).await.is_ok()
    }

    /// Ends the body.
    pub async fn end(self) {
        // The client may have disconnected.
        let _ = self.0.send(BodyPart::End).await;
    }
}

/// Parts of a body, for the edge.
pub struct BodyParts(mpsc::Receiver<BodyPart>);

impl BodyParts {
    /// Returns the next part, or `None` at the end of the body.
    ///
    /// # Errors
    /// [`Incomplete`] if the sender was dropped before the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Incomplete> {
        match self.0.recv().await {
            Some(BodyPart::Bytes(bytes)) => Ok(Some(bytes)),
            Some(BodyPart::End) => Ok(None),
            None => Err(Incomplete),
        }
    }
}

/// The front has stopped before the end of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Incomplete;
