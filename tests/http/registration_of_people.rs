//! Tests `[registration_of_people]`: users create their own accounts. Also tests attackers who
//! prepare an account before the owner of the address comes: the classes of Sudhodanan and Paverd,
//! "Pre-hijacked accounts" (USENIX Security 2022).

use std::path::Path;
use std::sync::Arc;

use http::{Method, Request};
use sealgate_config::Config;
use sealgate_domain::audit::{AuditFilter, AuditKind};
use sealgate_domain::mail::{CodePurpose, Mail, MailId, MailMessage, WaitingMail};
use sealgate_domain::pending_registration::{PendingRegistration, REGISTRATION_LIFE};
use sealgate_domain::secret::SecretHash;
use sealgate_domain::user::{Email, Subject, User, UserState};
use sealgate_domain::webauthn::{KeyAlgorithm, UserHandle};
use sealgate_store::AddOutcome;
use sealgate_store::engine::{Engine as _, Key, Value};
use sealgate_system::clock::Clock as _;
use serde_json::json;

use crate::authenticator::Authenticator;
use crate::invitations::{command, invite, token_for};
use crate::mailbox::{self, MAIL};
use crate::meddler::At;
use crate::second_factor::{answer, passkey};
use crate::security::{between, key_of, send};
use crate::steps::{assert_code, assert_consent, assert_login, with_anna};
use crate::support::{Browser, Provider, Reply, Tokens, form_action, jwt_claims, settings};

/// Message to a user who already has an account.
const EXISTS: Mail = Mail::AccountExists { purpose: CodePurpose::Registration };

const NEW: &str = "ceren@example.test";
const ANNA: &str = "anna@example.test";
const CHOSEN: &str = "purple lantern under seven bridges";
const THIEFS: &str = "seven green bottles on the wall";
const SESSION: &str = "__Host-sealgate";
const REGISTRATION: &str = "__Host-sealgate-registration";
const PAGES: [&str; 3] = ["/oauth/create-account", "/oauth/create-account/code", "/oauth/create-account/finish"];

/// Tables, by their first byte.
const PENDING: &[u8] = b"R";
const OUTBOX: &[u8] = b"q";
const FACTORS: &[u8] = b"f";

fn opened(more: &str) -> String {
    format!("{MAIL}[registration_of_people]\nmode = \"open\"\n{more}")
}

pub(crate) async fn open() -> Provider {
    Provider::with(&opened("")).await
}

/// Opens the page for the address from the sign-in page of a client.
pub(crate) async fn begin(provider: &Provider, browser: &Browser<'_>) -> Reply {
    let page = browser.open(&provider.c1().authorize(&[])).await;
    assert_login(&page);
    let link = between(page.text(), "id=\"create-account\" href=\"", "\"").expect("a link").replace("&#38;", "&");
    browser.get(&link).await
}

/// Enters an address and returns the page for the code.
async fn ask(provider: &Provider, browser: &Browser<'_>, address: &str) -> Reply {
    let page = begin(provider, browser).await;
    let asked = browser.submit(&page, &[("email", address), ("register-submit", "yes")]).await;
    assert!(asked.status == 200 && asked.text().contains("id=\"code-submit\""), "{asked:?}");
    asked
}

/// Enters address and code, and returns the page that creates the account.
pub(crate) async fn prove(provider: &Provider, browser: &Browser<'_>, address: &str) -> Reply {
    let page = ask(provider, browser, address).await;
    let (code, to) = mailbox::code(&provider.sealgate).await;
    assert_eq!(to, address);
    let page = browser.submit(&page, &[("code", &code)]).await;
    assert_form(&page);
    page
}

/// Creates the account and returns the immediate answer.
async fn finish(browser: &Browser<'_>, page: &Reply, name: &str, password: &str) -> Reply {
    browser
        .submit_only(page, &[("person-name", name), ("new-password", password), ("new-password-submit", "yes")])
        .await
}

async fn user(provider: &Provider, address: &str) -> Option<User> {
    provider.sealgate.store.user_by_email(&Email::parse(address).unwrap()).await.unwrap()
}

/// Signs in for the account page. Returns whether that succeeded.
async fn signs_in(provider: &Provider, address: &str, password: &str) -> bool {
    let browser = provider.browser();
    let page = browser.open("/account").await;
    assert_login(&page);
    browser.submit(&page, &[("email", address), ("password", password)]).await;
    browser.cookie(SESSION).is_some()
}

/// Returns the records of a table, or all records for an empty prefix.
async fn records(provider: &Provider, table: &[u8]) -> Vec<(Key, Value)> {
    provider.engine.scan(table, None, 100_000).await.unwrap()
}

/// Returns the number of records.
async fn count(provider: &Provider, table: &[u8]) -> usize {
    records(provider, table).await.len()
}

/// Returns the same provider with a reloaded configuration.
fn reloaded(provider: Provider, more: &str) -> Provider {
    let config = Config::parse(&settings(more), Path::new("/nowhere")).unwrap();
    Provider { sealgate: Arc::new(provider.sealgate.with(config)), ..provider }
}

/// Sets the cookies of a `Cookie` header in a browser.
fn give(browser: &Browser<'_>, cookies: &str) {
    for (name, value) in cookies.split("; ").filter_map(|cookie| cookie.split_once('=')) {
        browser.set_cookie(name, value);
    }
}

