//! Tests rate limits and their headers (docs/explanation/protocol-tokens.md: `rate_…`, K13, K23).

use std::sync::Arc;

use sealgate_domain::rate_limit::RateLimit;
use sealgate_system::clock::Clock;
use tokio::task::JoinSet;

use crate::support::{FORM, Provider, REDIRECT_URI, Reply, Tokens, basic, redemption};

const NOW: u64 = 1_800_000_000;
const DISCOVERY: &str = "/.well-known/openid-configuration";

/// Sends a refresh that fails after the client was authenticated.
async fn attempt(provider: &Provider, address: &str, id: &str, secret: &str) -> Reply {
    let header = basic(id, secret);
    let body = "grant_type=refresh_token&refresh_token=RT_x";
    provider.request_from(address, "POST", "/oauth/token", &[FORM, ("authorization", &header)], body).await
}

#[track_caller]
fn assert_limited(provider: &Provider, reply: &Reply) {
    reply.assert_error(429, "rate_limit_exceeded");
    let seconds: u64 = reply.header("retry-after").unwrap().parse().unwrap();
    let allowance = reply.allowance();
    assert_eq!((allowance.remaining, allowance.reset), (0, provider.clock.now().seconds() + seconds));
    assert!((1..=60).contains(&seconds));
    let description = reply.json()["error_description"].as_str().unwrap().to_owned();
    assert!(description.contains(&format!(" {seconds} ")), "{description}");
}

#[tokio::test]
async fn rate_01_every_response_has_the_rate_limit_headers() {
    let provider = Provider::with("[registration]\nmode = \"open\"\n[rate_limits]\nlogout = 1").await;
    let client = provider.c1();
    let browser = provider.browser();
    let login = browser.get(&client.authorize(&[])).await;
    let page = browser.follow(browser.get(&client.authorize(&[])).await).await;
    let code = client.code_in(&browser, &[]).await;
    let silent = browser.get(&client.authorize(&[("prompt", "none")])).await;
    let redeemed = client.redeem(&code).await;
    let tokens = Tokens::of(&redeemed);
    let json = [("content-type", "application/json")];
    let metadata = format!(r#"{{"redirect_uris":["{REDIRECT_URI}"]}}"#);
    provider.get("/oauth/logout").await;
    let large = "x".repeat(70_000);
    let offline = client.tokens("openid offline_access").await;
    let replies = [
        (200, page),
        (302, silent),
        (303, login),
        (200, redeemed),
        (401, provider.post("/oauth/token", &[], &[]).await),
        (413, provider.request("POST", "/oauth/token", &[FORM], &large).await),
        (200, provider.userinfo(&tokens.access).await),
        (401, provider.userinfo("x").await),
        (401, provider.get("/oauth/userinfo").await),
        (200, client.revoke(&tokens.access).await),
        (400, client.revoke("").await),
        (400, client.redeem(&code).await),
        (200, provider.get(DISCOVERY).await),
        (200, provider.request("HEAD", DISCOVERY, &[], "").await),
        (200, provider.get("/.well-known/oauth-authorization-server").await),
        (200, provider.get("/oauth/jwks").await),
        (200, provider.get("/oauth/style.css").await),
        (201, provider.request("POST", "/oauth/register", &json, &metadata).await),
        (400, provider.request("POST", "/oauth/register", &json, "{").await),
        (401, provider.get("/oauth/register/x").await),
        (400, provider.get("/oauth/authorize").await),
        (400, provider.get("/oauth/login").await),
        (404, provider.get("/nope").await),
        (303, provider.get("/").await),
        (405, provider.get("/oauth/token").await),
        (405, provider.request("DELETE", "/oauth/authorize", &[], "").await),
        (405, provider.request("OPTIONS", "/oauth/authorize", &[], "").await),
        (204, provider.request("OPTIONS", "/oauth/token", &[], "").await),
        (405, provider.request("TRACE", "/oauth/token", &[], "").await),
        (429, provider.get("/oauth/logout").await),
        (503, {
            provider.engine.refuse_writes(true);
            client.refresh(&offline.refresh).await
        }),
    ];
    for (status, reply) in &replies {
        assert_eq!(reply.status, *status, "{reply:?}");
        let allowance = reply.allowance();
        assert!(allowance.remaining <= allowance.limit && allowance.limit > 0);
        assert!((NOW..=NOW + 60).contains(&allowance.reset), "{reply:?}");
        assert_eq!(reply.header("retry-after").is_some(), [429, 503].contains(status));
    }
}

#[tokio::test]
async fn rate_02_the_limits_are_those_of_the_specification() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens("openid").await;
    let anonymous = [
        ("/oauth/authorize", 100, provider.get("/oauth/authorize").await),
        (DISCOVERY, 1000, provider.get(DISCOVERY).await),
        ("/oauth/jwks", 1000, provider.get("/oauth/jwks").await),
        ("/oauth/logout", 100, provider.get("/oauth/logout").await),
        ("/oauth/register", 20, provider.request("POST", "/oauth/register", &[], "{}").await),
    ];
    for (path, limit, reply) in anonymous {
        assert_eq!(reply.allowance().limit, limit, "{path}");
    }
    assert_eq!(provider.c1().refresh("x").await.allowance().limit, 50);
    assert_eq!(provider.c1().revoke("x").await.allowance().limit, 50);
    assert_eq!(provider.userinfo(&tokens.access).await.allowance().limit, 200);
}

