//! Access decision. Only this module creates a [`Permit`], and no request is forwarded without a
//! permit.
//!
//! All conditions of a rule must hold. They are checked in this order, so that the reason of a
//! refusal does not vary: credential, audience, client, scopes, users, groups, level and age of the
//! sign-in. Level and age come last, so that a user without access is not asked to sign in again.
//!
//! If an application in maintenance has groups that can use it, the groups are checked after the
//! rules. Otherwise maintenance is the first reason to refuse a request.

mod permit;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use http::uri::PathAndQuery;
use sha2::{Digest, Sha256};

pub(super) use permit::Permit;

use crate::cors::Cors;
use crate::destination::Destination;
use crate::headers::{Identity, UnwritableGroups};
use crate::place_index::Subtree;
use crate::principal::Principal;
use crate::resource;
use crate::route::Rule;
use crate::upstream_target::UpstreamTarget;
use sealgate_config::{Access, App, IdentityHeaders, Maintenance, Sticky};
use sealgate_core::tokens::bearer::{Bearer, BearerHolder};
use sealgate_domain::assurance::{
    AssuranceLevel, AssuranceRequirement, AssuranceShortfall, AuthenticationSteps, RecoveryCodeWorth,
};
use sealgate_domain::oauth::claims::{AccessTokenClaims, Audience};
use sealgate_domain::oauth::trusted_token::Foreign;
use sealgate_domain::scope::ScopeValue;
use sealgate_domain::session::SessionId;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::User;
use sealgate_system::read_mostly::LocalRef;

/// Verified credential of a request.
#[derive(Debug, Clone)]
pub(super) enum Credential {
    Anonymous,
    /// A valid access token of this issuer, and the level that `[factors]` requires of its user.
    Bearer(LocalRef<Bearer>, AssuranceLevel),
    /// A valid token of another issuer that the application trusts.
    Foreign(Arc<Foreign>),
    /// The session of a browser.
    Browser(LocalRef<SignedIn>),
    /// An application password.
    Program(Arc<Program>),
}

/// User of an application password.
#[derive(Debug, Clone)]
pub(super) struct Program {
    pub user: User,
    /// Level of the sign-in in which the password was created.
    pub level: AssuranceLevel,
    /// Level that `[factors]` requires of the user.
    pub required: AssuranceLevel,
}

/// Sign-in of a browser.
#[derive(Debug, Clone)]
pub(super) struct SignedIn {
    pub user: User,
    pub session: SessionId,
    /// Session at the application. `None` on the issuer's host, where the application uses `session`.
    pub app_session: Option<SessionId>,
    /// Authentication steps that the session cookie proves.
    pub steps: AuthenticationSteps,
    /// Level that `[factors]` requires of each sign-in of the user. The account pages also accept
    /// lower levels.
    pub required: AssuranceLevel,
}

/// Strength and age of the sign-in that a credential proves.
enum Proof<'a> {
    Browser(&'a SignedIn),
    /// Claims of a token of this issuer, and the level that `[factors]` requires of its user.
    Claims(&'a AccessTokenClaims, AssuranceLevel),
    /// `acr` and `auth_time` of another issuer's token. The order of that issuer's context classes
    /// is unknown.
    Foreign(Option<&'a str>, Option<UnixTime>),
    /// Application password, which proves no sign-in.
    Program(&'a Program),
    /// Token of a client in its own name. No user has signed in, so the token has no level and no age.
    Client,
}

impl Proof<'_> {
    /// Checks level and age of the sign-in against the rule.
    ///
    /// A rule without context classes accepts every level. A rule that lists only context classes
    /// of other issuers accepts no level of this issuer.
    fn judge<'r>(&self, rule: &'r Rule, now: UnixTime) -> Result<(), Refused<'r>> {
        let lowest = AssuranceLevel::lowest_of(&rule.acr);
        let any = rule.acr.is_empty().then_some(AssuranceLevel::One);
        let named = |acr: &str| rule.acr.iter().any(|class| class == acr);
        let mut required = AssuranceRequirement {
            level: lowest.unwrap_or(AssuranceLevel::One),
            max_age: rule.max_age,
            recovery_codes: RecoveryCodeWorth::SecondFactor,
        };
        let judged = match self {
            Self::Browser(_) | Self::Claims(..) if lowest.is_none() && any.is_none() => {
                return Err(Refused::Acr(required.level));
            }
            Self::Browser(signed_in) => {
                required.level = required.level.max(signed_in.required);
                // Common case: the steps need not be evaluated.
                if required.level == AssuranceLevel::One && required.max_age.is_none() {
                    return Ok(());
                }
                required.judge(&signed_in.steps, now)
            }
            Self::Claims(claims, in_force) => {
                required.level = required.level.max(*in_force);
                required.judge_reached(AssuranceLevel::parse(&claims.acr).or(any), || claims.auth_time, now)
            }
            Self::Client => {
                return match rule.max_age {
                    _ if !rule.acr.is_empty() => Err(Refused::Acr(required.level)),
                    Some(max_age) => Err(Refused::TooOld(max_age)),
                    None => Ok(()),
                };
            }
            Self::Foreign(acr, at) => {
                let is_named = any.is_some() || acr.is_some_and(named);
                required.judge_reached(is_named.then_some(required.level), || *at, now)
            }
            Self::Program(program) => {
                required.level = required.level.max(program.required);
                required.judge_reached(any.map(|_| program.level), || None, now)
            }
        };
        judged.map_err(|shortfall| match shortfall {
            AssuranceShortfall::Level(level) => Refused::Acr(level),
            AssuranceShortfall::Age(max_age) => Refused::TooOld(max_age),
        })
    }
}

