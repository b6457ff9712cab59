//! Tests that an administrator gives a role to the sign-in data that the confirmation has shown, and that a
//! user manager cannot sign in as a user who has got a role.

use sealgate_admin::command::{Command, UserCommand};
use sealgate_admin::user_settings::UserChanges;
use sealgate_admin::{CommandContext, UserRef, execute};

use super::roles::{KEYS, MERT, send};
use super::user_manager::{School, of, page_of};
use super::*;
use crate::factors::{app, key, record};
use crate::mailbox::{self, MAIL};
use crate::meddler::At;
use crate::reset::{forgot_page, link_of, work};
use sealgate_domain::mail::Mail;

const BULK: &str = "/console/users/bulk";
const MEMBERS: &str = "/console/groups/members";
const MIA: &str = "mia@example.test";
const WAYS: [&str; 3] = ["user", "several users", "group"];

async fn school() -> School {
    let school = of(provider_with(&format!("{KEYS}{MAIL}")).await).await;
    school.provider.change_user(school.mia, |user| user.email_verified = true).await;
    school
}

/// Asks to give Mia the role `auditor`. Returns the confirmation.
async fn ask(school: &School, anna: &Browser<'_>, way: &str) -> Reply {
    let (mia, sub) = (school.mia.to_string(), school.provider.anna.sub);
    let question = match way {
        "user" => {
            let shown = [("shown_groups", "students"), ("shown_roles", ""), ("groups", "students")];
            let form = [&[("action", "save"), ("role_auditor", "yes")][..], &shown].concat();
            send(anna, sub, &page_of(school.mia), &form).await
        }
        "several users" => {
            let form = [("action", "add-to-group"), ("to_group", "audit"), ("user", &*mia)];
            send(anna, sub, BULK, &form).await
        }
        _ => {
            school.provider.change_user(school.mia, |user| _ = user.groups.insert("math".to_owned())).await;
            send(anna, sub, MEMBERS, &[("action", "rename"), ("name", "math"), ("to", "audit")]).await
        }
    };
    assert!(is_confirmation(&question), "{way}: {question:?}");
    question
}

async fn confirm(anna: &Browser<'_>, question: &Reply) -> Reply {
    anna.submit(question, &[("sure", "yes")]).await
}

async fn has_role(school: &School) -> bool {
    let mia = school.user(school.mia).await;
    !school.provider.sealgate.config.console.roles_of(&mia).is_empty()
}

/// Returns whether this password signs in as the user with this name.
async fn opens(school: &School, name: &str, password: &str) -> bool {
    let browser = school.provider.browser();
    let login = browser.open("/account").await;
    let page = browser.submit(&login, &[("email", name), ("password", password)]).await;
    page.status == 200 && browser.get("/account").await.status == 200
}

/// The user manager sets a password of Mia. Returns it.
async fn set_password(school: &School, mert: &Browser<'_>) -> String {
    let reply = send(mert, school.mert, &page_of(school.mia), &[("action", "reset-password"), ("sure", "yes")]).await;
    assert_eq!(reply.status, 303, "{reply:?}");
    element(&mert.follow(reply).await, "new-password").unwrap()
}

async fn set_address(school: &School, mert: &Browser<'_>, address: &str) {
    let form = [("action", "save-profile"), ("name", "Mia"), ("email", address), ("sure", "yes")];
    assert_eq!(send(mert, school.mert, &page_of(school.mia), &form).await.status, 303);
}

async fn promoted_at_once(school: &School) {
    let changes = UserChanges { roles: vec![Role::Admin], ..UserChanges::default() };
    let set = UserCommand::Set { user: UserRef::Sub(school.mia), changes: changes.into() };
    execute(&CommandContext::new(&school.provider.sealgate), Command::User(set)).await.unwrap();
    assert!(has_role(school).await);
}

