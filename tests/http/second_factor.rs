//! Tests the second step of a sign-in, passkeys, levels and enrolment during the sign-in.

use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::secret::{SecretHash, base64url};
use sealgate_domain::user::{Role, User, UserState};
use sealgate_domain::webauthn::{CeremonyChallenge, KeyAlgorithm, UserHandle};
use sealgate_edge::origin::Origin;
use sealgate_system::clock::Clock as _;
use serde_json::{Value, json};

use crate::authenticator::{Authenticator, Ceremony, UV};
use crate::factors;
use crate::meddler::At;
use crate::security::{between, key_of, secret, send, with_app};
use crate::steps::{assert_code, with_anna};
use crate::support::PASSWORD;
use crate::support::{Browser, Provider, Reply, encode, form_action, hidden_fields, is_login, jwt_claims};
use crate::totp::code;

const ANNA: &str = "anna@example.test";
const ORIGIN: &str = "https://id.test";
const SESSION: &str = "__Host-sealgate";

fn now(provider: &Provider) -> u64 {
    provider.clock.now().seconds()
}

#[track_caller]
fn assert_factor(page: &Reply) {
    let text = page.text();
    assert!(text.contains("Verify it’s you"), "not the second step: {page:?}");
}

/// Enters Anna's password and returns the browser with the page for the second step.
async fn half<'p>(provider: &'p Provider, changes: &[(&str, &str)]) -> (Browser<'p>, Reply) {
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(changes)).await;
    let page = browser.sign_in(&page, ANNA).await;
    assert_factor(&page);
    (browser, page)
}

/// Continues to the client, with consent if the page asks for it, and returns the code.
async fn on_to_client(browser: &Browser<'_>, page: Reply) -> String {
    let page = if crate::support::is_consent(&page) { browser.allow(&page).await } else { page };
    assert_code(&page)
}

async fn claims(provider: &Provider, code: &str) -> Value {
    let tokens = provider.c1().redeem(code).await;
    jwt_claims(tokens.json()["id_token"].as_str().unwrap())
}

fn amr(claims: &Value) -> Vec<&str> {
    claims["amr"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}

/// Returns Anna's browser, in which she has just added a key, with that key.
pub(crate) async fn with_key<'p>(provider: &'p Provider, kind: &str) -> (Browser<'p>, Authenticator) {
    let browser = with_anna(provider).await;
    let mut authenticator = Authenticator::new(KeyAlgorithm::Es256, &[9; 32]);
    let page = browser.open("/account/security/key").await;
    let answer = key_of(&page, &authenticator, |ceremony| ceremony);
    let done = send(&browser, "/account/security/key", &page, &[("kind", kind), ("credential", &answer)]).await;
    assert!(done.text().contains("class=\"done\""), "{done:?}");
    let found = provider.sealgate.store.factors(provider.anna.sub).await.unwrap().unwrap().value;
    authenticator.handle = UserHandle::parse(&found.handle.to_string()).unwrap();
    (browser, authenticator)
}

/// Returns the challenge of a page that asks for a key.
fn challenge(page: &Reply) -> CeremonyChallenge {
    let text = page.text().replace("&#34;", "\"");
    let challenge = between(&text, "\"challenge\":\"", "\"").unwrap();
    CeremonyChallenge::parse(challenge).unwrap()
}

/// Returns a key's answer to the page, modified before it is signed.
pub(crate) fn answer(page: &Reply, authenticator: &Authenticator, bend: impl FnOnce(Ceremony) -> Ceremony) -> String {
    let text = page.text().replace("&#34;", "\"");
    let rp_id = between(&text, "\"rpId\":\"", "\"").unwrap();
    let ceremony = bend(authenticator.assertion(ORIGIN, rp_id, &challenge(page)));
    ceremony.asserted(authenticator).to_string()
}

/// Submits a passkey on the page of a sign-in.
pub(crate) async fn passkey(browser: &Browser<'_>, page: &Reply, answer: &str) -> Reply {
    let reply = passkey_with(browser, page, answer, &[]).await;
    browser.follow(reply).await
}

