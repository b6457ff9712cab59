//! Tests applications with their own login form: the gateway signs users in and keeps the cookies.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use reqwest::header::{COOKIE, ORIGIN, SET_COOKIE};

use crate::support::login_app::{LoginApp, RECIPE};
use crate::support::{Browser, Instance, Page, Settings, until};

const SERVICE_PASSWORD: &str = "service-pass-word-1";

/// Returns settings with this application, and with these lines in its `login`.
fn settings(app: &LoginApp, login: &str) -> Settings {
    let url = app.url();
    Settings {
        sections: format!(
            "[[app]]\nname = \"wiki\"\ntitle = \"Wiki\"\nhost = \"app.localhost\"\nupstreams = [\"{url}\"]\n\
             login = {{ recipe = \"recipe.toml\"{login} }}\n\
             [[app.route]]\npath = \"/\"\naccess = \"signed_in\"\n\
             [[app.route]]\npath = \"/public/\"\naccess = \"public\"\n"
        ),
        ..Settings::default()
    }
}

/// Prepares an instance whose gateway signs in to this application with a service account.
fn with_service_account(app: &LoginApp, more: &str) -> (Instance, Settings) {
    let settings = settings(app, &format!(", username = \"svc\", password_file = \"service.password\"{more}"));
    let instance = Instance::bare(&Settings::default());
    write_recipe(&instance, RECIPE);
    write_password(&instance, SERVICE_PASSWORD);
    instance.configure(&settings);
    instance.run(&["key", "generate"]);
    instance.add_anna();
    (instance, settings)
}

fn write_recipe(instance: &Instance, recipe: &str) {
    fs::write(instance.directory.path().join("recipe.toml"), recipe).unwrap();
}

