//! `/oauth/register` (RFC 7591) and `/oauth/register/{client_id}` (RFC 7592).
//!
//! The operator decides who may register a client: no one, holders of an initial access token, or
//! everyone. URLs in a registration are never fetched.

use http::{Method, StatusCode};

use crate::request::ProviderRequest as _;
use sealgate_config::RegistrationMode;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::limits::Bucket;
use sealgate_core::web::response::Response;
use sealgate_domain::audit::{Actor, AuditKind};
use sealgate_domain::client::{
    Client, ClientDetails, ClientId, ClientSecret, ClientState, ClientType, ConsentRule, SelfRegistration,
};
use sealgate_domain::error::{ErrorCode, Refusal};
use sealgate_domain::group_filter::GroupFilter;
use sealgate_domain::oauth::registration::{
    ClientMetadata, Issued, UNSUPPORTED_ALGORITHM, client_information, members,
};
use sealgate_domain::registration_token::RegistrationToken;
use sealgate_domain::secret::{Secret, SecretHash};
use sealgate_store::{PresentedInitialToken, Registered, UserRule};

const WRONG_TOKEN: Refusal = Refusal::new(ErrorCode::InvalidToken, "The registration token is invalid.");

/// Members of registration responses that an update must not contain (RFC 7592 §2.2).
const SERVER_MEMBERS: [&str; 4] =
    ["registration_access_token", "registration_client_uri", "client_secret_expires_at", "client_id_issued_at"];

/// Parses the metadata of a client, and checks that the server has keys for its algorithm.
fn metadata(ctx: &RequestContext<'_>, body: &[u8]) -> Result<ClientMetadata, Failure> {
    let metadata = ClientMetadata::parse(body, &*ctx.sealgate.config)?;
    if !ctx.sealgate.config.keys.algorithms.contains(&metadata.details.id_token_alg()) {
        return Err(UNSUPPORTED_ALGORITHM.into());
    }
    Ok(metadata)
}

pub(crate) async fn registration_endpoint(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    ctx.charge_site(Bucket::Register).await?;
    let initial_token = authorize(ctx).await?;
    let metadata = metadata(ctx, json(ctx)?)?;
    refuse_own_hosts(ctx, &metadata, None)?;
    let secret = (metadata.client_type() == ClientType::Confidential).then(|| Secret::from_random(&ctx.random::<32>()));
    let access_token = Secret::from_random(&ctx.random::<32>());
    let id = ClientId::parse(Secret::from_random(&ctx.random::<16>()).expose()).ok_or(Failure::Internal)?;
    let client = client(ctx, id, metadata, secret.as_ref(), &access_token);
    let most = ctx.sealgate.config.registration.max_clients;
    match ctx.sealgate.store.register_client(&client, initial_token.as_ref(), most).await? {
        Registered::Added => {}
        Registered::Lost => return Err(Failure::Bearer(Some(WRONG_TOKEN))),
        Registered::Full => {
            // Without this limit, unauthenticated clients could fill the disk if registration is
            // open.
            tracing::debug!(most, "refused a client registration: registration.max_clients is reached");
            return Err(Failure::Unavailable);
        }
    }
    let event = ctx.event(AuditKind::ClientRegistered, Actor::Client).with_client(&client.id);
    ctx.sealgate.audit.note(match initial_token {
        Some(token) => event.with_detail(format!("registration token {}", RegistrationToken::id_of(&token.hash))),
        None => event,
    });
    let issued = Issued { secret: secret.as_ref(), access_token: Some(&access_token) };
    Ok(Response::json(StatusCode::CREATED, &client_information(&client, &address(ctx, &client.id), &issued)))
}

/// Records an event of a client in the audit log.
pub(super) fn note(ctx: &RequestContext<'_>, kind: AuditKind, client: &Client) {
    ctx.sealgate.audit.note(ctx.event(kind, Actor::Client).with_client(&client.id));
}

