//! Commands about browser sessions.

use std::collections::BTreeSet;

use serde_json::json;

use super::answer::Answer;
use super::command::{Person, SessionCommand};
use super::execute::{CommandError, Directory, PAGE};
use super::{users, view};
use crate::domain::audit::{AuditEvent, AuditKind};
use crate::domain::client::ClientId;
use crate::domain::grant::GrantId;
use crate::domain::session::SessionId;
use crate::store::GrantFilter;

pub(super) async fn execute(directory: &Directory<'_>, command: SessionCommand) -> Result<Answer, CommandError> {
    match command {
        SessionCommand::List { person, after } => list(directory, &person, after).await,
        SessionCommand::ListOfClient { client, after } => list_of_client(directory, &client, after).await,
        SessionCommand::EndOfClient(client) => end_of_client(directory, &client).await,
        SessionCommand::EndAll(person) => end_all(directory, &person).await,
        SessionCommand::End(id) => end(directory, id).await,
    }
}

async fn list(directory: &Directory<'_>, person: &Person, after: Option<SessionId>) -> Result<Answer, CommandError> {
    let sub = users::find(directory, person).await?.sub;
    let page = directory.store.sessions_of_user(sub, after, PAGE).await?;
    let next = page.next.map(|id| id.to_string());
    let now = directory.clock.now();
    let live = page.sessions.iter().filter(|session| session.is_live(now)).map(view::session).collect();
    Ok(view::list("sessions", live, next))
}

/// The grants of a client know from which sessions they came.
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
        shown.extend(session.map(|session| view::session(&session.value)));
    }
    Ok(view::list("sessions", shown, next.map(|id| id.to_string())))
}

async fn end_of_client(directory: &Directory<'_>, client: &ClientId) -> Result<Answer, CommandError> {
    let (mut ended, mut after) = (0_usize, None);
    loop {
        let (sessions, next) = page_of_client(directory, client, after).await?;
        for id in sessions {
            ended += usize::from(directory.store.end_session(id).await?);
        }
        after = next;
        if after.is_none() {
            break;
        }
    }
    let event = directory.event(AuditKind::SessionsEnded).with_client(client);
    directory.record(event.with_detail(format!("sessions {ended}"))).await;
    Ok(view::object(json!({ "client_id": client, "sessions_ended": ended })))
}

/// The sessions of a page of a client's active grants, each once on the page.
async fn page_of_client(
    directory: &Directory<'_>,
    client: &ClientId,
    after: Option<GrantId>,
) -> Result<(BTreeSet<SessionId>, Option<GrantId>), CommandError> {
    let filter = GrantFilter { client: Some(client.clone()), ..GrantFilter::default() };
    let page = directory.store.grants(&filter, after, PAGE).await?;
    Ok((page.grants.iter().map(|grant| grant.session).collect(), page.next))
}

async fn end_all(directory: &Directory<'_>, person: &Person) -> Result<Answer, CommandError> {
    let sub = users::find(directory, person).await?.sub;
    let ended = directory.store.end_sessions_of_user(sub).await?;
    directory.record(directory.event(AuditKind::SessionsEnded).of(sub).with_detail(format!("sessions {ended}"))).await;
    Ok(view::object(json!({ "sub": sub, "sessions_ended": ended })))
}

async fn end(directory: &Directory<'_>, id: SessionId) -> Result<Answer, CommandError> {
    let subject = directory.store.session(id).await?.and_then(|loaded| loaded.value.current().map(|one| one.subject));
    if !directory.store.end_session(id).await? {
        return Err(CommandError::Absent(format!("no session has the sid {id}")));
    }
    let event = directory.event(AuditKind::SessionsEnded).in_session(id);
    directory.record(subject.into_iter().fold(event, AuditEvent::of)).await;
    Ok(view::object(json!({ "sid": id, "sessions_ended": 1 })))
}
