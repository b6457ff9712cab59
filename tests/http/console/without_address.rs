//! Tests the console's pages about users without an e-mail address.

use serde_json::json;

use super::*;
use crate::mailbox::{self, MAIL};
use crate::without_address::set;

/// Returns a provider with Ben as administrator. Anna has only the username `anna`.
async fn provider_without_address() -> Provider {
    let provider = provider_with(MAIL).await;
    give(&provider, provider.ben.sub, Some(Role::Admin)).await;
    set(&provider, json!({ "username": "anna", "no_email": true, "no_roles": true })).await;
    mailbox::take(&provider.sealgate).await;
    provider
}

#[tokio::test]
async fn the_console_names_a_user_without_an_address_by_the_username() {
    let provider = provider_without_address().await;
    let ben = signed_in(&provider, BEN).await;
    let path = format!("/console/users/{}", provider.anna.sub);
    for list in ["/console/users", "/console/users?find=ann"] {
        let page = ben.get(list).await;
        assert!(
            page.text().contains("<bdi class=\"value\">anna</bdi>") && page.text().contains(&path),
            "{list}: {page:?}"
        );
    }
    let page = ben.get(&path).await;
    assert!(page.status == 200 && page.text().contains("No address"), "{page:?}");
    assert!(page.text().contains("<bdi>anna</bdi>") && !page.text().contains(ANNA), "{page:?}");
    assert!(!page.text().contains("user-resend-invitation"), "{page:?}");
    let page = ben.get(&format!("{path}/security")).await;
    assert!(page.status == 200 && !page.text().contains("user-send-reset-link"), "{page:?}");
    let confirmation = press_only(&ben, &path, &[("action", "disable")]).await;
    assert!(confirmation.text().contains("anna") && !confirmation.text().contains(ANNA), "{confirmation:?}");
    // Both actions send mail.
    provider.change_user(provider.anna.sub, |user| user.password = None).await;
    let page = ben.get(&path).await;
    assert!(!page.text().contains("user-resend-invitation"), "{page:?}");
    for action in ["send-reset-link", "resend-invitation"] {
        let reply = press_only(&ben, &path, &[("action", action)]).await;
        assert_eq!(reply.status, 400, "{action}: {reply:?}");
    }
    assert!(mailbox::take(&provider.sealgate).await.is_empty());
    provider.sealgate.audit.write(&provider.sealgate.store).await.unwrap();
    let log = ben.get("/console/audit?person=anna").await;
    assert!(log.status == 200 && log.text().contains("<bdi>anna</bdi>"), "{log:?}");
}

#[tokio::test]
async fn only_an_invitation_needs_an_address() {
    let provider = provider_without_address().await;
    let ben = signed_in(&provider, BEN).await;
    let new = async |fields: &[(&str, &str)]| {
        let page = ben.get("/console/users/new").await;
        ben.submit(&page, fields).await
    };
    let cem = [("email", ""), ("username", "cem"), ("name", "Cem")];
    let invited = new(&[&cem[..], &[("invite", "yes")]].concat()).await;
    assert!(invited.text().contains("Enter an address such as"), "{invited:?}");
    let neither = new(&[("email", ""), ("username", ""), ("name", "Cem"), ("with-password", "yes")]).await;
    assert!(neither.text().contains("Enter an address such as"), "{neither:?}");
    assert!(mailbox::take(&provider.sealgate).await.is_empty());
    let added = new(&[&cem[..], &[("with-password", "yes")]].concat()).await;
    let password = element(&added, "new-password").unwrap();
    assert!(added.text().contains("No address") && added.text().contains("<bdi>cem</bdi>"), "{added:?}");
    let browser = provider.browser();
    let login = browser.open("/account").await;
    let page = browser.submit(&login, &[("email", "cem"), ("password", &password)]).await;
    assert!(page.status == 200 && page.text().contains("profile-save"), "{page:?}");
    let again = new(&[&cem[..], &[("with-password", "yes")]].concat()).await;
    assert!(again.text().contains("This username belongs to another user"), "{again:?}");
}
