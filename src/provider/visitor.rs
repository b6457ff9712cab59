//! Who looks at one of our own pages: somebody who is signed in, or the browser is sent to the sign-in and back.

use std::collections::BTreeSet;
use std::time::Duration;

use http::HeaderValue;

use crate::config::{App, Config};
use crate::domain::assurance::{AssuranceLevel, AssuranceRequirement, RecoveryCodeWorth};
use crate::domain::audit::{Actor, AuditEvent, AuditKind};
use crate::domain::secret::{SecretHash, base64url, constant_time_eq};
use crate::domain::session::{Session, SessionCookie, SessionId, SignIn};
use crate::domain::user::{Role, Subject, User};
use crate::oauth::params::Params;
use crate::page::{ConsoleRole, Done, Inside, Problem};
use crate::provider::sign_in;
use crate::store::{Loaded, Store};
use crate::web::context::RequestContext;
use crate::web::cookie;
use crate::web::failure::Failure;

/// The most sessions that a page shows; "end every other" reaches all.
const MOST_SESSIONS: usize = 50;

/// Somebody who is signed in.
pub(super) struct Visitor {
    pub(super) session: Loaded<Session>,
    pub(super) sign_in: SignIn,
    pub(super) user: User,
}

impl Visitor {
    /// The person in use in this browser. `page` is where a sign-in comes back to.
    ///
    /// # Errors
    /// [`Failure::Elsewhere`] when nobody is signed in; when the store fails.
    pub(super) async fn find(ctx: &RequestContext<'_>, page: &str) -> Result<Self, Failure> {
        if let Some(session) = ctx.session().await? {
            for sign_in in &session.value.sign_ins {
                if let Some(user) = ctx.sealgate.store.user(sign_in.subject).await?.filter(User::is_enabled) {
                    // A page that is not marked as one of somebody who is signed in could write after the sign-in has ended.
                    if !ctx.sealgate.store.act_for(user.sub) {
                        tracing::error!(page, "the route is not marked as one of signed-in users");
                        return Err(Failure::Internal);
                    }
                    ctx.sealgate.store.touch_session(&session, ctx.now).await;
                    return Ok(Self { sign_in: sign_in.clone(), session, user });
                }
            }
        }
        Err(Failure::Elsewhere(ctx.sign_in_address(page, &[])))
    }

    /// The same, if they have shown a factor in this session, however long ago, where they have one: whoever signed in with the
    /// password before there was a factor may be who the factor is to keep out.
    ///
    /// # Errors
    /// As [`Visitor::find`], and when they have not.
    pub(super) async fn with_factor(ctx: &RequestContext<'_>, page: &str) -> Result<Self, Failure> {
        let required = |reachable: AssuranceLevel| (reachable.min(AssuranceLevel::Two), None);
        Self::meeting(ctx, page, required).await
    }

    /// The same, if they have proven who they are no longer ago than `max_age`, as surely as they can: with all factors that they
    /// have, or somebody with the password alone could add a key of their own.
    ///
    /// # Errors
    /// As [`Visitor::find`], and when it was longer ago.
    pub(super) async fn recent(ctx: &RequestContext<'_>, page: &str, max_age: Duration) -> Result<Self, Failure> {
        Self::meeting(ctx, page, |reachable| (reachable, Some(max_age))).await
    }

    /// The person in use in this browser, if their sign-in is what `required` makes of the highest level that they can reach: a
    /// level and a maximum age. A recovery code stands in for the factor that is lost. Others are sent to sign in for that.
    async fn meeting(
        ctx: &RequestContext<'_>,
        page: &str,
        required: impl FnOnce(AssuranceLevel) -> (AssuranceLevel, Option<Duration>) + Send,
    ) -> Result<Self, Failure> {
        let visitor = Self::find(ctx, page).await?;
        let factors = ctx.sealgate.store.factors(visitor.user.sub).await?;
        let reachable = sign_in::summary(factors.as_ref().map(|factors| &factors.value), &visitor.user).reachable;
        let (level, max_age) = required(reachable);
        let required = AssuranceRequirement { level, max_age, recovery_codes: RecoveryCodeWorth::LostFactor };
        if required.judge(&visitor.sign_in.steps, ctx.now).is_ok() {
            return Ok(visitor);
        }
        let seconds = max_age.map(|max_age| max_age.as_secs().to_string());
        let age = seconds.as_deref().map(|seconds| ("max_age", seconds));
        let wishes: Vec<_> = age.into_iter().chain([("acr_values", level.as_str())]).collect();
        Err(Failure::Elsewhere(ctx.sign_in_address(page, &wishes)))
    }

