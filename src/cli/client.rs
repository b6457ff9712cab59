//! `sealgate client`.

use std::io::{self, Write};

use clap::{Args, Subcommand};

use super::access::Access;
use super::arguments::{self, ConsentName, GrantName, MethodName, TypeName, Which};
use super::failure::CommandFailure;
use super::output::Output;
use crate::admin::command::{ClientCommand, ClientSettings, Command, NewClient, Person, Setting};
use crate::config::RegistrationMode;
use crate::domain::client::ClientId;
use crate::domain::rate_limit::RateLimit;

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
    /// Change settings of a client, whoever made it; what is not named stays as it is
    #[command(override_usage = "sealgate client set [OPTIONS] <ID|--id <ID>> <--SETTING VALUE>...")]
    Set {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        settings: Box<SettingArguments>,
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
    /// How often the client may come to the token endpoint in a minute, 1 to 1000000, or "none" for no limit
    /// [default: what the configuration says]
    #[arg(long, value_name = "N|none", value_parser = arguments::rate_limit)]
    token_limit: Option<RateLimit>,
}

#[derive(Debug, Args)]
#[group(id = "settings", required = true, multiple = true)]
pub(super) struct SettingArguments {
    /// The client's name, which people see when they are asked for consent
    #[arg(long)]
    name: Option<String>,
    /// Whether the client can keep a secret: one that comes to be confidential gets a secret, printed this once; one that
    /// comes to be public loses its own
    #[arg(long = "type", value_name = "TYPE")]
    client_type: Option<TypeName>,
    /// Where codes may be sent, in place of all that there were; can be repeated
    #[arg(long, value_name = "URI")]
    redirect_uri: Option<Vec<String>>,
    /// Where browsers may be sent after a logout, in place of all that there were; can be repeated; '' for none
    #[arg(long, value_name = "URI")]
    post_logout_redirect_uri: Option<Vec<String>>,
    /// What the client may ask for, in place of all that there was, such as "openid profile"; can be repeated
    #[arg(long, value_name = "SCOPE")]
    scope: Option<Vec<String>>,
    /// What the client may do at the token endpoint, in place of all that there was; can be repeated
    #[arg(long, value_name = "GRANT")]
    grant_type: Option<Vec<GrantName>>,
    /// How the client authenticates at the token endpoint
    #[arg(long, value_name = "METHOD")]
    auth_method: Option<MethodName>,
    /// Whether people are asked for consent
    #[arg(long, value_name = "RULE")]
    consent: Option<ConsentName>,
    /// What the client is, in a sentence; '' for none
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// The client's home page, https; '' for none
    #[arg(long, value_name = "URL")]
    client_uri: Option<String>,
    /// Where a sign-in can be started from outside, https; '' for none
    #[arg(long, value_name = "URL")]
    initiate_login_uri: Option<String>,
    /// How old a sign-in may be where the client does not say, or "none"
    #[arg(long, value_name = "SECONDS|none", value_parser = arguments::some_seconds)]
    default_max_age: Option<Setting<u64>>,
    /// How long a refresh token that was just rotated still gives the very same new one, 0 to 300, or "default" for what the
    /// configuration says
    #[arg(long, value_name = "SECONDS|default", value_parser = arguments::own_seconds)]
    refresh_retry_seconds: Option<Setting<u64>>,
    /// How often the client may come to the token endpoint in a minute, 1 to 1000000, "none" for no limit, or "default" for
    /// what the configuration says
    #[arg(long, value_name = "N|none|default", value_parser = arguments::own_rate_limit)]
    token_limit: Option<Setting<RateLimit>>,
    /// The developer whose client it is, or "none" for the operator's own
    #[arg(long, value_name = "SUB|EMAIL|none", value_parser = arguments::some_person)]
    owner: Option<Setting<Person>>,
}

pub(super) fn run(verb: Verb, access: &mut Access, output: &Output) -> Result<(), CommandFailure> {
    let (command, shown): (_, &[&str]) = match verb {
        Verb::List => return list(access, output),
        Verb::Show { which } => {
            return output.record(&access.ask(&Command::Client(ClientCommand::Show(meant(which)?)))?);
        }
        Verb::Add(arguments) => (ClientCommand::Add(Box::new(new(*arguments))), &["client_id", "client_secret"]),
        Verb::Set { which, settings } => {
            let set = ClientCommand::Set { id: meant(which)?, settings: Box::new(changed(*settings)) };
            return output.record(&access.ask(&Command::Client(set))?);
        }
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
            let refresh_retry_seconds = seconds.map_or(Setting::Removed, Setting::Set);
            let settings = Box::new(ClientSettings { refresh_retry_seconds, ..ClientSettings::default() });
            (ClientCommand::Set { id: meant(which)?, settings }, &["client_id", "refresh_retry_seconds"])
        }
        Verb::InitialToken { lifetime_seconds } => {
            note_mode(access.config().registration.mode);
            (ClientCommand::InitialToken { lifetime_seconds }, &["initial_access_token"])
        }
    };
    output.only(&access.ask(&Command::Client(command))?, shown)
}

fn meant(which: Which) -> Result<ClientId, CommandFailure> {
    which.id().ok_or_else(|| CommandFailure::line("name a client by its id"))
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
        token_limit: arguments.token_limit,
    }
}

fn changed(arguments: SettingArguments) -> ClientSettings {
    let text = |given: Option<String>| match given {
        None => Setting::Kept,
        Some(text) if text.is_empty() => Setting::Removed,
        Some(text) => Setting::Set(text),
    };
    let written = |given: Vec<String>| given.into_iter().filter(|text| !text.is_empty()).collect();
    ClientSettings {
        name: arguments.name,
        client_type: arguments.client_type.map(Into::into),
        redirect_uris: arguments.redirect_uri.map(written),
        post_logout_redirect_uris: arguments.post_logout_redirect_uri.map(written),
        scope: arguments.scope.map(|scopes| scopes.join(" ")),
        grant_types: arguments.grant_type.map(|grants| grants.into_iter().map(Into::into).collect()),
        auth_method: arguments.auth_method.map(Into::into),
        consent: arguments.consent.map(Into::into),
        description: text(arguments.description),
        client_uri: text(arguments.client_uri),
        initiate_login_uri: text(arguments.initiate_login_uri),
        default_max_age: arguments.default_max_age.unwrap_or_default(),
        refresh_retry_seconds: arguments.refresh_retry_seconds.unwrap_or_default(),
        token_limit: arguments.token_limit.unwrap_or_default(),
        owner: arguments.owner.unwrap_or_default(),
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

fn list(access: &mut Access, output: &Output) -> Result<(), CommandFailure> {
    let clients = access.pages("clients", |after| {
        let after = after.as_deref().and_then(ClientId::parse);
        Command::Client(ClientCommand::List { after })
    })?;
    output.list("clients", &clients, &["client_id", "client_name", "client_type", "state", "scope"])
}
