//! Sign-outs in both directions, and the confirmation of sign-ins in the background.

use std::time::Duration;

use serde_json::{Value, json};

use super::node::NodeProvider;
use super::{Provider, World, anna, is_signed_in, left_for, metric, press, query};
use crate::openid_provider::FakeProvider;
use crate::support::{Browser, Page, until};

/// Sends a logout token, as a provider does.
async fn send_logout(world: &World, name: &str, token: &str) -> Page {
    let sender = Browser::new(&world.instance);
    let url = world.instance.url(&format!("/oauth/upstream/{name}/logout"));
    sender.send(sender.client().post(url).form(&[("logout_token", token)])).await
}

fn with(claims: &Value) -> Value {
    let mut all = anna();
    all.as_object_mut().unwrap().extend(claims.as_object().unwrap().clone());
    all
}

async fn refreshes(world: &World, outcome: &str) -> u64 {
    let series = format!("sealgate_upstream_refreshes_total{{outcome=\"{outcome}\",upstream=\"acme\"}}");
    metric(&world.instance, &series).await
}

#[tokio::test]
async fn a_logout_token_ends_the_sign_ins_that_it_names() {
    let (provider, other) = (FakeProvider::start(anna()), FakeProvider::start(anna()));
    let world = World::prepare().start(
        &[
            Provider { name: "acme", issuer: &provider.issuer(), lines: "" },
            Provider { name: "other", issuer: &other.issuer(), lines: "" },
        ],
        "",
    );
    let mut browsers = Vec::new();
    for (sub, sid) in [("anna", "s1"), ("anna", "s2"), ("otto", "s3")] {
        provider.state().claims = json!({ "sub": sub, "email": format!("{sub}@acme.test"), "sid": sid });
        let (browser, page) = world.enter("acme", &provider).await;
        assert!(is_signed_in(&page), "{page:?}");
        browsers.push(browser);
    }
    let statuses = async || {
        let mut statuses = Vec::new();
        for browser in &browsers {
            statuses.push(world.status(browser, "/json").await);
        }
        statuses
    };
    assert_eq!(statuses().await, [200, 200, 200]);

    // Tokens that are not those of this provider, and another kind of token.
    let id_token = provider.state().id_tokens[0].clone();
    for token in [
        other.logout_token(&json!({ "sid": "s1" })),
        provider.logout_token(&json!({ "sid": "s1", "iss": other.issuer() })),
        provider.logout_token(&json!({ "sid": "s1", "aud": "other" })),
        provider.logout_token(&json!({ "sid": "s1", "nonce": "n" })),
        provider.logout_token(&json!({})),
        id_token,
        String::new(),
    ] {
        let page = send_logout(&world, "acme", &token).await;
        assert_eq!(page.status, 400, "{page:?}");
        assert_eq!(page.headers["cache-control"], "no-store");
    }
    let elsewhere = provider.logout_token(&json!({ "sid": "s1" }));
    assert_eq!(send_logout(&world, "other", &elsewhere).await.status, 400);
    assert_eq!(send_logout(&world, "none", &elsewhere).await.status, 404);
    // The session is that of another user.
    let foreign = provider.logout_token(&json!({ "sub": "otto", "sid": "s1" }));
    assert_eq!(send_logout(&world, "acme", &foreign).await.status, 200);
    assert_eq!(statuses().await, [200, 200, 200]);

    let token = provider.logout_token(&json!({ "sub": "anna", "sid": "s1" }));
    let page = send_logout(&world, "acme", &token).await;
    assert_eq!((page.status, page.body.as_str()), (200, ""), "{page:?}");
    assert_eq!(page.headers["cache-control"], "no-store");
    until("the session has ended", async || statuses().await == [302, 200, 200]).await;
    // Each token is accepted once.
    assert_eq!(send_logout(&world, "acme", &token).await.status, 400);

    let token = provider.logout_token(&json!({ "sub": "anna" }));
    assert_eq!(send_logout(&world, "acme", &token).await.status, 200);
    until("all sessions of the user have ended", async || statuses().await == [302, 302, 200]).await;
    // A repeated token does not end the next sign-in.
    provider.state().claims = json!({ "sub": "anna", "email": "anna@acme.test", "sid": "s4" });
    let (again, page) = world.enter("acme", &provider).await;
    assert!(is_signed_in(&page), "{page:?}");
    assert_eq!(send_logout(&world, "acme", &token).await.status, 400);
    assert_eq!(world.status(&again, "/json").await, 200);

    let events = world.instance.json(&["audit", "list", "--kind", "signed_out"]).to_string();
    assert_eq!(events.matches("upstream acme").count(), 2, "{events}");
    let series =
        |outcome: &str| format!("sealgate_upstream_logout_tokens_total{{outcome=\"{outcome}\",upstream=\"acme\"}}");
    assert_eq!(metric(&world.instance, &series("accepted")).await, 3);
}

