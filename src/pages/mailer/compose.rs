//! Renders messages: subject, text, HTML, and header fields other than addresses. Encodes a message
//! for SMTP.
//!
//! All values come from the configuration and the domain. User input is cleaned and appears only in
//! the body.

use std::fmt;
use std::time::{Duration, SystemTime};

use lettre::Address;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox as HeaderMailbox, Message, MultiPart, MultiPartKind, SinglePart};

use crate::MailView;
use sealgate_config::{Accent, IssuerUrl, Mailbox};
use sealgate_domain::mail::{INVITATION_PATH, Mail, MailId, MailMessage, Notice, RESET_PATH, UNDO_PATH};
use sealgate_domain::mail_address::MailAddress;
use sealgate_domain::profile::{is_visible, visible_part};
use sealgate_domain::time::UnixTime;

/// Maximum length of a user's or application's name in a message, in characters.
const MAX_NAME_LENGTH: usize = 100;

/// Sender of a message.
#[derive(Debug, Clone)]
pub struct Sender<'a> {
    pub issuer: &'a IssuerUrl,
    /// Name of the operator, as on the pages.
    pub operator: &'a str,
    pub accent: Option<Accent>,
}

/// Rendered message without a recipient.
#[derive(Clone, PartialEq, Eq)]
pub struct Composed {
    /// `Message-ID` with angle brackets, the same for each attempt.
    pub message_id: String,
    /// `Date` of the message: the time of the event, and therefore the same for each attempt.
    pub at: UnixTime,
    pub subject: String,
    pub text: String,
    pub html: String,
}

/// Omits links and codes.
impl fmt::Debug for Composed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Composed({})", self.message_id)
    }
}

/// Header fields of every message, besides addresses, subject, date and MIME fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailHeader {
    /// Suppresses out-of-office replies (RFC 3834 §5).
    AutoSubmitted,
    /// Suppresses out-of-office replies of Exchange.
    SuppressAutomaticAnswers,
}

impl MailHeader {
    /// All headers, in the order of the variants.
    pub const ALL: [Self; 2] = [Self::AutoSubmitted, Self::SuppressAutomaticAnswers];

    /// Returns the name and the value.
    pub const fn field(self) -> (&'static str, &'static str) {
        match self {
            Self::AutoSubmitted => ("Auto-Submitted", "auto-generated"),
            Self::SuppressAutomaticAnswers => ("X-Auto-Response-Suppress", "All"),
        }
    }
}

/// Reason why a message cannot be rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ComposeError {
    #[error("a message of this kind is only stored and never sent")]
    NotSent,
    #[error("the token of the link is empty or has characters that a token cannot have")]
    Token,
    #[error("the verification code is empty or has characters other than digits")]
    Code,
}

/// Renders a message. The same message and id give the same result.
///
/// # Errors
/// For kinds that are not sent, and for invalid values.
pub fn compose(message: &MailMessage, sender: &Sender<'_>, id: MailId) -> Result<Composed, ComposeError> {
    let mail = cleaned(&message.mail);
    if let Mail::VerificationCode { code, .. } = &mail
        && (code.is_empty() || !code.bytes().all(|byte| byte.is_ascii_digit()))
    {
        return Err(ComposeError::Code);
    }
    let link = link(&mail, sender.issuer)?;
    let operator = one_line(sender.operator);
    let view = MailView {
        language: message.language,
        operator: &operator,
        host: sender.issuer.host(),
        accent: sender.accent,
        at: message.at,
        origin: message.origin.as_ref(),
        mail: &mail,
        link: link.as_deref(),
    };
    let (Some(subject), Some(text), Some(html)) = (view.subject(), view.text(), view.html()) else {
        return Err(ComposeError::NotSent);
    };
    Ok(Composed { message_id: format!("<{id}@{}>", sender.issuer.host()), at: message.at, subject, text, html })
}

