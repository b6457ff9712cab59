//! Tests the account page "Security": adding, naming and removing factors, and recovery codes.

use sealgate_domain::audit::{AuditFilter, AuditKind};
use sealgate_domain::user::{Subject, User};
use sealgate_domain::webauthn::{CeremonyChallenge, KeyAlgorithm};
use sealgate_system::clock::Clock as _;

use crate::authenticator::{Authenticator, Ceremony, UV, attested};
use crate::second_factor::method_link;
use crate::steps::with_anna;
use crate::support::{Browser, Provider, Reply, hidden_fields};
use crate::totp::{self, code};

const PAGE: &str = "/account/security";
const APP: &str = "/account/security/app";

/// Submits a form of a page.
pub(crate) async fn send(browser: &Browser<'_>, to: &str, page: &Reply, fields: &[(&str, &str)]) -> Reply {
    let csrf = hidden_fields(page.text()).into_iter().find(|(name, _)| name == "csrf").unwrap().1;
    let reply = browser.post(to, &[&[("csrf", csrf.as_str())], fields].concat()).await;
    browser.follow(reply).await
}

/// Returns the text between two parts of a page.
pub(crate) fn between<'t>(text: &'t str, start: &str, end: &str) -> Option<&'t str> {
    text.split_once(start)?.1.split_once(end).map(|(found, _)| found)
}

/// Returns the secret that a page shows.
pub(crate) fn secret(page: &Reply) -> String {
    totp::secret(page.text())
}

/// Returns a browser in which Anna has just signed in and added an app, with the app's secret.
pub(crate) async fn with_app(provider: &Provider) -> (Browser<'_>, String) {
    let browser = with_anna(provider).await;
    let page = browser.open(APP).await;
    let secret = secret(&page);
    let now = provider.clock.now().seconds();
    let reply = send(&browser, APP, &page, &[("code", &code(&secret, now)), ("name", "telefon")]).await;
    assert!(reply.text().contains("class=\"done\""), "{reply:?}");
    (browser, secret)
}

async fn kinds_of(provider: &Provider, subject: Subject) -> Vec<(AuditKind, Option<String>)> {
    let store = &provider.sealgate.store;
    provider.sealgate.audit.write(store).await.unwrap();
    let filter = AuditFilter { subject: Some(subject), ..AuditFilter::default() };
    let found = store.audit_page(&filter, None, 50).await.unwrap().records;
    let mut found: Vec<_> = found.into_iter().map(|record| (record.event.kind, record.event.detail)).collect();
    found.retain(|(kind, _)| {
        [AuditKind::FactorAdded, AuditKind::FactorRemoved, AuditKind::FactorRenamed, AuditKind::RecoveryCodesMade]
            .contains(kind)
    });
    found.sort_by_key(|(kind, _)| kind.as_str());
    found
}

async fn apps(provider: &Provider) -> usize {
    let found = provider.sealgate.store.factors(provider.anna.sub).await.unwrap();
    found.map_or(0, |found| found.value.totp.len())
}

/// Returns the id of the first factor on the page.
fn id(page: &Reply) -> String {
    between(page.text(), "/account/security/factor?id=", "\"").unwrap().to_owned()
}

