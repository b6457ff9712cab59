//! Tests the account page and the console's forms for users' names and passwords at applications.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use sealgate_config::Config;
use sealgate_domain::app_credential::MAX_APP_CREDENTIALS;
use sealgate_domain::audit::{Actor, AuditEvent, AuditFilter, AuditKind};
use sealgate_domain::secret::Secret;
use sealgate_domain::user::{Role, Subject};
use sealgate_store::engine::Engine;
use sealgate_store::{AppCredentialSet, AppSite, Store};
use sealgate_system::clock::Clock as _;

use crate::mailbox;
use crate::meddler::At;
use crate::records::readable_forms;
use crate::security;
use crate::steps::{assert_login, csrf_of, with_anna};
use crate::support::{Browser, PASSWORD, Provider, Reply, is_login, settings};
use crate::totp;

const PAGE: &str = "/account/app-logins";
const OF_WIKI: &str = "/account/app-logins?app=wiki";
const ANNA: &str = "anna@example.test";
const BEN: &str = "ben@example.test";

/// Passwords that no page, record or export may contain.
const TYPED: &str = "geheimes Kennwort 4711";
const OTHER: &str = "noch ein Kennwort 0815";

const RECIPE: &str = "\
page = \"/login\"
fields = { user = \"{user}\", password = \"{password}\" }
probe = \"/profile\"
success = { status = [200] }
expired = { status = [302] }
";

/// Applications with a login form: `wiki`, `mail`, `svc` with a service account, and `closed`,
/// which Anna cannot open. `git` has none.
const APPS: &str = r#"
    [console]
    enabled = true
    [[app]]
    name = "wiki"
    title = "Bilgi Bankası"
    host = "wiki.test"
    upstreams = ["http://127.0.0.1:8081"]
    login = { recipe = "recipe.toml" }
    [[app.route]]
    path = "/w/"
    access = "signed_in"
    [[app]]
    name = "mail"
    host = "mail.test"
    upstreams = ["http://127.0.0.1:8082"]
    login = { recipe = "recipe.toml" }
    [[app.route]]
    path = "/"
    access = "signed_in"
    [[app]]
    name = "svc"
    host = "svc.test"
    upstreams = ["http://127.0.0.1:8083"]
    login = { recipe = "recipe.toml", username = "svc", password_file = "pin" }
    [[app.route]]
    path = "/"
    access = "signed_in"
    [[app]]
    name = "closed"
    host = "closed.test"
    upstreams = ["http://127.0.0.1:8084"]
    login = { recipe = "recipe.toml" }
    [[app.route]]
    path = "/"
    access = "signed_in"
    groups = ["nobody"]
    [[app]]
    name = "git"
    host = "git.test"
    upstreams = ["http://127.0.0.1:8085"]
    [[app.route]]
    path = "/"
    access = "signed_in"
"#;

/// Creates a provider with these applications.
async fn provider_with(more: &str) -> Provider {
    let config = config(more);
    Provider::changed("", |plain| *plain = config).await
}

/// Returns the configuration with these applications. Their recipes are files, so the configuration is
/// loaded from a file, too.
fn config(more: &str) -> Config {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = directory.path().join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path
    };
    file("pin", "123456\n");
    file("recipe.toml", RECIPE);
    Config::load(&file("sealgate.toml", &settings(&format!("{more}{APPS}")))).unwrap()
}

pub(crate) async fn provider() -> Provider {
    provider_with("").await
}

/// Returns a browser in which this user has just signed in, on the page.
async fn signed_in<'p>(provider: &'p Provider, email: &str) -> (Browser<'p>, Reply) {
    let browser = provider.browser();
    let login = browser.open(PAGE).await;
    let page = browser.sign_in(&login, email).await;
    assert_eq!(page.status, 200, "{page:?}");
    (browser, page)
}

/// Sends a form of the page.
async fn send(browser: &Browser<'_>, page: &Reply, fields: &[(&str, &str)]) -> Reply {
    let csrf = csrf_of(page);
    let reply = browser.post(PAGE, &[&[("csrf", csrf.as_str())], fields].concat()).await;
    browser.follow(reply).await
}

/// Enters a name and password for an application.
async fn enter(browser: &Browser<'_>, app: &str, username: &str, password: &str) -> Reply {
    let page = browser.get(&format!("{PAGE}?app={app}")).await;
    send(browser, &page, &[("app", app), ("app_username", username), ("app_password", password)]).await
}

