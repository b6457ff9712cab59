//! Tests assurance levels: requirements of rules, sign-ins that meet them, and how users reach a
//! level.

use sealgate_domain::assurance::AuthenticationMethod;
use sealgate_domain::assurance::AuthenticationMethod::{Passkey, Password, RecoveryCode, SecurityKey, Totp};
use sealgate_domain::assurance::{AuthenticationStep, AuthenticationSteps};
use sealgate_domain::session::SessionCookie;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::User;
use sealgate_store::Committed;
use sealgate_system::clock::Clock;

use crate::browser::{Browser, link};
use crate::totp;
use crate::world::{ANNA, Reply, World};

/// Application that requires level 2 except where a rule differs.
const BANK: &str = r#"
    [[app]]
    name = "bank"
    title = "Bank"
    host = "bank.test"
    upstreams = ["http://127.0.0.1:8088"]
    acr = ["2"]
    [[app.route]]
    path = "/"
    access = "signed_in"
    [[app.route]]
    path = "/keys/"
    access = "signed_in"
    acr = ["phr"]
    [[app.route]]
    path = "/news/"
    access = "signed_in"
    acr = []
    [[app.route]]
    path = "/transfer/"
    access = "signed_in"
    max_age_seconds = 300
    [[app.route]]
    path = "/open/"
    access = "public"
"#;

async fn bank() -> World {
    World::with(BANK).await
}

/// Records these steps in the browser's provider session, performed this many seconds ago. The
/// cookie is unchanged.
async fn done(world: &World, browser: &Browser<'_>, done: &[(AuthenticationMethod, u64)]) {
    let cookie = SessionCookie::parse(&browser.cookie("id.test", "__Host-sealgate").unwrap()).unwrap();
    let store = &world.sealgate.store;
    let loaded = store.session(cookie.id).await.unwrap().unwrap();
    let mut steps = AuthenticationSteps::default();
    for (method, ago) in done {
        let at = UnixTime::from_seconds(world.clock.now().seconds() - ago);
        steps.add(AuthenticationStep::new(*method, at));
    }
    let mut next = loaded.value.clone();
    next.sign_ins[0].steps = steps;
    assert_eq!(store.update_session(&loaded, &next).await.unwrap(), Committed::Yes);
}

/// Returns a browser in which Anna has entered her password.
async fn anna(world: &World) -> Browser<'_> {
    let browser = Browser::new(world);
    browser.sign_in_at("https://bank.test/news/", ANNA).await.arrived();
    browser
}

fn assert_needs(refused: &Reply, parameters: &[&str]) {
    refused.assert_refused(401, "insufficient_user_authentication");
    let challenge = refused.header("www-authenticate").unwrap();
    assert!(challenge.starts_with("Bearer realm=\"bank\", error=\"insufficient_user_authentication\""), "{challenge}");
    let told: Vec<&str> =
        challenge.split(", ").filter(|part| part.starts_with("acr_values=") || part.starts_with("max_age=")).collect();
    assert_eq!(told, parameters, "{challenge}");
}

#[tokio::test]
async fn a_higher_level_opens_lower_rules_and_returns_to_the_page() {
    let world = bank().await;
    let browser = anna(&world).await;
    for (path, asked) in [("/accounts?to=%C5%9F&a=b%2Fc", "2"), ("/keys/x", "phr")] {
        let sent = browser.visit(&format!("https://bank.test{path}")).await;
        assert_eq!(sent.sent_with("acr_values").as_deref(), Some(asked));
        assert_eq!(sent.sent_with("max_age"), None);
        assert_needs(&browser.fetch(&format!("https://bank.test{path}")).await, &[&format!("acr_values=\"{asked}\"")]);
    }
    // A passkey was used before this request, so the provider asks nothing. Paths with lower
    // requirements are open as well.
    let sent = browser.visit("https://bank.test/keys/x?to=%C5%9F&a=b%2Fc").await;
    done(&world, &browser, &[(Password, 9), (Passkey, 5)]).await;
    assert_eq!(browser.follow("https://bank.test/", sent).await.arrived(), ("bank", "/keys/x?to=%C5%9F&a=b%2Fc"));
    browser.visit("https://bank.test/accounts").await.arrived();

    let other = anna(&world).await;
    done(&world, &other, &[(Password, 9), (Totp, 5)]).await;
    assert_eq!(other.open("https://bank.test/accounts").await.arrived(), ("bank", "/accounts"));
    assert_needs(&other.fetch("https://bank.test/keys/x").await, &["acr_values=\"phr\""]);
}