#[tokio::test]
async fn an_app_becomes_a_factor_with_its_first_code() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    assert!(browser.get("/account").await.text().contains("href=\"/account/security\""));
    let empty = browser.get(PAGE).await;
    assert!(empty.text().contains("with only your password") && empty.text().contains("id=\"add-totp\""), "{empty:?}");
    let page = browser.open(APP).await;
    let first = secret(&page);
    assert_eq!(first.len(), 39);
    // Opening the page adds nothing, and opening it again shows the same secret.
    assert_eq!(apps(&provider).await, 0);
    assert_eq!(secret(&browser.open(APP).await), first);
    let now = provider.clock.now().seconds();
    let wrong = send(&browser, APP, &page, &[("code", "12345"), ("name", "iş")]).await;
    assert!(wrong.text().contains("role=\"alert\"") && secret(&wrong) == first, "{wrong:?}");
    assert!(wrong.text().contains("value=\"iş\""), "the typed value is kept");
    let late = send(&browser, APP, &page, &[("code", &code(&first, now - 120))]).await;
    assert!(late.text().contains("the clock of your device is wrong"), "{late:?}");
    // A code that is not valid yet gets the same answer as any wrong code.
    let early = send(&browser, APP, &page, &[("code", &code(&first, now + 120))]).await;
    assert!(early.text().contains("role=\"alert\"") && !early.text().contains("clock of your device"), "{early:?}");
    assert_eq!(apps(&provider).await, 0);
    let done = send(
        &browser,
        APP,
        &page,
        &[("code", &code(&first, now)), ("name", " iş \u{7}tele\u{202e}fo\u{200b}nu\u{2028} ")],
    )
    .await;
    // The next page makes recovery codes, because there are none.
    assert!(done.text().contains("id=\"codes-make\"") && done.text().contains("class=\"done\""), "{done:?}");
    let page_of_factors = browser.open("/account/security").await;
    assert!(page_of_factors.text().contains("<bdi>iş telefonu</bdi>"), "{page_of_factors:?}");
    // The secret is no longer shown, and a second app gets a new secret.
    assert!(!done.text().contains(&first) && secret(&browser.open(APP).await) != first);
    assert_eq!(apps(&provider).await, 1);
    // Submitting the form again adds nothing.
    let again = send(&browser, APP, &page, &[("code", &code(&first, now))]).await;
    assert_eq!(again.status, 400, "the session has another cookie now: {again:?}");
    assert_eq!(apps(&provider).await, 1);
    let added = (AuditKind::FactorAdded, Some("totp iş telefonu".to_owned()));
    assert_eq!(kinds_of(&provider, provider.anna.sub).await, [added]);
    assert!(browser.get("/account/activity").await.text().contains("<bdi>iş telefonu</bdi>"));
}

#[tokio::test]
async fn a_secret_shown_under_an_earlier_cookie_is_not_enrolled() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    // An attacker with a copy of the cookie sees this secret too.
    let copied = secret(&browser.open(APP).await);
    assert_eq!(secret(&browser.open(APP).await), copied);
    // The next sign-in in the same session replaces the cookie.
    provider.wait(6 * 60);
    let page = browser.open(APP).await;
    assert!(crate::support::is_login(&page), "{page:?}");
    let page = browser.sign_in(&page, "anna@example.test").await;
    let fresh = secret(&page);
    assert_ne!(fresh, copied);
    let now = provider.clock.now().seconds();
    send(&browser, APP, &page, &[("code", &code(&copied, now))]).await;
    assert_eq!(apps(&provider).await, 0);
    let done = send(&browser, APP, &page, &[("code", &code(&fresh, now))]).await;
    assert!(done.text().contains("class=\"done\""), "{done:?}");
    assert_eq!(apps(&provider).await, 1);
}

#[tokio::test]
async fn an_enrolment_expires_after_fifteen_minutes_and_belongs_to_its_session() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    let page = browser.open(APP).await;
    let first = secret(&page);
    // A second browser of the same user shows a different secret, and its form does not confirm
    // this one.
    let other = with_anna(&provider).await;
    let theirs = other.open(APP).await;
    assert_ne!(secret(&theirs), first);
    let now = provider.clock.now().seconds();
    send(&other, APP, &theirs, &[("code", &code(&first, now))]).await;
    assert_eq!(apps(&provider).await, 0);
    // More time has passed than a change allows. It is still confirmed, because it was begun in
    // time.
    provider.wait(14 * 60);
    let now = provider.clock.now().seconds();
    let done = send(&browser, APP, &page, &[("code", &code(&first, now))]).await;
    assert!(done.text().contains("class=\"done\""), "{done:?}");
    provider.wait(60);
    let now = provider.clock.now().seconds();
    let late = send(&other, APP, &theirs, &[("code", &code(&secret(&theirs), now))]).await;
    assert!(late.text().contains("id=\"code\""), "adding another one requires the existing one: {late:?}");
    assert_eq!(apps(&provider).await, 1);
}

