//! Commands on the server's data. This module completes commands before they are sent, and prints
//! the answers.
//!
//! The server executes the commands. While no server runs, they are executed directly on the store.

use std::collections::HashSet;
use std::io;
use std::io::Write;

use serde_json::{Value, json};

use crate::cli::access::StoreAccess;
use crate::cli::failure::CommandFailure;
use crate::cli::output::{Output, text_of};
use crate::cli::{directory, password, users_file};
use sealgate_admin::Answer;
use sealgate_admin::answer::{ListPage, Members};
use sealgate_admin::command::{
    ApiTokenCommand, AppLoginCommand, AppPasswordCommand, ClientCommand, Command, ConsentCommand, GrantCommand,
    LinkArguments, MailCommand, SecretCommand, SessionCommand, UserCommand,
};
use sealgate_admin::user_settings::InvitationTarget;
use sealgate_config::{Config, RegistrationMode, StoreConfig};
use sealgate_domain::client_rules;
use sealgate_domain::secret::base64url;
use sealgate_store::postgres::{PostgresSettings, wait_for_beats};

/// Returns the command as it is sent. A new user without a password is invited. An account at a
/// directory is searched there.
fn as_sent(command: Command, config: &Config) -> Result<Command, CommandFailure> {
    let invitee = match command {
        Command::User(UserCommand::Link(LinkArguments { user, source, account })) => {
            let link = directory::link(&source, &account, config)?;
            return Ok(Command::User(UserCommand::LinkUser { user, link }));
        }
        Command::User(UserCommand::Invite(arguments)) => match (*arguments).into() {
            InvitationTarget::One(invitee) => invitee,
            InvitationTarget::Many(from, mut invitees) => {
                invitees.file = users_file::read_invitees(&from)?;
                return Ok(Command::User(UserCommand::InviteMany(invitees)));
            }
        },
        Command::User(UserCommand::Add(new)) if !new.password.password_stdin => {
            if new.email_verified {
                return Err(CommandFailure::line(
                    "without --password-stdin the user is invited, which verifies the address; leave \
                     --email-verified out, or give the password",
                ));
            }
            Box::new((*new).try_into().map_err(CommandFailure::line)?)
        }
        command => return Ok(command),
    };
    Ok(Command::User(UserCommand::InviteUser(invitee)))
}

/// Prints a note that the account remains, but that its user cannot sign in.
fn note_revoked_invitation() {
    let note = "the account remains without a password, so the user cannot sign in; delete the account \
        with user delete, or send another link with user resend-invitation";
    let _ = writeln!(io::stderr(), "note: {note}");
}

pub(super) fn run(command: Command, access: &mut StoreAccess, output: &Output) -> Result<(), CommandFailure> {
    let mut command = as_sent(command, access.config())?;
    if let Some(password) = command.password_mut() {
        password.secret = password::read()?;
    }
    match &mut command {
        Command::User(UserCommand::Import(import)) => users_file::read(import)?,
        Command::User(UserCommand::Export { to, .. }) => return users_file::export(&to.clone(), access, output),
        _ => {}
    }
    if let Command::Client(ClientCommand::GenerateToken { .. }) = command {
        note_mode(access.config().registration.mode);
    }
    if let Command::ApiToken(ApiTokenCommand::Add(_)) = command
        && !access.config().api.enabled
    {
        // Standard error may be closed.
        let _ = writeln!(io::stderr(), "note: the admin API is disabled; set api.enabled before you use the token");
    }
    let answer = if let Command::Status = command { access.ask_server(&command)? } else { access.ask(&command)? };
    if let Command::User(UserCommand::RevokeInvitation(_)) = command {
        note_revoked_invitation();
    }
    if command.wants_wait() {
        wait_for_nodes(access)?;
    }
    if let Answer::Page(first) = answer {
        let columns = columns(&command);
        let (name, rows) = rows(first, &mut command, access)?;
        return output.list(&name, &rows, columns);
    }
    let members = answer.members();
    match sentence(&command, &members) {
        Some((sentence, names)) => output.done(&members, &sentence, names),
        None => output.record(&answer),
    }
}