#[tokio::test]
async fn sign_in_data_that_changed_since_the_confirmation_are_confirmed_again() {
    for way in WAYS {
        for change in ["password", "address", "factors"] {
            let school = school().await;
            let mert = signed_in(&school.provider, MERT).await;
            let anna = signed_in(&school.provider, ANNA).await;
            let question = ask(&school, &anna, way).await;
            match change {
                "password" => _ = set_password(&school, &mert).await,
                "address" => set_address(&school, &mert, "other@example.test").await,
                _ => {
                    let reset = [("action", "reset-factors"), ("sure", "yes")];
                    assert_eq!(send(&mert, school.mert, &page_of(school.mia), &reset).await.status, 303);
                }
            }
            let page = confirm(&anna, &question).await;
            assert!(is_confirmation(&page), "{way} {change}: {page:?}");
            assert!(!has_role(&school).await, "{way} {change}");
            // Sending the old confirmation again does not help.
            let again = confirm(&anna, &question).await;
            assert!(is_confirmation(&again) && !has_role(&school).await, "{way} {change}: {again:?}");
            let reply = anna.submit_only(&page, &[("sure", "yes")]).await;
            assert!(reply.status == 303 && has_role(&school).await, "{way} {change}: {reply:?}");
            // A second click leads to the same page.
            let again = anna.submit_only(&page, &[("sure", "yes")]).await;
            assert_eq!((again.status, again.location()), (303, reply.location()), "{way} {change}");
        }
    }
}

/// The confirmation is compared in the commit, not only before it.
#[tokio::test]
async fn sign_in_data_that_change_during_the_commit_are_confirmed_again() {
    for way in WAYS {
        let (provider, meddler) = Provider::meddled_with(&format!("{ON}\n{KEYS}")).await;
        give(&provider, provider.anna.sub, Some(Role::Admin)).await;
        let school = of(provider).await;
        let mert = signed_in(&school.provider, MERT).await;
        let anna = signed_in(&school.provider, ANNA).await;
        let question = ask(&school, &anna, way).await;
        let stop = meddler.stop(At::BeforeCommit, b'u');
        let (page, password) = tokio::join!(confirm(&anna, &question), stop.meanwhile(set_password(&school, &mert)));
        // A change to several users reports who was left out.
        let left_out = page.text().contains("has changed in the meantime");
        assert!(if way == "several users" { left_out } else { is_confirmation(&page) }, "{way}: {page:?}");
        assert!(!has_role(&school).await && opens(&school, MIA, &password).await, "{way}");
    }
}

#[tokio::test]
async fn a_role_removes_the_password_that_a_user_manager_set() {
    for way in ["user", "several users", "group", "command"] {
        let school = school().await;
        let mert = signed_in(&school.provider, MERT).await;
        let anna = signed_in(&school.provider, ANNA).await;
        let of_mia = record(school.mia, &[app("Phone")], &[key("security_key", "Blue key", 1)], 7);
        school.provider.sealgate.store.import(&[of_mia]).await.unwrap();
        let password = set_password(&school, &mert).await;
        let factors = async || school.provider.sealgate.store.factors(school.mia).await.unwrap().unwrap().value;
        assert!(factors().await.has_any());
        if way == "command" {
            promoted_at_once(&school).await;
        } else {
            let question = ask(&school, &anna, way).await;
            assert!(question.text().contains("A user manager set the password"), "{way}: {question:?}");
            confirm(&anna, &question).await;
        }
        assert!(has_role(&school).await, "{way}");
        assert!(!factors().await.has_any() && factors().await.recovery.is_none(), "{way}");
        assert!(!opens(&school, MIA, &password).await, "{way}");
        // The address is Mia's own, so a link can be mailed to it.
        let sub = school.provider.anna.sub;
        let reply = send(&anna, sub, &page_of(school.mia), &[("action", "send-reset-link")]).await;
        assert_eq!(reply.status, 303, "{way}: {reply:?}");
        let due = mailbox::due(&school.provider.sealgate.store, school.provider.clock.now()).await;
        assert!(due.iter().any(|(_, mail)| matches!(mail.mail, Mail::Reset { .. })), "{way}");
        school.provider.sealgate.audit.write(&school.provider.sealgate.store).await.unwrap();
        let filter = AuditFilter { kinds: vec![AuditKind::UserChanged], ..AuditFilter::default() };
        let events = school.provider.sealgate.store.audit_page(&filter, None, 9).await.unwrap().records;
        let detail = events[0].event.detail.clone().unwrap();
        assert!(detail.contains("sign-in data of a user manager removed"), "{way}: {detail}");
    }
}

