//! The provider's endpoints: the route table and the dispatch of requests.
//!
//! An endpoint is a function of a [`RequestContext`] that returns a response or a [`Failure`].
//! `web::failure` alone decides how a failure is encoded. Rate limits by address are charged here,
//! before the endpoint runs. Limits by client or token are charged by the endpoint with
//! [`RequestContext::charge`], once the client is identified.

mod accesses;
mod account;
mod api;
mod console;
mod links;
mod protocol;
mod request;
mod sign_in;
mod submission;
mod visitor;

use std::fmt::Write as _;
use std::pin::Pin;
use std::time::Instant;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, StatusCode};

use crate::account::{AccountSection, linking};
use crate::console::Area;
use crate::request::ProviderRequest as _;
use sealgate_config::Config;
use sealgate_core::state::Sealgate;
use sealgate_core::web::context::{Body, Recipient, RequestContext};
use sealgate_core::web::cookie;
use sealgate_core::web::cookie::CookieNames;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::limits::Bucket;
use sealgate_core::web::response;
use sealgate_core::web::response::Response;
use sealgate_domain::client::{Client, ClientId};
use sealgate_domain::client_logo::ClientLogo;
use sealgate_domain::error::{ErrorCode, Refusal};
use sealgate_domain::session::SessionCookie;
use sealgate_edge::navigation;
use sealgate_pages::console::{AppSection, ClientSection, UserSection};
use sealgate_pages::{Asset, Problem, language_from_tag};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Endpoint {
    Nothing,
    Discovery,
    Jwks,
    Keys,
    Authorize,
    Resume,
    Login,
    UpstreamCallback,
    UpstreamLogout,
    UpstreamSignedOut,
    UpstreamJwks,
    Passkey,
    Factor,
    Enrol,
    EnrolmentLink,
    ForgotPassword,
    CreateAccount,
    ProveAddress,
    NewAccount,
    Reset,
    Invitation,
    ResetDone,
    Undo,
    Unmet,
    Consent,
    AccountChooser,
    Token,
    UserInfo,
    Revoke,
    Introspect,
    Logout,
    ConfirmLogout,
    SignedOut,
    Register,
    Registration,
    Stylesheet,
    ConsoleStylesheet,
    Script,
    KeysScript,
    ReturnScript,
    Logo,
    Icon,
    ClientLogo,
    Home,
    Account(AccountSection),
    ChangePassword,
    PasskeyEndpoints,
    RelatedOrigins,
    Console(Area),
    Api,
}

impl Endpoint {
    /// Whether a GET changes state: begins or continues a sign-in, or ends a session.
    const fn acts(self) -> bool {
        matches!(self, Self::Authorize | Self::Resume | Self::UpstreamCallback | Self::Logout)
    }

    /// Whether the endpoint requires a signed-in user.
    const fn is_for_signed_in(self) -> bool {
        matches!(self, Self::Home | Self::Account(_) | Self::Console(_))
    }
}

/// Row of the route table.
pub struct ProviderRoute {
    /// Path below the issuer's path. A `*` matches exactly one segment, and `**` at the end any rest.
    path: &'static str,
    endpoint: Endpoint,
    /// Label of the endpoint in metrics.
    name: &'static str,
    methods: &'static [Method],
    /// Audience of the endpoint's error responses.
    recipient: Recipient,
    /// Whether CORS requests are allowed. Credentials never are.
    cors: bool,
    /// Rate limit charged by address before the endpoint runs. `None` if the endpoint itself
    /// charges by client or token, or is a [`file()`].
    charged: Option<Bucket>,
    /// Maximum size of the request body, in bytes.
    body: usize,
}

const GET: &[Method] = &[Method::GET, Method::HEAD];
const POST: &[Method] = &[Method::POST];
const GET_POST: &[Method] = &[Method::GET, Method::HEAD, Method::POST];
const MANAGE: &[Method] = &[Method::GET, Method::HEAD, Method::PUT, Method::DELETE];
const API: &[Method] = &[Method::GET, Method::HEAD, Method::PUT, Method::PATCH, Method::POST, Method::DELETE];
const MAX_FORM_BYTES: usize = 64 * 1024;

/// Maximum size of the form with imported users, in bytes: 500 users with hashes, percent-encoded.
const MAX_IMPORT_BYTES: usize = 256 * 1024;
const MAX_METADATA_BYTES: usize = 8 * 1024;

