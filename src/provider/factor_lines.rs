//! Display of a user's factors on pages.

use sealgate_domain::factors::{Factors, KeyFactor, TotpFactor};
use sealgate_domain::webauthn::CredentialKind;
use sealgate_pages::{FactorLine, FactorLineKind};

/// Returns the factors in the order in which they were added.
pub(super) fn lines(factors: Option<&Factors>) -> Vec<FactorLine<'_>> {
    let Some(factors) = factors else { return Vec::new() };
    let mut lines: Vec<_> = factors.totp.iter().map(of_app).chain(factors.keys.iter().map(of_key)).collect();
    lines.sort_by_key(|line| line.added_at);
    lines
}

fn of_app(app: &TotpFactor) -> FactorLine<'_> {
    let (added_at, last_used_at) = (app.added_at, app.last_used_at);
    FactorLine { id: app.id, kind: FactorLineKind::App, name: &app.name, added_at, last_used_at }
}

fn of_key(key: &KeyFactor) -> FactorLine<'_> {
    let synced = key.credential.backup.is_eligible();
    let kind = match key.credential.kind {
        CredentialKind::Passkey => FactorLineKind::Passkey { synced },
        CredentialKind::SecurityKey => FactorLineKind::SecurityKey { synced },
    };
    FactorLine { id: key.id, kind, name: &key.name, added_at: key.added_at, last_used_at: key.last_used_at }
}