#[tokio::test]
async fn every_change_of_factors_requires_a_recent_sign_in() {
    let provider = Provider::new().await;
    let (browser, _) = with_app(&provider).await;
    let page = browser.get(PAGE).await;
    let settings = browser.open(&format!("/account/security/factor?id={}", id(&page))).await;
    let codes = browser.open("/account/security/codes").await;
    provider.wait(5 * 60 + 1);
    assert!(browser.get(PAGE).await.text().contains("telefon"), "to look is free");
    for address in [APP, "/account/security/key", "/account/security/codes", "/account/security/factor?id=x"] {
        let reply = browser.get(address).await;
        assert!(reply.location().contains("max_age="), "{address}: {reply:?}");
    }
    let factor = id(&page);
    for (to, page, fields) in [
        ("/account/security/factor", &settings, &[("factor", factor.as_str()), ("remove", "yes")][..]),
        ("/account/security/factor", &settings, &[("factor", factor.as_str()), ("name", "x")]),
        ("/account/security/codes", &codes, &[]),
    ] {
        let csrf = hidden_fields(page.text()).swap_remove(0).1;
        let reply = browser.post(to, &[&[("csrf", csrf.as_str())], fields].concat()).await;
        assert!(reply.location().contains("max_age="), "{to}: {reply:?}");
    }
    let factors = provider.sealgate.store.factors(provider.anna.sub).await.unwrap().unwrap().value;
    assert!(factors.totp[0].name == "telefon" && factors.recovery.is_none());
}

#[tokio::test]
async fn a_factor_is_renamed_and_removed_by_its_owner_only() {
    let provider = Provider::new().await;
    let (browser, _) = with_app(&provider).await;
    let page = browser.get(PAGE).await;
    let factor = id(&page);
    let settings = browser.open(&format!("/account/security/factor?id={factor}")).await;
    assert!(settings.text().contains("This is your only two-factor method"), "{settings:?}");
    // Requests without the form token change nothing.
    let to = "/account/security/factor";
    browser.post(to, &[("factor", factor.as_str()), ("remove", "yes")]).await;
    assert_eq!(apps(&provider).await, 1);
    // Ben cannot remove it either, although he knows the id.
    let ben = provider.browser();
    let login = ben.open(PAGE).await;
    ben.sign_in(&login, "ben@example.test").await;
    let of_ben = ben.open(APP).await;
    send(&ben, to, &of_ben, &[("factor", &factor), ("remove", "yes")]).await;
    assert_eq!(apps(&provider).await, 1);
    let renamed = send(&browser, to, &settings, &[("factor", &factor), ("name", "<b>yeni</b>")]).await;
    assert!(renamed.text().contains("<bdi>&#60;b&#62;yeni&#60;/b&#62;</bdi>"), "{renamed:?}");
    // An empty name keeps the old one.
    send(&browser, to, &settings, &[("factor", &factor), ("name", "  ")]).await;
    let codes = browser.open("/account/security/codes").await;
    send(&browser, "/account/security/codes", &codes, &[]).await;
    let gone = send(&browser, to, &settings, &[("factor", &factor), ("name", "x"), ("remove", "yes")]).await;
    assert!(gone.text().contains("class=\"done\"") && gone.text().contains("with only your password"), "{gone:?}");
    let left = provider.sealgate.store.factors(provider.anna.sub).await.unwrap().unwrap().value;
    assert!(left.totp.is_empty() && left.recovery.is_none(), "codes replace no factor any more");
    let name = Some("totp <b>yeni</b>".to_owned());
    assert_eq!(
        kinds_of(&provider, provider.anna.sub).await,
        [
            (AuditKind::FactorAdded, Some("totp telefon".to_owned())),
            (AuditKind::FactorRemoved, name.clone()),
            (AuditKind::FactorRenamed, name.clone()),
            (AuditKind::FactorRenamed, name),
            (AuditKind::RecoveryCodesMade, None),
        ]
    );
}

#[tokio::test]
async fn the_last_factor_cannot_be_removed_while_the_policy_requires_it() {
    Box::pin(the_last_factor_stays("[factors]\ngroups = { staff = \"2\" }\n")).await;
}

