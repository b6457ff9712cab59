//! Commands about browser sessions.

use serde_json::json;

use super::answer::Answer;
use super::command::{Person, SessionCommand};
use super::execute::{CommandError, Directory, PAGE};
use super::{users, view};
use crate::protocol::session::SessionId;

pub(super) async fn execute(directory: &Directory<'_>, command: SessionCommand) -> Result<Answer, CommandError> {
    match command {
        SessionCommand::List { person, after } => list(directory, &person, after).await,
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

async fn end_all(directory: &Directory<'_>, person: &Person) -> Result<Answer, CommandError> {
    let sub = users::find(directory, person).await?.sub;
    let ended = directory.store.end_sessions_of_user(sub).await?;
    tracing::info!(%sub, sessions_ended = ended, "an operator ended a person's sessions");
    Ok(view::object(json!({ "sub": sub, "sessions_ended": ended })))
}

async fn end(directory: &Directory<'_>, id: SessionId) -> Result<Answer, CommandError> {
    if !directory.store.end_session(id).await? {
        return Err(CommandError::Absent(format!("no session has the sid {id}")));
    }
    tracing::info!(sid = %id, "an operator ended a session");
    Ok(view::object(json!({ "sid": id, "sessions_ended": 1 })))
}
