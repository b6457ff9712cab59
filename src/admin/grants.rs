//! Commands about grants.

use super::answer::{Answer, EndedAnswer, GrantAnswer, ListPage, Rows};
use super::command::{GrantCommand, GrantsOf};
use super::directory::{CommandError, Directory, PAGE};
use super::people;
use sealgate_domain::audit::{AuditEvent, AuditKind};
use sealgate_domain::grant::{EndReason, GrantId};
use sealgate_store::GrantFilter;

pub(super) async fn execute(directory: &Directory<'_>, command: GrantCommand) -> Result<Answer, CommandError> {
    match command {
        GrantCommand::List { of, after } => {
            let after = after.as_deref().and_then(GrantId::parse);
            let page = directory.store.grants(&filter(directory, of).await?, after, PAGE).await?;
            Ok(ListPage::answer(Rows::Grants(page.grants.into_iter().map(GrantAnswer::from).collect()), page.next))
        }
        GrantCommand::Revoke { grant } => revoke(directory, grant).await,
        GrantCommand::RevokeAll(of) => revoke_all(directory, of).await,
    }
}

async fn filter(directory: &Directory<'_>, of: GrantsOf) -> Result<GrantFilter, CommandError> {
    let subject = match &of.user {
        Some(person) => Some(people::find(directory, person).await?.sub),
        None => None,
    };
    if subject.is_none() && of.client.is_none() && of.session.is_none() {
        return Err(CommandError::invalid("name a user, a client or a session"));
    }
    Ok(GrantFilter { subject, client: of.client, session: of.session })
}

async fn revoke(directory: &Directory<'_>, id: GrantId) -> Result<Answer, CommandError> {
    let absent = || CommandError::Absent(format!("no active grant has the ID {id}"));
    let grant = directory.store.grant(id).await?.ok_or_else(absent)?.value;
    if !directory.store.end_grant(id, EndReason::Administrator, directory.clock.now()).await? {
        return Err(absent());
    }
    let event = directory.event(AuditKind::GrantsEnded).of(grant.subject).with_client(&grant.client);
    directory.record(event.with_grant(id)).await;
    Ok(EndedAnswer { grant: Some(id), grants_ended: Some(1), ..EndedAnswer::from(()) }.into())
}

async fn revoke_all(directory: &Directory<'_>, of: GrantsOf) -> Result<Answer, CommandError> {
    let filter = filter(directory, of).await?;
    let ended = directory.store.end_grants(&filter, EndReason::Administrator, directory.clock.now()).await?;
    let event = directory.event(AuditKind::GrantsEnded).with_detail(format!("grants {ended}"));
    let event = filter.subject.into_iter().fold(event, AuditEvent::of);
    let event = filter.client.iter().fold(event, AuditEvent::with_client);
    directory.record(filter.session.into_iter().fold(event, AuditEvent::in_session)).await;
    Ok(EndedAnswer { grants_ended: Some(ended), ..EndedAnswer::from(()) }.into())
}