/// Submits a passkey on the page of a sign-in with more fields. Returns the first response.
pub(crate) async fn passkey_with(browser: &Browser<'_>, page: &Reply, answer: &str, fields: &[(&str, &str)]) -> Reply {
    assert!(is_login(page), "{page:?}");
    let to = between(page.text(), "action=\"/oauth/passkey", "\"").unwrap().replace("&#38;", "&");
    let csrf = crate::steps::csrf_of(page);
    let fields = [&[("csrf", csrf.as_str()), ("credential", answer)], fields].concat();
    browser.post(&format!("/oauth/passkey{to}"), &fields).await
}

/// Submits a key's answer on the page of the second step.
async fn key_step(browser: &Browser<'_>, page: &Reply, answer: &str) -> Reply {
    send(browser, &form_action(page.text()), page, &[("with", "key"), ("credential", answer)]).await
}

#[tokio::test]
async fn the_password_alone_gives_no_access_to_an_account_with_a_factor() {
    let provider = Provider::new().await;
    let (_, secret) = with_app(&provider).await;
    provider.wait(60);
    let (browser, page) = half(&provider, &[]).await;
    assert!(browser.cookie(SESSION).is_none(), "no session yet");
    assert!(is_login(&browser.open("/account").await));
    let silent = browser.open(&provider.c1().authorize(&[("prompt", "none")])).await;
    silent.assert_error_redirect("login_required");
    let wrong = browser.submit(&page, &[("code", "000000")]).await;
    assert_factor(&wrong);
    assert!(wrong.text().contains("role=\"alert\""), "{wrong:?}");
    let end = browser.submit(&wrong, &[("code", &code(&secret, now(&provider)))]).await;
    let claims = claims(&provider, &on_to_client(&browser, end).await).await;
    assert_eq!(claims["acr"], "2");
    assert_eq!(amr(&claims), ["pwd", "otp", "mfa"]);
    assert_eq!(claims["auth_time"], now(&provider));
    assert_eq!(browser.get("/account").await.status, 200);
}

#[tokio::test]
async fn a_totp_code_is_valid_once_and_no_earlier_code_afterwards() {
    let provider = Provider::new().await;
    let (_, secret) = with_app(&provider).await;
    provider.wait(90);
    let used = code(&secret, now(&provider));
    let (first, page) = half(&provider, &[]).await;
    first.submit(&page, &[("code", &used)]).await;
    assert_eq!(first.get("/account").await.status, 200);
    let (second, page) = half(&provider, &[]).await;
    for again in [used.clone(), code(&secret, now(&provider) - 30)] {
        let refused = second.submit(&page, &[("code", &again)]).await;
        assert!(refused.text().contains("role=\"alert\""), "{refused:?}");
        // An observer of a code does not learn that it was correct.
        assert!(!refused.text().contains("already"), "{refused:?}");
    }
    let page = second.submit(&page, &[("code", &code(&secret, now(&provider) + 30))]).await;
    on_to_client(&second, page).await;
}

