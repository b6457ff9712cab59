//! Clients of the issuer. Some are registered. Others are derived from the configuration: one for
//! each protected application, and one for the server's own pages.

use sealgate_config::{App, Config};
use sealgate_domain::client::{
    AuthMethod, Client, ClientDetails, ClientId, ClientState, ClientType, ConsentRule, GrantType,
};
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
    "/console/clients/new",
    "/console/users",
    "/console/users/new",
    "/console/keys",
    "/console/applications",
    "/console/settings",
    "/console/audit",
];

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
    config.apps.iter().find(|app| app.name == name).and_then(|app| of_app(config, app))
}

/// Returns the registered client with this id. Its scope is limited to what the configuration
/// permits.
pub async fn registered(store: &Store, config: &Config, id: &ClientId) -> Result<Option<Client>, StoreError> {
    Ok(store.client(id).await?.map(|client| as_configured(config, client)))
}

/// Limits the scope of a registered client to what the configuration permits.
pub(crate) fn as_configured(config: &Config, client: Client) -> Client {
    if config.tokens.groups_scope {
        return client;
    }
    Client { scope: client.scope.without(ScopeValue::Groups), ..client }
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
fn of_app(config: &Config, app: &App) -> Option<Client> {
    let redirect_uri = RedirectUri::of_application(&format!("{}{CALLBACK}", app.origin(&config.issuer)));
    let id = ClientId::parse(&format!("{INTERNAL_CLIENT}{}", app.name))?;
    let client = first_party(id, app.called().to_owned(), vec![redirect_uri]);
    let after = app.sign_out_uri(&config.issuer).as_deref().map(RedirectUri::of_application);
    Some(Client { post_logout_redirect_uris: after.into_iter().collect(), ..client })
}

fn first_party(id: ClientId, name: String, redirect_uris: Vec<RedirectUri>) -> Client {
    Client {
        id,
        name,
        client_type: ClientType::Public,
        auth_method: AuthMethod::None,
        secrets: Vec::new(),
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
        approval: None,
        disabled: None,
        from_configuration: false,
    }
}
