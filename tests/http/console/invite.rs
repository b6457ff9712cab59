//! Tests invitations of several users in the console.

use super::*;

use sealgate_domain::mail::{Mail, MailMessage};

use super::roles::{KEYS, MERT, add_person, send};
use crate::mailbox::{MAIL, due};

const INVITE: &str = "/console/users/invite";
const LINES: &str =
    "Ayşe Yılmaz <ayse@example.test>\n\nberk@example.test; Berk Öz\n\"Kaya, Ceren\" <Ceren@example.test>,";

async fn mailing() -> Provider {
    provider_with(MAIL).await
}

async fn mails(provider: &Provider) -> Vec<MailMessage> {
    due(&provider.sealgate.store, provider.clock.now()).await.into_iter().map(|(_, message)| message).collect()
}

async fn user(provider: &Provider, email: &str) -> Option<User> {
    provider.sealgate.store.user_by_email(&Email::parse(email).unwrap()).await.unwrap()
}

#[tokio::test]
async fn several_users_are_invited_after_a_preview() {
    let provider = mailing().await;
    let anna = signed_in(&provider, ANNA).await;
    assert!(anna.get("/console/users").await.text().contains(INVITE));
    let question = press_only(&anna, INVITE, &[("users", LINES), ("groups", "staff\nnight shift")]).await;
    assert!(is_confirmation(&question) && question.text().contains("3 users are invited"), "{question:?}");
    for shown in ["Ayşe Yılmaz", "ayse@example.test", "Berk Öz", "Kaya, Ceren", "night shift"] {
        assert!(question.text().contains(shown), "{shown}");
    }
    assert!(mails(&provider).await.is_empty() && user(&provider, "ayse@example.test").await.is_none());
    let page = anna.submit(&question, &[("sure", "yes")]).await;
    assert!(page.status == 200 && page.text().contains("The invitations were sent."), "{page:?}");
    for (email, name) in
        [("ayse@example.test", "Ayşe Yılmaz"), ("berk@example.test", "Berk Öz"), ("ceren@example.test", "Kaya, Ceren")]
    {
        let user = user(&provider, email).await.unwrap();
        assert!(user.name == name && user.password.is_none() && user.roles.is_empty(), "{user:?}");
        assert_eq!(user.groups.iter().map(String::as_str).collect::<Vec<_>>(), ["night shift", "staff"]);
    }
    let sent = mails(&provider).await;
    assert!(sent.len() == 3 && sent.iter().all(|message| matches!(message.mail, Mail::Invitation { .. })), "{sent:?}");
    // A second click and a retry lead to the same page and change nothing.
    let again = anna.submit(&question, &[("sure", "yes")]).await;
    assert!(again.text().contains("The invitations were sent.") && mails(&provider).await == sent, "{again:?}");
}

#[tokio::test]
async fn one_wrong_line_invites_nobody_and_every_fault_names_its_line() {
    let provider = mailing().await;
    let anna = signed_in(&provider, ANNA).await;
    let lines = "Ayşe <ayse@example.test>\nben@example.test\nBen <BEN@example.test>\nC <c@>\nAyşe 2, AYSE@example.test";
    let page = press(&anna, INVITE, &[("users", lines), ("groups", "a,b")]).await;
    for fault in [
        "Line 2: the name is missing",
        "Line 3: this address already belongs to a user",
        "Line 4: the email address is missing or invalid",
        "Line 5: this address is already in line 1",
        "Groups: write one per line",
    ] {
        assert!(page.text().contains(fault), "{fault}: {page:?}");
    }
    assert!(page.text().contains("Ayşe &#60;ayse@example.test&#62;"), "the lines stay: {page:?}");
    let many: Vec<String> = (0..101).map(|number| format!("U{number}, u{number}@example.test")).collect();
    let page = press(&anna, INVITE, &[("users", &many.join("\n"))]).await;
    assert!(page.text().contains("Enter at most 100 users."), "{page:?}");
    let page = press(&anna, INVITE, &[("users", " \n")]).await;
    assert!(page.text().contains("Enter at least one user."), "{page:?}");
    assert!(mails(&provider).await.is_empty() && user(&provider, "ayse@example.test").await.is_none());
}

#[tokio::test]
async fn an_address_that_is_taken_by_the_confirmation_invites_nobody() {
    let provider = mailing().await;
    let anna = signed_in(&provider, ANNA).await;
    let question = press_only(&anna, INVITE, &[("users", LINES)]).await;
    let email = Email::parse("berk@example.test");
    let berk = User { sub: Subject::from_random([9; 16]), email, ..provider.ben.clone() };
    assert_eq!(provider.sealgate.store.add_user(&berk).await.unwrap(), AddOutcome::Added);
    let page = anna.submit(&question, &[("sure", "yes")]).await;
    assert!(page.text().contains("Line 3: this address already belongs to a user"), "{page:?}");
    assert!(mails(&provider).await.is_empty() && user(&provider, "ayse@example.test").await.is_none());
}