/// Returns the stored name and password, and whether the application refused them.
async fn stored(provider: &Provider, subject: Subject, app: &str) -> Option<(String, String, bool)> {
    let opened = provider.sealgate.store.app_credential(subject, at(provider, app)).await.unwrap()?;
    Some((opened.username.clone(), opened.password.expose().to_owned(), opened.is_refused))
}

/// Returns the application with this name.
fn at<'p>(provider: &'p Provider, name: &'p str) -> AppSite<'p> {
    let app = provider.sealgate.config.apps.iter().find(|app| app.name == name);
    AppSite { name, host: app.map_or("", |app| &app.host) }
}

fn accepted(username: &str, password: &str) -> (String, String, bool) {
    (username.to_owned(), password.to_owned(), false)
}

async fn refuse(provider: &Provider, subject: Subject, app: &str) {
    let store = &provider.sealgate.store;
    let changed_at = store.app_credential(subject, at(provider, app)).await.unwrap().unwrap().changed_at;
    store.refuse_app_credential(subject, app, changed_at).await.unwrap();
}

async fn events(provider: &Provider, kind: AuditKind) -> Vec<AuditEvent> {
    provider.sealgate.audit.write(&provider.sealgate.store).await.unwrap();
    let filter = AuditFilter { kinds: vec![kind], ..AuditFilter::default() };
    let page = provider.sealgate.store.audit_page(&filter, None, 50).await.unwrap();
    page.records.into_iter().map(|record| record.event).collect()
}

/// Asserts that neither the records nor these pages contain a typed password.
async fn assert_secret(provider: &Provider, pages: &[&Reply]) {
    provider.sealgate.audit.write(&provider.sealgate.store).await.unwrap();
    let is_in = |bytes: &[u8], word: &str| bytes.windows(word.len()).any(|part| part == word.as_bytes());
    for word in [TYPED, OTHER].iter().flat_map(|text| readable_forms(text)) {
        let word = word.as_str();
        for (key, value) in provider.engine.scan(b"", None, 100_000).await.unwrap() {
            assert!(!is_in(&key, word) && !is_in(&value, word), "{}", String::from_utf8_lossy(&value));
        }
        let mut export = Vec::new();
        let store = &provider.sealgate.store;
        sealgate_admin::export(store, "https://id.test", provider.clock.now(), &mut export).await.unwrap();
        assert!(!is_in(&export, word) && is_in(&export, "app_credentials"));
        for page in pages {
            let headers = page.all_headers();
            assert!(!page.text().contains(word) && !format!("{headers:?}").contains(word), "{page:?}");
        }
    }
}

