//! `/oauth/create-account`: somebody makes an account for themselves, where the operator lets them. First they show that they read
//! the mail of an address, by a code that is typed in the browser that began; only then a name and a password are typed
//! (`new_account`). Whoever enters an address gets the same answer for the same work: whose it is, if anybody's, is looked up when
//! the mail's turn comes (`app::address_lookup`).

use http::header::RETRY_AFTER;
use http::{HeaderValue, Method, StatusCode};

use crate::domain::mail::{CodePurpose, Mail, MailKind};
use crate::domain::pending_registration::{PendingRegistration, REGISTRATION_LIFE, RegistrationVerdict};
use crate::domain::secret::{Secret, SecretHash, base64url, constant_time_eq};
use crate::domain::user::Email;
use crate::metrics::RegistrationOutcome;
use crate::oauth::params::Params;
use crate::page::{CreateAccountPage, CreateAccountProblem, Problem, ProveAddressPage, html};
use crate::provider::interaction::{PARAMETER, Waiting};
use crate::provider::mailing::{self, AddressFault};
use crate::provider::sign_in::SIGN_IN;
use crate::store::{Committed, Loaded};
use crate::web::context::RequestContext;
use crate::web::cookie;
use crate::web::failure::Failure;
use crate::web::response::Response;

/// The pages, as the addresses of the sign-in name them.
const PAGE: &str = "create-account";
const CODE: &str = "create-account/code";
pub(super) const FINISH: &str = "create-account/finish";

/// How often a registration that changes at the same moment is read again.
pub(super) const MOST_TRIES: usize = 8;

/// What this browser has begun: its form's request, and what its cookie holds.
pub(super) struct Registering {
    pub(super) waiting: Waiting,
    secret: Secret,
}

/// The first page's address, where people make their own accounts.
pub(super) fn address(ctx: &RequestContext<'_>, waiting: &Waiting) -> Option<String> {
    is_open(ctx).then(|| waiting.address(ctx, PAGE))
}

fn is_open(ctx: &RequestContext<'_>) -> bool {
    ctx.sealgate.config.registration_of_people.is_open() && ctx.sealgate.sends_mail()
}

/// Where nobody makes their own account, there are no such pages.
pub(super) fn require_open(ctx: &RequestContext<'_>) -> Result<(), Failure> {
    if is_open(ctx) { Ok(()) } else { Err(Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound)) }
}

