//! Commands about consents.

use super::answer::{Answer, ConsentAnswer, EndedAnswer, ListPage, Rows};
use super::command::ConsentCommand;
use super::directory::{CommandError, Directory, PAGE};
use super::people;
use super::person::Person;
use sealgate_domain::audit::AuditKind;
use sealgate_domain::client::ClientId;

pub(super) async fn execute(directory: &Directory<'_>, command: ConsentCommand) -> Result<Answer, CommandError> {
    match command {
        ConsentCommand::List { person, after } => {
            let sub = people::find(directory, &person).await?.sub;
            let after = after.as_deref().and_then(ClientId::parse);
            let consents = directory.store.consents_page(sub, after.as_ref(), PAGE).await?;
            let next = consents.last().filter(|_| consents.len() == PAGE).map(|consent| consent.client.clone());
            Ok(ListPage::answer(Rows::Consents(consents.into_iter().map(ConsentAnswer::from).collect()), next))
        }
        ConsentCommand::Revoke { person, client } => revoke(directory, &person, &client).await,
    }
}

async fn revoke(directory: &Directory<'_>, person: &Person, client: &ClientId) -> Result<Answer, CommandError> {
    let sub = people::find(directory, person).await?.sub;
    let existed = directory.store.consent(sub, client).await?.is_some();
    // Grants can exist without a consent, for clients whose consent the operator implied.
    let ended = directory.store.withdraw_consent(sub, client, directory.clock.now()).await?;
    if !existed && ended == 0 {
        return Err(CommandError::Absent(format!("{person} has given the client {client} no consent and no grant")));
    }
    let event = directory.event(AuditKind::ConsentWithdrawn).of(sub).with_client(client);
    directory.record(event.with_detail(format!("grants {ended}"))).await;
    Ok(EndedAnswer {
        sub: Some(sub),
        client_id: Some(client.clone()),
        withdrawn: Some(existed),
        grants_ended: Some(ended),
        ..EndedAnswer::from(())
    }
    .into())
}
