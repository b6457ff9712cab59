//! `/oauth/create-account`: self-registration, if the operator allows it.
//!
//! First, the server mails a code to the address. The user must type the code in the browser that
//! began the registration. Then the user chooses a name and a password or passkey (`new_account`).
//!
//! The response and the work are the same for every address. Whether an account has the address is
//! checked only when the mail is sent (`app::mail_lookup`).

use http::{HeaderValue, Method, StatusCode};

use crate::links::mailing;
use crate::links::mailing::AddressFault;
use crate::request::ProviderRequest as _;
use crate::sign_in::SIGN_IN;
use crate::sign_in::interaction::{PARAMETER, Waiting};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::cookie;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::mail::{CodePurpose, Mail, MailKind};
use sealgate_domain::oauth::params::Params;
use sealgate_domain::pending_registration::{PendingRegistration, REGISTRATION_LIFE, RegistrationVerdict};
use sealgate_domain::secret::{Secret, SecretHash, base64url};
use sealgate_domain::user::Email;
use sealgate_pages::{CreateAccountPage, CreateAccountProblem, Problem, ProveAddressPage, html};
use sealgate_store::{Committed, Loaded};
use sealgate_system::metrics::RegistrationOutcome;

/// Names of the pages, below `/oauth/`.
const PAGE: &str = "create-account";
const CODE: &str = "create-account/code";
pub(crate) const FINISH: &str = "create-account/finish";

/// Maximum attempts to update a registration that other requests change at the same time.
pub(crate) const MAX_TRIES: usize = 8;

/// Registration begun in this browser: the pending request and the secret from the registration
/// cookie.
pub(crate) struct Registering {
    pub(crate) waiting: Waiting,
    secret: Secret,
}

/// Returns the address of the first page, if self-registration is open.
pub(crate) fn address(ctx: &RequestContext<'_>, waiting: &Waiting) -> Option<String> {
    is_open(ctx).then(|| waiting.address(ctx, PAGE))
}

fn is_open(ctx: &RequestContext<'_>) -> bool {
    ctx.sealgate.config.registration_of_people.is_open() && ctx.sealgate.sends_mail()
}

/// Returns 404 unless self-registration is open.
pub(crate) fn require_open(ctx: &RequestContext<'_>) -> Result<(), Failure> {
    if is_open(ctx) { Ok(()) } else { Err(Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound)) }
}

/// Handles the page that asks for the e-mail address.
pub(crate) async fn create_account_page(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    require_open(ctx)?;
    if ctx.head.method == Method::POST {
        return ask(ctx).await;
    }
    if ctx.query()?.one(PARAMETER)?.is_none() {
        // The user opened the page without a sign-in, for instance from a bookmark.
        return Err(Failure::Redirect(ctx.sign_in_address("/account", &[])));
    }
    let waiting = Waiting::find(ctx).await?;
    Ok(show(ctx, &waiting, "", None))
}

async fn ask(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let waiting = Waiting::find_at_any_time(ctx).await?;
    let form = waiting.form(ctx, PAGE)?;
    let waiting = waiting.in_time(ctx).await?;
    let typed = form.one("email")?.unwrap_or_default().trim();
    let address = match usable(ctx, typed) {
        Ok(address) => address,
        Err(problem) => return Ok(show(ctx, &waiting, typed, Some(problem))),
    };
    let store = &ctx.sealgate.store;
    // Check the capacity before the limits, because a request that exceeds a limit must get the
    // same response as any other request.
    if !store.has_room_for_registration() {
        return Ok(busy(ctx, &waiting, typed));
    }
    let allowed = mailing::allows_unauthenticated_mail(ctx, &address).await;
    let (secret, code) = (Secret::from_random(&ctx.random::<32>()), mailing::new_code(ctx));
    let id = secret.hash();
    let pending = PendingRegistration::new(address.clone(), code_hash(ctx, &id, &address, &code)?, ctx.now);
    let mail = Mail::AddressWanted { code, purpose: CodePurpose::Registration };
    let mail = mailing::new_mail(ctx, None, Some(&address), mail)?;
    if !allowed {
        store.begin_no_registration(&id, &pending, &mail).await?;
        ctx.sealgate.metrics.registered(RegistrationOutcome::Throttled);
    } else if store.begin_registration(&id, &pending, &mail).await? {
        ctx.sealgate.metrics.registered(RegistrationOutcome::Begun);
    } else {
        return Ok(busy(ctx, &waiting, typed));
    }
    Ok(Response::see_other(&waiting.address(ctx, CODE)).with_cookie(registration_cookie(ctx, &secret)))
}