#[track_caller]
fn assert_form(page: &Reply) {
    assert!(page.status == 200 && page.text().contains("id=\"person-name\""), "no form: {page:?}");
    assert_may_lead_on(page);
}

/// Asserts that the form may redirect to the client: Chromium applies `form-action` to every
/// redirect after a form.
#[track_caller]
fn assert_may_lead_on(page: &Reply) {
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("form-action 'self' https://rp.test"), "{policy}");
}

#[track_caller]
fn assert_over(page: &Reply) {
    assert!(page.text().contains("This browser is not waiting for a code"), "not over: {page:?}");
}

#[track_caller]
fn assert_taken(page: &Reply) {
    assert!(page.text().contains("This address already belongs to an account"), "not taken: {page:?}");
}

/// Returns a wrong code.
fn other_than(code: &str) -> &'static str {
    if code == "00000000" { "00000001" } else { "00000000" }
}

#[tokio::test]
async fn a_new_user_creates_an_account_and_reaches_the_application() {
    for (language, created) in [("en", "Set up your account"), ("tr", "Hesabınızı hazırlayın")] {
        let provider = open().await;
        let browser = provider.browser();
        let page = begin(&provider, &browser).await;
        assert!(page.text().contains("id=\"register-submit\"") && !page.text().contains("password"), "{page:?}");
        let page = browser.get(&format!("{}&lang={language}", form_action(page.text()))).await;
        let page = browser.submit(&page, &[("email", " Ceren@Example.test "), ("register-submit", "yes")]).await;
        assert!(page.text().contains("id=\"code\"") && !page.text().contains("eren"), "{page:?}");
        let mails = mailbox::take(&provider.sealgate).await;
        let [MailMessage { mail: Mail::VerificationCode { code, purpose: CodePurpose::Registration }, .. }] = &*mails
        else {
            panic!("{mails:?}")
        };
        assert_eq!(mailbox::address(&mails[0]), "Ceren@Example.test");
        assert_eq!(format!("{:?}", mails[0].language), if language == "tr" { "Turkish" } else { "English" });
        assert!(user(&provider, NEW).await.is_none(), "no account before there is a password");

        let page = browser.submit(&page, &[("code", &format!("{} {}", &code[..4], &code[4..]))]).await;
        assert_form(&page);
        assert!(page.text().contains(created) && page.text().contains("<bdi>Ceren@Example.test</bdi>"), "{page:?}");
        for (name, password, problem) in [
            ("", CHOSEN, "name-problem"),
            ("a\u{202e}b", CHOSEN, "name-problem"),
            ("Ceren Kaya", "short", "password-problem"),
            ("Ceren Kaya", "my ceren@example.test password", "password-problem"),
        ] {
            let refused = browser.submit(&page, &[("person-name", name), ("new-password", password)]).await;
            assert!(refused.text().contains(&format!("id=\"{problem}\"")), "{name} {password}: {refused:?}");
        }
        assert!(user(&provider, NEW).await.is_none());
        let made = finish(&browser, &page, " Ceren Kaya ", CHOSEN).await;
        assert_eq!((made.status, browser.cookie(REGISTRATION)), (303, None));
        let ceren = user(&provider, NEW).await.unwrap();
        assert_eq!((ceren.name.as_str(), ceren.sign_in_name()), ("Ceren Kaya", "Ceren@Example.test"));
        assert!(ceren.email_verified && ceren.is_enabled() && ceren.username.is_none());
        assert!(ceren.groups.is_empty() && ceren.roles.is_empty() && ceren.phone_number.is_none());
        assert_eq!(count(&provider, PENDING).await, 0);

        // The pending sign-in continues.
        let consent = browser.follow(made).await;
        assert_consent(&consent);
        let code = assert_code(&browser.allow(&consent).await);
        let claims = jwt_claims(&Tokens::of(&provider.c1().redeem(&code).await).id);
        assert_eq!(claims["sub"], ceren.sub.to_string());

        provider.sealgate.audit.write(&provider.sealgate.store).await.unwrap();
        let filter = AuditFilter { kinds: vec![AuditKind::SelfRegistered], ..AuditFilter::default() };
        let events = provider.sealgate.store.audit_page(&filter, None, 9).await.unwrap().records;
        let [event] = &*events else { panic!("{events:?}") };
        assert_eq!((event.event.subject, event.event.detail.as_deref()), (Some(ceren.sub), Some("password")));
        let trail = browser.get("/account/activity?lang=en").await;
        assert!(trail.text().contains("User registered"), "{trail:?}");
        let counted = provider.sealgate.metrics.text();
        for outcome in ["begun", "proven", "created"] {
            let series = format!("sealgate_self_registrations_total{{outcome=\"{outcome}\"}} 1");
            assert!(counted.contains(&series), "{series}");
        }
    }
}

