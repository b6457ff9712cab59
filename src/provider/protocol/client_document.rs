//! Clients whose identifier is the URL of their metadata document: their records are created and
//! updated when a sign-in begins.
//!
//! Such a client is like one that registered itself: applications refuse its tokens until they list
//! it or an administrator approves it, users are always asked for consent, and it is deleted if it is
//! left unused. A change of the document that matters for security ends the approval.

use sealgate_core::tokens::clients::is_listed_document;
use sealgate_core::tokens::documents::DocumentFault;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_domain::audit::AuditKind;
use sealgate_domain::client::{Client, ClientId};
use sealgate_domain::oauth::registration::ClientMetadata;
use sealgate_domain::secret::Secret;
use sealgate_store::Registered;

use crate::protocol::register;

/// Returns the client of an authorization request. Reads its metadata document first, if its
/// identifier is the URL of one.
pub(crate) async fn client(ctx: &RequestContext<'_>, id: &ClientId) -> Result<Option<Client>, Failure> {
    let sealgate = ctx.sealgate;
    if id.document_host().is_none() || !is_listed_document(&sealgate.config, id) {
        return Ok(sealgate.client(id).await?);
    }
    let known = sealgate.store.client(id).await?;
    if known.as_ref().is_some_and(|client| !client.is_enabled()) {
        return Ok(known);
    }
    let metadata = match sealgate.documents.metadata(id, &sealgate.config, ctx.now).await {
        Ok(metadata) => metadata,
        Err(DocumentFault::Busy) => {
            tracing::warn!(client = id.as_str(), "too many metadata documents of clients are requested");
            return Err(Failure::Unavailable);
        }
        Err(DocumentFault::Invalid(fault)) => {
            tracing::info!(client = id.as_str(), fault, "refused a client's metadata document");
            return Ok(None);
        }
    };
    if register::refuse_own_hosts(ctx, &metadata, known.as_ref()).is_err() {
        let fault = "a URI is on the host of this server or of an application that it protects";
        tracing::info!(client = id.as_str(), fault, "refused a client's metadata document");
        return Ok(None);
    }
    match known {
        Some(known) => update(ctx, &known, &metadata).await?,
        None => add(ctx, id, ClientMetadata::clone(&metadata)).await?,
    }
    Ok(sealgate.client(id).await?)
}

async fn add(ctx: &RequestContext<'_>, id: &ClientId, metadata: ClientMetadata) -> Result<(), Failure> {
    // Nobody receives this token, so the client cannot manage its registration over HTTP.
    let access_token = Secret::from_random(&ctx.random::<32>());
    let client = register::client(ctx, id.clone(), metadata, None, &access_token);
    let most = ctx.sealgate.config.registration.max_clients;
    match ctx.sealgate.store.register_client(&client, None, most).await? {
        Registered::Added => register::note(ctx, AuditKind::ClientRegistered, &client),
        // A concurrent request has added the client.
        Registered::Lost => {}
        Registered::Full => {
            tracing::warn!(most, "refused a client with a metadata document: registration.max_clients is reached");
            return Err(Failure::Unavailable);
        }
    }
    Ok(())
}

async fn update(ctx: &RequestContext<'_>, known: &Client, metadata: &ClientMetadata) -> Result<(), Failure> {
    let replaced = |client: &mut Client| {
        let before = client.clone();
        metadata.clone().replace(client);
        client.revoke_approval_if_changed(&before);
    };
    let mut next = known.clone();
    replaced(&mut next);
    if next == *known {
        return Ok(());
    }
    if let Some(client) = ctx.sealgate.store.change_client(&known.id, replaced).await? {
        register::note(ctx, AuditKind::ClientChanged, &client);
    }
    Ok(())
}
