//! Form with a client's settings, and its validation. The rules are the same as at the registration
//! endpoint.

use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_domain::client::{AuthMethod, Client, ClientType, GrantType};
use sealgate_domain::oauth::params::Params;
use sealgate_domain::profile::{MAX_NAME_LENGTH, is_line};
use sealgate_domain::redirect_uri::{RedirectUri, RedirectUriFault};
use sealgate_domain::scope::{Scope, ScopeValue};
use sealgate_pages::console::{ClientFault, ClientField, ClientForm, ConfirmLabel};

/// Maximum number of redirect URIs of each kind, as at the registration endpoint.
const MAX_URIS: usize = 20;
/// Maximum length of a description, in characters.
const MAX_DESCRIPTION_LENGTH: usize = 500;

/// Validated settings of a client.
pub(super) struct ValidForm {
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) client_type: ClientType,
    pub(super) auth_method: AuthMethod,
    pub(super) redirect_uris: Vec<RedirectUri>,
    pub(super) post_logout_redirect_uris: Vec<RedirectUri>,
    pub(super) scope: Scope,
    /// Scope of authorization requests without a `scope` parameter.
    pub(super) default_scope: Option<Scope>,
}

/// Returns the initial form: a confidential client with the scopes `openid`, `profile` and `email`.
pub(super) fn empty() -> ClientForm {
    ClientForm {
        id: String::new(),
        name: String::new(),
        description: String::new(),
        public: false,
        redirect_uris: String::new(),
        post_logout_redirect_uris: String::new(),
        scope: [ScopeValue::OpenId, ScopeValue::Profile, ScopeValue::Email].into_iter().collect(),
        default_scope: String::new(),
        secret_in_body: false,
        faults: Vec::new(),
    }
}

/// Returns the form with a client's present settings.
///
/// The form omits the console's own redirect URI, which the page for test sign-ins adds and removes.
pub(super) fn from_client(client: &Client, own: &str) -> ClientForm {
    let lines = |uris: &[RedirectUri]| {
        uris.iter().map(RedirectUri::as_str).filter(|uri| *uri != own).collect::<Vec<_>>().join("\n")
    };
    ClientForm {
        id: String::new(),
        name: client.name.clone(),
        description: client.details.description.clone().unwrap_or_default(),
        public: client.is_public(),
        redirect_uris: lines(&client.redirect_uris),
        post_logout_redirect_uris: lines(&client.post_logout_redirect_uris),
        scope: client.scope,
        default_scope: client.details.default_scope.map(|scope| scope.to_string()).unwrap_or_default(),
        secret_in_body: client.auth_method == AuthMethod::ClientSecretPost,
        faults: Vec::new(),
    }
}

/// Reads the form as sent.
///
/// `client_type` is the type of an existing client, which cannot change.
pub(super) fn read(form: &Params, client_type: Option<ClientType>) -> Result<ClientForm, Failure> {
    let text = |name| -> Result<String, Failure> { Ok(form.one(name)?.unwrap_or_default().trim().to_owned()) };
    let ticked = Scope::all().values().filter(|value| form.has(&format!("scope_{}", value.as_str())));
    let public = match client_type {
        Some(known) => known == ClientType::Public,
        None => form.one("type")? == Some("public"),
    };
    Ok(ClientForm {
        id: text("client_id")?,
        name: text("name")?,
        description: text("description")?,
        public,
        redirect_uris: text("redirect_uris")?,
        post_logout_redirect_uris: text("post_logout_redirect_uris")?,
        scope: ticked.chain([ScopeValue::OpenId]).collect(),
        default_scope: text("default_scope")?,
        secret_in_body: form.one("auth_method")? == Some("client_secret_post"),
        faults: Vec::new(),
    })
}