/// Submits this code in all browsers at once, and returns how many are signed in.
async fn signed_in_at_once(provider: &Provider, halves: &[(Browser<'_>, Reply)], code: &str) -> usize {
    let mut tasks = tokio::task::JoinSet::new();
    for (browser, page) in halves {
        let mut fields = hidden_fields(page.text());
        fields.push(("code".to_owned(), code.to_owned()));
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let request = http::Request::post(form_action(page.text()))
            .header("host", "id.test")
            .header("content-type", "application/x-www-form-urlencoded")
            .header("cookie", browser.cookies());
        let mut request = request.body(bytes::Bytes::from(encode(&fields))).unwrap();
        let address = [192, 0, 2, 1].into();
        request.extensions_mut().insert(Origin { address, secure: true, ..Origin::unknown() });
        let sealgate = std::sync::Arc::clone(&provider.sealgate);
        tasks.spawn(async move {
            let (head, body) = request.into_parts();
            let route = sealgate_provider::route(&sealgate.config, head.uri.path());
            let reply = Reply::new(sealgate_provider::dispatch(&sealgate, route, &head, body).await);
            reply.headers("set-cookie").any(|cookie| cookie.starts_with(SESSION))
        });
    }
    tasks.join_all().await.into_iter().filter(|signed_in| *signed_in).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_64_concurrent_uses_of_a_code_succeeds() {
    let provider = Provider::new().await;
    let (_, secret) = with_app(&provider).await;
    provider.wait(60);
    let mut halves = Vec::new();
    for _ in 0..64 {
        halves.push(half(&provider, &[]).await);
    }
    let code = code(&secret, now(&provider));
    assert_eq!(signed_in_at_once(&provider, &halves, &code).await, 1);
}

/// Both requests read the record before either writes it. The order is fixed here.
#[tokio::test]
async fn two_simultaneous_uses_of_a_code_succeed_once() {
    let (provider, meddler) = Provider::meddled().await;
    let (_, secret) = with_app(&provider).await;
    provider.wait(60);
    let (first, first_page) = half(&provider, &[]).await;
    let (second, second_page) = half(&provider, &[]).await;
    let code = code(&secret, now(&provider));
    let stop = meddler.stop(At::BeforeCommit, b'f');
    let fields = [("code", code.as_str())];
    let meanwhile = stop.meanwhile(second.submit_only(&second_page, &fields));
    tokio::join!(first.submit_only(&first_page, &fields), meanwhile);
    assert!(second.cookie(SESSION).is_some(), "who was not held up gets in");
    assert!(first.cookie(SESSION).is_none(), "the code is used up");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_recovery_code_is_valid_once_and_replaces_a_lost_app() {
    let provider = Provider::new().await;
    let (browser, _) = with_app(&provider).await;
    let ask = browser.open("/account/security/codes").await;
    let shown = send(&browser, "/account/security/codes", &ask, &[]).await;
    let codes: Vec<&str> = shown.text().split("class=\"recovery-code\">").skip(1).collect();
    let codes: Vec<&str> = codes.into_iter().map(|part| part.split('<').next().unwrap()).collect();
    provider.wait(60);
    let mut halves = Vec::new();
    for _ in 0..8 {
        let (browser, page) = half(&provider, &[]).await;
        let page = browser.open(&method_link(&page, "recovery")).await;
        assert!(page.text().contains("Recovery code"), "{page:?}");
        halves.push((browser, page));
    }
    let typed = codes[3].to_lowercase().replace('-', " ");
    assert_eq!(signed_in_at_once(&provider, &halves, &typed).await, 1);
    let left = provider.sealgate.store.factors(provider.anna.sub).await.unwrap().unwrap().value;
    assert_eq!(left.recovery.as_ref().unwrap().unused(), 9);
    // On the account's own pages, the code replaces the lost app, so the owner can add a new one.
    provider.wait(3600);
    let (browser, page) = half(&provider, &[]).await;
    let page = browser.open(&method_link(&page, "recovery")).await;
    let told = browser.submit(&page, &[("code", codes[4])]).await;
    assert!(told.text().contains("8 recovery codes are left"), "{told:?}");
    assert!(browser.open("/account/security/app").await.text().contains("totp-secret"));
}

/// Returns the page's link to another method.
pub(crate) fn method_link(page: &Reply, with: &str) -> String {
    let with = format!("with={with}");
    let start = page.text().split(&with).next().unwrap().rsplit("href=\"").next().unwrap();
    format!("{}{with}", start.replace("&#38;", "&"))
}

#[tokio::test]
async fn wrong_codes_cause_growing_waits_that_a_correct_password_does_not_reset() {
    let provider = Provider::new().await;
    let (_, secret) = with_app(&provider).await;
    provider.wait(60);
    let (mut browser, mut page) = half(&provider, &[]).await;
    for _ in 0..6 {
        page = browser.submit(&page, &[("code", "000000")]).await;
        assert_eq!(page.status, 200);
        // Malformed input does not count as a guess.
        page = browser.submit(&page, &[("code", "12345")]).await;
    }
    (browser, page) = half(&provider, &[]).await;
    let held = browser.submit(&page, &[("code", &code(&secret, now(&provider)))]).await;
    assert_eq!((held.status, held.header("retry-after")), (429, Some("30")), "{held:?}");
    provider.wait(30);
    let mut failures = 6;
    while failures < 50 {
        provider.wait(3600);
        (browser, page) = half(&provider, &[]).await;
        let refused = browser.submit(&page, &[("code", "000000")]).await;
        assert_eq!(refused.status, 200, "{failures}");
        failures += 1;
    }
    provider.wait(7200);
    (browser, page) = half(&provider, &[]).await;
    let blocked = browser.submit(&page, &[("code", &code(&secret, now(&provider)))]).await;
    assert!(blocked.text().contains("blocked") && browser.cookie(SESSION).is_none(), "{blocked:?}");
}

#[tokio::test]
async fn another_users_key_cannot_complete_the_second_step() {
    let provider = Provider::new().await;
    let (_, anna_key) = with_key(&provider, "security_key").await;
    // Ben has a key of his own, and knows Anna's password.
    let ben = provider.browser();
    let login = ben.open("/account/security/key").await;
    ben.sign_in(&login, "ben@example.test").await;
    let page = ben.open("/account/security/key").await;
    let mut ben_key = Authenticator::new(KeyAlgorithm::Es256, &[8; 32]);
    let made = key_of(&page, &ben_key, |ceremony| ceremony);
    send(&ben, "/account/security/key", &page, &[("kind", "passkey"), ("credential", &made)]).await;
    let found = provider.sealgate.store.factors(provider.ben.sub).await.unwrap().unwrap().value;
    ben_key.handle = UserHandle::parse(&found.handle.to_string()).unwrap();

    let (browser, page) = half(&provider, &[]).await;
    let his = answer(&page, &ben_key, |ceremony| ceremony);
    let page = key_step(&browser, &page, &his).await;
    let refused = between(page.text(), "role=\"alert\"", "</").unwrap().to_owned();
    // A key that claims to be hers is refused too. All answers show the same page.
    for bend in [0, 1, 2] {
        let (browser, page) = half(&provider, &[]).await;
        let bent = match bend {
            0 => answer(&page, &ben_key, |ceremony| Ceremony { id: anna_key.id.clone(), ..ceremony }),
            1 => answer(&page, &ben_key, |ceremony| Ceremony { user_handle: None, ..ceremony }),
            _ => answer(&page, &anna_key, |ceremony| ceremony.saying(ORIGIN, "https://evil.test")),
        };
        let page = key_step(&browser, &page, &bent).await;
        assert_eq!(between(page.text(), "role=\"alert\"", "</").unwrap(), refused, "{bend}");
        assert!(browser.cookie(SESSION).is_none());
    }
    let (browser, page) = half(&provider, &[]).await;
    let hers = answer(&page, &anna_key, |ceremony| Ceremony { user_handle: None, ..ceremony });
    let end = key_step(&browser, &page, &hers).await;
    let claims = claims(&provider, &on_to_client(&browser, end).await).await;
    assert_eq!((&claims["acr"], amr(&claims)), (&json!("3"), vec!["pwd", "pop", "user", "mfa"]));
}

#[tokio::test]
async fn changes_between_the_two_steps_end_the_sign_in() {
    for what in ["disabled", "password", "factors"] {
        let provider = Provider::new().await;
        let (hers, secret) = with_app(&provider).await;
        provider.wait(60);
        let (browser, page) = half(&provider, &[]).await;
        let store = &provider.sealgate.store;
        match what {
            "disabled" => {
                let disable = |user: &mut User| user.state = UserState::Disabled;
                store.change_user(provider.anna.sub, disable).await.unwrap();
            }
            "password" => {
                store.change_user(provider.anna.sub, |user| user.password = None).await.unwrap();
            }
            _ => {
                let page = hers.open("/account/security/key").await;
                let key = Authenticator::new(KeyAlgorithm::Es256, &[9; 32]);
                let made = key_of(&page, &key, |ceremony| ceremony);
                let fields = [("kind", "security_key"), ("credential", made.as_str())];
                send(&hers, "/account/security/key", &page, &fields).await;
            }
        }
        let end = browser.submit(&page, &[("code", &code(&secret, now(&provider)))]).await;
        assert!(browser.cookie(SESSION).is_none() && is_login(&end), "{what}: {end:?}");
    }
}

#[tokio::test]
async fn a_passkey_completes_a_sign_in_without_typed_input() {
    let provider = Provider::new().await;
    let (_, key) = with_key(&provider, "passkey").await;
    provider.wait(60);
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[])).await;
    // The page reveals no user's keys.
    assert!(page.text().contains("&#34;rpId&#34;:&#34;id.test&#34;,&#34;allowCredentials&#34;:[]"), "{page:?}");
    let signed = answer(&page, &key, |ceremony| ceremony);
    let end = passkey(&browser, &page, &signed).await;
    let claims = claims(&provider, &on_to_client(&browser, end).await).await;
    assert_eq!((&claims["acr"], amr(&claims)), (&json!("3"), vec!["pop", "user", "mfa"]));
    assert_eq!(claims["auth_time"], now(&provider));
    // The same answer cannot be replayed, here or elsewhere.
    let other = provider.browser();
    let page = other.open(&provider.c1().authorize(&[])).await;
    let refused = passkey(&other, &page, &signed).await;
    assert!(is_login(&refused) && other.cookie(SESSION).is_none(), "{refused:?}");
}

#[tokio::test]
async fn passkeys_of_the_issuers_earlier_host_still_work() {
    let provider = Provider::with("[factors]\nrp_id = \"login.test\"\n").await;
    let (_, key) = with_key(&provider, "passkey").await;
    provider.wait(60);
    let with = async |bend: fn(Ceremony) -> Ceremony| {
        let browser = provider.browser();
        let page = browser.open(&provider.c1().authorize(&[])).await;
        assert!(page.text().contains("&#34;rpId&#34;:&#34;login.test&#34;"), "{page:?}");
        passkey(&browser, &page, &answer(&page, &key, bend)).await
    };
    let refused = with(|ceremony| Ceremony { rp_id: "id.test".to_owned(), ..ceremony }).await;
    assert!(is_login(&refused), "the key is bound to the earlier host: {refused:?}");
    let refused = with(|ceremony| ceremony.saying(ORIGIN, "https://login.test")).await;
    assert!(is_login(&refused), "pages of the earlier host may not use it: {refused:?}");
    let end = with(|ceremony| ceremony).await;
    assert_code(&end);
}

/// Answer that an attacker makes from a page's challenge.
type Bend<'a> = Box<dyn Fn(&Reply) -> String + 'a>;

#[tokio::test]
async fn every_refused_passkey_gets_the_same_answer() {
    let provider = Provider::new().await;
    let (_, key) = with_key(&provider, "passkey").await;
    let unknown = Authenticator::new(KeyAlgorithm::Es256, &[5; 32]);
    let refuse = async |bend: &dyn Fn(&Reply) -> String| {
        let browser = provider.browser();
        let page = browser.open(&provider.c1().authorize(&[])).await;
        let sent = bend(&page);
        let refused = passkey(&browser, &page, &sent).await;
        assert!(browser.cookie(SESSION).is_none());
        // The challenge is used up: the correct answer to it comes too late.
        assert_ne!(challenge(&refused).to_string(), challenge(&page).to_string());
        let late = answer(&page, &key, |ceremony| ceremony);
        passkey(&browser, &refused, &late).await;
        assert!(browser.cookie(SESSION).is_none());
        between(refused.text(), "role=\"alert\"", "</").unwrap().to_owned()
    };
    let first = refuse(&|page| answer(page, &unknown, |ceremony| ceremony)).await;
    let bends: Vec<Bend<'_>> = vec![
        Box::new(|page| answer(page, &key, |ceremony| Ceremony { flags: ceremony.flags & !UV, ..ceremony })),
        Box::new(|page| answer(page, &key, |ceremony| Ceremony { user_handle: None, ..ceremony })),
        Box::new(|page| answer(page, &key, |ceremony| ceremony.saying(ORIGIN, "https://evil.test"))),
        Box::new(|page| answer(page, &unknown, |ceremony| Ceremony { id: key.id.clone(), ..ceremony })),
        Box::new(|_| "{}".to_owned()),
    ];
    for bend in &bends {
        assert_eq!(refuse(bend).await, first);
    }
    let disable = |user: &mut User| user.state = UserState::Disabled;
    provider.sealgate.store.change_user(provider.anna.sub, disable).await.unwrap();
    drop(bends);
    assert_eq!(refuse(&|page| answer(page, &key, |ceremony| ceremony)).await, first);
}

#[tokio::test]
async fn a_security_key_alone_is_not_enough() {
    let provider = Provider::new().await;
    let (_, key) = with_key(&provider, "security_key").await;
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[])).await;
    let signed = answer(&page, &key, |ceremony| ceremony);
    let refused = passkey(&browser, &page, &signed).await;
    assert!(is_login(&refused) && browser.cookie(SESSION).is_none(), "{refused:?}");
}

