//! Commands about queued, failed and sent mails.

use std::fmt;

use super::answer::{Answer, EndedAnswer, ListPage, MailAnswer, Rows};
use super::command::MailCommand;
use super::context::{CommandContext, CommandError, cursor};
use sealgate_domain::audit::AuditKind;
use sealgate_domain::mail::MailId;
use sealgate_domain::time::UnixTime;

/// Maximum number of mails in one answer.
const MAX_SHOWN: usize = 500;

/// Cursor of the list: state, time and id of the last mail on the previous page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MailCursor {
    GivenUp(UnixTime, MailId),
    Waiting(UnixTime, MailId),
    Sent(UnixTime, MailId),
}

impl MailCursor {
    /// Parses `STATE.SECONDS.ID`, as [`Display`](fmt::Display) writes it.
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '.');
        let (state, at, id) = (parts.next()?, parts.next()?, parts.next()?);
        let (at, id) = (UnixTime::from_seconds(at.parse().ok()?), MailId::parse(id)?);
        match state {
            "given_up" => Some(Self::GivenUp(at, id)),
            "waiting" => Some(Self::Waiting(at, id)),
            "sent" => Some(Self::Sent(at, id)),
            _ => None,
        }
    }
}

impl fmt::Display for MailCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (state, at, id) = match self {
            Self::GivenUp(at, id) => ("given_up", at, id),
            Self::Waiting(at, id) => ("waiting", at, id),
            Self::Sent(at, id) => ("sent", at, id),
        };
        write!(f, "{state}.{}.{id}", at.seconds())
    }
}

pub(super) async fn execute(context: &CommandContext<'_>, command: MailCommand) -> Result<Answer, CommandError> {
    let store = context.store;
    match command {
        MailCommand::List { sent, after } => {
            let is_of_list = |cursor: &MailCursor| matches!(cursor, MailCursor::Sent(..)) == sent;
            let cursor = cursor(after.as_deref(), |text| MailCursor::parse(text).filter(is_of_list))?;
            if sent { list_sent(context, cursor).await } else { list(context, cursor).await }
        }
        MailCommand::Retry { id } => {
            if !store.retry_mail(parse_id(&id)?, context.clock.now()).await? {
                return Err(absent(&id));
            }
            context.record(context.event(AuditKind::MailChanged).with_detail(format!("retry {id}"))).await;
            Ok(EndedAnswer { id: Some(id), retried: Some(true), ..EndedAnswer::from(()) }.into())
        }
        MailCommand::Delete { id } => {
            if !store.drop_mail(parse_id(&id)?).await? {
                return Err(absent(&id));
            }
            context.record(context.event(AuditKind::MailChanged).with_detail(format!("delete {id}"))).await;
            Ok(EndedAnswer { id: Some(id), deleted: Some(true), ..EndedAnswer::from(()) }.into())
        }
    }
}

/// Lists failed mails, then queued ones.
///
/// A page may be shorter than the maximum. The last page is empty.
async fn list(context: &CommandContext<'_>, cursor: Option<MailCursor>) -> Result<Answer, CommandError> {
    let (given_up, waiting) = match cursor {
        Some(MailCursor::Waiting(at, id)) => (None, Some((at, id))),
        Some(MailCursor::GivenUp(at, id)) => (Some((at, id)), None),
        _ => (None, None),
    };
    if waiting.is_none() {
        let dead = context.store.dead_mails(given_up, MAX_SHOWN).await?;
        if let Some(last) = dead.last() {
            let next = MailCursor::GivenUp(last.at, last.mail.id);
            return Ok(page(dead.into_iter().map(MailAnswer::given_up), Some(next)));
        }
    }
    let waiting = context.store.waiting_mails_after(waiting, MAX_SHOWN).await?;
    let next = waiting.last().map(|last| MailCursor::Waiting(last.value.due_at, last.value.id));
    Ok(page(waiting.into_iter().map(|mail| MailAnswer::waiting(mail.value)), next))
}

async fn list_sent(context: &CommandContext<'_>, cursor: Option<MailCursor>) -> Result<Answer, CommandError> {
    let after = cursor.and_then(|cursor| if let MailCursor::Sent(at, id) = cursor { Some((at, id)) } else { None });
    let mails = context.store.sent_mails(after, MAX_SHOWN).await?;
    let next = mails.last().map(|last| MailCursor::Sent(last.at, last.id));
    Ok(page(mails.into_iter().map(MailAnswer::sent), next))
}

fn page(mails: impl Iterator<Item = MailAnswer>, next: Option<MailCursor>) -> Answer {
    ListPage::answer(Rows::Mails(mails.collect()), next)
}

fn parse_id(id: &str) -> Result<MailId, CommandError> {
    MailId::parse(id).ok_or_else(|| absent(id))
}

fn absent(id: &str) -> CommandError {
    CommandError::Absent(format!("no queued or undeliverable message has the ID {id}; the message may have been sent"))
}
