//! Users of a directory beside local features: passkeys, several accounts in a browser, tokens, mail,
//! and clusters.

use serde_json::Value;

use crate::authenticator::Authenticator;
use crate::cluster::Cluster;
use crate::directory::{Keys, World, problem};
use crate::flow::{Client, Proof, text};
use crate::mail_server::MailServer;
use crate::slapd::{BASE, SERVICE_DN, SERVICE_PASSWORD, Slapd, user, write_secret};
use crate::support::{Browser, Instance, Page, until};
use sealgate_domain::webauthn::{CeremonyChallenge, KeyAlgorithm, UserHandle};

const SHADOW: &str = "objectClass: shadowAccount\n";

fn expire(slapd: &Slapd, uid: &str) {
    slapd.change(&format!("dn: uid={uid},ou=people,{BASE}\nchangetype: modify\nadd: shadowExpire\nshadowExpire: 1\n"));
}

/// Returns the JSON in an attribute of a page.
fn options(page: &Page, attribute: &str) -> Value {
    let (_, rest) = page.body.split_once(&format!("{attribute}=\"")).unwrap_or_else(|| panic!("{page:?}"));
    let text = rest.split('"').next().unwrap().replace("&#34;", "\"").replace("&quot;", "\"");
    serde_json::from_str(&text).unwrap()
}

/// Adds a passkey to the account that is signed in.
async fn add_passkey(world: &World, browser: &Browser) -> Authenticator {
    let mut key = Authenticator::new(KeyAlgorithm::Es256, &[9; 32]);
    let page = browser.open(&world.instance.url("/account/security/key")).await;
    let options = options(&page, "data-creates");
    let challenge = CeremonyChallenge::parse(options["challenge"].as_str().unwrap()).unwrap();
    key.handle = UserHandle::parse(options["user"]["id"].as_str().unwrap()).unwrap();
    let made = key.registration(&world.instance.url(""), options["rp"]["id"].as_str().unwrap(), &challenge);
    let credential = made.registered().to_string();
    let done = browser.submit(&by_script(&page, None), &[("kind", "passkey"), ("credential", &credential)]).await;
    assert!(done.body.contains("class=\"done\""), "{done:?}");
    key
}

/// Returns the page as its script changes it: it fills in hidden fields, and sets the form's action.
fn by_script(page: &Page, action: Option<&str>) -> Page {
    let mut body = page.body.clone();
    for name in ["credential", "kind"] {
        body = body.replace(&format!("type=\"hidden\" name=\"{name}\""), &format!("name=\"{name}\""));
    }
    if let Some(action) = action {
        let before = page.form_action().replace('&', "&#38;");
        body = body.replacen(&format!("action=\"{before}\""), &format!("action=\"{action}\""), 1);
    }
    Page { body, headers: page.headers.clone(), url: page.url.clone(), status: page.status }
}

/// Signs in with a passkey in a new browser, and returns the page at the end.
async fn enter_with(world: &World, key: &Authenticator, sign_count: u32) -> Page {
    let browser = Browser::new(&world.instance);
    let page = browser.open(&world.instance.app_url("/json")).await;
    let (_, action) = page.body.split_once("formaction=\"").unwrap_or_else(|| panic!("{page:?}"));
    let action = action.split('"').next().unwrap().to_owned();
    let options = options(&page, "data-gets");
    let challenge = CeremonyChallenge::parse(options["challenge"].as_str().unwrap()).unwrap();
    let mut answer = key.assertion(&world.instance.url(""), options["rpId"].as_str().unwrap(), &challenge);
    answer.sign_count = sign_count;
    let credential = answer.asserted(key).to_string();
    browser.submit(&by_script(&page, Some(&action)), &[("credential", &credential)]).await
}

