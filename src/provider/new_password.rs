//! Check of a password that a user without a password, or who forgot it, chooses.

use secrecy::SecretString;

use crate::domain::secret::Secret;
use crate::domain::user::PasswordHash;
use crate::page::NewPasswordProblem;
use crate::password::{Line, Owner, PasswordError};
use crate::web::context::RequestContext;

/// Hashes the typed password if the password policy accepts it for this user.
pub(super) async fn hashed(
    ctx: &RequestContext<'_>,
    typed: &str,
    owner: &Owner<'_>,
) -> Result<PasswordHash, NewPasswordProblem> {
    let new = Secret::new(typed);
    let busy = |error: PasswordError| {
        error.log("a new password could not be hashed");
        NewPasswordProblem::Busy
    };
    let passwords = &ctx.sealgate.passwords;
    let judged = passwords.check(Line::of(ctx.origin.address), &new, owner).await.map_err(busy)?;
    judged.map_err(NewPasswordProblem::Fault)?;
    passwords.hash(SecretString::from(new.expose()), ctx.random()).await.map_err(busy)
}
