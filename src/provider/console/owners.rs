//! Owners of clients, and the clients of users who lose access to the console.
//!
//! A client keeps working when its owner is deleted or disabled, or is no developer any more. The
//! record keeps the owner: a client without one would count as a client of the operator, which
//! needs no approval.

use std::collections::BTreeMap;

use crate::console::ConsoleUser;
use crate::console::client::execute;
use crate::console::confirmation::DISABLE_CLIENTS;
use sealgate_admin::command::{ClientCommand, Command};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_domain::client::{Client, ClientId};
use sealgate_domain::console_role::ConsoleRoles;
use sealgate_domain::oauth::params::Params;
use sealgate_domain::user::Subject;
use sealgate_pages::console::{ClientOwner, OwnedClients};

/// Maximum number of clients that a confirmation lists.
const MAX_LISTED: usize = 20;

/// Number of clients per read.
const CLIENTS_PER_READ: usize = 200;

/// Returns the clients of a user that are enabled, for the confirmation of a change after which they
/// have no owner. Only administrators see and disable them: for others, there are none.
pub(super) async fn clients_of(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    owner: Subject,
) -> Result<OwnedClients, Failure> {
    if !console_user.is_administrator() {
        return Ok(OwnedClients::default());
    }
    let clients = enabled_clients(ctx, owner).await?;
    let listed = clients.iter().take(MAX_LISTED).map(|client| (client.name.clone(), client.id.to_string()));
    Ok(OwnedClients { listed: listed.collect(), total: clients.len() as u64 })
}

/// Disables the clients of a user, if the confirmation has this choice. Forms of others than
/// administrators have none.
pub(super) async fn disable_if_chosen(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    owner: Subject,
    form: &Params,
) -> Result<(), Failure> {
    if form.has(DISABLE_CLIENTS) && console_user.is_administrator() {
        for client in enabled_clients(ctx, owner).await? {
            execute(ctx, console_user, Command::Client(ClientCommand::Disable(client.id.into()))).await?;
        }
    }
    Ok(())
}

async fn enabled_clients(ctx: &RequestContext<'_>, owner: Subject) -> Result<Vec<Client>, Failure> {
    let (mut found, mut after) = (Vec::new(), None::<ClientId>);
    loop {
        let clients = ctx.sealgate.store.clients(after.as_ref(), CLIENTS_PER_READ).await?;
        let Some(last) = clients.last() else { return Ok(found) };
        after = Some(last.id.clone());
        // The configuration file defines clients without an owner, and only it can disable them.
        found.extend(clients.into_iter().filter(|client| client.owner == Some(owner) && client.is_enabled()));
    }
}

/// Cache of the owners of clients. Each user is read once per page.
#[derive(Default)]
pub(super) struct Owners(BTreeMap<Subject, ClientOwner>);

impl Owners {
    /// Returns the owner of a client. `None` if it never had one, because an operator created it or
    /// because it registered itself.
    pub(super) async fn of(
        &mut self,
        ctx: &RequestContext<'_>,
        client: &Client,
    ) -> Result<Option<ClientOwner>, Failure> {
        let Some(subject) = client.owner else { return Ok(None) };
        if let Some(known) = self.0.get(&subject) {
            return Ok(Some(known.clone()));
        }
        let owner = match ctx.sealgate.store.user(subject).await? {
            None => ClientOwner::Deleted,
            Some(user) => {
                let roles = ctx.sealgate.config.console.roles_of(&user);
                let (id, name) = (user.sub.to_string(), user.sign_in_name().to_owned());
                if user.is_enabled() && roles.has_any(ConsoleRoles::CLIENT_EDITORS) {
                    ClientOwner::Active { id, name }
                } else {
                    ClientOwner::WithoutAccess { id, name }
                }
            }
        };
        self.0.insert(subject, owner.clone());
        Ok(Some(owner))
    }
}