#[tokio::test]
async fn a_key_whose_counter_does_not_increase_is_refused_once() {
    let provider = Provider::new().await;
    let (_, key) = with_key(&provider, "security_key").await;
    let tried = async |count: u32| {
        let (browser, page) = half(&provider, &[]).await;
        let signed = answer(&page, &key, |ceremony| Ceremony { sign_count: count, ..ceremony });
        let end = key_step(&browser, &page, &signed).await;
        (browser.cookie(SESSION).is_some(), end)
    };
    assert!(tried(5).await.0);
    let (signed_in, page) = tried(5).await;
    assert!(!signed_in && page.text().contains("cop"), "{page:?}");
    // The next attempt of its owner succeeds.
    assert!(tried(6).await.0);
}

#[tokio::test]
async fn a_step_up_asks_for_the_missing_factor_and_replaces_the_cookie() {
    let provider = Provider::new().await;
    // Anna signs in before she has a factor.
    let browser = with_anna(&provider).await;
    let typed = now(&provider);
    let (_, secret) = with_app(&provider).await;
    provider.wait(60);
    let thief = provider.browser();
    thief.set_cookie(SESSION, &browser.cookie(SESSION).unwrap());
    let page = browser.open(&provider.c1().authorize(&[("acr_values", "2")])).await;
    assert_factor(&page);
    let end = browser.submit(&page, &[("code", &code(&secret, now(&provider)))]).await;
    let claims = claims(&provider, &on_to_client(&browser, end).await).await;
    // `auth_time` is the time of the password, on which the level depends.
    assert_eq!((&claims["acr"], &claims["auth_time"]), (&json!("2"), &json!(typed)));
    let silent = provider.c1().authorize(&[("prompt", "none")]);
    thief.open(&silent).await.assert_error_redirect("login_required");
    assert!(is_login(&thief.open("/account").await));
    assert_code(&browser.open(&silent).await);
}