fn write_password(instance: &Instance, password: &str) {
    let file = instance.directory.path().join("service.password");
    fs::write(&file, format!("{password}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
}

/// Returns the response to a form of the application's own page.
async fn save(browser: &Browser, instance: &Instance) -> Page {
    let form = browser.client().post(instance.app_url("/save")).header(ORIGIN, origin(instance));
    browser.send(form.form(&[("text", "hello")])).await
}

fn origin(instance: &Instance) -> String {
    instance.app_url("/").trim_end_matches('/').to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_keeps_the_cookies_of_the_application() {
    let app = LoginApp::start(&[("svc", SERVICE_PASSWORD)]);
    let (mut instance, _) = with_service_account(&app, ", browser_cookies = [\"xsrf\"]");
    instance.start();
    let browser = Browser::new(&instance);
    let page = browser.go(&instance.app_url("/notes?x=1")).await;
    assert_eq!(page.status, 200, "{page:?}");
    assert!(page.body.starts_with("user=svc;"), "{}", page.body);
    // A cookie that the browser sends is not the application's.
    let url = instance.app_url("/notes");
    let forged = browser.client().get(&url).header(COOKIE, format!("{}; sid=forged", browser.cookies(&url)));
    assert!(browser.send(forged).await.body.starts_with("user=svc;"));
    assert!(!app.requests().iter().any(|request| request.contains("forged") || request.contains("sealgate")));
    assert_eq!((app.sign_ins(), app.wrong_passwords()), (1, 0));
    // Only the listed cookie reaches the browser.
    let cookies = browser.cookies(&url);
    assert!(cookies.contains("xsrf=x") && !cookies.contains("secret-") && !cookies.contains("sid="), "{cookies}");
    let again = browser.get(&url).await;
    assert_eq!(again.headers.get_all(SET_COOKIE).iter().count(), 0, "{:?}", again.headers);
    // The cookies of each response are sent with the next request.
    let last = app.requests().pop().unwrap();
    assert!(last.contains("sid=secret-") && last.contains("last=secret-"), "{last}");
    // A public path has no session.
    browser.get(&instance.app_url("/public/x")).await;
    assert!(!app.requests().pop().unwrap().contains("secret-"));
    // Another browser has another session.
    let other = Browser::new(&instance);
    assert!(other.go(&url).await.body.starts_with("user=svc;"));
    assert_eq!((app.sign_ins(), app.sessions()), (2, 2));
    let log = instance.log();
    for secret in [SERVICE_PASSWORD, "secret-"] {
        assert!(!log.contains(secret) && !page.body.contains(secret), "{secret}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ended_session_is_renewed_once_and_pages_are_requested_again() {
    let app = LoginApp::start(&[("svc", SERVICE_PASSWORD)]);
    let (mut instance, _) = with_service_account(&app, "");
    instance.start();
    let browser = Browser::new(&instance);
    browser.go(&instance.app_url("/")).await;
    assert_eq!(app.sign_ins(), 1);
    for path in ["/redirecting", "/slow"] {
        let before = app.sign_ins();
        app.forget_sessions();
        if path == "/slow" {
            // Any page may be that of an ended session. A probe of the last five seconds would count.
            tokio::time::sleep(Duration::from_millis(5100)).await;
        }
        let url = instance.app_url(path);
        let pages = (0..20).map(|_| browser.get(&url));
        for page in futures(pages).await {
            assert_eq!(page.status, 200, "{page:?}");
            assert!(page.body.starts_with("user=svc;"), "{}", page.body);
        }
        assert_eq!(app.sign_ins(), before + 1, "{path}");
    }
    // A user without permission is not signed in again and again.
    let before = app.sign_ins();
    for _ in 0..3 {
        assert_eq!(browser.get(&instance.app_url("/forbidden")).await.status, 302);
    }
    assert_eq!(app.sign_ins(), before);
}

async fn futures<F: Future<Output = Page>>(all: impl Iterator<Item = F>) -> Vec<Page> {
    let mut pages = Vec::new();
    let mut running: Vec<_> = all.map(Box::pin).collect();
    std::future::poll_fn(|cx| {
        running.retain_mut(|future| match future.as_mut().poll(cx) {
            std::task::Poll::Ready(page) => {
                pages.push(page);
                false
            }
            std::task::Poll::Pending => true,
        });
        if running.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    pages
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_is_sent_once_and_by_pages_of_the_application_only() {
    let app = LoginApp::start(&[("svc", SERVICE_PASSWORD)]);
    let (mut instance, _) = with_service_account(&app, "");
    instance.start();
    let browser = Browser::new(&instance);
    browser.go(&instance.app_url("/")).await;
    assert_eq!(save(&browser, &instance).await.status, 302);
    assert_eq!(app.saved(), ["svc: text=hello"]);
    // The session has ended: the form has a token of the ended session.
    app.forget_sessions();
    let refused = save(&browser, &instance).await;
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(refused.body.contains("session_renewed"), "{}", refused.body);
    assert_eq!(app.saved().len(), 1);
    assert_eq!(save(&browser, &instance).await.status, 302);
    assert_eq!(app.saved().len(), 2);
    // Other pages, and requests that do not tell where they come from.
    let own = origin(&instance);
    for (fields, is_allowed) in [
        (&[("origin", "https://evil.example")][..], false),
        (&[("origin", "null")], false),
        (&[], false),
        (&[("sec-fetch-site", "cross-site")], false),
        (&[("sec-fetch-site", "same-site")], false),
        (&[("sec-fetch-site", "same-origin"), ("origin", "https://evil.example")], false),
        (&[("sec-fetch-site", "cross-site"), ("origin", own.as_str())], false),
        (&[("sec-fetch-site", "same-origin")], true),
        (&[("sec-fetch-site", "same-origin"), ("origin", "null")], true),
    ] {
        let before = app.saved().len();
        let mut request = browser.client().post(instance.app_url("/save")).form(&[("text", "x")]);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let status = browser.send(request).await.status;
        assert_eq!((status, app.saved().len() - before), if is_allowed { (302, 1) } else { (403, 0) }, "{fields:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_session_at_the_application_ends_with_the_users_access() {
    let app = LoginApp::start(&[("svc", SERVICE_PASSWORD)]);
    let (mut instance, _) = with_service_account(&app, "");
    instance.start();
    let browser = Browser::new(&instance);
    browser.go(&instance.app_url("/")).await;
    // The application's own sign-out ends the session of Sealgate.
    let left = browser.get(&instance.app_url("/leave?token=1&what=all")).await;
    assert_eq!(left.location().unwrap(), instance.app_url("/.sealgate/logout"));
    let page = browser.open(&instance.app_url("/.sealgate/logout")).await;
    let page = browser.submit(&page, &[("logout-confirm", "yes")]).await;
    assert!(page.body.contains("You are signed out of <bdi>Wiki</bdi> too."), "{}", page.body);
    until("signed out at the application", async || app.sessions() == 0).await;
    assert_eq!(app.sign_outs(), 1);
    for app in ["nobody", "~own", "%3Cb%3E", "wiki.a"] {
        let page = browser.get(&instance.url(&format!("/oauth/signed-out?app={app}"))).await;
        assert!(page.status == 200 && !page.body.contains("id=\"app-login\""), "{}", page.body);
    }
    // So does a disabled account.
    browser.go(&instance.app_url("/")).await;
    assert_eq!(app.sessions(), 1);
    instance.run(&["user", "disable", "anna@example.test"]);
    assert_eq!(browser.client().get(instance.app_url("/")).send().await.unwrap().status(), 401);
    until("signed out at the application", async || app.sessions() == 0).await;
    assert_eq!((app.sign_ins(), app.sign_outs()), (2, 2));
}

/// The recipe has `user_in_body`, so the probe notices it.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_another_user_is_replaced() {
    let app = LoginApp::start(&[("svc", SERVICE_PASSWORD)]);
    let (mut instance, _) = with_service_account(&app, "");
    instance.start();
    let browser = Browser::new(&instance);
    browser.go(&instance.app_url("/")).await;
    app.give_sessions_to("other");
    browser.get(&instance.app_url("/forbidden")).await;
    let page = browser.get(&instance.app_url("/")).await;
    assert!(page.body.starts_with("user=svc;"), "{}", page.body);
    assert_eq!((app.sign_ins(), app.sign_outs()), (2, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_sent_once() {
    let app = LoginApp::start(&[("svc", "other")]);
    let (mut instance, _) = with_service_account(&app, "");
    instance.start();
    let browser = Browser::new(&instance);
    let page = browser.go(&instance.app_url("/")).await;
    assert_eq!(page.status, 403, "{page:?}");
    assert!(page.body.contains("service account"), "{}", page.body);
    for _ in 0..3 {
        assert_eq!(browser.get(&instance.app_url("/")).await.status, 403);
    }
    let program = browser.client().get(instance.app_url("/")).send().await.unwrap();
    assert_eq!(program.status(), 403);
    assert_eq!((app.wrong_passwords(), app.sign_ins()), (1, 0));
    // A corrected password is used at once.
    write_password(&instance, "other");
    assert_eq!(browser.get(&instance.app_url("/")).await.status, 200);
    assert_eq!((app.wrong_passwords(), app.sign_ins()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_application_is_an_error_that_passes() {
    let app = LoginApp::start(&[("svc", SERVICE_PASSWORD)]);
    let (mut instance, _) = with_service_account(&app, "");
    instance.start();
    app.set_broken(true);
    let browser = Browser::new(&instance);
    let page = browser.go(&instance.app_url("/")).await;
    assert_eq!((page.status, page.headers["retry-after"].to_str().unwrap()), (503, "5"), "{page:?}");
    app.set_broken(false);
    until("signed in", async || browser.get(&instance.app_url("/")).await.status == 200).await;
    // While the session is open, errors of the application are its own.
    app.set_broken(true);
    assert_eq!(browser.get(&instance.app_url("/")).await.status, 500);
    app.set_broken(false);
    assert_eq!(browser.get(&instance.app_url("/")).await.status, 200);
    assert_eq!((app.sign_ins(), app.wrong_passwords()), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_keeps_sessions_unless_the_recipe_changes() {
    let app = LoginApp::start(&[("svc", SERVICE_PASSWORD)]);
    let (mut instance, mut settings) = with_service_account(&app, "");
    instance.start();
    let browser = Browser::new(&instance);
    browser.go(&instance.app_url("/")).await;
    settings.sections = settings.sections.replace("title = \"Wiki\"", "title = \"Notes\"");
    instance.configure(&settings);
    instance.run(&["reload"]);
    assert_eq!(browser.get(&instance.app_url("/")).await.status, 200);
    assert_eq!((app.sign_ins(), app.sessions()), (1, 1));
    write_recipe(&instance, &format!("{RECIPE}# changed\n"));
    instance.run(&["reload"]);
    until("signed out at the application", async || app.sign_outs() == 1).await;
    assert_eq!(browser.get(&instance.app_url("/")).await.status, 200);
    assert_eq!((app.sign_ins(), app.sessions()), (2, 1));
    // The sessions of the new configuration end with the users' access, too.
    instance.run(&["user", "disable", "anna@example.test"]);
    until("signed out at the application", async || app.sessions() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_that_fails_keeps_sessions() {
    let app = LoginApp::start(&[("svc", SERVICE_PASSWORD)]);
    let (mut instance, settings) = with_service_account(&app, "");
    instance.add_public_client("taken");
    instance.start();
    let browser = Browser::new(&instance);
    browser.go(&instance.app_url("/")).await;
    // The recipe changes, and the last step of the reload fails: the store has the client already.
    write_recipe(&instance, &format!("{RECIPE}# changed\n"));
    let client =
        "[[client]]\nid = \"taken\"\nname = \"Taken\"\ntype = \"public\"\nredirect_uris = [\"https://a.example/cb\"]\n";
    instance.configure(&Settings { sections: settings.sections + client, ..Settings::default() });
    let failed = instance.try_run(&["reload"], "");
    assert!(!failed.status.success(), "{failed:?}");
    assert!(String::from_utf8_lossy(&failed.stderr).contains("taken"), "{failed:?}");
    assert_eq!(browser.get(&instance.app_url("/")).await.status, 200);
    assert_eq!((app.sign_ins(), app.sign_outs()), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_sessions_that_end_at_once_are_renewed() {
    let app = LoginApp::start(&[("svc", SERVICE_PASSWORD)]);
    let (mut instance, _) = with_service_account(&app, "");
    instance.start();
    // More browsers than concurrent probes.
    let browsers: Vec<_> = (0..24).map(|_| Browser::new(&instance)).collect();
    let (url, first) = (instance.app_url("/redirecting"), instance.app_url("/"));
    for browser in &browsers {
        assert_eq!(browser.go(&first).await.status, 200);
    }
    app.forget_sessions();
    app.set_probe_delay(Duration::from_millis(100));
    for page in futures(browsers.iter().map(|browser| browser.get(&url))).await {
        assert!(page.status == 200 && page.body.starts_with("user=svc;"), "{page:?}");
    }
    assert_eq!((app.sign_ins(), app.sessions()), (48, 24));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_without_an_answer_changes_no_response() {
    let app = LoginApp::start(&[("svc", SERVICE_PASSWORD)]);
    let (mut instance, _) = with_service_account(&app, "");
    instance.start();
    let browser = Browser::new(&instance);
    browser.go(&instance.app_url("/")).await;
    app.set_probe_delay(Duration::from_secs(8));
    for path in ["/forbidden", "/forbidden"] {
        let page = browser.get(&instance.app_url(path)).await;
        assert_eq!(page.location().unwrap(), instance.app_url("/login"), "{page:?}");
    }
    assert_eq!(app.sign_ins(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_password_keeps_open_sessions() {
    let app = LoginApp::start(&[("svc", SERVICE_PASSWORD)]);
    let (mut instance, _) = with_service_account(&app, "");
    instance.start();
    let browser = Browser::new(&instance);
    browser.go(&instance.app_url("/")).await;
    write_password(&instance, "");
    // Changes of the user's access cause a check.
    instance.run(&["user", "set", "anna@example.test", "--name", "Anna"]);
    assert_eq!(browser.get(&instance.app_url("/redirecting")).await.status, 200);
    assert_eq!((app.sign_ins(), app.sign_outs()), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_group_of_a_user_decides_about_the_service_account() {
    let app = LoginApp::start(&[("svc", SERVICE_PASSWORD), ("boss", SERVICE_PASSWORD), ("editor", "other")]);
    let accounts = ", group_accounts = [{ group = \"admins\", username = \"boss\", password_file = \"service.password\" }, \
                    { group = \"editors\", username = \"editor\", password_file = \"service.password\" }]";
    let (mut instance, _) = with_service_account(&app, accounts);
    instance.start();
    let (browser, url) = (Browser::new(&instance), instance.app_url("/notes"));
    let explained = || instance.json(&["explain", &url, "--user", "anna@example.test"])["login"].to_string();
    assert!(browser.go(&url).await.body.starts_with("user=svc;"));
    assert!(explained().contains("svc"), "{}", explained());
    // A changed group decides about the next request, and the session of the other account ends.
    instance.run(&["user", "set", "anna@example.test", "--add-group", "admins"]);
    assert!(browser.get(&url).await.body.starts_with("user=boss;"));
    assert!(explained().contains("boss"), "{}", explained());
    until("the first session ends", || async { app.sign_outs() == 1 }).await;
    // The first group of the list decides.
    instance.run(&["user", "set", "anna@example.test", "--add-group", "editors"]);
    assert!(browser.get(&url).await.body.starts_with("user=boss;"));
    assert_eq!((app.sign_ins(), app.wrong_passwords()), (2, 0));
    // A wrong password of one account has no effect on the others.
    instance.run(&["user", "set", "anna@example.test", "--remove-group", "admins"]);
    let refused = browser.get(&url).await;
    assert!(refused.status == 403 && refused.body.contains("service account"), "{refused:?}");
    instance.run(&["user", "set", "anna@example.test", "--remove-group", "editors"]);
    assert!(browser.get(&url).await.body.starts_with("user=svc;"));
    assert_eq!((app.sign_ins(), app.wrong_passwords()), (3, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_leaves_a_group_has_only_the_own_account() {
    let app = LoginApp::start(&[("boss", SERVICE_PASSWORD)]);
    let accounts =
        ", group_accounts = { group = \"admins\", username = \"boss\", password_file = \"service.password\" }";
    let settings = settings(&app, accounts);
    let mut instance = Instance::bare(&Settings::default());
    write_recipe(&instance, RECIPE);
    write_password(&instance, SERVICE_PASSWORD);
    instance.configure(&settings);
    instance.run(&["key", "generate"]);
    instance.add_anna();
    instance.run(&["user", "set", "anna@example.test", "--add-group", "admins"]);
    instance.start();
    let (browser, url) = (Browser::new(&instance), instance.app_url("/notes"));
    assert!(browser.go(&url).await.body.starts_with("user=boss;"));
    // The account page asks only the users whose own account is used.
    let form = instance.url("/account/app-logins");
    assert!(!browser.get(&form).await.body.contains("Wiki"));
    instance.run(&["user", "set", "anna@example.test", "--no-groups"]);
    let page = browser.get(&url).await;
    assert!(page.status == 403 && page.body.contains("/account/app-logins"), "{page:?}");
    assert!(browser.get(&form).await.body.contains("Wiki"));
    assert_eq!((app.sign_ins(), app.wrong_passwords()), (1, 0));
}
