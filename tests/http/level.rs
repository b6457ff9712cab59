//! Tests a client that requires an assurance level: it gets tokens only from sign-ins of that
//! level. The requests cannot lower it.

use sealgate_domain::assurance::AuthenticationMethod;
use sealgate_domain::assurance::AuthenticationMethod::{Passkey, Password, Totp};
use sealgate_domain::assurance::{AssuranceLevel, AuthenticationStep, AuthenticationSteps};
use sealgate_domain::client::ClientId;
use sealgate_domain::session::SessionCookie;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::User;
use sealgate_store::Committed;
use sealgate_system::clock::Clock;
use serde_json::json;

use crate::register::{self, Registered};
use crate::support::{Browser, Provider, Reply, Tokens, jwt_claims};

const OFFLINE: &str = "openid offline_access";

async fn demand(provider: &Provider, level: Option<AssuranceLevel>) {
    provider.change_client("c1", |client| client.level = level).await;
}

fn assert_too_weak(reply: &Reply) {
    reply.assert_error(400, "invalid_grant");
    let description = &reply.json()["error_description"];
    assert!(description.as_str().unwrap().ends_with("Sign in again."), "{description}");
}

#[tokio::test]
async fn a_code_of_a_weaker_sign_in_is_refused() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    demand(&provider, Some(AssuranceLevel::Two)).await;
    assert_too_weak(&provider.c1().redeem(&code).await);
    // Other clients require nothing, and this client gets tokens at the required level.
    Tokens::of(&provider.p1().redeem(&provider.p1().code(&[]).await).await);
    demand(&provider, Some(AssuranceLevel::One)).await;
    Tokens::of(&provider.c1().redeem(&code).await);
}

#[tokio::test]
async fn a_raised_level_applies_at_the_next_refresh() {
    let provider = Provider::new().await;
    let first = provider.c1().tokens(OFFLINE).await;
    let second = Tokens::of(&provider.c1().refresh(&first.refresh).await);
    for level in [AssuranceLevel::Two, AssuranceLevel::PhishingResistant] {
        demand(&provider, Some(level)).await;
        assert_too_weak(&provider.c1().refresh(&second.refresh).await);
    }
    // The code was not consumed, so an administrator can undo a requirement that was set by
    // mistake.
    demand(&provider, None).await;
    Tokens::of(&provider.c1().refresh(&second.refresh).await);
}

/// The level that `[factors]` requires of a user may rise after the sign-in.
#[tokio::test]
async fn a_required_level_applies_to_codes_and_tokens_of_weaker_sign_ins() {
    let provider = Provider::with("[factors]\ngroups = { strong = \"2\" }").await;
    let tokens = provider.c1().tokens(OFFLINE).await;
    let code = provider.c1().code(&[]).await;
    let store = &provider.sealgate.store;
    let strengthen = |user: &mut User| user.groups.extend(["strong".to_owned()]);
    store.change_user(provider.anna.sub, strengthen).await.unwrap();
    assert_too_weak(&provider.c1().redeem(&code).await);
    assert_too_weak(&provider.c1().refresh(&tokens.refresh).await);
    let weak = provider.userinfo(&tokens.access).await;
    weak.assert_error(401, "insufficient_user_authentication");
    let challenge = weak.header("www-authenticate").unwrap();
    assert!(challenge.contains("error=\"insufficient_user_authentication\""), "{challenge}");
    assert!(challenge.contains("acr_values=\"2\""), "{challenge}");
    // The token was not consumed.
    store.change_user(provider.anna.sub, |user| user.groups.clear()).await.unwrap();
    assert_eq!(provider.userinfo(&tokens.access).await.status, 200);
    Tokens::of(&provider.c1().redeem(&code).await);
    Tokens::of(&provider.c1().refresh(&tokens.refresh).await);
}

/// Records these steps in the browser's session, performed this many seconds ago. The cookie is
/// unchanged.
async fn done(provider: &Provider, browser: &Browser<'_>, done: &[(AuthenticationMethod, u64)]) {
    let cookie = SessionCookie::parse(&browser.cookie("__Host-sealgate").unwrap()).unwrap();
    let store = &provider.sealgate.store;
    let loaded = store.session(cookie.id).await.unwrap().unwrap();
    let mut steps = AuthenticationSteps::default();
    for (method, ago) in done {
        let at = UnixTime::from_seconds(provider.clock.now().seconds() - ago);
        steps.add(AuthenticationStep::new(*method, at));
    }
    let mut next = loaded.value.clone();
    next.sign_ins[0].steps = steps;
    assert_eq!(store.update_session(&loaded, &next).await.unwrap(), Committed::Yes);
}

