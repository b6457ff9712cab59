//! Decryption of the secrets of authenticator apps.

use sealgate_core::web::context::RequestContext;
use sealgate_domain::assurance::FactorId;
use sealgate_domain::factors::{Factors, OpenedTotp, TotpFactor};
use sealgate_domain::sealed::Sealed;
use sealgate_domain::totp::TotpSecret;
use sealgate_domain::user::Subject;

/// Returns the apps whose secrets can be decrypted. An app whose secret cannot still counts as a
/// factor, but accepts no code.
pub(super) fn open_apps(ctx: &RequestContext<'_>, factors: &Factors) -> Vec<OpenedTotp> {
    let open = |app: &TotpFactor| {
        Some(OpenedTotp { id: app.id, secret: open_secret(ctx, factors.subject, app.id, &app.secret)? })
    };
    factors.totp.iter().filter_map(open).collect()
}

/// Decrypts the secret of an app. Logs a warning and returns `None` on failure.
pub(super) fn open_secret(
    ctx: &RequestContext<'_>,
    subject: Subject,
    app: FactorId,
    sealed: &Sealed,
) -> Option<TotpSecret> {
    let opened = ctx.sealgate.store.open_factor(subject, app, sealed);
    let opened =
        opened.inspect_err(|error| tracing::warn!(%error, "cannot decrypt the secret of an authenticator app"));
    let bytes: [u8; 20] = opened.ok()?.as_slice().try_into().ok()?;
    Some(TotpSecret::from_random(bytes))
}