#[tokio::test]
async fn an_unreachable_requested_level_is_ignored_but_a_required_one_is_not() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    // Anna has no factor: a client's voluntary request does not stop her.
    let code = assert_code(&browser.open(&provider.c1().authorize(&[("acr_values", "3")])).await);
    assert_eq!(claims(&provider, &code).await["acr"], "1");
    let level = |client: &mut sealgate_domain::client::Client| client.level = Some(AssuranceLevel::Two);
    let id = sealgate_domain::client::ClientId::parse("c1").unwrap();
    provider.sealgate.store.change_client(&id, level).await.unwrap();
    for wish in [&[][..], &[("acr_values", "1")]] {
        let silent = [wish, &[("prompt", "none")]].concat();
        let refused = browser.open(&provider.c1().authorize(&silent)).await;
        assert!(refused.location().contains("error="), "{refused:?}");
        // She adds her first factor after the password, which she typed for this request.
        let page = browser.open(&provider.c1().authorize(wish)).await;
        let page = browser.sign_in(&page, ANNA).await;
        assert!(page.text().contains("Set up two-factor authentication"), "{page:?}");
    }
}

/// Adds an app on the pages of the sign-in, and continues.
async fn enrol(provider: &Provider, browser: &Browser<'_>, page: &Reply) -> Reply {
    let page = browser.open(&method_link(page, "totp")).await;
    let shown = secret(&page);
    assert!(browser.cookie(SESSION).is_none());
    let codes = browser.submit(&page, &[("code", &code(&shown, now(provider))), ("name", "")]).await;
    assert_eq!(codes.text().matches("class=\"recovery-code\"").count(), 10, "{codes:?}");
    let next = between(codes.text(), "/oauth/resume?", "\"").unwrap().replace("&#38;", "&");
    browser.open(&format!("/oauth/resume?{next}")).await
}