/// The user manager signs in as Mia and covers the traces.
#[tokio::test]
async fn a_user_manager_does_not_keep_the_account_by_changing_the_password_or_the_address() {
    const OTHER: &str = "mallory@example.test";
    const NEW: &str = "correct horse battery staple";
    for trick in ["new password", "new address", "invitation", "link to a new address", "corrected address"] {
        let school = school().await;
        let mert = signed_in(&school.provider, MERT).await;
        let mut name = MIA;
        match trick {
            "new password" => {
                let password = set_password(&school, &mert).await;
                let mia = school.provider.browser();
                let login = mia.open("/account").await;
                mia.submit(&login, &[("email", MIA), ("password", &password)]).await;
                let page = mia.open("/account/password").await;
                mia.submit(&page, &[("current", &*password), ("new", NEW), ("again", NEW)]).await;
                assert!(opens(&school, MIA, NEW).await);
            }
            "new address" => {
                let password = set_password(&school, &mert).await;
                let mia = school.provider.browser();
                let login = mia.open("/account").await;
                mia.submit(&login, &[("email", MIA), ("password", &password)]).await;
                mailbox::take(&school.provider.sealgate).await;
                let page = mia.get("/account/address/new").await;
                mia.submit(&page, &[("address", OTHER)]).await;
                let (code, to) = mailbox::code(&school.provider.sealgate).await;
                assert_eq!(to, OTHER);
                mia.submit(&mia.get("/account/address").await, &[("code", &code)]).await;
                assert!(school.user(school.mia).await.has_verified_email(&Email::parse(OTHER).unwrap()));
                name = OTHER;
                reset_by_link(&school, OTHER, NEW).await;
            }
            "invitation" => {
                // The user manager receives mail at the address of the invitation.
                school.provider.change_user(school.mia, |user| user.by_manager.email = true).await;
                reset_by_link(&school, MIA, NEW).await;
            }
            _ => {
                set_address(&school, &mert, OTHER).await;
                // Mia verifies the address, or the user manager does.
                school.provider.change_user(school.mia, |user| user.email_verified = true).await;
                name = OTHER;
                reset_by_link(&school, OTHER, NEW).await;
                if trick == "corrected address" {
                    name = MIA;
                    let own = UserChanges::of_profile(None, Some(Email::parse(MIA)), None, None);
                    let set = UserCommand::Set { user: UserRef::Sub(school.mia), changes: own.into() };
                    execute(&CommandContext::new(&school.provider.sealgate), Command::User(set)).await.unwrap();
                }
            }
        }
        assert!(opens(&school, name, NEW).await, "{trick}");
        promoted_at_once(&school).await;
        assert!(!opens(&school, name, NEW).await, "{trick}");
        // No link for a new password is mailed to an address that a user manager chose.
        let (provider, browser) = (&school.provider, school.provider.browser());
        mailbox::take(&provider.sealgate).await;
        let page = forgot_page(provider, &browser).await;
        browser.submit(&page, &[("email", name)]).await;
        let mails = work(provider).await;
        let is_sent = mails.iter().any(|(_, message)| matches!(message.mail, Mail::Reset { .. }));
        assert_eq!(is_sent, trick == "new password", "{trick}: {mails:?}");
    }
}

/// Sets a password with a link that is mailed to the address.
async fn reset_by_link(school: &School, address: &str, password: &str) {
    mailbox::take(&school.provider.sealgate).await;
    let token = link_of(&school.provider, address).await;
    let browser = school.provider.browser();
    let page = browser.open(&format!("/oauth/reset?token={token}")).await;
    let page = browser.submit(&page, &[("new-password", password)]).await;
    assert!(page.status == 200 && page.text().contains("Your password was changed"), "{page:?}");
}

#[tokio::test]
async fn a_role_keeps_a_password_that_no_user_manager_knows() {
    const NEW: &str = "correct horse battery staple";
    for last in ["nobody", "administrator", "link"] {
        let school = school().await;
        let mert = signed_in(&school.provider, MERT).await;
        let anna = signed_in(&school.provider, ANNA).await;
        let password = match last {
            "nobody" => PASSWORD.to_owned(),
            "administrator" => {
                set_password(&school, &mert).await;
                let page = press(&anna, &page_of(school.mia), &[("action", "reset-password")]).await;
                element(&page, "new-password").unwrap()
            }
            _ => {
                set_password(&school, &mert).await;
                reset_by_link(&school, MIA, NEW).await;
                NEW.to_owned()
            }
        };
        let question = ask(&school, &anna, "user").await;
        assert!(!question.text().contains("A user manager set the password"), "{last}: {question:?}");
        confirm(&anna, &question).await;
        assert!(has_role(&school).await && opens(&school, MIA, &password).await, "{last}");
        assert!(school.user(school.mia).await.email_verified, "{last}");
    }
}
