//! Tests the page of applications at the issuer's root.

use sealgate_domain::webauthn::KeyAlgorithm;

use crate::authenticator::Authenticator;
use crate::security::{key_of, send};
use crate::steps::with_anna;
use crate::support::{Browser, Provider, is_login};

const APPS: &str = r#"
    [[app]]
    name = "wiki"
    title = "Bilgi <Bankası>"
    description = "What we know"
    host = "wiki.test"
    upstreams = ["http://127.0.0.1:8081"]
    [[app.route]]
    path = "/"
    access = "signed_in"
    [[app]]
    name = "ledger"
    host = "ledger.test"
    upstreams = ["http://127.0.0.1:8082"]
    [[app.route]]
    path = "/"
    access = "signed_in"
    groups = ["accounting"]
    [[app.route]]
    path = "/static/"
    access = "public"
    [[app]]
    name = "shop"
    host = "shop.test"
    upstreams = ["http://127.0.0.1:8083"]
    [[app.route]]
    path = "/orders/"
    access = "signed_in"
    users = ["anna@example.test"]
    max_age_seconds = 60
    [[app]]
    name = "api"
    host = "api.test"
    upstreams = ["http://127.0.0.1:8084"]
    [[app.route]]
    path = "/"
    access = "bearer"
    [[app]]
    name = "site"
    host = "site.test"
    url = "https://site.test:8443"
    upstreams = ["http://127.0.0.1:8085"]
    [[app.route]]
    path = "/"
    access = "public"
    [[app]]
    name = "previews"
    host = "*.previews.test"
    upstreams = ["http://127.0.0.1:8086"]
    [[app.route]]
    path = "/"
    access = "signed_in"
"#;

/// Adds a key of this kind on the page "Security".
async fn add_key(browser: &Browser<'_>, kind: &str, seed: u8) {
    const KEY: &str = "/account/security/key";
    let authenticator = Authenticator::new(KeyAlgorithm::Es256, &[seed; 32]);
    let page = browser.open(KEY).await;
    let answer = key_of(&page, &authenticator, |ceremony| ceremony);
    let done = send(browser, KEY, &page, &[("kind", kind), ("credential", &answer)]).await;
    assert_eq!(done.status, 200, "{done:?}");
}

#[tokio::test]
async fn the_home_page_offers_a_passkey_to_users_without_one() {
    let offered = async |browser: &Browser<'_>| browser.open("/").await.text().contains("id=\"passkey-offer\"");
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    assert!(offered(&browser).await);
    add_key(&browser, "security_key", 1).await;
    assert!(offered(&browser).await, "a security key is no passkey");
    add_key(&browser, "passkey", 2).await;
    assert!(!offered(&browser).await);
    // A user who needs an enrolment link cannot add a passkey here.
    let provider = Provider::with("[factors]\nenrolment = \"administrator\"\n").await;
    let browser = with_anna(&provider).await;
    assert!(!offered(&browser).await);
}

