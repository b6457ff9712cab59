//! Clients and their secrets, by client ID.

use std::collections::BTreeSet;

use http::StatusCode;
use serde_json::Value;

use super::body::{Field, Kind, field, fixed};
use super::problem::ApiProblem;
use super::{Call, Reply, etag, members, objects};
use sealgate_admin::arguments::{ClientArgument, SecretExpiry, Setting};
use sealgate_admin::client_settings::{ClientSettings, NewClient};
use sealgate_admin::command::{ClientCommand, Command, SecretCommand};
use sealgate_admin::{Answer, CommandError, UserRef};
use sealgate_domain::assertion_source::{ClientJwks, Workload};
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::client::{AuthMethod, Client, ClientType, ConsentRule, GrantType};
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_domain::rate_limit::RateLimit;
use sealgate_domain::scope::Scope;
use sealgate_domain::time::UnixTime;

const MAX_URIS: usize = 100;
const URI: Kind = Kind::Text(2000);

/// Settings of a client, named as in the answers.
pub(super) const SETTINGS: &[Field] = &[
    fixed("client_name", Kind::Text(200), "Client name; users see it on the consent page"),
    fixed("client_type", Kind::Choice(&["public", "confidential"]), "Whether the client can keep a secret"),
    fixed(
        "token_endpoint_auth_method",
        Kind::Choice(&["client_secret_basic", "client_secret_post", "private_key_jwt", "none"]),
        "Client authentication at the token endpoint; unchanged if absent",
    ),
    field("redirect_uris", Kind::Texts(MAX_URIS), "Redirect URIs"),
    field("post_logout_redirect_uris", Kind::Texts(MAX_URIS), "Post-logout redirect URIs"),
    field("scope", Kind::Text(500), "Allowed scopes, separated by spaces"),
    fixed("grant_types", Kind::Choices(&["authorization_code", "refresh_token"]), "Allowed grant types"),
    field("consent", Kind::Choice(&["ask", "implied"]), "`ask` users for consent, or `implied` consent"),
    field("refresh_retry_seconds", Kind::Number(0, 300), "Time for which a refresh can be repeated"),
    field("token_limit", Kind::Limit, "Requests per minute at the token endpoint"),
    field("default_scope", Kind::Text(500), "Scope of authorization requests without a scope"),
    field("description", Kind::Text(1000), "Description in one sentence"),
    field("client_uri", URI, "Home page"),
    field("initiate_login_uri", URI, "URL that starts a sign-in"),
    field("tos_uri", URI, "Terms of use"),
    field("policy_uri", URI, "Privacy policy"),
    field("default_max_age", Kind::Number(0, u32::MAX as u64), "Default max_age in seconds"),
    fixed(
        "id_token_signed_response_alg",
        Kind::Choice(&["RS256", "PS256", "ES256", "EdDSA"]),
        "Algorithm of ID tokens; unchanged if absent",
    ),
    field("level", Kind::Choice(&["1", "2", "3"]), "Required authentication level"),
    fixed("jwks", Kind::Object, "Public keys of the client; unchanged if absent"),
    fixed("jwks_uri", URI, "URL of the client's public keys; unchanged if absent"),
    fixed("workload", Kind::Object, "Issuer and subject of tokens that authenticate the client; unchanged if absent"),
    field("service", Kind::Object, "Access in the client's own name: apps with scopes, and groups"),
    field("visible_groups", Kind::Texts(100), "Groups of users that the client sees"),
    field("introspection", Kind::Flag, "Whether the client may introspect tokens"),
    field("introspection_apps", Kind::Texts(100), "Applications whose access tokens the client may introspect"),
    field("backchannel_logout_uri", URI, "URI that receives logout tokens"),
    field("backchannel_logout_session_required", Kind::Flag, "Whether the client needs sid in logout tokens"),
    field("owner", Kind::Text(300), "Owning developer; unchanged if absent, null for the operator"),
];

pub(super) const OVERLAP: &[Field] = &[field(
    "overlap_seconds",
    Kind::Number(0, 90 * 24 * 60 * 60),
    "Seconds for which the previous secret stays valid; 0 if absent",
)];

pub(super) const SECRET: &[Field] =
    &[field("expires_at", Kind::Number(0, u32::MAX as u64), "Time at which the secret expires; never if absent")];

pub(super) async fn list(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    let after = call.query.some_text("after").map(str::to_owned);
    call.command(Command::Client(ClientCommand::List { after })).await
}