/// Returns the body, if its media type is JSON (RFC 7591 §3.1). A page of another site cannot send
/// that type without a CORS preflight.
fn json<'c>(ctx: &'c RequestContext<'_>) -> Result<&'c [u8], Refusal> {
    const WRONG: Refusal = Refusal::new(ErrorCode::InvalidClientMetadata, "The body must be application/json.");
    if ctx.is_labelled("application/json") { Ok(ctx.body()) } else { Err(WRONG) }
}

/// Checks whether this request may register a client.
///
/// Returns the initial access token that the registration uses, if the operator requires one.
async fn authorize(ctx: &RequestContext<'_>) -> Result<Option<PresentedInitialToken>, Failure> {
    match ctx.sealgate.config.registration.mode {
        RegistrationMode::Open => Ok(None),
        RegistrationMode::Off => Err(Failure::json(
            StatusCode::FORBIDDEN,
            Refusal::new(
                ErrorCode::AccessDenied,
                "Client registration is disabled. Ask the operator to register the client.",
            ),
        )),
        RegistrationMode::Token => {
            let console = ctx.sealgate.config.console.clone();
            let creator = UserRule::new(move |user| console.is_administrator(user));
            let token = PresentedInitialToken { hash: presented(ctx)?, creator };
            let works = ctx.sealgate.store.initial_token_works(&token, ctx.now).await?;
            if works { Ok(Some(token)) } else { Err(Failure::Bearer(Some(WRONG_TOKEN))) }
        }
    }
}

/// Refuses redirect URIs that only an administrator may register.
pub(super) fn refuse_own_hosts(
    ctx: &RequestContext<'_>,
    metadata: &ClientMetadata,
    client: Option<&Client>,
) -> Result<(), Refusal> {
    const OWN_HOST: Refusal = Refusal::new(
        ErrorCode::InvalidRedirectUri,
        "A URI is on the host of this server or of an application that it protects. \
         Ask an administrator to register the client.",
    );
    let mut uris = metadata.redirect_uris.iter().chain(&metadata.post_logout_redirect_uris);
    if uris.all(|uri| ctx.sealgate.config.may_register(uri, client)) { Ok(()) } else { Err(OWN_HOST) }
}

/// Returns the hash of the bearer token.
fn presented(ctx: &RequestContext<'_>) -> Result<SecretHash, Failure> {
    Ok(SecretHash::for_secret(ctx.bearer()?.as_bytes()))
}

/// Returns the record of a new client with this id.
pub(super) fn client(
    ctx: &RequestContext<'_>,
    id: ClientId,
    metadata: ClientMetadata,
    secret: Option<&Secret>,
    access_token: &Secret,
) -> Client {
    let unused_until = ctx.now.plus(ctx.sealgate.config.registration.unused);
    let mut client = Client {
        id,
        name: String::new(),
        client_type: metadata.client_type(),
        auth_method: metadata.auth_method,
        secrets: secret.iter().map(|secret| fresh(secret, ctx)).collect(),
        assertion_source: None,
        redirect_uris: Vec::new(),
        post_logout_redirect_uris: Vec::new(),
        scope: metadata.scope,
        grant_types: Vec::new(),
        consent: ConsentRule::Ask,
        state: ClientState::Enabled,
        created_at: ctx.now,
        incarnation: u32::from_be_bytes(ctx.random()),
        details: ClientDetails::default(),
        owner: None,
        registration: Some(SelfRegistration {
            access_token: access_token.hash(),
            used: false,
            approval_requested: false,
            unused_until: Some(unused_until),
        }),
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
    };
    metadata.replace(&mut client);
    client
}

fn fresh(secret: &Secret, ctx: &RequestContext<'_>) -> ClientSecret {
    ClientSecret { hash: secret.hash(), created_at: ctx.now, expires_at: None }
}

fn address(ctx: &RequestContext<'_>, id: &ClientId) -> String {
    format!("{}/oauth/register/{id}", ctx.sealgate.config.issuer.as_str())
}

