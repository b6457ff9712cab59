//! Tests the fields in which clients and users enter names: no character that is invisible or
//! changes the direction of text is stored or shown.

use sealgate_domain::user::Role;
use sealgate_store::engine::Engine as _;
use serde_json::json;

use crate::register::{Registered, metadata, register};
use crate::security::{self, with_app};
use crate::steps::assert_code;
use crate::support::{Browser, PASSWORD, Provider, REDIRECT_URI, Reply};
use crate::{mailbox, registration_of_people};

/// Characters that are invisible, end a line, or change the direction of text.
const INVISIBLE: [char; 15] = [
    '\u{85}', '\u{ad}', '\u{61c}', '\u{200b}', '\u{200d}', '\u{200e}', '\u{200f}', '\u{2028}', '\u{2029}', '\u{202a}',
    '\u{202e}', '\u{2060}', '\u{2066}', '\u{2069}', '\u{feff}',
];
const ANNA: &str = "anna@example.test";
const CHOSEN: &str = "purple lantern under seven bridges";
const SETTINGS: &str = "[console]\nenabled = true\n[registration]\nmode = \"open\"\n[registration_of_people]\n\
    mode = \"open\"\n[[app]]\nname = \"git\"\nhost = \"git.test\"\nupstreams = [\"http://127.0.0.1:9\"]\n\
    [[app.route]]\npath = \"/\"\naccess = \"signed_in\"\napp_passwords = true\n";

async fn provider() -> Provider {
    let provider = Provider::with(&format!("{}{SETTINGS}", mailbox::MAIL)).await;
    provider.change_user(provider.anna.sub, |user| user.roles = [Role::Admin].into()).await;
    provider
}

/// Asserts that no record of the store and no page that lists names has the character. In the store it
/// is looked for between the letters that surround it in every name here: identifiers and encrypted
/// records are random bytes, which contain the two bytes of U+0085 by chance.
async fn assert_absent(provider: &Provider, browser: &Browser<'_>, letter: char, of: &str) {
    let text = format!("i{letter}k");
    provider.sealgate.audit.write(&provider.sealgate.store).await.unwrap();
    for (key, value) in provider.engine.scan(b"", None, 100_000).await.unwrap() {
        let is_in = |bytes: &[u8]| bytes.windows(text.len()).any(|part| part == text.as_bytes());
        assert!(
            !is_in(&key) && !is_in(&value),
            "{of}, {}: {}",
            letter.escape_unicode(),
            String::from_utf8_lossy(&value)
        );
    }
    for path in ["/account", "/account/sessions", "/account/security", "/console", "/console/users", "/console/audit"] {
        let page = browser.get(path).await;
        assert!(page.status == 200 && !page.text().contains(letter), "{of}, {path}: {}", letter.escape_unicode());
    }
}

async fn send(browser: &Browser<'_>, path: &str, fields: &[(&str, &str)]) -> Reply {
    let page = browser.get(path).await;
    assert_eq!(page.status, 200, "{path}: {page:?}");
    security::send(browser, path, &page, fields).await
}

#[tokio::test]
async fn account_fields_store_no_invisible_characters() {
    let provider = provider().await;
    let (anna, _) = Box::pin(with_app(&provider)).await;
    let page = anna.get("/account/security").await;
    let factor = security::between(page.text(), "/account/security/factor?id=", "\"").unwrap().to_owned();
    for letter in INVISIBLE {
        let name = format!("Wi{letter}ki");
        let address = format!("wi{letter}ki@example.test");
        for (path, fields) in [
            ("/account", vec![("name", name.as_str()), ("phone_number", ""), ("picture", "")]),
            ("/account", vec![("name", "Anna"), ("phone_number", &name), ("picture", "")]),
            ("/account", vec![("name", "Anna"), ("phone_number", ""), ("picture", &name)]),
            ("/account/app-passwords", vec![("app", "git"), ("name", &name)]),
            ("/account/address/new", vec![("address", &address)]),
        ] {
            send(&anna, path, &fields).await;
            assert_absent(&provider, &anna, letter, path).await;
        }
        let path = format!("/account/security/factor?id={factor}");
        let page = anna.get(&path).await;
        let fields = [("factor", factor.as_str()), ("name", &name)];
        security::send(&anna, "/account/security/factor", &page, &fields).await;
        assert_absent(&provider, &anna, letter, "factor").await;
        assert!(anna.get("/account/security").await.text().contains("<bdi>Wiki</bdi>"));
    }
}