impl Call<'_> {
    /// Executes a command about clients. A client of the configuration file is refused with 409.
    async fn client_command(&self, command: ClientCommand) -> Result<Answer, ApiProblem> {
        let done = sealgate_admin::execute(&self.context(), Command::Client(command)).await;
        done.map_err(|error| match error {
            CommandError::Forbidden(reason) => ApiProblem::new(StatusCode::CONFLICT, "defined_in_file", reason),
            error => self.failed(error),
        })
    }

    async fn shown_client(&self, id: &ClientArgument) -> Result<Value, ApiProblem> {
        Ok(members(&self.client_command(ClientCommand::Show(id.clone())).await?))
    }

    /// Returns the client after checking the conditions of the request, or `None` if there is none. With
    /// `If-Match`, the change fails if the client has changed since this check.
    async fn conditional_client(&self, id: &ClientArgument) -> Result<Option<Client>, ApiProblem> {
        let store = &self.sealgate.store;
        let is_pinned = self.conditions.if_match.is_some();
        let found = if is_pinned { store.pin_client(id).await? } else { store.client(id).await? };
        let tag = match found {
            Some(_) => Some(etag(&self.shown_client(id).await?)),
            None => None,
        };
        self.check(tag.as_deref())?;
        Ok(found)
    }

    async fn existing_client(&self, id: &ClientArgument) -> Result<Client, ApiProblem> {
        let found = self.conditional_client(id).await?;
        found.ok_or_else(|| ApiProblem::not_found(format!("no client has the ID {id}")))
    }

    /// Executes a command about the client in the path.
    async fn on_client(&self, command: impl FnOnce(ClientArgument) -> ClientCommand) -> Result<Reply, ApiProblem> {
        let answer = self.client_command(command(self.client(0)?)).await?;
        Ok(Reply::json(StatusCode::OK, &answer.members()))
    }
}

pub(super) async fn show(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    Ok(Reply::object(&call.shown_client(&call.client(0)?).await?))
}

/// Creates a client, or replaces its settings. The answer to a creation has the secret.
pub(super) async fn put(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    let id = call.client(0)?;
    let settings = read(call, true)?;
    if call.conditional_client(&id).await?.is_some() {
        return change(call, id, settings).await;
    }
    let new = new_client(&id, settings);
    let answer = match call.client_command(ClientCommand::Add(Box::new(new))).await {
        Err(_) if call.conditions.is_new && call.sealgate.store.client(&id).await?.is_some() => {
            return Err(ApiProblem::precondition_failed());
        }
        answer => answer?,
    };
    let etag = etag(&call.shown_client(&id).await?);
    let reply = Reply { etag: Some(etag), ..Reply::object(&members(&answer)) };
    Ok(objects::created(call, reply, &format!("clients/{}", id.path_segment())))
}

/// Changes the given settings of a client. Null removes a setting (RFC 7396).
pub(super) async fn patch(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    let id = call.client(0)?;
    let settings = read(call, false)?;
    call.existing_client(&id).await?;
    change(call, id, settings).await
}

async fn change(call: &Call<'_>, client: ClientArgument, settings: ClientSettings) -> Result<Reply, ApiProblem> {
    let settings = Box::new(settings);
    let answer = call.client_command(ClientCommand::Set { client: client.clone(), settings }).await?;
    let etag = etag(&call.shown_client(&client).await?);
    Ok(Reply { etag: Some(etag), ..Reply::object(&members(&answer)) })
}

/// Returns a new client with these settings. The command checks all of them.
fn new_client(id: &ClientArgument, settings: ClientSettings) -> NewClient {
    let ClientSettings { name, client_type, redirect_uris, auth_method, jwks, jwks_uri, workload, services, .. } =
        settings.clone();
    let rest = ClientSettings {
        name: None,
        client_type: None,
        redirect_uris: None,
        auth_method: None,
        jwks: None,
        jwks_uri: None,
        workload: None,
        services: None,
        ..settings
    };
    NewClient {
        id: id.client.clone(),
        name: name.unwrap_or_default(),
        client_type: client_type.unwrap_or(ClientType::Confidential),
        redirect_uris: redirect_uris.unwrap_or_default(),
        post_logout_redirect_uris: Vec::new(),
        scopes: Vec::new(),
        default_scope: None,
        auth_method,
        jwks,
        jwks_uri,
        workload,
        consent: ConsentRule::Ask,
        refresh_retry_seconds: None,
        token_limit: None,
        id_token_alg: None,
        level: None,
        services: services.unwrap_or_default(),
        service_groups: Vec::new(),
        visible_groups: Vec::new(),
        introspection: false,
        introspection_apps: Vec::new(),
        backchannel_logout_uri: None,
        backchannel_logout_session_required: false,
        settings: Some(Box::new(rest)),
    }
}

