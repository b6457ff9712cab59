//! The authorization code grant at the token endpoint (RFC 6749 §4.1.3, §5; RFC 7636 §4.5, §4.6; cases TOK).

use std::collections::BTreeSet;
use std::sync::Arc;

use sealgate::protocol::client::GrantType;
use sealgate::protocol::redirect_uri::RedirectUri;
use sealgate::protocol::user::UserState;
use tokio::task::JoinSet;

use crate::support::{FORM, Provider, REDIRECT_URI, Tokens, VERIFIER, basic, challenge, redemption};

#[tokio::test]
async fn tok_01_a_code_gives_an_access_token_and_an_id_token() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[("scope", "openid email")]).await;
    let reply = provider.c1().redeem(&code).await;
    let body = Tokens::of(&reply).body;
    let members: BTreeSet<&str> = body.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(members, ["access_token", "expires_in", "id_token", "scope", "token_type"].into());
    assert_eq!(body["token_type"], "Bearer");
    assert_eq!(body["expires_in"].as_u64(), Some(900));
    assert_eq!(body["scope"], "openid email");
    assert!(body["access_token"].as_str().unwrap().split('.').count() == 3);
}

#[tokio::test]
async fn tok_02_no_answer_of_the_token_endpoint_is_kept() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    let header = basic("c1", "secret of c1");
    let replies = [
        provider.c1().redeem(&code).await,
        provider.c1().redeem(&code).await,
        provider.post("/oauth/token", &[], &redemption(&code, &[])).await,
        provider.request("POST", "/oauth/token", &[("authorization", &header)], "{}").await,
        provider.get("/oauth/token").await,
    ];
    assert_eq!(replies.each_ref().map(|reply| reply.status), [200, 400, 401, 400, 405]);
    for reply in &replies {
        assert_eq!(reply.header("cache-control"), Some("no-store"), "{reply:?}");
        assert_eq!(reply.header("pragma"), Some("no-cache"));
        assert_eq!(reply.header("content-type"), Some("application/json"));
        assert_eq!(reply.header("set-cookie"), None);
    }
}

#[tokio::test]
async fn tok_03_offline_access_gives_a_refresh_token() {
    let provider = Provider::new().await;
    let one = provider.c1().tokens("openid offline_access").await;
    let other = provider.c1().tokens("openid offline_access").await;
    assert_eq!(one.body["scope"], "openid offline_access");
    for token in [&one.refresh, &other.refresh] {
        let random = token.strip_prefix("RT_").unwrap();
        // 22 characters of base64url are 128 bits; the first ones could be a counter.
        assert!(random.len() >= 44 && random.bytes().all(|byte| (0x21..=0x7e).contains(&byte)), "{token}");
    }
    let shared = one.refresh.bytes().zip(other.refresh.bytes()).filter(|(a, b)| a == b).count();
    assert!(shared < 25, "{shared} characters in common");
}

#[tokio::test]
async fn tok_04_a_person_may_refuse_offline_access() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let address = provider.c1().authorize(&[("scope", "openid email offline_access")]);
    let page = browser.sign_in(&browser.open(&address).await, "anna@example.test").await;
    let reply = browser.submit(&page, &[("consent-allow", "yes")]).await;
    let tokens = Tokens::of(&provider.c1().redeem(&reply.returned("code").unwrap()).await);
    assert_eq!((tokens.refresh.as_str(), &tokens.body["scope"]), ("", &"openid email".into()));
}

#[tokio::test]
async fn tok_04_a_client_without_the_refresh_grant_gets_no_refresh_token() {
    let provider = Provider::new().await;
    provider.change_client("c1", |client| client.grant_types = vec![GrantType::AuthorizationCode]).await;
    let tokens = provider.c1().tokens("openid offline_access").await;
    assert_eq!((tokens.refresh.as_str(), &tokens.body["scope"]), ("", &"openid".into()));
}