impl Credential {
    /// Returns the authenticated user, if any.
    pub(super) fn who(&self) -> Option<Principal<'_>> {
        match self {
            Self::Anonymous => None,
            Self::Bearer(bearer, _) => Some(principal(bearer)),
            Self::Foreign(foreign) => Some(Principal::Foreign(foreign)),
            Self::Browser(signed_in) => Some(Principal::Local(&signed_in.user)),
            Self::Program(program) => Some(Principal::Local(&program.user)),
        }
    }

    /// Returns the user in this store whom the credential identifies. Users of other issuers are
    /// not in it.
    pub(super) fn user(&self) -> Option<&User> {
        match self {
            Self::Anonymous | Self::Foreign(_) => None,
            Self::Bearer(bearer, _) => bearer.user(),
            Self::Browser(signed_in) => Some(&signed_in.user),
            Self::Program(program) => Some(&program.user),
        }
    }

    /// Returns the scope of the token, if the credential is a token of this issuer.
    pub(super) fn token_scope(&self) -> Option<&str> {
        if let Self::Bearer(bearer, _) = self { Some(&bearer.claims.scope) } else { None }
    }

    /// Returns whether the credential is a token with the scope `offline_access`.
    pub(super) fn has_offline_access(&self) -> bool {
        matches!(self, Self::Bearer(bearer, _) if bearer.scope.contains(ScopeValue::OfflineAccess))
    }

    /// Returns whether the credential was sent by a program, which the gateway does not redirect to
    /// sign in.
    pub(super) fn is_by_token(&self) -> bool {
        matches!(self, Self::Bearer(..) | Self::Foreign(_) | Self::Program(_))
    }

    /// Returns whether the credential was sent in `Authorization`. The header is then not forwarded.
    pub(super) fn is_in_authorization(&self, identity: &IdentityHeaders) -> bool {
        match self {
            Self::Bearer(..) | Self::Foreign(_) => true,
            Self::Program(_) => identity.app_password_header.is_none(),
            Self::Anonymous | Self::Browser(_) => false,
        }
    }

    /// Returns the provider's session, if the credential is a browser's session.
    pub(super) fn session(&self) -> Option<SessionId> {
        match self {
            Self::Anonymous | Self::Bearer(..) | Self::Foreign(_) | Self::Program(_) => None,
            Self::Browser(signed_in) => Some(signed_in.session),
        }
    }
}

/// Reason to refuse a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused<'r> {
    Unknown,
    Audience,
    /// The application lists clients, but not the client of the token.
    Client,
    /// The application lists no clients, and the token's client was neither created by an operator
    /// nor approved by an administrator.
    UnapprovedClient,
    /// The application is for agents, and tokens may only read under the rule.
    ReadOnly,
    /// The token lacks one of these scopes.
    Scope(&'r [String]),
    /// The rule does not list the user.
    User,
    /// The user is in none of the rule's groups.
    Group,
    /// The sign-in does not reach this level.
    Acr(AssuranceLevel),
    TooOld(Duration),
    /// The user's groups cannot be written into a header.
    Groups(UnwritableGroups),
    /// The rule of the destination refuses the request.
    Destination,
    /// The request acts on everything below the path or the destination. The rule of a path there
    /// refuses the request.
    Below,
    /// The application is in maintenance, and the user is in none of the groups that can use it.
    Maintenance,
}