pub(super) async fn delete(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    let id = call.client(0)?;
    call.existing_client(&id).await?;
    call.client_command(ClientCommand::Delete(id)).await?;
    Ok(Reply::nothing())
}

pub(super) async fn disable(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    call.on_client(ClientCommand::Disable).await
}

pub(super) async fn enable(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    call.on_client(ClientCommand::Enable).await
}

pub(super) async fn approve(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    call.on_client(ClientCommand::Approve).await
}

pub(super) async fn revoke_approval(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    call.on_client(ClientCommand::RevokeApproval).await
}

pub(super) async fn rotate_secret(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    let overlap_seconds = call.body.number("overlap_seconds").flatten().unwrap_or(0);
    call.on_client(|client| ClientCommand::RotateSecret { client, overlap_seconds }).await
}

pub(super) async fn secrets(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    call.command(Command::Client(ClientCommand::Secret(SecretCommand::List(call.client(0)?)))).await
}

pub(super) async fn add_secret(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    let expires = call.body.number("expires_at").flatten().map(|at| SecretExpiry::At(UnixTime::from_seconds(at)));
    call.on_client(|client| ClientCommand::Secret(SecretCommand::Add { client, expires })).await
}

pub(super) async fn remove_secret(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    let (client, secret) = (call.client(0)?, call.parameter(1).to_owned());
    call.client_command(ClientCommand::Secret(SecretCommand::Remove { client, secret })).await?;
    Ok(Reply::nothing())
}