/// Only refused tokens are counted, so that a provider may end any number of sessions at once.
#[tokio::test]
async fn refused_logout_tokens_are_limited_and_valid_ones_are_not() {
    let provider = FakeProvider::start(anna());
    let world = World::prepare()
        .start(&[Provider { name: "acme", issuer: &provider.issuer(), lines: "" }], "[rate_limits]\nrevoke = 3\n");
    for number in 0..6 {
        let token = provider.logout_token(&json!({ "sid": format!("s{number}") }));
        assert_eq!(send_logout(&world, "acme", &token).await.status, 200);
    }
    for status in [400, 400, 400, 429, 429] {
        assert_eq!(send_logout(&world, "acme", "invalid").await.status, status);
    }
}

#[tokio::test]
async fn a_sign_out_continues_at_the_provider_and_returns() {
    let provider = FakeProvider::start(anna());
    provider.state().ends_sessions = true;
    let world = World::prepare().start(&[Provider { name: "acme", issuer: &provider.issuer(), lines: "" }], "");
    let (browser, page) = world.enter("acme", &provider).await;
    assert!(is_signed_in(&page), "{page:?}");
    let page = browser.open(&world.instance.url("/oauth/logout")).await;
    let page = browser.submit(&page, &[]).await;
    let url = left_for(&page);
    assert!(page.body.contains("signed out here"), "{page:?}");
    // The session here has ended before the browser leaves.
    assert_eq!(world.status(&browser, "/json").await, 302);
    assert!(provider.state().ended.is_empty());
    let id_token = provider.state().id_tokens[0].clone();
    assert_eq!(query(&url, "id_token_hint"), Some(id_token));
    assert_eq!(query(&url, "client_id").as_deref(), Some("sealgate"));
    let return_to = world.instance.url("/oauth/upstream/acme/signed-out");
    assert_eq!(query(&url, "post_logout_redirect_uri"), Some(return_to.clone()));
    let returned = provider.approve(&url).await;
    let page = browser.open(&returned).await;
    assert!(page.url.ends_with("/oauth/signed-out") && page.status == 200, "{page:?}");
    assert!(!page.body.contains("id=\"upstream\""), "{page:?}");
    // A browser that has not left is not redirected anywhere else.
    let page = Browser::new(&world.instance).get(&returned).await;
    assert!(page.location().unwrap().ends_with("/oauth/signed-out"), "{page:?}");
}

#[tokio::test]
async fn a_user_who_stays_signed_in_at_the_provider_is_told_so() {
    for (ends_sessions, lines) in [(false, ""), (true, "logout = \"local\"")] {
        let provider = FakeProvider::start(anna());
        provider.state().ends_sessions = ends_sessions;
        let lines = format!("label = \"Acme\"\n{lines}");
        let world = World::prepare().start(&[Provider { name: "acme", issuer: &provider.issuer(), lines: &lines }], "");
        let (browser, _) = world.enter("acme", &provider).await;
        let page = browser.open(&world.instance.url("/oauth/logout")).await;
        let page = browser.open(&browser.submit(&page, &[]).await.url).await;
        assert!(page.body.contains("still signed in at <bdi>Acme</bdi>"), "{page:?}");
        let page = browser.open(&world.instance.url("/oauth/signed-out?upstream=acme&lang=tr")).await;
        assert!(page.body.contains("<bdi>Acme</bdi> oturumunuz hâlâ açık"), "{page:?}");
        assert!(provider.state().ended.is_empty());
    }
}