/// Later steps in the same browser do not raise the level of an earlier grant.
#[tokio::test]
async fn a_grant_keeps_the_level_of_its_sign_in() {
    let provider = Provider::new().await;
    let (browser, client) = (provider.browser(), provider.c1());
    let tokens = async || Tokens::of(&client.redeem(&client.code_in(&browser, &[("scope", OFFLINE)]).await).await);
    let one = tokens().await;
    provider.wait(200);
    done(&provider, &browser, &[(Password, 200), (Totp, 0)]).await;
    let two = tokens().await;
    done(&provider, &browser, &[(Password, 200), (Totp, 0), (Passkey, 0)]).await;
    let three = tokens().await;
    let now = provider.clock.now().seconds();
    for (tokens, acr, amr, ago) in [
        (&one, "1", &["pwd"][..], 200),
        (&two, "2", &["pwd", "otp", "mfa"], 200),
        (&three, "3", &["pwd", "otp", "pop", "user", "mfa"], 0),
    ] {
        for token in [&tokens.id, &tokens.access] {
            let claims = jwt_claims(token);
            assert_eq!((&claims["acr"], &claims["amr"]), (&json!(acr), &json!(amr)));
            assert_eq!(claims["auth_time"], now - ago);
        }
    }
    provider.wait(10);
    for (level, [by_one, by_two, by_three]) in [
        (AssuranceLevel::PhishingResistant, [false, false, true]),
        (AssuranceLevel::Two, [false, true, true]),
        (AssuranceLevel::One, [true, true, true]),
    ] {
        demand(&provider, Some(level)).await;
        // A successful refresh uses the token up, so each is tried at the lowest required level
        // that it reaches.
        for (tokens, enough, acr) in [(&one, by_one, "1"), (&two, by_two, "2"), (&three, by_three, "3")] {
            if !enough {
                assert_too_weak(&client.refresh(&tokens.refresh).await);
            } else if level.as_str() == acr {
                let refreshed = Tokens::of(&client.refresh(&tokens.refresh).await);
                let (before, after) = (jwt_claims(&tokens.id), jwt_claims(&refreshed.id));
                assert_eq!((&after["acr"], &after["auth_time"]), (&before["acr"], &before["auth_time"]));
            }
        }
    }
}

/// A client that requires a level gets it from every user who signs in, without naming it in the
/// request.
#[tokio::test]
async fn a_clients_level_is_required_at_the_sign_in() {
    let provider = Provider::new().await;
    demand(&provider, Some(AssuranceLevel::Two)).await;
    let browser = provider.browser();
    for changes in [&[][..], &[("acr_values", "1")], &[("acr_values", "")]] {
        let page = browser.open(&provider.c1().authorize(changes)).await;
        let page = browser.sign_in(&page, "anna@example.test").await;
        // These users have no second factor, and this provider lets them add one.
        assert!(page.text().contains("id=\"enrol-key\""), "{changes:?}: {page:?}");
        // A pending sign-in does not count as a session for other clients.
        let silent = browser.open(&provider.p1().authorize(&[("prompt", "none")])).await;
        silent.assert_error_redirect("login_required");
    }
    // A user who is signed in at a lower level gets no code where no page may be shown.
    let browser = provider.browser();
    provider.p1().code_in(&browser, &[]).await;
    let silent = browser.open(&provider.c1().authorize(&[("prompt", "none")])).await;
    silent.assert_error_redirect("login_required");
    done(&provider, &browser, &[(Password, 9), (Totp, 5)]).await;
    Tokens::of(&provider.c1().redeem(&provider.c1().code_in(&browser, &[]).await).await);
}

/// A level that a client only requests voluntarily locks out no user.
#[tokio::test]
async fn unreachable_voluntary_levels_give_the_reached_level() {
    let provider = Provider::new().await;
    for requested in ["2", "3", "phr 2", "urn:mace:incommon:iap:silver"] {
        let code = provider.c1().code(&[("acr_values", requested)]).await;
        let tokens = Tokens::of(&provider.c1().redeem(&code).await);
        assert_eq!(jwt_claims(&tokens.id)["acr"], "1", "{requested}");
    }
}

/// If no user can reach the level, a page shows the requirement, and the client gets an error.
#[tokio::test]
async fn an_unreachable_level_shows_a_page_and_returns_an_error() {
    let provider = Provider::with("[factors]\nenrolment = \"administrator\"").await;
    demand(&provider, Some(AssuranceLevel::PhishingResistant)).await;
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[])).await;
    let page = browser.sign_in(&page, "anna@example.test").await;
    assert_eq!(page.status, 403, "{page:?}");
    assert!(page.text().contains("Ask your administrator to set it up for you"), "{page:?}");
    browser.submit(&page, &[("unmet", "back")]).await.assert_error_redirect("unmet_authentication_requirements");
    let silent = browser.open(&provider.c1().authorize(&[("prompt", "none")])).await;
    silent.assert_error_redirect("unmet_authentication_requirements");
    // The user is signed in for clients with lower requirements.
    assert!(browser.authorize(&provider.p1().authorize(&[]), "anna@example.test").await.returned("code").is_some());
}

/// An administrator sets the level: the holder of a client's registration token cannot remove it.
#[tokio::test]
async fn a_client_that_manages_its_own_registration_keeps_its_level() {
    let provider = register::open().await;
    let own = Registered::new(&provider, &json!({"client_name": "Wiki"})).await;
    let id = own.text("client_id");
    provider.change_client(id, |client| client.level = Some(AssuranceLevel::Two)).await;
    let update = own.update(&json!({"client_name": "Other", "level": "1", "default_acr_values": ["1"]}));
    assert_eq!(own.manage(&provider, "PUT", &update.to_string()).await.status, 200);
    let client = provider.sealgate.store.client(&ClientId::parse(id).unwrap()).await.unwrap().unwrap();
    assert_eq!((client.name.as_str(), client.level), ("Other", Some(AssuranceLevel::Two)));
}