/// Handles requests of a client to read, replace or delete its own registration.
pub(crate) async fn manage(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let client = owner(ctx).await?;
    // RFC 7592 §3 requires the token in every response. The store has only its hash.
    let access_token = Secret::new(ctx.bearer()?);
    match ctx.head.method {
        Method::PUT => replace(ctx, client, &access_token).await,
        Method::DELETE => {
            ctx.sealgate.store.delete_client(&client.id, ctx.now).await?;
            note(ctx, AuditKind::ClientDeleted, &client);
            Ok(Response::empty(StatusCode::NO_CONTENT))
        }
        _ => {
            let issued = Issued { secret: None, access_token: Some(&access_token) };
            Ok(Response::json(StatusCode::OK, &client_information(&client, &address(ctx, &client.id), &issued)))
        }
    }
}

/// Returns the client that the path names, if the request has the client's registration access
/// token. All failures get the same response, so that it does not reveal which clients exist.
async fn owner(ctx: &RequestContext<'_>) -> Result<Client, Failure> {
    let token = presented(ctx)?;
    let id = ctx.head.uri.path().rsplit('/').next().and_then(ClientId::parse);
    let client = match id {
        Some(id) => ctx.sealgate.store.client(&id).await?,
        None => None,
    };
    client
        .filter(Client::is_enabled)
        .filter(|client| client.registration.as_ref().is_some_and(|own| own.access_token == token))
        .ok_or(Failure::Bearer(Some(WRONG_TOKEN)))
}

/// Replaces the client's metadata (RFC 7592 §2.2).
///
/// The body contains all metadata and the client's id. If the body contains a secret, it must be
/// the client's current secret.
async fn replace(ctx: &RequestContext<'_>, client: Client, access_token: &Secret) -> Result<Response, Failure> {
    let invalid = |description| Failure::from(Refusal::new(ErrorCode::InvalidClientMetadata, description));
    let body = members(json(ctx)?)?;
    if body.get("client_id").and_then(serde_json::Value::as_str) != Some(client.id.as_str()) {
        return Err(invalid("The member client_id must be the client's ID."));
    }
    if SERVER_MEMBERS.iter().any(|member| body.contains_key(*member)) {
        return Err(invalid(
            "An update must not contain server-issued members other than client_id and client_secret.",
        ));
    }
    let own = match body.get("client_secret") {
        Some(secret) => {
            let own = secret.as_str().map(Secret::new).filter(|secret| client.has_secret(secret, ctx.now));
            Some(own.ok_or_else(|| invalid("The member client_secret must be the client's current secret."))?)
        }
        None => None,
    };
    let metadata = metadata(ctx, ctx.body())?;
    refuse_own_hosts(ctx, &metadata, Some(&client))?;
    let secret = Secret::from_random(&ctx.random::<32>());
    let fresh = fresh(&secret, ctx);
    let changed = ctx
        .sealgate
        .store
        .change_client(&client.id, |client| {
            let before = client.clone();
            metadata.clone().replace(client);
            client.revoke_approval_if_changed(&before);
            // A public client that becomes confidential needs a secret. A confidential client that
            // becomes public loses its secrets.
            if client.is_public() {
                client.secrets.clear();
            } else if client.secrets.is_empty() && !client.uses_assertions() {
                client.secrets.push(fresh.clone());
            }
        })
        .await?;
    let client = changed.ok_or(Failure::Bearer(Some(WRONG_TOKEN)))?;
    note(ctx, AuditKind::ClientChanged, &client);
    // Some clients store the response; it must include the secret that they have just sent.
    let is_new = client.secrets.iter().any(|one| one.hash == fresh.hash);
    let secret = is_new.then_some(secret).or(own).filter(|_| !client.secrets.is_empty());
    let issued = Issued { secret: secret.as_ref(), access_token: Some(access_token) };
    Ok(Response::json(StatusCode::OK, &client_information(&client, &address(ctx, &client.id), &issued)))
}