#[tokio::test]
async fn a_required_factor_is_added_before_the_session_starts() {
    let provider = Provider::with("[factors]\nlevel = \"2\"\n").await;
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[])).await;
    let page = browser.sign_in(&page, ANNA).await;
    assert!(
        page.text().contains("Set up two-factor authentication") && !page.text().contains("id=\"later\""),
        "{page:?}"
    );
    assert!(is_login(&browser.open("/account").await), "the password alone is no sign-in");
    let end = enrol(&provider, &browser, &page).await;
    let claims = claims(&provider, &on_to_client(&browser, end).await).await;
    assert_eq!((&claims["acr"], amr(&claims)), (&json!("2"), vec!["pwd", "otp", "mfa"]));
}

#[tokio::test]
async fn a_first_factor_can_be_postponed_until_the_configured_day() {
    // The tests' clock starts on 2027-01-15.
    let provider = Provider::with("[factors]\nlevel = \"2\"\nenrol_by = \"2027-01-16\"\n").await;
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[])).await;
    let page = browser.sign_in(&page, ANNA).await;
    assert!(page.text().contains("Set up two-factor authentication"), "{page:?}");
    let end = browser.submit(&page, &[("later", "yes")]).await;
    let found = claims(&provider, &on_to_client(&browser, end).await).await;
    assert_eq!(found["acr"], "1");
    provider.wait(3 * 86_400);
    let page = browser.open(&provider.c1().authorize(&[])).await;
    let page = if is_login(&page) { browser.sign_in(&page, ANNA).await } else { page };
    assert!(page.text().contains("Set up two-factor authentication"), "{page:?}");
    assert!(!page.text().contains("id=\"later\""), "{page:?}");
    let page = browser.open(&method_link(&page, "totp")).await;
    let forced = browser.submit(&page, &[("later", "yes")]).await;
    assert_eq!(forced.status, 400, "{forced:?}");
}