#[rustfmt::skip]
const ROUTES: &[ProviderRoute] = &[
    json("/.well-known/openid-configuration",       Endpoint::Discovery,    "discovery",    GET,      Some(Bucket::Discovery)),
    json("/.well-known/oauth-authorization-server", Endpoint::Discovery,    "discovery",    GET,      Some(Bucket::Discovery)),
    json("/oauth/jwks",                             Endpoint::Jwks,         "jwks",         GET,      Some(Bucket::Jwks)),
    json("/oauth/upstream/*/jwks.json",             Endpoint::UpstreamJwks, "upstream_jwks", GET,     Some(Bucket::Jwks)),
    json("/.well-known/sealgate/keys",              Endpoint::Keys,         "keys",         GET,      Some(Bucket::Jwks)),
    json("/.well-known/passkey-endpoints",          Endpoint::PasskeyEndpoints, "passkey_endpoints", GET, Some(Bucket::Discovery)),
    json("/.well-known/webauthn",                   Endpoint::RelatedOrigins, "related_origins", GET,  Some(Bucket::Discovery)),
    json("/oauth/token",                            Endpoint::Token,        "token",        POST,     None),
    json("/oauth/userinfo",                         Endpoint::UserInfo,     "userinfo",     GET_POST, None),
    json("/oauth/revoke",                           Endpoint::Revoke,       "revoke",       POST,     None),
    program("/oauth/introspect",                    Endpoint::Introspect,   "introspect"),
    metadata("/oauth/register",                     Endpoint::Register,     "register",     POST),
    metadata("/oauth/register/*",                   Endpoint::Registration, "registration", MANAGE),
    page("/oauth/authorize",                        Endpoint::Authorize,    "authorize",    GET_POST, Bucket::Authorize),
    page("/oauth/resume",                           Endpoint::Resume,       "resume",       GET,      Bucket::Pages),
    page("/oauth/login",                            Endpoint::Login,        "login",        GET_POST, Bucket::Pages),
    page("/oauth/upstream/*/callback",              Endpoint::UpstreamCallback, "upstream_callback", GET, Bucket::Pages),
    program("/oauth/upstream/*/logout",             Endpoint::UpstreamLogout, "upstream_logout"),
    page("/oauth/upstream/*/signed-out",            Endpoint::UpstreamSignedOut, "upstream_signed_out", GET, Bucket::Pages),
    page("/oauth/passkey",                          Endpoint::Passkey,      "passkey",      GET_POST, Bucket::Pages),
    page("/oauth/factor",                           Endpoint::Factor,       "factor",       GET_POST, Bucket::Pages),
    page("/oauth/enrol",                            Endpoint::Enrol,        "enrol",        GET_POST, Bucket::Pages),
    page("/oauth/enrolment",                        Endpoint::EnrolmentLink, "enrolment_link", GET,    Bucket::Pages),
    page("/oauth/forgot-password",                  Endpoint::ForgotPassword, "forgot_password", GET_POST, Bucket::Pages),
    page("/oauth/create-account",                   Endpoint::CreateAccount, "create_account", GET_POST, Bucket::Pages),
    page("/oauth/create-account/code",              Endpoint::ProveAddress, "create_account", GET_POST, Bucket::Pages),
    page("/oauth/create-account/finish",            Endpoint::NewAccount,   "create_account", GET_POST, Bucket::Pages),
    page("/oauth/reset",                            Endpoint::Reset,        "reset",        GET_POST, Bucket::Pages),
    page("/oauth/reset/done",                       Endpoint::ResetDone,    "reset_done",   GET,      Bucket::Pages),
    page("/oauth/undo",                             Endpoint::Undo,         "undo",         GET_POST, Bucket::Pages),
    page("/oauth/invitation",                       Endpoint::Invitation,   "invitation",   GET_POST, Bucket::Pages),
    page("/oauth/unmet",                            Endpoint::Unmet,        "unmet",        GET_POST, Bucket::Pages),
    page("/oauth/consent",                          Endpoint::Consent,      "consent",      GET_POST, Bucket::Pages),
    page("/oauth/select-account",                   Endpoint::AccountChooser, "select_account", GET_POST, Bucket::Pages),
    page("/oauth/logout",                           Endpoint::Logout,       "logout",       GET_POST, Bucket::Logout),
    page("/oauth/logout/confirm",                   Endpoint::ConfirmLogout, "confirm_logout", GET_POST, Bucket::Pages),
    page("/oauth/signed-out",                       Endpoint::SignedOut,    "signed_out",   GET,      Bucket::Pages),
    file("/oauth/style.css",                        Endpoint::Stylesheet,   "stylesheet"),
    file("/oauth/console.css",                      Endpoint::ConsoleStylesheet, "stylesheet"),
    file("/oauth/script.js",                        Endpoint::Script,       "script"),
    file("/oauth/keys.js",                          Endpoint::KeysScript,   "script"),
    file("/oauth/return.js",                        Endpoint::ReturnScript, "script"),
    file("/oauth/logo",                             Endpoint::Logo,         "logo"),
    page("/oauth/icons/*",                          Endpoint::Icon,         "icon",         GET,      Bucket::Pages),
    page("/oauth/client-logos/*",                   Endpoint::ClientLogo,   "client_logo",  GET,      Bucket::Pages),
    page("/",                       Endpoint::Home,                           "home",       GET,      Bucket::Pages),
    page("/account",                Endpoint::Account(AccountSection::Profile),      "account",    GET_POST, Bucket::Pages),
    page("/account/password",       Endpoint::Account(AccountSection::Password),     "account",    GET_POST, Bucket::Pages),
    page("/account/address",        Endpoint::Account(AccountSection::Address),      "account",    GET_POST, Bucket::Pages),
    page("/account/address/new",    Endpoint::Account(AccountSection::NewAddress),   "account",    GET_POST, Bucket::Pages),
    page("/.well-known/change-password", Endpoint::ChangePassword,            "change_password", GET, Bucket::Pages),
    page("/account/security",       Endpoint::Account(AccountSection::Security),     "account",    GET,      Bucket::Pages),
    page("/account/security/app",   Endpoint::Account(AccountSection::AddApp),       "account",    GET_POST, Bucket::Pages),
    page("/account/security/key",   Endpoint::Account(AccountSection::AddKey),       "account",    GET_POST, Bucket::Pages),
    page("/account/security/factor", Endpoint::Account(AccountSection::Factor),      "account",    GET_POST, Bucket::Pages),
    page("/account/security/codes", Endpoint::Account(AccountSection::RecoveryCodes), "account",   GET_POST, Bucket::Pages),
    page("/account/security/link",  Endpoint::Account(AccountSection::Link),         "account",    GET_POST, Bucket::Pages),
    page("/account/security/link/confirm", Endpoint::Account(AccountSection::ConfirmLink), "account", GET_POST, Bucket::Pages),
    page("/account/security/unlink", Endpoint::Account(AccountSection::Unlink),      "account",    GET_POST, Bucket::Pages),
    page("/account/sessions",       Endpoint::Account(AccountSection::Sessions),     "account",    GET_POST, Bucket::Pages),
    page("/account/applications",   Endpoint::Account(AccountSection::Applications), "account",    GET_POST, Bucket::Pages),
    page("/account/app-passwords",  Endpoint::Account(AccountSection::AppPasswords), "account",    GET_POST, Bucket::Pages),
    page("/account/app-logins",     Endpoint::Account(AccountSection::AppLogins),    "account",    GET_POST, Bucket::Pages),
    page("/account/activity",       Endpoint::Account(AccountSection::Activity),     "account",    GET,      Bucket::Pages),
    page("/console",                Endpoint::Console(Area::Overview),        "console",    GET,      Bucket::Pages),
    page("/console/clients",        Endpoint::Console(Area::Clients),         "console",    GET,      Bucket::Pages),
    page("/console/clients/new",    Endpoint::Console(Area::NewClient),       "console",    GET_POST, Bucket::Pages),
    page("/console/clients/*",      Endpoint::Console(Area::Client),          "console",    GET_POST, Bucket::Pages),
    page("/console/clients/*/connect", Endpoint::Console(Area::ClientSection(ClientSection::Connect)), "console", GET, Bucket::Pages),
    page("/console/clients/*/secrets", Endpoint::Console(Area::ClientSection(ClientSection::Secrets)), "console", GET, Bucket::Pages),
    page("/console/clients/*/logo", Endpoint::Console(Area::ClientSection(ClientSection::Logo)), "console", GET_POST, Bucket::Pages),
    page("/console/clients/*/rules", Endpoint::Console(Area::ClientSection(ClientSection::Rules)), "console", GET, Bucket::Pages),
    page("/console/clients/*/grants", Endpoint::Console(Area::ClientSection(ClientSection::Grants)), "console", GET, Bucket::Pages),
    page("/console/clients/*/danger", Endpoint::Console(Area::ClientSection(ClientSection::Danger)), "console", GET, Bucket::Pages),
    page("/console/try/*",          Endpoint::Console(Area::ClientTest),         "console",    GET_POST, Bucket::Pages),
    page("/console/callback",       Endpoint::Console(Area::ClientTestCallback), "console",    GET,      Bucket::Pages),
    page("/console/users",          Endpoint::Console(Area::Users),           "console",    GET,      Bucket::Pages),
    page("/console/users/new",      Endpoint::Console(Area::NewUser),         "console",    GET_POST, Bucket::Pages),
    page("/console/users/invite",   Endpoint::Console(Area::Invite),          "console",    GET_POST, Bucket::Pages),
    ProviderRoute { body: MAX_IMPORT_BYTES, ..page("/console/users/import", Endpoint::Console(Area::Import), "console", GET_POST, Bucket::Pages) },
    page("/console/users/export",   Endpoint::Console(Area::UsersExport),     "console",    GET,      Bucket::Pages),
    page("/console/users/bulk",     Endpoint::Console(Area::Bulk),            "console",    GET_POST, Bucket::Pages),
    page("/console/groups",         Endpoint::Console(Area::Groups),          "console",    GET,      Bucket::Pages),
    page("/console/groups/members", Endpoint::Console(Area::Group),           "console",    GET_POST, Bucket::Pages),
    page("/console/users/*",        Endpoint::Console(Area::User),            "console",    GET_POST, Bucket::Pages),
    page("/console/users/*/sessions", Endpoint::Console(Area::UserSection(UserSection::Sessions)), "console", GET, Bucket::Pages),
    page("/console/users/*/applications", Endpoint::Console(Area::UserSection(UserSection::Applications)), "console", GET, Bucket::Pages),
    page("/console/users/*/security", Endpoint::Console(Area::UserSection(UserSection::Security)), "console", GET, Bucket::Pages),
    page("/console/users/*/danger", Endpoint::Console(Area::UserSection(UserSection::Danger)), "console", GET, Bucket::Pages),
    page("/console/keys",           Endpoint::Console(Area::Keys),            "console",    GET_POST, Bucket::Pages),
    page("/console/mail",           Endpoint::Console(Area::Mail),            "console",    GET_POST, Bucket::Pages),
    page("/console/mail/templates", Endpoint::Console(Area::MailTemplates),   "console",    GET,      Bucket::Pages),
    page("/console/apps",           Endpoint::Console(Area::Apps),            "console",    GET,      Bucket::Pages),
    page("/console/apps/*",         Endpoint::Console(Area::App(AppSection::Access)), "console", GET, Bucket::Pages),
    page("/console/apps/*/sessions", Endpoint::Console(Area::App(AppSection::Sessions)), "console", GET_POST, Bucket::Pages),
    page("/console/apps/*/refusals", Endpoint::Console(Area::App(AppSection::Refusals)), "console", GET, Bucket::Pages),
    page("/console/apps/*/edit",    Endpoint::Console(Area::EditApp),         "console",    GET_POST, Bucket::Pages),
    page("/console/apps/*/rule",    Endpoint::Console(Area::EditRule),        "console",    GET,      Bucket::Pages),
    page("/console/new-app",        Endpoint::Console(Area::NewApp),          "console",    GET_POST, Bucket::Pages),
    page("/console/check",          Endpoint::Console(Area::CheckAccess),     "console",    GET_POST, Bucket::Pages),
    page("/console/api-tokens",     Endpoint::Console(Area::ApiTokens),       "console",    GET_POST, Bucket::Pages),
    page("/console/registration-tokens", Endpoint::Console(Area::RegistrationTokens), "console", GET_POST, Bucket::Pages),
    page("/console/settings",       Endpoint::Console(Area::Settings),        "console",    GET_POST, Bucket::Pages),
    page("/console/audit",          Endpoint::Console(Area::Audit),           "console",    GET_POST, Bucket::Pages),
    page("/console/audit/export",   Endpoint::Console(Area::AuditExport),     "console",    GET,      Bucket::Pages),
    ProviderRoute { cors: false, charged: None, body: api::MAX_BODY_BYTES, ..json("/api/v1/**", Endpoint::Api, "api", API, None) },
];