#[tokio::test]
async fn a_user_with_a_passkey_has_no_password_and_signs_in_with_it() {
    let provider = open().await;
    let browser = provider.browser();
    let first = prove(&provider, &browser, NEW).await;
    let unnamed = browser.submit(&first, &[("choose", "passkey"), ("person-name", " ")]).await;
    assert!(unnamed.text().contains("name-problem"), "{unnamed:?}");
    let page = browser.submit(&first, &[("choose", "passkey"), ("person-name", "Ceren Kaya")]).await;
    assert!(page.text().contains("id=\"enrol-passkey\"") && !page.text().contains("new-password"), "{page:?}");
    assert_may_lead_on(&page);
    assert_eq!(count(&provider, FACTORS).await, 0, "nothing is stored before the account exists");
    let mut key = Authenticator::new(KeyAlgorithm::Es256, &[9; 32]);
    let answers = async |page: &Reply, answer: &str| {
        let fields = [("with", "key"), ("kind", "passkey"), ("credential", answer), ("person-name", "Ceren Kaya")];
        send(&browser, &form_action(page.text()), page, &fields).await
    };
    let elsewhere = key_of(&page, &key, |ceremony| ceremony.saying("https://id.test", "https://evil.test"));
    let again = answers(&page, &elsewhere).await;
    assert!(again.text().contains("its answer could not be verified"), "{again:?}");
    // The failed attempt used the challenge up.
    let late = key_of(&page, &key, |ceremony| ceremony);
    let again = answers(&page, &late).await;
    assert!(again.text().contains("role=\"alert\"") && user(&provider, NEW).await.is_none(), "{again:?}");
    let made = key_of(&again, &key, |ceremony| ceremony);
    assert_consent(&answers(&again, &made).await);
    let ceren = user(&provider, NEW).await.unwrap();
    assert!(ceren.password.is_none() && ceren.email_verified && ceren.name == "Ceren Kaya", "{ceren:?}");
    let factors = provider.sealgate.store.factors(ceren.sub).await.unwrap().unwrap().value;
    assert!(factors.has_passkey() && factors.pending.is_empty());
    key.handle = UserHandle::parse(&factors.handle.to_string()).unwrap();
    let elsewhere = provider.browser();
    let login = elsewhere.open(&provider.c1().authorize(&[])).await;
    assert_consent(&passkey(&elsewhere, &login, &answer(&login, &key, |ceremony| ceremony)).await);
}

#[tokio::test]
async fn a_required_second_factor_is_added_during_the_registration() {
    let provider = Provider::with(&opened("[factors]\nlevel = \"2\"\n")).await;
    let browser = provider.browser();
    let page = prove(&provider, &browser, NEW).await;
    let next = browser.follow(finish(&browser, &page, "Ceren", CHOSEN).await).await;
    assert!(next.text().contains("/oauth/enrol") && browser.cookie(SESSION).is_none(), "{next:?}");
}

#[tokio::test]
async fn disabled_registration_has_no_link_and_no_page() {
    let off = format!("{MAIL}[registration_of_people]\nmode = \"off\"\ndomains = [\"example.test\"]\n");
    for settings in ["", MAIL, &off] {
        let provider = Provider::with(settings).await;
        let browser = provider.browser();
        let page = browser.open(&provider.c1().authorize(&[])).await;
        assert!(!page.text().contains("create-account"), "{page:?}");
        let query = between(page.text(), "action=\"/oauth/login", "\"").unwrap().replace("&#38;", "&");
        for path in PAGES {
            let path = format!("{path}{query}");
            for reply in [browser.get(&path).await, browser.post(&path, &[("email", NEW)]).await] {
                assert_eq!(reply.status, 404, "{reply:?}");
            }
        }
        assert_eq!(count(&provider, PENDING).await, 0);
    }
    // Pages from before registration was disabled are rejected too.
    let provider = open().await;
    let browser = provider.browser();
    let page = prove(&provider, &browser, NEW).await;
    let cookies = browser.cookies();
    let provider = reloaded(provider, MAIL);
    let later = provider.browser();
    give(&later, &cookies);
    assert_eq!(finish(&later, &page, "Ceren", CHOSEN).await.status, 404);
    assert!(user(&provider, NEW).await.is_none());
}

/// Returns an answer without request counts and random values.
fn shown(reply: &Reply) -> (u16, Vec<(String, String)>, String) {
    let mut headers = reply.all_headers();
    headers.retain(|(name, _)| !name.starts_with("x-ratelimit-"));
    for (name, value) in &mut headers {
        if name == "set-cookie" {
            let end = value.find(';').unwrap();
            assert_eq!(value[..end].len(), REGISTRATION.len() + 1 + 43, "{value}");
            value.replace_range(REGISTRATION.len()..end, "");
        }
    }
    let csrf = between(reply.text(), "name=\"csrf\" value=\"", "\"").unwrap_or_default().to_owned();
    (reply.status, headers, if csrf.is_empty() { reply.text().to_owned() } else { reply.text().replace(&csrf, "") })
}