#[tokio::test]
async fn rate_02_remaining_falls_by_one_each_time() {
    let provider = Provider::new().await;
    let tokens = provider.p1().tokens("openid").await;
    for number in 0..5 {
        assert_eq!(provider.get(DISCOVERY).await.allowance().remaining, 999 - number);
        assert_eq!(provider.get("/oauth/jwks").await.allowance().remaining, 999 - number);
        assert_eq!(provider.userinfo(&tokens.access).await.allowance().remaining, 199 - number);
        assert_eq!(provider.c1().refresh("x").await.allowance().remaining, 49 - number);
        assert_eq!(provider.c1().revoke("x").await.allowance().remaining, 49 - number);
        assert_eq!(provider.c2().refresh("x").await.allowance().remaining, 49 - number);
    }
}

#[tokio::test]
async fn rate_03_the_51st_token_request_is_429() {
    let provider = Provider::new().await;
    for client in [provider.c1(), provider.p1()] {
        for left in (0..50).rev() {
            let reply = client.refresh("x").await;
            reply.assert_error(400, "invalid_grant");
            assert_eq!(reply.allowance().remaining, left);
        }
        for _ in 0..3 {
            assert_limited(&provider, &client.refresh("x").await);
        }
    }
    // Every client has its own limit.
    provider.c2().refresh("x").await.assert_error(400, "invalid_grant");
}

#[tokio::test]
async fn rate_03_a_clients_limit_applies_across_addresses() {
    let provider = Provider::new().await;
    for number in 0..50 {
        attempt(&provider, &format!("192.0.2.{number}"), "c1", "secret of c1").await.assert_error(400, "invalid_grant");
    }
    assert_limited(&provider, &attempt(&provider, "198.51.100.1", "c1", "secret of c1").await);
}

#[tokio::test]
async fn rate_04_the_101st_authorization_request_is_429_and_no_redirect() {
    let provider = Provider::new().await;
    let address = provider.c1().authorize(&[("prompt", "none")]);
    for _ in 0..100 {
        assert_eq!(provider.get(&address).await.status, 302);
    }
    for address in [address, provider.c1().authorize(&[])] {
        let reply = provider.get(&address).await;
        assert_limited(&provider, &reply);
        assert_eq!(reply.header("location"), None);
    }
    let other = provider.request_from("198.51.100.1", "GET", &provider.c1().authorize(&[]), &[], "").await;
    assert_eq!(other.status, 303);
}

#[tokio::test]
async fn rate_05_a_new_window_begins_at_reset() {
    let provider = Provider::new().await;
    for _ in 0..50 {
        provider.c1().refresh("x").await;
    }
    let limited = provider.c1().refresh("x").await;
    assert_limited(&provider, &limited);
    let seconds: u64 = limited.header("retry-after").unwrap().parse().unwrap();
    provider.wait(seconds - 1);
    assert_limited(&provider, &provider.c1().refresh("x").await);
    provider.wait(1);
    let reply = provider.c1().refresh("x").await;
    reply.assert_error(400, "invalid_grant");
    assert_eq!((reply.allowance().remaining, reply.allowance().reset), (49, limited.allowance().reset + 60));
}