#[tokio::test]
async fn a_rules_level_replaces_the_applications_level() {
    let world = bank().await;
    world.call("GET", "https://bank.test/open/x", &[]).await.arrived();
    let browser = anna(&world).await;
    browser.visit("https://bank.test/news/").await.arrived();
    assert_needs(&browser.fetch("https://bank.test/").await, &["acr_values=\"2\""]);
    assert_needs(&browser.fetch("https://bank.test/keys/").await, &["acr_values=\"phr\""]);
}

#[tokio::test]
async fn the_age_of_a_level_is_that_of_its_oldest_step() {
    let world = bank().await;
    let browser = anna(&world).await;
    world.wait(200);
    done(&world, &browser, &[(Password, 200), (Totp, 0)]).await;
    assert_eq!(browser.open("https://bank.test/transfer/x").await.arrived(), ("bank", "/transfer/x"));
    world.wait(101);
    // The second step is recent, but the password is not.
    browser.visit("https://bank.test/accounts").await.arrived();
    assert_needs(&browser.fetch("https://bank.test/transfer/x").await, &["acr_values=\"2\"", "max_age=\"300\""]);
    let sent = browser.visit("https://bank.test/transfer/x").await;
    let asked = ["acr_values", "max_age"].map(|name| sent.sent_with(name).unwrap());
    assert_eq!(asked, ["2", "300"]);
    // A key that was used long ago does not invalidate recent steps.
    done(&world, &browser, &[(SecurityKey, 5000), (Password, 3), (Totp, 0)]).await;
    assert_eq!(browser.visit("https://bank.test/accounts").await.arrived(), ("bank", "/accounts"));
}

/// An attacker who removes the level from the authorization request gets a code of a weaker
/// sign-in.
#[tokio::test]
async fn a_user_without_the_level_gets_a_page_with_the_requirement() {
    let world = bank().await;
    let browser = Browser::new(&world);
    let sent = browser.visit("https://bank.test/accounts?a=b").await;
    let edited = sent.location().replace("&acr_values=2", "");
    assert_ne!(edited, sent.location());
    let page = browser.open(&edited).await;
    let end = browser.sign_in(&page, ANNA).await;
    end.assert_page(403);
    assert!(end.text().contains("requires a sign-in with two-factor authentication"), "{end:?}");
    assert_eq!(link(end.text(), "https://id.test/"), "https://id.test/account/security");
    assert_eq!(link(end.text(), "/accounts"), "/accounts?a=b");
    assert_eq!(link(end.text(), "/.sealgate/switch-account"), "/.sealgate/switch-account?then=%2Faccounts%3Fa%3Db");
    // The user is nevertheless signed in for paths without a higher requirement.
    browser.visit("https://bank.test/news/").await.arrived();
    // Repeated attempts show a page each time, without a redirect loop.
    for (path, asked, words) in
        [("/accounts", "2", "iki adımlı doğrulamayla"), ("/keys/", "phr", "güvenlik anahtarı veya geçiş anahtarıyla")]
    {
        browser.set_cookie("bank.test", "__Host-sealgate-language", "tr");
        let sent = browser.visit(&format!("https://bank.test{path}")).await;
        let edited = sent.location().replace(&format!("&acr_values={asked}"), "");
        let end = browser.open(&edited).await;
        end.assert_page(403);
        assert!(end.text().contains("Daha güçlü bir doğrulama gerekiyor") && end.text().contains(words), "{end:?}");
    }
}

#[tokio::test]
async fn an_unreachable_level_leads_to_a_page_with_the_requirement() {
    for (enrolment, by_themselves) in [("", true), ("[factors]\nenrolment = \"administrator\"", false)] {
        let world = World::with(&format!("{BANK}\n{enrolment}")).await;
        let browser = Browser::new(&world);
        let sent = browser.visit("https://bank.test/keys/x").await;
        let state = sent.sent_with("state").unwrap();
        let back =
            format!("https://bank.test/.sealgate/callback?error=unmet_authentication_requirements&state={state}");
        let end = browser.visit(&back).await;
        end.assert_page(403);
        assert!(end.text().contains("with a security key or a passkey"), "{end:?}");
        assert_eq!(end.text().contains("/account/security"), by_themselves, "{end:?}");
        assert_eq!(link(end.text(), "/keys/"), "/keys/x");
        // The answer is accepted once, and only in the browser that has requested it.
        assert_ne!(browser.visit(&back).await.answered_with(), 403);
        assert_ne!(Browser::new(&world).visit(&back).await.answered_with(), 403);
    }
}

