//! Tests links to reset a password that an administrator sends.

use sealgate_domain::mail::{Mail, MailMessage};

use super::*;
use crate::mailbox::{self, MAIL};
use crate::support::is_login;

const NEW: &str = "purple lantern under seven bridges";
const BUTTON: &str = "id=\"user-send-reset-link\"";

async fn mailing() -> Provider {
    let provider = provider_with(MAIL).await;
    provider.change_user(provider.ben.sub, |user| user.email_verified = true).await;
    provider
}

fn page_of(provider: &Provider) -> String {
    format!("/console/users/{}", provider.ben.sub)
}

/// Returns the path of the section with the button.
fn section_of(provider: &Provider) -> String {
    format!("{}/security", page_of(provider))
}

async fn mails(provider: &Provider) -> Vec<MailMessage> {
    let due = mailbox::due(&provider.sealgate.store, provider.clock.now()).await;
    due.into_iter().map(|(_, message)| message).collect()
}

async fn asked(provider: &Provider) -> Vec<AuditEvent> {
    let filter = AuditFilter { kinds: [AuditKind::PasswordResetAsked].into(), ..AuditFilter::default() };
    let store = &provider.sealgate.store;
    provider.sealgate.audit.write(store).await.unwrap();
    let found = store.audit_page(&filter, None, 10).await.unwrap().records;
    found.into_iter().map(|record| record.event).collect()
}

#[tokio::test]
async fn a_reset_link_reaches_its_user_and_works() {
    let provider = mailing().await;
    let anna = signed_in(&provider, ANNA).await;
    let page = anna.get(&section_of(&provider)).await;
    let place = |part: &str| page.text().find(part).unwrap_or_else(|| panic!("no {part}: {page:?}"));
    assert!(place(BUTTON) < place("id=\"user-reset-password\""), "the link is the first choice");
    // A link needs no recent sign-in and no confirmation: it goes to its user only.
    provider.wait(301);
    let page = press_only(&anna, &page_of(&provider), &[("action", "send-reset-link")]).await;
    assert!(page.status == 200 && page.text().contains("A link to set a new password was sent."), "{page:?}");
    let mails = mails(&provider).await;
    let [message @ MailMessage { mail: Mail::Reset { .. }, .. }] = mails.as_slice() else { panic!("{mails:?}") };
    assert_eq!(message.to.as_ref(), provider.ben.email.as_ref());
    let events = asked(&provider).await;
    let [AuditEvent { actor: Actor::Administrator(by), subject, .. }] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((*by, *subject), (provider.anna.sub, Some(provider.ben.sub)));

    let ben = provider.browser();
    let form = ben.open(&format!("/oauth/reset?token={}", mailbox::token(message))).await;
    let done = ben.submit(&form, &[("new-password", NEW)]).await;
    assert!(done.text().contains("Your password was changed"), "{done:?}");
    let login = ben.open("/account").await;
    let account = ben.submit(&login, &[("email", BEN), ("password", NEW)]).await;
    assert!(account.status == 200 && !is_login(&account), "{account:?}");
}

#[tokio::test]
async fn a_reset_link_is_offered_only_where_it_would_work() {
    type Change = fn(&mut User);
    let changes: [Change; 3] =
        [|user| user.email_verified = false, |user| user.password = None, |user| user.state = UserState::Disabled];
    for change in changes {
        let provider = mailing().await;
        let anna = signed_in(&provider, ANNA).await;
        provider.change_user(provider.ben.sub, change).await;
        assert!(!anna.get(&section_of(&provider)).await.text().contains(BUTTON));
        press(&anna, &page_of(&provider), &[("action", "send-reset-link")]).await.assert_error_page();
        assert_eq!(mails(&provider).await, []);
    }
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    assert!(!anna.get(&section_of(&provider)).await.text().contains(BUTTON));
    press(&anna, &page_of(&provider), &[("action", "send-reset-link")]).await.assert_error_page();
}

#[tokio::test]
async fn a_full_outbox_refuses_a_reset_link() {
    let provider = mailing().await;
    let anna = signed_in(&provider, ANNA).await;
    mailbox::fill(&provider.sealgate).await;
    let page = press(&anna, &page_of(&provider), &[("action", "send-reset-link")]).await;
    assert_eq!(page.status, 503, "{page:?}");
    assert_eq!(asked(&provider).await, []);
}