#[tokio::test]
async fn a_name_and_password_are_stored_replaced_and_removed() {
    let provider = provider().await;
    let anna = provider.anna.sub;
    let (browser, empty) = signed_in(&provider, ANNA).await;
    assert!(browser.get("/").await.text().contains("href=\"/account/app-logins\""));
    assert!(empty.text().contains("Bilgi Bankası") && empty.text().contains("No sign-in data stored"), "{empty:?}");
    assert!(!empty.text().contains("app_password"), "no form is open: {empty:?}");

    let home = browser.get("/").await;
    let link = "<a href=\"/account/app-logins?app=wiki\">Enter your username and password once</a>";
    assert!(home.text().contains(link) && !home.text().contains("app=git"), "{home:?}");
    let form = browser.get(OF_WIKI).await;
    // The browser must not fill in the password of the account.
    assert!(form.text().contains("type=\"password\" autocomplete=\"new-password\""), "{form:?}");
    assert!(form.text().contains("name=\"app_username\" type=\"text\" autocomplete=\"off\""), "{form:?}");
    let saved = enter(&browser, "wiki", " a.şahin ", TYPED).await;
    assert!(
        saved.text().contains("Your sign-in data was saved") && !saved.text().contains("app_password"),
        "{saved:?}"
    );
    assert!(saved.text().contains("id=\"app-login-open\" href=\"https://wiki.test/w/\""), "{saved:?}");
    assert_eq!(stored(&provider, anna, "wiki").await, Some(accepted("a.şahin", TYPED)));
    assert_eq!(stored(&provider, anna, "mail").await, None);

    refuse(&provider, anna, "wiki").await;
    let refused = browser.get(PAGE).await;
    assert!(refused.text().contains("did not accept this username or password"), "{refused:?}");
    assert!(browser.get("/").await.text().contains("was not accepted. Enter them again."));
    let again = browser.get(OF_WIKI).await;
    assert!(again.text().contains("value=\"a.şahin\"") && !again.text().contains("id=\"app-login-open\""), "{again:?}");
    let replaced = enter(&browser, "wiki", "anna", OTHER).await;
    assert!(!replaced.text().contains("did not accept"), "{replaced:?}");
    assert_eq!(stored(&provider, anna, "wiki").await, Some(accepted("anna", OTHER)));
    let home = browser.get("/").await;
    assert!(!home.text().contains("app=wiki") && home.text().contains("app=mail"), "{home:?}");
    assert_secret(&provider, &[&form, &saved, &refused, &again, &replaced]).await;

    let gone = send(&browser, &replaced, &[("remove", "wiki")]).await;
    assert!(gone.text().contains("Your sign-in data was removed") && !gone.text().contains("Username:"), "{gone:?}");
    assert_eq!(stored(&provider, anna, "wiki").await, None);
    // A second click changes nothing.
    assert_eq!(send(&browser, &replaced, &[("remove", "wiki")]).await.status, 200);
    for (kind, count) in [(AuditKind::AppCredentialSet, 2), (AuditKind::AppCredentialRemoved, 1)] {
        let events = events(&provider, kind).await;
        let expected = |event: &AuditEvent| {
            event.app.as_deref() == Some("wiki") && event.subject == Some(anna) && event.actor == Actor::User
        };
        assert!(events.iter().all(expected), "{events:?}");
        assert_eq!(events.iter().map(|event| event.count).sum::<u64>(), count, "{kind:?}");
    }
    assert!(browser.get("/account/activity").await.text().contains("Sign-in data for an application removed"));
}

#[tokio::test]
async fn forms_affect_only_their_own_user_and_application() {
    let provider = provider().await;
    let (anna, ben) = (provider.anna.sub, provider.ben.sub);
    let (browser, page) = signed_in(&provider, ANNA).await;
    let (of_ben, page_of_ben) = signed_in(&provider, BEN).await;
    enter(&browser, "wiki", "anna", TYPED).await;
    enter(&of_ben, "wiki", "ben", OTHER).await;
    enter(&of_ben, "mail", "ben", OTHER).await;
    send(&of_ben, &page_of_ben, &[("remove", "wiki")]).await;
    assert_eq!(stored(&provider, anna, "wiki").await, Some(accepted("anna", TYPED)));
    assert_eq!(stored(&provider, ben, "wiki").await, None);
    assert_eq!(stored(&provider, ben, "mail").await, Some(accepted("ben", OTHER)));
    // A form without a token, or with the token of another user, changes nothing.
    for csrf in ["x".to_owned(), csrf_of(&page_of_ben)] {
        let set = [("csrf", csrf.as_str()), ("app", "wiki"), ("app_username", "ben"), ("app_password", OTHER)];
        for fields in [&set[..], &[("csrf", csrf.as_str()), ("remove", "wiki")]] {
            let forged = browser.post(PAGE, fields).await;
            assert_eq!(forged.status, 400);
            assert_secret(&provider, &[&forged, &page]).await;
        }
    }
    assert_eq!(stored(&provider, anna, "wiki").await, Some(accepted("anna", TYPED)));
}

#[tokio::test]
async fn storing_a_password_requires_a_recent_sign_in() {
    let provider = provider().await;
    let (browser, _) = signed_in(&provider, ANNA).await;
    provider.wait(15 * 60);
    let page = browser.get(OF_WIKI).await;
    assert_eq!(page.status, 200);
    provider.wait(14 * 60);
    // A form that was opened in time can still be sent, and the page after it is shown.
    let fields = [("app", "wiki"), ("app_username", "anna"), ("app_password", TYPED)];
    let saved = send(&browser, &page, &fields).await;
    assert!(saved.text().contains("id=\"app-login-open\""), "{saved:?}");
    assert_login(&browser.open(PAGE).await);
    let login = browser.open(OF_WIKI).await;
    assert!(is_login(&login), "{login:?}");
    provider.wait(2 * 60);
    let late = [("app", "wiki"), ("app_username", "thief"), ("app_password", OTHER)];
    let refused = send(&browser, &page, &late).await;
    assert!(is_login(&refused), "{refused:?}");
    assert!(is_login(&send(&browser, &page, &[("remove", "wiki")]).await));
    assert_eq!(stored(&provider, provider.anna.sub, "wiki").await, Some(accepted("anna", TYPED)));
    assert_secret(&provider, &[&login, &refused]).await;
    // After the sign-in, the form of the same application is open.
    let back = browser.sign_in(&login, ANNA).await;
    assert!(back.text().contains("name=\"app\" value=\"wiki\""), "{back:?}");
}

