//! `/account/activity`: the account events of the signed-in user, from the audit log.
//!
//! The console's audit log uses [`EventNames`] as well.

use std::collections::BTreeMap;

use http::StatusCode;

use crate::request::ProviderRequest as _;
use crate::visitor::Visitor;
use sealgate_core::tokens::clients::{INTERNAL_CLIENT, OWN_CLIENT};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::audit::{Actor, AuditEvent, AuditFilter, AuditId, AuditKind};
use sealgate_domain::client::ClientId;
use sealgate_domain::user::Subject;
use sealgate_pages::{ActivityPage, EventLine, Named, html};
use sealgate_store::StoreError;

const PAGE: &str = "/account/activity";

const EVENTS_PER_PAGE: usize = 30;

/// Kinds of events that concern the security of an account. The page shows only these kinds.
///
/// Token renewals are left out, because applications renew their tokens every few minutes.
const KINDS: [AuditKind; 37] = [
    AuditKind::SignedIn,
    AuditKind::SignInFailed,
    AuditKind::SignedOut,
    AuditKind::ConsentGiven,
    AuditKind::ConsentWithdrawn,
    AuditKind::ReuseDetected,
    AuditKind::GrantsEnded,
    AuditKind::SessionsEnded,
    AuditKind::UserRevoked,
    AuditKind::UserChanged,
    AuditKind::UserDisabled,
    AuditKind::UserEnabled,
    AuditKind::PasswordChanged,
    AuditKind::PasswordResetAsked,
    AuditKind::PasswordReset,
    AuditKind::AddressVerified,
    AuditKind::AddressChanged,
    AuditKind::AddressRestored,
    AuditKind::AppPasswordCreated,
    AuditKind::AppPasswordRevoked,
    AuditKind::AppCredentialSet,
    AuditKind::AppCredentialRemoved,
    AuditKind::FactorAdded,
    AuditKind::FactorRemoved,
    AuditKind::FactorRenamed,
    AuditKind::RecoveryCodesMade,
    AuditKind::RecoveryCodeUsed,
    AuditKind::FactorFailed,
    AuditKind::FactorBlocked,
    AuditKind::KeyMayBeCopied,
    AuditKind::FactorsReset,
    AuditKind::AccountLinked,
    AuditKind::AccountUnlinked,
    AuditKind::SelfRegistered,
    AuditKind::InvitationSent,
    AuditKind::InvitationAccepted,
    AuditKind::InvitationWithdrawn,
];

pub(super) async fn activity_page(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let visitor = Visitor::find(ctx, PAGE).await?;
    let filter = AuditFilter { subject: Some(visitor.user.sub), kinds: KINDS.into(), ..AuditFilter::default() };
    let after = ctx.cursor(AuditId::parse)?;
    ctx.sealgate.audit.store_pending(filter.subject).await;
    let page = ctx.sealgate.store.audit_page(&filter, after, EVENTS_PER_PAGE).await?;
    let (mut names, mut events) = (EventNames::default(), Vec::with_capacity(page.records.len()));
    for record in page.records {
        events.push(names.line(ctx, record.event).await?);
    }
    let next = page.next.map(|next| ctx.path(&format!("{PAGE}?after={next}")));
    let page = ActivityPage { inside: visitor.inside(ctx), events: &events, next: next.as_deref() };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}

/// Cache of the names of users and clients in audit events. Each name is read once per page.
#[derive(Default)]
pub(crate) struct EventNames {
    people: BTreeMap<Subject, Option<String>>,
    clients: BTreeMap<ClientId, Option<String>>,
}

impl EventNames {
    /// Returns an event with the current names of its user and client.
    pub(crate) async fn line(&mut self, ctx: &RequestContext<'_>, event: AuditEvent) -> Result<EventLine, StoreError> {
        let subject = match event.subject {
            Some(subject) => Some(self.user(ctx, subject).await?),
            None => None,
        };
        let administrator = match event.actor {
            Actor::Administrator(subject)
            | Actor::Developer(subject)
            | Actor::UserManager(subject)
            | Actor::Auditor(subject) => Some(self.user(ctx, subject).await?),
            Actor::Stranger
            | Actor::User
            | Actor::Client
            | Actor::Operator
            | Actor::Server
            | Actor::Configuration
            | Actor::ApiToken { .. } => None,
        };
        let party = match &event.client {
            // The name of the provider's own pages would add nothing to the event.
            Some(id) if id.as_str() == OWN_CLIENT => None,
            Some(id) => Some(self.client(ctx, id).await?),
            None => event.app.clone().map(|name| Named { id: name.clone(), name: Some(name), has_page: false }),
        };
        Ok(EventLine { event, administrator, subject, party })
    }

    pub(crate) async fn user(&mut self, ctx: &RequestContext<'_>, subject: Subject) -> Result<Named, StoreError> {
        let name = if let Some(known) = self.people.get(&subject) {
            known.clone()
        } else {
            let name = ctx.sealgate.store.user(subject).await?.map(|user| user.sign_in_name().to_owned());
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
        let has_page = name.is_some() && !id.as_str().starts_with(INTERNAL_CLIENT) && id.document_host().is_none();
        Ok(Named { id: id.to_string(), has_page, name })
    }
}
