//! Users enter their own name and password for an application with a login form, and the gateway
//! signs them in.

use std::fs;

use reqwest::header::ORIGIN;

use crate::support::login_app::{LoginApp, RECIPE};
use crate::support::{Browser, Instance, Page, Settings, until};

const ANNA: &str = "anna@example.test";
const PASSWORD: &str = "geheimes Kennwort 4711";

/// Starts an instance whose gateway signs users in to this application with their own passwords.
fn started(app: &LoginApp) -> Instance {
    let url = app.url();
    let settings = Settings {
        sections: format!(
            "[[app]]\nname = \"wiki\"\ntitle = \"Wiki\"\nhost = \"app.localhost\"\nupstreams = [\"{url}\"]\n\
             login = {{ recipe = \"recipe.toml\" }}\n[[app.route]]\npath = \"/\"\naccess = \"signed_in\"\n"
        ),
        ..Settings::default()
    };
    let mut instance = Instance::bare(&Settings::default());
    fs::write(instance.directory.path().join("recipe.toml"), RECIPE).unwrap();
    instance.configure(&settings);
    instance.run(&["key", "generate"]);
    instance.add_anna();
    instance.start();
    instance
}

/// Enters a name and password on the account page to which the gateway's page leads.
async fn enter(browser: &Browser, instance: &Instance, username: &str, password: &str) -> Page {
    let form = browser.open(&instance.url("/account/app-logins?app=wiki")).await;
    let (_, csrf) = form.hidden_fields().into_iter().find(|(name, _)| name == "csrf").unwrap();
    let fields = [("csrf", csrf.as_str()), ("app", "wiki"), ("app_username", username), ("app_password", password)];
    let request = browser.client().post(instance.url("/account/app-logins")).header(ORIGIN, instance.url(""));
    let reply = browser.send(request.form(&fields)).await;
    assert_eq!(reply.status, 303, "{reply:?}");
    browser.open(&reply.location().unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_enters_a_password_once_and_is_signed_in_until_it_is_removed() {
    let app = LoginApp::start(&[("a.sahin", PASSWORD)]);
    let instance = started(&app);
    let browser = Browser::new(&instance);
    let missing = browser.go(&instance.app_url("/")).await;
    assert_eq!(missing.status, 403, "{missing:?}");
    assert!(
        missing.body.contains(&format!("href=\"{}\"", instance.url("/account/app-logins?app=wiki"))),
        "{missing:?}"
    );
    let saved = enter(&browser, &instance, "a.sahin", PASSWORD).await;
    let link = format!("id=\"app-login-open\" href=\"{}\"", instance.app_url("/"));
    assert!(saved.body.contains(&link) && !saved.body.contains(PASSWORD), "{saved:?}");
    assert_eq!(browser.open(&instance.app_url("/")).await.status, 200);
    assert_eq!((app.sign_ins(), app.wrong_passwords(), app.sessions()), (1, 0, 1));

    // A removed password ends the session at the application.
    instance.run(&["app-login", "remove", ANNA, "wiki"]);
    assert_eq!(browser.get(&instance.app_url("/")).await.status, 403);
    until("signed out at the application", async || app.sessions() == 0).await;
    let set = ["app-login", "set", ANNA, "wiki", "--username", "a.sahin", "--password-stdin"];
    instance.run_with_input(&set, PASSWORD);
    assert_eq!(browser.get(&instance.app_url("/")).await.status, 200);
    assert_eq!((app.sign_ins(), app.wrong_passwords()), (2, 0));
    let log = instance.log();
    assert!(!log.contains(PASSWORD) && log.contains("app_credential_set"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_password_is_not_sent_again_until_it_is_replaced() {
    let app = LoginApp::start(&[("a.sahin", PASSWORD)]);
    let instance = started(&app);
    let browser = Browser::new(&instance);
    browser.go(&instance.app_url("/")).await;
    enter(&browser, &instance, "a.sahin", "wrong").await;
    for _ in 0..3 {
        let refused = browser.open(&instance.app_url("/")).await;
        assert!(refused.status == 403 && refused.body.contains("did not accept"), "{refused:?}");
    }
    assert_eq!((app.sign_ins(), app.wrong_passwords()), (0, 1));
    let list = instance.json(&["app-login", "list", ANNA]);
    assert_eq!(list["app_logins"][0]["refused"], true, "{list}");
    let page = browser.open(&instance.url("/account/app-logins")).await;
    assert!(page.body.contains("did not accept this username or password"), "{page:?}");
    enter(&browser, &instance, "a.sahin", PASSWORD).await;
    assert_eq!(browser.open(&instance.app_url("/")).await.status, 200);
    assert_eq!((app.sign_ins(), app.wrong_passwords()), (1, 1));
}