#[tokio::test]
async fn after_a_reset_only_the_link_opens_an_enrolment_and_only_once() {
    let provider = Provider::new().await;
    let sub = provider.anna.sub;
    let token = base64url(&[&sub.as_bytes()[..], &[7; 24]].concat());
    let mut record = factors::record(sub, &[], &[], 0);
    let until = now(&provider) + 3600;
    let hash = SecretHash::for_secret(token.as_bytes());
    record.value.as_mut().unwrap()["reset"] = json!({ "link": hash, "until": until });
    provider.sealgate.store.import(&[record]).await.unwrap();

    let thief = provider.browser();
    let page = thief.open(&provider.c1().authorize(&[])).await;
    let page = thief.sign_in(&page, ANNA).await;
    assert!(page.text().contains("Open the link from your administrator"), "{page:?}");
    assert!(thief.cookie(SESSION).is_none());

    let forged = base64url(&[&sub.as_bytes()[..], &[8; 24]].concat());
    for wrong in ["", "x", forged.as_str()] {
        let page = provider.browser().open(&format!("/oauth/enrolment?token={wrong}")).await;
        assert!(page.status == 400 && page.text().contains("This link no longer works"), "{page:?}");
    }
    let browser = provider.browser();
    let page = browser.open(&format!("/oauth/enrolment?token={token}")).await;
    let page = browser.sign_in(&page, ANNA).await;
    let end = enrol(&provider, &browser, &page).await;
    assert!(end.text().contains("<h1>Sign-in methods</h1>"), "{end:?}");
    let again = provider.browser().open(&format!("/oauth/enrolment?token={token}")).await;
    assert_eq!(again.status, 400);
    // The factor is required in every later sign-in.
    half(&provider, &[]).await;
}