#[tokio::test]
async fn invalid_names_and_passwords_are_refused_and_no_password_is_shown_again() {
    let provider = provider().await;
    let (browser, _) = signed_in(&provider, ANNA).await;
    for (username, password, told) in [
        ("", TYPED, "Enter a username of 1 to 200 characters"),
        (" ", TYPED, "Enter a username of 1 to 200 characters"),
        ("a\nb", TYPED, "Enter a username of 1 to 200 characters"),
        ("a\u{202e}b", TYPED, "Enter a username of 1 to 200 characters"),
        (&*"x".repeat(201), TYPED, "Enter a username of 1 to 200 characters"),
        ("anna", "", "Enter a password of at most 1,000 characters"),
        ("anna", &format!("{TYPED}\r\n"), "Enter a password of at most 1,000 characters"),
        ("anna", &format!("{TYPED}\0"), "Enter a password of at most 1,000 characters"),
        ("anna", &TYPED.repeat(60), "Enter a password of at most 1,000 characters"),
    ] {
        let page = enter(&browser, "wiki", username, password).await;
        assert!(page.status == 200 && page.text().contains(told), "{username:?}: {page:?}");
        assert!(page.text().contains("<title>Error: ") && !page.text().contains(TYPED), "{page:?}");
        assert!(!username.starts_with('a') || page.text().contains("value=\"a"), "the typed name stays: {page:?}");
    }
    for app in ["git", "svc", "closed", "nothing", ""] {
        let page = browser.get(PAGE).await;
        let fields = [("app", app), ("app_username", "anna"), ("app_password", TYPED)];
        let refused = send(&browser, &page, &fields).await;
        assert!(refused.status == 400 && !refused.text().contains(TYPED), "{app}: {refused:?}");
    }
    let page = browser.get(PAGE).await;
    for hidden in ["git", "svc", "closed"] {
        assert!(!page.text().contains(&format!("app={hidden}\"")), "{hidden}: {page:?}");
        assert!(!browser.get(&format!("{PAGE}?app={hidden}")).await.text().contains("app_password"), "{hidden}");
    }
    let strange = browser.get(&format!("{PAGE}?app=%22%3E%3Cb%3E&done=app-login")).await;
    assert!(!strange.text().contains("<b>") && !strange.text().contains("app-login-open"), "{strange:?}");
    assert_eq!(provider.engine.scan(b"L", None, 1).await.unwrap(), []);
}

#[tokio::test]
async fn the_number_of_stored_passwords_is_limited_and_those_of_former_applications_are_removable() {
    let provider = provider().await;
    let store = &provider.sealgate.store;
    for number in 0..MAX_APP_CREDENTIALS {
        let app = if number == 0 { "closed".to_owned() } else { format!("former-{number}") };
        let (password, now) = (Secret::new(TYPED), provider.clock.now());
        let set = store.set_app_credential(
            provider.anna.sub,
            AppSite { name: &app, host: "former.test" },
            "anna",
            &password,
            now,
        );
        assert_eq!(set.await.unwrap(), AppCredentialSet::Yes);
    }
    let (browser, page) = signed_in(&provider, ANNA).await;
    assert!(page.text().contains("former-7") && !page.text().contains("app=former-7"), "{page:?}");
    let full = enter(&browser, "wiki", "anna", OTHER).await;
    assert!(full.text().contains("the maximum number of applications"), "{full:?}");
    for app in ["closed", "former-7"] {
        let gone = send(&browser, &page, &[("remove", app)]).await;
        assert!(!gone.text().contains(&format!("value=\"{app}\"")), "{gone:?}");
    }
    assert!(enter(&browser, "wiki", "anna", OTHER).await.text().contains("was saved"));
}

