//! Commands about mails: what waits, what was given up, what was sent.

use super::answer::{Answer, EndedAnswer, ListPage, MailAnswer, Rows};
use super::command::MailCommand;
use super::directory::{CommandError, Directory};
use crate::domain::mail::MailId;

/// Mails of one kind of list that one answer shows.
const MOST_SHOWN: usize = 1_000;

pub(super) async fn execute(directory: &Directory<'_>, command: MailCommand) -> Result<Answer, CommandError> {
    let store = directory.store;
    match command {
        MailCommand::List { sent: true } => {
            let sent = store.sent_mails(None, MOST_SHOWN).await?;
            Ok(page(sent.into_iter().map(MailAnswer::sent)))
        }
        MailCommand::List { sent: false } => {
            let dead = store.dead_mails(None, MOST_SHOWN).await?;
            let waiting = store.waiting_mails(None, MOST_SHOWN).await?;
            let waiting = waiting.into_iter().map(|mail| MailAnswer::waiting(mail.value));
            Ok(page(dead.into_iter().map(MailAnswer::given_up).chain(waiting)))
        }
        MailCommand::Retry { id } => {
            if !store.retry_mail(known(&id)?, directory.clock.now()).await? {
                return Err(absent(&id));
            }
            Ok(EndedAnswer { id: Some(id), retried: Some(true), ..EndedAnswer::from(()) }.into())
        }
        MailCommand::Drop { id } => {
            if !store.drop_mail(known(&id)?).await? {
                return Err(absent(&id));
            }
            Ok(EndedAnswer { id: Some(id), deleted: Some(true), ..EndedAnswer::from(()) }.into())
        }
    }
}

fn page(mails: impl Iterator<Item = MailAnswer>) -> Answer {
    ListPage::answer(Rows::Mails(mails.collect()), None::<String>)
}

fn known(id: &str) -> Result<MailId, CommandError> {
    MailId::parse(id).ok_or_else(|| absent(id))
}

fn absent(id: &str) -> CommandError {
    CommandError::Absent(format!(
        "no mail with the id {id} waits or was given up; it may have been sent: sealgate mail list --sent"
    ))
}
