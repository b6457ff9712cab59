//! Executes commands.
//!
//! This crate contains all rules for operators. The rules apply both in a running server and to a
//! store that is not served.

use std::path::Path;

use crate::answer::{Answer, BackupAnswer, LossAccepted, ServerStatus};
use crate::command::{Command, DirectoryCommand};
use crate::context::{CommandContext, CommandError};
use sealgate_domain::audit::AuditKind;
use sealgate_domain::source::SourceName;

use crate::{access, api_tokens, app_logins, audit, clients, keys, mails, nodes, users};

/// Executes a command.
///
/// # Errors
/// [`CommandError`]. A command that failed because of the store can be retried.
pub async fn execute(context: &CommandContext<'_>, command: Command) -> Result<Answer, CommandError> {
    match command {
        Command::Status => status(context).await,
        // The admin socket executes a reload itself. Without a server, there is nothing to reload.
        Command::Reload => Err(CommandError::invalid("no server is running, so there is no configuration to reload")),
        Command::Backup { to } => backup(context, &to).await,
        // Large futures are boxed, because callers embed them in their own futures.
        Command::User(command) => Box::pin(users::execute(context, command)).await,
        Command::Client(command) => Box::pin(clients::execute(context, command)).await,
        Command::Session(command) => access::sessions(context, command).await,
        Command::Key(command) => keys::execute(context, command).await,
        Command::Node(command) => nodes::execute(context, command).await,
        Command::Directory(DirectoryCommand::RevokeGone { name }) => accept_loss(context, name).await,
        Command::Grant(command) => access::grants(context, command).await,
        Command::Consent(command) => access::consents(context, command).await,
        Command::AppPassword(command) => access::app_passwords(context, command).await,
        Command::AppLogin(command) => Box::pin(app_logins::execute(context, command)).await,
        Command::ApiToken(command) => api_tokens::execute(context, command).await,
        Command::Mail(command) => mails::execute(context, command).await,
        Command::Audit(command) => audit::execute(context, *command).await,
    }
}

async fn accept_loss(context: &CommandContext<'_>, name: SourceName) -> Result<Answer, CommandError> {
    context.store.accept_loss(&name, context.clock.now()).await?;
    let event = context.event(AuditKind::DirectoryLossAccepted).with_detail(format!("directory {name}"));
    context.record(event).await;
    Ok(Answer::LossAccepted(LossAccepted { directory: name }))
}

async fn status(context: &CommandContext<'_>) -> Result<Answer, CommandError> {
    context.store.ping().await?;
    let ring = context.store.key_ring().await?;
    Ok(Answer::Status(Box::new(ServerStatus {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        store: "ok".to_owned(),
        open_interactions: context.store.open_interactions(),
        server: None,
        keys_of: context.store.keys_of().await?,
        rotation: keys::rotation(&ring, context.clock.now(), context),
    })))
}

async fn backup(context: &CommandContext<'_>, to: &Path) -> Result<Answer, CommandError> {
    // The server's working directory differs from the operator's.
    if !to.is_absolute() {
        return Err(CommandError::invalid("the backup's directory must be an absolute path"));
    }
    // Write the queued audit events, so that the copy includes them.
    context.trail.write(context.store).await?;
    let records = context.store.copy_to(to).await?;
    tracing::info!(directory = %to.display(), records, "an operator created a backup");
    Ok(Answer::Backup(BackupAnswer { directory: to.to_owned(), records }))
}

/// Text of `--help`.
pub(super) const ABOUT: &str = "\
Apply the configuration file to the running server without dropping a connection.

Applications, routes, upstreams, rate limits, sign-in limits, pages, the log filter, certificates and most lifetimes change at \
once. Requests in progress complete under the old rules. Open WebSockets and streams continue while the new rules permit them. \
If the file has an error, or changes a setting that needs a restart (such as server.listen), the command reports this and \
changes nothing. SIGHUP does the same, with its result only in the log.";