/// Reads the settings of a request. If `replaces` is true, absent settings get their default.
///
/// # Errors
/// 422 with each invalid value.
#[expect(clippy::too_many_lines, reason = "one statement for each member")]
fn read(call: &Call<'_>, replaces: bool) -> Result<ClientSettings, ApiProblem> {
    let body = &call.body;
    let mut faults = Vec::new();
    // Settings that can be removed. An absent one is removed by a replacement.
    let text = |name| match body.text(name) {
        Some(Some(text)) => Some(Setting::Set(text.to_owned())),
        Some(None) => Some(Setting::Removed),
        None => replaces.then_some(Setting::Removed),
    };
    let number = |name| match body.number(name) {
        Some(Some(number)) => Some(Setting::Set(number)),
        Some(None) => Some(Setting::Removed),
        None => replaces.then_some(Setting::Removed),
    };
    let list = |name| body.texts(name).or_else(|| replaces.then(Vec::new));
    let is_null = |name| body.has(name) && body.value(name).is_none();
    let token_limit = match body.value("token_limit") {
        Some(value) => serde_json::from_value::<RateLimit>(value.clone()).ok().map(Setting::Set),
        None => (replaces || is_null("token_limit")).then_some(Setting::Removed),
    };
    let level = match body.some_text("level").and_then(AssuranceLevel::parse) {
        Some(level) => Some(Setting::Set(level)),
        None => (replaces || is_null("level")).then_some(Setting::Removed),
    };
    let redirect_uris = list("redirect_uris");
    let default_grants = || {
        let has_uris = redirect_uris.as_ref().is_some_and(|uris| !uris.is_empty());
        (replaces && has_uris).then(|| vec![GrantType::AuthorizationCode, GrantType::RefreshToken])
    };
    let grant_types = body.texts("grant_types").map(|names| {
        let of_name = |name: &String| match name.as_str() {
            "refresh_token" => GrantType::RefreshToken,
            _ => GrantType::AuthorizationCode,
        };
        names.iter().map(of_name).collect::<BTreeSet<_>>().into_iter().collect()
    });
    let consent = match body.some_text("consent") {
        Some("implied") => Some(ConsentRule::Implied),
        Some(_) => Some(ConsentRule::Ask),
        None => (replaces || is_null("consent")).then_some(ConsentRule::Ask),
    };
    let scopes = match body.some_text("scope") {
        Some(scope) => Some(vec![scope.to_owned()]),
        None => (replaces || is_null("scope")).then(|| vec![Scope::all().to_string()]),
    };
    let jwks = body.value("jwks").and_then(|keys| {
        ClientJwks::parse(&keys.to_string()).map_err(|fault| faults.push(format!("\"jwks\": {fault}"))).ok()
    });
    let workload = body.value("workload").and_then(|value| {
        let part = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let parsed = Workload::new(&part("issuer"), &part("subject"));
        parsed.map_err(|fault| faults.push(format!("\"workload\": {fault}"))).ok()
    });
    let (services, service_groups) = match body.value("service") {
        Some(service) => {
            let service = service_of(service);
            if service.is_none() {
                faults.push("\"service\" must be {\"apps\": {APP: [SCOPE, …]}, \"groups\": [GROUP, …]}".to_owned());
            }
            service.unzip()
        }
        None if replaces || is_null("service") => (Some(Vec::new()), Some(Vec::new())),
        None => (None, None),
    };
    let owner = match body.text("owner") {
        Some(Some(text)) => {
            let owner = UserRef::parse(text);
            if owner.is_none() {
                faults.push("\"owner\" is not an ID, address or username".to_owned());
            }
            owner.map(Setting::Set)
        }
        Some(None) => Some(Setting::Removed),
        None => None,
    };
    let flag = |name| body.flag(name).map(Option::unwrap_or_default).or_else(|| replaces.then_some(false));
    let settings = ClientSettings {
        // The API has no files.
        logo: None,
        name: body.some_text("client_name").map(str::to_owned),
        client_type: body.some_text("client_type").map(|name| match name {
            "public" => ClientType::Public,
            _ => ClientType::Confidential,
        }),
        post_logout_redirect_uris: list("post_logout_redirect_uris"),
        scopes,
        default_scope: text("default_scope"),
        grant_types: grant_types.or_else(default_grants),
        redirect_uris,
        auth_method: body.some_text("token_endpoint_auth_method").map(auth_method),
        jwks,
        jwks_uri: body.some_text("jwks_uri").map(str::to_owned),
        workload,
        consent,
        description: text("description"),
        client_uri: text("client_uri"),
        initiate_login_uri: text("initiate_login_uri"),
        tos_uri: text("tos_uri"),
        policy_uri: text("policy_uri"),
        default_max_age: number("default_max_age"),
        refresh_retry_seconds: number("refresh_retry_seconds"),
        token_limit,
        id_token_alg: body.some_text("id_token_signed_response_alg").and_then(Algorithm::parse),
        level,
        services,
        service_groups,
        visible_groups: list("visible_groups"),
        introspection: flag("introspection"),
        introspection_apps: list("introspection_apps"),
        backchannel_logout_uri: text("backchannel_logout_uri"),
        backchannel_logout_session_required: flag("backchannel_logout_session_required"),
        owner,
    };
    if faults.is_empty() { Ok(settings) } else { Err(ApiProblem::invalid(faults)) }
}

fn auth_method(name: &str) -> AuthMethod {
    let all =
        [AuthMethod::None, AuthMethod::ClientSecretBasic, AuthMethod::ClientSecretPost, AuthMethod::PrivateKeyJwt];
    // The field has checked the name.
    all.into_iter().find(|method| method.as_str() == name).unwrap_or(AuthMethod::ClientSecretBasic)
}

/// Returns the access of a client in its own name, as the command reads it: `APP=SCOPE SCOPE` for each
/// application, and the groups.
fn service_of(service: &Value) -> Option<(Vec<String>, Vec<String>)> {
    let texts = |list: &Value| -> Option<Vec<String>> {
        list.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
    };
    let known = ["apps", "groups"];
    let service = service.as_object().filter(|service| service.keys().all(|name| known.contains(&name.as_str())))?;
    let groups = service.get("groups").map_or(Some(Vec::new()), texts)?;
    let apps = service.get("apps").and_then(Value::as_object)?.iter().map(|(app, scopes)| {
        // A scope with a space would be read as two.
        let scopes = texts(scopes)?.into_iter().map(|scope| (!scope.contains(' ')).then_some(scope));
        let scopes = scopes.collect::<Option<Vec<_>>>()?;
        (!app.contains('=')).then(|| format!("{app}={}", scopes.join(" ")))
    });
    Some((apps.collect::<Option<_>>()?, groups))
}