const fn json(
    path: &'static str,
    endpoint: Endpoint,
    name: &'static str,
    methods: &'static [Method],
    charged: Option<Bucket>,
) -> ProviderRoute {
    ProviderRoute {
        path,
        endpoint,
        name,
        methods,
        recipient: Recipient::Programs,
        cors: true,
        charged,
        body: MAX_FORM_BYTES,
    }
}

/// Builds a route for a server that sends a form. Scripts of browsers have no use for it.
const fn program(path: &'static str, endpoint: Endpoint, name: &'static str) -> ProviderRoute {
    ProviderRoute { cors: false, ..json(path, endpoint, name, POST, None) }
}

/// Builds a route for client metadata. The limit of its body is smaller, because the server stores
/// the metadata.
const fn metadata(
    path: &'static str,
    endpoint: Endpoint,
    name: &'static str,
    methods: &'static [Method],
) -> ProviderRoute {
    ProviderRoute { body: MAX_METADATA_BYTES, ..json(path, endpoint, name, methods, Some(Bucket::Register)) }
}

/// A file in memory, the same for every user. No limit counts it: a refusal would cost as much, and an office
/// behind one address requests the files of many first visits at the same time.
const fn file(path: &'static str, endpoint: Endpoint, name: &'static str) -> ProviderRoute {
    ProviderRoute { charged: None, ..page(path, endpoint, name, GET, Bucket::Pages) }
}

