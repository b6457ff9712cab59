//! Tests `prompt`, `max_age`, hints, and the session behind them (OpenID Connect Core §3.1.2.1,
//! §3.1.2.3, §3.1.2.4).

use sealgate_domain::client::{Client, ClientDetails, ConsentRule};
use serde_json::{Value, json};

use crate::steps::{
    altered, answer, assert_code, assert_consent, assert_login, forged, names, with_anna, with_anna_and_ben,
};
use crate::support::{self, Browser, ISSUER, Provider, Reply, Tokens, is_consent, is_login, jwt_claims};

const ANNA: &str = "anna@example.test";

/// Returns the claims of the ID token for this answer's code, redeemed by `c1`.
async fn id_claims(provider: &Provider, reply: &Reply) -> Value {
    jwt_claims(&Tokens::of(&provider.c1().redeem(&assert_code(reply)).await).id)
}

/// Opens `c1`'s changed request in this browser.
async fn open(provider: &Provider, browser: &Browser<'_>, changes: &[(&str, &str)]) -> Reply {
    browser.open(&provider.c1().authorize(changes)).await
}

/// Returns the accounts in the chooser, as sent in the field `account`.
fn accounts(page: &Reply) -> Vec<String> {
    let buttons = page.text().split('<').filter(|tag| tag.starts_with("button ") && tag.contains(" name=\"account\""));
    buttons.map(|tag| tag.split(" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn sess_01_without_a_session_the_silent_request_needs_a_sign_in() {
    let provider = Provider::new().await;
    let state = "x".repeat(128);
    let reply = open(&provider, &provider.browser(), &[("prompt", "none"), ("state", &state)]).await;
    assert_eq!((reply.status, reply.text()), (302, ""));
    assert_eq!(names(&reply), ["error", "error_description", "state", "iss"]);
    assert_eq!(reply.returned("error").as_deref(), Some("login_required"));
    assert_eq!(reply.returned("state"), Some(state));
    assert_eq!(reply.returned("iss").as_deref(), Some(ISSUER));
}

#[tokio::test]
async fn sess_02_a_silent_request_uses_the_session() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let first = id_claims(&provider, &browser.authorize(&provider.c1().authorize(&[]), ANNA).await).await;
    provider.wait(100);
    let second = id_claims(&provider, &open(&provider, &browser, &[("prompt", "none")]).await).await;
    assert_eq!((&first["sub"], &first["auth_time"]), (&second["sub"], &second["auth_time"]));
    assert_ne!(first["iat"], second["iat"]);
}

#[tokio::test]
async fn sess_03_a_silent_request_without_consent_returns_consent_required() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    for scope in ["openid email", "openid profile phone", "openid offline_access"] {
        let reply = open(&provider, &browser, &[("prompt", "none"), ("scope", scope)]).await;
        reply.assert_error_redirect("consent_required");
    }
    let other = browser.open(&provider.c2().authorize(&[("prompt", "none")])).await;
    other.assert_error_redirect("consent_required");
}

#[tokio::test]
async fn sess_04_prompt_none_cannot_be_combined() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    for prompt in ["none login", "login none", "none consent", "none select_account", "consent none login"] {
        open(&provider, &browser, &[("prompt", prompt)]).await.assert_error_redirect("invalid_request");
    }
}

#[tokio::test]
async fn sess_05_an_unknown_prompt_is_an_invalid_request() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    for prompt in ["bogus", "login bogus", "Login", "NONE", "none,login", "login\tconsent", "create"] {
        open(&provider, &browser, &[("prompt", prompt)]).await.assert_error_redirect("invalid_request");
    }
}

#[tokio::test]
async fn an_empty_prompt_counts_as_absent() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    assert_code(&open(&provider, &browser, &[("prompt", "")]).await);
}

#[tokio::test]
async fn sess_06_a_forced_sign_in_gives_a_later_auth_time() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let first = id_claims(&provider, &browser.authorize(&provider.c1().authorize(&[]), ANNA).await).await;
    provider.wait(5);
    let page = open(&provider, &browser, &[("prompt", "login")]).await;
    assert_login(&page);
    let second = id_claims(&provider, &browser.sign_in(&page, ANNA).await).await;
    assert_eq!(second["auth_time"].as_u64().unwrap(), first["auth_time"].as_u64().unwrap() + 5);
    assert_eq!(second["sub"], first["sub"]);
}