    /// The level that `[factors]` demands, where this sign-in is below it. It is good for the account's own pages then, to add a
    /// better factor, and opens nothing else.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) async fn short_of(&self, ctx: &RequestContext<'_>) -> Result<Option<AssuranceLevel>, Failure> {
        let level = ctx.level_in_force(&self.user).await?;
        let judged = AssuranceRequirement::level(level).judge(&self.sign_in.steps, ctx.now);
        Ok(judged.is_err().then_some(level))
    }

    /// Ends every other session of this person, and gives this browser's another identifier and cookie: somebody else may
    /// hold the old cookie, and applications that it opened hang on the old identifier. Everybody else who is signed in here
    /// stays so. `change` is done to the session on the way. Yields the new cookie; none where the session was changed by
    /// another hand meanwhile, and is over then.
    ///
    /// # Errors
    /// When the store fails; the call can be repeated.
    pub(super) async fn keep_this_session_only(
        &self,
        ctx: &RequestContext<'_>,
        store: &Store,
        change: impl Fn(&mut Session) + Send + Sync,
    ) -> Result<Option<HeaderValue>, Failure> {
        let id = self.session.value.id;
        // The others first: a live one could make a new grant while the old ones are being ended.
        store.end_other_sessions_of_user(self.user.sub, id).await?;
        let cookie = SessionCookie::new(SessionId::from_bytes(ctx.random()), ctx.random());
        let next = |session: &Session| {
            let mut next = session.clone();
            change(&mut next);
            (next.id, next.cookie, next.previous) = (cookie.id, cookie.hash(), None);
            // Whoever changed the cookie meanwhile may be the one who is to be put out.
            (session.cookie == self.session.value.cookie).then_some(next)
        };
        if store.move_session(id, next).await? {
            return Ok(Some(cookie::set(ctx.cookies.session, cookie.value().expose(), ctx.cookies.secure)));
        }
        // It may go on under another identifier.
        store.for_server().end_sessions_of_user(self.user.sub).await?;
        Ok(None)
    }

    /// What they may do in the console, where there is one.
    pub(super) fn console_role(&self, ctx: &RequestContext<'_>) -> Option<ConsoleRole> {
        console_role(ctx, &self.user.roles, &self.user.groups)
    }

    /// The token of a form on one of our own pages: bound to the person, the form and the session's cookie, which no other
    /// site can read.
    pub(super) fn csrf(&self, ctx: &RequestContext<'_>, form: &str) -> String {
        let cookie = ctx.cookie(ctx.cookies.session).unwrap_or_default();
        let text = format!("csrf own {form} {} {cookie}", self.user.sub);
        base64url(SecretHash::of(text.as_bytes()).as_bytes())
    }

    /// Reads a form.
    ///
    /// # Errors
    /// A page when its token is not the one that the page was given.
    pub(super) fn form(&self, ctx: &RequestContext<'_>, form: &str) -> Result<Params, Failure> {
        let params = ctx.form()?;
        let sound = params.one("csrf")?.is_some_and(|sent| constant_time_eq(sent, &self.csrf(ctx, form)));
        if sound { Ok(params) } else { Err(Failure::page(Problem::ExpiredForm)) }
    }

    /// An event of the audit trail that is their own doing, to be told more of.
    pub(super) fn event(&self, ctx: &RequestContext<'_>, kind: AuditKind) -> AuditEvent {
        ctx.event(kind, Actor::Person).of(self.user.sub).in_session(self.session.value.id)
    }

    /// What surrounds a page of theirs.
    pub(super) fn inside<'a>(&'a self, ctx: &'a RequestContext<'_>) -> Inside<'a> {
        let config = &ctx.sealgate.config;
        Inside {
            frame: ctx.frame(),
            prefix: config.issuer.path_prefix(),
            account: self.user.email.as_str(),
            console: self.console_role(ctx),
            home: has_home(config),
            app_passwords: config.apps.iter().any(App::takes_app_passwords),
            once: base64url(&ctx.random::<16>()),
            done: ctx.query().ok().and_then(|query| query.one("done").ok().flatten().and_then(Done::parse)),
        }
    }
}

/// What a person may do in the console, where there is one: by their role, or by a group.
pub(super) fn console_role(
    ctx: &RequestContext<'_>,
    roles: &BTreeSet<Role>,
    groups: &BTreeSet<String>,
) -> Option<ConsoleRole> {
    let console = &ctx.sealgate.config.console;
    let is = |role, group: &Option<String>| {
        roles.contains(&role) || group.as_ref().is_some_and(|group| groups.contains(group))
    };
    match () {
        () if !console.enabled => None,
        () if is(Role::Admin, &console.admins) => Some(ConsoleRole::Administrator),
        () if is(Role::Developer, &console.developers) => Some(ConsoleRole::Developer),
        () => None,
    }
}

/// Where a person is signed in.
pub(super) async fn live_sessions(ctx: &RequestContext<'_>, subject: Subject) -> Result<Vec<Session>, Failure> {
    let mut sessions = ctx.sealgate.store.sessions_of_user(subject, None, MOST_SESSIONS).await?.sessions;
    sessions.retain(|session| session.is_live(ctx.now) && session.sign_in_of(subject).is_some());
    Ok(sessions)
}

/// The address of a page that tells what has been done.
pub(super) fn done(ctx: &RequestContext<'_>, page: &str, done: Done) -> String {
    ctx.path(&format!("{page}?done={}", done.as_str()))
}

/// Whether there is a page of applications: where an application shares the issuer's host, its root is the application's.
pub(super) fn has_home(config: &Config) -> bool {
    let authority = config.issuer.authority();
    !config.apps.iter().any(|app| app.answers_to(&authority))
}