#[tokio::test]
async fn tok_05_a_code_works_once() {
    let provider = Provider::new().await;
    for client in [provider.c1(), provider.p1()] {
        let code = client.code(&[]).await;
        Tokens::of(&client.redeem(&code).await);
        client.redeem(&code).await.assert_error(400, "invalid_grant");
        client.redeem(&code).await.assert_error(400, "invalid_grant");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tok_05_of_64_simultaneous_redemptions_at_most_one_succeeds_and_the_grant_ends() {
    // More than the 50 requests a minute that a client has.
    let provider = Arc::new(Provider::with("[rate_limits]\ntoken = 1000").await);
    let code = provider.c1().code(&[("scope", "openid offline_access")]).await;
    let mut redemptions = JoinSet::new();
    for _ in 0..64 {
        let (provider, code) = (Arc::clone(&provider), code.clone());
        redemptions.spawn(async move { provider.c1().redeem(&code).await });
    }
    let (won, lost): (Vec<_>, Vec<_>) = redemptions.join_all().await.into_iter().partition(|reply| reply.status == 200);
    assert_eq!((won.len(), lost.len()), (1, 63));
    for reply in &lost {
        reply.assert_error(400, "invalid_grant");
    }
    let tokens = Tokens::of(&won[0]);
    provider.userinfo(&tokens.access).await.assert_bearer_error(401, "invalid_token");
    provider.c1().refresh(&tokens.refresh).await.assert_error(400, "invalid_grant");
}

#[tokio::test]
async fn tok_06_a_replayed_code_ends_what_it_gave_and_nothing_else() {
    let provider = Provider::new().await;
    let other = provider.c1().tokens("openid offline_access").await;
    let code = provider.c1().code(&[("scope", "openid offline_access")]).await;
    let first = Tokens::of(&provider.c1().redeem(&code).await);
    let renewed = Tokens::of(&provider.c1().refresh(&first.refresh).await);
    // The bearer cache has seen the token: it must not outlive the grant.
    assert_eq!(provider.userinfo(&renewed.access).await.status, 200);
    provider.c1().redeem(&code).await.assert_error(400, "invalid_grant");
    provider.userinfo(&first.access).await.assert_bearer_error(401, "invalid_token");
    provider.userinfo(&renewed.access).await.assert_bearer_error(401, "invalid_token");
    provider.c1().refresh(&renewed.refresh).await.assert_error(400, "invalid_grant");
    assert_eq!(provider.userinfo(&other.access).await.status, 200);
    Tokens::of(&provider.c1().refresh(&other.refresh).await);
}

#[tokio::test]
async fn tok_06_another_client_cannot_end_a_grant_with_a_used_code() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    let tokens = Tokens::of(&provider.c1().redeem(&code).await);
    provider.c2().redeem(&code).await.assert_error(400, "invalid_grant");
    provider.p1().redeem(&code).await.assert_error(400, "invalid_grant");
    assert_eq!(provider.userinfo(&tokens.access).await.status, 200);
}

#[tokio::test]
async fn tok_09_a_code_works_for_five_minutes() {
    let provider = Provider::new().await;
    let early = provider.c1().code(&[]).await;
    let late = provider.c1().code(&[]).await;
    provider.wait(299);
    Tokens::of(&provider.c1().redeem(&early).await);
    provider.wait(2);
    provider.c1().redeem(&late).await.assert_error(400, "invalid_grant");
}

#[tokio::test]
async fn tok_10_the_redirect_uri_is_the_one_of_the_authorization_request() {
    let provider = Provider::new().await;
    let other = "https://rp.test/other";
    provider.change_client("c1", |client| client.redirect_uris.push(RedirectUri::parse(other).unwrap())).await;
    let code = provider.c1().code(&[]).await;
    for uri in [other, "https://rp.test/cb/", "https://RP.test/cb", "https://rp.test/cb?", "https://rp.test:443/cb"] {
        let reply = provider.c1().token(&redemption(&code, &[("redirect_uri", uri)])).await;
        reply.assert_error(400, "invalid_grant");
    }
    Tokens::of(&provider.c1().redeem(&code).await);
}

#[tokio::test]
async fn tok_11_the_redirect_uri_has_to_be_there() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    for value in ["-", ""] {
        let reply = provider.c1().token(&redemption(&code, &[("redirect_uri", value)])).await;
        reply.assert_error(400, "invalid_request");
    }
    Tokens::of(&provider.c1().redeem(&code).await);
}