#[tokio::test]
async fn a_forced_sign_in_requires_the_password() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    let page = browser.get(&provider.c1().authorize(&[("prompt", "login")])).await;
    let login = page.location().to_owned();
    for step in ["resume", "consent"] {
        let reply = browser.open(&login.replace("/login?", &format!("/{step}?"))).await;
        let reply = if is_consent(&reply) { browser.allow(&reply).await } else { reply };
        assert_login(&reply);
    }
    let chooser = browser.open(&login.replace("/login?", "/select-account?")).await;
    let chosen = browser.submit(&chooser, &[("account", &accounts(&chooser)[0])]).await;
    assert_login(&chosen);
    let wrong = browser.submit(&chosen, &[("email", ANNA), ("password", "wrong")]).await;
    assert_login(&wrong);
    assert_login(&browser.open(&login.replace("/login?", "/resume?")).await);
}

#[tokio::test]
async fn sess_09_forced_consent_asks_again() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    let page = open(&provider, &browser, &[("prompt", "consent")]).await;
    assert_consent(&page);
    assert_code(&browser.allow(&page).await);
}

/// `prompt=consent` forces the consent page.
#[tokio::test]
async fn forced_consent_applies_to_a_client_with_implied_consent() {
    let provider = Provider::new().await;
    let trusted = Client { consent: ConsentRule::Implied, ..provider.confidential("trusted") };
    provider.add_client(trusted).await;
    let client = support::Client::confidential(&provider, "trusted");
    let browser = with_anna(&provider).await;
    assert_code(&browser.open(&client.authorize(&[("scope", "openid email")])).await);
    let page = browser.open(&client.authorize(&[("prompt", "consent")])).await;
    assert_consent(&page);
    let denied = browser.submit(&page, &[("consent-deny", "yes")]).await;
    denied.assert_error_redirect("access_denied");
    assert_code(&browser.open(&client.authorize(&[("prompt", "none")])).await);
}

#[tokio::test]
async fn sess_10_the_chooser_lists_signed_in_users_and_another_account() {
    let provider = Provider::new().await;
    let browser = with_anna_and_ben(&provider).await;
    let page = open(&provider, &browser, &[("prompt", "select_account")]).await;
    assert_eq!((page.status, is_login(&page)), (200, false));
    assert!(page.text().contains(ANNA) && page.text().contains("ben@example.test"));
    let subjects = [provider.ben.sub.to_string(), provider.anna.sub.to_string(), String::new()];
    assert_eq!(accounts(&page), subjects);

    // Anna is signed in, so she types no password, and `auth_time` is the time of her sign-in.
    let chosen = id_claims(&provider, &browser.submit(&page, &[("account", &subjects[1])]).await).await;
    assert_eq!(chosen["sub"], subjects[1]);
    assert_eq!(chosen["iat"].as_u64().unwrap(), chosen["auth_time"].as_u64().unwrap() + 10);
    // She is the active user afterwards.
    let silent = id_claims(&provider, &open(&provider, &browser, &[("prompt", "none")]).await).await;
    assert_eq!(silent["sub"], subjects[1]);

    let page = open(&provider, &browser, &[("prompt", "select_account")]).await;
    assert_login(&browser.submit(&page, &[("account", "")]).await);
}

#[tokio::test]
async fn choosing_a_signed_out_account_needs_a_password() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    for account in [provider.ben.sub.to_string().as_str(), "x", "00000000-0000-0000-0000-000000000000"] {
        let page = open(&provider, &browser, &[("prompt", "select_account")]).await;
        assert_login(&browser.submit(&page, &[("account", account)]).await);
    }
}

#[tokio::test]
async fn an_empty_account_chooser_shows_the_sign_in() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let page = open(&provider, &browser, &[("prompt", "select_account")]).await;
    assert_login(&page);
    let page = browser.sign_in(&page, ANNA).await;
    assert_code(&browser.allow(&page).await);
}

