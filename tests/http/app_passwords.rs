//! Tests application passwords on the account page.

use sealgate_domain::app_password::MAX_APP_PASSWORDS;
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::audit::{AuditFilter, AuditKind};
use sealgate_domain::secret::Secret;
use sealgate_system::clock::Clock as _;

use crate::security;
use crate::steps::with_anna;
use crate::support::{Browser, PASSWORD, Provider, Reply, hidden_fields, is_login};
use crate::totp;

const PAGE: &str = "/account/app-passwords";

pub(crate) const APPS: &str = r#"
    [[app]]
    name = "git"
    title = "Depo"
    host = "git.test"
    upstreams = ["http://127.0.0.1:8081"]
    [[app.route]]
    path = "/"
    access = "signed_in"
    app_passwords = true
    [[app]]
    name = "wiki"
    host = "wiki.test"
    upstreams = ["http://127.0.0.1:8082"]
    [[app.route]]
    path = "/"
    access = "signed_in"
"#;

/// Submits one of the page's forms.
async fn send(browser: &Browser<'_>, page: &Reply, fields: &[(&str, &str)]) -> Reply {
    let csrf = hidden_fields(page.text()).swap_remove(0).1;
    let reply = browser.post(PAGE, &[&[("csrf", csrf.as_str())], fields].concat()).await;
    browser.follow(reply).await
}

async fn make(browser: &Browser<'_>, app: &str, name: &str) -> Reply {
    let page = browser.get(PAGE).await;
    send(browser, &page, &[("app", app), ("name", name)]).await
}

/// Returns the password that a page shows.
fn shown(page: &Reply) -> Option<String> {
    let rest = page.text().split_once("id=\"new-app-password\">")?.1;
    Some(rest.split('<').next().unwrap().to_owned())
}

/// Returns the first id that a form on the page revokes.
fn id(page: &Reply) -> String {
    page.text().split_once("name=\"revoke\" value=\"").unwrap().1.split('"').next().unwrap().to_owned()
}

#[tokio::test]
async fn an_application_password_is_created_shown_once_and_revoked() {
    let provider = Provider::with(APPS).await;
    let browser = with_anna(&provider).await;
    assert!(browser.get("/account/security").await.text().contains("href=\"/account/app-passwords\""));
    let empty = browser.get(PAGE).await;
    assert!(
        empty.text().contains("value=\"git\">Depo</option>") && !empty.text().contains("value=\"wiki\""),
        "{empty:?}"
    );
    let page = make(&browser, "git", "git, dizüstü").await;
    let password = shown(&page).unwrap();
    assert!(password.len() == 27 && page.text().contains("<bdi>anna@example.test</bdi>"), "{page:?}");
    let store = &provider.sealgate.store;
    let kept = store.app_passwords(provider.anna.sub).await.unwrap().passwords;
    assert_eq!((kept.len(), kept[0].app.as_str(), kept[0].name.as_str()), (1, "git", "git, dizüstü"));
    assert_eq!(kept[0].hash, Secret::new(password.clone()).hash());
    assert_eq!(kept[0].level, AssuranceLevel::One, "the level of the sign-in");
    let again = browser.get(PAGE).await;
    assert!(again.text().contains("git, dizüstü") && again.text().contains("Never used") && shown(&again).is_none());
    assert!(!again.text().contains(&password));
    // A form of another user cannot revoke the password.
    let ben = provider.browser();
    let login = ben.open(PAGE).await;
    let of_ben = ben.submit(&login, &[("email", "ben@example.test"), ("password", PASSWORD)]).await;
    send(&ben, &of_ben, &[("revoke", &id(&again))]).await;
    assert_eq!(store.app_passwords(provider.anna.sub).await.unwrap().passwords.len(), 1);
    // A request without a valid form token changes nothing.
    let forged = browser.post(PAGE, &[("csrf", "x"), ("revoke", &id(&again))]).await;
    assert_eq!((forged.status, store.app_passwords(provider.anna.sub).await.unwrap().passwords.len()), (400, 1));
    let done = send(&browser, &again, &[("revoke", &id(&again))]).await;
    assert!(done.text().contains("was revoked") && !done.text().contains("dizüstü"), "{done:?}");
    provider.sealgate.audit.write(store).await.unwrap();
    for kind in [AuditKind::AppPasswordCreated, AuditKind::AppPasswordRevoked] {
        let filter = AuditFilter { subject: Some(provider.anna.sub), kinds: vec![kind], ..AuditFilter::default() };
        let found = store.audit_page(&filter, None, 10).await.unwrap().records;
        assert_eq!((found.len(), found[0].event.app.as_deref()), (1, Some("git")), "{kind:?}");
    }
}

#[tokio::test]
async fn no_application_password_is_created_for_an_inaccessible_application() {
    let closed = APPS.replace("app_passwords = true", "app_passwords = true\n    groups = [\"nobody\"]");
    let open =
        APPS.split_once("[[app]]\n    name = \"wiki\"").unwrap().0.replace("git", "dav").replace("Depo", "Dosya");
    let provider = Provider::with(&format!("{closed}{open}")).await;
    let browser = with_anna(&provider).await;
    let page = browser.get(PAGE).await;
    assert!(page.text().contains("Dosya") && !page.text().contains("Depo"), "{page:?}");
    send(&browser, &page, &[("app", "git"), ("name", "x")]).await.assert_error_page();
    let kept = provider.sealgate.store.app_passwords(provider.anna.sub).await.unwrap().passwords;
    assert!(kept.is_empty(), "{kept:?}");
}

