//! Sends messages to the mail server.
//!
//! Each attempt has a deadline, handles panics of the library, and reports the cause of a failure.
//! Errors contain no address, link or subject.

use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use lettre::Address;
use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::AsyncSmtpConnection;
use lettre::transport::smtp::commands::{Data, Mail, Noop, Rcpt};
use lettre::transport::smtp::response::Response;
use tokio::time::timeout;

use super::answer::{Blame, Step, blame, reply, sanitized, words};
use super::compose::Composed;
use super::connection::MailRoute;
use crate::mailer::compose;
use sealgate_config::{MailConfig, MailCredentials, Mailbox, read_secret_file};
use sealgate_domain::mail_address::MailAddress;
use sealgate_domain::user::Email;

/// Timeout of QUIT after a message was delivered.
const QUIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Reason why a message was not sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The server permanently refuses this message or its recipient.
    #[error("the mail server refused the mail: {0}")]
    Refused(String),
    /// The server did not accept the message now, or its answer was lost.
    #[error("the mail server did not accept the message now: {0}")]
    Later(String),
    /// The server refuses this message. The reply does not show whether the server accepts other
    /// messages.
    #[error("the mail server does not accept this message, or no message from this server: {0}")]
    Unclear(String),
    /// The server accepts no messages: it is unreachable, not trusted, or refuses the sign-in. The
    /// message is not the cause.
    #[error("{0}")]
    Relay(String),
    /// No mail server accepts the recipient's address.
    #[error("the mail cannot be sent: {0}")]
    Unsendable(&'static str),
    /// The attempt failed because of a bug in this program.
    #[error("the program failed on the mail; please report it")]
    Failed,
}

/// Sender of messages to one mail server. It keeps no connection open.
pub struct Transport {
    route: MailRoute,
    from: Mailbox,
    from_address: Address,
    reply_to: Option<Mailbox>,
    credentials: Option<(String, PathBuf)>,
    timeout: Duration,
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transport({})", self.route.server())
    }
}

impl Transport {
    /// Reads the files of certificate authorities. Opens no connection.
    ///
    /// # Errors
    /// [`SendError::Relay`] if the files cannot be read.
    pub fn new(config: &MailConfig) -> Result<Self, SendError> {
        let route = MailRoute::new(config).map_err(SendError::Relay)?;
        let from_address = compose::address(&config.from.address)
            .ok_or_else(|| SendError::Relay("mail.from: is not an address that mail servers accept".to_owned()))?;
        let credentials = config.credentials.clone();
        Ok(Self {
            route,
            from: config.from.clone(),
            from_address,
            reply_to: config.reply_to.clone(),
            credentials: credentials.map(|MailCredentials { username, password_file }| (username, password_file)),
            timeout: config.timeout,
        })
    }

    /// Tests connection, TLS, EHLO and sign-in.
    ///
    /// # Errors
    /// [`SendError::Relay`] or [`SendError::Failed`].
    pub async fn probe(&self) -> Result<(), SendError> {
        let attempt = timeout(self.timeout, async {
            let mut connection = self.open().await?;
            let answer = connection.command(Noop).await;
            answer.map_err(|error| self.relay(&format!("does not answer ({})", reply(&error))))?;
            Ok(connection)
        });
        let mut connection = caught(attempt).await?.map_err(|_| self.too_late())??;
        quit(&mut connection).await;
        Ok(())
    }

    /// Sends a message and returns the server's reply.
    ///
    /// # Errors
    /// [`SendError`], depending on the cause.
    pub async fn send(&self, composed: &Composed, to: &Email) -> Result<String, SendError> {
        let unsendable = SendError::Unsendable("mail servers do not accept the recipient's address");
        let to = MailAddress::from_email(to).ok_or_else(|| unsendable.clone())?;
        // True after a successful sign-in. Later failures then concern this message.
        let inside = AtomicBool::new(false);
        let attempt = timeout(self.timeout, async {
            let recipient = compose::address(&to).ok_or(unsendable)?;
            let bytes = compose::bytes(composed, &self.from, self.reply_to.as_ref(), recipient.clone());
            let bytes = bytes.ok_or(SendError::Unsendable("a value is not valid in its header field"))?;
            let mut connection = self.open().await?;
            inside.store(true, Ordering::Relaxed);
            let answer = self.hand_over(&mut connection, recipient, &bytes).await?;
            Ok((connection, answer))
        });
        let attempt = caught(attempt).await?.unwrap_or_else(|_| {
            let later = || SendError::Later(format!("no answer within {} seconds", self.timeout.as_secs()));
            Err(if inside.load(Ordering::Relaxed) { later() } else { self.too_late() })
        });
        let (mut connection, answer) = attempt.map_err(|error| error.without(&to))?;
        // The server has accepted the message. Later errors of the connection do not matter.
        quit(&mut connection).await;
        let lines = answer.message().collect::<Vec<_>>().join(" ");
        Ok(sanitized(&format!("{} {lines}", answer.code()), Some(&to)))
    }

