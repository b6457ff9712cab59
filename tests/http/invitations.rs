//! Tests invitations: the message that an administrator's command creates, and the page that
//! accepts it.

use std::time::Duration;

use sealgate_admin::command::Command;
use sealgate_admin::{CommandContext, CommandError, execute};
use sealgate_domain::account_links::{AccountLinks, INVITATION_LIFE};
use sealgate_domain::audit::{AuditFilter, AuditKind};
use sealgate_domain::mail::{Mail, MailMessage};
use sealgate_domain::user::{Email, User};
use sealgate_system::clock::Clock;
use serde_json::{Value, json};

use crate::mailbox::{MAIL, due, token};
use crate::support::*;

const ANNA: &str = "anna@example.test";
pub(crate) const NEW: &str = "ceren@example.test";

const APP: &str = "[[app]]\nname = \"wiki\"\ntitle = \"Ortak Wiki\"\nhost = \"wiki.example.test\"\n\
    upstreams = [\"http://127.0.0.1:9\"]\n[[app.route]]\npath = \"/\"\naccess = \"signed_in\"\n";

pub(crate) async fn provider() -> Provider {
    Provider::with(&format!("{MAIL}{APP}")).await
}

/// Returns the queued messages.
async fn mails(provider: &Provider) -> Vec<MailMessage> {
    let store = &provider.sealgate.store;
    due(store, provider.clock.now()).await.into_iter().map(|(_, message)| message).collect()
}

/// Returns the token of the only queued message, an invitation to this address.
pub(crate) async fn token_for(provider: &Provider, email: &str) -> String {
    let mails = mails(provider).await;
    let [mail] = &mails[..] else { panic!("{mails:?}") };
    assert_eq!(mail.to.as_ref().map(Email::as_str), Some(email));
    token(mail).to_owned()
}

pub(crate) async fn command(provider: &Provider, command: Value) -> Result<Value, Vec<String>> {
    let command: Command = serde_json::from_value(json!({ "user": command })).unwrap();
    let answer = execute(&CommandContext::new(&provider.sealgate), command).await;
    answer.map(|answer| json!(answer.members())).map_err(CommandError::into_lines)
}

pub(crate) async fn invite(provider: &Provider, email: &str) -> Result<Value, Vec<String>> {
    invite_to(provider, email, None).await
}

pub(crate) async fn invite_to(provider: &Provider, email: &str, app: Option<&str>) -> Result<Value, Vec<String>> {
    let invitee = json!({ "email": email, "username": null, "name": "Ceren Kaya", "phone": null, "picture": null,
        "roles": [], "groups": ["staff"], "app": app });
    command(provider, json!({ "invite_user": invitee })).await
}

pub(crate) async fn change(provider: &Provider, email: &str, change: &str) -> Result<Value, Vec<String>> {
    let person = json!({ "email": email });
    let arguments = if change == "resend" { json!({ "user": person }) } else { person };
    command(provider, json!({ format!("{change}_invitation"): arguments })).await
}

pub(crate) async fn shown(provider: &Provider, email: &str) -> Value {
    command(provider, json!({ "show": { "email": email } })).await.unwrap()
}

pub(crate) async fn user(provider: &Provider, email: &str) -> Option<User> {
    provider.sealgate.store.user_by_email(&Email::parse(email).unwrap()).await.unwrap()
}

pub(crate) async fn links(provider: &Provider, email: &str) -> Option<AccountLinks> {
    let sub = user(provider, email).await.unwrap().sub;
    provider.sealgate.store.account_links(sub).await.unwrap().map(|links| links.value)
}

async fn count(provider: &Provider, kind: AuditKind) -> usize {
    provider.sealgate.audit.write(&provider.sealgate.store).await.unwrap();
    let filter = AuditFilter { kinds: vec![kind], ..AuditFilter::default() };
    provider.sealgate.store.audit_page(&filter, None, 100).await.unwrap().records.len()
}

#[tokio::test]
async fn an_invitation_creates_an_account_without_credentials_and_one_message() {
    let provider = provider().await;
    let answer = invite_to(&provider, NEW, Some("wiki")).await.unwrap();
    assert_eq!(answer["invitation"], "invited");
    let now = provider.clock.now();
    assert_eq!(answer["invitation_expires_at"], now.plus(INVITATION_LIFE).seconds());
    let made = user(&provider, NEW).await.unwrap();
    assert!(made.password.is_none() && !made.email_verified && made.groups.contains("staff"), "{made:?}");
    let [MailMessage { to, mail: Mail::Invitation { token, inviter, app }, origin, .. }] = &mails(&provider).await[..]
    else {
        panic!("one mail")
    };
    assert_eq!(to.as_ref().map(Email::as_str), Some(NEW));
    assert_eq!((inviter.as_deref(), app.as_deref(), origin), (None, Some("Ortak Wiki"), &None));
    assert!(!answer.to_string().contains(token.as_str()), "the inviter does not receive the link");
    let kept = serde_json::to_string(&links(&provider, NEW).await).unwrap();
    assert!(!kept.contains(token.as_str()) && kept.contains("wiki"), "{kept}");
    assert_eq!(count(&provider, AuditKind::InvitationSent).await, 1);
    assert_eq!(count(&provider, AuditKind::UserCreated).await, 1);
    assert_eq!(shown(&provider, NEW).await["invitation_app"], "wiki");
    let listed = command(&provider, json!({ "list": {} })).await.unwrap();
    let row = listed["rows"]["users"].as_array().unwrap().iter().find(|row| row["email"] == NEW).unwrap().clone();
    assert_eq!(row["invitation"], "invited");
    provider.clock.set(now.plus(INVITATION_LIFE));
    assert_eq!(shown(&provider, NEW).await["invitation"], "expired");
}