#[tokio::test]
async fn the_menu_has_no_sign_in_data_if_no_application_takes_it() {
    let provider = Provider::with(crate::app_passwords::APPS).await;
    let browser = with_anna(&provider).await;
    assert!(!browser.get("/account").await.text().contains(PAGE));
    assert!(browser.get(PAGE).await.text().contains("No application needs sign-in data"));
}

/// A stored password outlives the sign-in in which it was entered.
#[tokio::test]
async fn a_sign_in_below_the_level_stores_no_password() {
    let provider = provider_with("[factors]\nlevel = \"3\"\nenrol_by = \"2027-02-01\"\n").await;
    let browser = provider.browser();
    let page = browser.open(PAGE).await;
    let page = browser.sign_in(&page, ANNA).await;
    browser.submit(&page, &[("later", "yes")]).await;
    assert!(enter(&browser, "wiki", "anna", TYPED).await.text().contains("was saved"));
    let page = browser.open("/account/security/app").await;
    let code = totp::code(&totp::secret(page.text()), provider.clock.now().seconds());
    security::send(&browser, "/account/security/app", &page, &[("code", &code), ("name", "phone")]).await;
    let page = browser.open(OF_WIKI).await;
    assert!(page.text().contains("id=\"app-login-weak\"") && !page.text().contains("app_password"), "{page:?}");
    let fields = [("app", "wiki"), ("app_username", "thief"), ("app_password", OTHER)];
    let refused = send(&browser, &page, &fields).await;
    assert!(refused.text().contains("id=\"app-login-weak\""), "{refused:?}");
    assert_eq!(stored(&provider, provider.anna.sub, "wiki").await, Some(accepted("anna", TYPED)));
    send(&browser, &page, &[("remove", "wiki")]).await;
    assert_eq!(stored(&provider, provider.anna.sub, "wiki").await, None);
}

#[tokio::test]
async fn a_new_account_password_keeps_the_passwords_at_applications() {
    let provider = provider().await;
    let (browser, _) = signed_in(&provider, ANNA).await;
    enter(&browser, "wiki", "anna", TYPED).await;
    let page = browser.get("/account/password").await;
    let new = "a longer password than before";
    browser.submit(&page, &[("current", PASSWORD), ("new", new), ("again", new)]).await;
    assert_eq!(stored(&provider, provider.anna.sub, "wiki").await, Some(accepted("anna", TYPED)));
}

#[tokio::test]
async fn a_session_that_ends_meanwhile_stores_and_removes_no_password() {
    let (mut provider, meddler) = Provider::meddled().await;
    Arc::get_mut(&mut provider.sealgate).unwrap().config = Arc::new(config(""));
    let (store, anna) = (&provider.sealgate.store, provider.anna.sub);
    for fields in [&[("app", "wiki"), ("app_username", "thief"), ("app_password", OTHER)][..], &[("remove", "mail")]] {
        let (browser, page) = signed_in(&provider, ANNA).await;
        enter(&browser, "mail", "anna", TYPED).await;
        let csrf = csrf_of(&page);
        let form = [&[("csrf", csrf.as_str())], fields].concat();
        let stop = meddler.stop(At::BeforeCommit, b'L');
        let end = stop.meanwhile(async { store.end_sessions_of_user(anna).await.unwrap() });
        let (reply, _) = tokio::join!(browser.post(PAGE, &form), end);
        assert_login(&browser.follow(reply).await);
        assert_eq!(stored(&provider, anna, "wiki").await, None);
        assert_eq!(stored(&provider, anna, "mail").await, Some(accepted("anna", TYPED)));
    }
}

#[tokio::test]
async fn without_a_data_key_the_page_has_no_form_and_stores_nothing() {
    let mut provider = provider().await;
    let bare = Store::open(Arc::clone(&provider.engine) as Arc<dyn Engine>, 100).await.unwrap();
    Arc::get_mut(&mut provider.sealgate).unwrap().store = Arc::new(bare);
    let (browser, _) = signed_in(&provider, ANNA).await;
    let page = browser.get(OF_WIKI).await;
    assert!(page.text().contains("id=\"app-logins-unavailable\"") && !page.text().contains("app_password"), "{page:?}");
    let fields = [("app", "wiki"), ("app_username", "anna"), ("app_password", TYPED)];
    let refused = send(&browser, &page, &fields).await;
    assert!(refused.text().contains("id=\"app-logins-unavailable\""), "{refused:?}");
    assert_eq!(provider.engine.scan(b"L", None, 1).await.unwrap(), []);
}

