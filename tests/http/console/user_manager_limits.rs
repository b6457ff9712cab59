//! Tests what user managers cannot do to the users whom they manage.

use sealgate_admin::command::{Command, UserCommand};
use sealgate_admin::user_settings::UserChanges;
use sealgate_admin::{CommandContext, UserRef, execute};

use super::roles::{KEYS, MERT, send};
use super::user_manager::{School, of, page_of, school};
use super::*;

const BULK: &str = "/console/users/bulk";
const DISABLE: [(&str, &str); 2] = [("action", "disable"), ("sure", "yes")];
const ENABLE: [(&str, &str); 2] = [("action", "enable"), ("sure", "yes")];

async fn run(school: &School, command: UserCommand) {
    execute(&CommandContext::new(&school.provider.sealgate), Command::User(command)).await.unwrap();
}

#[tokio::test]
async fn a_user_manager_does_not_enable_a_user_whom_an_administrator_disabled() {
    let school = school().await;
    let mert = signed_in(&school.provider, MERT).await;
    let anna = signed_in(&school.provider, ANNA).await;
    let path = page_of(school.mia);
    let mia = school.mia.to_string();
    let is_enabled = async || school.user(school.mia).await.is_enabled();
    let by_administrator = async || press(&anna, &path, &DISABLE).await.status == 200;
    let by_operator = async || {
        run(&school, UserCommand::Disable(UserRef::Sub(school.mia).into())).await;
        true
    };
    // The record of an older version does not name who disabled the user.
    let by_unknown = async || {
        school.provider.change_user(school.mia, |user| user.state = UserState::Disabled).await;
        true
    };
    for number in 0..3 {
        assert!(match number {
            0 => by_administrator().await,
            1 => by_operator().await,
            _ => by_unknown().await,
        });
        let page = mert.get(&format!("{path}/danger")).await;
        assert!(element(&page, "user-disabled-by-administrator").is_some(), "{page:?}");
        assert!(!page.text().contains("user-enable"), "{page:?}");
        // Disabling the user again does not take over the decision.
        send(&mert, school.mert, &path, &DISABLE).await;
        let reply = send(&mert, school.mert, &path, &ENABLE).await;
        assert!(reply.status == 403 && !is_enabled().await, "{number}: {reply:?}");
        let fields = [("action", "enable"), ("user", mia.as_str()), ("sure", "yes")];
        let page = send(&mert, school.mert, BULK, &fields).await;
        let page = mert.follow(page).await;
        assert!(page.text().contains("An administrator disabled this user."), "{number}: {page:?}");
        assert!(!is_enabled().await, "{number}");
        press(&anna, &path, &ENABLE).await;
        assert!(is_enabled().await, "{number}");
    }
    // A user manager enables whom a user manager disabled, unless an administrator has disabled them too.
    send(&mert, school.mert, &path, &DISABLE).await;
    assert!(!is_enabled().await);
    assert_eq!(send(&mert, school.mert, &path, &ENABLE).await.status, 303);
    assert!(is_enabled().await);
    send(&mert, school.mert, &path, &DISABLE).await;
    press(&anna, &path, &DISABLE).await;
    assert_eq!(send(&mert, school.mert, &path, &ENABLE).await.status, 403);
    assert!(!is_enabled().await);
}

/// An address that a user manager chose is not the user's for applications before the user proves it.
#[tokio::test]
async fn an_address_of_a_user_manager_does_not_identify_the_user_before_it_is_verified() {
    const APP: &str = "[[app]]\nname = \"wiki\"\nhost = \"wiki.test\"\nupstreams = [\"http://127.0.0.1:9\"]\n\
        identity_headers = { X-Mail = \"email\", X-Login = \"username\" }\n\
        [[app.route]]\npath = \"/\"\naccess = \"signed_in\"\n";
    const BOSS: &str = "boss@example.test";
    let school = of(provider_with(&format!("{KEYS}{APP}")).await).await;
    let mert = signed_in(&school.provider, MERT).await;
    let anna = signed_in(&school.provider, ANNA).await;
    let is_sent = async |user: Subject, address: &str| {
        let form = anna.get("/console/check").await;
        let fields = [("url", "https://wiki.test/"), ("user", &*user.to_string())];
        let page = anna.submit(&form, &fields).await;
        assert!(page.text().contains("Allowed"), "{page:?}");
        page.text().contains(&format!("<code>{address}</code>"))
    };
    let set = [("action", "save-profile"), ("name", "Mia"), ("email", BOSS), ("sure", "yes")];
    assert!(is_sent(school.mia, "mia@example.test").await);
    assert_eq!(send(&mert, school.mert, &page_of(school.mia), &set).await.status, 303);
    let mia = school.user(school.mia).await;
    assert!(mia.has_email(&Email::parse(BOSS).unwrap()) && !mia.email_verified);
    assert!(!is_sent(school.mia, BOSS).await);
    assert!(is_sent(school.mia, &school.mia.to_string()).await, "the header of the username has the sub");
    school.provider.change_user(school.mia, |user| user.email_verified = true).await;
    assert!(is_sent(school.mia, BOSS).await);
    // A new user of a user manager has no address for applications either.
    let new = [("email", "chief@example.test"), ("name", "New"), ("member", "students")];
    assert_eq!(send(&mert, school.mert, "/console/users/new", &new).await.status, 303);
    let email = Email::parse("chief@example.test").unwrap();
    let chief = school.provider.sealgate.store.user_by_email(&email).await.unwrap().unwrap();
    assert!(!is_sent(chief.sub, "chief@example.test").await);
    // Another case of letters leaves the address of an administrator as it is, and the same address of an
    // administrator is trusted.
    let sam = [("action", "save-profile"), ("name", "Sam"), ("email", "SAM@example.test"), ("sure", "yes")];
    assert_eq!(send(&mert, school.mert, &page_of(school.sam), &sam).await.status, 303);
    assert!(is_sent(school.sam, "SAM@example.test").await);
    let changes = UserChanges::of_profile(None, Some(Some(email)), None, None);
    run(&school, UserCommand::Set { user: UserRef::Sub(chief.sub), changes: changes.into() }).await;
    assert!(is_sent(chief.sub, "chief@example.test").await);
    let taken = [("action", "save-profile"), ("name", "Mia"), ("email", "kim@example.test"), ("sure", "yes")];
    let page = send(&mert, school.mert, &page_of(school.mia), &taken).await;
    assert!(page.status == 200 && school.user(school.mia).await.has_email(&Email::parse(BOSS).unwrap()), "{page:?}");
}

