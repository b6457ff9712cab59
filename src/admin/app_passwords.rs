//! Commands about application passwords. Nobody but their owner makes one.

use serde_json::json;

use super::answer::Answer;
use super::command::{AppPasswordCommand, Person};
use super::execute::{CommandError, Directory};
use super::{users, view};
use crate::domain::audit::AuditKind;

pub(super) async fn execute(directory: &Directory<'_>, command: AppPasswordCommand) -> Result<Answer, CommandError> {
    match command {
        AppPasswordCommand::List(person) => {
            let sub = users::find(directory, &person).await?.sub;
            let known = directory.store.app_passwords(sub).await?;
            Ok(view::list("app_passwords", known.passwords.iter().map(view::app_password).collect(), None))
        }
        AppPasswordCommand::Revoke { person, id } => revoke(directory, &person, &id).await,
    }
}

async fn revoke(directory: &Directory<'_>, person: &Person, id: &str) -> Result<Answer, CommandError> {
    let sub = users::find(directory, person).await?.sub;
    let Some(gone) = directory.store.revoke_app_password(sub, id).await? else {
        return Err(CommandError::Absent(format!("{person} has no application password with the id {id}")));
    };
    let event = directory.event(AuditKind::AppPasswordRevoked).of(sub).in_app(&gone.app);
    directory.record(event.with_detail(gone.id())).await;
    Ok(view::object(json!({ "sub": sub, "id": id, "app": gone.app, "name": gone.name, "revoked": true })))
}