#[tokio::test]
async fn rate_11_each_access_token_has_its_own_limit() {
    let provider = Provider::new().await;
    let (one, other) = (provider.c1().tokens("openid").await, provider.c1().tokens("openid").await);
    for left in (0..200).rev() {
        let reply = provider.userinfo(&one.access).await;
        assert_eq!((reply.status, reply.allowance().remaining), (200, left));
    }
    assert_limited(&provider, &provider.userinfo(&one.access).await);
    assert_eq!(provider.userinfo(&other.access).await.allowance().remaining, 199);
}

#[tokio::test]
async fn rate_11_invalid_tokens_are_counted_by_address() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens("openid").await;
    for number in 0..200 {
        let reply = match number % 3 {
            0 => provider.get("/oauth/userinfo").await,
            1 => provider.userinfo(&format!("junk-{number}")).await,
            _ => provider.userinfo(&tokens.id).await,
        };
        assert_eq!((reply.status, reply.allowance().remaining), (401, 199 - number));
    }
    assert_limited(&provider, &provider.userinfo("other junk").await);
    assert_limited(&provider, &provider.get("/oauth/userinfo").await);
    // A holder of a valid token who shares the address with an attacker is not blocked.
    let reply = provider.userinfo(&tokens.access).await;
    assert_eq!((reply.status, reply.allowance().remaining), (200, 199));
}

#[tokio::test]
async fn rate_12_a_limited_request_consumes_no_code_or_token() {
    let provider = Provider::new().await;
    let client = provider.c1();
    let code = client.code(&[]).await;
    let tokens = client.tokens("openid offline_access").await;
    for _ in 0..49 {
        client.refresh("x").await;
    }
    assert_limited(&provider, &client.redeem(&code).await);
    assert_limited(&provider, &client.refresh(&tokens.refresh).await);
    provider.wait(60);
    Tokens::of(&client.redeem(&code).await);
    Tokens::of(&client.refresh(&tokens.refresh).await);
}

#[tokio::test]
async fn rate_12_a_limited_revocation_revokes_nothing() {
    let provider = Provider::new().await;
    let client = provider.c1();
    let tokens = client.tokens("openid").await;
    for _ in 0..50 {
        assert_eq!(client.revoke("x").await.status, 200);
    }
    assert_limited(&provider, &client.revoke(&tokens.access).await);
    assert_eq!(provider.userinfo(&tokens.access).await.status, 200);
    // Each of the two endpoints has its own limit.
    client.refresh("x").await.assert_error(400, "invalid_grant");
}

#[tokio::test]
async fn rate_13_sign_in_pages_do_not_count_against_authorization_requests() {
    let provider = Provider::new().await;
    for left in [99, 98, 97] {
        let browser = provider.browser();
        let reply = browser.get(&provider.c1().authorize(&[])).await;
        assert_eq!(reply.allowance().remaining, left);
        let page = browser.follow(reply).await;
        assert_eq!(page.allowance().limit, 3000);
        let consent = browser.sign_in(&page, "anna@example.test").await;
        let last = if consent.header("location").is_some() { consent } else { browser.allow(&consent).await };
        assert!(last.location().starts_with(REDIRECT_URI));
    }
}

/// The gateway begins these sign-ins for users of an application. They neither use up the limit of
/// the clients' requests nor are blocked by it.
#[tokio::test]
async fn rate_13_sign_ins_of_our_own_pages_have_a_separate_limit() {
    let provider = Provider::with("[rate_limits]\nauthorize = 2\nsign_ins = 3").await;
    let own = "/oauth/authorize?client_id=sealgate-app-~own";
    for left in [2, 1, 0] {
        let allowance = provider.get(own).await.allowance();
        assert_eq!((allowance.limit, allowance.remaining), (3, left));
    }
    assert_limited_page(&provider.get(own).await);
    for left in [1, 0] {
        assert_eq!(provider.get(&provider.c1().authorize(&[])).await.allowance().remaining, left);
    }
    assert_limited_page(&provider.get(&provider.c1().authorize(&[])).await);
}

#[track_caller]
fn assert_limited_page(reply: &Reply) {
    assert_eq!((reply.status, reply.header("location")), (429, None), "{reply:?}");
}

