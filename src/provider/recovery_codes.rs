//! Making recovery codes, and the page that shows them once.

use http::StatusCode;

use crate::domain::recovery_code::{RECOVERY_CODES, RecoveryCode, RecoveryCodes};
use crate::domain::secret::Secret;
use crate::domain::user::User;
use crate::page::{RecoveryCodesPage, html};
use crate::store::{FactorsChanged, Store};
use crate::web::context::RequestContext;
use crate::web::failure::Failure;
use crate::web::response::Response;
use crate::webauthn::UserHandle;

/// Codes that were just made.
pub(super) struct MadeCodes {
    codes: [RecoveryCode; RECOVERY_CODES],
    /// Whether there were others, which are void now.
    replaced: bool,
}

/// Puts new codes in the place of all earlier ones. `None` where this person can have none, or nothing seals here.
///
/// # Errors
/// When the store fails.
pub(super) async fn make(ctx: &RequestContext<'_>, store: &Store, user: &User) -> Result<Option<MadeCodes>, Failure> {
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
        FactorsChanged::Yes(Some(replaced), _) => Some(MadeCodes { codes, replaced }),
        _ => None,
    })
}

impl MadeCodes {
    /// The page that shows them, and leads on to `next`. `then`: where the forms of a sign-in may lead.
    pub(super) fn page(&self, ctx: &RequestContext<'_>, user: &User, next: &str, then: Option<&str>) -> Response {
        let texts = self.codes.each_ref().map(RecoveryCode::text);
        let page = RecoveryCodesPage {
            frame: ctx.frame(),
            account: user.email.as_str(),
            codes: &texts.each_ref().map(Secret::expose),
            replaced: self.replaced,
            next,
        };
        Response::page(StatusCode::OK, html(&page), then)
    }
}
