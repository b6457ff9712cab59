//! Tests that a new role in the console ends links and access that existed before it.

use sealgate_admin::command::{Command, UserCommand};
use sealgate_admin::user_settings::UserChanges;
use sealgate_admin::{CommandContext, UserRef, execute};

use super::roles::{KEYS, MERT, send};
use super::user_manager::{School, of, page_of};
use super::*;
use crate::mailbox::{self, MAIL};

const ROLE: [(&str, &str); 5] = [
    ("action", "save"),
    ("shown_groups", "students"),
    ("shown_roles", ""),
    ("groups", "students"),
    ("role_auditor", "yes"),
];

async fn school() -> School {
    let school = of(provider_with(&format!("{KEYS}{MAIL}")).await).await;
    school.provider.change_user(school.mia, |user| user.email_verified = true).await;
    school
}

/// Returns the paths of all links that were mailed.
async fn links(school: &School, path: &str) -> Vec<String> {
    let due = mailbox::due(&school.provider.sealgate.store, school.provider.clock.now()).await;
    due.iter().map(|(_, message)| format!("{path}?token={}", mailbox::token(message))).collect()
}

/// Returns whether the page of a link still has its form.
async fn works(school: &School, link: &str) -> bool {
    let page = school.provider.browser().open(link).await;
    page.status == 200 && page.text().contains("name=\"csrf\"")
}

/// The user manager has a reset link sent, and is signed in as Mia. Returns the link.
async fn planted<'a>(school: &'a School, mert: &Browser<'a>) -> (String, Browser<'a>) {
    let reply = send(mert, school.mert, &page_of(school.mia), &[("action", "send-reset-link")]).await;
    assert_eq!(reply.status, 303, "{reply:?}");
    let link = links(school, "/oauth/reset").await.pop().unwrap();
    assert!(works(school, &link).await);
    school.provider.sealgate.audit.write(&school.provider.sealgate.store).await.unwrap();
    (link, signed_in(&school.provider, "mia@example.test").await)
}

#[tokio::test]
async fn a_role_ends_links_and_sessions_and_the_confirmation_lists_what_stays() {
    let school = school().await;
    let mert = signed_in(&school.provider, MERT).await;
    let anna = signed_in(&school.provider, ANNA).await;
    let (link, mia) = planted(&school, &mert).await;
    let path = page_of(school.mia);
    let question = press_only(&anna, &path, &ROLE).await;
    assert!(is_confirmation(&question), "{question:?}");
    for shown in ["id=\"promotion\"", "id=\"promotion-address\"", "id=\"promotion-sessions\"", "Name of mia"] {
        assert!(question.text().contains(shown), "{shown}: {question:?}");
    }
    let changes = question.text().split("id=\"promotion-changes\"").nth(1).unwrap();
    assert!(changes.contains(MERT) && changes.contains("User manager"), "{question:?}");
    assert!(works(&school, &link).await && mia.get("/account").await.status == 200);
    let page = anna.submit(&question, &[("sure", "yes")]).await;
    assert_eq!((page.status, school.user(school.mia).await.roles), (200, [Role::Auditor].into()));
    assert!(!works(&school, &link).await);
    assert_login(&mia.open("/account").await);
    let log = anna.get("/console/audit?kind=person_revoked").await;
    assert!(log.text().contains("mia@example.test"), "{log:?}");
    // A change that gives no further right ends nothing.
    let mia = signed_in(&school.provider, "mia@example.test").await;
    let page = press_only(
        &anna,
        &path,
        &[&ROLE[..2], &[("shown_roles", "auditor"), ("role_auditor", "yes"), ("groups", "students\nmath")]].concat(),
    )
    .await;
    assert!(is_confirmation(&page) && !page.text().contains("id=\"promotion\""), "{page:?}");
    anna.submit(&page, &[("sure", "yes")]).await;
    assert!(school.user(school.mia).await.groups.contains("math"));
    assert_eq!(mia.get("/account").await.status, 200);
}

/// The command line and the admin API run the same command, as does a change to several users.
#[tokio::test]
async fn every_way_to_a_role_ends_links_and_sessions() {
    for way in ["role", "group of user managers", "several users", "rename"] {
        let school = school().await;
        let mert = signed_in(&school.provider, MERT).await;
        let anna = signed_in(&school.provider, ANNA).await;
        let (link, mia) = planted(&school, &mert).await;
        let (id, anna_sub) = (school.mia.to_string(), school.provider.anna.sub);
        let set = async |changes: UserChanges| {
            let set = UserCommand::Set { user: UserRef::Sub(school.mia), changes: changes.into() };
            execute(&CommandContext::new(&school.provider.sealgate), Command::User(set)).await.unwrap();
        };
        match way {
            "role" => set(UserChanges { roles: vec![Role::Developer], ..UserChanges::default() }).await,
            "group of user managers" => set(UserChanges::of_groups(vec!["helpdesk".to_owned()], Vec::new())).await,
            "several users" => {
                let add = [("action", "add-to-group"), ("to_group", "audit"), ("user", id.as_str())];
                let question = send(&anna, anna_sub, "/console/users/bulk", &add).await;
                assert_eq!(anna.submit(&question, &[("sure", "yes")]).await.status, 200);
            }
            _ => {
                school.provider.change_user(school.mia, |user| _ = user.groups.insert("math".to_owned())).await;
                let rename = [("action", "rename"), ("name", "math"), ("to", "audit")];
                let question = send(&anna, anna_sub, "/console/groups/members", &rename).await;
                assert_eq!(anna.submit(&question, &[("sure", "yes")]).await.status, 200);
            }
        }
        let user = school.user(school.mia).await;
        assert!(!school.provider.sealgate.config.console.roles_of(&user).is_empty(), "{way}: {user:?}");
        assert!(!works(&school, &link).await, "{way}");
        assert_login(&mia.open("/account").await);
    }
}

#[tokio::test]
async fn a_role_ends_invitations_and_links_to_enrol_a_factor() {
    let school = school().await;
    let mert = signed_in(&school.provider, MERT).await;
    let anna = signed_in(&school.provider, ANNA).await;
    let new = [("email", "new@example.test"), ("name", "New"), ("member", "students"), ("invite", "yes")];
    assert_eq!(send(&mert, school.mert, "/console/users/new", &new).await.status, 303);
    let invitation = links(&school, "/oauth/invitation").await.pop().unwrap();
    assert!(works(&school, &invitation).await);
    let email = Email::parse("new@example.test").unwrap();
    let invited = school.provider.sealgate.store.user_by_email(&email).await.unwrap().unwrap().sub;
    let page = press(&mert, &page_of(school.mia), &[("action", "reset-factors")]).await;
    let enrolment = element(&page, "enrolment-link").unwrap().replace("&#38;", "&");
    let enrolment = enrolment.strip_prefix(ISSUER).unwrap().to_owned();
    let enrols = async || {
        let token = enrolment.split("token=").nth(1).unwrap();
        let hash = sealgate_domain::secret::SecretHash::for_secret(token.as_bytes());
        let factors = school.provider.sealgate.store.factors(school.mia).await.unwrap().unwrap().value;
        factors.opens_reset(&hash, school.provider.clock.now())
    };
    assert!(enrols().await);
    for user in [invited, school.mia] {
        let question = press_only(&anna, &page_of(user), &ROLE).await;
        assert!(is_confirmation(&question), "{question:?}");
        anna.submit(&question, &[("sure", "yes")]).await;
        assert_eq!(school.user(user).await.roles, [Role::Auditor].into());
    }
    assert!(!works(&school, &invitation).await && !enrols().await);
}
