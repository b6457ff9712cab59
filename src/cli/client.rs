//! `sealgate client`.

use std::io::{self, Write};

use clap::{Args, Subcommand};

use super::access::Access;
use super::arguments::{self, ConsentName, MethodName, TypeName, Which};
use super::failure::Failure;
use super::output::Output;
use crate::admin::command::{ClientCommand, Command, NewClient};
use crate::config::RegistrationMode;
use crate::protocol::client::ClientId;

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Add a client; prints the secret of a confidential one, this once
    Add(Box<NewArguments>),
    /// List all clients
    List,
    /// Show what is known of a client
    Show {
        #[command(flatten)]
        which: Which,
    },
    /// Make a new secret, and print it this once
    RotateSecret {
        #[command(flatten)]
        which: Which,
        /// How long the secret before it goes on working
        #[arg(long, value_name = "SECONDS", default_value_t = 0)]
        overlap_seconds: u64,
    },
    /// Refuse a client everywhere and end the tokens that it was given
    Disable {
        #[command(flatten)]
        which: Which,
    },
    /// Take a disabled client again; people have to sign in to it anew
    Enable {
        #[command(flatten)]
        which: Which,
    },
    /// Vouch for a client that a developer made, or that registered itself: its tokens then open every application without
    /// a list of clients
    Approve {
        #[command(flatten)]
        which: Which,
    },
    /// Take an approval back
    WithdrawApproval {
        #[command(flatten)]
        which: Which,
    },
    /// Remove a client and end the tokens that it was given
    Delete {
        #[command(flatten)]
        which: Which,
    },
    /// Set how long a refresh token that was just rotated still gives the very same new one
    RefreshRetry {
        #[command(flatten)]
        which: Which,
        /// How long, 0 to 300 [default: what the configuration says]
        #[arg(long, value_name = "SECONDS")]
        seconds: Option<u64>,
    },
    /// Make a token with which one client can be registered over HTTP (RFC 7591); printed this once
    InitialToken {
        /// How long it works
        #[arg(long, value_name = "SECONDS", default_value_t = 86_400)]
        lifetime_seconds: u64,
    },
}

#[derive(Debug, Args)]
pub(super) struct NewArguments {
    /// The client's id: letters, digits, '-', '.', '_', '~'
    #[arg(long, value_parser = arguments::client_id)]
    id: ClientId,
    /// The client's name, which people see when they are asked for consent
    #[arg(long)]
    name: String,
    /// Whether the client can keep a secret
    #[arg(long = "type", value_name = "TYPE")]
    client_type: TypeName,
    /// Where codes may be sent: https, or http on localhost, compared byte for byte; can be repeated
    #[arg(long, value_name = "URI", required = true)]
    redirect_uri: Vec<String>,
    /// Where browsers may be sent after a logout; can be repeated
    #[arg(long, value_name = "URI")]
    post_logout_redirect_uri: Vec<String>,
    /// What the client may ask for, such as "openid profile"; can be repeated [default: every scope]
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,
    /// How the client authenticates at the token endpoint [default: by its type]
    #[arg(long, value_name = "METHOD")]
    auth_method: Option<MethodName>,
    /// Whether people are asked for consent
    #[arg(long, value_name = "RULE", default_value = "ask")]
    consent: ConsentName,
    /// How long a refresh token that was just rotated still gives the very same new one, 0 to 300
    /// [default: what the configuration says]
    #[arg(long, value_name = "SECONDS")]
    refresh_retry_seconds: Option<u64>,
}

pub(super) fn run(verb: Verb, access: &mut Access, output: &Output) -> Result<(), Failure> {
    let (command, shown): (_, &[&str]) = match verb {
        Verb::List => return list(access, output),
        Verb::Show { which } => {
            return output.record(&access.ask(&Command::Client(ClientCommand::Show(meant(which)?)))?);
        }
        Verb::Add(arguments) => (ClientCommand::Add(Box::new(new(*arguments))), &["client_id", "client_secret"]),
        Verb::RotateSecret { which, overlap_seconds } => {
            let id = meant(which)?;
            (ClientCommand::RotateSecret { id, overlap_seconds }, &["client_id", "client_secret"])
        }
        Verb::Disable { which } => (ClientCommand::Disable(meant(which)?), &["client_id", "state", "grants_ended"]),
        Verb::Enable { which } => (ClientCommand::Enable(meant(which)?), &["client_id", "state"]),
        Verb::Approve { which } => (ClientCommand::Approve(meant(which)?), &["client_id", "vouched_for"]),
        Verb::WithdrawApproval { which } => {
            (ClientCommand::WithdrawApproval(meant(which)?), &["client_id", "vouched_for"])
        }
        Verb::Delete { which } => (ClientCommand::Delete(meant(which)?), &["client_id", "deleted"]),
        Verb::RefreshRetry { which, seconds } => {
            let id = meant(which)?;
            (ClientCommand::RefreshRetry { id, seconds }, &["client_id", "refresh_retry_seconds"])
        }
        Verb::InitialToken { lifetime_seconds } => {
            note_mode(access.config().registration.mode);
            (ClientCommand::InitialToken { lifetime_seconds }, &["initial_access_token"])
        }
    };
    output.only(&access.ask(&Command::Client(command))?, shown)
}

fn meant(which: Which) -> Result<ClientId, Failure> {
    which.id().ok_or_else(|| Failure::line("name a client by its id"))
}

fn new(arguments: NewArguments) -> NewClient {
    NewClient {
        id: arguments.id,
        name: arguments.name,
        client_type: arguments.client_type.into(),
        redirect_uris: arguments.redirect_uri,
        post_logout_redirect_uris: arguments.post_logout_redirect_uri,
        scope: (!arguments.scope.is_empty()).then(|| arguments.scope.join(" ")),
        auth_method: arguments.auth_method.map(Into::into),
        consent: arguments.consent.into(),
        refresh_retry_seconds: arguments.refresh_retry_seconds,
    }
}

/// A token that nobody will ask for surprises less when that is said.
fn note_mode(mode: RegistrationMode) {
    let note = match mode {
        RegistrationMode::Token => return,
        RegistrationMode::Off => "registration.mode is \"off\": the token works once it is \"token\"",
        RegistrationMode::Open => "registration.mode is \"open\": clients are registered without a token",
    };
    // Where nobody reads, nobody is told.
    let _ = writeln!(io::stderr(), "note: {note}");
}

fn list(access: &mut Access, output: &Output) -> Result<(), Failure> {
    let clients = access.pages("clients", |after| {
        let after = after.as_deref().and_then(ClientId::parse);
        Command::Client(ClientCommand::List { after })
    })?;
    output.list("clients", &clients, &["client_id", "client_name", "client_type", "state", "scope"])
}
