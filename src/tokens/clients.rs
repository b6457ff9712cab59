//! Clients, whether they are registered or follow from the configuration: one for each protected application, and one for
//! our own pages.

use crate::config::{App, Config};
use crate::domain::client::{
    AuthMethod, Client, ClientDetails, ClientId, ClientState, ClientType, ConsentRule, GrantType,
};
use crate::domain::redirect_uri::RedirectUri;
use crate::domain::scope::ScopeValue;
use crate::domain::time::UnixTime;
use crate::store::{Store, StoreError};

pub(crate) use crate::domain::client::{INTERNAL_CLIENT, OWN_CLIENT};

/// The provider's own pages that people sign in to see: the addresses to which a sign-in may come back.
pub(crate) const OWN_PAGES: &[&str] = &[
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

/// Where a protected application's sign-in comes back to, on its own host.
pub(crate) const CALLBACK: &str = "/.sealgate/callback";

/// The client with this id: a protected application's own, or a registered one.
pub(crate) async fn find(store: &Store, config: &Config, id: &ClientId) -> Result<Option<Client>, StoreError> {
    if may_be_registered(id) { registered(store, config, id).await } else { Ok(configured(config, id)) }
}

/// Whether a client of this id would be a registered one, or follows from the configuration.
pub(crate) fn may_be_registered(id: &ClientId) -> bool {
    !id.as_str().starts_with(INTERNAL_CLIENT)
}

/// The client of this id that follows from the configuration.
pub(crate) fn configured(config: &Config, id: &ClientId) -> Option<Client> {
    let name = id.as_str().strip_prefix(INTERNAL_CLIENT)?;
    if id.as_str() == OWN_CLIENT {
        return of_own_pages(config);
    }
    config.apps.iter().find(|app| app.name == name).and_then(|app| of_app(config, app))
}

/// The client that was registered under this id, with the scope that it may have as this server is configured.
pub(crate) async fn registered(store: &Store, config: &Config, id: &ClientId) -> Result<Option<Client>, StoreError> {
    Ok(store.client(id).await?.map(|client| as_configured(config, client)))
}

/// A registered client with the scope that it may have as this server is configured.
pub(crate) fn as_configured(config: &Config, client: Client) -> Client {
    if config.tokens.groups_scope {
        return client;
    }
    Client { scope: client.scope.without(ScopeValue::Groups), ..client }
}

/// The client of our own pages. It never gets a code: the browser's session is all that they need.
fn of_own_pages(config: &Config) -> Option<Client> {
    let uri = |page: &&str| RedirectUri::of_application(&format!("{}{page}", config.issuer.as_str()));
    let uris = OWN_PAGES.iter().map(uri).collect();
    let client = first_party(ClientId::parse(OWN_CLIENT)?, config.pages.operator.clone(), uris);
    // Without a code there is nothing that PKCE could bind; without a secret it is nobody at the token endpoint.
    Some(Client { client_type: ClientType::Confidential, ..client })
}

/// The client through which people sign in to a protected application: first-party, so nobody is asked for consent, and
/// known to the authorization endpoint only.
fn of_app(config: &Config, app: &App) -> Option<Client> {
    let redirect_uri = RedirectUri::of_application(&format!("{}{CALLBACK}", app.origin(&config.issuer)));
    let id = ClientId::parse(&format!("{INTERNAL_CLIENT}{}", app.name))?;
    Some(first_party(id, app.called().to_owned(), vec![redirect_uri]))
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
    }
}