/// K13: an attacker who knows a client's id cannot use up the client's limit, from any address.
#[tokio::test]
async fn rate_03_failed_authentications_do_not_count_against_the_client() {
    let provider = Provider::new().await;
    for number in 0..120 {
        let reply = attempt(&provider, &format!("198.51.100.{}", number % 4), "c1", "wrong").await;
        reply.assert_unauthenticated();
    }
    // A request from the client's own address is refused too, because other clients may share the
    // address.
    for _ in 0..50 {
        attempt(&provider, "192.0.2.1", "c1", "wrong").await.assert_unauthenticated();
    }
    assert_limited(&provider, &attempt(&provider, "192.0.2.1", "c1", "wrong").await);
    let reply = attempt(&provider, "192.0.2.1", "c1", "secret of c1").await;
    reply.assert_error(400, "invalid_grant");
    assert_eq!(reply.allowance().remaining, 49);
}

#[tokio::test]
async fn rate_03_failed_authentications_are_limited_by_client_and_address() {
    let provider = Provider::new().await;
    for left in (0..50).rev() {
        let reply = attempt(&provider, "192.0.2.1", "c1", "wrong").await;
        reply.assert_unauthenticated();
        assert_eq!((reply.allowance().limit, reply.allowance().remaining), (50, left));
    }
    assert_limited(&provider, &attempt(&provider, "192.0.2.1", "c1", "wrong").await);
    attempt(&provider, "192.0.2.1", "c2", "wrong").await.assert_unauthenticated();
    attempt(&provider, "192.0.2.2", "c1", "wrong").await.assert_unauthenticated();
}

#[tokio::test]
async fn rate_03_requests_that_name_no_client_are_counted_by_address() {
    let provider = Provider::new().await;
    for left in (0..50).rev() {
        let reply = match left % 3 {
            0 => provider.post("/oauth/token", &[], &redemption("x", &[])).await,
            1 => provider.request("POST", "/oauth/token", &[], "{}").await,
            _ => provider.post("/oauth/token", &[("authorization", "Basic !")], &[]).await,
        };
        assert!([400, 401].contains(&reply.status));
        assert_eq!(reply.allowance().remaining, left);
    }
    assert_limited(&provider, &provider.post("/oauth/token", &[], &[]).await);
    provider.c1().refresh("x").await.assert_error(400, "invalid_grant");
}

/// K13 for public clients: an attacker who knows the id can send requests in the client's name, and
/// uses up nothing.
#[tokio::test]
async fn rate_03_an_attacker_cannot_block_a_public_client() {
    let provider = Provider::new().await;
    let p1 = provider.p1();
    let tokens = p1.tokens("openid offline_access").await;
    let (spent, code) = (p1.code(&[]).await, p1.code(&[]).await);
    Tokens::of(&p1.redeem(&spent).await);
    let bogus = async |address: &str, number: u32| {
        let (path, body) = match number % 5 {
            0 => ("/oauth/token", "grant_type=refresh_token&refresh_token=RT_x"),
            1 => ("/oauth/token", "grant_type=authorization_code&code=x&redirect_uri=x&code_verifier=x"),
            2 => ("/oauth/token", "grant_type=other"),
            3 => ("/oauth/token", ""),
            _ => ("/oauth/revoke", "token=x"),
        };
        provider.request_from(address, "POST", path, &[FORM], &format!("client_id=p1&{body}")).await
    };
    // Requests come from many addresses, and from the address of the client's users.
    for network in 0..4 {
        for number in 0..52 {
            bogus(&format!("198.51.100.{network}"), number).await;
        }
    }
    let mut limited = 0;
    for number in 0..70 {
        limited += u32::from(bogus("192.0.2.1", number).await.status == 429);
    }
    assert_eq!(limited, 6, "bogus requests are limited by themselves: four of five are for the token endpoint");
    let redeemed = p1.redeem(&code).await;
    // The redemption above and the one of `tokens` were requests of this minute, and count against
    // the client's own limit.
    assert_eq!((redeemed.status, redeemed.allowance().remaining), (200, 47));
    let refreshed = p1.refresh(&tokens.refresh).await;
    assert_eq!((refreshed.status, refreshed.allowance().remaining), (200, 46));
    let revoked = p1.revoke(&Tokens::of(&refreshed).refresh).await;
    assert_eq!((revoked.status, revoked.allowance().limit, revoked.allowance().remaining), (200, 50, 49));
}

