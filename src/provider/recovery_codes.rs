//! Making recovery codes, and the page that shows them once.

use http::StatusCode;
use zeroize::Zeroizing;

use crate::domain::recovery_code::{RECOVERY_CODES, RecoveryCode, RecoveryCodes};
use crate::domain::secret::Secret;
use crate::domain::user::User;
use crate::page::{RecoveryCodesPage, html};
use crate::store::{FactorsChanged, Store};
use crate::web::context::RequestContext;
use crate::web::failure::Failure;
use crate::web::response::Response;
use crate::webauthn::UserHandle;

/// Puts new codes in the place of all earlier ones, and yields them as the text that [`page`] reads. `None` where this person can have none, or nothing seals here.
///
/// # Errors
/// When the store fails.
pub(super) async fn make(ctx: &RequestContext<'_>, store: &Store, user: &User) -> Result<Option<Secret>, Failure> {
    let Some(key) = store.recovery_key() else { return Ok(None) };
    let random = std::array::from_fn(|_| ctx.random());
    let (kept, codes) = RecoveryCodes::new(key, user.sub, &random, ctx.now);
    let handle = UserHandle::from_random(ctx.random());
    let changed = store.change_factors(user.sub, handle, |factors| {
        let replaced = factors.recovery.is_some();
        let may = factors.may_have_recovery_codes(user);
        may.then(|| factors.set_recovery_codes(kept.clone())).map(|()| replaced)
    });
    Ok(match changed.await? {
        FactorsChanged::Yes(Some(replaced), _) => Some(written(&codes, replaced)),
        _ => None,
    })
}

/// What stands before the codes where there were others, which are void now.
const REPLACED: &str = "replaced";

/// One code a line.
fn written(codes: &[RecoveryCode; RECOVERY_CODES], replaced: bool) -> Secret {
    let mut text = Zeroizing::new(if replaced { REPLACED.to_owned() } else { String::new() });
    for code in codes {
        text.push('\n');
        text.push_str(code.text().expose());
    }
    Secret::new(text.as_str())
}

/// The page that shows codes that were just made, and leads on to `next`. `then`: where the forms of a sign-in may lead.
pub(super) fn page(ctx: &RequestContext<'_>, user: &User, made: &Secret, next: &str, then: Option<&str>) -> Response {
    let mut lines = made.expose().split('\n');
    let replaced = lines.next() == Some(REPLACED);
    let codes: Vec<&str> = lines.collect();
    let page = RecoveryCodesPage { frame: ctx.frame(), account: user.email.as_str(), codes: &codes, replaced, next };
    Response::page(StatusCode::OK, html(&page), then)
}