#[tokio::test]
async fn tok_12_another_client_cannot_use_or_spoil_a_code() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    provider.c2().redeem(&code).await.assert_error(400, "invalid_grant");
    provider.p1().redeem(&code).await.assert_error(400, "invalid_grant");
    Tokens::of(&provider.c1().redeem(&code).await);
}

#[tokio::test]
async fn tok_13_a_code_has_to_be_there_and_known() {
    let provider = Provider::new().await;
    for (code, error) in [("unknown", "invalid_grant"), ("", "invalid_request"), ("-", "invalid_request")] {
        let reply = provider.c1().token(&redemption("x", &[("code", code)])).await;
        reply.assert_error(400, error);
    }
    provider.c1().redeem(&"x".repeat(50_000)).await.assert_error(400, "invalid_grant");
}

#[tokio::test]
async fn tok_14_other_grants_are_not_supported() {
    let provider = Provider::new().await;
    for grant in [
        "password",
        "client_credentials",
        "implicit",
        "urn:ietf:params:oauth:grant-type:device_code",
        "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "urn:ietf:params:oauth:grant-type:token-exchange",
        "AUTHORIZATION_CODE",
        "authorization_code ",
    ] {
        let reply = provider.c1().token(&[("grant_type", grant), ("username", "a"), ("password", "b")]).await;
        reply.assert_error(400, "unsupported_grant_type");
    }
}

#[tokio::test]
async fn tok_15_the_grant_type_has_to_be_there() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    for value in ["-", ""] {
        let reply = provider.c1().token(&redemption(&code, &[("grant_type", value)])).await;
        reply.assert_error(400, "invalid_request");
    }
    provider.c1().token(&[]).await.assert_error(400, "invalid_request");
    Tokens::of(&provider.c1().redeem(&code).await);
}

/// RFC 6749 §3.2: "Request and response parameters MUST NOT be included more than once."
#[tokio::test]
async fn tok_17_a_repeated_parameter_is_refused_and_the_code_stays() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[("code_challenge", &challenge(VERIFIER)), ("code_challenge_method", "S256")]).await;
    let right = redemption(&code, &[("code_verifier", VERIFIER)]);
    for repeated in ["grant_type", "code", "redirect_uri", "code_verifier", "client_id", "scope", "refresh_token"] {
        let value = right.iter().find(|(name, _)| *name == repeated).map_or("c1", |(_, value)| value);
        for second in [value, "other", ""] {
            let mut fields = right.clone();
            fields.retain(|(name, _)| *name != repeated);
            fields.extend([(repeated, value), (repeated, second)]);
            let reply = provider.c1().token(&fields).await;
            assert_eq!(reply.status, 400, "{repeated} {second}: {reply:?}");
            reply.assert_error(400, "invalid_request");
        }
    }
    let twice = [("client_id", "c1"), ("client_secret", "secret of c1"), ("client_secret", "secret of c1")];
    provider.post("/oauth/token", &[], &[&right[..], &twice].concat()).await.assert_error(400, "invalid_request");
    Tokens::of(&provider.c1().token(&right).await);
}

#[tokio::test]
async fn tok_17_an_unknown_parameter_is_ignored_even_when_repeated() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    let mut fields = redemption(&code, &[]);
    fields.extend([("extra", "1"), ("extra", "2"), ("audience", "x"), ("resource", "https://a"), ("state", "s")]);
    Tokens::of(&provider.c1().token(&fields).await);
}