#[tokio::test]
async fn rate_03_a_public_clients_requests_are_counted_across_addresses() {
    let provider = Provider::new().await;
    let p1 = provider.p1();
    let mut refresh = p1.tokens("openid offline_access").await.refresh;
    let mut address = 0;
    for left in (0..49).rev() {
        address += 1;
        let body = format!("client_id=p1&grant_type=refresh_token&refresh_token={refresh}");
        let reply =
            provider.request_from(&format!("198.51.100.{address}"), "POST", "/oauth/token", &[FORM], &body).await;
        assert_eq!((reply.status, reply.allowance().remaining), (200, left));
        refresh = Tokens::of(&reply).refresh;
    }
    assert_limited(&provider, &p1.refresh(&refresh).await);
    assert_limited(&provider, &p1.refresh("x").await);
    provider.wait(60);
    Tokens::of(&p1.refresh(&refresh).await);
}

#[tokio::test]
async fn rate_03_each_client_has_its_own_limit_at_the_token_endpoint() {
    let provider = Provider::new().await;
    for (id, limit) in [("c1", 3), ("p1", 60)] {
        provider.change_client(id, |client| client.token_limit = Some(RateLimit::PerMinute(limit))).await;
    }
    for left in (0..3).rev() {
        let reply = provider.c1().refresh("x").await;
        reply.assert_error(400, "invalid_grant");
        assert_eq!((reply.allowance().limit, reply.allowance().remaining), (3, left));
    }
    assert_limited(&provider, &provider.c1().refresh("x").await);
    assert_eq!(provider.c1().revoke("x").await.allowance().limit, 50, "elsewhere it is like every client");
    let p1 = provider.p1();
    let mut refresh = p1.tokens("openid offline_access").await.refresh;
    for left in (0..59).rev() {
        let reply = p1.refresh(&refresh).await;
        assert_eq!((reply.status, reply.allowance().limit, reply.allowance().remaining), (200, 60, left));
        refresh = Tokens::of(&reply).refresh;
    }
    assert_limited(&provider, &p1.refresh(&refresh).await);
    assert_eq!(provider.c2().refresh("x").await.allowance().remaining, 49);
}

#[tokio::test]
async fn rate_03_a_client_without_a_limit_gets_no_rate_limit_headers() {
    let provider = Provider::new().await;
    for id in ["c1", "p1"] {
        provider.change_client(id, |client| client.token_limit = Some(RateLimit::Unlimited)).await;
    }
    let p1 = provider.p1();
    let mut refresh = p1.tokens("openid offline_access").await.refresh;
    for _ in 0..60 {
        let failed = provider.c1().refresh("x").await;
        failed.assert_error(400, "invalid_grant");
        let refreshed = p1.refresh(&refresh).await;
        for reply in [&failed, &refreshed] {
            assert_eq!(reply.header("x-ratelimit-limit"), None, "{reply:?}");
        }
        refresh = Tokens::of(&refreshed).refresh;
    }
    // A request that only names the client counts as unauthenticated, and is limited by address.
    for _ in 0..50 {
        p1.refresh("x").await.assert_error(400, "invalid_grant");
    }
    assert_limited(&provider, &p1.refresh("x").await);
    Tokens::of(&p1.refresh(&refresh).await);
}

#[tokio::test]
async fn rate_02_limits_go_up_to_a_million_or_are_none() {
    let limits = "[rate_limits]\ntoken = 1000000\nregister = \"none\"\nsign_ins = \"none\"\npages = \"none\"";
    let provider = Provider::with(limits).await;
    let allowance = provider.c1().refresh("x").await.allowance();
    assert_eq!((allowance.limit, allowance.remaining), (1_000_000, 999_999));
    for _ in 0..25 {
        let reply = provider.request("POST", "/oauth/register", &[], "{}").await;
        assert!(reply.status < 429 && reply.header("x-ratelimit-limit").is_none(), "{reply:?}");
    }
    let page = provider.get("/nope").await;
    assert_eq!((page.status, page.header("x-ratelimit-remaining")), (404, None));
}