#[tokio::test]
async fn sess_11_several_prompts_show_all_their_pages() {
    let provider = Provider::new().await;
    let browser = with_anna_and_ben(&provider).await;
    let page = open(&provider, &browser, &[("prompt", "login consent")]).await;
    assert_login(&page);
    let page = browser.sign_in(&page, ANNA).await;
    assert_consent(&page);
    assert_code(&browser.allow(&page).await);

    let page = open(&provider, &browser, &[("prompt", "consent select_account login")]).await;
    let page = browser.submit(&page, &[("account", &provider.ben.sub.to_string())]).await;
    assert_login(&page);
    let page = browser.sign_in(&page, "ben@example.test").await;
    assert_consent(&page);
    assert!(page.text().contains("ben@example.test"));
    let claims = id_claims(&provider, &browser.allow(&page).await).await;
    assert_eq!(claims["sub"], provider.ben.sub.to_string());
    assert_eq!(claims["auth_time"], claims["iat"]);
}

#[tokio::test]
async fn sess_12_a_denial_returns_to_the_client_and_stores_nothing() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let page = open(&provider, &browser, &[]).await;
    let page = browser.sign_in(&page, ANNA).await;
    let reply = browser.submit(&page, &[("consent-deny", "yes")]).await;
    reply.assert_error_redirect("access_denied");
    assert_eq!(names(&reply), ["error", "error_description", "state", "iss"]);
    open(&provider, &browser, &[("prompt", "none")]).await.assert_error_redirect("consent_required");
    assert_consent(&open(&provider, &browser, &[]).await);
}

#[tokio::test]
async fn sess_13_a_sign_in_that_is_too_old_is_repeated() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    provider.wait(2);
    open(&provider, &browser, &[("max_age", "1"), ("prompt", "none")]).await.assert_error_redirect("login_required");
    let page = open(&provider, &browser, &[("max_age", "1"), ("scope", "openid email")]).await;
    assert_login(&page);
    let page = browser.sign_in(&page, ANNA).await;
    assert_consent(&page);
    // The user may stay on the next page for a while.
    provider.wait(60);
    let claims = id_claims(&provider, &browser.allow(&page).await).await;
    assert_eq!(claims["auth_time"], 1_800_000_002);
    assert_eq!(claims["iat"], 1_800_000_062);
}

#[tokio::test]
async fn sess_14_a_recent_sign_in_is_sufficient() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let first = id_claims(&provider, &browser.authorize(&provider.c1().authorize(&[]), ANNA).await).await;
    provider.wait(100);
    for age in ["100", "10000", "99999999999999999999"] {
        let reply = open(&provider, &browser, &[("max_age", age)]).await;
        assert_eq!(id_claims(&provider, &reply).await["auth_time"], first["auth_time"], "{age}");
    }
    assert_login(&open(&provider, &browser, &[("max_age", "99")]).await);
}

/// OpenID Connect Core §3.1.2.1, errata 2: 0 is the same as `prompt=login`.
#[tokio::test]
async fn a_max_age_of_zero_always_requires_a_sign_in() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    open(&provider, &browser, &[("max_age", "0"), ("prompt", "none")]).await.assert_error_redirect("login_required");
    let page = open(&provider, &browser, &[("max_age", "0")]).await;
    assert_login(&page);
    assert_code(&browser.sign_in(&page, ANNA).await);
}

#[tokio::test]
async fn sess_17_an_invalid_max_age_is_refused() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    for age in ["-1", "abc", "1.5", "1e3", "0x10", "+1", " 1", "1 ", "١", "1,000"] {
        open(&provider, &browser, &[("max_age", age)]).await.assert_error_redirect("invalid_request");
    }
    for age in ["99999999999999999999", "18446744073709551615", "000000000000000000000000000100"] {
        assert_code(&open(&provider, &browser, &[("max_age", age)]).await);
    }
}

#[tokio::test]
async fn sess_18_an_empty_max_age_counts_as_absent() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    provider.wait(1000);
    assert_code(&open(&provider, &browser, &[("max_age", "")]).await);
}