    /// Opens a connection and signs in.
    async fn open(&self) -> Result<AsyncSmtpConnection, SendError> {
        let mut connection = self.route.open().await.map_err(SendError::Relay)?;
        let Some((username, file)) = &self.credentials else { return Ok(connection) };
        let path = file.clone();
        let read =
            tokio::task::spawn_blocking(move || read_secret_file(&path, "the password for the mail server")).await;
        let password = read
            .unwrap_or_else(|_| Err("cannot be read".to_owned()))
            .map_err(|problem| SendError::Relay(format!("mail.password_file: {} {problem}", file.display())))?;
        let credentials = Credentials::new(username.clone(), password.to_string());
        let answer = connection.auth(&[Mechanism::Plain, Mechanism::Login], &credentials).await;
        answer.map_err(|error| match error.status() {
            Some(_) => self.relay(&format!(
                "does not accept mail.username and the password ({}); correct them, or ask the operator of the mail server",
                reply(&error)
            )),
            None if error.is_client() => {
                self.relay("does not offer to sign in with a password (PLAIN or LOGIN); leave out mail.username and mail.password_file, or use another port")
            }
            None => self.relay(&format!("closed the connection during the sign-in ({})", reply(&error))),
        })?;
        Ok(connection)
    }

    async fn hand_over(
        &self,
        connection: &mut AsyncSmtpConnection,
        to: Address,
        mail: &[u8],
    ) -> Result<Response, SendError> {
        let from = connection.command(Mail::new(Some(self.from_address.clone()), Vec::new())).await;
        from.map_err(|error| self.class(Step::Sender, &error))?;
        for command in [Rcpt::new(to, Vec::new()).to_string(), Data.to_string()] {
            connection.command(command).await.map_err(|error| self.class(Step::Mail, &error))?;
        }
        connection.message(mail).await.map_err(|error| self.class(Step::Mail, &error))
    }

    /// Classifies a reply after sign-in.
    fn class(&self, step: Step, error: &SmtpError) -> SendError {
        let answer = reply(error);
        // An error without a code is a failed connection.
        let Some(code) = error.status().map(u16::from) else { return SendError::Later(answer) };
        let wants_sign_in = matches!(code, 530 | 534 | 535 | 538);
        match blame(step, code, &words(error)) {
            Blame::Configuration if step == Step::Sender && code >= 500 && !wants_sign_in => self.relay(&format!(
                "does not accept the sender mail.from ({answer}); use an address that the server accepts from this account"
            )),
            Blame::Configuration => self.relay(&format!("accepts no mail from this server ({answer})")),
            Blame::Mail => SendError::Refused(answer),
            Blame::Unclear => SendError::Unclear(answer),
            Blame::Temporary => SendError::Later(answer),
        }
    }

    fn relay(&self, problem: &str) -> SendError {
        SendError::Relay(format!("{} {problem}", self.route.server()))
    }

    fn too_late(&self) -> SendError {
        self.relay(&format!("did not answer within {} seconds", self.timeout.as_secs()))
    }
}

impl SendError {
    /// Removes parts of the message that the server may have repeated.
    fn without(self, to: &MailAddress) -> Self {
        match self {
            Self::Refused(answer) => Self::Refused(sanitized(&answer, Some(to))),
            Self::Later(answer) => Self::Later(sanitized(&answer, Some(to))),
            Self::Unclear(answer) => Self::Unclear(sanitized(&answer, Some(to))),
            other => other,
        }
    }
}

async fn quit(connection: &mut AsyncSmtpConnection) {
    // The result of closing the connection does not matter.
    let _ = timeout(QUIT_TIMEOUT, connection.abort()).await;
}

/// Runs the attempt and converts a panic to an error, so that one message cannot stop the delivery
/// of others.
async fn caught<T>(attempt: impl Future<Output = T>) -> Result<T, SendError> {
    let mut attempt = pin!(attempt);
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| attempt.as_mut().poll(context))) {
        Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(_) => Poll::Ready(Err(SendError::Failed)),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error_of_one_mail() {
        let later = async {
            tokio::task::yield_now().await;
            assert_eq!(1, 2, "the library fails");
        };
        assert_eq!(caught(later).await, Err(SendError::Failed));
        assert_eq!(caught(async { 7 }).await, Ok(7));
    }
}
