//! The command that reads the audit trail.

use super::answer::Answer;
use super::command::{AuditCommand, Person};
use super::execute::{CommandError, Directory, PAGE};
use super::{users, view};
use crate::domain::audit::AuditFilter;

pub(super) async fn execute(directory: &Directory<'_>, command: Box<AuditCommand>) -> Result<Answer, CommandError> {
    let subject = match &command.person {
        // Somebody who is gone has left a trail too.
        Some(Person::Sub(sub)) => Some(*sub),
        Some(person) => Some(users::find(directory, person).await?.sub),
        None => None,
    };
    let AuditCommand { client, kinds, since, until, after, limit, .. } = *command;
    let filter = AuditFilter { subject, client, kinds, since, until };
    let page = directory.store.audit_page(&filter, after, limit.clamp(1, PAGE)).await?;
    let next = page.next.map(|id| id.to_string());
    Ok(view::list("events", page.records.iter().map(view::audit).collect(), next))
}
