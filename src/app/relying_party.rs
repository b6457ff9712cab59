//! Check at startup whether existing security keys and passkeys work under this issuer.
//!
//! Each key is bound to its host (WebAuthn's RP ID). The binding cannot be changed.

use sealgate_config::Config;
use sealgate_core::audit::AuditLog;
use sealgate_core::state::NotServing;
use sealgate_domain::audit::{Actor, AuditEvent, AuditKind};
use sealgate_domain::time::UnixTime;
use sealgate_store::{Store, StoreError};

/// Reason not to start: users would lose their keys.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RelyingPartyFault {
    #[error(
        "issuer: its host changes from \"{from}\" to \"{to}\". {who} security keys or passkeys, which \
         browsers only use at \"{from}\"; they would stop working. Write rp_id = \"{from}\" into [factors] \
         and serve https://{from}/.well-known/webauthn to keep them, restore the issuer, or write \
         abandon_keys_of = \"{from}\": the next start removes these keys \
         (docs/how-to/second-factors.md, Another host)"
    )]
    OtherHost { from: String, to: String, who: String },
    #[error("store: {0}")]
    Store(#[from] StoreError),
}

impl From<RelyingPartyFault> for NotServing {
    fn from(fault: RelyingPartyFault) -> Self {
        match fault {
            RelyingPartyFault::Store(error) => error.into(),
            RelyingPartyFault::OtherHost { .. } => vec![fault.to_string()].into(),
        }
    }
}

/// Checks whether [`apply`] would fail, for a store that is not served. Writes nothing.
pub(crate) async fn check(config: &Config, store: &Store) -> Result<(), RelyingPartyFault> {
    let keys_of = store.keys_of().await?;
    if would_stop_working(config, keys_of.as_deref()) {
        let people = store.users_with_keys().await?;
        return compare(config, keys_of, Some(people));
    }
    Ok(())
}

/// Performs the same check as [`check`], but with the host that a running server reports.
pub(crate) fn compare(
    config: &Config,
    keys_of: Option<String>,
    people: Option<usize>,
) -> Result<(), RelyingPartyFault> {
    let Some(from) = keys_of.filter(|host| would_stop_working(config, Some(host))) else { return Ok(()) };
    let who = match people {
        Some(1) => "1 user has".to_owned(),
        Some(people) => format!("{people} users have"),
        None => "Users have".to_owned(),
    };
    Err(RelyingPartyFault::OtherHost { from, to: config.rp_id().to_owned(), who })
}

/// Removes the keys whose loss the operator has accepted, and sets the issuer's host for new keys.
///
/// Call it before any request is served.
///
/// # Errors
/// [`RelyingPartyFault::OtherHost`]: nothing was changed. [`RelyingPartyFault::Store`]: the call
/// can be repeated.
pub(crate) async fn apply(
    config: &Config,
    store: &Store,
    trail: &AuditLog,
    now: UnixTime,
) -> Result<(), RelyingPartyFault> {
    check(config, store).await?;
    let to = config.rp_id();
    if store.keys_of().await?.is_some_and(|from| from != to) {
        let mut removed = 0;
        loop {
            let abandoned_keys = store.abandon_keys().await?;
            if abandoned_keys.is_empty() {
                break;
            }
            removed += abandoned_keys.len();
            for key in abandoned_keys {
                let event = AuditEvent::new(now, AuditKind::FactorRemoved, Actor::Operator).for_subject(key.subject);
                trail.note(event.with_detail(format!("{} {}", key.kind.as_str(), key.name)));
            }
            // A few hundred events per page fit into the audit queue.
            trail.write(store).await?;
        }
        tracing::warn!(removed, "removed the security keys and passkeys of the issuer's previous host");
    }
    Ok(store.set_relying_party(to).await?)
}

/// Returns whether keys for this host would stop working without the operator's consent.
fn would_stop_working(config: &Config, keys_of: Option<&str>) -> bool {
    keys_of.is_some_and(|from| from != config.rp_id() && config.factors.abandon_keys_of.as_deref() != Some(from))
}