#[tokio::test]
async fn a_passkey_does_not_admit_an_account_that_the_directory_has_disabled() {
    // The account is not read again in the background within the test.
    let keys = Keys { replaced: &[("refresh_seconds = 1\n", "refresh_seconds = 3600\n")], ..Keys::default() };
    let world = World::start(&user("anna", SHADOW), &keys);
    let anna = world.signed_in("anna").await;
    let key = add_passkey(&world, &anna).await;
    let page = enter_with(&world, &key, 1).await;
    assert!(page.status == 200 && page.body.contains("\"headers\""), "{page:?}");
    expire(&world.slapd, "anna");
    let page = enter_with(&world, &key, 2).await;
    assert!(page.body.contains("id=\"login-problem\""), "{page:?}");
    assert_eq!(world.show("anna")["source"]["state"], "expired");
    // The passkey also signed out the session that was open.
    assert_eq!(world.status(&anna, "/json").await, 302);
    world.slapd.change(&format!("dn: uid=anna,ou=people,{BASE}\nchangetype: modify\ndelete: shadowExpire\n"));
    // A sign-in with the password reads the account again, and then asks for the passkey.
    let (_, page) = world.enter("anna", "password of anna").await;
    assert!(page.body.contains("Verify it’s you"), "{page:?}");
    let page = enter_with(&world, &key, 3).await;
    assert!(page.status == 200 && page.body.contains("\"headers\""), "{page:?}");
    world.slapd.suspend();
    let page = enter_with(&world, &key, 4).await;
    assert_eq!(page.status, 503, "{page:?}");
    world.slapd.resume();
}

#[tokio::test]
async fn a_wrong_password_at_the_directory_costs_the_hash_of_a_local_one() {
    let world = World::start(&user("anna", ""), &Keys::default());
    let hashes = async |name: &str, password: &str| {
        let before = world.instance.password_waits();
        let (_, page) = world.enter(name, password).await;
        assert_eq!(page.status, 200, "{page:?}");
        world.instance.password_waits() - before
    };
    assert_eq!(hashes("anna", "password of anna").await, 0);
    for (name, password) in [("anna", "wrong"), ("nobody", "wrong"), ("anna", "")] {
        until("the threads wait again", async || hashes(name, password).await > 0).await;
    }
}

/// Tokens of a user of the directory.
async fn tokens(world: &World, uid: &str) -> Value {
    let client = Client {
        instance: &world.instance,
        browser: Browser::new(&world.instance),
        id: "native",
        proof: Proof::Public,
    };
    let page = client.browser.open(&client.authorize("openid profile")).await;
    let fields = [("email", uid), ("password", &format!("password of {uid}"))];
    let page = client.browser.submit(&page, &fields).await;
    let page = client.browser.submit(&page, &[("consent-allow", "yes")]).await;
    let (status, tokens) = client.redeem(&page.returned("code").unwrap_or_else(|| panic!("{page:?}"))).await;
    assert_eq!(status, 200, "{tokens}");
    tokens
}