#[tokio::test]
async fn an_invalid_invitation_is_reported_and_creates_nothing() {
    let provider = provider().await;
    for (email, app, told) in [
        (ANNA, None, "a user with the e-mail address anna@example.test already exists"),
        ("a..b@example.test", None, "mail servers do not accept this address"),
        (NEW, Some("wikki"), "no application has the name \"wikki\"; the configuration has wiki"),
    ] {
        let faults = invite_to(&provider, email, app).await.unwrap_err();
        assert!(faults.len() == 1 && faults[0].contains(told), "{faults:?}");
    }
    assert!(user(&provider, NEW).await.is_none() && mails(&provider).await.is_empty());
}

#[tokio::test]
async fn a_new_invitation_link_replaces_the_old_one_in_the_outbox() {
    let provider = provider().await;
    invite_to(&provider, NEW, Some("wiki")).await.unwrap();
    let (first, before) = (token_for(&provider, NEW).await, links(&provider, NEW).await.unwrap());
    // An expired invitation can be renewed.
    provider.clock.set(provider.clock.now().plus(INVITATION_LIFE).plus(Duration::from_hours(1)));
    let answer = change(&provider, NEW, "resend").await.unwrap();
    assert_eq!((answer["invitation"].as_str(), answer["invitation_app"].as_str()), (Some("invited"), Some("wiki")));
    let after = links(&provider, NEW).await.unwrap();
    assert_ne!(before.invitation.unwrap().hash, after.invitation.unwrap().hash);
    assert_ne!(token_for(&provider, NEW).await, first);
    assert_eq!(count(&provider, AuditKind::InvitationSent).await, 2);
}

#[tokio::test]
async fn a_withdrawn_invitation_is_invalid_and_can_be_repeated() {
    let provider = provider().await;
    invite(&provider, NEW).await.unwrap();
    assert_eq!(change(&provider, NEW, "revoke").await.unwrap()["invitation_withdrawn"], true);
    assert!(mails(&provider).await.is_empty() && links(&provider, NEW).await.is_none());
    assert!(shown(&provider, NEW).await["invitation"].is_null());
    let again = change(&provider, NEW, "revoke").await.unwrap_err();
    assert_eq!(again, ["ceren@example.test has no pending invitation"]);
    assert_eq!(count(&provider, AuditKind::InvitationWithdrawn).await, 1);
    change(&provider, NEW, "resend").await.unwrap();
    assert_eq!(shown(&provider, NEW).await["invitation"], "invited");
}

#[tokio::test]
async fn used_and_disabled_accounts_cannot_be_invited() {
    let provider = provider().await;
    let used = change(&provider, ANNA, "resend").await.unwrap_err();
    assert!(used[0].contains("already has a password or a passkey"), "{used:?}");
    invite(&provider, NEW).await.unwrap();
    command(&provider, json!({ "disable": { "email": NEW } })).await.unwrap();
    assert!(links(&provider, NEW).await.is_none(), "disabling withdraws");
    let disabled = change(&provider, NEW, "resend").await.unwrap_err();
    assert!(disabled[0].contains("is disabled"), "{disabled:?}");
}

#[tokio::test]
async fn concurrent_invitations_of_an_address_succeed_once() {
    let provider = provider().await;
    let (one, other) = tokio::join!(invite(&provider, NEW), invite(&provider, NEW));
    assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
    assert_eq!(mails(&provider).await.len(), 1);
}

/// Invites this number of users with a file.
async fn invite_many(provider: &Provider, name: &str, count: usize) -> Result<Value, Vec<String>> {
    let row = |number: usize| {
        json!({ "line": number + 2, "email": format!("{name}{number}@example.test"), "email_verified": false, "name": "P",
            "username": "", "phone_number": "", "groups": [], "password_hash": "" })
    };
    let rows: Vec<Value> = (0..count).map(row).collect();
    let file = json!({ "rows": rows, "faults": [], "skipped": 0 });
    let invitees = json!({ "file": file, "groups": [], "app": null, "language": null, "dry_run": false });
    command(provider, json!({ "invite_many": invitees })).await
}

#[tokio::test]
async fn invitations_leave_room_in_the_outbox_for_awaited_mails() {
    let provider = Provider::with(&format!("{MAIL}per_minute = 6000\n")).await;
    invite_many(&provider, "a", 4_500).await.unwrap();
    let refused = invite_many(&provider, "b", 4_501).await.unwrap_err();
    let told = "the outbox has room for 4500 invitations, and the file has 4501; split the file, or wait";
    assert!(refused.len() == 1 && refused[0].starts_with(told), "{refused:?}");
    assert!(user(&provider, "b0@example.test").await.is_none());
    invite_many(&provider, "b", 4_500).await.unwrap();
    assert!(invite_many(&provider, "c", 1).await.is_err());
    // Single invitations are still possible, because the administrator waits for each.
    invite(&provider, NEW).await.unwrap();
}

#[tokio::test]
async fn invitations_that_cannot_be_sent_in_time_are_refused() {
    let provider = Provider::with(&format!("{MAIL}per_minute = 1\n")).await;
    let refused = invite_many(&provider, "a", 48 * 60 + 1).await.unwrap_err();
    assert!(
        refused[0].contains("delivery of an invitation is attempted for 48 hours; raise mail.per_minute"),
        "{refused:?}"
    );
    assert!(user(&provider, "a0@example.test").await.is_none());
    invite_many(&provider, "a", 48 * 60).await.unwrap();
}