/// Both directions at once: the provider sends a logout token for the session that the sign-out here
/// ends there, and for the user's session in another browser.
#[tokio::test]
async fn a_sign_out_at_another_implementation_works_in_both_directions() {
    let world = World::prepare();
    let provider = NodeProvider::start(&world.redirect_uri("acme"));
    let world = world.start(&[Provider { name: "acme", issuer: &provider.issuer(), lines: "refresh_seconds = 1" }], "");
    let (browser, page) = world.begin("/json").await;
    let returned = provider.sign_in(&browser, &press(&browser, &page, "acme", "").await, "anna").await;
    assert!(is_signed_in(&browser.open(&returned).await));
    // The provider accepts each refresh token once.
    until("the sign-in was confirmed twice", async || refreshes(&world, "confirmed").await >= 2).await;
    assert_eq!(world.status(&browser, "/json").await, 200);

    let page = browser.open(&world.instance.url("/oauth/logout")).await;
    let url = left_for(&browser.submit(&page, &[]).await);
    let returned = provider.sign_out(&browser, &url).await;
    assert!(returned.starts_with(&world.instance.url("/oauth/upstream/acme/signed-out")), "{returned}");
    let page = browser.open(&returned).await;
    assert!(page.url.ends_with("/oauth/signed-out"), "{page:?}");
    // The session at the provider is over, so the next sign-in shows its form.
    let (_, page) = (world.status(&browser, "/json").await, browser.open(&world.instance.app_url("/json")).await);
    let url = press(&browser, &page, "acme", "").await;
    assert_eq!(browser.open(&url).await.status, 200);
    let series = "sealgate_upstream_logout_tokens_total{outcome=\"accepted\",upstream=\"acme\"}";
    until("the provider has sent a logout token", async || metric(&world.instance, series).await >= 1).await;
}

#[tokio::test]
async fn changes_at_the_provider_arrive_without_a_new_sign_in() {
    let provider = FakeProvider::start(with(&json!({ "groups": ["staff"] })));
    provider.state().rotates = true;
    let lines = "groups_claim = \"groups\"\nrefresh_seconds = 1\ndomains = [\"acme.test\"]";
    let world = World::prepare().start(&[Provider { name: "acme", issuer: &provider.issuer(), lines }], "");
    let (browser, page) = world.enter("acme", &provider).await;
    assert!(is_signed_in(&page), "{page:?}");
    assert_eq!(world.status(&browser, "/staff").await, 200);
    provider.state().claims = with(&json!({ "groups": ["other"], "name": "Anna New" }));
    until("the group is gone", async || world.status(&browser, "/staff").await == 403).await;
    let shown = world.instance.json(&["user", "show", "anna@acme.test"]);
    assert_eq!((&shown["source"]["groups"], &shown["name"]), (&json!(["acme:other"]), &json!("Anna New")));

    assert!(!shown["source"]["confirmed_at"].is_null(), "{shown}");

    // An answer that is not valid changes nothing.
    let before = refreshes(&world, "refused").await;
    provider.state().claims = with(&json!({ "groups": ["third"], "aud": "other" }));
    until("answers are refused", async || refreshes(&world, "refused").await > before + 1).await;
    let shown = world.instance.json(&["user", "show", "anna@acme.test"]);
    assert_eq!(shown["source"]["groups"], json!(["acme:other"]));
    assert_eq!(world.status(&browser, "/json").await, 200);
    // Each refresh token was used once, also those whose answers were refused.
    let used = provider.state().refreshed.clone();
    let distinct: std::collections::BTreeSet<_> = used.iter().collect();
    assert_eq!(distinct.len(), used.len(), "{used:?}");
}

/// What refuses a sign-in also ends one.
#[tokio::test]
async fn a_user_who_is_no_longer_admitted_loses_access() {
    let admitted = with(&json!({ "tid": "1", "groups": ["staff"] }));
    let provider = FakeProvider::start(admitted.clone());
    provider.state().rotates = true;
    let lines = "groups_claim = \"groups\"\nrefresh_seconds = 1\nrequired = { tid = \"1\" }";
    let world = World::prepare().start(&[Provider { name: "acme", issuer: &provider.issuer(), lines }], "");
    let overage = json!({ "_claim_names": { "groups": "src1" }, "_claim_sources": { "src1": {} }, "groups": null });
    for (reason, claims) in [("not_allowed", json!({ "tid": "2" })), ("groups_overage", overage)] {
        provider.state().claims = admitted.clone();
        let (browser, page) = world.enter("acme", &provider).await;
        assert!(is_signed_in(&page), "{page:?}");
        let (other, _) = world.enter("acme", &provider).await;
        assert_eq!(world.status(&browser, "/staff").await, 200);
        provider.state().claims.as_object_mut().unwrap().extend(claims.as_object().unwrap().clone());
        for browser in [&browser, &other] {
            until("access has ended", async || world.status(browser, "/json").await == 302).await;
        }
        let events = world.instance.json(&["audit", "list", "--kind", "signed_out"]).to_string();
        assert_eq!(events.matches(&format!("upstream acme: {reason}")).count(), 2, "{events}");
        world.instance.tells("no longer admits a user");
    }
    assert_eq!(refreshes(&world, "unavailable").await, 0);
}

