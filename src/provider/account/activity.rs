//! `/account/activity`: the user's own account events from the audit log.

use http::StatusCode;

use crate::events::EventNames;
use crate::request::ProviderRequest as _;
use crate::visitor::Visitor;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::audit::{AuditFilter, AuditId, AuditKind};
use sealgate_pages::{ActivityPage, html};

const PAGE: &str = "/account/activity";

const MOST: usize = 30;

/// Event kinds shown on the page: all that concern the security of the account.
///
/// Token renewals are left out, because applications renew their tokens every few minutes.
const KINDS: [AuditKind; 33] = [
    AuditKind::SignedIn,
    AuditKind::SignInFailed,
    AuditKind::SignedOut,
    AuditKind::ConsentGiven,
    AuditKind::ConsentWithdrawn,
    AuditKind::ReuseDetected,
    AuditKind::GrantsEnded,
    AuditKind::SessionsEnded,
    AuditKind::PersonRevoked,
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
    AuditKind::FactorAdded,
    AuditKind::FactorRemoved,
    AuditKind::FactorRenamed,
    AuditKind::RecoveryCodesMade,
    AuditKind::RecoveryCodeUsed,
    AuditKind::FactorFailed,
    AuditKind::FactorBlocked,
    AuditKind::KeyMayBeCopied,
    AuditKind::FactorsReset,
    AuditKind::SelfRegistered,
    AuditKind::InvitationSent,
    AuditKind::InvitationAccepted,
    AuditKind::InvitationWithdrawn,
];

pub(super) async fn activity_page(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let visitor = Visitor::find(ctx, PAGE).await?;
    let filter = AuditFilter { subject: Some(visitor.user.sub), kinds: KINDS.into(), ..AuditFilter::default() };
    let after = ctx.query()?.one("after")?.and_then(AuditId::parse);
    ctx.sealgate.audit.settle(filter.subject).await;
    let page = ctx.sealgate.store.audit_page(&filter, after, MOST).await?;
    let (mut names, mut events) = (EventNames::default(), Vec::with_capacity(page.records.len()));
    for record in page.records {
        events.push(names.line(ctx, record.event).await?);
    }
    let next = page.next.map(|next| ctx.path(&format!("{PAGE}?after={next}")));
    let page = ActivityPage { inside: visitor.inside(ctx), events: &events, next: next.as_deref() };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}