#[tokio::test]
async fn every_address_gets_the_same_response_at_the_same_cost() {
    let (provider, meddler) = Provider::meddled_with(&opened("")).await;
    provider.change_user(provider.ben.sub, |ben| ben.state = UserState::Disabled).await;
    let mut browser = provider.browser();
    let page = begin(&provider, &browser).await;
    let mut answers = Vec::new();
    for (number, typed) in [ANNA, "ANNA@Example.test", "nobody@example.test", "ben@example.test"].iter().enumerate() {
        browser.address = format!("198.51.100.{}", 100 + number);
        let before = meddler.operations();
        let asked = browser.submit_only(&page, &[("email", typed)]).await;
        let work = meddler.operations() - before;
        answers.push((shown(&asked), shown(&browser.follow(asked).await), work));
    }
    assert_eq!(count(&provider, PENDING).await, 4);
    // A user with an account gets a message about it at its address; a disabled user gets none.
    let mails = mailbox::take(&provider.sealgate).await;
    let told: Vec<_> = mails.iter().map(|mail| (mailbox::address(mail), mail.mail == EXISTS)).collect();
    assert_eq!(told, [(ANNA.to_owned(), true), (ANNA.to_owned(), true), ("nobody@example.test".to_owned(), false)]);
    // Exceeds the limit for an address, then for a network: no message and no record, and the
    // answer shows no difference.
    for (address, typed, kept) in [("198.51.100.200", ANNA, 1), ("198.51.100.201", ANNA, 0)] {
        browser.address = address.into();
        let before = (meddler.operations(), count(&provider, PENDING).await);
        let asked = browser.submit_only(&page, &[("email", typed)]).await;
        let work = meddler.operations() - before.0;
        answers.push((shown(&asked), shown(&browser.follow(asked).await), work));
        assert_eq!(count(&provider, PENDING).await, before.1 + kept, "{typed}");
    }
    for number in 0..11 {
        browser.address = "203.0.113.7".into();
        let asked = browser.submit_only(&page, &[("email", &format!("somebody{number}@example.test"))]).await;
        answers.push((shown(&asked), shown(&browser.follow(asked).await), answers[0].2));
    }
    assert_eq!(mailbox::take(&provider.sealgate).await.len(), 1 + 10);
    for answer in &answers {
        assert_eq!(answer, &answers[0]);
    }
    assert!(answers[0].1.2.contains("If the address can be used for an account"), "{answers:?}");
}

#[tokio::test]
async fn an_unusable_address_is_refused_at_once() {
    let provider = Provider::with(&opened("domains = [\"Example.test\", \"örnek.test\"]\n")).await;
    let browser = provider.browser();
    let page = begin(&provider, &browser).await;
    assert!(page.text().contains("<bdi>example.test, xn--rnek-4qa.test</bdi>"), "{page:?}");
    for (typed, problem) in [
        ("ceren@elsewhere.test", "This address cannot be used for an account"),
        ("anna@sub.example.test", "This address cannot be used for an account"),
        ("ceren", "Emails cannot be sent to this address"),
        ("", "Emails cannot be sent to this address"),
        ("ceren@example.test, eve@example.test", "Emails cannot be sent to this address"),
        ("a\u{202e}b@example.test", "before the @"),
        ("şahin@example.test", "before the @"),
    ] {
        let refused = browser.submit(&page, &[("email", typed)]).await;
        assert!(refused.status == 200 && refused.text().contains(problem), "{typed}: {refused:?}");
    }
    assert!(mailbox::take(&provider.sealgate).await.is_empty());
    for typed in ["ceren@EXAMPLE.test", "ceren@ÖRNEK.test"] {
        let page = browser.submit(&page, &[("email", typed)]).await;
        assert!(page.text().contains("id=\"code\""), "{page:?}");
    }
    assert_eq!(mailbox::take(&provider.sealgate).await.len(), 2);
    // A reload removes the domain from the list during the registration.
    let other = provider.browser();
    let asked = ask(&provider, &other, "deniz@example.test").await;
    let (code, _) = mailbox::code(&provider.sealgate).await;
    let page = prove(&provider, &browser, NEW).await;
    let (cookies, others) = (browser.cookies(), other.cookies());
    let provider = reloaded(provider, &opened("domains = [\"elsewhere.test\"]\n"));
    let later = provider.browser();
    give(&later, &cookies);
    assert_over(&finish(&later, &page, "Ceren", CHOSEN).await);
    assert!(user(&provider, NEW).await.is_none());
    let later = provider.browser();
    give(&later, &others);
    assert_over(&later.submit(&asked, &[("code", &code)]).await);
}

/// Mail servers map the full-width letters `ｅ` and `ａ` to `e` and `a`.
#[tokio::test]
async fn spellings_of_a_domain_are_one_address() {
    let provider = Provider::with(&opened("domains = [\"example.test\", \"örnek.test\"]\n")).await;
    provider.change_user(provider.ben.sub, |ben| ben.state = UserState::Disabled).await;
    let mut browser = provider.browser();
    let page = begin(&provider, &browser).await;
    // A user with an account gets a message about it. A disabled user cannot register with another
    // spelling.
    for typed in ["anna@exａmple.test", "ben@ｅxample.test", "ceren@ｅxａmple.test"] {
        assert!(browser.submit(&page, &[("email", typed)]).await.text().contains("id=\"code\""), "{typed}");
    }
    let mails = mailbox::take(&provider.sealgate).await;
    let told: Vec<_> = mails.iter().map(|mail| (mailbox::address(mail), mail.mail == EXISTS)).collect();
    assert_eq!(told, [(ANNA.to_owned(), true), (NEW.to_owned(), false)]);
    // All spellings share one limit.
    for (number, typed) in ["d@örnek.test", "d@ÖRNEK.test", "d@xn--rnek-4qa.test", "d@örnｅk.test"].iter().enumerate()
    {
        browser.address = format!("198.51.100.{}", 100 + number);
        assert!(browser.submit(&page, &[("email", typed)]).await.text().contains("id=\"code\""), "{typed}");
    }
    assert_eq!(mailbox::take(&provider.sealgate).await.len(), 3);
    // A changed address is normalized as well.
    let anna = with_anna(&provider).await;
    let page = anna.get("/account/address/new").await;
    anna.submit(&page, &[("address", "deniz@exａmple.test")]).await;
    assert_eq!(mailbox::code(&provider.sealgate).await.1, "deniz@example.test");
}

