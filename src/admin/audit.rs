//! The command that reads the audit log.

use super::answer::{Answer, EventAnswer, ListPage, Rows};
use super::command::{AuditCommand, EventFilter};
use super::directory::{CommandError, Directory, PAGE};
use super::people;
use super::person::Person;
use sealgate_domain::audit::{AuditFilter, AuditId};

pub(super) async fn execute(directory: &Directory<'_>, command: AuditCommand) -> Result<Answer, CommandError> {
    let AuditCommand { filter: EventFilter { user, client, kinds, since, until }, limit, after } = command;
    let subject = match &user {
        // A deleted user is still in the audit log.
        Some(Person::Sub(sub)) => Some(*sub),
        Some(person) => Some(people::find(directory, person).await?.sub),
        None => None,
    };
    let filter = AuditFilter { subject, client, kinds, since, until };
    let after = after.as_deref().and_then(AuditId::parse);
    directory.trail.settle(filter.subject).await;
    let page = directory.store.audit_page(&filter, after, limit.clamp(1, PAGE)).await?;
    Ok(ListPage::answer(Rows::Events(page.records.into_iter().map(EventAnswer::from).collect()), page.next))
}
