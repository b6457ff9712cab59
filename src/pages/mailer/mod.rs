//! Outgoing e-mail: renders messages and sends them to the mail server. The caller stores and
//! queues them.

mod answer;
mod compose;
mod connection;
mod transport;

pub use compose::{ComposeError, Composed, MailHeader, Sender, compose};
pub use transport::{SendError, Transport};