#[tokio::test]
async fn userinfo_is_unavailable_while_the_directory_is_away_for_too_long() {
    let world = World::start(&user("anna", ""), &Keys { stale_seconds: 5, timeout_seconds: 5, ..Keys::default() });
    world.instance.add_public_client("native");
    let tokens = tokens(&world, "anna").await;
    let token = text(&tokens, "access_token");
    let status = async || {
        let request = reqwest::Client::new().get(world.instance.url("/oauth/userinfo")).bearer_auth(&token);
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(status().await, 200);
    let browser = world.signed_in("anna").await;
    world.slapd.suspend();
    world.becomes(&browser, 503).await;
    assert_eq!(status().await, 503);
    world.slapd.resume();
    world.becomes(&browser, 200).await;
    assert_eq!(status().await, 200);
}

/// A browser in which a local user is signed in beside a user whose directory is away.
#[tokio::test]
async fn a_stale_user_does_not_affect_another_user_of_the_same_browser() {
    let keys = Keys { stale_seconds: 5, timeout_seconds: 5, ..Keys::default() };
    let world = World::start(&user("otto", ""), &keys);
    world.instance.add_anna();
    world.instance.add_public_client("native");
    let browser = Browser::new(&world.instance);
    let client = Client { instance: &world.instance, browser, id: "native", proof: Proof::Public };
    client.code("openid").await;
    // Otto signs in last, so he is the active user.
    let page = client.browser.open(&format!("{}&prompt=login", client.authorize("openid"))).await;
    let fields = [("email", "otto"), ("password", "password of otto")];
    let page = client.browser.submit(&page, &fields).await;
    let page = client.browser.submit(&page, &[("consent-allow", "yes")]).await;
    assert!(page.returned("code").is_some(), "{page:?}");
    assert_eq!(client.browser.open(&world.instance.app_url("/json")).await.status, 200);
    let home = async || {
        let page = client.browser.get(&world.instance.url("/account")).await;
        assert_eq!(page.status, 200, "{page:?}");
        if page.body.contains("Anna Şahin") { "anna" } else { "otto" }
    };
    assert_eq!(home().await, "otto");
    world.slapd.suspend();
    world.becomes(&client.browser, 503).await;
    assert_eq!(home().await, "anna");
    world.slapd.resume();
    world.becomes(&client.browser, 200).await;
    assert_eq!(home().await, "otto");
}

#[tokio::test]
async fn a_forgotten_password_of_the_directory_is_answered_by_mail_and_not_on_the_page() {
    let relay = MailServer::start();
    let mail = format!(
        "[mail]\nhost = \"127.0.0.1\"\nport = {}\ntls = \"none\"\nfrom = \"id@example.test\"\nper_minute = 6000\n",
        relay.port
    );
    let foreign = user("ben", "").replace("ben@example.test", "ben@elsewhere.test");
    let world = World::start(&(user("anna", "") + &foreign), &Keys { sections: &mail, ..Keys::default() });
    world.signed_in("anna").await;
    world.signed_in("ben").await;
    let ask = async |name: &str| {
        let browser = Browser::new(&world.instance);
        let page = browser.open(&world.instance.url("/account")).await;
        let (_, link) = page.body.split_once("id=\"forgot-password\" href=\"").expect("a link");
        let link = link.split('"').next().unwrap().replace("&#38;", "&");
        let page = browser.open(&world.instance.url(&link)).await;
        browser.submit(&page, &[("email", name)]).await
    };
    let shown = |page: &Page| page.body.split("<main").nth(1).unwrap().replace(&page.url, "");
    // The address of Ben was not verified by the directory.
    let pages = [ask("nobody").await, ask("ben").await, ask("anna").await];
    assert!(
        pages.iter().all(|page| page.status == 200 && without_codes(&shown(page)) == without_codes(&shown(&pages[0])))
    );
    let mail = relay.wait_for_mail_to("anna@example.test").await;
    assert!(mail.text().contains("organization’s directory keeps your password"), "{}", mail.text());
    assert!(!mail.text().contains("token="), "{}", mail.text());
    assert!(relay.mails_to("ben@elsewhere.test").is_empty());
}

/// Removes the values that differ in each page.
fn without_codes(html: &str) -> String {
    html.split('"').filter(|part| part.len() < 40).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_that_is_disabled_in_the_directory_is_signed_out_on_all_nodes() {
    let slapd = Slapd::start(&(user("otto", SHADOW) + &user("ben", "")));
    let files = tempfile::tempdir().unwrap();
    let password = files.path().join("password");
    write_secret(&password, SERVICE_PASSWORD);
    let sections = format!(
        "[[directory]]\nname = \"corp\"\nkind = \"ldap\"\nservers = [\"{}\"]\ndefault = true\nrefresh_seconds = 1\n\
         timeout_seconds = 20\n[directory.bind]\ndn = \"{SERVICE_DN}\"\npassword_file = \"{}\"\n\
         [directory.users]\nbase = \"ou=people,{BASE}\"\n",
        slapd.url(),
        password.display()
    );
    let cluster = Cluster::start_with(&sections).await;
    let browser = async |uid: &str| {
        let browser = Browser::new(&cluster.first);
        let page = browser.open(&cluster.first.app_url("/")).await;
        let page = browser.submit(&page, &[("email", uid), ("password", &format!("password of {uid}"))]).await;
        assert_eq!(page.status, 200, "{page:?}");
        browser
    };
    let (otto, ben) = (browser("otto").await, browser("ben").await);
    let status = async |browser: &Browser, node: &Instance| {
        let cookies = browser.cookies(&cluster.first.app_url("/"));
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        let request = client.get(format!("http://127.0.0.1:{}/", node.port)).header("Cookie", cookies);
        let request = request.header("Host", format!("app.localhost:{}", cluster.first.port));
        request
            .header("Sec-Fetch-Mode", "navigate")
            .header("Accept", "text/html")
            .send()
            .await
            .unwrap()
            .status()
            .as_u16()
    };
    for node in [&cluster.first, &cluster.second] {
        until("both users are signed in", async || status(&otto, node).await == 200 && status(&ben, node).await == 200)
            .await;
    }
    expire(&slapd, "otto");
    for node in [&cluster.first, &cluster.second] {
        until("Otto is signed out", async || matches!(status(&otto, node).await, 302 | 401)).await;
        until("Ben is signed in", async || status(&ben, node).await == 200).await;
    }
    let (_, page) = {
        let browser = Browser::at(cluster.first.port);
        let page = browser.open(&cluster.first.app_url("/")).await;
        let page = browser.submit(&page, &[("email", "otto"), ("password", "password of otto")]).await;
        (browser, page)
    };
    assert!(problem(&page).contains("has expired"), "{page:?}");
}