/// Validates the form. `may_register` returns whether the user may register a valid URI.
///
/// # Errors
/// Every invalid field, in the form's order.
pub(super) fn check(
    form: &ClientForm,
    may_register: impl Fn(&RedirectUri) -> bool,
) -> Result<ValidForm, Vec<ClientFault>> {
    let mut faults = Vec::new();
    let mut blame = |field, uri| faults.push(ClientFault { field, uri });
    if !is_line(&form.name, MAX_NAME_LENGTH) {
        blame(ClientField::Name, None);
    }
    if !form.description.is_empty() && !is_line(&form.description, MAX_DESCRIPTION_LENGTH) {
        blame(ClientField::Description, None);
    }
    let redirect_uris = uris(&form.redirect_uris, &may_register);
    match &redirect_uris {
        Err(fault) => blame(ClientField::RedirectUris, Some(*fault)),
        Ok(uris) if uris.is_empty() || uris.len() > MAX_URIS => blame(ClientField::RedirectUris, None),
        Ok(_) => {}
    }
    let post_logout_redirect_uris = uris(&form.post_logout_redirect_uris, &may_register);
    match &post_logout_redirect_uris {
        Err(fault) => blame(ClientField::PostLogoutRedirectUris, Some(*fault)),
        Ok(uris) if uris.len() > MAX_URIS => blame(ClientField::PostLogoutRedirectUris, None),
        Ok(_) => {}
    }
    let default_scope = match form.default_scope.as_str() {
        "" => None,
        text => match Scope::parse(text) {
            Ok(scope) if scope.contains(ScopeValue::OpenId) && within(scope, form.scope) => Some(scope),
            _ => {
                blame(ClientField::DefaultScope, None);
                None
            }
        },
    };
    let (Ok(redirect_uris), Ok(post_logout_redirect_uris), []) =
        (redirect_uris, post_logout_redirect_uris, faults.as_slice())
    else {
        return Err(faults);
    };
    let (client_type, auth_method) = match (form.public, form.secret_in_body) {
        (true, _) => (ClientType::Public, AuthMethod::None),
        (false, false) => (ClientType::Confidential, AuthMethod::ClientSecretBasic),
        (false, true) => (ClientType::Confidential, AuthMethod::ClientSecretPost),
    };
    let description = Some(form.description.clone()).filter(|text| !text.is_empty());
    let (name, scope) = (form.name.clone(), form.scope);
    Ok(ValidForm {
        name,
        description,
        client_type,
        auth_method,
        redirect_uris,
        post_logout_redirect_uris,
        scope,
        default_scope,
    })
}

impl ValidForm {
    /// Replaces the client's settings by the settings of the form. Keeps the console's redirect URI
    /// `own`.
    pub(super) fn replace(&self, client: &mut Client, own: &str) {
        let test_uri = client.redirect_uris.iter().find(|uri| uri.as_str() == own).cloned();
        client.name.clone_from(&self.name);
        client.details.description.clone_from(&self.description);
        // The form does not choose between a secret and public keys.
        if !client.uses_assertions() {
            client.auth_method = self.auth_method;
        }
        client.redirect_uris = self.redirect_uris.iter().cloned().chain(test_uri).collect();
        client.post_logout_redirect_uris.clone_from(&self.post_logout_redirect_uris);
        // The form has no box for `groups`: only an operator grants or removes this scope.
        let groups: Scope = [ScopeValue::Groups].into_iter().collect();
        client.scope = self.scope.union(client.scope.intersection(groups));
        client.details.default_scope = self.default_scope;
    }

    /// Returns what the form adds to the client's access: URIs that receive codes or browsers, and
    /// scopes.
    pub(super) fn additions(&self, client: &Client) -> [(ConfirmLabel, Vec<String>); 3] {
        let new = |uris: &[RedirectUri], known: &[RedirectUri]| -> Vec<String> {
            uris.iter().filter(|uri| !known.contains(uri)).map(|uri| uri.as_str().to_owned()).collect()
        };
        let scopes = self.scope.values().filter(|scope| !client.scope.contains(*scope));
        [
            (ConfirmLabel::RedirectUrisAdded, new(&self.redirect_uris, &client.redirect_uris)),
            (
                ConfirmLabel::PostLogoutRedirectUrisAdded,
                new(&self.post_logout_redirect_uris, &client.post_logout_redirect_uris),
            ),
            (ConfirmLabel::ScopesAdded, scopes.map(|scope| scope.as_str().to_owned()).collect()),
        ]
    }

    /// Returns the grant types of clients that are registered in the console.
    pub(super) fn grant_types() -> Vec<GrantType> {
        vec![GrantType::AuthorizationCode, GrantType::RefreshToken]
    }
}

/// Returns whether a default scope contains only ticked scopes. The scope `groups` is always
/// allowed, because the form has no box for it.
fn within(scope: Scope, ticked: Scope) -> bool {
    scope.without(ScopeValue::Groups).is_subset_of(ticked)
}

/// Parses a list with one URI per line. Drops duplicates.
///
/// # Errors
/// The fault of the first invalid URI, and its line number.
fn uris(text: &str, may_register: impl Fn(&RedirectUri) -> bool) -> Result<Vec<RedirectUri>, (RedirectUriFault, u64)> {
    let mut uris = Vec::new();
    for (at, line) in text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty()) {
        let number = u64::try_from(at).unwrap_or(u64::MAX).saturating_add(1);
        let uri = RedirectUri::parse(line).map_err(|fault| (fault, number))?;
        if !may_register(&uri) {
            return Err((RedirectUriFault::OwnHost, number));
        }
        if !uris.contains(&uri) {
            uris.push(uri);
        }
    }
    Ok(uris)
}

/// Returns the console's own redirect URI, which receives the responses to test sign-ins.
pub(super) fn own_redirect_uri(ctx: &RequestContext<'_>) -> String {
    format!("{}/console/callback", ctx.sealgate.config.issuer.as_str())
}
