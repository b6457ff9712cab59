//! Clients of the issuer. Some are registered. Others are derived from the configuration: one for
//! each protected application, and one for the server's own pages.

use sealgate_config::{App, Config, CoveredHost};
use sealgate_domain::client::{
    AuthMethod, Client, ClientDetails, ClientId, ClientState, ClientType, ConsentRule, GrantType,
};
use sealgate_domain::group_filter::GroupFilter;
use sealgate_domain::redirect_uri::RedirectUri;
use sealgate_domain::scope::ScopeValue;
use sealgate_domain::time::UnixTime;
use sealgate_store::{Store, StoreError};

pub use sealgate_domain::client::{INTERNAL_CLIENT, OWN_CLIENT};

/// Pages of the provider that require sign-in, and are therefore permitted as return URLs.
pub const OWN_PAGES: &[&str] = &[
    "/",
    "/account",
    "/account/address",
    "/account/address/new",
    "/account/password",
    "/account/security",
    "/account/security/app",
    "/account/security/key",
    "/account/security/codes",
    "/account/sessions",
    "/account/applications",
    "/account/app-passwords",
    "/account/app-logins",
    "/account/activity",
    "/console",
    "/console/clients",
    "/console/clients/new",
    "/console/users",
    "/console/users/new",
    "/console/users/invite",
    "/console/users/import",
    "/console/groups",
    "/console/keys",
    "/console/mail",
    "/console/mail/templates",
    "/console/apps",
    "/console/new-app",
    "/console/check",
    "/console/settings",
    "/console/audit",
    "/console/api-tokens",
    "/console/registration-tokens",
];

/// Path on the application's own host to which the provider returns after a sign-out, for a page of
/// the application.
pub const SIGNED_OUT: &str = "/.sealgate/signed-out";

/// Separator between the name of an application and a label in a client id. No name contains it.
const LABEL_SEPARATOR: char = '.';

/// Callback path of a protected application's sign-in, on the application's own host.
pub const CALLBACK: &str = "/.sealgate/callback";

/// Returns the client with this id, registered or derived from the configuration.
pub async fn find(store: &Store, config: &Config, id: &ClientId) -> Result<Option<Client>, StoreError> {
    if may_be_registered(id) { registered(store, config, id).await } else { Ok(configured(config, id)) }
}

/// Returns whether a client with this id would be registered rather than derived from the
/// configuration.
pub(crate) fn may_be_registered(id: &ClientId) -> bool {
    !id.as_str().starts_with(INTERNAL_CLIENT)
}

/// Returns the client that is derived from the configuration under this id.
pub fn configured(config: &Config, id: &ClientId) -> Option<Client> {
    let name = id.as_str().strip_prefix(INTERNAL_CLIENT)?;
    if id.as_str() == OWN_CLIENT {
        return of_own_pages(config);
    }
    let (name, label) = name.split_once(LABEL_SEPARATOR).map_or((name, None), |(name, label)| (name, Some(label)));
    let app = config.apps.iter().find(|app| app.name == name)?;
    match label {
        // A host of the issuer or of another application must not receive codes for this one.
        Some(label) => of_app(config, app, Some(&config.covered_host(app, label)?)),
        None if app.is_wildcard() => None,
        None => of_app(config, app, None),
    }
}

/// Returns the id of the client for sign-ins to a protected application.
///
/// `host` is the requested host of a wildcard. Its label is part of the id, so that a code for one
/// host is not valid at another.
pub fn id_of_app(app: &App, host: Option<&CoveredHost>) -> String {
    match host {
        Some(host) => format!("{INTERNAL_CLIENT}{}{LABEL_SEPARATOR}{}", app.name, host.label()),
        None => format!("{INTERNAL_CLIENT}{}", app.name),
    }
}

/// Returns the registered client with this id. Its scope is limited to what the configuration
/// permits.
pub async fn registered(store: &Store, config: &Config, id: &ClientId) -> Result<Option<Client>, StoreError> {
    Ok(store.client(id).await?.and_then(|client| as_configured(config, client)))
}

/// Returns whether the configuration lists the host of the client's metadata document. True for
/// clients without a document.
pub fn is_listed_document(config: &Config, id: &ClientId) -> bool {
    id.document_host().is_none_or(|host| config.registration.document_hosts.iter().any(|listed| listed == host))
}

/// Limits the scope of a registered client to what the configuration permits. Returns `None` if the
/// host of the client's metadata document is not listed any more.
pub(crate) fn as_configured(config: &Config, client: Client) -> Option<Client> {
    if !is_listed_document(config, &client.id) {
        return None;
    }
    if config.tokens.groups_scope {
        return Some(client);
    }
    Some(Client { scope: client.scope.without(ScopeValue::Groups), ..client })
}

/// Returns the client of the server's own pages. It never gets an authorization code, because the
/// pages only need the browser session.
fn of_own_pages(config: &Config) -> Option<Client> {
    let uri = |page: &&str| RedirectUri::of_application(&format!("{}{page}", config.issuer.as_str()));
    let uris = OWN_PAGES.iter().map(uri).collect();
    let client = first_party(ClientId::parse(OWN_CLIENT)?, config.pages.operator.clone(), uris);
    // A public client would need PKCE. This client has no secret, so it cannot authenticate at the
    // token endpoint.
    Some(Client { client_type: ClientType::Confidential, ..client })
}

/// Returns the client for sign-ins to a protected application. It is first-party, so users are not
/// asked for consent. Only the authorization endpoint accepts it.
fn of_app(config: &Config, app: &App, host: Option<&CoveredHost>) -> Option<Client> {
    let origin = app.origin_at(&config.issuer, host);
    let redirect_uri = RedirectUri::of_application(&format!("{origin}{CALLBACK}"));
    let id = ClientId::parse(&id_of_app(app, host))?;
    let client = first_party(id, app.called().to_owned(), vec![redirect_uri]);
    let signed_out = format!("{origin}{SIGNED_OUT}");
    let after = app.sign_out_uris(&config.issuer, host).into_iter().chain([signed_out]);
    let after = after.map(|uri| RedirectUri::of_application(&uri)).collect();
    Some(Client { post_logout_redirect_uris: after, ..client })
}

fn first_party(id: ClientId, name: String, redirect_uris: Vec<RedirectUri>) -> Client {
    Client {
        id,
        name,
        client_type: ClientType::Public,
        auth_method: AuthMethod::None,
        secrets: Vec::new(),
        assertion_source: None,
        redirect_uris,
        post_logout_redirect_uris: Vec::new(),
        scope: [ScopeValue::OpenId, ScopeValue::Profile, ScopeValue::Email].into_iter().collect(),
        grant_types: vec![GrantType::AuthorizationCode],
        consent: ConsentRule::Implied,
        state: ClientState::Enabled,
        created_at: UnixTime::from_seconds(0),
        incarnation: 0,
        details: ClientDetails::default(),
        owner: None,
        registration: None,
        refresh_retry_seconds: None,
        token_limit: None,
        level: None,
        service: None,
        logo: None,
        visible_groups: GroupFilter::default(),
        backchannel_logout: None,
        introspection: None,
        approval: None,
        disabled: None,
        from_configuration: false,
    }
}