#[tokio::test]
async fn a_token_below_the_level_is_refused_with_the_missing_level() {
    let world = bank().await;
    let browser = anna(&world).await;
    let weak = format!("Bearer {}", world.access_token_in(&browser, "openid").await);
    done(&world, &browser, &[(Password, 9), (Totp, 5)]).await;
    let two = format!("Bearer {}", world.access_token_in(&browser, "openid").await);
    done(&world, &browser, &[(Passkey, 5)]).await;
    let three = format!("Bearer {}", world.access_token_in(&browser, "openid").await);
    let call = async |path: &str, token: &str| {
        world
            .call("GET", &format!("https://bank.test{path}"), &[("authorization", token), ("accept", "text/html")])
            .await
    };
    for (path, opens, needs) in [
        ("/accounts", [false, true, true], &["acr_values=\"2\""][..]),
        ("/keys/x", [false, false, true], &["acr_values=\"phr\""]),
        ("/transfer/x", [false, true, true], &["acr_values=\"2\"", "max_age=\"300\""]),
        ("/news/x", [true, true, true], &[]),
    ] {
        for (token, opens) in [&weak, &two, &three].into_iter().zip(opens) {
            let reply = call(path, token).await;
            if opens {
                assert_eq!(reply.arrived(), ("bank", path));
            } else {
                assert_needs(&reply, needs);
            }
        }
    }
    world.wait(301);
    assert_needs(&call("/transfer/x", &three).await, &["acr_values=\"2\"", "max_age=\"300\""]);
    // Later steps in the session do not raise the level of a token.
    assert_needs(&call("/accounts", &weak).await, &["acr_values=\"2\""]);
}

/// The browser goes from no sign-in through the second step to the requested page. It then requests
/// a page with the second step, and a level that it does not reach.
#[tokio::test]
async fn a_second_step_leads_to_the_requested_page() {
    let world = World::made(BANK, Some(10), |_| ()).await;
    let browser = anna(&world).await;
    let wanted = "/accounts?to=%C5%9F&a=b%2Fc";
    let page = browser.open(&format!("https://bank.test{wanted}")).await;
    // An old password is not enough to add the first factor: the user must type it again, and
    // nothing opens before.
    let page = browser.sign_in(&page, ANNA).await;
    assert_needs(&browser.fetch("https://bank.test/accounts").await, &["acr_values=\"2\""]);
    let page = browser.open(&format!("https://id.test{}", link(page.text(), "/oauth/enrol?"))).await;
    let secret = totp::secret(page.text());
    let code = || totp::code(&secret, world.clock.now().seconds());
    let page = browser.submit(&page, &[("code", &code()), ("name", "phone")]).await;
    assert_eq!(page.text().matches("class=\"recovery-code\"").count(), 10, "{page:?}");
    let on = format!("https://id.test{}", link(page.text(), "/oauth/"));
    assert_eq!(browser.open(&on).await.arrived(), ("bank", wanted));

    world.wait(30);
    let other = Browser::new(&world);
    let page = other.open(&format!("https://bank.test{wanted}")).await;
    let page = other.sign_in(&page, ANNA).await;
    assert!(page.text().contains("id=\"code-submit\""), "{page:?}");
    // A pending sign-in opens nothing, not even paths without a level.
    other.fetch("https://bank.test/news/").await.assert_refused(401, "login_required");
    assert_eq!(other.submit(&page, &[("code", &code())]).await.arrived(), ("bank", wanted));
    other.visit("https://bank.test/news/").await.arrived();

    let page = other.open("https://bank.test/keys/x").await;
    page.assert_page(403);
    assert_eq!(link(page.text(), "/account/"), "/account/security");
    let end = other.submit(&page, &[("unmet", "back")]).await;
    end.assert_page(403);
    assert!(end.text().contains("with a security key or a passkey"), "{end:?}");
    assert_eq!(link(end.text(), "/keys/"), "/keys/x");
    other.visit("https://bank.test/accounts").await.arrived();
}

