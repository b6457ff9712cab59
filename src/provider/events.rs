//! Display of audit events on pages.

use std::collections::BTreeMap;

use sealgate_core::tokens::clients::{INTERNAL_CLIENT, OWN_CLIENT};
use sealgate_core::web::context::RequestContext;
use sealgate_domain::audit::{Actor, AuditEvent};
use sealgate_domain::client::ClientId;
use sealgate_domain::user::Subject;
use sealgate_pages::{EventLine, Named};
use sealgate_store::StoreError;

/// Cache of the names of users and clients in audit events. Each is read once per page.
#[derive(Default)]
pub(super) struct EventNames {
    people: BTreeMap<Subject, Option<String>>,
    clients: BTreeMap<ClientId, Option<String>>,
}

impl EventNames {
    /// Returns an event with the current names of its user and client.
    pub(super) async fn line(&mut self, ctx: &RequestContext<'_>, event: AuditEvent) -> Result<EventLine, StoreError> {
        let subject = match event.subject {
            Some(subject) => Some(self.person(ctx, subject).await?),
            None => None,
        };
        let administrator = match event.actor {
            Actor::Administrator(subject) | Actor::Developer(subject) => Some(self.person(ctx, subject).await?),
            Actor::Stranger | Actor::Person | Actor::Client | Actor::Operator | Actor::Server => None,
        };
        let party = match &event.client {
            // The name of the provider's own pages would add nothing to the event.
            Some(id) if id.as_str() == OWN_CLIENT => None,
            Some(id) => Some(self.client(ctx, id).await?),
            None => event.app.clone().map(|name| Named { id: name.clone(), name: Some(name), has_page: false }),
        };
        Ok(EventLine { event, administrator, subject, party })
    }

    async fn person(&mut self, ctx: &RequestContext<'_>, subject: Subject) -> Result<Named, StoreError> {
        let name = if let Some(known) = self.people.get(&subject) {
            known.clone()
        } else {
            let name = ctx.sealgate.store.user(subject).await?.map(|user| user.email.as_str().to_owned());
            self.people.entry(subject).or_insert(name).clone()
        };
        Ok(Named { id: subject.to_string(), has_page: name.is_some(), name })
    }

    async fn client(&mut self, ctx: &RequestContext<'_>, id: &ClientId) -> Result<Named, StoreError> {
        let name = if let Some(known) = self.clients.get(id) {
            known.clone()
        } else {
            let name = ctx.sealgate.client(id).await?.map(|client| client.name);
            self.clients.entry(id.clone()).or_insert(name).clone()
        };
        let has_page = name.is_some() && !id.as_str().starts_with(INTERNAL_CLIENT);
        Ok(Named { id: id.to_string(), has_page, name })
    }
}
