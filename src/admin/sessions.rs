//! Commands about browser sessions.

use std::collections::BTreeSet;

use super::answer::{Answer, EndedAnswer, ListPage, Rows, SessionAnswer};
use super::command::{SessionCommand, SessionsOf};
use super::directory::{CommandError, Directory, PAGE};
use super::people;
use super::person::Person;
use sealgate_domain::audit::{AuditEvent, AuditKind};
use sealgate_domain::client::ClientId;
use sealgate_domain::grant::GrantId;
use sealgate_domain::session::SessionId;
use sealgate_store::GrantFilter;

/// Error for a request without a filter, which the command line does not send.
const NO_FILTER: &str = "name a user or a client";

pub(super) async fn execute(directory: &Directory<'_>, command: SessionCommand) -> Result<Answer, CommandError> {
    match command {
        SessionCommand::List { of: SessionsOf { user, client }, after } => match (user, client) {
            (Some(user), _) => list(directory, &user, after.as_deref().and_then(SessionId::parse)).await,
            (None, Some(client)) => list_of_client(directory, &client, after.as_deref().and_then(GrantId::parse)).await,
            (None, None) => Err(CommandError::invalid(NO_FILTER)),
        },
        SessionCommand::Revoke { sid } => revoke(directory, sid).await,
        SessionCommand::RevokeAll(SessionsOf { user, client }) => match (user, client) {
            (Some(user), _) => revoke_of_user(directory, &user).await,
            (None, Some(client)) => revoke_of_client(directory, client).await,
            (None, None) => Err(CommandError::invalid(NO_FILTER)),
        },
    }
}

async fn list(directory: &Directory<'_>, person: &Person, after: Option<SessionId>) -> Result<Answer, CommandError> {
    let sub = people::find(directory, person).await?.sub;
    let page = directory.store.sessions_of_user(sub, after, PAGE).await?;
    let now = directory.clock.now();
    let live = page.sessions.into_iter().filter(|session| session.is_live(now)).map(SessionAnswer::from);
    Ok(ListPage::answer(Rows::Sessions(live.collect()), page.next))
}

/// Lists the sessions that the grants of a client belong to.
async fn list_of_client(
    directory: &Directory<'_>,
    client: &ClientId,
    after: Option<GrantId>,
) -> Result<Answer, CommandError> {
    let (sessions, next) = page_of_client(directory, client, after).await?;
    let mut shown = Vec::new();
    let now = directory.clock.now();
    for id in sessions {
        let session = directory.store.session(id).await?.filter(|session| session.value.is_live(now));
        shown.extend(session.map(|session| SessionAnswer::from(session.value)));
    }
    Ok(ListPage::answer(Rows::Sessions(shown), next))
}

async fn revoke_of_client(directory: &Directory<'_>, client: ClientId) -> Result<Answer, CommandError> {
    let (mut ended, mut after) = (0_usize, None);
    loop {
        let (sessions, next) = page_of_client(directory, &client, after).await?;
        for id in sessions {
            ended += usize::from(directory.store.end_session(id).await?);
        }
        after = next;
        if after.is_none() {
            break;
        }
    }
    let event = directory.event(AuditKind::SessionsEnded).with_client(&client);
    directory.record(event.with_detail(format!("sessions {ended}"))).await;
    Ok(EndedAnswer { client_id: Some(client), sessions_ended: Some(ended), ..EndedAnswer::from(()) }.into())
}

/// Returns the sessions of a page of a client's active grants, each once per page.
async fn page_of_client(
    directory: &Directory<'_>,
    client: &ClientId,
    after: Option<GrantId>,
) -> Result<(BTreeSet<SessionId>, Option<GrantId>), CommandError> {
    let filter = GrantFilter { client: Some(client.clone()), ..GrantFilter::default() };
    let page = directory.store.grants(&filter, after, PAGE).await?;
    Ok((page.grants.iter().map(|grant| grant.session).collect(), page.next))
}

async fn revoke_of_user(directory: &Directory<'_>, person: &Person) -> Result<Answer, CommandError> {
    let sub = people::find(directory, person).await?.sub;
    let ended = directory.store.end_sessions_of_user(sub).await?;
    directory.record(directory.event(AuditKind::SessionsEnded).of(sub).with_detail(format!("sessions {ended}"))).await;
    Ok(EndedAnswer { sub: Some(sub), sessions_ended: Some(ended), ..EndedAnswer::from(()) }.into())
}

async fn revoke(directory: &Directory<'_>, id: SessionId) -> Result<Answer, CommandError> {
    let subject = directory.store.session(id).await?.and_then(|loaded| loaded.value.current().map(|one| one.subject));
    if !directory.store.end_session(id).await? {
        return Err(CommandError::Absent(format!("no session has the ID {id}")));
    }
    let event = directory.event(AuditKind::SessionsEnded).in_session(id);
    directory.record(subject.into_iter().fold(event, AuditEvent::of)).await;
    Ok(EndedAnswer { sid: Some(id), sessions_ended: Some(1), ..EndedAnswer::from(()) }.into())
}