impl Refused<'_> {
    /// Returns the reason as a label for logs, metrics and `sealgate explain`.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unauthenticated",
            Self::Audience => "audience",
            Self::Client => "client",
            Self::UnapprovedClient => "unapproved_client",
            Self::ReadOnly => "read_only",
            Self::Scope(_) => "scope",
            Self::User => "user",
            Self::Group => "group",
            Self::Acr(_) => "acr",
            Self::TooOld(_) => "max_age",
            Self::Groups(UnwritableGroups::TooLong) => "too_many_groups",
            Self::Groups(UnwritableGroups::Letters) => "unwritable_group",
            Self::Destination => "destination",
            Self::Below => "below",
            Self::Maintenance => "maintenance",
        }
    }

    /// Returns the context classes to request from a new sign-in, which must reach one of them.
    ///
    /// The classes are those of the rule, or the level that `[factors]` requires if that level is
    /// higher.
    pub(super) fn demanded(self, rule: &Rule) -> Cow<'_, [String]> {
        let of_rule = AssuranceLevel::lowest_of(&rule.acr).unwrap_or(AssuranceLevel::One);
        match self {
            Self::Acr(level) if level > of_rule => Cow::Owned(vec![level.as_str().to_owned()]),
            _ => Cow::Borrowed(&rule.acr),
        }
    }

    /// Returns the token claim that caused the refusal, if any.
    pub(super) const fn claim(self) -> Option<&'static str> {
        match self {
            Self::Unknown | Self::ReadOnly | Self::Destination | Self::Below | Self::Maintenance => None,
            Self::Audience => Some("aud"),
            Self::Client | Self::UnapprovedClient => Some("client_id"),
            Self::Scope(_) => Some("scope"),
            Self::User => Some("sub"),
            Self::Group | Self::Groups(_) => Some("groups"),
            Self::Acr(_) => Some("acr"),
            Self::TooOld(_) => Some("auth_time"),
        }
    }
}

#[derive(Clone)]
pub(super) struct AccessRequest<'a> {
    /// Index of the application in the configuration.
    pub index: usize,
    pub app: &'a App,
    /// [`App::identity`], with a reference of this thread.
    pub identity: LocalRef<Arc<IdentityHeaders>>,
    /// Audience that a token must contain, unless the rule or the application sets another.
    pub issuer: &'a str,
    /// Origin of the request. `None` if the application is not a resource. The path of a rule may be a
    /// resource of its own.
    pub resource: Option<Cow<'a, str>>,
    /// Rule of the path, the method and the network.
    pub rule: &'a Rule,
    /// Whether clients of other networks get another rule.
    pub is_by_network: bool,
    /// Destination of a COPY or MOVE.
    pub destination: Destination<'a>,
    /// Rules below the path and the destination, within the depth of the request.
    pub below: Subtree<'a>,
    /// Target of the request, from which the rule was found.
    pub path_and_query: &'a PathAndQuery,
    /// Target at the upstream, if it differs.
    pub upstream_target: Option<UpstreamTarget>,
    /// CORS headers of the response.
    pub cors: Cors,
    pub now: UnixTime,
    /// Whether this is an exchange in progress. Maintenance does not end exchanges.
    pub in_progress: bool,
    /// Whether the method is GET, HEAD or OPTIONS, and the request opens no WebSocket.
    pub only_reads: bool,
}

impl<'a> AccessRequest<'a> {
    /// Returns every rule that must allow the request. The rule of the path comes first.
    pub(super) fn rules(&self) -> impl Iterator<Item = &'a Rule> {
        let destination = if let Destination::Ruled(rule) = self.destination { Some(rule) } else { None };
        std::iter::once(self.rule).chain(destination).chain(self.below.rules().flatten())
    }

    /// Returns whether the rules need no credentials.
    pub(super) fn is_public(&self) -> bool {
        self.rules().all(|rule| rule.access == Access::Public)
    }

    /// Returns whether the decision needs credentials. If not, the gateway does not read them.
    pub(super) fn needs_credential(&self) -> bool {
        !self.is_closed() && (!self.is_public() || self.maintenance().is_some())
    }

    /// Returns whether maintenance refuses the request of every client.
    pub(super) fn is_closed(&self) -> bool {
        self.maintenance().is_some_and(|maintenance| maintenance.groups.is_empty())
    }

    /// Returns the maintenance that applies to the request.
    fn maintenance(&self) -> Option<&'a Maintenance> {
        self.app.maintenance.as_ref().filter(|_| !self.in_progress)
    }
}

pub(super) fn decide<'a>(asked: &AccessRequest<'a>, credential: &Credential) -> Result<Permit, Refused<'a>> {
    if asked.is_closed() {
        return Err(Refused::Maintenance);
    }
    let format = &asked.identity;
    let who = judge(asked, asked.rule, credential)?;
    let user = who.filter(|_| asked.app.sticky == Some(Sticky::User)).map(user_number);
    let identity = match who {
        Some(who) => {
            let identity = Identity::for_principal(who, format).map_err(Refused::Groups)?;
            if credential.is_in_authorization(format) { identity.by_token() } else { identity }
        }
        None => Identity::nobody(format),
    };
    let lets_through = |rule| judge(asked, rule, credential).is_ok();
    match asked.destination {
        Destination::Ruled(rule) if !lets_through(rule) => return Err(Refused::Destination),
        Destination::Closed => return Err(Refused::Destination),
        Destination::None | Destination::Ruled(_) => {}
    }
    if !asked.below.rules().all(|rule| rule.is_ok_and(lets_through)) {
        return Err(Refused::Below);
    }
    if asked.maintenance().is_some_and(|maintenance| !is_excepted(asked, maintenance, credential)) {
        return Err(Refused::Maintenance);
    }
    Ok(permit(asked, identity, user))
}

