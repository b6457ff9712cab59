//! Mails on their way out: what one says, and the mail server that takes it. Knows no store and no queue: who keeps a mail
//! until it is sent is the caller's matter.

mod answer;
mod compose;
mod connection;
mod mime;
mod transport;

pub use compose::{ComposeError, Composed, MailHeader, Sender, compose};
pub use transport::{SendError, Transport};