const fn page(
    path: &'static str,
    endpoint: Endpoint,
    name: &'static str,
    methods: &'static [Method],
    bucket: Bucket,
) -> ProviderRoute {
    ProviderRoute {
        path,
        endpoint,
        name,
        methods,
        recipient: Recipient::Users,
        cors: false,
        charged: Some(bucket),
        body: MAX_FORM_BYTES,
    }
}

impl ProviderRoute {
    /// Returns the maximum size of the body of a request, in bytes.
    ///
    /// A body is read before the endpoint checks the sign-in. A body above the size of other forms is read
    /// only if the browser has a session, so that strangers cannot use more memory.
    pub async fn body_limit(&self, sealgate: &Sealgate, head: &Parts) -> usize {
        if self.body <= MAX_FORM_BYTES {
            return self.body;
        }
        let session = context(sealgate, head, Body::Unread, self.recipient).session().await;
        if matches!(session, Ok(Some(_))) { self.body } else { MAX_FORM_BYTES }
    }

    /// Returns whether the endpoint is a public document that is the same for every user.
    ///
    /// These are:
    ///
    /// - discovery, keys and related origins, which name the configured issuer regardless of the
    ///   `Host` header;
    /// - the stylesheet and the logo, which the page for an unknown host needs.
    pub fn is_public_document(&self) -> bool {
        let documents = [Endpoint::Discovery, Endpoint::Jwks, Endpoint::RelatedOrigins];
        documents.contains(&self.endpoint) || [Endpoint::Stylesheet, Endpoint::Logo].contains(&self.endpoint)
    }