/// Returns whether the user is in a group that can use the application during its maintenance.
///
/// On a public path too, the credential must be one that the application accepts, of the level that
/// `[factors]` requires.
fn is_excepted(asked: &AccessRequest<'_>, maintenance: &Maintenance, credential: &Credential) -> bool {
    let rule = Rule {
        groups: maintenance.groups.clone(),
        audience: asked.rule.audience.clone(),
        app_passwords: true,
        ..Rule::plain(&asked.rule.path, Access::SignedIn)
    };
    judge(asked, &rule, credential).is_ok()
}

/// Checks the request against one rule. Returns the user whose identity the application receives,
/// or `None` on a public path.
fn judge<'a, 'c>(
    asked: &AccessRequest<'a>,
    rule: &'a Rule,
    credential: &'c Credential,
) -> Result<Option<Principal<'c>>, Refused<'a>> {
    let (who, proof) = match (rule.access, credential) {
        // Public paths never receive an identity, because the application could start to rely on
        // it.
        (Access::Public, _) => return Ok(None),
        (Access::Bearer | Access::SignedIn, Credential::Bearer(bearer, required)) => {
            judge_token(asked, rule, bearer)?;
            let proof = match bearer.holder {
                BearerHolder::User(_) => Proof::Claims(&bearer.claims, *required),
                BearerHolder::Client(_) => Proof::Client,
            };
            (principal(bearer), proof)
        }
        (Access::Bearer | Access::SignedIn, Credential::Foreign(foreign)) => {
            judge_foreign(asked, rule, foreign)?;
            (Principal::Foreign(foreign), Proof::Foreign(foreign.acr.as_deref(), foreign.auth_time))
        }
        (Access::SignedIn, Credential::Browser(signed_in)) => {
            (Principal::Local(&signed_in.user), Proof::Browser(signed_in))
        }
        (Access::SignedIn, Credential::Program(program)) if rule.app_passwords => {
            (Principal::Local(&program.user), Proof::Program(program))
        }
        (_, Credential::Program(_) | Credential::Anonymous) | (Access::Bearer, Credential::Browser(_)) => {
            return Err(Refused::Unknown);
        }
    };
    if !rule.users.is_empty() && !rule.users.iter().any(|user| who.is(user)) {
        return Err(Refused::User);
    }
    if !rule.groups.is_empty() && !rule.groups.iter().any(|group| who.is_in_group(group)) {
        return Err(Refused::Group);
    }
    proof.judge(rule, asked.now)?;
    Ok(Some(who))
}

/// Returns the user or client whom a token identifies.
fn principal(bearer: &Bearer) -> Principal<'_> {
    match &bearer.holder {
        BearerHolder::User(user) => Principal::Local(user),
        BearerHolder::Client(client) => Principal::Client(client),
    }
}

fn judge_token<'a>(asked: &AccessRequest<'_>, rule: &'a Rule, bearer: &Bearer) -> Result<(), Refused<'a>> {
    if matching_audience(asked, rule, &bearer.claims.aud).is_none() {
        return Err(Refused::Audience);
    }
    refuse_to_write(asked, rule)?;
    // Tokens without a resource have the issuer as audience. Without this check, any client to which a user
    // once consented could act as that user at the applications. Developers can register clients,
    // and clients can register themselves. So an application without a list of clients accepts only
    // clients that an operator created or an administrator approved.
    match asked.app.clients {
        _ if asked.app.accepts_client(&bearer.client, bearer.vouched_for) => {}
        Some(_) => return Err(Refused::Client),
        None => return Err(Refused::UnapprovedClient),
    }
    let has = |wanted: &String| bearer.claims.scope.split(' ').any(|scope| scope == wanted);
    if !rule.scopes.iter().all(has) {
        return Err(Refused::Scope(&rule.scopes));
    }
    Ok(())
}

/// Refuses a request with a token under a rule of an application for agents that only permits
/// reading.
fn refuse_to_write<'a>(asked: &AccessRequest<'_>, rule: &Rule) -> Result<(), Refused<'a>> {
    if asked.app.is_read_only_for(rule) && !asked.only_reads { Err(Refused::ReadOnly) } else { Ok(()) }
}

/// Returns the audience for which the rule accepts a token of this issuer: the audience of the rule,
/// otherwise the identifier of the resource or the application's `audience`, otherwise the issuer.
pub(super) fn matching_audience<'a>(
    asked: &'a AccessRequest<'_>,
    rule: &'a Rule,
    audience: &'a Audience,
) -> Option<&'a str> {
    // A token for another resource also has the issuer as audience, for the UserInfo endpoint.
    let is_met = |wanted: &&str| {
        if *wanted == asked.issuer { audience.is_only(wanted) } else { audience.contains(wanted) }
    };
    if let Some(of_rule) = rule.audience.as_deref() {
        return Some(of_rule).filter(is_met);
    }
    let general = asked.app.audience.as_deref().or(asked.app.issuer_audience.then_some(asked.issuer));
    let of_resource = asked
        .resource
        .as_deref()
        .and_then(|origin| audience.iter().find(|audience| resource::is_resource_of(rule, origin, audience)));
    of_resource.or_else(|| general.filter(is_met))
}