/// Returns the URLs of the applications on the home page.
fn links(page: &str) -> Vec<String> {
    let parts = page.split("<p class=\"name\"><a href=\"").skip(1);
    parts.map(|part| part.split('"').next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn many_applications_have_a_search() {
    let app = |name: &str, title: &str| {
        format!(
            "[[app]]\nname = {name:?}\ntitle = {title:?}\ndescription = \"Number {name}\"\nhost = \"{name}.test\"\n\
             upstreams = [\"http://127.0.0.1:8081\"]\n[[app.route]]\npath = \"/\"\naccess = \"signed_in\"\n"
        )
    };
    let few: String = (0..8).map(|number| app(&format!("app{number}"), &format!("Tool {number}"))).collect();
    let provider = Provider::with(&few).await;
    let page = with_anna(&provider).await.get("/").await;
    assert_eq!((links(page.text()).len(), page.text().contains("role=\"search\"")), (8, false));
    let provider = Provider::with(&(few + &app("forms", "İzin Formları"))).await;
    let anna = with_anna(&provider).await;
    let page = anna.get("/").await;
    assert_eq!((links(page.text()).len(), page.text().contains("role=\"search\"")), (9, true));
    for (query, found) in [
        ("izin+form", &["https://forms.test/"][..]),
        ("FORMLARI", &["https://forms.test/"]),
        ("number+app3", &["https://app3.test/"]),
        ("+tool+7+", &["https://app7.test/"]),
        ("nothing", &[]),
    ] {
        let page = anna.get(&format!("/?q={query}")).await;
        assert_eq!(links(page.text()), found, "{query}");
        assert_eq!(page.text().contains("id=\"home-search-all\""), found.is_empty(), "{query}");
    }
    let page = anna.get(&format!("/?q=%3Cb%3E{}", "a".repeat(300))).await;
    assert!(page.text().contains(&format!("value=\"&#60;b&#62;{}\"", "a".repeat(97))), "{page:?}");
}

#[tokio::test]
async fn an_application_without_a_working_server_is_marked() {
    let provider = Provider::with(APPS).await;
    let anna = with_anna(&provider).await;
    let server = |number: u8, is_alive| ("wiki".to_owned(), format!("http://127.0.0.1:808{number}"), is_alive);
    for (states, is_marked) in [
        (vec![], false),
        (vec![server(1, false), server(2, true)], false),
        (vec![server(1, false), server(2, false)], true),
    ] {
        provider.sealgate.upstreams.set(states.clone());
        assert_eq!(anna.get("/").await.text().contains("Unavailable"), is_marked, "{states:?}");
    }
}

#[tokio::test]
async fn the_menu_has_four_groups() {
    let provider = Provider::with(APPS).await;
    let anna = with_anna(&provider).await;
    let currents = |page: &str| -> Vec<String> {
        let head = page.split("</header>").next().unwrap();
        let parts =
            head.split("<li><a href=\"").skip(1).filter(|part| part.split('>').next().unwrap().contains("current"));
        parts
            .map(|part| part.split(['"', '>']).filter(|text| !text.contains('=')).take(2).collect::<String>())
            .collect()
    };
    for (path, expected) in [
        ("/", &["/page", "/page"][..]),
        ("/account", &["/accountpage"]),
        ("/account/security", &["/account/securitypage", "/account/securitypage"]),
        ("/account/sessions", &["/account/securitylocation", "/account/sessionspage"]),
        ("/account/activity", &["/account/activitypage"]),
    ] {
        assert_eq!(currents(anna.get(path).await.text()), expected, "{path}");
    }
}

#[tokio::test]
async fn the_start_page_lists_only_accessible_applications() {
    let provider = Provider::with(APPS).await;
    let browser = provider.browser();
    let login = browser.open("/").await;
    assert!(is_login(&login), "{login:?}");
    let home = browser.sign_in(&login, "ben@example.test").await;
    assert!(home.status == 200 && home.text().contains("Your applications"), "{home:?}");
    assert_eq!(links(home.text()), ["https://wiki.test/", "https://site.test:8443/"]);
    assert!(home.text().contains("Bilgi &#60;Bankası&#62;") && home.text().contains("What we know"), "{home:?}");
    // A wildcard has no address of its own.
    assert!(!home.text().contains("previews"), "{home:?}");
    // The page also shows applications that a verified address or a group opens.
    let anna = with_anna(&provider).await;
    assert_eq!(
        links(anna.get("/").await.text()),
        ["https://wiki.test/", "https://shop.test/orders/", "https://site.test:8443/"]
    );
    let join = |user: &mut sealgate_domain::user::User| _ = user.groups.insert("accounting".into());
    provider.sealgate.store.change_user(provider.anna.sub, join).await.unwrap();
    assert!(links(anna.get("/").await.text()).contains(&"https://ledger.test/".to_owned()));
    let turkish = anna.get("/?lang=tr").await;
    assert!(turkish.text().contains("Uygulamalarınız"), "{turkish:?}");
    assert_eq!(anna.get("/oauth/icons/wiki").await.status, 404, "it has none");
}

#[tokio::test]
async fn the_root_of_the_issuers_host_belongs_to_its_application() {
    let shared = APPS.replace("host = \"wiki.test\"", "host = \"id.test\"");
    let provider = Provider::with(&shared).await;
    provider.get("/").await.assert_error(404, "not_found");
    let anna = with_anna(&provider).await;
    assert!(!anna.get("/account").await.text().contains("href=\"/\""));
    // The provider does not show its own page there to signed-in users either.
    assert_eq!(anna.get("/").await.status, 404);
}

#[tokio::test]
async fn the_start_page_says_that_no_application_is_accessible() {
    let provider = Provider::new().await;
    let anna = with_anna(&provider).await;
    assert!(anna.get("/").await.text().contains("not have access to any application yet"));
}