#[tokio::test]
async fn viewing_a_registration_page_changes_nothing() {
    let provider = open().await;
    let browser = provider.browser();
    let code_page = ask(&provider, &browser, NEW).await;
    let before = (count(&provider, PENDING).await, count(&provider, OUTBOX).await);
    assert_eq!(before, (1, 1));
    let query = form_action(code_page.text()).split_once('?').unwrap().1.to_owned();
    let exported = records(&provider, b"").await;
    let kept = browser.cookies();
    for method in [Method::GET, Method::HEAD, Method::GET, Method::HEAD] {
        for path in PAGES {
            let address = format!("{path}?{query}&email={NEW}&code=12345678");
            browser.send(Request::builder().method(method.clone()).uri(address), String::new()).await;
        }
    }
    assert_eq!(records(&provider, b"").await, exported);
    assert_eq!(browser.cookies(), kept);
    let (code, _) = mailbox::code(&provider.sealgate).await;
    let page = browser.submit(&code_page, &[("code", &code)]).await;
    assert_form(&page);
    // Requests without the form token are rejected too.
    for (path, fields) in [
        (PAGES[0], vec![("email", "eve@example.test")]),
        (PAGES[1], vec![("code", code.as_str())]),
        (PAGES[2], vec![("person-name", "Eve"), ("new-password", THIEFS)]),
    ] {
        let reply = browser.post(&format!("{path}?{query}"), &fields).await;
        assert_eq!(reply.status, 400, "{path}: {reply:?}");
    }
    assert!(user(&provider, NEW).await.is_none() && mailbox::take(&provider.sealgate).await.is_empty());
}

#[tokio::test]
async fn a_registration_code_is_valid_once_for_five_tries_and_fifteen_minutes() {
    let provider = open().await;
    let browser = provider.browser();
    let page = ask(&provider, &browser, NEW).await;
    let (code, _) = mailbox::code(&provider.sealgate).await;
    // Malformed input does not count as an attempt.
    for nothing in ["", "1234567", "123456789", "abcdefgh"] {
        assert!(browser.submit(&page, &[("code", nothing)]).await.text().contains("The code is incorrect"));
    }
    for _ in 0..4 {
        let wrong = browser.submit(&page, &[("code", other_than(&code))]).await;
        assert!(wrong.status == 200 && wrong.text().contains("The code is incorrect"), "{wrong:?}");
    }
    assert_over(&browser.submit(&page, &[("code", other_than(&code))]).await);
    assert_eq!(count(&provider, PENDING).await, 0);
    // The sixth attempt, in a browser that has kept its cookie.
    assert!(browser.submit(&page, &[("code", &code)]).await.text().contains("id=\"register-submit\""));

    let page = ask(&provider, &browser, NEW).await;
    let (code, _) = mailbox::code(&provider.sealgate).await;
    provider.wait(15 * 60);
    assert_over(&browser.submit(&page, &[("code", &code)]).await);

    let page = ask(&provider, &browser, NEW).await;
    let (code, _) = mailbox::code(&provider.sealgate).await;
    let kept = browser.cookie(REGISTRATION).unwrap();
    assert_form(&browser.submit(&page, &[("code", &code)]).await);
    // No record is left for the cookie from before the code was entered.
    browser.set_cookie(REGISTRATION, &kept);
    assert_over(&browser.submit(&page, &[("code", &code)]).await);
}

#[tokio::test]
async fn concurrent_wrong_codes_are_both_counted() {
    let (provider, meddler) = Provider::meddled_with(&opened("")).await;
    let browser = provider.browser();
    let page = ask(&provider, &browser, NEW).await;
    let (code, _) = mailbox::code(&provider.sealgate).await;
    for _ in 0..2 {
        let stop = meddler.stop(At::BeforeCommit, PENDING[0]);
        let wrong = [("code", other_than(&code))];
        let (first, second) =
            tokio::join!(browser.submit(&page, &wrong), stop.meanwhile(browser.submit(&page, &wrong)));
        assert!([first, second].iter().all(|reply| reply.text().contains("The code is incorrect")));
    }
    assert_over(&browser.submit(&page, &[("code", other_than(&code))]).await);
}

