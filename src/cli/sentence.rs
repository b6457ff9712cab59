//! What a command has done, as one sentence for users.

use serde_json::Value;

use super::output::shown;
use sealgate_admin::answer::Members;
use sealgate_admin::command::{
    AppPasswordCommand, ClientCommand, Command, ConsentCommand, GrantCommand, MailCommand, SessionCommand, UserCommand,
};

/// The sentence about a command, and the members to print below it, such as a new secret.
pub(super) type Sentence = (String, &'static [&'static str]);

/// Returns the sentence about a command that changes something and gave this answer; `None` for
/// every other command.
pub(super) fn sentence(command: &Command, answer: &Members) -> Option<Sentence> {
    let answer = Facts(answer);
    let text = match command {
        Command::User(command) => return of_user(command, &answer),
        Command::Client(command) => return of_client(command, &answer),
        Command::Session(SessionCommand::Revoke { sid }) => format!("Revoked session {sid}"),
        Command::Session(SessionCommand::RevokeAll(_)) => format!("Revoked {}", answer.sessions()),
        Command::Grant(GrantCommand::Revoke { grant }) => format!("Revoked grant {grant}"),
        Command::Grant(GrantCommand::RevokeAll(_)) => format!("Revoked {}", answer.grants()),
        Command::Consent(ConsentCommand::Revoke { person, client }) if answer.is("withdrawn") => {
            format!("Revoked the consent of user {person} to client {client} and {}", answer.grants())
        }
        Command::Consent(ConsentCommand::Revoke { person, client }) => {
            format!("Revoked {} of client {client} for user {person}; there was no consent", answer.grants())
        }
        Command::AppPassword(AppPasswordCommand::Revoke { person, .. }) => format!(
            "Revoked application password {} of user {person} for application {}",
            answer.text("name"),
            answer.text("app")
        ),
        Command::Mail(MailCommand::Retry { id }) => format!("Queued mail {id} for another attempt"),
        Command::Mail(MailCommand::Delete { id }) => format!("Deleted mail {id}"),
        _ => return None,
    };
    Some((text, &[]))
}

fn of_user(command: &UserCommand, answer: &Facts<'_>) -> Option<Sentence> {
    let email = answer.text("email");
    let ended = || format!("{} and {}", answer.sessions(), answer.grants());
    let text = match command {
        UserCommand::Add(_) => format!("Created user {email} with ID {}", answer.text("sub")),
        UserCommand::InvitePerson(_) | UserCommand::ResendInvitation { .. }
            if answer.0.contains_key("invitation_link") =>
        {
            let text = format!(
                "Invited user {email} with ID {}; the link works once, until {}",
                answer.text("sub"),
                answer.text("invitation_expires_at")
            );
            return Some((text, &["invitation_link"]));
        }
        UserCommand::InvitePerson(_) => format!(
            "Invited user {email} with ID {}; the link is valid until {}",
            answer.text("sub"),
            answer.text("invitation_expires_at")
        ),
        UserCommand::ResendInvitation { .. } => {
            format!(
                "Sent a new invitation to {email}; the link is valid until {}",
                answer.text("invitation_expires_at")
            )
        }
        UserCommand::RevokeInvitation(_) => format!("Revoked the invitation of user {email}"),
        UserCommand::Set { .. } => format!("Changed user {email}"),
        UserCommand::SetPassword { .. } => format!("Set the password of user {email}; revoked {}", ended()),
        UserCommand::Disable(_) => format!("Disabled user {email}; revoked {}", ended()),
        UserCommand::Enable(_) => format!("Enabled user {email}"),
        UserCommand::Delete(_) => format!("Deleted user {email}"),
        UserCommand::Revoke(of) => format!("Revoked {} of user {}", ended(), of.person()),
        UserCommand::ResetFactors(_) => {
            let removed = counted(answer.number("factors_removed"), "two-factor method");
            let text = format!("Removed {removed} of user {email}; revoked {}", ended());
            return Some((text, &["enrolment_link", "link_expires_at"]));
        }
        UserCommand::UnblockFactors(_) if answer.is("unblocked") => format!("Unblocked the codes of user {email}"),
        UserCommand::UnblockFactors(_) => format!("The codes of user {email} were not blocked"),
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
        ClientCommand::Disable(id) => (format!("Disabled client {id}; revoked {}", answer.grants()), &[]),
        ClientCommand::Enable(id) => (format!("Enabled client {id}"), &[]),
        ClientCommand::Approve(id) => (format!("Approved client {id}"), &[]),
        ClientCommand::RevokeApproval(id) => (format!("Revoked the approval of client {id}"), &[]),
        ClientCommand::Delete(id) => (format!("Deleted client {id}"), &[]),
        ClientCommand::GenerateToken { .. } => {
            let text = format!("Generated an initial access token, valid until {}", answer.text("expires_at"));
            (text, &["initial_access_token"])
        }
        ClientCommand::List { .. } | ClientCommand::Show(_) => return None,
    })
}

/// Members of an answer, for sentences.
struct Facts<'a>(&'a Members);

impl Facts<'_> {
    fn text(&self, name: &str) -> String {
        self.0.get(name).map_or_else(String::new, |value| shown(name, value))
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