/// Returns the only link of a message, below the configured issuer.
fn link(mail: &Mail, issuer: &IssuerUrl) -> Result<Option<String>, ComposeError> {
    let with_token = |path: &str, token: &str| {
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if token.is_empty() || !token.bytes().all(is_valid) {
            return Err(ComposeError::Token);
        }
        Ok(Some(format!("{}{path}?token={token}", issuer.as_str())))
    };
    match mail {
        Mail::Reset { token } => with_token(RESET_PATH, token),
        Mail::Invitation { token, .. } => with_token(INVITATION_PATH, token),
        Mail::AddressChanged { token, .. } => with_token(UNDO_PATH, token),
        // The page asks users to sign in first if necessary.
        Mail::AccountExists { .. } => Ok(Some(format!("{}/account", issuer.as_str()))),
        Mail::Notice { notice: Notice::ClientNeedsApproval, .. } => {
            Ok(Some(format!("{}/console/clients", issuer.as_str())))
        }
        // A user whose second factors were reset can reach only the sign-in page.
        Mail::Notice { notice, .. } if *notice != Notice::FactorsReset => {
            Ok(Some(format!("{}/account/security", issuer.as_str())))
        }
        Mail::Notice { .. }
        | Mail::ResetWanted { .. }
        | Mail::AddressWanted { .. }
        | Mail::PasskeysOnly
        | Mail::PasswordElsewhere
        | Mail::VerificationCode { .. }
        | Mail::Test => Ok(None),
    }
}

/// Returns the message with names cleaned, so that they cannot imitate other content.
fn cleaned(mail: &Mail) -> Mail {
    let line = |name: &Option<String>| name.as_deref().map(one_line).filter(|name| !name.is_empty());
    match mail {
        Mail::Invitation { token, inviter, app } => {
            Mail::Invitation { token: token.clone(), inviter: line(inviter), app: line(app) }
        }
        Mail::AddressChanged { token, new_address } => {
            Mail::AddressChanged { token: token.clone(), new_address: one_line(new_address) }
        }
        other => other.clone(),
    }
}

/// Returns the text on one line, without invisible characters, and truncated.
fn one_line(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let cut: String = visible_part(&words).chars().take(MAX_NAME_LENGTH).collect();
    // The cut may have left a joiner at the end, where it is invisible.
    visible_part(&cut)
}

/// Converts an address to the library's type.
pub(super) fn address(address: &MailAddress) -> Option<Address> {
    Address::new(address.local(), address.domain()).ok()
}

fn mailbox(mailbox: &Mailbox) -> Option<HeaderMailbox> {
    // The library panics if a name contains a line break.
    let name = mailbox.name.clone().filter(|name| is_visible(name));
    Some(HeaderMailbox::new(name, address(&mailbox.address)?))
}

/// Returns the whole message in ASCII. `None` if a value is invalid in its header field.
pub(super) fn bytes(composed: &Composed, from: &Mailbox, reply_to: Option<&Mailbox>, to: Address) -> Option<Vec<u8>> {
    let id = composed.message_id.strip_prefix('<')?.strip_suffix('>')?;
    let is_valid = |byte: u8| byte.is_ascii_graphic() && byte != b'<' && byte != b'>';
    if !id.bytes().all(is_valid) || !is_visible(&composed.subject) {
        return None;
    }
    let date = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(composed.at.seconds()))?;
    let mut message = Message::builder()
        .message_id(Some(composed.message_id.clone()))
        .date(date)
        .from(mailbox(from)?)
        .to(HeaderMailbox::new(None, to))
        .subject(composed.subject.clone());
    if let Some(reply_to) = reply_to {
        message = message.reply_to(mailbox(reply_to)?);
    }
    for (name, value) in MailHeader::ALL.map(MailHeader::field) {
        message =
            message.raw_header(HeaderValue::new(HeaderName::new_from_ascii(name.to_owned()).ok()?, value.to_owned()));
    }
    let part = |kind, text: &str| SinglePart::builder().header(kind).body(text.to_owned());
    // The boundary depends only on the message, so that the message has the same bytes at each
    // attempt.
    let boundary = format!("=_{}", id.split('@').next().unwrap_or_default());
    let body = MultiPart::builder()
        .kind(MultiPartKind::Alternative)
        .boundary(boundary)
        .singlepart(part(ContentType::TEXT_PLAIN, &composed.text))
        .singlepart(part(ContentType::TEXT_HTML, &composed.html));
    Some(message.multipart(body).ok()?.formatted())
}