#[tokio::test]
async fn a_user_who_is_deleted_meanwhile_leaves_no_password() {
    let (provider, meddler) = Provider::meddled().await;
    let (store, anna, now) = (&provider.sealgate.store, provider.anna.sub, provider.clock.now());
    let password = Secret::new(TYPED);
    let stop = meddler.stop(At::BeforeCommit, b'L');
    let set = store.set_app_credential(anna, AppSite { name: "wiki", host: "wiki.test" }, "anna", &password, now);
    let deletion = stop.meanwhile(async { assert!(store.delete_user(anna, now).await.unwrap()) });
    let (outcome, ()) = tokio::join!(set, deletion);
    assert_eq!(outcome.unwrap(), AppCredentialSet::NoUser);
    assert_eq!(provider.engine.scan(b"L", None, 10).await.unwrap(), []);
}

/// Returns the console's page of Ben, after a form with these fields.
async fn press(browser: &Browser<'_>, path: &str, fields: &[(&str, &str)]) -> Reply {
    let page = browser.get(path).await;
    let csrf = csrf_of(&page);
    let reply = browser.post(path, &[&[("csrf", csrf.as_str())], fields].concat()).await;
    browser.follow(reply).await
}

#[tokio::test]
async fn an_administrator_sets_and_removes_names_and_passwords_but_never_sees_one() {
    let provider = provider_with(mailbox::MAIL).await;
    provider.change_user(provider.anna.sub, |user| user.roles = [Role::Admin].into()).await;
    let ben = provider.ben.sub;
    let (admin, _) = signed_in(&provider, ANNA).await;
    let path = format!("/console/users/{ben}");
    let section = format!("{path}/applications");
    let empty = admin.get(&section).await;
    assert!(!empty.text().contains("value=\"app_login:") && empty.text().contains("value=\"closed\""), "{empty:?}");
    assert!(!empty.text().contains("value=\"svc\"") && !empty.text().contains("value=\"git\""), "{empty:?}");
    let set = |app: &'static str, username: &'static str, password: &'static str| {
        [("action", "set-app-login"), ("app", app), ("app_username", username), ("app_password", password)]
    };
    for (username, password, told) in
        [("", TYPED, "Enter a username"), ("ben", "", "Enter a password"), ("ben", "a\nb", "Enter a password")]
    {
        let page = press(&admin, &path, &set("wiki", username, password)).await;
        assert!(page.text().contains(told) && !page.text().contains(TYPED), "{page:?}");
    }
    for app in ["svc", "git", "nothing"] {
        press(&admin, &path, &set(app, "ben", TYPED)).await.assert_error_page();
    }
    let page = press(&admin, &path, &set("wiki", "b.en", TYPED)).await;
    assert!(page.text().contains("Bilgi Bankası") && page.text().contains("<bdi>b.en</bdi>"), "{page:?}");
    assert_eq!(stored(&provider, ben, "wiki").await, Some(accepted("b.en", TYPED)));
    refuse(&provider, ben, "wiki").await;
    let refused = admin.get(&section).await;
    assert!(refused.text().contains("did not accept this username or password"), "{refused:?}");
    assert_secret(&provider, &[&page, &refused]).await;

    let gone = press(&admin, &path, &[("end", "app_login:wiki")]).await;
    assert!(!gone.text().contains("b.en"), "{gone:?}");
    assert_eq!(press(&admin, &path, &[("end", "app_login:wiki")]).await.status, 200);
    assert_eq!(stored(&provider, ben, "wiki").await, None);
    for kind in [AuditKind::AppCredentialSet, AuditKind::AppCredentialRemoved] {
        let events = events(&provider, kind).await;
        assert_eq!(events.len(), 1, "{events:?}");
        let event = &events[0];
        let facts = (event.actor, event.subject, event.app.as_deref());
        assert_eq!(facts, (Actor::Administrator(provider.anna.sub), Some(ben), Some("wiki")));
    }
    // Their own are entered on the account page, which requires a recent sign-in.
    let own = format!("/console/users/{}", provider.anna.sub);
    let page = admin.get(&format!("{own}/applications")).await;
    assert!(page.status == 200 && !page.text().contains("app_password"), "{page:?}");
    press(&admin, &own, &set("wiki", "anna", TYPED)).await.assert_error_page();
    assert_eq!(stored(&provider, provider.anna.sub, "wiki").await, None);
}