/// The account pages admit a user whose factor is below the level of `[factors]`, to add a better
/// one. An application on the issuer's host uses the same session.
#[tokio::test]
async fn a_sign_in_for_the_account_pages_opens_no_application() {
    // On the date of the tests, users without any factor may still postpone enrolment.
    let factors = "[factors]\nlevel = \"3\"\nenrol_by = \"2027-02-01\"";
    let world = World::made(&format!("{BANK}\n{factors}"), Some(10), |_| ()).await;
    let browser = Browser::new(&world);
    let page = browser.open("https://id.test/account/security/app").await;
    let page = browser.sign_in(&page, ANNA).await;
    let page = browser.submit(&page, &[("later", "yes")]).await;
    for (url, app) in [("https://id.test/", "portal"), ("https://bank.test/news/", "bank")] {
        assert_eq!(browser.open(url).await.arrived().0, app, "it is put off");
    }
    // An app is a factor, but not a sufficient one. It can no longer be postponed, neither here nor
    // at the application's own host.
    let secret = totp::secret(page.text());
    let code = totp::code(&secret, world.clock.now().seconds());
    let added = browser.submit(&page, &[("code", &code), ("name", "phone")]).await;
    assert!(added.text().contains("class=\"done\""), "{added:?}");
    world.wait(31);
    for (url, realm) in
        [("https://id.test/", "portal"), ("https://id.test/level/x", "portal"), ("https://bank.test/news/", "bank")]
    {
        let refused = browser.fetch(url).await;
        refused.assert_refused(401, "insufficient_user_authentication");
        let challenge = refused.header("www-authenticate").unwrap();
        assert!(challenge.contains(realm) && challenge.contains("acr_values=\"3\""), "{url}: {challenge}");
        assert_eq!(browser.visit(url).await.sent_with("acr_values").as_deref(), Some("3"));
        let end = browser.open(url).await;
        end.assert_page(403);
        assert!(end.text().contains("with a security key or a passkey"), "{url}: {end:?}");
    }
    // A recovery code replaces a lost key on the account pages, and counts here as an ordinary
    // second step.
    done(&world, &browser, &[(Password, 9), (RecoveryCode, 5)]).await;
    world.wait(31);
    browser.fetch("https://id.test/").await.assert_refused(401, "insufficient_user_authentication");
    done(&world, &browser, &[(Passkey, 5)]).await;
    world.wait(31);
    assert_eq!(browser.visit("https://id.test/").await.arrived(), ("portal", "/"));
    assert_eq!(browser.open("https://bank.test/news/").await.arrived(), ("bank", "/news/"));
}

#[tokio::test]
async fn a_recovery_code_does_not_renew_an_old_password_for_a_rule() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://id.test/recent/x", ANNA).await.arrived();
    for method in [RecoveryCode, Totp, SecurityKey] {
        world.wait(31);
        done(&world, &browser, &[(Password, 301), (method, 5)]).await;
        let refused = browser.fetch("https://id.test/recent/x").await;
        refused.assert_refused(401, "insufficient_user_authentication");
        assert!(refused.header("www-authenticate").unwrap().contains("max_age=\"300\""), "{refused:?}");
    }
    world.wait(31);
    done(&world, &browser, &[(Password, 300), (RecoveryCode, 5)]).await;
    assert_eq!(browser.visit("https://id.test/recent/x").await.arrived(), ("portal", "/recent/x"));
}

/// A level that comes into force later also refuses the access tokens of weaker sign-ins.
#[tokio::test]
async fn a_token_of_a_weak_sign_in_ends_when_the_level_rises() {
    let world = World::with(&format!("{BANK}\n[factors]\ngroups = {{ strong = \"2\" }}")).await;
    let token = format!("Bearer {}", world.access_token("openid").await);
    let fetch = async || world.call("GET", "https://bank.test/news/", &[("authorization", &*token)]).await;
    fetch().await.arrived();
    let strengthen = |user: &mut User| user.groups.extend(["strong".to_owned()]);
    world.sealgate.store.change_user(world.anna.sub, strengthen).await.unwrap();
    assert_needs(&fetch().await, &["acr_values=\"2\""]);
}