#[tokio::test]
async fn an_error_about_one_user_does_not_mean_that_the_provider_is_away() {
    let provider = FakeProvider::start(anna());
    let lines = "refresh_seconds = 1\nstale_seconds = 3";
    let world = World::prepare().start(&[Provider { name: "acme", issuer: &provider.issuer(), lines }], "");
    let (browser, page) = world.enter("acme", &provider).await;
    assert!(is_signed_in(&page), "{page:?}");
    provider.state().refresh_error = Some(("400 Bad Request", "interaction_required"));
    until("answers have been refused for longer", async || refreshes(&world, "refused").await >= 6).await;
    assert_eq!(world.status(&browser, "/json").await, 200);
    assert_eq!(refreshes(&world, "unavailable").await, 0);
}

#[tokio::test]
async fn only_the_end_of_access_at_the_provider_ends_a_sign_in() {
    let provider = FakeProvider::start(anna());
    let world = World::prepare()
        .start(&[Provider { name: "acme", issuer: &provider.issuer(), lines: "refresh_seconds = 1" }], "");
    let (browser, page) = world.enter("acme", &provider).await;
    assert!(is_signed_in(&page), "{page:?}");
    for error in [("503 Away", "temporarily_unavailable"), ("400 Bad Request", "invalid_client"), ("500 Error", "x")] {
        let before = refreshes(&world, "unavailable").await;
        provider.state().refresh_error = Some(error);
        until("a refresh has failed", async || refreshes(&world, "unavailable").await > before).await;
        assert_eq!(world.status(&browser, "/json").await, 200, "{error:?}");
    }
    let before = refreshes(&world, "confirmed").await;
    provider.state().refresh_error = None;
    until("the provider is back", async || refreshes(&world, "confirmed").await > before).await;
    provider.state().refresh_error = Some(("400 Bad Request", "invalid_grant"));
    until("the sign-in has ended", async || world.status(&browser, "/json").await == 302).await;
    until("the end is counted", async || refreshes(&world, "ended").await == 1).await;
    let events = world.instance.json(&["audit", "list", "--kind", "signed_out"]).to_string();
    assert_eq!(events.matches("upstream acme: ended").count(), 1, "{events}");
    // The user is still enabled, and may sign in again if the provider admits them.
    provider.state().refresh_error = None;
    let (_, page) = world.enter("acme", &provider).await;
    assert!(is_signed_in(&page), "{page:?}");
}

/// The provider has replaced the token, and its answer was lost. It then refuses the old token.
#[tokio::test]
async fn a_lost_answer_does_not_end_a_sign_in() {
    let provider = FakeProvider::start(anna());
    provider.state().rotates = true;
    let world = World::prepare()
        .start(&[Provider { name: "acme", issuer: &provider.issuer(), lines: "refresh_seconds = 1" }], "");
    let (browser, page) = world.enter("acme", &provider).await;
    assert!(is_signed_in(&page), "{page:?}");
    until("the sign-in was confirmed", async || refreshes(&world, "confirmed").await > 0).await;
    provider.state().loses_answers = true;
    until("an answer is lost", async || refreshes(&world, "unavailable").await > 0).await;
    provider.state().loses_answers = false;
    until("the token is lost", async || refreshes(&world, "lost").await == 1).await;
    assert_eq!(world.status(&browser, "/json").await, 200);
    assert_eq!(refreshes(&world, "ended").await, 0);
    // The token is no longer used.
    let used = provider.state().refreshed.len();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(provider.state().refreshed.len(), used);
}

#[tokio::test]
async fn requests_wait_for_a_provider_that_is_away_too_long() {
    let provider = FakeProvider::start(anna());
    let lines = "refresh_seconds = 1\nstale_seconds = 10";
    let world = World::prepare().start(&[Provider { name: "acme", issuer: &provider.issuer(), lines }], "");
    world.instance.add_anna();
    let (browser, page) = world.enter("acme", &provider).await;
    assert!(is_signed_in(&page), "{page:?}");
    provider.state().refresh_error = Some(("503 Away", "temporarily_unavailable"));
    until("the provider is away too long", async || world.status(&browser, "/json").await == 503).await;
    // Other users and the server itself are not affected.
    let local = Browser::new(&world.instance);
    let page = local.open(&world.instance.app_url("/json")).await;
    assert!(is_signed_in(&local.sign_in(&page).await));
    let ready = reqwest::get(world.instance.admin_url("/readyz")).await.unwrap();
    assert_eq!(ready.status(), 200);
    provider.state().refresh_error = None;
    until("the provider is back", async || world.status(&browser, "/json").await == 200).await;
    assert_eq!(refreshes(&world, "ended").await, 0);
}
