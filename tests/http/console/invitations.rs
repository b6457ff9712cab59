//! Tests invitations in the console.

use sealgate_domain::mail::{Mail, MailMessage};

use super::*;
use crate::mailbox::{MAIL, due};

const NEW: &str = "ceren@example.test";
const APP: &str = "[[app]]\nname = \"wiki\"\ntitle = \"Ortak Wiki\"\nhost = \"wiki.example.test\"\n\
    upstreams = [\"http://127.0.0.1:9\"]\n[[app.route]]\npath = \"/\"\naccess = \"signed_in\"\n";

async fn mailing() -> Provider {
    provider_with(&format!("{MAIL}{APP}")).await
}

async fn mails(provider: &Provider) -> Vec<MailMessage> {
    let due = due(&provider.sealgate.store, provider.clock.now()).await;
    due.into_iter().map(|(_, message)| message).collect()
}

async fn invited(provider: &Provider) -> User {
    provider.sealgate.store.user_by_email(&Email::parse(NEW).unwrap()).await.unwrap().unwrap()
}

/// Returns the user's state as shown in the list of users.
async fn listed(browser: &Browser<'_>) -> String {
    let list = browser.get("/console/users").await;
    let row = list.text().split("\n<tr>").skip(1).find(|row| row.contains(NEW)).unwrap().to_owned();
    row.split("data-label=\"State\">").nth(1).unwrap().split("</td>").next().unwrap().to_owned()
}

#[tokio::test]
async fn an_administrator_can_invite_resend_and_withdraw() {
    let provider = mailing().await;
    let anna = signed_in(&provider, ANNA).await;
    let form = [("email", NEW), ("name", "Ceren Kaya"), ("groups", "staff"), ("app", "wiki"), ("invite", "yes")];
    let page = press(&anna, "/console/users/new", &form).await;
    assert!(page.text().contains("The invitation was sent.") && element(&page, "new-password").is_none(), "{page:?}");
    let user = invited(&provider).await;
    assert!(user.password.is_none() && user.groups.contains("staff"));
    let mails_now = mails(&provider).await;
    let [MailMessage { mail: Mail::Invitation { inviter, app, .. }, .. }] = &mails_now[..] else {
        panic!("{mails_now:?}")
    };
    assert_eq!((inviter.as_deref(), app.as_deref()), (Some("Anna Şahin"), Some("Ortak Wiki")));
    assert!(listed(&anna).await.contains("Invited"));

    let path = format!("/console/users/{}", user.sub);
    let page = press(&anna, &path, &[("action", "resend-invitation")]).await;
    assert!(page.text().contains("The invitation was sent."), "{page:?}");
    let again = mails(&provider).await;
    assert!(again.len() == 1 && again != mails_now, "the old one is not sent any more");
    let page = press(&anna, &path, &[("action", "withdraw-invitation")]).await;
    assert!(page.text().contains("The invitation was withdrawn") && mails(&provider).await.is_empty(), "{page:?}");
    assert!(page.text().contains("no valid invitation") && !page.text().contains("user-withdraw-invitation"));
    assert!(listed(&anna).await.contains("No password"));
    press(&anna, &path, &[("action", "resend-invitation")]).await;
    provider.clock.set(provider.clock.now().plus(Duration::from_hours(7 * 24)));
    let anna = signed_in(&provider, ANNA).await;
    assert!(listed(&anna).await.contains("Invitation expired"));
    assert!(anna.get(&path).await.text().contains("It has expired."));
    // A user who already signs in cannot be invited again.
    let own = anna.get(&format!("/console/users/{}", provider.ben.sub)).await;
    assert!(!own.text().contains("resend-invitation"), "{own:?}");
}

#[tokio::test]
async fn a_failed_invitation_is_explained_and_a_password_can_be_set_instead() {
    let provider = mailing().await;
    let anna = signed_in(&provider, ANNA).await;
    let page =
        press(&anna, "/console/users/new", &[("email", "a..b@example.test"), ("name", "X"), ("invite", "yes")]).await;
    assert!(page.text().contains("id=\"email-wrong\"") && mails(&provider).await.is_empty(), "{page:?}");
    let form = [("email", NEW), ("name", "Ceren"), ("with-password", "yes")];
    let page = press(&anna, "/console/users/new", &form).await;
    assert!(element(&page, "new-password").is_some() && mails(&provider).await.is_empty(), "{page:?}");
}

#[tokio::test]
async fn without_mail_the_console_offers_no_invitation() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let page = anna.get("/console/users/new").await;
    assert!(page.text().contains("id=\"user-add\"") && !page.text().contains("user-invite"), "{page:?}");
    let form = [("email", NEW), ("name", "Ceren"), ("invite", "yes")];
    press(&anna, "/console/users/new", &form).await.assert_error_page();
}