/// Parses the typed address. Fails if no account can be created with it.
fn usable(ctx: &RequestContext<'_>, typed: &str) -> Result<Email, CreateAccountProblem> {
    let address = mailing::mailable(typed).map_err(|fault| match fault {
        AddressFault::NotAscii => CreateAccountProblem::NotAscii,
        AddressFault::Malformed => CreateAccountProblem::Malformed,
    })?;
    let takes = ctx.sealgate.config.registration_of_people.takes(&address);
    if takes { Ok(address) } else { Err(CreateAccountProblem::Domain) }
}

/// Handles the page that asks for the code. The page is the same for every address.
pub(crate) async fn code(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    require_open(ctx)?;
    let registering = Registering::find(ctx).await?;
    if ctx.head.method != Method::POST {
        return Ok(registering.show_code(ctx, false));
    }
    let form = registering.form(ctx, CODE)?;
    let registering = registering.in_time(ctx).await?;
    // Malformed input does not count as an attempt.
    let Some(typed) = mailing::digits(form.one("code")?.unwrap_or_default()) else {
        return Ok(registering.show_code(ctx, true));
    };
    let (store, id) = (&ctx.sealgate.store, registering.id());
    for _ in 0..MAX_TRIES {
        let Some(pending) = store.pending_registration(&id).await? else { return Ok(registering.over(ctx)) };
        // A reload of the configuration may have removed the address's domain from the allowed
        // domains. Even the correct code would then lead back to this page.
        if !ctx.sealgate.config.registration_of_people.takes(&pending.value.address) {
            return Ok(registering.over(ctx));
        }
        if pending.value.is_proven() && pending.value.is_live(ctx.now) {
            return Ok(Response::see_other(&registering.waiting.address(ctx, FINISH)));
        }
        let typed = code_hash(ctx, &id, &pending.value.address, &typed)?;
        match pending.value.take_code(typed, ctx.now) {
            RegistrationVerdict::Right(next) => {
                // Only a user who has proven that they receive the mail may learn that an account
                // has the address.
                if store.user_by_email(&next.address).await?.is_some() {
                    return registering.report_taken_address(ctx, &pending).await;
                }
                // Use a new secret, so that an attacker who planted the cookie in this browser
                // cannot continue the registration in the attacker's browser.
                let secret = Secret::from_random(&ctx.random::<32>());
                if store.move_registration(&pending, &secret.hash(), &next).await? == Committed::Yes {
                    ctx.sealgate.metrics.registered(RegistrationOutcome::Proven);
                    let on = registering.waiting.address(ctx, FINISH);
                    return Ok(Response::see_other(&on).with_cookie(registration_cookie(ctx, &secret)));
                }
            }
            RegistrationVerdict::Wrong(next) => {
                if store.change_registration(&pending, &next).await? == Committed::Yes {
                    ctx.sealgate.metrics.registered(RegistrationOutcome::WrongCode);
                    return Ok(registering.show_code(ctx, true));
                }
            }
            RegistrationVerdict::Over => {
                if store.drop_registration(&pending).await? == Committed::Yes {
                    ctx.sealgate.metrics.registered(RegistrationOutcome::WrongCode);
                    return Ok(registering.over(ctx));
                }
            }
        }
    }
    Err(Failure::Unavailable)
}

/// Hashes a code, bound to one registration and one address.
fn code_hash(ctx: &RequestContext<'_>, id: &SecretHash, address: &Email, code: &str) -> Result<SecretHash, Failure> {
    mailing::code_hash(ctx, &[b"registration", &id.as_bytes()[..], address.lookup_key().as_bytes()].concat(), code)
}

fn registration_cookie(ctx: &RequestContext<'_>, secret: &Secret) -> HeaderValue {
    cookie::set_for(ctx.cookies.registration, secret.expose(), ctx.cookies.secure, REGISTRATION_LIFE.as_secs())
}

/// Returns the cookie that removes the registration from this browser.
pub(crate) fn expired_registration_cookie(ctx: &RequestContext<'_>) -> HeaderValue {
    cookie::expire(ctx.cookies.registration, ctx.cookies.secure)
}

