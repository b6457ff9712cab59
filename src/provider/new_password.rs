//! Check of a password that a user without a password, or who forgot it, chooses.

use secrecy::SecretString;

use sealgate_core::password::{Line, PasswordError};
use sealgate_core::web::context::RequestContext;
use sealgate_domain::password_rules::Owner;
use sealgate_domain::secret::Secret;
use sealgate_domain::user::PasswordHash;
use sealgate_pages::NewPasswordProblem;

/// Hashes the typed password if the password policy accepts it for this user.
pub(super) async fn hashed(
    ctx: &RequestContext<'_>,
    typed: &str,
    owner: &Owner<'_>,
) -> Result<PasswordHash, NewPasswordProblem> {
    let new = Secret::new(typed);
    let busy = |error: PasswordError| {
        error.log("cannot hash a new password");
        NewPasswordProblem::Busy
    };
    let passwords = &ctx.sealgate.passwords;
    let judged = passwords.check(Line::of(ctx.origin.address), &new, owner).await.map_err(busy)?;
    judged.map_err(NewPasswordProblem::Fault)?;
    passwords.hash(SecretString::from(new.expose()), ctx.random()).await.map_err(busy)
}