/// OpenID Connect Registration §2.
#[tokio::test]
async fn a_clients_default_max_age_applies_to_requests_without_one() {
    let provider = Provider::new().await;
    let details = ClientDetails { default_max_age: Some(60), ..ClientDetails::default() };
    provider.add_client(Client { details, ..provider.confidential("careful") }).await;
    let client = support::Client::confidential(&provider, "careful");
    let browser = provider.browser();
    client.code_in(&browser, &[]).await;
    provider.wait(61);
    assert_login(&browser.open(&client.authorize(&[])).await);
    assert_code(&browser.open(&client.authorize(&[("max_age", "1000")])).await);
}

#[tokio::test]
async fn sess_19_a_hint_for_the_sessions_user_is_accepted() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let tokens = Tokens::of(&provider.c1().redeem(&provider.c1().code_in(&browser, &[]).await).await);
    assert_code(&open(&provider, &browser, &[("prompt", "none"), ("id_token_hint", &tokens.id)]).await);
    assert_code(&open(&provider, &browser, &[("prompt", "none"), ("id_token_hint", "")]).await);
}

#[tokio::test]
async fn a_hint_for_another_user_never_returns_the_signed_in_user() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens("openid").await;
    let browser = provider.browser();
    let hint = ("id_token_hint", tokens.id.as_str());
    let page = browser.open(&provider.c1().authorize(&[])).await;
    let page = browser.sign_in(&page, "ben@example.test").await;
    browser.allow(&page).await;
    open(&provider, &browser, &[hint, ("prompt", "none")]).await.assert_error_redirect("login_required");
    // If pages may be shown, Anna can sign in.
    let page = open(&provider, &browser, &[hint]).await;
    assert_login(&page);
    let other = browser.sign_in(&page, "ben@example.test").await;
    other.assert_error_redirect("login_required");
    let page = open(&provider, &browser, &[hint]).await;
    let claims = id_claims(&provider, &browser.sign_in(&page, ANNA).await).await;
    assert_eq!(claims["sub"], provider.anna.sub.to_string());
}

#[tokio::test]
async fn the_hint_selects_the_named_user_among_several() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens("openid").await;
    let browser = with_anna_and_ben(&provider).await;
    let hinted = open(&provider, &browser, &[("prompt", "none"), ("id_token_hint", &tokens.id)]).await;
    assert_eq!(id_claims(&provider, &hinted).await["sub"], provider.anna.sub.to_string());
    let plain = open(&provider, &browser, &[("prompt", "none")]).await;
    assert_eq!(id_claims(&provider, &plain).await["sub"], provider.ben.sub.to_string());
}

#[tokio::test]
async fn sess_22_an_expired_hint_is_accepted() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let tokens = Tokens::of(&provider.c1().redeem(&provider.c1().code_in(&browser, &[]).await).await);
    provider.wait(10_000);
    assert!(jwt_claims(&tokens.id)["exp"].as_u64().unwrap() < 1_800_010_000);
    assert_code(&open(&provider, &browser, &[("prompt", "none"), ("id_token_hint", &tokens.id)]).await);
}

#[tokio::test]
async fn a_hint_that_is_not_our_id_token_is_refused() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let tokens = Tokens::of(&provider.c1().redeem(&provider.c1().code_in(&browser, &[]).await).await);
    let other = provider.ben.sub.to_string();
    for hint in [
        "garbage".to_owned(),
        "a.b.c".to_owned(),
        tokens.access.clone(),
        forged(&tokens.id, "RS256", |_| {}),
        forged(&tokens.id, "none", |_| {}),
        forged(&tokens.id, "NonE", |_| {}),
        altered(&tokens.id, |claims| claims["sub"] = json!(other)),
        format!("{} ", tokens.id),
        format!("{}.", tokens.id),
        tokens.id.rsplit_once('.').unwrap().0.to_owned() + ".",
        "x".repeat(9000),
    ] {
        let reply = open(&provider, &browser, &[("prompt", "none"), ("id_token_hint", &hint)]).await;
        reply.assert_error_redirect("invalid_request");
    }
}

/// The ID token contains the nonce, which may have 2048 characters.
#[tokio::test]
async fn the_longest_id_token_that_we_issue_is_accepted_as_a_hint() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let nonce = "n".repeat(2048);
    let code = provider.c1().code_in(&browser, &[("nonce", &nonce), ("scope", "openid profile email phone")]).await;
    let tokens = Tokens::of(&provider.c1().redeem(&code).await);
    assert!(tokens.id.len() > 3000);
    assert_code(&open(&provider, &browser, &[("prompt", "none"), ("id_token_hint", &tokens.id)]).await);
}

