//! Creation of recovery codes, and the page that shows them once.

use http::StatusCode;
use zeroize::Zeroizing;

use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::recovery_code::{RECOVERY_CODES, RecoveryCode, RecoveryCodes};
use sealgate_domain::secret::Secret;
use sealgate_domain::user::User;
use sealgate_domain::webauthn::UserHandle;
use sealgate_pages::{RecoveryCodesPage, html};
use sealgate_store::{FactorsChanged, Store};

/// Replaces all recovery codes of the user and returns the new ones as text for [`page`]. Returns
/// `None` if the user cannot have any, or the store has no data key.
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

/// First line of the text if the codes replace earlier ones, which are now invalid.
const REPLACED: &str = "replaced";

/// Formats the codes, one on each line after the first.
fn written(codes: &[RecoveryCode; RECOVERY_CODES], replaced: bool) -> Secret {
    let mut text = Zeroizing::new(if replaced { REPLACED.to_owned() } else { String::new() });
    for code in codes {
        text.push('\n');
        text.push_str(code.text().expose());
    }
    Secret::new(text.as_str())
}

/// Returns the page that shows the new codes and links to `next`. `then` contains the form targets
/// of a sign-in.
pub(super) fn page(ctx: &RequestContext<'_>, user: &User, made: &Secret, next: &str, then: Option<&str>) -> Response {
    let mut lines = made.expose().split('\n');
    let replaced = lines.next() == Some(REPLACED);
    let codes: Vec<&str> = lines.collect();
    let page = RecoveryCodesPage { frame: ctx.frame(), account: user.email.as_str(), codes: &codes, replaced, next };
    Response::page(StatusCode::OK, html(&page), then)
}