#[tokio::test]
async fn invalid_application_passwords_are_refused() {
    let provider = Provider::with(APPS).await;
    let browser = with_anna(&provider).await;
    for name in ["", " ", "a\u{202e}b", &"x".repeat(61)] {
        let page = make(&browser, "git", name).await;
        assert!(page.text().contains("1 to 60 characters") && shown(&page).is_none(), "{name:?}: {page:?}");
    }
    for app in ["wiki", "nothing", ""] {
        assert_eq!(make(&browser, app, "x").await.status, 400, "{app}");
    }
    for number in 0..MAX_APP_PASSWORDS {
        assert!(shown(&make(&browser, "git", &format!("program {number}")).await).is_some(), "{number}");
    }
    let page = make(&browser, "git", "one more").await;
    assert!(page.text().contains("the maximum number of application passwords") && shown(&page).is_none());
}

#[tokio::test]
async fn application_passwords_require_a_recent_sign_in() {
    let provider = Provider::with(APPS).await;
    let browser = with_anna(&provider).await;
    provider.wait(15 * 60);
    let page = browser.get(PAGE).await;
    assert_eq!(page.status, 200);
    provider.wait(14 * 60);
    // A form that was opened in time can still be submitted.
    assert!(shown(&send(&browser, &page, &[("app", "git"), ("name", "x")]).await).is_some());
    let login = browser.open(PAGE).await;
    assert!(is_login(&login), "{login:?}");
    provider.wait(2 * 60);
    assert!(is_login(&send(&browser, &page, &[("app", "git"), ("name", "y")]).await));
    let back = browser.sign_in(&login, "anna@example.test").await;
    assert!(back.text().contains("id=\"app-password-make\""), "{back:?}");
}

#[tokio::test]
async fn a_new_account_password_ends_application_passwords() {
    let provider = Provider::with(APPS).await;
    let browser = with_anna(&provider).await;
    make(&browser, "git", "x").await;
    let page = browser.get("/account/password").await;
    let new = "a longer password than before";
    browser.submit(&page, &[("current", PASSWORD), ("new", new), ("again", new)]).await;
    assert_eq!(provider.sealgate.store.app_passwords(provider.anna.sub).await.unwrap().passwords, []);
}

#[tokio::test]
async fn the_menu_has_no_application_passwords_if_no_application_accepts_them() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    assert!(!browser.get("/account/security").await.text().contains(PAGE));
    assert!(browser.get(PAGE).await.text().contains("No application accepts"));
}

/// An application password outlives the sign-in that created it. A user whose sign-in only allows
/// adding a stronger factor can revoke passwords but not create them.
#[tokio::test]
async fn a_sign_in_below_the_level_creates_no_application_password() {
    let factors = "[factors]\nlevel = \"3\"\nenrol_by = \"2027-02-01\"";
    let provider = Provider::with(&format!("{APPS}{factors}")).await;
    let browser = provider.browser();
    let page = browser.open(PAGE).await;
    let page = browser.sign_in(&page, "anna@example.test").await;
    // A user without any factor may postpone enrolment, as at the application.
    let page = browser.submit(&page, &[("later", "yes")]).await;
    let form = send(&browser, &page, &[("app", "git"), ("name", "laptop")]).await;
    assert!(shown(&form).is_some(), "{form:?}");
    let page = browser.open("/account/security/app").await;
    let code = totp::code(&totp::secret(page.text()), provider.clock.now().seconds());
    security::send(&browser, "/account/security/app", &page, &[("code", &code), ("name", "phone")]).await;
    let page = browser.open(PAGE).await;
    assert!(page.text().contains("sign in with a security key or a passkey"), "{page:?}");
    assert!(!page.text().contains("id=\"app-password-make\""), "{page:?}");
    let refused = send(&browser, &page, &[("app", "git"), ("name", "thief")]).await;
    assert!(shown(&refused).is_none() && refused.text().contains("id=\"app-password-weak\""), "{refused:?}");
    let names = async || {
        let kept = provider.sealgate.store.app_passwords(provider.anna.sub).await.unwrap().passwords;
        kept.into_iter().map(|one| one.name).collect::<Vec<_>>()
    };
    assert_eq!(names().await, ["laptop"]);
    send(&browser, &page, &[("revoke", &id(&page))]).await;
    assert!(names().await.is_empty());
}

#[tokio::test]
async fn a_form_that_is_sent_twice_creates_one_application_password() {
    let provider = Provider::with(APPS).await;
    let browser = with_anna(&provider).await;
    let page = browser.get(PAGE).await;
    // The form was opened in time and submitted later. The password is shown although the page
    // itself would now require a sign-in.
    provider.wait(20 * 60);
    let first = browser.submit_only(&page, &[("app", "git"), ("name", "laptop")]).await;
    let second = browser.submit_only(&page, &[("app", "git"), ("name", "laptop")]).await;
    assert!(first.status == 303 && first.header("location") == second.header("location"), "{first:?} {second:?}");
    let address = first.header("location").unwrap();
    let password = shown(&browser.get(address).await).unwrap();
    let kept = provider.sealgate.store.app_passwords(provider.anna.sub).await.unwrap().passwords;
    assert_eq!(kept.iter().map(|one| one.hash).collect::<Vec<_>>(), [Secret::new(password).hash()]);
    let again = browser.get(address).await;
    assert!(shown(&again).is_none() && again.text().contains("This was shown once"), "{again:?}");
}