/// Configuration with a rule for other users, which does not count.
const RULES: &str = r#"
    [[app]]
    name = "payroll"
    host = "payroll.test"
    upstreams = ["http://127.0.0.1:8081"]
    [[app.route]]
    path = "/"
    access = "signed_in"
    groups = ["staff"]
    acr = ["3", "2"]
    [[app.route]]
    path = "/all/"
    access = "signed_in"
    groups = ["others"]
    acr = ["3"]
"#;

#[tokio::test]
async fn the_last_factor_cannot_be_removed_while_a_rule_requires_it() {
    Box::pin(the_last_factor_stays(RULES)).await;
}

async fn the_last_factor_stays(settings: &str) {
    let provider = Provider::with(settings).await;
    let demand = |user: &mut User| user.groups = ["staff".to_owned()].into();
    let (browser, _) = with_app(&provider).await;
    provider.sealgate.store.change_user(provider.anna.sub, demand).await.unwrap();
    let page = browser.get(PAGE).await;
    let settings = browser.open(&format!("/account/security/factor?id={}", id(&page))).await;
    let fields = [("factor", id(&page)), ("remove", "yes".to_owned())];
    let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let refused = send(&browser, "/account/security/factor", &settings, &fields).await;
    assert!(refused.text().contains("Nothing was removed"), "{refused:?}");
    assert_eq!(apps(&provider).await, 1);
    // One of two factors may be removed.
    let second = browser.open(APP).await;
    let now = provider.clock.now().seconds();
    send(&browser, APP, &second, &[("code", &code(&secret(&second), now))]).await;
    assert_eq!(apps(&provider).await, 2);
    let settings = browser.open(&format!("/account/security/factor?id={}", id(&page))).await;
    send(&browser, "/account/security/factor", &settings, &fields).await;
    assert_eq!(apps(&provider).await, 1);
}

/// Returns the recovery codes that a page shows.
fn shown(page: &Reply) -> Vec<String> {
    let parts = page.text().split("class=\"recovery-code\">").skip(1);
    parts.map(|part| part.split('<').next().unwrap().to_owned()).collect()
}

/// A browser left open from before there was a second step, and one recovery code: the password was
/// typed hours ago.
#[tokio::test]
async fn a_recovery_code_does_not_renew_an_old_password() {
    let provider =
        Provider::with("[mail]\ntls = \"none\"\nhost = \"127.0.0.1\"\nport = 25\nfrom = \"Gate <gate@example.test>\"")
            .await;
    let left_open = with_anna(&provider).await;
    let (browser, _) = with_app(&provider).await;
    let ask = browser.open("/account/security/codes").await;
    let codes = shown(&send(&browser, "/account/security/codes", &ask, &[]).await);
    provider.wait(3600);
    // The attacker removes `max_age`, which requires the password again, from the URL of the
    // sign-in.
    let asked = left_open.get(APP).await.location().to_owned();
    let edited = asked.split('&').filter(|part| !part.starts_with("max_age=")).collect::<Vec<_>>().join("&");
    assert_ne!(edited, asked);
    let page = left_open.open(&edited).await;
    let page = left_open.open(&method_link(&page, "recovery")).await;
    let told = left_open.submit(&page, &[("code", &codes[0])]).await;
    assert!(told.text().contains("9 recovery codes are left"), "{told:?}");
    for page in [APP, "/account/security/key", "/account/security/codes", "/account/address/new"] {
        let reply = left_open.get(page).await;
        assert!(reply.location().contains("max_age="), "{page}: {reply:?}");
    }
    // Together with the password, the code replaces the lost factor.
    let page = left_open.open(APP).await;
    let page = left_open.sign_in(&page, "anna@example.test").await;
    let page = left_open.open(&method_link(&page, "recovery")).await;
    left_open.submit(&page, &[("code", &codes[1])]).await;
    assert_eq!(secret(&left_open.open(APP).await).len(), 39);
}

