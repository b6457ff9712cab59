//! Encodes a message for SMTP.

use std::time::{Duration, SystemTime};

use lettre::Address;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox as HeaderMailbox, Message, MultiPart, MultiPartKind, SinglePart};

use super::compose::{Composed, MailHeader};
use sealgate_config::Mailbox;
use sealgate_domain::mail_address::MailAddress;
use sealgate_domain::profile::is_seen;

/// Converts an address to the library's type.
pub(super) fn address(address: &MailAddress) -> Option<Address> {
    Address::new(address.local(), address.domain()).ok()
}

fn mailbox(mailbox: &Mailbox) -> Option<HeaderMailbox> {
    // The library panics on a name with a line break.
    let name = mailbox.name.clone().filter(|name| is_seen(name));
    Some(HeaderMailbox::new(name, address(&mailbox.address)?))
}

/// Returns the whole message in ASCII; `None` if a value is invalid in its header field.
pub(super) fn bytes(composed: &Composed, from: &Mailbox, reply_to: Option<&Mailbox>, to: Address) -> Option<Vec<u8>> {
    let id = composed.message_id.strip_prefix('<')?.strip_suffix('>')?;
    let sound = |byte: u8| byte.is_ascii_graphic() && byte != b'<' && byte != b'>';
    if !id.bytes().all(sound) || !is_seen(&composed.subject) {
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
    // The same message has the same bytes at each attempt.
    let boundary = format!("=_{}", id.split('@').next().unwrap_or_default());
    let body = MultiPart::builder()
        .kind(MultiPartKind::Alternative)
        .boundary(boundary)
        .singlepart(part(ContentType::TEXT_PLAIN, &composed.text))
        .singlepart(part(ContentType::TEXT_HTML, &composed.html));
    Some(message.multipart(body).ok()?.formatted())
}