impl Registering {
    /// Returns the registration begun in this browser for the sign-in of this page.
    ///
    /// # Errors
    /// A redirect to the first page if there is no registration; the errors of
    /// [`Waiting::find_at_any_time`].
    pub(crate) async fn find(ctx: &RequestContext<'_>) -> Result<Self, Failure> {
        let waiting = Waiting::find_at_any_time(ctx).await?;
        match ctx.cookie(ctx.cookies.registration).filter(|value| !value.is_empty()) {
            Some(secret) => Ok(Self { secret: Secret::new(secret), waiting }),
            None => Err(Failure::Redirect(waiting.address(ctx, PAGE))),
        }
    }

    pub(crate) async fn in_time(self, ctx: &RequestContext<'_>) -> Result<Self, Failure> {
        Ok(Self { waiting: self.waiting.in_time(ctx).await?, ..self })
    }

    /// Returns the key of the registration in the store.
    pub(crate) fn id(&self) -> SecretHash {
        self.secret.hash()
    }

    /// Returns the CSRF token of a page's form. The token depends on the registration. If another
    /// tab has begun a registration for a different address, the form of the first tab is therefore
    /// rejected.
    pub(crate) fn csrf(&self, page: &str) -> String {
        let text = Secret::new(format!("{} {}", self.waiting.csrf(page), self.secret.expose()));
        base64url(SecretHash::for_secret(text.expose().as_bytes()).as_bytes())
    }

    /// Reads a page's form.
    ///
    /// # Errors
    /// An error page if the CSRF token is wrong.
    pub(crate) fn form(&self, ctx: &RequestContext<'_>, page: &str) -> Result<Params, Failure> {
        let form = ctx.form()?;
        if ctx.is_own_form(&form, &self.csrf(page))? { Ok(form) } else { Err(Failure::page(Problem::ExpiredForm)) }
    }

    /// Returns a redirect to the page that asks for the code.
    pub(crate) fn back(&self, ctx: &RequestContext<'_>) -> Failure {
        Failure::Redirect(self.waiting.address(ctx, CODE))
    }

    /// Shows the first page with the message that the registration is no longer valid.
    pub(crate) fn over(&self, ctx: &RequestContext<'_>) -> Response {
        show(ctx, &self.waiting, "", Some(CreateAccountProblem::Over)).with_cookie(expired_registration_cookie(ctx))
    }

    /// Shows the first page with the message that an account has the address.
    ///
    /// Call this method only for a user who has proven that they receive the mail of the address.
    pub(crate) async fn report_taken_address(
        &self,
        ctx: &RequestContext<'_>,
        pending: &Loaded<PendingRegistration>,
    ) -> Result<Response, Failure> {
        // On a conflict, another request has already removed the registration.
        let _ = ctx.sealgate.store.drop_registration(pending).await?;
        ctx.sealgate.metrics.registered(RegistrationOutcome::Taken);
        Ok(show(ctx, &self.waiting, "", Some(CreateAccountProblem::Taken))
            .with_cookie(expired_registration_cookie(ctx)))
    }

    fn show_code(&self, ctx: &RequestContext<'_>, is_wrong: bool) -> Response {
        let page = ProveAddressPage {
            frame: ctx.frame(),
            action: &self.waiting.address(ctx, CODE),
            csrf: &self.csrf(CODE),
            again: &self.waiting.address(ctx, PAGE),
            is_wrong,
        };
        Response::page(StatusCode::OK, html(&page), None)
    }
}

fn busy(ctx: &RequestContext<'_>, waiting: &Waiting, typed: &str) -> Response {
    if !ctx.sealgate.store.has_room_for_mail(1) {
        ctx.sealgate.mail_dropped(MailKind::AddressWanted);
    }
    tracing::debug!("refused a registration: too many registrations are pending, or too many messages are queued");
    ctx.sealgate.metrics.registered(RegistrationOutcome::Dropped);
    let page = page(ctx, waiting, typed, Some(CreateAccountProblem::Busy));
    Response::page(StatusCode::SERVICE_UNAVAILABLE, page, None).retry_after(60)
}

fn show(ctx: &RequestContext<'_>, waiting: &Waiting, typed: &str, problem: Option<CreateAccountProblem>) -> Response {
    Response::page(StatusCode::OK, page(ctx, waiting, typed, problem), None)
}

fn page(ctx: &RequestContext<'_>, waiting: &Waiting, typed: &str, problem: Option<CreateAccountProblem>) -> String {
    html(&CreateAccountPage {
        frame: ctx.frame(),
        action: &waiting.address(ctx, PAGE),
        csrf: &waiting.csrf(PAGE),
        typed,
        domains: &ctx.sealgate.config.registration_of_people.domains.join(", "),
        sign_in: &waiting.address(ctx, SIGN_IN),
        problem,
    })
}