#[tokio::test]
async fn recovery_codes_are_shown_once_and_need_a_factor_to_replace() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    // Without another factor, ten codes would only be ten more passwords.
    let none = browser.open("/account/security/codes").await;
    assert!(none.text().contains("Set up a two-factor method first"), "{none:?}");
    let (browser, _) = with_app(&provider).await;
    let offered = browser.get(PAGE).await;
    assert!(offered.text().contains("id=\"make-codes\"") && offered.text().contains("You have no recovery codes"));
    let ask = browser.open("/account/security/codes").await;
    assert!(shown(&ask).is_empty());
    let first = send(&browser, "/account/security/codes", &ask, &[]).await;
    assert_eq!(shown(&first).len(), 10);
    assert_eq!(first.header("cache-control"), Some("no-store"));
    assert!(!first.text().contains("no longer work"));
    assert!(browser.get(PAGE).await.text().contains("10 recovery codes are left"));
    let ask = browser.open("/account/security/codes").await;
    let second = send(&browser, "/account/security/codes", &ask, &[]).await;
    assert!(second.text().contains("no longer work"));
    assert!(shown(&first).iter().all(|code| !shown(&second).contains(code)));
    // The store contains no code in clear text.
    let kept = serde_json::to_string(&provider.sealgate.store.factors(provider.anna.sub).await.unwrap().unwrap().value);
    let kept = kept.unwrap();
    for code in shown(&second) {
        assert!(!kept.contains(&code) && !kept.contains(&code.replace('-', "")));
    }
}

/// Returns a browser's answer to a page that adds a key, modified before it is encoded.
pub(crate) fn key_of(page: &Reply, authenticator: &Authenticator, bend: impl FnOnce(Ceremony) -> Ceremony) -> String {
    let options = between(page.text(), "data-creates=\"", "\"").unwrap().replace("&#34;", "\"");
    let options: serde_json::Value = serde_json::from_str(&options).unwrap();
    let challenge = CeremonyChallenge::parse(options["challenge"].as_str().unwrap()).unwrap();
    let rp_id = options["rp"]["id"].as_str().unwrap();
    bend(authenticator.registration("https://id.test", rp_id, &challenge)).registered().to_string()
}

#[tokio::test]
async fn a_key_is_added_by_one_answer_to_its_own_challenge() {
    const KEY: &str = "/account/security/key";
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    let authenticator = Authenticator::new(KeyAlgorithm::Es256, &[9; 32]);
    let keys = async || {
        let found = provider.sealgate.store.factors(provider.anna.sub).await.unwrap();
        found.map_or(0, |found| found.value.keys.len())
    };
    // A rejected answer uses the challenge up.
    let page = browser.open(KEY).await;
    let elsewhere = key_of(&page, &authenticator, |ceremony| ceremony.saying("https://id.test", "https://evil.test"));
    let right = key_of(&page, &authenticator, |ceremony| ceremony);
    let refused = send(&browser, KEY, &page, &[("kind", "passkey"), ("credential", &elsewhere)]).await;
    assert!(refused.text().contains("could not be verified"), "{refused:?}");
    let replayed = send(&browser, KEY, &page, &[("kind", "passkey"), ("credential", &right)]).await;
    assert!(replayed.text().contains("role=\"alert\"") && keys().await == 0, "{replayed:?}");
    // A passkey must verify its user.
    let unverified = key_of(&replayed, &authenticator, |ceremony| Ceremony { flags: ceremony.flags & !UV, ..ceremony });
    let refused = send(&browser, KEY, &replayed, &[("kind", "passkey"), ("credential", &unverified)]).await;
    assert!(refused.text().contains("did not ask for your PIN") && keys().await == 0, "{refused:?}");
    let answer = key_of(&refused, &authenticator, |ceremony| ceremony);
    let done = send(&browser, KEY, &refused, &[("kind", "passkey"), ("credential", &answer)]).await;
    assert!(done.text().contains("class=\"done\""), "{done:?}");
    let listed = browser.open("/account/security").await;
    assert!(listed.text().contains("<bdi>Passkey</bdi>") && listed.text().contains("On one device only"), "{listed:?}");
    assert_eq!(keys().await, 1);
    // Another user cannot add the same key, and the owner cannot add it twice.
    let ben = provider.browser();
    let login = ben.open(KEY).await;
    ben.sign_in(&login, "ben@example.test").await;
    let page = ben.open(KEY).await;
    for (browser, page) in [(&ben, page), (&browser, browser.open(KEY).await)] {
        let answer = key_of(&page, &authenticator, |ceremony| ceremony);
        let known = send(browser, KEY, &page, &[("kind", "security_key"), ("credential", &answer)]).await;
        assert!(known.text().contains("already been added to an account"), "{known:?}");
    }
    assert_eq!(keys().await, 1);
    for nonsense in ["", "{}", "[]", &"x".repeat(40_000)] {
        let page = browser.open(KEY).await;
        let refused = send(&browser, KEY, &page, &[("kind", "security_key"), ("credential", nonsense)]).await;
        assert!(refused.text().contains("could not be verified"), "{refused:?}");
    }
    let page = browser.open(KEY).await;
    let odd = send(&browser, KEY, &page, &[("kind", "totp"), ("credential", "{}")]).await;
    assert_eq!(odd.status, 400);
}

