//! Commands about what people allowed clients.

use serde_json::json;

use super::answer::Answer;
use super::command::{ConsentCommand, Person};
use super::execute::{CommandError, Directory, PAGE};
use super::{users, view};
use crate::domain::audit::AuditKind;
use crate::domain::client::ClientId;

pub(super) async fn execute(directory: &Directory<'_>, command: ConsentCommand) -> Result<Answer, CommandError> {
    match command {
        ConsentCommand::List { person, after } => {
            let sub = users::find(directory, &person).await?.sub;
            let consents = directory.store.consents_page(sub, after.as_ref(), PAGE).await?;
            let next = consents.last().filter(|_| consents.len() == PAGE).map(|consent| consent.client.to_string());
            Ok(view::list("consents", consents.iter().map(view::consent).collect(), next))
        }
        ConsentCommand::Withdraw { person, client } => withdraw(directory, &person, &client).await,
    }
}

async fn withdraw(directory: &Directory<'_>, person: &Person, client: &ClientId) -> Result<Answer, CommandError> {
    let sub = users::find(directory, person).await?.sub;
    let existed = directory.store.consent(sub, client).await?.is_some();
    // Even without a consent there may be grants: to clients whose consent the operator has implied.
    let ended = directory.store.withdraw_consent(sub, client, directory.clock.now()).await?;
    if !existed && ended == 0 {
        return Err(CommandError::Absent(format!("{person} has allowed the client {client} nothing")));
    }
    let event = directory.event(AuditKind::ConsentWithdrawn).of(sub).with_client(client);
    directory.record(event.with_detail(format!("grants {ended}"))).await;
    Ok(view::object(json!({ "sub": sub, "client_id": client, "withdrawn": existed, "grants_ended": ended })))
}