    /// Returns the route of a path below the issuer's path.
    ///
    /// Paths are compared byte for byte. If a path had a second spelling, access rules could miss
    /// it.
    fn find(config: &Config, path: &str) -> Option<&'static Self> {
        let fits = |route: &&Self| match route.path.split_once('*') {
            Some((before, "*")) => path.starts_with(before),
            Some((before, after)) => {
                let segment = path.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
                segment.is_some_and(|segment| !segment.is_empty() && !segment.contains('/'))
            }
            None => route.path == path,
        };
        // If the console is disabled, its paths are not routed; an application that shares the host
        // may use them.
        ROUTES.iter().find(fits).filter(|route| route.exists(config))
    }

    fn exists(&self, config: &Config) -> bool {
        match self.endpoint {
            Endpoint::Console(Area::ApiTokens) => config.console.enabled && config.api.enabled,
            Endpoint::Console(_) => config.console.enabled,
            Endpoint::Api => config.api.enabled,
            Endpoint::Home => visitor::has_home(config),
            Endpoint::RelatedOrigins => config.factors.rp_id.is_some(),
            Endpoint::UpstreamCallback
            | Endpoint::UpstreamJwks
            | Endpoint::UpstreamLogout
            | Endpoint::UpstreamSignedOut => !config.upstreams.is_empty(),
            _ => true,
        }
    }
}

const ENDPOINTS_HEAD: &str = "\
# Endpoints

Every path of the provider on the issuer's host, below the issuer's path; `*` is one segment. This page is generated from the program
(`sealgate documents`), and a test compares the two. Paths on an application's host are in
[Sign-in redirects and cookies](sign-in-redirects.md#sealgates-paths-on-the-applications-host), those for monitoring in
[Monitor the service](../how-to/monitoring.md#health-and-metrics). [Protocol rules](../explanation/protocol.md) describes requests and responses.

- **JSON** endpoints are for programs and allow CORS requests without credentials. **Pages** are for browsers.
- A request with another method is answered 405 with `Allow`. A request with a body above the maximum is answered 413.
- `/oauth/introspect` exists only while a client may introspect tokens.
- The paths of the console exist only with `console.enabled`.
- `/api/v1/**` exists only with `api.enabled`; `**` is any rest of the path. Its errors are problem details: see
  [Admin API](admin-api.md).
- `/oauth/upstream/*/…` exist only with `[[upstream]]`; `*` is its name. `jwks.json` has the public key of its `client_key`.
- `/.well-known/webauthn` exists only with `factors.rp_id`. It is served at the root of every host that is not an application's.

| path | methods | errors as | maximum body |
|---|---|---|---|
";

/// Returns the reference page of all endpoints in Markdown: `docs/reference/endpoints.md`.
pub fn endpoints_page() -> String {
    let mut page = String::from(ENDPOINTS_HEAD);
    for ProviderRoute { path, methods, recipient, body, .. } in ROUTES {
        let methods: Vec<_> = methods.iter().map(Method::as_str).collect();
        let errors = if *recipient == Recipient::Users { "page" } else { "JSON" };
        // Writing to a String cannot fail.
        let _ = writeln!(page, "| `{path}` | {} | {errors} | {} KiB |", methods.join(", "), body / 1024);
    }
    page
}

/// Returns the reference page of the admin API in Markdown: `docs/reference/admin-api.md`.
pub fn api_page() -> String {
    api::reference_page()
}

/// Returns the path relative to the issuer's path, or `None` if the path is outside the issuer's
/// path.
fn below_issuer<'a>(config: &Config, path: &'a str) -> Option<&'a str> {
    path.strip_prefix(config.issuer.path_prefix()).or_else(|| {
        // RFC 8414 §3.1 puts the well-known path before the issuer's path.
        let metadata = "/.well-known/oauth-authorization-server";
        let related_origins = "/.well-known/webauthn";
        match path {
            // Browsers request the related origins at the root of the RP ID's host.
            _ if path == related_origins => Some(path),
            _ => (path.strip_prefix(metadata)? == config.issuer.path_prefix()).then_some(metadata),
        }
    })
}