#[tokio::test]
async fn a_code_typed_in_another_browser_has_no_effect() {
    let provider = open().await;
    let (thief, victim) = (provider.browser(), provider.browser());
    ask(&provider, &thief, NEW).await;
    let (code, _) = mailbox::code(&provider.sealgate).await;
    // The victim reads the message and enters its code in their own browser.
    let page = begin(&provider, &victim).await;
    let query = form_action(page.text()).split_once('?').unwrap().1.to_owned();
    let elsewhere = victim.open(&format!("{}?{query}", PAGES[1])).await;
    assert!(elsewhere.text().contains("id=\"register-submit\""), "nothing was begun there: {elsewhere:?}");
    let page = ask(&provider, &victim, NEW).await;
    let (own, _) = mailbox::code(&provider.sealgate).await;
    assert!(victim.submit(&page, &[("code", &code)]).await.text().contains("The code is incorrect"));
    let page = victim.submit(&page, &[("code", &own)]).await;
    finish(&victim, &page, "Ceren Kaya", CHOSEN).await;
    // The attacker's browser gets no session.
    assert!(thief.cookie(SESSION).is_none() && victim.cookie(SESSION).is_some());
    assert!(thief.get("/account").await.location().starts_with("/oauth/authorize?"));
}

#[tokio::test]
async fn a_planted_registration_cookie_is_replaced_after_verification() {
    let provider = open().await;
    let (thief, victim) = (provider.browser(), provider.browser());
    let thiefs = ask(&provider, &thief, NEW).await;
    let (code, _) = mailbox::code(&provider.sealgate).await;
    // The victim's browser has all cookies of the attacker.
    give(&victim, &thief.cookies());
    let page = victim.submit(&thiefs, &[("code", &code)]).await;
    assert_form(&page);
    assert_ne!(thief.cookie(REGISTRATION), victim.cookie(REGISTRATION));
    assert!(finish(&thief, &page, "Eve", THIEFS).await.status == 400);
    let query = form_action(page.text()).split_once('?').unwrap().1.to_owned();
    assert!(thief.open(&format!("{}?{query}", PAGES[2])).await.text().contains("id=\"code-submit\""));
    assert_eq!(finish(&victim, &page, "Ceren", CHOSEN).await.status, 303);
    assert!(signs_in(&provider, NEW, CHOSEN).await && !signs_in(&provider, NEW, THIEFS).await);
}

#[tokio::test]
async fn a_registration_form_applies_only_to_its_address() {
    let provider = open().await;
    let browser = provider.browser();
    let first = prove(&provider, &browser, NEW).await;
    let second = prove(&provider, &browser, "deniz@example.test").await;
    assert_eq!(finish(&browser, &first, "Ceren", CHOSEN).await.status, 400);
    assert_eq!(finish(&browser, &second, "Deniz", CHOSEN).await.status, 303);
    assert!(user(&provider, NEW).await.is_none() && user(&provider, "deniz@example.test").await.is_some());
}

#[tokio::test]
async fn concurrent_proofs_of_an_address_create_one_account() {
    for _ in 0..5 {
        let provider = open().await;
        let (one, other) = (provider.browser(), provider.browser());
        let (page, same) = (prove(&provider, &one, NEW).await, prove(&provider, &other, NEW).await);
        let (first, second) = tokio::join!(finish(&one, &page, "One", CHOSEN), finish(&other, &same, "Other", THIEFS));
        let made = [&first, &second].iter().filter(|reply| reply.status == 303).count();
        assert_eq!(made, 1, "{first:?} {second:?}");
        let (name, refused) = if first.status == 303 { ("One", &second) } else { ("Other", &first) };
        assert_taken(refused);
        assert_eq!(user(&provider, NEW).await.unwrap().name, name);
        assert_eq!(provider.sealgate.store.users(None, 10).await.unwrap().len(), 3);
        assert_eq!(count(&provider, PENDING).await, 0);
    }
    // The same form is sent twice. The passkey belongs to another user.
    let provider = open().await;
    let browser = provider.browser();
    let page = prove(&provider, &browser, NEW).await;
    let same = provider.browser();
    give(&same, &browser.cookies());
    let (first, second) = tokio::join!(finish(&browser, &page, "One", CHOSEN), finish(&same, &page, "One", CHOSEN));
    assert_eq!([&first, &second].iter().filter(|reply| reply.status == 303).count(), 1, "{first:?} {second:?}");
}

#[tokio::test]
async fn pending_registrations_are_limited_and_expire_after_an_hour() {
    let provider = open().await;
    let mut browser = provider.browser();
    let store = &provider.sealgate.store;
    let page = begin(&provider, &browser).await;
    let address = Email::parse(NEW).unwrap();
    let (now, code) = (provider.clock.now(), SecretHash::for_secret(b"code"));
    ask(&provider, &browser, "deniz@example.test").await;
    let mail = store.due_mail(now, 1).await.unwrap().pop().unwrap().value;
    for number in 0_u32.. {
        let (id, pending) =
            (SecretHash::for_secret(&number.to_be_bytes()), PendingRegistration::new(address.clone(), code, now));
        let mail = WaitingMail { id: MailId::from_bytes(u128::from(number).to_be_bytes()), ..mail.clone() };
        if !store.begin_registration(&id, &pending, &mail).await.unwrap() {
            break;
        }
        assert!(store.drop_mail(mail.id).await.unwrap());
    }
    assert_eq!(count(&provider, PENDING).await, 10_000);
    assert!(!store.has_room_for_registration());
    for typed in [NEW, ANNA] {
        browser.address = "198.51.100.9".into();
        let full = browser.submit(&page, &[("email", typed)]).await;
        assert!(full.status == 503 && full.text().contains("Too many people are creating accounts"), "{full:?}");
        assert_eq!(full.header("retry-after"), Some("60"));
    }
    assert_eq!(mailbox::take(&provider.sealgate).await.len(), 1, "that of the one from before");
    provider.clock.set(now.plus(REGISTRATION_LIFE));
    provider.wait(60);
    while store.sweep(provider.clock.now(), 1000).await.unwrap().more {}
    assert_eq!(count(&provider, PENDING).await, 0);
    ask(&provider, &browser, NEW).await;
}

