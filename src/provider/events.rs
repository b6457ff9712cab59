//! Events of the audit trail on their way to a page.

use std::collections::BTreeMap;

use crate::domain::audit::{Actor, AuditEvent};
use crate::domain::client::ClientId;
use crate::domain::user::Subject;
use crate::page::{AuditActor, EventLine, Named};
use crate::store::StoreError;
use crate::tokens::clients::{INTERNAL_CLIENT, OWN_CLIENT};
use crate::web::context::RequestContext;

/// What people call those whom the trail knows by their ids; each is looked up once a page.
#[derive(Default)]
pub(super) struct Names {
    people: BTreeMap<Subject, Option<String>>,
    clients: BTreeMap<ClientId, Option<String>>,
}

impl Names {
    /// An event with the names that its ids have now.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) async fn written(&mut self, ctx: &RequestContext<'_>, event: AuditEvent) -> Result<Written, StoreError> {
        let subject = match event.subject {
            Some(subject) => Some(self.person(ctx, subject).await?),
            None => None,
        };
        let actor = match event.actor {
            Actor::Administrator(subject) => Some(self.person(ctx, subject).await?),
            Actor::Stranger | Actor::Person | Actor::Client | Actor::Operator | Actor::Server => None,
        };
        let party = match &event.client {
            // Our own pages have no name that says more than the event itself.
            Some(id) if id.as_str() == OWN_CLIENT => None,
            Some(id) => Some(self.client(ctx, id).await?),
            None => event.app.clone().map(|name| Called { id: name.clone(), name: Some(name), has_page: false }),
        };
        let address = event.address.map(|address| address.to_string());
        Ok(Written { event, party, subject, actor, address })
    }

    async fn person(&mut self, ctx: &RequestContext<'_>, subject: Subject) -> Result<Called, StoreError> {
        let name = if let Some(known) = self.people.get(&subject) {
            known.clone()
        } else {
            let name = ctx.sealgate.store.user(subject).await?.map(|user| user.email.as_str().to_owned());
            self.people.entry(subject).or_insert(name).clone()
        };
        Ok(Called { id: subject.to_string(), has_page: name.is_some(), name })
    }

    async fn client(&mut self, ctx: &RequestContext<'_>, id: &ClientId) -> Result<Called, StoreError> {
        let name = if let Some(known) = self.clients.get(id) {
            known.clone()
        } else {
            let name = ctx.sealgate.client(id).await?.map(|client| client.name);
            self.clients.entry(id.clone()).or_insert(name).clone()
        };
        let has_page = name.is_some() && !id.as_str().starts_with(INTERNAL_CLIENT);
        Ok(Called { id: id.to_string(), has_page, name })
    }
}

/// An id and its name, as long as it has one.
struct Called {
    id: String,
    name: Option<String>,
    has_page: bool,
}

impl Called {
    fn named(&self) -> Named<'_> {
        Named { id: &self.id, name: self.name.as_deref(), has_page: self.has_page }
    }
}

/// An event with the texts that a page borrows.
pub(super) struct Written {
    event: AuditEvent,
    party: Option<Called>,
    subject: Option<Called>,
    actor: Option<Called>,
    address: Option<String>,
}

impl Written {
    /// What the page is told.
    pub(super) fn line(&self) -> EventLine<'_> {
        let administrator = self.actor.as_ref().map(Called::named);
        EventLine {
            kind: self.event.kind.as_str(),
            at: self.event.at.seconds(),
            count: self.event.count,
            actor: match self.event.actor {
                Actor::Stranger => AuditActor::Stranger,
                Actor::Person => AuditActor::Person,
                Actor::Administrator(_) => administrator.map_or(AuditActor::Operator, AuditActor::Administrator),
                Actor::Client => AuditActor::Client,
                Actor::Operator => AuditActor::Operator,
                Actor::Server => AuditActor::Server,
            },
            subject: self.subject.as_ref().map(Called::named),
            party: self.party.as_ref().map(Called::named),
            address: self.address.as_deref(),
            request_id: self.event.request_id.as_deref(),
            detail: self.event.detail.as_deref(),
        }
    }
}