/// Checks a token of another issuer against the rule. The issuer's settings already limit its
/// clients.
fn judge_foreign<'a>(asked: &AccessRequest<'_>, rule: &'a Rule, foreign: &Foreign) -> Result<(), Refused<'a>> {
    // A valid token is not enough: the application must list the issuer.
    if !asked.app.trusted_issuers.contains(&foreign.issuer) {
        return Err(Refused::Unknown);
    }
    let audience = rule.audience.as_ref().or(asked.app.audience.as_ref());
    if audience.is_some_and(|audience| !foreign.audiences.contains(audience)) {
        return Err(Refused::Audience);
    }
    refuse_to_write(asked, rule)?;
    if !rule.scopes.iter().all(|scope| foreign.scopes.contains(scope)) {
        return Err(Refused::Scope(&rule.scopes));
    }
    Ok(())
}

/// Returns the number that chooses the user's server. All nodes must agree on it.
fn user_number(who: Principal<'_>) -> u64 {
    Sha256::digest(who.name()).iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn permit(asked: &AccessRequest<'_>, identity: Identity, user: Option<u64>) -> Permit {
    let at_upstream = asked.upstream_target.as_ref();
    Permit {
        app: asked.index,
        upstreams: asked.rule.upstream.list,
        user,
        path_and_query: at_upstream.map_or(asked.path_and_query, |target| &target.path_and_query).clone(),
        upstream_target: asked.upstream_target.clone().map(Box::new),
        identity,
        cors: asked.cors.clone(),
        allow_get_body: asked.rule.allow_get_body,
        limits: asked.rule.limits,
        compression: asked.rule.compression,
        session: None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use http::Request;

    use super::*;
    use sealgate_domain::assurance::AuthenticationMethod::{Passkey, Password, RecoveryCode, SecurityKey, Totp};
    use sealgate_domain::assurance::{AuthenticationMethod, AuthenticationStep};
    use sealgate_domain::client::ClientId;
    use sealgate_domain::group_filter::GroupFilter;
    use sealgate_domain::oauth::claims::AccessTokenClaims;
    use sealgate_domain::scope::Scope;
    use sealgate_domain::time::UnixTime;
    use sealgate_domain::user::{Email, ManagerDecisions, Subject, UserState};

    const TIME: UnixTime = UnixTime::from_seconds(1_800_000_000);

    fn anna() -> User {
        User {
            sub: Subject::from_random([1; 16]),
            email: Email::parse("anna@example.test"),
            username: None,
            email_verified: true,
            name: "Anna".into(),
            phone_number: None,
            picture: None,
            roles: BTreeSet::new(),
            groups: BTreeSet::from(["staff".to_owned()]),
            password: None,
            source: None,
            state: UserState::Enabled,
            created_at: TIME,
            updated_at: TIME,
            audit_filters: Vec::new(),
            by_manager: ManagerDecisions::default(),
        }
    }

    /// Returns a browser's credential with these steps, each done the given number of seconds ago.
    fn browser_with(done: &[(AuthenticationMethod, u64)]) -> Credential {
        browser_under(AssuranceLevel::One, done)
    }

    /// Like `browser_with`, if `[factors]` requires the level `required`.
    fn browser_under(required: AssuranceLevel, done: &[(AuthenticationMethod, u64)]) -> Credential {
        let mut steps = AuthenticationSteps::default();
        for (method, ago) in done {
            let at = UnixTime::from_seconds(TIME.seconds() - ago);
            steps.add(AuthenticationStep::new(*method, at));
        }
        let session = SessionId::from_bytes([7; 16]);
        Credential::Browser(SignedIn { user: anna(), session, app_session: None, steps, required }.into())
    }

    /// Returns the credential of a browser that signed in one hour ago.
    fn browser() -> Credential {
        browser_with(&[(Password, 3600)])
    }

    fn bearer(aud: Audience, scope: &str) -> Credential {
        bearer_with(aud, scope, "1")
    }

    fn bearer_with(aud: Audience, scope: &str, acr: &str) -> Credential {
        bearer_under(AssuranceLevel::One, aud, scope, acr)
    }

    /// Like `bearer_with`, if `[factors]` requires the level `required`.
    fn bearer_under(required: AssuranceLevel, aud: Audience, scope: &str, acr: &str) -> Credential {
        let bearer = Bearer {
            claims: AccessTokenClaims {
                iss: "https://id.test".into(),
                sub: anna().sub.to_string(),
                aud,
                exp: TIME,
                nbf: None,
                iat: TIME,
                jti: "j".into(),
                client_id: "c1".into(),
                scope: scope.into(),
                auth_time: Some(TIME),
                acr: acr.into(),
                amr: vec![],
                grant_id: "g".into(),
                groups: None,
            },
            scope: Scope::parse(scope).unwrap(),
            holder: BearerHolder::User(Arc::new(anna())),
            client: ClientId::parse("c1").unwrap(),
            vouched_for: true,
            visible_groups: GroupFilter::default(),
        };
        Credential::Bearer(bearer.into(), required)
    }

    fn ours() -> Audience {
        Audience::One("https://id.test".into())
    }

    fn owned(list: &[&str]) -> Vec<String> {
        list.iter().map(|item| (*item).to_owned()).collect()
    }

    fn app() -> App {
        let text = r#"
            issuer = "https://id.test"
            [server]
            listen = ["127.0.0.1:8443"]
            [hsm]
            module = "m"
            token_label = "t"
            pin_file = "p"
            [store]
            path = "s"
            [[app]]
            name = "wiki"
            host = "wiki.test"
            upstreams = ["http://127.0.0.1:8081"]
            [[app.route]]
            path = "/"
            access = "public"
        "#;
        sealgate_config::Config::parse(text, std::path::Path::new("/nowhere")).unwrap().apps.remove(0)
    }

    fn rule(access: Access, scopes: &[&str], groups: &[&str]) -> Rule {
        Rule { scopes: owned(scopes), groups: owned(groups), ..Rule::plain("/", access) }
    }

    /// Returns the names of the removed and set headers, or the reason of the refusal.
    fn decided(rule: &Rule, credential: &Credential) -> Result<Vec<String>, String> {
        let head = Request::get("/a?b").header("authorization", "Bearer x").body(()).unwrap().into_parts().0;
        let target = head.uri.path_and_query().unwrap();
        let app = app();
        let (issuer, cors) = ("https://id.test", Cors::default());
        let asked = AccessRequest {
            index: 3,
            app: &app,
            identity: Arc::clone(&app.identity).into(),
            issuer,
            resource: None,
            rule,
            is_by_network: false,
            destination: Destination::None,
            below: Subtree::new("GET", None),
            path_and_query: target,
            upstream_target: None,
            cors,
            now: TIME,
            in_progress: false,
            only_reads: true,
        };
        let permit = decide(&asked, credential).map_err(|refused| refused.as_str().to_owned())?;
        assert_eq!(permit.app(), 3);
        let rewrite = permit.rewrite(&head);
        assert_eq!(rewrite.path_and_query.as_str(), "/a?b");
        let removed = rewrite.remove.iter().map(|name| format!("-{name}"));
        Ok(removed.chain(rewrite.set.iter().map(|(name, _)| name.to_string())).collect())
    }

    fn is_identified(headers: &[String]) -> bool {
        headers.iter().any(|name| name == "x-forwarded-user")
    }

    #[test]
    fn public_paths_get_no_identity() {
        for credential in [Credential::Anonymous, bearer(ours(), "openid"), browser()] {
            let headers = decided(&rule(Access::Public, &[], &[]), &credential).unwrap();
            assert!(!is_identified(&headers));
            assert!(!headers.contains(&"-authorization".to_owned()));
        }
    }

    #[test]
    fn a_bearer_path_accepts_only_tokens() {
        let rule = rule(Access::Bearer, &[], &[]);
        let headers = decided(&rule, &bearer(ours(), "openid")).unwrap();
        assert!(is_identified(&headers) && headers.contains(&"-authorization".to_owned()));
        for credential in [Credential::Anonymous, browser()] {
            assert_eq!(decided(&rule, &credential), Err("unauthenticated".into()));
        }
    }

    #[test]
    fn a_signed_in_path_accepts_tokens_and_sessions() {
        let rule = rule(Access::SignedIn, &[], &[]);
        assert!(is_identified(&decided(&rule, &bearer(ours(), "openid")).unwrap()));
        let headers = decided(&rule, &browser()).unwrap();
        assert!(is_identified(&headers) && !headers.contains(&"-authorization".to_owned()));
        assert_eq!(decided(&rule, &Credential::Anonymous), Err("unauthenticated".into()));
    }

    #[test]
    fn a_token_for_another_audience_or_client_is_refused() {
        for access in [Access::Bearer, Access::SignedIn] {
            let rule = rule(access, &[], &[]);
            let other = bearer(Audience::One("https://other.test".into()), "openid");
            assert_eq!(decided(&rule, &other), Err("audience".into()));
            // A token for another resource, with the issuer for UserInfo.
            let both = Audience::Many(vec!["https://other.test".into(), "https://id.test".into()]);
            assert_eq!(decided(&rule, &bearer(both, "openid")), Err("audience".into()));
            let once = Audience::Many(vec!["https://id.test".into()]);
            assert!(decided(&rule, &bearer(once, "openid")).is_ok());
            assert_eq!(decided(&rule, &bearer(Audience::Many(vec![]), "openid")), Err("audience".into()));
        }
    }

    #[test]
    fn only_a_rule_allows_a_body_with_get() {
        let allowed = |allow_get_body| {
            let rule = Rule { allow_get_body, ..rule(Access::Public, &[], &[]) };
            let (app, target) = (app(), PathAndQuery::from_static("/"));
            let (issuer, cors) = ("https://id.test", Cors::default());
            let asked = AccessRequest {
                index: 0,
                app: &app,
                identity: Arc::clone(&app.identity).into(),
                issuer,
                resource: None,
                rule: &rule,
                is_by_network: false,
                destination: Destination::None,
                below: Subtree::new("GET", None),
                path_and_query: &target,
                upstream_target: None,
                cors,
                now: TIME,
                in_progress: false,
                only_reads: true,
            };
            decide(&asked, &Credential::Anonymous).unwrap().allows_get_body()
        };
        assert!(allowed(true) && !allowed(false));
    }

    #[test]
    fn a_token_needs_every_scope() {
        let rule = rule(Access::SignedIn, &["profile", "email"], &[]);
        assert_eq!(decided(&rule, &bearer(ours(), "openid profile")), Err("scope".into()));
        assert!(decided(&rule, &bearer(ours(), "openid email profile")).is_ok());
        assert!(decided(&rule, &browser()).is_ok());
    }

    #[test]
    fn one_group_suffices_and_letter_case_matters() {
        for credential in [bearer(ours(), "openid"), browser()] {
            assert!(decided(&rule(Access::SignedIn, &[], &["admins", "staff"]), &credential).is_ok());
            for groups in [["admins"], ["Staff"], ["staf"]] {
                assert_eq!(decided(&rule(Access::SignedIn, &[], &groups), &credential), Err("group".into()));
            }
        }
    }

    #[test]
    fn users_are_matched_by_sub_or_verified_address() {
        let people = |list: &[&str]| Rule {
            users: list.iter().map(|text| sealgate_config::RuleUser::parse(text).unwrap()).collect(),
            ..rule(Access::SignedIn, &[], &[])
        };
        let sub = anna().sub.to_string();
        for credential in [bearer(ours(), "openid"), browser()] {
            for list in [vec!["ANNA@example.test"], vec!["ben@example.test", &sub]] {
                assert!(decided(&people(&list), &credential).is_ok(), "{list:?}");
            }
            for list in ["ben@example.test", "anna@example.tést", "0191e4a2-0000-4000-8000-000000000000"] {
                assert_eq!(decided(&people(&[list]), &credential), Err("user".into()), "{list}");
            }
        }
        let Credential::Browser(known) = browser() else { unreachable!() };
        let mut unverified = SignedIn::clone(&known);
        unverified.user.email_verified = false;
        let unverified = Credential::Browser(unverified.into());
        assert_eq!(decided(&people(&["anna@example.test"]), &unverified), Err("user".into()));
        assert!(decided(&people(&[&sub]), &unverified).is_ok());
    }

    #[test]
    fn every_condition_must_hold() {
        let mut both = rule(Access::SignedIn, &[], &["staff"]);
        both.users = vec![sealgate_config::RuleUser::parse("ben@example.test").unwrap()];
        assert_eq!(decided(&both, &browser()), Err("user".into()));
    }

    #[test]
    fn old_or_weak_sign_ins_are_refused_by_rules() {
        let aged = |seconds| Rule { max_age: Some(Duration::from_secs(seconds)), ..rule(Access::SignedIn, &[], &[]) };
        assert!(decided(&aged(3600), &browser()).is_ok());
        assert_eq!(decided(&aged(3599), &browser()), Err("max_age".into()));
        // `auth_time` of the token is `TIME`.
        assert!(decided(&aged(0), &bearer(ours(), "openid")).is_ok());
        let strong = |acr: &[&str]| Rule { acr: owned(acr), ..rule(Access::SignedIn, &[], &[]) };
        for credential in [browser(), bearer(ours(), "openid")] {
            assert!(decided(&strong(&["2", "1"]), &credential).is_ok());
            assert_eq!(decided(&strong(&["2"]), &credential), Err("acr".into()));
        }
        // The group is checked before the level. A user without the group would otherwise sign in
        // again without success.
        let neither = Rule { groups: owned(&["admins"]), ..strong(&["2"]) };
        assert_eq!(decided(&neither, &browser()), Err("group".into()));
    }

    #[test]
    fn a_higher_level_satisfies_a_lower_requirement() {
        let strong = |acr: &[&str]| Rule { acr: owned(acr), ..rule(Access::SignedIn, &[], &[]) };
        let two = browser_with(&[(Password, 9), (Totp, 5)]);
        let three = browser_with(&[(Passkey, 5)]);
        for (acr, by_two, by_three) in [
            (&["1"][..], true, true),
            (&["2"], true, true),
            (&["3", "2"], true, true),
            (&["3"], false, true),
            (&["phr"], false, true),
            (&["urn:corp:mfa"], false, false),
            (&["urn:corp:mfa", "2"], true, true),
        ] {
            let rule = strong(acr);
            assert_eq!(decided(&rule, &two).is_ok(), by_two, "{acr:?}");
            assert_eq!(decided(&rule, &three).is_ok(), by_three, "{acr:?}");
            assert_eq!(decided(&rule, &bearer_with(ours(), "openid", "2")).is_ok(), by_two, "{acr:?}");
            assert_eq!(decided(&rule, &bearer_with(ours(), "openid", "3")).is_ok(), by_three, "{acr:?}");
            for unknown in ["", "0", "phrh", "urn:corp:mfa"] {
                assert_eq!(decided(&rule, &bearer_with(ours(), "openid", unknown)), Err("acr".into()), "{unknown}");
            }
        }
    }

    #[test]
    fn an_age_counts_from_the_oldest_step_of_the_level() {
        let rule = |acr: &[&str]| Rule {
            acr: owned(acr),
            max_age: Some(Duration::from_mins(5)),
            ..rule(Access::SignedIn, &[], &[])
        };
        // The password step is old. Adding a second step does not renew it.
        for second in [Totp, RecoveryCode] {
            let stepped_up = browser_with(&[(Password, 301), (second, 5)]);
            assert_eq!(decided(&rule(&[]), &stepped_up), Err("max_age".into()));
            assert_eq!(decided(&rule(&["2"]), &stepped_up), Err("max_age".into()));
        }
        let fresh = browser_with(&[(Password, 300), (Totp, 5)]);
        assert!(decided(&rule(&["2"]), &fresh).is_ok());
        // An old step of a higher level does not make a recent sign-in at a lower level older.
        let old_key = browser_with(&[(SecurityKey, 4000), (Password, 9), (Totp, 5)]);
        assert!(decided(&rule(&["2"]), &old_key).is_ok());
        assert_eq!(decided(&rule(&["3"]), &old_key), Err("max_age".into()));
        assert_eq!(decided(&rule(&["2"]), &browser_with(&[(Password, 5)])), Err("acr".into()));
    }

    #[test]
    fn rules_cannot_lower_the_level_of_the_factors_section() {
        let (two, three) = (AssuranceLevel::Two, AssuranceLevel::PhishingResistant);
        let rule = |acr: &[&str]| Rule { acr: owned(acr), ..rule(Access::SignedIn, &[], &[]) };
        for (required, done, acr, is_enough) in [
            (two, &[(Password, 9)][..], &[][..], false),
            (two, &[(Password, 9)], &["1"], false),
            (two, &[(Password, 9), (Totp, 9)], &[], true),
            (two, &[(Password, 9), (Totp, 9)], &["3"], false),
            (three, &[(Password, 9), (Totp, 9)], &[], false),
            (three, &[(Password, 9), (Totp, 9)], &["2"], false),
            // On the account pages, a recovery code replaces the lost key. In rules it counts as a
            // second factor only.
            (three, &[(Password, 9), (RecoveryCode, 9)], &[], false),
            (two, &[(Password, 9), (RecoveryCode, 9)], &[], true),
            (three, &[(Passkey, 9)], &["2"], true),
        ] {
            let expected = if is_enough { None } else { Some("acr".to_owned()) };
            assert_eq!(decided(&rule(acr), &browser_under(required, done)).err(), expected, "{required} {done:?}");
        }
        // A token has the level of its sign-in. An application password has the level of the
        // sign-in in which it was created.
        let level = |acr| AssuranceLevel::parse(acr).unwrap();
        let program =
            |acr, required| Credential::Program(Arc::new(Program { user: anna(), level: level(acr), required }));
        for (required, acr, is_enough) in [(two, "1", false), (two, "2", true), (three, "2", false), (three, "3", true)]
        {
            let expected = if is_enough { None } else { Some("acr".to_owned()) };
            let token = bearer_under(required, ours(), "openid", acr);
            assert_eq!(decided(&rule(&[]), &token).err(), expected, "{required} {acr}");
            let with_passwords = Rule { app_passwords: true, ..rule(&[]) };
            assert_eq!(decided(&with_passwords, &program(acr, required)).err(), expected, "{required} {acr}");
        }
        let demanded = |level, acr: &[&str]| Refused::Acr(level).demanded(&rule(acr)).into_owned();
        assert_eq!(demanded(three, &["2"]), ["3"]);
        assert_eq!(demanded(two, &[]), ["2"]);
        assert_eq!(demanded(three, &["phr", "urn:corp:mfa"]), ["phr", "urn:corp:mfa"]);
        assert_eq!(demanded(AssuranceLevel::One, &["urn:corp:mfa"]), ["urn:corp:mfa"]);
    }

    #[test]
    fn the_audience_of_the_rule_overrides_the_applications() {
        let own = Rule { audience: Some("https://api.test".into()), ..rule(Access::Bearer, &[], &[]) };
        assert_eq!(decided(&own, &bearer(ours(), "openid")), Err("audience".into()));
        assert!(decided(&own, &bearer(Audience::One("https://api.test".into()), "openid")).is_ok());
    }
}