#[tokio::test]
async fn the_preview_names_a_console_role_and_a_late_form_asks_again() {
    let provider = provider_with(&format!("admins = \"staff\"\n{MAIL}")).await;
    let anna = signed_in(&provider, ANNA).await;
    let fields = [("users", LINES), ("groups", "staff")];
    let question = press_only(&anna, INVITE, &fields).await;
    assert!(question.text().contains("Members of this group can see and change everything"), "{question:?}");
    // By the time of the confirmation, the sign-in is older than five minutes.
    provider.clock.set(provider.clock.now().plus(Duration::from_secs(301)));
    let login = anna.submit(&question, &[("sure", "yes")]).await;
    assert_login(&login);
    assert!(mails(&provider).await.is_empty());
    let again = anna.sign_in(&login, ANNA).await;
    assert!(is_confirmation(&again) && mails(&provider).await.is_empty(), "{again:?}");
    let page = anna.submit(&again, &[("sure", "yes")]).await;
    assert!(page.text().contains("The invitations were sent.") && mails(&provider).await.len() == 3, "{page:?}");
}

#[tokio::test]
async fn without_mail_there_is_no_such_page() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    assert_eq!(anna.get(INVITE).await.status, 404);
    assert!(!anna.get("/console/users").await.text().contains(INVITE));
}

#[tokio::test]
async fn a_user_manager_invites_users_into_managed_groups_only() {
    let provider = provider_with(&format!("{KEYS}{MAIL}{}", crate::app_passwords::APPS)).await;
    let mert_sub = add_person(&provider, 30, "mert", &["helpdesk"]).await;
    let mert = signed_in(&provider, MERT).await;
    assert!(mert.get("/console/users").await.text().contains(INVITE));
    let page = mert.get(INVITE).await;
    assert!(page.text().contains("name=\"member\" value=\"students\""), "{page:?}");
    for absent in ["name=\"groups\"", "name=\"app\"", "finance"] {
        assert!(!page.text().contains(absent), "{absent}: {page:?}");
    }
    for refused in [
        &[("groups", "finance")][..],
        &[("groups", "students\nhelpdesk")],
        &[("member", "audit")],
        &[("member", "students"), ("member", "it")],
        &[("member", "students"), ("app", "wiki")],
    ] {
        for sure in [&[][..], &[("sure", "yes")]] {
            let reply = send(&mert, mert_sub, INVITE, &[&[("users", LINES)], refused, sure].concat()).await;
            assert_eq!(reply.status, 403, "{refused:?}: {reply:?}");
        }
    }
    for sure in [&[][..], &[("sure", "yes")]] {
        let page = send(&mert, mert_sub, INVITE, &[&[("users", LINES)], sure].concat()).await;
        assert!(page.status == 200 && page.text().contains("Choose at least one group."), "{page:?}");
        assert!(page.text().contains("Ayşe Yılmaz &#60;ayse@example.test&#62;"), "{page:?}");
    }
    assert!(mails(&provider).await.is_empty() && user(&provider, "ayse@example.test").await.is_none());
    let question = press_only(&mert, INVITE, &[("users", LINES), ("member", "students"), ("member", "staff")]).await;
    assert!(is_confirmation(&question) && question.text().contains("Berk Öz"), "{question:?}");
    let page = mert.submit(&question, &[("sure", "yes")]).await;
    assert!(page.status == 200 && page.text().contains("The invitations were sent."), "{page:?}");
    let ayse = user(&provider, "ayse@example.test").await.unwrap();
    assert_eq!(ayse.groups.iter().map(String::as_str).collect::<Vec<_>>(), ["staff", "students"]);
    assert!(ayse.roles.is_empty() && !ayse.email_verified && ayse.by_manager.email);
    let sent = mails(&provider).await;
    let is_of_mert = |message: &MailMessage| matches!(&message.mail, Mail::Invitation { inviter: Some(name), app: None, .. } if name == "Name of mert");
    assert!(sent.len() == 3 && sent.iter().all(is_of_mert), "{sent:?}");
    let again = mert.submit(&question, &[("sure", "yes")]).await;
    assert!(again.text().contains("The invitations were sent.") && mails(&provider).await == sent, "{again:?}");
    provider.sealgate.audit.write(&provider.sealgate.store).await.unwrap();
    let filter = AuditFilter { kinds: vec![AuditKind::InvitationSent], ..AuditFilter::default() };
    let log = provider.sealgate.store.audit_page(&filter, None, 5).await.unwrap().records;
    assert!(log.len() == 3 && log.iter().all(|record| record.event.actor == Actor::UserManager(mert_sub)), "{log:?}");
}
