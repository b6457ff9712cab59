//! Clients that registered themselves and need an administrator's approval before applications
//! behind the gateway accept their tokens.

use std::sync::atomic::{AtomicBool, Ordering};

use sealgate_config::App;
use sealgate_core::web::context::RequestContext;
use sealgate_domain::client::Client;
use sealgate_domain::mail::{Mail, MailId, MailKind, MailMessage, Notice, WaitingMail};
use sealgate_domain::user::User;
use sealgate_store::StoreError;

/// Returns whether an application behind the gateway refuses the client's tokens until an
/// administrator approves the client.
pub(super) fn is_needed(ctx: &RequestContext<'_>, client: &Client) -> bool {
    !client.is_vouched_for() && ctx.sealgate.config.apps.iter().any(App::requires_approved_clients)
}

/// Notifies the accounts of `registration.notify`, once per client.
pub(super) async fn request(ctx: &RequestContext<'_>, client: &Client) -> Result<(), StoreError> {
    let (config, store) = (&ctx.sealgate.config, &ctx.sealgate.store);
    let is_new = client.registration.as_ref().is_some_and(|own| !own.approval_requested);
    if !is_new || !is_needed(ctx, client) {
        return Ok(());
    }
    tracing::info!(client = client.id.as_str(), "a self-registered client needs an approval");
    if config.registration.notify.is_empty() || !ctx.sealgate.sends_mail() {
        return Ok(());
    }
    // Of several concurrent requests, only one notifies.
    let is_first = AtomicBool::new(false);
    let changed = store.change_client(&client.id, |client| {
        let own = client.registration.as_mut().filter(|own| !own.approval_requested);
        is_first.store(own.is_some(), Ordering::Relaxed);
        if let Some(own) = own {
            own.approval_requested = true;
        }
    });
    if changed.await?.is_none() || !is_first.into_inner() {
        return Ok(());
    }
    for address in &config.registration.notify {
        if let Some(user) = store.user_by_email(address).await?.filter(User::is_enabled) {
            notify(ctx, &user).await?;
        } else {
            tracing::warn!(address = address.as_str(), "an address in registration.notify has no enabled account");
        }
    }
    Ok(())
}

/// Queues a notification: the first at once, then at most one an hour with a count, so that
/// registrations cannot flood the mailbox.
async fn notify(ctx: &RequestContext<'_>, user: &User) -> Result<(), StoreError> {
    let (store, language) = (&ctx.sealgate.store, ctx.sealgate.config.pages.default_language);
    let notice = Notice::ClientNeedsApproval;
    let added = store
        .add_notice((user.sub, notice), ctx.now, |id, due_at, count| {
            let id = id.unwrap_or_else(|| MailId::from_bytes(ctx.random()));
            let (to, mail) = (Some(user.email.clone()), Mail::Notice { notice, count });
            let message = MailMessage { to, language, at: ctx.now, origin: None, mail };
            let mail = store.new_mail((id, ctx.random()), Some(user.sub), &message, ctx.now)?;
            Ok(WaitingMail { due_at, ..mail })
        })
        .await?;
    if !added {
        ctx.sealgate.mail_dropped(MailKind::Notice);
    }
    Ok(())
}