#[tokio::test]
async fn console_fields_store_no_invisible_characters() {
    let provider = provider().await;
    let anna = provider.browser();
    anna.sign_in(&anna.open("/account").await, ANNA).await;
    let ben = format!("/console/users/{}", provider.ben.sub);
    for letter in INVISIBLE {
        let name = format!("Wi{letter}ki");
        let address = format!("wi{letter}ki@example.test");
        let client = |changes: &[(&'static str, &'static str)], field: &'static str| {
            let kept = [
                ("name", "Wiki"),
                ("type", "confidential"),
                ("auth_method", "client_secret_basic"),
                ("redirect_uris", REDIRECT_URI),
            ];
            let kept = kept.into_iter().filter(|(name, _)| *name != field);
            kept.chain(changes.iter().copied()).collect::<Vec<_>>()
        };
        let user = |field: &'static str| {
            let kept = [("email", "wiki@example.test"), ("name", "Wiki"), ("with-password", "yes")];
            kept.into_iter().filter(|(name, _)| *name != field).collect::<Vec<_>>()
        };
        let profile = |field: &'static str| {
            let kept = [("action", "save-profile"), ("email", "ben@example.test"), ("name", "Ben"), ("sure", "yes")];
            kept.into_iter().filter(|(name, _)| *name != field).collect::<Vec<_>>()
        };
        let with = |fields: Vec<(&'static str, &'static str)>, field: &'static str, value: &str| {
            let mut all: Vec<(&str, String)> = fields.into_iter().map(|(name, text)| (name, text.to_owned())).collect();
            all.push((field, value.to_owned()));
            all
        };
        for (path, fields) in [
            ("/console/clients/new", with(client(&[], "name"), "name", &name)),
            ("/console/clients/new", with(client(&[], ""), "description", &name)),
            ("/console/clients/new", with(client(&[], "redirect_uris"), "redirect_uris", &name)),
            ("/console/clients/new", with(client(&[], ""), "default_scope", &name)),
            ("/console/clients/c1", with(client(&[("action", "save")], "name"), "name", &name)),
            ("/console/users/new", with(user("name"), "name", &name)),
            ("/console/users/new", with(user("email"), "email", &address)),
            ("/console/users/new", with(user(""), "username", &name)),
            ("/console/users/new", with(user(""), "groups", &name)),
            (ben.as_str(), with(vec![("action", "save")], "groups", &name)),
            (ben.as_str(), with(profile("username"), "username", &name)),
            (ben.as_str(), with(profile("name"), "name", &name)),
            (ben.as_str(), with(profile("email"), "email", &address)),
            (ben.as_str(), with(profile("phone_number"), "phone_number", &name)),
        ] {
            let fields: Vec<(&str, &str)> = fields.iter().map(|(name, text)| (*name, text.as_str())).collect();
            send(&anna, path, &fields).await;
            assert_absent(&provider, &anna, letter, &format!("{path} {fields:?}")).await;
        }
    }
}

#[tokio::test]
async fn fields_of_unauthenticated_requests_store_no_invisible_characters() {
    let provider = provider().await;
    let anna = provider.browser();
    anna.sign_in(&anna.open("/account").await, ANNA).await;
    let own = Registered::new(&provider, &json!({})).await;
    let newcomer = provider.browser();
    let page = registration_of_people::prove(&provider, &newcomer, "ceren@example.test").await;
    let login = provider.browser();
    let sign_in = login.open(&provider.c1().authorize(&[])).await;
    for letter in INVISIBLE {
        let name = format!("Wi{letter}ki");
        for field in ["client_name", "client_name#tr", "client_uri", "tos_uri", "policy_uri", "logo_uri", "scope"] {
            register(&provider, &metadata(&json!({field: name}))).await;
            own.manage(&provider, "PUT", &own.update(&json!({field: name})).to_string()).await;
            assert_absent(&provider, &anna, letter, field).await;
        }
        let fields = [("person-name", name.as_str()), ("new-password", CHOSEN), ("new-password-submit", "yes")];
        newcomer.submit(&page, &fields).await;
        assert_absent(&provider, &anna, letter, "person-name").await;
        login.submit(&sign_in, &[("email", &name), ("password", PASSWORD)]).await;
        assert_absent(&provider, &anna, letter, "sign-in").await;
        // A browser that names itself.
        let agent = format!("Mozilla/5.0 (X11; Wi{letter}ki) Firefox/140.0");
        let reply = provider.request("GET", &provider.c1().authorize(&[]), &[("user-agent", &agent)], "").await;
        assert!(matches!(reply.status, 303 | 400), "{reply:?}");
        assert_absent(&provider, &anna, letter, "user-agent").await;
    }
    let fields = [("person-name", "Ceren"), ("new-password", CHOSEN), ("new-password-submit", "yes")];
    let consent = newcomer.submit(&page, &fields).await;
    assert_code(&newcomer.allow(&consent).await);
}