#[tokio::test]
async fn rate_03_unknown_clients_are_counted_by_address_and_site() {
    let provider = Provider::new().await;
    let made_up = async |address: &str, number: u32| {
        let body = format!("client_id=made-up-{number}&grant_type=refresh_token&refresh_token=x");
        provider.request_from(address, "POST", "/oauth/token", &[FORM], &body).await
    };
    for number in 0..50 {
        made_up("192.0.2.1", number).await.assert_unauthenticated();
    }
    for number in 50..60 {
        assert_limited(&provider, &made_up("192.0.2.1", number).await);
    }
    provider.c1().refresh("x").await.assert_error(400, "invalid_grant");
    provider.p1().refresh("x").await.assert_error(400, "invalid_grant");
    let mut passed = 0;
    for network in 0..600 {
        passed += u32::from(made_up(&format!("2001:db8:1:{network:x}::1"), network).await.status == 401);
    }
    assert_eq!(passed, 500, "ten times what one of its networks may");
    made_up("2001:db8:2::1", 1).await.assert_unauthenticated();
}

#[tokio::test]
async fn rate_02_an_ipv6_subscriber_is_one_sender() {
    let provider = Provider::new().await;
    let remaining =
        async |address: &str| provider.request_from(address, "GET", DISCOVERY, &[], "").await.allowance().remaining;
    assert_eq!(remaining("2001:db8:1:2::1").await, 999);
    assert_eq!(remaining("2001:db8:1:2:ffff:ffff:ffff:ffff").await, 998);
    assert_eq!(remaining("2001:db8:1:3::1").await, 999);
    assert_eq!(remaining("192.0.2.1").await, 999);
    assert_eq!(remaining("::ffff:192.0.2.1").await, 998);
    assert_eq!(remaining("192.0.2.2").await, 999);
}

#[tokio::test]
async fn rate_02_forged_address_headers_change_nothing() {
    let provider = Provider::new().await;
    for (number, header) in ["x-forwarded-for", "forwarded", "x-real-ip", "true-client-ip"].iter().enumerate() {
        let reply = provider.request("GET", DISCOVERY, &[(header, "203.0.113.7")], "").await;
        assert_eq!(reply.allowance().remaining, 999 - number as u64, "{header}");
    }
}

/// Sends the requests concurrently. Returns how many were not rejected.
async fn allowed_of<F>(count: usize, request: impl Fn() -> F) -> usize
where
    F: Future<Output = Reply> + Send + 'static,
{
    let mut requests = JoinSet::new();
    for _ in 0..count {
        requests.spawn(request());
    }
    requests.join_all().await.iter().filter(|reply| reply.status != 429).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rate_03_the_limits_are_exact_under_concurrency() {
    let provider = Arc::new(Provider::new().await);
    let tokens = provider.c2().tokens("openid").await;
    let token_endpoint = || {
        let provider = Arc::clone(&provider);
        async move { provider.c1().refresh("x").await }
    };
    assert_eq!(allowed_of(200, token_endpoint).await, 50);
    let userinfo = || {
        let (provider, token) = (Arc::clone(&provider), tokens.access.clone());
        async move { provider.userinfo(&token).await }
    };
    assert_eq!(allowed_of(500, userinfo).await, 200);
    let authorize = || {
        let provider = Arc::clone(&provider);
        async move {
            let address = provider.c1().authorize(&[("prompt", "none")]);
            provider.request_from("198.51.100.1", "GET", &address, &[], "").await
        }
    };
    assert_eq!(allowed_of(300, authorize).await, 100);
}

#[tokio::test]
async fn rate_01_a_script_of_another_origin_can_read_the_allowance() {
    let provider = Provider::new().await;
    for _ in 0..50 {
        provider.c1().refresh("x").await;
    }
    let limited = provider.c1().refresh("x").await;
    assert_limited(&provider, &limited);
    assert_eq!(limited.header("access-control-allow-origin"), Some("*"));
    let exposed = limited.header("access-control-expose-headers").unwrap();
    for header in ["Retry-After", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"] {
        assert!(exposed.contains(header), "{header}");
    }
}

#[tokio::test]
async fn rate_15_remaining_stays_at_zero_and_refused_requests_are_not_counted() {
    let provider = Provider::with("[rate_limits]\njwks = 3").await;
    let mut seen = Vec::new();
    for _ in 0..6 {
        let reply = provider.get("/oauth/jwks").await;
        seen.push((reply.status, reply.allowance().remaining));
    }
    assert_eq!(seen, [(200, 2), (200, 1), (200, 0), (429, 0), (429, 0), (429, 0)]);
}