/// Prints the hash of a client secret that it reads from standard input.
pub(super) fn hash_secret(output: &Output) -> Result<(), CommandFailure> {
    let secret = password::read_secret("client secret")?;
    client_rules::check_secret(secret.expose()).map_err(CommandFailure::line)?;
    let hash = base64url(secret.hash().as_bytes());
    output.result(&json!({ "secret_hash": hash }), || format!("{hash}\n"))
}

/// Waits until every node of the cluster refuses the revoked access.
fn wait_for_nodes(access: &StoreAccess) -> Result<(), CommandFailure> {
    // A single server has applied the change when it answers.
    let StoreConfig::Postgres(settings) = &access.config().store else { return Ok(()) };
    let settings = PostgresSettings::from_config(settings, None).map_err(CommandFailure::line)?;
    let silent = access.block_on(wait_for_beats(&settings)).map_err(|fault| {
        CommandFailure::line(format_args!(
            "the change is committed and takes effect on every node within one second, but the nodes' \
             heartbeats cannot be read to confirm it: {fault}"
        ))
    })?;
    for name in silent {
        let note = "sent no heartbeat for 5 seconds: it refuses gated requests, and closes open connections \
            within a minute";
        let _ = writeln!(io::stderr(), "note: the node {name} {note}");
    }
    Ok(())
}

/// Returns all rows of a list, read page by page, and the name of the list.
fn rows(
    mut page: ListPage,
    command: &mut Command,
    access: &mut StoreAccess,
) -> Result<(String, Vec<Value>), CommandFailure> {
    let mut rows = Vec::new();
    let name = loop {
        let Value::Object(lists) = serde_json::to_value(&page.rows).map_err(CommandFailure::line)? else {
            return Err(CommandFailure::other_answer());
        };
        let name = lists.keys().next().cloned().unwrap_or_default();
        rows.extend(lists.into_iter().flat_map(|(_, rows)| match rows {
            Value::Array(rows) => rows,
            _ => Vec::new(),
        }));
        match (command.cursor_mut(), page.next) {
            (Some(after), next @ Some(_)) => *after = next,
            _ => break name,
        }
        page = access.ask_page(command)?;
    };
    // A session that has several grants of a client appears on each page that has one of these
    // grants.
    let mut known = HashSet::new();
    rows.retain(|row| row["sid"].is_null() || name != "sessions" || known.insert(row["sid"].to_string()));
    Ok((name, rows))
}

/// Returns the columns of a list.
fn columns(command: &Command) -> &'static [&'static str] {
    match command {
        Command::User(UserCommand::ListAccesses(_)) => {
            &["kind", "id", "target", "name", "created_at", "last_used_at", "address", "user_agent"]
        }
        Command::User(UserCommand::ListFactors(_)) => &["kind", "name", "added", "last_used", "left", "blocked"],
        Command::AppLogin(_) => &["app", "username", "changed_at", "refused"],
        Command::User(_) => &["sub", "email", "username", "name", "state", "roles", "invitation"],
        Command::Client(ClientCommand::Secret(_)) => &["id", "created_at", "expires_at"],
        Command::Client(ClientCommand::ListTokens) => {
            &["id", "name", "registrations", "left", "clients", "creator", "created_at", "expires_at"]
        }
        Command::Client(_) => &["client_id", "client_name", "client_type", "state", "scope", "from_configuration"],
        Command::Session(_) => &["sid", "address", "created_at", "last_seen_at", "expires_at", "user_agent"],
        Command::Grant(_) => &["grant", "sub", "client_id", "sid", "scope", "created_at", "expires_at"],
        Command::Consent(_) => &["client_id", "scope", "given_at"],
        Command::Mail(_) => &["id", "kind", "state", "created_at", "due_at", "attempts", "reason", "answer"],
        Command::ApiToken(_) => &["id", "name", "scopes", "creator", "created_at", "expires_at", "last_used_at"],
        Command::AppPassword(_) => &["id", "app", "name", "created_at", "last_used_at"],
        _ => &[],
    }
}

