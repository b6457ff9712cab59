//! Reference page of the audit events.

use std::fmt::Write as _;

use sealgate_domain::audit::AuditKind;

const HEAD: &str = "\
# Audit events

The kinds of events in the audit log: `kind` of a record, and the argument of `sealgate audit --kind`. This page is generated from the program
(`sealgate documents`), and a test compares the two. [Monitor the service](../how-to/monitoring.md#audit-log) describes the log.

| kind | event |
|---|---|
";

/// Returns the page of all kinds in Markdown.
pub(super) fn page() -> String {
    let mut page = String::from(HEAD);
    for kind in AuditKind::ALL {
        // Writing to a String cannot fail.
        let _ = writeln!(page, "| `{}` | {} |", kind.as_str(), meaning(kind));
    }
    page
}

const fn meaning(kind: AuditKind) -> &'static str {
    match kind {
        AuditKind::SignedIn => "a user signed in",
        AuditKind::SignInFailed => "an authentication failed",
        AuditKind::AppSignedIn => "an application behind the gateway started a session for a user who is signed in",
        AuditKind::SignedOut => "a user signed out",
        AuditKind::ConsentGiven => "a user allowed a client to use their data",
        AuditKind::ConsentWithdrawn => "a user withdrew a client's permission to use their data",
        AuditKind::TokensIssued => "a client received tokens for a code",
        AuditKind::TokensRefreshed => "a client refreshed its tokens",
        AuditKind::ReuseDetected => "a used code or a rotated refresh token was presented; its grant ended",
        AuditKind::TokenRevoked => "a client revoked a token",
        AuditKind::GrantsEnded => "grants ended, with their tokens",
        AuditKind::SessionsEnded => "sessions ended",
        AuditKind::UserRevoked => "all sessions and grants of a user ended",
        AuditKind::ClientRegistered => "a client was created or registered itself",
        AuditKind::ClientChanged => "a client was changed",
        AuditKind::ClientDeleted => "a client was deleted",
        AuditKind::UserCreated => "an account was created for a user",
        AuditKind::SelfRegistered => "a user registered an account; the detail gives the sign-in method",
        AuditKind::UserChanged => "an account was changed",
        AuditKind::UserDisabled => "a user was blocked from signing in",
        AuditKind::UserEnabled => "a user may sign in again",
        AuditKind::UserDeleted => "an account was deleted",
        AuditKind::PasswordChanged => "a password was changed",
        AuditKind::PasswordResetAsked => {
            "a password reset was requested; the detail gives the message that was sent, or why no message was sent"
        }
        AuditKind::PasswordReset => "a password was set with a link from an e-mail",
        AuditKind::AddressVerified => "a user proved that they receive e-mail at their account's address",
        AuditKind::AddressChanged => {
            "a user proved that they receive e-mail at a new address, which replaced the account's address"
        }
        AuditKind::AddressRestored => "a change of the address was undone with the link sent to the old address",
        AuditKind::AppPasswordCreated => "a user created an application password",
        AuditKind::AppPasswordRevoked => "an application password was revoked",
        AuditKind::AppCredentialSet => "the name and password of a user at an application were stored or replaced",
        AuditKind::AppCredentialRemoved => "the name and password of a user at an application were removed",
        AuditKind::FactorAdded => {
            "an authenticator app, a security key or a passkey was added; the detail gives its name"
        }
        AuditKind::FactorRemoved => "a factor was removed",
        AuditKind::FactorRenamed => "a factor was renamed",
        AuditKind::RecoveryCodesMade => "recovery codes were created",
        AuditKind::RecoveryCodeUsed => "a recovery code was used",
        AuditKind::FactorFailed => "the second factor was wrong, after the correct password",
        AuditKind::FactorBlocked => "a kind of factor was blocked after too many consecutive failures",
        AuditKind::KeyMayBeCopied => "the signature counter of a security key did not increase",
        AuditKind::FactorsReset => "an administrator removed all factors of a user",
        AuditKind::AccountLinked => "a local user was linked to an account of a directory or an OpenID provider",
        AuditKind::AccountUnlinked => "the link of a user to a directory or an OpenID provider was removed",
        AuditKind::InvitationSent => "a link was sent to accept an account that an administrator or operator created",
        AuditKind::InvitationAccepted => "an invitation was accepted",
        AuditKind::InvitationWithdrawn => "an invitation was withdrawn",
        AuditKind::KeysChanged => "the schedule of the signing keys changed",
        AuditKind::DirectoryLossAccepted => "an administrator accepted that many accounts of a directory are gone",
        AuditKind::MailChanged => {
            "a queued or undeliverable message was retried or deleted, or a test message was sent from the console"
        }
        AuditKind::LogoutNotAccepted => {
            "a client did not accept the logout token of an ended session; at most one event per client in ten minutes"
        }
        AuditKind::ConfigurationReloaded => "a running server loaded another configuration",
        AuditKind::ApiTokenCreated => "a token for the admin API was created; the detail has its ID, scopes and expiry",
        AuditKind::ApiTokenRevoked => "a token for the admin API was removed; the detail has its ID",
        AuditKind::RegistrationTokenCreated => {
            "an initial access token, which registers clients, was created; the detail has its ID, the number of clients and its expiry"
        }
        AuditKind::RegistrationTokenRevoked => "an initial access token was revoked; the detail has its ID",
        AuditKind::AppChanged => {
            "an administrator changed an application or its rules in the console; the detail names the keys"
        }
        AuditKind::AuditExported => {
            "a user of the console began an export of the audit log; the detail gives the format and the filter"
        }
        AuditKind::UsersExported => {
            "a user of the console began an export of users; the detail gives the format, and `filtered` with the \
             number of users if the filter of the list selected them"
        }
    }
}
