//! Notices: e-mails to users about security-relevant changes of their accounts.
//!
//! A notice is derived from an audit event, so code that records an event of a kind with a notice
//! ([`AuditEvent::notice`]) needs no further call. Notices are queued in the outbox at the server's
//! next periodic run, at most two seconds later. Until then they are only in memory: a notice is
//! lost if the process is killed or if one of the two queues is full.

use sealgate_core::state::Sealgate;
use sealgate_domain::audit::{AuditEvent, NoticeContext};
use sealgate_domain::mail::{Mail, MailId, MailKind, MailMessage, Notice, RequestOrigin, WaitingMail};
use sealgate_domain::user::Subject;
use sealgate_store::StoreError;
use sealgate_system::clock::random;

/// Queues the notices of the events since the last call in the outbox.
pub async fn queue_notices(sealgate: &Sealgate) {
    let sealgate = &sealgate.current();
    let mut events = sealgate.audit.take_notices().into_iter();
    if !sealgate.sends_mail() {
        return;
    }
    while let Some(event) = events.next() {
        let (Some(subject), Some(notice_context)) = (event.subject, event.notice_context.clone()) else { continue };
        match queue_notice(sealgate, subject, &event, &notice_context).await {
            Ok(()) => {}
            // A retry would fail too, and would block all other notices.
            Err(error @ StoreError::Broken(_)) => {
                tracing::error!(%error, %subject, "cannot queue an account notice; the user is not notified");
            }
            Err(error) => {
                tracing::warn!(%error, "cannot queue account notices now; retrying");
                sealgate.audit.queue_notices_again(std::iter::once(event).chain(events).collect());
                return;
            }
        }
    }
}

async fn queue_notice(
    sealgate: &Sealgate,
    subject: Subject,
    event: &AuditEvent,
    notice_context: &NoticeContext,
) -> Result<(), StoreError> {
    let store = &sealgate.store;
    // A user without an address receives no notification.
    let Some(email) = store.user(subject).await?.and_then(|user| user.own_email().cloned()) else { return Ok(()) };
    let now = sealgate.clock.now();
    let entropy = sealgate.entropy.as_ref();
    let language = notice_context.language.unwrap_or(sealgate.config.pages.default_language);
    let origin = event.address.map(|address| RequestOrigin {
        address,
        browser: notice_context.browser.clone(),
        system: notice_context.system.clone(),
    });
    // The user must not see the origin of an administrator's request.
    let origin = origin.filter(|_| notice_context.notice != Notice::AdministratorActed);
    let is_queued = store
        // `id` is the queued e-mail about earlier events of the same kind, which this e-mail replaces;
        // `due_at` is when to send it, and `count` the number of events that it reports.
        .add_notice((subject, notice_context.notice), now, |id, due_at, count| {
            let id = id.unwrap_or_else(|| MailId::from_bytes(random(entropy)));
            let mail = Mail::Notice { notice: notice_context.notice, count };
            let (to, origin) = (Some(email.clone()), origin.clone());
            let message = MailMessage { to, language, at: event.at, origin, mail };
            let mail = store.new_mail((id, random(entropy)), Some(subject), &message, now)?;
            Ok(WaitingMail { due_at, ..mail })
        })
        .await?;
    // The outbox is full.
    if !is_queued {
        sealgate.mail_dropped(MailKind::Notice);
    }
    Ok(())
}
