//! Commands about application passwords. Only the owner of an account can create one.

use super::answer::{Answer, AppPasswordAnswer, EndedAnswer, ListPage, Rows};
use super::command::AppPasswordCommand;
use super::directory::{CommandError, Directory};
use super::people;
use super::person::Person;
use sealgate_domain::audit::AuditKind;

pub(super) async fn execute(directory: &Directory<'_>, command: AppPasswordCommand) -> Result<Answer, CommandError> {
    match command {
        AppPasswordCommand::List(person) => {
            let sub = people::find(directory, &person).await?.sub;
            let known = directory.store.app_passwords(sub).await?.passwords.into_iter();
            Ok(ListPage::answer(Rows::AppPasswords(known.map(AppPasswordAnswer::from).collect()), None::<String>))
        }
        AppPasswordCommand::Revoke { person, id, .. } => revoke(directory, &person, &id).await,
    }
}

async fn revoke(directory: &Directory<'_>, person: &Person, id: &str) -> Result<Answer, CommandError> {
    let sub = people::find(directory, person).await?.sub;
    let Some(gone) = directory.store.revoke_app_password(sub, id).await? else {
        return Err(CommandError::Absent(format!("{person} has no application password with the ID {id}")));
    };
    let event = directory.event(AuditKind::AppPasswordRevoked).of(sub).in_app(&gone.app);
    directory.record(event.with_detail(gone.id())).await;
    let (id, app, name) = (Some(id.to_owned()), Some(gone.app), Some(gone.name));
    Ok(EndedAnswer { sub: Some(sub), id, app, name, revoked: Some(true), ..EndedAnswer::from(()) }.into())
}
