//! Events of the audit trail on their way to a page.

use crate::endpoint::call::Call;
use crate::page::{AuditActor, EventLine};
use crate::protocol::audit::{Actor, AuditEvent};
use crate::sealgate::OWN_CLIENT;
use crate::store::StoreError;

/// An event with the texts that a page borrows.
pub(super) struct Written {
    event: AuditEvent,
    party: Option<String>,
    subject: Option<String>,
    actor: Option<String>,
    address: Option<String>,
}

impl Written {
    /// `party` is what the page calls the client or application.
    pub(super) fn new(event: AuditEvent, party: Option<String>) -> Self {
        let actor = match event.actor {
            Actor::Administrator(subject) => Some(subject.to_string()),
            Actor::Stranger | Actor::Person | Actor::Client | Actor::Operator => None,
        };
        let subject = event.subject.map(|subject| subject.to_string());
        let address = event.address.map(|address| address.to_string());
        Self { event, party, subject, actor, address }
    }

    /// What the page is told.
    pub(super) fn line(&self) -> EventLine<'_> {
        EventLine {
            kind: self.event.kind.as_str(),
            at: self.event.at.seconds(),
            count: self.event.count,
            actor: match self.event.actor {
                Actor::Stranger => AuditActor::Stranger,
                Actor::Person => AuditActor::Person,
                Actor::Administrator(_) => AuditActor::Administrator(self.actor.as_deref().unwrap_or_default()),
                Actor::Client => AuditActor::Client,
                Actor::Operator => AuditActor::Operator,
            },
            subject: self.subject.as_deref(),
            party: self.party.as_deref(),
            address: self.address.as_deref(),
            request_id: self.event.request_id.as_deref(),
            detail: self.event.detail.as_deref(),
        }
    }
}

/// What a person calls the client or application of an event; nothing for our own pages.
pub(super) async fn party(call: &Call<'_>, event: &AuditEvent) -> Result<Option<String>, StoreError> {
    match &event.client {
        Some(id) if id.as_str() == OWN_CLIENT => Ok(None),
        Some(id) => Ok(call.sealgate.client(id).await?.map(|client| client.name)),
        None => Ok(event.app.clone()),
    }
}