/// Kim and Mia are signed in in one browser. The user manager manages only Mia.
#[tokio::test]
async fn ending_the_access_of_a_user_spares_other_users_of_the_browser() {
    let school = school().await;
    let mert = signed_in(&school.provider, MERT).await;
    let (path, kim) = (page_of(school.mia), school.foreign[0]);
    let store = &school.provider.sealgate.store;
    let sessions = async |user: Subject| store.sessions_of_user(user, None, 10).await.unwrap().sessions;
    for action in ["end", "revoke", "reset-password", "disable", "reset-factors"] {
        let shared = signed_in(&school.provider, "kim@example.test").await;
        let login = shared.open(&school.provider.c1().authorize(&[("prompt", "login")])).await;
        let page = shared.sign_in(&login, "mia@example.test").await;
        shared.follow(page).await;
        let of_mia = sessions(school.mia).await;
        assert!(of_mia.len() == 1 && of_mia[0].sign_in_of(kim).is_some(), "{action}: {of_mia:?}");
        let end = format!("session:{}", of_mia[0].id);
        let fields =
            if action == "end" { [("end", end.as_str()), ("x", "")] } else { [("action", action), ("sure", "yes")] };
        let reply = send(&mert, school.mert, &path, &fields).await;
        assert_eq!(reply.status, 303, "{action}: {reply:?}");
        assert!(sessions(school.mia).await.is_empty(), "{action}");
        let of_kim = sessions(kim).await;
        assert!(of_kim.len() == 1 && of_kim[0].sign_in_of(school.mia).is_none(), "{action}: {of_kim:?}");
        assert_eq!(shared.get("/account").await.status, 200, "{action}");
        store.end_sessions_of_user(kim).await.unwrap();
        school
            .provider
            .change_user(school.mia, |user| {
                user.state = UserState::Enabled;
                user.password.clone_from(&school.provider.ben.password);
            })
            .await;
    }
}

/// An administrator ends the session in the browser for all its users, because its cookie may be stolen.
#[tokio::test]
async fn an_administrator_ends_a_session_of_several_users() {
    let school = school().await;
    let anna = signed_in(&school.provider, ANNA).await;
    let shared = signed_in(&school.provider, "kim@example.test").await;
    let login = shared.open(&school.provider.c1().authorize(&[("prompt", "login")])).await;
    let page = shared.sign_in(&login, "mia@example.test").await;
    shared.follow(page).await;
    let page = anna.get(&format!("{}/sessions", page_of(school.mia))).await;
    let id = page.text().split("value=\"session:").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let anna_sub = school.provider.anna.sub;
    send(&anna, anna_sub, &page_of(school.mia), &[("end", &format!("session:{id}"))]).await;
    assert_login(&shared.open("/account").await);
}

/// The user manager could enable the user again, so an administrator can take over the decision.
#[tokio::test]
async fn an_administrator_disables_a_user_whom_a_user_manager_disabled() {
    for way in ["user", "several users", "api"] {
        let school = school().await;
        let mert = signed_in(&school.provider, MERT).await;
        let anna = signed_in(&school.provider, ANNA).await;
        let (path, mia) = (page_of(school.mia), school.mia.to_string());
        let danger = format!("{path}/danger");
        assert_eq!(send(&mert, school.mert, &path, &DISABLE).await.status, 303);
        let page = anna.get(&danger).await;
        assert!(element(&page, "user-disabled-by-manager").is_some(), "{page:?}");
        assert!(page.text().contains("user-disable\"") && page.text().contains("user-enable\""), "{page:?}");
        let page = mert.get(&danger).await;
        assert!(!page.text().contains("user-disable\"") && page.text().contains("user-enable\""), "{page:?}");
        match way {
            "user" => _ = press(&anna, &path, &DISABLE[..1]).await,
            "several users" => {
                let fields = [("action", "disable"), ("user", mia.as_str())];
                let question = send(&anna, school.provider.anna.sub, BULK, &fields).await;
                assert!(question.text().contains("id=\"bulk-users\""), "{question:?}");
                anna.submit(&question, &[("sure", "yes")]).await;
            }
            _ => run(&school, UserCommand::Disable(UserRef::Sub(school.mia).into())).await,
        }
        assert_eq!(send(&mert, school.mert, &path, &ENABLE).await.status, 403, "{way}");
        assert!(!school.user(school.mia).await.is_enabled(), "{way}");
        // The same change again changes nothing, for an administrator and for the user manager.
        let fields = [("action", "disable"), ("user", mia.as_str())];
        for (browser, sender) in [(&anna, school.provider.anna.sub), (&mert, school.mert)] {
            let page = send(browser, sender, BULK, &fields).await;
            assert!(!page.text().contains("id=\"bulk-users\""), "{way}: {page:?}");
        }
        let page = anna.get(&danger).await;
        assert!(element(&page, "user-disabled-by-manager").is_none(), "{page:?}");
        assert!(!page.text().contains("user-disable\""), "{page:?}");
    }
}