#[tokio::test]
async fn tok_18_only_a_form_is_read() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    let form = format!("grant_type=authorization_code&code={code}&redirect_uri={REDIRECT_URI}");
    let json = serde_json::json!({
        "grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT_URI,
    })
    .to_string();
    let multipart = format!("--b\r\nContent-Disposition: form-data; name=\"code\"\r\n\r\n{code}\r\n--b--\r\n");
    let header = basic("c1", "secret of c1");
    for (media_type, body) in [
        (Some("application/json"), &json),
        (Some("application/json"), &form),
        (Some("text/plain"), &form),
        (Some("application/x-www-form-urlencodedx"), &form),
        (Some(""), &form),
        (None, &form),
        (Some("multipart/form-data; boundary=b"), &multipart),
    ] {
        let mut headers = vec![("authorization", header.as_str())];
        headers.extend(media_type.map(|media_type| ("content-type", media_type)));
        let reply = provider.request("POST", "/oauth/token", &headers, body).await;
        reply.assert_error(400, "invalid_request");
    }
    Tokens::of(&provider.c1().redeem(&code).await);
}

#[tokio::test]
async fn tok_18_what_the_query_says_is_not_read() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    let query = format!("/oauth/token?grant_type=authorization_code&code={code}&redirect_uri={REDIRECT_URI}");
    provider.c1().post(&query, &[]).await.assert_error(400, "invalid_request");
    let reply = provider.c1().post("/oauth/token?code=other&grant_type=password", &redemption(&code, &[])).await;
    Tokens::of(&reply);
}

#[tokio::test]
async fn tok_19_the_media_type_may_have_parameters_and_any_case() {
    let provider = Provider::new().await;
    let header = basic("c1", "secret of c1");
    for media_type in
        ["application/x-www-form-urlencoded; charset=UTF-8", "Application/X-WWW-Form-Urlencoded;charset=utf-8"]
    {
        let code = provider.c1().code(&[]).await;
        let body = format!("grant_type=authorization_code&code={code}&redirect_uri=https%3A%2F%2Frp.test%2Fcb");
        let headers = [("authorization", header.as_str()), ("content-type", media_type)];
        Tokens::of(&provider.request("POST", "/oauth/token", &headers, &body).await);
    }
}

#[tokio::test]
async fn tok_21_only_post_is_allowed() {
    let provider = Provider::new().await;
    for method in ["GET", "HEAD", "PUT", "DELETE", "PATCH"] {
        let reply = provider.request(method, "/oauth/token", &[], "").await;
        assert_eq!((reply.status, reply.header("allow")), (405, Some("POST")), "{method}");
    }
    provider.get("/oauth/token").await.assert_error(405, "method_not_allowed");
}

#[tokio::test]
async fn tok_22_a_body_beyond_the_limit_is_refused() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    let padding = "x".repeat(1 << 21);
    let reply = provider.c1().token(&redemption(&code, &[("padding", &padding)])).await;
    reply.assert_error(413, "invalid_request");
    Tokens::of(&provider.c1().redeem(&code).await);
}

#[tokio::test]
async fn tok_22_a_flood_of_parameters_is_refused() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    let mut fields = redemption(&code, &[]);
    fields.extend(std::iter::repeat_n(("a", "b"), 10_000));
    provider.c1().token(&fields).await.assert_error(400, "invalid_request");
}

#[tokio::test]
async fn tok_23_a_public_client_with_the_right_verifier_gets_tokens() {
    let provider = Provider::new().await;
    let code = provider.p1().code(&[]).await;
    Tokens::of(&provider.p1().redeem(&code).await);
}

#[tokio::test]
async fn tok_24_a_wrong_verifier_leaves_the_code_issued() {
    let provider = Provider::new().await;
    let s256 = challenge(VERIFIER);
    for client in [provider.p1(), provider.c1()] {
        let code = client.code(&[("code_challenge", &s256), ("code_challenge_method", "S256")]).await;
        // The challenge itself is no verifier: S256 must not fall back to plain.
        for wrong in ["a".repeat(43), VERIFIER.to_lowercase(), format!("{VERIFIER}a"), s256.clone()] {
            let reply = client.token(&redemption(&code, &[("code_verifier", &wrong)])).await;
            reply.assert_error(400, "invalid_grant");
        }
        Tokens::of(&client.token(&redemption(&code, &[("code_verifier", VERIFIER)])).await);
    }
}