/// Prints a note that a registration token has no effect in the current registration mode.
fn note_mode(mode: RegistrationMode) {
    let note = match mode {
        RegistrationMode::Token => return,
        RegistrationMode::Off => "registration.mode is \"off\"; set it to \"token\" before you use the token",
        RegistrationMode::Open => "registration.mode is \"open\"; clients can register without a token",
    };
    // Standard error may be closed.
    let _ = writeln!(io::stderr(), "note: {note}");
}

/// Sentence about an executed command, and the names of answer members to print below it, such as a
/// new secret.
pub(super) type Sentence = (String, &'static [&'static str]);

/// Returns the sentence about a command that changes something, from its answer. Returns `None` for
/// every other command.
pub(super) fn sentence(command: &Command, answer: &Members) -> Option<Sentence> {
    let answer = Facts(answer);
    let text = match command {
        Command::User(command) => return of_user(command, &answer),
        Command::Client(command) => return of_client(command, &answer),
        Command::ApiToken(ApiTokenCommand::Add(new)) => {
            let (id, end) = (answer.text("id"), answer.text("expires_at"));
            return Some((format!("Created API token {} with ID {id}, valid until {end}", new.name), &["token"]));
        }
        Command::ApiToken(ApiTokenCommand::Remove { id }) => {
            format!("Removed API token {} ({id})", answer.text("name"))
        }
        Command::Session(SessionCommand::Revoke { sid }) => format!("Revoked session {sid}"),
        Command::Session(SessionCommand::RevokeAll(_)) => format!("Revoked {}", answer.sessions()),
        Command::Grant(GrantCommand::Revoke { grant }) => format!("Revoked grant {grant}"),
        Command::Grant(GrantCommand::RevokeAll(_)) => format!("Revoked {}", answer.grants()),
        Command::Consent(ConsentCommand::Revoke { user, client }) if answer.is("withdrawn") => {
            format!("Revoked the consent of user {user} to client {client} and {}", answer.grants())
        }
        Command::Consent(ConsentCommand::Revoke { user, client }) => {
            format!("Revoked {} of client {client} for user {user}; there was no consent", answer.grants())
        }
        Command::AppPassword(AppPasswordCommand::Revoke { user, .. }) => format!(
            "Revoked application password {} of user {user} for application {}",
            answer.text("name"),
            answer.text("app")
        ),
        Command::AppLogin(AppLoginCommand::Set { user, app, .. }) => {
            format!("Set the name and password of user {user} at application {app}")
        }
        Command::AppLogin(AppLoginCommand::Remove { user, app }) => {
            format!("Removed the name and password of user {user} at application {app}")
        }
        Command::Mail(MailCommand::Retry { id }) => format!("Queued mail {id} for another attempt"),
        Command::Mail(MailCommand::Delete { id }) => format!("Deleted mail {id}"),
        _ => return None,
    };
    Some((text, &[]))
}