#[tokio::test]
async fn a_factor_without_a_name_gets_its_authenticators_or_browsers_name() {
    const KEY: &str = "/account/security/key";
    const BITWARDEN: [u8; 16] = 0xd548826e_79b4_db40_a3d8_11116f7e8349_u128.to_be_bytes();
    let provider = Provider::new().await;
    let mut browser = with_anna(&provider).await;
    browser.user_agent = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/156.0.0.0 Safari/537.36";
    let add = async |browser: &Browser<'_>, id: u8, kind: &str, aaguid: [u8; 16]| {
        let authenticator = Authenticator::new(KeyAlgorithm::Es256, &[id; 32]);
        let page = browser.open(KEY).await;
        let attested = attested(&aaguid, &authenticator.id, &authenticator.cose_key());
        let answer = key_of(&page, &authenticator, |ceremony| Ceremony { attested, ..ceremony });
        send(browser, KEY, &page, &[("kind", kind), ("credential", &answer)]).await
    };
    add(&browser, 1, "passkey", BITWARDEN).await;
    add(&browser, 2, "passkey", BITWARDEN).await;
    add(&browser, 3, "security_key", [0; 16]).await;
    add(&browser, 4, "passkey", [0; 16]).await;
    let page = browser.open("/account/security").await;
    for shown in [
        "<bdi>Bitwarden</bdi> <span class=\"tag\">Passkey</span>",
        "<bdi>Bitwarden 2</bdi> <span class=\"tag\">Passkey</span>",
        // A name that begins with the kind needs no tag.
        "<bdi>Security key</bdi></p>",
        "<bdi>Passkey in Chrome on Linux</bdi></p>",
    ] {
        assert!(page.text().contains(shown), "{shown}: {page:?}");
    }
    provider.sealgate.audit.write(&provider.sealgate.store).await.unwrap();
    let activity = browser.get("/account/activity").await;
    assert!(activity.text().contains(">Passkey: <bdi>Bitwarden</bdi><"), "{activity:?}");
    assert!(activity.text().contains("><bdi>Passkey in Chrome on Linux</bdi><"), "{activity:?}");
    browser.get("/account?lang=tr").await;
    add(&browser, 5, "passkey", [0; 16]).await;
    let page = browser.open("/account/security").await;
    assert!(page.text().contains("<bdi>Geçiş anahtarı (Chrome, Linux)</bdi></p>"), "{page:?}");
}

#[tokio::test]
async fn a_form_that_is_sent_twice_creates_recovery_codes_once() {
    let provider = Provider::new().await;
    let (browser, _) = with_app(&provider).await;
    let page = browser.open("/account/security/codes").await;
    let first = browser.submit_only(&page, &[]).await;
    let made = async || provider.sealgate.store.factors(provider.anna.sub).await.unwrap().unwrap().value.recovery;
    let codes = made().await;
    let second = browser.submit_only(&page, &[]).await;
    assert!(first.status == 303 && first.header("location") == second.header("location"), "{first:?} {second:?}");
    assert_eq!(made().await, codes, "the codes that are about to be shown would be void");
    let address = first.header("location").unwrap();
    assert!(browser.get(address).await.text().contains("recovery-code"));
    // A reload does not show the codes again, and creates no others.
    let again = browser.get(address).await;
    assert!(again.text().contains("This was shown once") && again.text().contains("codes-make"), "{again:?}");
    assert_eq!(made().await, codes);
}