/// The page that takes the address.
pub(super) async fn answer(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    require_open(ctx)?;
    if ctx.head.method == Method::POST {
        return ask(ctx).await;
    }
    if ctx.query()?.one(PARAMETER)?.is_none() {
        // A bookmark, for instance.
        return Err(Failure::Elsewhere(ctx.sign_in_address("/account", &[])));
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
    // Before the limits: whoever is refused by those gets the answer that everybody gets.
    if !store.has_room_for_registration() {
        return Ok(busy(ctx, &waiting, typed));
    }
    let allowed = mailing::stranger_may(ctx, &address).await;
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
    Ok(Response::see_other(&waiting.address(ctx, CODE)).with_cookie(kept(ctx, &secret)))
}

/// The address that was typed, if an account may be made with it.
fn usable(ctx: &RequestContext<'_>, typed: &str) -> Result<Email, CreateAccountProblem> {
    let address = mailing::mailable(typed).map_err(|fault| match fault {
        AddressFault::NotAscii => CreateAccountProblem::NotAscii,
        AddressFault::Malformed => CreateAccountProblem::Malformed,
    })?;
    let takes = ctx.sealgate.config.registration_of_people.takes(&address);
    if takes { Ok(address) } else { Err(CreateAccountProblem::Domain) }
}

/// The page that takes the code: the same for everybody who has entered an address.
pub(super) async fn code(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    require_open(ctx)?;
    let registering = Registering::find(ctx).await?;
    if ctx.head.method != Method::POST {
        return Ok(registering.show_code(ctx, false));
    }
    let form = registering.form(ctx, CODE)?;
    let registering = registering.in_time(ctx).await?;
    // What is no code at all is no try either.
    let Some(typed) = mailing::digits(form.one("code")?.unwrap_or_default()) else {
        return Ok(registering.show_code(ctx, true));
    };
    let (store, id) = (&ctx.sealgate.store, registering.id());
    for _ in 0..MOST_TRIES {
        let Some(pending) = store.pending_registration(&id).await? else { return Ok(registering.over(ctx)) };
        // A reload has taken its domain off the list: the right code would lead back to this page.
        if !ctx.sealgate.config.registration_of_people.takes(&pending.value.address) {
            return Ok(registering.over(ctx));
        }
        if pending.value.is_proven() && pending.value.is_live(ctx.now) {
            return Ok(Response::see_other(&registering.waiting.address(ctx, FINISH)));
        }
        let typed = code_hash(ctx, &id, &pending.value.address, &typed)?;
        match pending.value.take_code(typed, ctx.now) {
            RegistrationVerdict::Right(next) => {
                // They have shown that they read its mail: they may be told that it is somebody's. Nobody else may.
                if store.user_by_email(&next.address).await?.is_some() {
                    return registering.taken(ctx, &pending).await;
                }
                // Under a new name: whoever had planted the cookie in this browser does not go on in their own.
                let secret = Secret::from_random(&ctx.random::<32>());
                if store.move_registration(&pending, &secret.hash(), &next).await? == Committed::Yes {
                    ctx.sealgate.metrics.registered(RegistrationOutcome::Proven);
                    let on = registering.waiting.address(ctx, FINISH);
                    return Ok(Response::see_other(&on).with_cookie(kept(ctx, &secret)));
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

/// A code is good for what one browser has begun, and for one address.
fn code_hash(ctx: &RequestContext<'_>, id: &SecretHash, address: &Email, code: &str) -> Result<SecretHash, Failure> {
    mailing::code_hash(ctx, &[b"registration", &id.as_bytes()[..], address.lookup_key().as_bytes()].concat(), code)
}

fn kept(ctx: &RequestContext<'_>, secret: &Secret) -> HeaderValue {
    cookie::set_for(ctx.cookies.registration, secret.expose(), ctx.cookies.secure, REGISTRATION_LIFE.as_secs())
}

/// The cookie that ends it in this browser.
pub(super) fn forgotten(ctx: &RequestContext<'_>) -> HeaderValue {
    cookie::expire(ctx.cookies.registration, ctx.cookies.secure)
}

impl Registering {
    /// What this browser has begun for the sign-in that the page is about.
    ///
    /// # Errors
    /// The way to the first page when nothing was begun; as [`Waiting::find_at_any_time`].
    pub(super) async fn find(ctx: &RequestContext<'_>) -> Result<Self, Failure> {
        let waiting = Waiting::find_at_any_time(ctx).await?;
        match ctx.cookie(ctx.cookies.registration).filter(|value| !value.is_empty()) {
            Some(secret) => Ok(Self { secret: Secret::new(secret), waiting }),
            None => Err(Failure::Elsewhere(waiting.address(ctx, PAGE))),
        }
    }

    pub(super) async fn in_time(self, ctx: &RequestContext<'_>) -> Result<Self, Failure> {
        Ok(Self { waiting: self.waiting.in_time(ctx).await?, ..self })
    }

    /// Under which it lies in the store.
    pub(super) fn id(&self) -> SecretHash {
        self.secret.hash()
    }

    /// The token of a page's form. It names what was begun, so that a form about one address is not sent for another, which was
    /// begun in another tab.
    pub(super) fn csrf(&self, page: &str) -> String {
        let text = Secret::new(format!("{} {}", self.waiting.csrf(page), self.secret.expose()));
        base64url(SecretHash::of(text.expose().as_bytes()).as_bytes())
    }

    /// Reads a page's form.
    ///
    /// # Errors
    /// A page when the form's token is not the one that the page was given.
    pub(super) fn form(&self, ctx: &RequestContext<'_>, page: &str) -> Result<Params, Failure> {
        let form = ctx.form()?;
        let sound = form.one("csrf")?.is_some_and(|sent| constant_time_eq(sent, &self.csrf(page)));
        if sound { Ok(form) } else { Err(Failure::page(Problem::ExpiredForm)) }
    }

    /// The way to the page that takes the code.
    pub(super) fn back(&self, ctx: &RequestContext<'_>) -> Failure {
        Failure::Elsewhere(self.waiting.address(ctx, CODE))
    }

    /// Back to the first page, which says that nothing is waited for any more.
    pub(super) fn over(&self, ctx: &RequestContext<'_>) -> Response {
        show(ctx, &self.waiting, "", Some(CreateAccountProblem::Over)).with_cookie(forgotten(ctx))
    }

    /// The same where there is an account with the address by now. Only for whoever has proven that they read its mail.
    pub(super) async fn taken(
        &self,
        ctx: &RequestContext<'_>,
        pending: &Loaded<PendingRegistration>,
    ) -> Result<Response, Failure> {
        // A conflict means that it has gone already.
        let _ = ctx.sealgate.store.drop_registration(pending).await?;
        ctx.sealgate.metrics.registered(RegistrationOutcome::Taken);
        Ok(show(ctx, &self.waiting, "", Some(CreateAccountProblem::Taken)).with_cookie(forgotten(ctx)))
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
    tracing::warn!(
        "too many registrations are pending, or too many mails wait: somebody who wanted an account is put off"
    );
    ctx.sealgate.metrics.registered(RegistrationOutcome::Dropped);
    let page = page(ctx, waiting, typed, Some(CreateAccountProblem::Busy));
    Response::page(StatusCode::SERVICE_UNAVAILABLE, page, None).with(RETRY_AFTER, "60")
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