#[tokio::test]
async fn an_undecryptable_secret_accepts_no_code() {
    let provider = Provider::new().await;
    let record = factors::record(provider.anna.sub, &[factors::app("telefon")], &[], 0);
    let mut record = record;
    record.value.as_mut().unwrap()["totp_failures"] = json!({ "count": 0 });
    provider.sealgate.store.import(&[record]).await.unwrap();
    let (browser, page) = half(&provider, &[]).await;
    for typed in ["000000", "123456", ""] {
        let refused = browser.submit(&page, &[("code", typed)]).await;
        assert_factor(&refused);
    }
    assert!(browser.cookie(SESSION).is_none());
}

#[tokio::test]
async fn the_console_requires_the_level_of_the_policy() {
    let more = "[console]\nenabled = true\n[factors]\ngroups = { admins = \"3\" }\n";
    let provider = Provider::with(more).await;
    let (browser, _) = with_app(&provider).await;
    let promote = |user: &mut User| {
        user.roles = [Role::Admin].into();
        user.groups = ["admins".to_owned()].into();
    };
    provider.sealgate.store.change_user(provider.anna.sub, promote).await.unwrap();
    // An app does not satisfy the requirement of her group. She may open the page that adds a key,
    // but not the console.
    let page = browser.open("/console/users").await;
    assert!(page.text().contains("<h1>Sign-in methods</h1>"), "{page:?}");
    let page = browser.open("/account/security/key").await;
    let key = Authenticator::new(KeyAlgorithm::Es256, &[9; 32]);
    let made = key_of(&page, &key, |ceremony| ceremony);
    send(&browser, "/account/security/key", &page, &[("kind", "security_key"), ("credential", &made)]).await;
    assert!(browser.open("/console/users").await.text().contains("anna@example.test"));
}

/// An attacker who signed in with the password before the owner added a factor cannot lock the
/// owner out.
#[tokio::test]
async fn a_session_from_before_the_factor_cannot_change_the_password() {
    let provider = Provider::new().await;
    let thief = with_anna(&provider).await;
    let form = thief.open("/account/password").await;
    assert!(form.text().contains("name=\"current\"") || form.text().contains("current-password"), "{form:?}");
    let (hers, _) = with_app(&provider).await;
    assert_factor(&thief.open("/account/password").await);
    let sent = thief
        .submit(
            &form,
            &[
                ("current", PASSWORD),
                ("new", "correct horse battery staple 9"),
                ("again", "correct horse battery staple 9"),
            ],
        )
        .await;
    assert_factor(&sent);
    assert_eq!(hers.get("/account").await.status, 200, "she is still signed in");
    assert!(!hers.open("/account/password").await.text().contains("Verify it’s you"));
}