#[tokio::test]
async fn tok_25_a_missing_verifier_leaves_the_code_issued() {
    let provider = Provider::new().await;
    let s256 = challenge(VERIFIER);
    for client in [provider.p1(), provider.c1()] {
        let code = client.code(&[("code_challenge", &s256), ("code_challenge_method", "S256")]).await;
        for missing in ["-", ""] {
            let reply = client.token(&redemption(&code, &[("code_verifier", missing)])).await;
            reply.assert_error(400, "invalid_request");
        }
        Tokens::of(&client.token(&redemption(&code, &[("code_verifier", VERIFIER)])).await);
    }
}

/// RFC 9700 §4.8.2: a verifier for a code without a challenge shows that somebody took the challenge away.
#[tokio::test]
async fn tok_25_a_verifier_without_a_challenge_is_refused() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    let reply = provider.c1().token(&redemption(&code, &[("code_verifier", VERIFIER)])).await;
    reply.assert_error(400, "invalid_grant");
}

#[tokio::test]
async fn tok_26_a_malformed_verifier_is_invalid_request_and_leaves_the_code_issued() {
    let provider = Provider::new().await;
    let code = provider.p1().code(&[]).await;
    let base = "a".repeat(43);
    for wrong in [
        "a".repeat(42),
        "a".repeat(129),
        format!("{base}!"),
        format!("{base} "),
        format!("{base}+"),
        format!("{base}/"),
        format!("{base}="),
        format!("{base}ı"),
        format!("{base}\0"),
    ] {
        let reply = provider.p1().token(&redemption(&code, &[("code_verifier", &wrong)])).await;
        reply.assert_error(400, "invalid_request");
    }
    Tokens::of(&provider.p1().redeem(&code).await);
}

#[tokio::test]
async fn tok_26_verifiers_of_43_and_128_characters_work() {
    let provider = Provider::new().await;
    for verifier in ["a".repeat(43), "Z9-._~".repeat(22)[..128].to_owned()] {
        let code = provider.p1().code(&[("code_challenge", &challenge(&verifier))]).await;
        Tokens::of(&provider.p1().token(&redemption(&code, &[("code_verifier", &verifier)])).await);
    }
}

#[tokio::test]
async fn tok_30_a_plain_challenge_is_its_own_verifier() {
    let provider = Provider::new().await;
    for client in [provider.p1(), provider.c1()] {
        let plain = [("code_challenge", VERIFIER), ("code_challenge_method", "plain")];
        let code = client.code(&plain).await;
        let wrong = VERIFIER.replace('0', "1");
        let reply = client.token(&redemption(&code, &[("code_verifier", &wrong)])).await;
        reply.assert_error(400, "invalid_grant");
        Tokens::of(&client.token(&redemption(&code, &[("code_verifier", VERIFIER)])).await);
    }
}

#[tokio::test]
async fn tok_33_a_script_of_another_origin_may_redeem_its_code() {
    let provider = Provider::new().await;
    let preflight = [
        ("origin", "https://spa.test"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization,content-type"),
    ];
    let reply = provider.request("OPTIONS", "/oauth/token", &preflight, "").await;
    assert_eq!((reply.status, reply.text()), (204, ""));
    assert!(reply.header("access-control-allow-methods").unwrap().contains("POST"));
    let allowed = reply.header("access-control-allow-headers").unwrap().to_ascii_lowercase();
    assert!(allowed.contains("authorization") && allowed.contains("content-type"));

    let code = provider.p1().code(&[]).await;
    let origin = [("origin", "https://spa.test")];
    let fields = redemption(&code, &[("client_id", "p1"), ("code_verifier", VERIFIER)]);
    let redeemed = provider.post("/oauth/token", &origin, &fields).await;
    let replayed = provider.post("/oauth/token", &origin, &fields).await;
    let unauthenticated = provider.request("POST", "/oauth/token", &[FORM, origin[0]], "").await;
    let wrong_method = provider.request("PUT", "/oauth/token", &origin, "").await;
    for (reply, status) in
        [(&reply, 204), (&redeemed, 200), (&replayed, 400), (&unauthenticated, 401), (&wrong_method, 405)]
    {
        assert_eq!(reply.status, status);
        assert_eq!(reply.header("access-control-allow-origin"), Some("*"));
        assert_eq!(reply.header("access-control-allow-credentials"), None);
    }
}

#[tokio::test]
async fn tok_35_a_code_is_compared_byte_for_byte() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    let swapped: String = code
        .chars()
        .map(|char| if char.is_ascii_lowercase() { char.to_ascii_uppercase() } else { char.to_ascii_lowercase() })
        .collect();
    for wrong in [format!("{code} "), format!(" {code}"), swapped, code[1..].to_owned(), format!("{code}=")] {
        provider.c1().redeem(&wrong).await.assert_error(400, "invalid_grant");
    }
    Tokens::of(&provider.c1().redeem(&code).await);
}