/// Route of unknown paths. It accepts a body, so that the client gets 404 and not 413.
static NOTHING: ProviderRoute = ProviderRoute {
    path: "",
    endpoint: Endpoint::Nothing,
    name: "other",
    methods: &[],
    recipient: Recipient::Programs,
    cors: false,
    charged: None,
    body: MAX_FORM_BYTES,
};

/// Returns the route of a path.
pub fn route(config: &Config, path: &str) -> &'static ProviderRoute {
    below_issuer(config, path).and_then(|path| ProviderRoute::find(config, path)).unwrap_or(&NOTHING)
}

/// Returns whether a path on the issuer's host belongs to the provider. All other paths belong to
/// the application that shares the host, if there is one.
pub fn owns(config: &Config, path: &str) -> bool {
    below_issuer(config, path).is_some_and(|path| {
        ProviderRoute::find(config, path).is_some()
            || ["/oauth/", "/.well-known/sealgate/"].iter().any(|prefix| path.starts_with(prefix))
    })
}

/// Returns whether the provider has a path in or below a directory of the issuer's host.
/// `directory` ends with a slash.
pub fn is_below(config: &Config, directory: &str) -> bool {
    let prefix = config.issuer.path_prefix();
    ROUTES.iter().filter(|route| route.exists(config)).any(|route| match directory.strip_prefix(prefix) {
        Some(below) => {
            let holds_all = route.path.strip_suffix("**").is_some_and(|prefix| below.starts_with(prefix));
            holds_all || route.path.starts_with(below)
        }
        None => prefix.starts_with(directory),
    })
}

/// Returns the error response to a request whose body is too long (413) or arrived too slowly.
pub fn refuse(sealgate: &Sealgate, head: &Parts, status: StatusCode, refusal: Refusal) -> Response {
    if route(&sealgate.config, head.uri.path()).endpoint == Endpoint::Api {
        let ctx = context(sealgate, head, Body::Away, Recipient::Programs);
        return ctx.charge_page().map_or_else(|exceeded| api::refuse_rate(exceeded.0), |()| api::refuse_body(status));
    }
    refused(sealgate, head, |_| Failure::json(status, refusal))
}

/// Returns the error response to a request for an unknown host (421): a page for browsers, JSON for
/// programs.
pub fn misdirected(sealgate: &Sealgate, head: &Parts) -> Response {
    refused(sealgate, head, |ctx| {
        if ctx.reads_pages() {
            return Failure::Page(StatusCode::MISDIRECTED_REQUEST, Problem::UnknownHost);
        }
        let refusal = Refusal::invalid_request("There is no application at this address.");
        Failure::json(StatusCode::MISDIRECTED_REQUEST, refusal)
    })
}