#[tokio::test]
async fn a_code_that_finds_no_room_in_the_outbox_is_counted_as_dropped() {
    let provider = open().await;
    let browser = provider.browser();
    let page = begin(&provider, &browser).await;
    mailbox::fill(&provider.sealgate).await;
    assert_eq!(mailbox::dropped(&provider.sealgate, "address_wanted"), 0);
    let full = browser.submit(&page, &[("email", NEW)]).await;
    assert_eq!((full.status, count(&provider, PENDING).await), (503, 0), "{full:?}");
    assert_eq!(mailbox::dropped(&provider.sealgate, "address_wanted"), 1);
}

#[tokio::test]
async fn a_verified_address_is_valid_for_an_hour() {
    let provider = open().await;
    let browser = provider.browser();
    let page = prove(&provider, &browser, NEW).await;
    provider.clock.set(provider.clock.now().plus(REGISTRATION_LIFE));
    assert_over(&finish(&browser, &page, "Ceren", CHOSEN).await);
    assert!(user(&provider, NEW).await.is_none());
}

/// Class 1, classic-federated merge: the attacker creates an account with the victim's address and
/// a password. The victim later gets an account in another way, and the two are merged.
///
/// There is no federation here. The other ways are an administrator and an invitation. A
/// registration that the attacker began, or even verified, is not merged into such an account.
#[tokio::test]
async fn hijack_1_a_pending_registration_is_not_merged_into_another_account() {
    for proven in [false, true] {
        let provider = open().await;
        let thief = provider.browser();
        let page = ask(&provider, &thief, NEW).await;
        let (code, _) = mailbox::code(&provider.sealgate).await;
        let page = if proven { thief.submit(&page, &[("code", &code)]).await } else { page };
        invite(&provider, NEW).await.unwrap();
        let token = token_for(&provider, NEW).await;
        let (before, trail) = (user(&provider, NEW).await.unwrap(), records(&provider, b"A").await);
        assert_eq!(before.groups, ["staff".to_owned()].into());
        let refused = if proven {
            finish(&thief, &page, "Eve", THIEFS).await
        } else {
            thief.submit(&page, &[("code", &code)]).await
        };
        assert_taken(&refused);
        assert_eq!((user(&provider, NEW).await.unwrap(), records(&provider, b"A").await), (before, trail));
        assert_eq!(count(&provider, PENDING).await, 0);
        // The invitation works as if there had been no registration.
        let victim = provider.browser();
        let page = victim.open(&format!("/oauth/invitation?token={token}")).await;
        victim.submit_only(&page, &[("new-password", CHOSEN)]).await;
        assert!(signs_in(&provider, NEW, CHOSEN).await && !signs_in(&provider, NEW, THIEFS).await);
    }
}

/// Class 2, unexpired session: the attacker keeps a session from before the victim took the account
/// over.
///
/// Before the address is verified there is no account, hence no session. The attacker's browser has
/// a pending sign-in and a pending registration; the victim's actions do not sign it in.
#[tokio::test]
async fn hijack_2_no_session_from_before_the_verification_remains_valid() {
    let provider = open().await;
    let (thief, victim) = (provider.browser(), provider.browser());
    let waiting = ask(&provider, &thief, NEW).await;
    let (code, _) = mailbox::code(&provider.sealgate).await;
    let page = prove(&provider, &victim, NEW).await;
    assert_consent(&victim.follow(finish(&victim, &page, "Ceren", CHOSEN).await).await);
    assert!(victim.cookie(SESSION).is_some());
    let query = form_action(waiting.text()).split_once('?').unwrap().1.to_owned();
    for path in ["/oauth/resume", "/oauth/consent", "/oauth/login", PAGES[0], PAGES[1], PAGES[2], "/account"] {
        let page = thief.open(&format!("{path}?{query}")).await;
        assert!(
            !page.text().contains("Ceren") && !page.text().contains(NEW) && thief.cookie(SESSION).is_none(),
            "{path}: {page:?}"
        );
    }
    // The attacker's browser gets no account even with the code that was sent to the victim.
    assert_taken(&thief.submit(&waiting, &[("code", &code)]).await);
    assert!(thief.cookie(SESSION).is_none());
}