#[tokio::test]
async fn sess_24_the_acr_is_the_level_of_the_sign_in() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    for requested in ["1", "2 1", "urn:x", "phr"] {
        let claims = id_claims(&provider, &open(&provider, &browser, &[("acr_values", requested)]).await).await;
        assert_eq!(claims["acr"], "1", "{requested}");
        assert_eq!(claims["amr"], json!(["pwd"]));
    }
}

#[tokio::test]
async fn consent_covers_the_allowed_scopes_and_accumulates() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    for scope in ["openid email", "openid phone"] {
        let page = open(&provider, &browser, &[("scope", scope)]).await;
        assert_consent(&page);
        let tokens = Tokens::of(&provider.c1().redeem(&assert_code(&browser.allow(&page).await)).await);
        assert_eq!(tokens.body["scope"], scope);
    }
    for scope in ["openid", "openid email", "openid phone", "openid email phone"] {
        let silent = open(&provider, &browser, &[("prompt", "none"), ("scope", scope)]).await;
        let tokens = Tokens::of(&provider.c1().redeem(&assert_code(&silent)).await);
        assert_eq!(tokens.body["scope"], scope);
    }
    assert_consent(&open(&provider, &browser, &[("scope", "openid email profile")]).await);
}

#[tokio::test]
async fn consent_is_per_user() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    let page = open(&provider, &browser, &[("prompt", "login")]).await;
    let page = browser.sign_in(&page, "ben@example.test").await;
    assert_consent(&page);
    open(&provider, &browser, &[("prompt", "none")]).await.assert_error_redirect("consent_required");
}

#[tokio::test]
async fn deselected_offline_access_is_neither_granted_nor_stored() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    let offline = ("scope", "openid offline_access");
    let unticked = async |page: &Reply| {
        let reply = browser.submit(page, &[("consent-allow", "yes")]).await;
        let tokens = Tokens::of(&provider.c1().redeem(&assert_code(&reply)).await);
        assert_eq!((tokens.refresh.as_str(), &tokens.body["scope"]), ("", &json!("openid")));
    };
    unticked(&open(&provider, &browser, &[offline]).await).await;
    open(&provider, &browser, &[offline, ("prompt", "none")]).await.assert_error_redirect("consent_required");
    let page = open(&provider, &browser, &[offline]).await;
    let reply = browser.allow(&page).await;
    let tokens = Tokens::of(&provider.c1().redeem(&assert_code(&reply)).await);
    assert!(tokens.refresh.starts_with("RT_"));
    assert_code(&open(&provider, &browser, &[offline, ("prompt", "none")]).await);
    // The user changes the decision at the next prompt.
    unticked(&open(&provider, &browser, &[offline, ("prompt", "consent")]).await).await;
    open(&provider, &browser, &[offline, ("prompt", "none")]).await.assert_error_redirect("consent_required");
    assert_eq!(answer(&open(&provider, &browser, &[("prompt", "none")]).await)[0].0, "code");
}

#[tokio::test]
async fn offline_access_is_granted_only_by_the_value_true() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    let request = provider.c1().authorize(&[("scope", "openid offline_access"), ("prompt", "consent")]);
    for value in ["", "false", "0", "TRUE"] {
        let page = browser.open(&request).await;
        let reply = browser.submit(&page, &[("consent-allow", "yes"), ("offline_access", value)]).await;
        let tokens = Tokens::of(&provider.c1().redeem(&assert_code(&reply)).await);
        assert_eq!(tokens.refresh, "", "{value}");
    }
    // A ticked box does not grant scopes that were not requested.
    let page = browser.open(&provider.c1().authorize(&[("prompt", "consent")])).await;
    let reply = browser.submit(&page, &[("consent-allow", "yes"), ("offline_access", "true")]).await;
    let tokens = Tokens::of(&provider.c1().redeem(&assert_code(&reply)).await);
    assert_eq!((tokens.refresh.as_str(), &tokens.body["scope"]), ("", &json!("openid")));
}