fn refused(sealgate: &Sealgate, head: &Parts, failure: impl FnOnce(&RequestContext<'_>) -> Failure) -> Response {
    let ctx = context(sealgate, head, Body::Away, Recipient::Sender);
    let failure = ctx.charge_page().map_or_else(Failure::from, |()| failure(&ctx));
    failure.into_response(&ctx).with_reading(ctx.reading().as_ref())
}

fn context<'a>(sealgate: &'a Sealgate, head: &'a Parts, body: Body, recipient: Recipient) -> RequestContext<'a> {
    let mut ctx = RequestContext::new(sealgate, head, body, recipient, &request::PAGES);
    ctx.switched = ctx.query().ok().and_then(|query| query.one("lang").ok()?.and_then(language_from_tag));
    ctx
}

/// Handles a request. `route` is the route of its path.
pub async fn dispatch(sealgate: &Sealgate, route: &ProviderRoute, head: &Parts, body: Bytes) -> http::Response<Bytes> {
    let started = Instant::now();
    // An answer for a link belongs to the signed-in user. Other answers begin a session.
    let is_link = route.endpoint == Endpoint::UpstreamCallback && linking::is_answer(head);
    // This store handle writes only while the page's user is signed in.
    let own = (is_link || route.endpoint.is_for_signed_in())
        .then(|| Box::new(sealgate.for_page(session_cookie(sealgate, head).as_ref())));
    let mut ctx = context(own.as_deref().unwrap_or(sealgate), head, Body::Read(body), route.recipient);
    // For an unknown path, a browser gets a page, because the user may have mistyped the address.
    if route.endpoint == Endpoint::Nothing && ctx.reads_pages() {
        ctx.recipient = Recipient::Users;
    }
    let mut response = serve(&ctx, route).await.unwrap_or_else(|failure| failure.into_response(&ctx));
    if route.cors {
        response = response.for_every_origin();
    }
    if ctx.recipient == Recipient::Users
        && let Some(choice) = ctx.chosen_language()
    {
        response = response.with_cookie(choice);
    }
    sealgate.metrics.answered(route.name, response.status().as_u16(), started.elapsed().as_secs_f64());
    response.with_reading(ctx.reading().as_ref()).finish()
}

fn session_cookie(sealgate: &Sealgate, head: &Parts) -> Option<SessionCookie> {
    let name = CookieNames::for_issuer(&sealgate.config.issuer).session;
    cookie::find(&head.headers, name).and_then(SessionCookie::parse)
}

async fn serve(ctx: &RequestContext<'_>, route: &ProviderRoute) -> Result<Response, Failure> {
    if route.endpoint == Endpoint::Api {
        return Ok(Box::pin(api::respond(ctx)).await);
    }
    if route.endpoint == Endpoint::Nothing {
        ctx.charge_page()?;
        return Err(if ctx.answers_with_pages() {
            NO_PAGE
        } else {
            Failure::json(
                StatusCode::NOT_FOUND,
                Refusal::new(ErrorCode::NotFound, "There is no resource at this path."),
            )
        });
    }
    if route.cors && ctx.head.method == Method::OPTIONS {
        ctx.charge_page()?;
        return Ok(Response::preflight(route.methods));
    }
    if !route.methods.contains(&ctx.head.method) {
        ctx.charge_page()?;
        return Err(Failure::Method(route.methods));
    }
    // Refuse a prefetch. The browser discards a prefetched response with status 403, and repeats
    // the request when the user opens the link.
    if route.endpoint.acts() && navigation::is_preload(ctx.head) {
        ctx.charge_page()?;
        return Err(Failure::json(StatusCode::FORBIDDEN, navigation::PRELOAD_REFUSAL));
    }
    // The HTTP server has read the body, and may have applied a higher limit.
    if ctx.body().len() > route.body {
        ctx.charge_page()?;
        let refusal = Refusal::invalid_request("The request's body is too long.");
        return Err(Failure::json(StatusCode::PAYLOAD_TOO_LARGE, refusal));
    }
    if let Some(bucket) = route.charged {
        let bucket = if bucket == Bucket::Authorize { protocol::authorize::bucket(ctx) } else { bucket };
        ctx.charge_address(bucket).await?;
    }
    match route.endpoint {
        Endpoint::Nothing | Endpoint::Api => Err(NO_PAGE),
        Endpoint::Discovery => protocol::discovery::discovery_endpoint(ctx).await,
        Endpoint::Jwks => protocol::discovery::jwks_endpoint(ctx).await,
        Endpoint::Keys => protocol::discovery::keys_endpoint(ctx).await,
        Endpoint::UpstreamJwks => protocol::discovery::upstream_jwks_endpoint(ctx).await,
        Endpoint::Authorize => protocol::authorize::authorization_endpoint(ctx).await,
        Endpoint::Resume => protocol::authorize::resume(ctx).await,
        Endpoint::Login => boxed(|| sign_in::login::login_page(ctx)).await,
        Endpoint::UpstreamCallback if linking::is_answer(ctx.head) => boxed(|| linking::callback(ctx)).await,
        Endpoint::UpstreamCallback => boxed(|| sign_in::upstream::callback(ctx)).await,
        Endpoint::UpstreamLogout => boxed(|| protocol::upstream_logout::backchannel(ctx)).await,
        Endpoint::UpstreamSignedOut => protocol::upstream_logout::returned(ctx).await,
        // Large futures are boxed. Otherwise the future of every request would be as large as the
        // largest of these.
        Endpoint::Passkey => boxed(|| sign_in::passkey::passkey_page(ctx)).await,
        Endpoint::Factor => boxed(|| sign_in::factor::factor_page(ctx)).await,
        Endpoint::Enrol => boxed(|| sign_in::enrol::enrol_page(ctx)).await,
        Endpoint::EnrolmentLink => sign_in::enrol::link(ctx).await,
        Endpoint::ForgotPassword => links::reset::forgot_password_page(ctx).await,
        Endpoint::CreateAccount => boxed(|| links::create_account::create_account_page(ctx)).await,
        Endpoint::ProveAddress => boxed(|| links::create_account::code(ctx)).await,
        Endpoint::NewAccount => boxed(|| links::new_account::new_account_page(ctx)).await,
        Endpoint::Reset => boxed(|| links::reset::reset_page(ctx)).await,
        Endpoint::Invitation => boxed(|| links::invitation::invitation_page(ctx)).await,
        Endpoint::ResetDone => Ok(links::reset::done(ctx)),
        Endpoint::Undo => boxed(|| links::undo::undo_page(ctx)).await,
        Endpoint::Unmet => sign_in::unmet::unmet_page(ctx).await,
        Endpoint::Consent => sign_in::consent::consent_page(ctx).await,
        Endpoint::AccountChooser => sign_in::account_chooser::account_chooser_page(ctx).await,
        Endpoint::Token => protocol::token::token_endpoint(ctx).await,
        Endpoint::UserInfo => protocol::userinfo::userinfo_endpoint(ctx).await,
        Endpoint::Revoke => protocol::revoke::revocation_endpoint(ctx).await,
        Endpoint::Introspect => protocol::introspect::introspection_endpoint(ctx).await,
        Endpoint::Logout => protocol::logout::end_session_endpoint(ctx).await,
        Endpoint::ConfirmLogout => protocol::logout::confirm(ctx).await,
        Endpoint::SignedOut => protocol::logout::signed_out(ctx),
        Endpoint::Register => protocol::register::registration_endpoint(ctx).await,
        Endpoint::Registration => protocol::register::manage(ctx).await,
        Endpoint::Stylesheet => Ok(response::stylesheet(&ctx.sealgate.pages)),
        Endpoint::ConsoleStylesheet => Ok(response::console_stylesheet(&ctx.sealgate.pages)),
        Endpoint::Script => Ok(response::script(&ctx.sealgate.pages)),
        Endpoint::KeysScript => Ok(response::keys_script(&ctx.sealgate.pages)),
        Endpoint::ReturnScript => Ok(response::return_script(&ctx.sealgate.pages)),
        Endpoint::Logo => response::logo(&ctx.sealgate.pages).ok_or(NO_PAGE),
        Endpoint::Icon => icon(ctx).ok_or(NO_PAGE),
        Endpoint::ClientLogo => boxed(|| client_logo(ctx)).await,
        Endpoint::Home => account::home_page(ctx).await,
        Endpoint::Account(section) => boxed(|| account::account_page(ctx, section)).await,
        Endpoint::ChangePassword => Ok(account::change_password(ctx)),
        Endpoint::PasskeyEndpoints => Ok(account::passkey_endpoints(ctx)),
        Endpoint::RelatedOrigins => Ok(account::related_origins(ctx)),
        Endpoint::Console(area) => boxed(|| console::console_page(ctx, area)).await,
    }
}

/// Boxes a large future. In a build without optimization, its caller's frame has no room for it this way.
fn boxed<'f, F: Future + Send + 'f>(
    future: impl FnOnce() -> F,
) -> Pin<Box<dyn Future<Output = F::Output> + Send + 'f>> {
    Box::pin(future())
}

const NO_PAGE: Failure = Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound);

/// Returns the logo of a client by its id and version. Without the version, the response does not reveal
/// which clients exist.
async fn client_logo(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let id = ClientId::from_path_segment(ctx.head.uri.path().rsplit('/').next().unwrap_or_default());
    let client = match id {
        Some(id) => ctx.sealgate.store.client(&id).await?,
        None => None,
    };
    let query = ctx.query()?;
    let version = query.one("v")?;
    let is_wanted = |client: &Client| client.logo.as_ref().map(ClientLogo::version).as_deref() == version;
    let Some(client) = client.filter(|client| client.logo.is_some() && is_wanted(client)) else { return Err(NO_PAGE) };
    let picture = ctx.sealgate.store.client_logo(&client).await?.ok_or(NO_PAGE)?;
    Ok(response::picture(&Asset::client_logo(picture)))
}

/// Returns the icon of an application by its name.
fn icon(ctx: &RequestContext<'_>) -> Option<Response> {
    let name = ctx.head.uri.path().rsplit('/').next().unwrap_or_default();
    let icon = ctx.sealgate.config.apps.iter().find(|app| app.name == name)?.icon.as_ref()?;
    Some(response::picture(&Asset::logo(icon)))
}