/// Class 3, trojan identifier: the attacker adds another address, a username, a number, a passkey
/// or a password to the victim's address, and signs in with it later. Nothing can be added to an
/// unverified address.
#[tokio::test]
async fn hijack_3_nothing_is_added_before_the_address_is_verified() {
    let provider = open().await;
    let thief = provider.browser();
    let more = [
        ("person-name", "Eve"),
        ("name", "Eve"),
        ("username", "eve"),
        ("new-password", THIEFS),
        ("password", THIEFS),
        ("phone", "+905551112233"),
        ("email_verified", "true"),
    ];
    let page = begin(&provider, &thief).await;
    let page = thief.submit(&page, &[&[("email", NEW)], &more[..]].concat()).await;
    mailbox::code(&provider.sealgate).await;
    let query = form_action(page.text()).split_once('?').unwrap().1.to_owned();
    let finishing = format!("{}?{query}", PAGES[2]);
    assert!(thief.open(&finishing).await.text().contains("id=\"code-submit\""), "the code first");
    let page = ask(&provider, &thief, NEW).await;
    mailbox::code(&provider.sealgate).await;
    for with in [vec![("choose", "passkey")], vec![("with", "key"), ("credential", "{}")], vec![]] {
        let refused = send(&thief, &finishing, &page, &[&more[..], &with].concat()).await;
        assert!(
            refused.status == 400 || refused.text().contains("This browser is not waiting for a code"),
            "{refused:?}"
        );
    }
    for (_, record) in records(&provider, PENDING).await {
        let text = String::from_utf8(record[1..].to_vec()).unwrap();
        assert!(!text.contains("Eve") && !text.contains("seven") && !text.contains("555"), "{text}");
    }
    assert_eq!((count(&provider, FACTORS).await, user(&provider, NEW).await), (0, None));

    let mut victim = provider.browser();
    victim.address = "198.51.100.77".into();
    let page = prove(&provider, &victim, NEW).await;
    finish(&victim, &page, "Ceren", CHOSEN).await;
    let ceren = user(&provider, NEW).await.unwrap();
    assert_eq!((ceren.name.as_str(), ceren.username, ceren.phone_number), ("Ceren", None, None));
    assert_eq!(count(&provider, FACTORS).await, 0);
    assert!(!signs_in(&provider, NEW, THIEFS).await && !signs_in(&provider, "eve", THIEFS).await);
}

/// Class 4, unexpired email change: the attacker begins to change their own address to the
/// victim's, or the reverse, and finishes once the victim has the account.
#[tokio::test]
async fn hijack_4_an_earlier_change_of_address_has_no_effect() {
    let provider = open().await;
    let thief = with_anna(&provider).await;
    let page = thief.get("/account/address/new").await;
    let page = thief.submit(&page, &[("address", NEW)]).await;
    let (code, to) = mailbox::code(&provider.sealgate).await;
    assert_eq!(to, NEW);
    let mut victim = provider.browser();
    victim.address = "198.51.100.77".into();
    let form = prove(&provider, &victim, NEW).await;
    finish(&victim, &form, "Ceren", CHOSEN).await;
    let ceren = user(&provider, NEW).await.unwrap();
    let refused = send(&thief, "/account/address", &page, &[("code", &code)]).await;
    assert!(refused.text().contains("This address now belongs to another account"), "{refused:?}");
    assert_eq!(user(&provider, NEW).await.unwrap(), ceren);
    assert_eq!(user(&provider, ANNA).await.unwrap().sub, provider.anna.sub);

    // The address is verified for a new account, while another user, who has verified it too,
    // changes to it.
    let mut other = provider.browser();
    other.address = "198.51.100.78".into();
    let form = prove(&provider, &other, "deniz@example.test").await;
    let moved = Email::parse("deniz@example.test").unwrap();
    let _ = provider.sealgate.store.rename_user(provider.ben.sub, |ben| ben.email = Some(moved.clone())).await.unwrap();
    assert_taken(&finish(&other, &form, "Eve", THIEFS).await);
    assert_eq!(user(&provider, "deniz@example.test").await.unwrap().sub, provider.ben.sub);
    assert!(!signs_in(&provider, "deniz@example.test", THIEFS).await);
}

/// Class 5, non-verifying identity provider: an unverified address is treated as verified.
///
/// No identity provider supplies addresses here; administrators and imports can set them without
/// verification. A registration neither takes over nor verifies such an account, and a disabled one
/// stays disabled.
#[tokio::test]
async fn hijack_5_an_address_of_another_issuer_is_not_verified() {
    let provider = open().await;
    let browser = provider.browser();
    let page = ask(&provider, &browser, "ben@example.test").await;
    let mails = mailbox::take(&provider.sealgate).await;
    assert_eq!((mails.len(), &mails[0].mail), (1, &EXISTS), "no code goes to it");
    assert!(browser.submit(&page, &[("code", "12345678")]).await.text().contains("The code is incorrect"));
    assert!(!user(&provider, "ben@example.test").await.unwrap().email_verified);
    for state in [UserState::Enabled, UserState::Disabled] {
        provider.wait(3600);
        let page = prove(&provider, &browser, NEW).await;
        // An administrator creates an account with the address before the user finishes.
        let (sub, email) = (Subject::from_random([77; 16]), Email::parse(NEW));
        let added = User { sub, email, password: None, state, ..provider.ben.clone() };
        assert_eq!(provider.sealgate.store.add_user(&added).await.unwrap(), AddOutcome::Added);
        assert_taken(&finish(&browser, &page, "Eve", THIEFS).await);
        assert_eq!(user(&provider, NEW).await.unwrap(), added);
        assert!(!signs_in(&provider, NEW, THIEFS).await);
        if state == UserState::Disabled {
            provider.wait(3600);
            ask(&provider, &browser, NEW).await;
            assert!(mailbox::take(&provider.sealgate).await.is_empty(), "nothing goes to a disabled account");
        }
        command(&provider, json!({ "delete": { "email": NEW } })).await.unwrap();
    }
}
