//! Section of a client's page with the users who have given the client access.

use crate::account::activity::EventNames;
use crate::console::ConsoleUser;
use crate::console::client::execute;
use crate::request::{AFTER, ProviderRequest as _};
use sealgate_admin::UserRef;
use sealgate_admin::command::{Command, ConsentCommand, GrantCommand};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_domain::client::Client;
use sealgate_domain::grant::GrantId;
use sealgate_domain::oauth::params::Params;
use sealgate_pages::Problem;
use sealgate_pages::console::{ClientGrantLine, ClientSection};
use sealgate_store::GrantFilter;

/// Maximum number of grants on a page.
const GRANTS_PER_PAGE: usize = 25;

/// Returns some of the client's grants, and the URL of the next ones.
pub(super) async fn lines(
    ctx: &RequestContext<'_>,
    client: &Client,
) -> Result<(Vec<ClientGrantLine>, Option<String>), Failure> {
    let after = ctx.cursor(GrantId::parse)?;
    let filter = GrantFilter { client: Some(client.id.clone()), ..GrantFilter::default() };
    let page = ctx.sealgate.store.grants(&filter, after, GRANTS_PER_PAGE).await?;
    let (mut names, mut lines) = (EventNames::default(), Vec::with_capacity(page.grants.len()));
    for grant in page.grants {
        let who = if grant.is_service { None } else { Some(names.user(ctx, grant.subject).await?) };
        lines.push(ClientGrantLine {
            id: grant.id.to_string(),
            who,
            scope: grant.scope.to_string(),
            created_at: grant.created_at,
            expires_at: grant.expires_at,
        });
    }
    let path = ClientSection::Grants.page(client.id.path_segment());
    Ok((lines, page.next.map(|next| ctx.path(&format!("{path}?{AFTER}={next}")))))
}

/// Ends the access that a user has given: the consent, and the client's tokens for the user. Also
/// succeeds if it has already ended.
///
/// Ignores the id of another client's grant.
pub(super) async fn end(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    client: &Client,
    form: &Params,
) -> Result<(), Failure> {
    let id = form.one("grant")?.and_then(GrantId::parse).ok_or(Failure::page(Problem::InvalidRequest))?;
    let grant = ctx.sealgate.store.grant(id).await?.map(|loaded| loaded.value);
    let Some(grant) = grant.filter(|grant| grant.client == client.id && grant.is_active()) else { return Ok(()) };
    let command = if grant.is_service {
        Command::Grant(GrantCommand::Revoke { grant: id })
    } else {
        let user = UserRef::Sub(grant.subject);
        Command::Consent(ConsentCommand::Revoke { user, client: client.id.clone().into() })
    };
    execute(ctx, console_user, command).await.map(drop)
}