fn of_user(command: &UserCommand, answer: &Facts<'_>) -> Option<Sentence> {
    let name = answer.sign_in_name();
    let ended = || format!("{} and {}", answer.sessions(), answer.grants());
    let text = match command {
        UserCommand::Add(_) => format!("Created user {name} with ID {}", answer.text("sub")),
        UserCommand::InviteUser(_) | UserCommand::ResendInvitation { .. }
            if answer.0.contains_key("invitation_link") =>
        {
            let text = format!(
                "Invited user {name} with ID {}; the link works once, until {}",
                answer.text("sub"),
                answer.text("invitation_expires_at")
            );
            return Some((text, &["invitation_link"]));
        }
        UserCommand::InviteUser(_) => format!(
            "Invited user {name} with ID {}; the link is valid until {}",
            answer.text("sub"),
            answer.text("invitation_expires_at")
        ),
        UserCommand::ResendInvitation { .. } => {
            format!("Sent a new invitation to {name}; the link is valid until {}", answer.text("invitation_expires_at"))
        }
        UserCommand::RevokeInvitation(_) => format!("Revoked the invitation of user {name}"),
        UserCommand::Set { .. } => format!("Changed user {name}"),
        UserCommand::SetPassword { .. } => format!("Set the password of user {name}; revoked {}", ended()),
        UserCommand::LinkUser { link, .. } => {
            format!("Linked user {name} to {}; revoked {}", link.source, ended())
        }
        UserCommand::Unlink(_) if answer.text("state") == "disabled" => format!(
            "Removed the link of user {name}, who stays disabled because the account at the source is; revoked {}",
            ended()
        ),
        UserCommand::Unlink(_) => {
            format!("Removed the link of user {name}, who now has no password; revoked {}", ended())
        }
        UserCommand::Disable(_) => format!("Disabled user {name}; revoked {}", ended()),
        UserCommand::Enable(_) => format!("Enabled user {name}"),
        UserCommand::Delete(_) => format!("Deleted user {name}"),
        UserCommand::Revoke(of) => format!("Revoked {} of user {}", ended(), of.user()),
        UserCommand::ResetFactors(_) => {
            let removed = counted(answer.number("factors_removed"), "two-factor method");
            let text = format!("Removed {removed} of user {name}; revoked {}", ended());
            return Some((text, &["enrolment_link", "link_expires_at"]));
        }
        UserCommand::UnblockFactors(_) if answer.is("unblocked") => format!("Unblocked the codes of user {name}"),
        UserCommand::UnblockFactors(_) => format!("The codes of user {name} were not blocked"),
        _ => return None,
    };
    Some((text, &[]))
}

fn of_client(command: &ClientCommand, answer: &Facts<'_>) -> Option<Sentence> {
    const SECRET: &[&str] = &["client_secret"];
    Some(match command {
        ClientCommand::Add(new) => (format!("Created client {}", new.id), SECRET),
        ClientCommand::Set { client, .. } => (format!("Changed client {client}"), SECRET),
        ClientCommand::RotateSecret { client, .. } => (format!("Generated a new secret of client {client}"), SECRET),
        ClientCommand::Secret(SecretCommand::Add { client, .. }) => {
            (format!("Generated a further secret of client {client}"), SECRET)
        }
        ClientCommand::Secret(SecretCommand::Remove { client, secret }) => {
            (format!("Removed the secret {secret} of client {client}"), &[])
        }
        ClientCommand::Disable(id) => (format!("Disabled client {id}; revoked {}", answer.grants()), &[]),
        ClientCommand::Enable(id) => (format!("Enabled client {id}"), &[]),
        ClientCommand::Approve(id) => (format!("Approved client {id}"), &[]),
        ClientCommand::RevokeApproval(id) => (format!("Revoked the approval of client {id}"), &[]),
        ClientCommand::Delete(id) => (format!("Deleted client {id}"), &[]),
        ClientCommand::GenerateToken { .. } => {
            let text = format!("Generated an initial access token, valid until {}", answer.text("expires_at"));
            (text, &["initial_access_token"])
        }
        ClientCommand::RevokeToken { id } => (format!("Revoked registration token {id}"), &[]),
        ClientCommand::List { .. }
        | ClientCommand::ListTokens
        | ClientCommand::Show(_)
        | ClientCommand::HashSecret
        | ClientCommand::Secret(SecretCommand::List(_)) => return None,
    })
}

/// Members of an answer, as sentences use them.
struct Facts<'a>(&'a Members);

impl Facts<'_> {
    fn text(&self, name: &str) -> String {
        self.0.get(name).map_or_else(String::new, |value| text_of(name, value))
    }

    /// Returns the e-mail address of a user, or the username of a user without an address.
    fn sign_in_name(&self) -> String {
        self.text(if self.0.contains_key("email") { "email" } else { "username" })
    }

    fn number(&self, name: &str) -> u64 {
        self.0.get(name).and_then(Value::as_u64).unwrap_or_default()
    }

    fn is(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or_default()
    }

    fn sessions(&self) -> String {
        counted(self.number("sessions_ended"), "session")
    }

    fn grants(&self) -> String {
        counted(self.number("grants_ended"), "grant")
    }
}

/// Returns `1 grant` or `3 grants`.
pub(super) fn counted(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}