#[tokio::test]
async fn tok_12_a_code_of_somebody_who_was_disabled_since_gives_nothing() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    provider.change_user(provider.anna.sub, |user| user.state = UserState::Disabled).await;
    provider.c1().redeem(&code).await.assert_error(400, "invalid_grant");
}

#[tokio::test]
async fn tok_12_a_code_dies_with_the_consent_that_it_rests_on() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[("scope", "openid offline_access")]).await;
    let client = sealgate::protocol::client::ClientId::parse("c1").unwrap();
    let now = sealgate::ambient::Clock::now(provider.clock.as_ref());
    provider.sealgate.store.withdraw_consent(provider.anna.sub, &client, now).await.unwrap();
    provider.c1().redeem(&code).await.assert_error(400, "invalid_grant");
}

#[tokio::test]
async fn tok_12_a_code_dies_with_the_session_that_it_was_issued_in() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let first = Tokens::of(&provider.c1().redeem(&provider.c1().code_in(&browser, &[]).await).await);
    let code = provider.c1().code_in(&browser, &[]).await;
    browser.get(&format!("/oauth/logout?id_token_hint={}", first.id)).await;
    provider.c1().redeem(&code).await.assert_error(400, "invalid_grant");
    // An operator signs a person out everywhere.
    let code = provider.c1().code(&[]).await;
    provider.sealgate.store.end_sessions_of_user(provider.anna.sub).await.unwrap();
    provider.c1().redeem(&code).await.assert_error(400, "invalid_grant");
    assert_eq!(provider.userinfo(&first.access).await.status, 200);
}

#[tokio::test]
async fn tok_12_what_is_taken_away_while_the_tokens_are_signed_stays_away() {
    let provider = Provider::new().await;
    let (store, anna) = (&provider.sealgate.store, provider.anna.sub);
    let client = sealgate::protocol::client::ClientId::parse("c1").unwrap();
    let now = sealgate::ambient::Clock::now(provider.clock.as_ref());
    let why = sealgate::protocol::grant::EndReason::Administrator;
    // Whichever comes first, nothing may be left; several times, since only the middle of the way shows the race.
    for taken in ["everything", "the consent", "the client"].repeat(4) {
        let (c1, code) = (provider.c1(), provider.c1().code(&[("scope", "openid offline_access")]).await);
        let take_away = async {
            match taken {
                "everything" => {
                    store.end_sessions_of_user(anna).await.unwrap();
                    store.end_grants_of_user(anna, why, now).await.unwrap();
                }
                "the consent" => drop(store.withdraw_consent(anna, &client, now).await.unwrap()),
                _ => assert!(store.delete_client(&client, now).await.unwrap()),
            }
        };
        let (reply, ()) = tokio::join!(c1.redeem(&code), take_away);
        assert!(reply.status == 200 || reply.json()["error"] == "invalid_grant", "{reply:?}");
        assert_eq!(store.end_grants_of_user(anna, why, now).await.unwrap(), 0, "{taken}: a grant is left");
        if taken == "the client" {
            provider.add_client(provider.confidential("c1")).await;
        }
    }
}
