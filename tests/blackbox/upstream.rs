//! Users of OpenID providers: the npm package `oidc-provider`, and a provider that a test controls.

mod linking;
mod node;
mod sessions;

use std::fmt::Write as _;
use std::time::Duration;

use sealgate_system::clock::{Clock as _, SystemClock};
use serde_json::{Value, json};

use crate::openid_provider::FakeProvider;
use crate::slapd::write_secret;
use crate::support::{Browser, Instance, PASSWORD, Page, Settings, Upstream, until};
use node::{CLIENT_SECRET, NodeProvider};

/// Server with an application: `/staff` is for the group `acme:staff`, and `/recent` requires a recent
/// sign-in.
struct World {
    instance: Instance,
    application: Upstream,
}

/// `[[upstream]]` of a test.
struct Provider<'a> {
    name: &'a str,
    issuer: &'a str,
    /// More lines of the section.
    lines: &'a str,
}

impl World {
    fn prepare() -> Self {
        let instance = Instance::bare(&Settings::default());
        for name in ["acme.secret", "other.secret"] {
            write_secret(&instance.directory.path().join(name), CLIENT_SECRET);
        }
        Self { instance, application: Upstream::start() }
    }

    /// Starts the server with these providers, and more sections.
    fn start(mut self, providers: &[Provider<'_>], sections: &str) -> Self {
        self.configure(providers, sections);
        self.instance.run(&["key", "generate"]);
        self.instance.start();
        self
    }

    fn configure(&self, providers: &[Provider<'_>], more: &str) {
        let mut sections = more.to_owned();
        for Provider { name, issuer, lines } in providers {
            write!(
                sections,
                "[[upstream]]\nname = \"{name}\"\nissuer = \"{issuer}\"\nclient_id = \"sealgate\"\n\
                 timeout_seconds = 20\n{lines}\n"
            )
            .unwrap();
            if !lines.contains("client_key") {
                writeln!(sections, "client_secret_file = \"{name}.secret\"").unwrap();
            }
        }
        write!(
            sections,
            "[[app]]\nname = \"wiki\"\nhost = \"app.localhost\"\nupstreams = [\"{}\"]\n\
             [[app.route]]\npath = \"/\"\naccess = \"signed_in\"\n\
             [[app.route]]\npath = \"/staff\"\naccess = \"signed_in\"\ngroups = [\"acme:staff\"]\n\
             [[app.route]]\npath = \"/recent\"\naccess = \"signed_in\"\nmax_age_seconds = 300\n\
             [[app.route]]\npath = \"/two\"\naccess = \"signed_in\"\nacr = [\"2\"]\n",
            self.application.url()
        )
        .unwrap();
        self.instance.configure(&Settings { sections, ..Settings::default() });
    }

    fn redirect_uri(&self, name: &str) -> String {
        self.instance.url(&format!("/oauth/upstream/{name}/callback"))
    }

    /// Opens a page of the application in a new browser. Returns the sign-in page.
    async fn begin(&self, path: &str) -> (Browser, Page) {
        let browser = Browser::new(&self.instance);
        let page = browser.open(&self.instance.app_url(path)).await;
        (browser, page)
    }

    /// Begins a sign-in at a provider in a new browser. Returns the URL at the provider.
    async fn leave(&self, name: &str) -> (Browser, String) {
        let (browser, page) = self.begin("/json").await;
        let url = press(&browser, &page, name, "").await;
        (browser, url)
    }

    /// Signs in at a fake provider, in a new browser. Returns the last page.
    async fn enter(&self, name: &str, provider: &FakeProvider) -> (Browser, Page) {
        let (browser, url) = self.leave(name).await;
        let page = browser.open(&provider.approve(&url).await).await;
        (browser, page)
    }

    fn users(&self) -> Vec<Value> {
        self.instance.json(&["user", "list"])["users"].as_array().unwrap().clone()
    }

    async fn status(&self, browser: &Browser, path: &str) -> u16 {
        browser.get(&self.instance.app_url(path)).await.status
    }
}

/// Presses the button of a provider on a sign-in page. Returns the URL at the provider.
async fn press(browser: &Browser, page: &Page, name: &str, typed: &str) -> String {
    assert!(page.body.contains(&format!("id=\"upstream-{name}\"")), "no button: {page:?}");
    left_for(&browser.submit(page, &[("email", typed), ("password", ""), ("upstream", name)]).await)
}

/// Returns the URL to which a page sends the browser.
fn left_for(page: &Page) -> String {
    assert_eq!(page.status, 200, "{page:?}");
    let start = page.body.find("content=\"0; url=").unwrap_or_else(|| panic!("the page sends nowhere: {page:?}")) + 16;
    page.body[start..].split('"').next().unwrap().replace("&#38;", "&").replace("&amp;", "&")
}

fn problem(page: &Page) -> &str {
    let start = page.body.find("id=\"login-problem\"").unwrap_or_else(|| panic!("no problem: {page:?}"));
    let text = &page.body[start..];
    &text[text.find('>').unwrap() + 1..text.find("</p>").unwrap()]
}

fn is_signed_in(page: &Page) -> bool {
    page.status == 200 && page.body.contains("\"headers\"")
}

fn header(page: &Page, name: &str) -> Option<String> {
    let seen: Value = serde_json::from_str(&page.body).unwrap();
    let headers = seen["headers"].as_array().unwrap();
    let header = headers.iter().find(|header| header[0].as_str().unwrap().eq_ignore_ascii_case(name))?;
    Some(header[1].as_str().unwrap().to_owned())
}

fn query(url: &str, name: &str) -> Option<String> {
    let url = url::Url::parse(url).unwrap();
    url.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
}

/// Returns the URL with another value of a parameter, or without it.
fn with(url: &str, name: &str, value: Option<&str>) -> String {
    let mut changed = url::Url::parse(url).unwrap();
    let pairs: Vec<(String, String)> = changed.query_pairs().into_owned().filter(|(known, _)| known != name).collect();
    changed.query_pairs_mut().clear().extend_pairs(pairs).extend_pairs(value.map(|value| (name, value)));
    changed.to_string()
}

fn anna() -> Value {
    json!({ "sub": "id-of-anna", "email": "anna@acme.test", "email_verified": true, "name": "Anna Çelik" })
}

/// Returns the value of a series.
async fn metric(instance: &Instance, series: &str) -> u64 {
    let text = reqwest::get(instance.admin_url("/metrics")).await.unwrap().text().await.unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series}")).parse().unwrap()
}

#[tokio::test]
async fn a_user_of_an_openid_provider_reaches_the_application_with_the_groups_of_the_provider() {
    let world = World::prepare();
    let provider = NodeProvider::start(&world.redirect_uri("acme"));
    let lines = "label = \"Acme\"\ndomains = [\"acme.test\"]\ngroups_claim = \"groups\"";
    let world = world.start(&[Provider { name: "acme", issuer: &provider.issuer(), lines }], "");
    let (anna, page) = world.begin("/json").await;
    assert!(page.body.contains("Continue with <bdi>Acme</bdi>"), "{page:?}");
    let url = press(&anna, &page, "acme", "").await;
    let returned = provider.sign_in(&anna, &url, "anna").await;
    let page = anna.open(&returned).await;
    assert!(is_signed_in(&page), "{page:?} {}", world.instance.log());
    assert_eq!(header(&page, "x-forwarded-email").as_deref(), Some("anna@acme.test"));
    assert_eq!(header(&page, "x-forwarded-groups").as_deref(), Some("acme:editors,acme:staff"));
    assert_eq!(world.status(&anna, "/staff").await, 200);

    let shown = world.instance.json(&["user", "show", "anna@acme.test"]);
    assert_eq!(shown["source"]["link"]["source"], "acme");
    assert_eq!(shown["source"]["groups"], json!(["acme:editors", "acme:staff"]));
    assert_eq!(shown["email_verified"], true);
    let (otto, page) = world.begin("/json").await;
    let returned = provider.sign_in(&otto, &press(&otto, &page, "acme", "").await, "otto").await;
    assert!(is_signed_in(&otto.open(&returned).await));
    assert_eq!(world.status(&otto, "/staff").await, 403);

    // The same account has the same sub at the next sign-in, in another browser.
    let (again, page) = world.begin("/json").await;
    let returned = provider.sign_in(&again, &press(&again, &page, "acme", "").await, "anna").await;
    assert!(is_signed_in(&again.open(&returned).await));
    assert_eq!(world.instance.json(&["user", "show", "anna@acme.test"])["sub"], shown["sub"]);
    assert_eq!(world.users().len(), 2);

    let explained = world.instance.json(&["explain", &world.instance.app_url("/staff"), "--user", "anna@acme.test"]);
    assert_eq!(explained["forwarded"], true, "{explained}");
    assert_eq!(
        metric(&world.instance, "sealgate_upstream_sign_ins_total{outcome=\"succeeded\",upstream=\"acme\"}").await,
        3
    );
    assert_eq!(metric(&world.instance, "sealgate_upstream_sign_in_seconds_count{upstream=\"acme\"}").await, 3);
    let events = world.instance.json(&["audit", "list", "--kind", "signed_in"]).to_string();
    assert_eq!(events.matches("upstream:acme").count(), 3, "{events}");
    let created = world.instance.json(&["audit", "list", "--kind", "user_created"]).to_string();
    assert_eq!(created.matches("upstream acme").count(), 2, "{created}");

    // The account pages name the provider, which keeps the name and the password.
    let page = anna.open(&world.instance.url("/account/password")).await;
    assert!(page.body.contains("sign in at <bdi>Acme</bdi>") && !page.body.contains("password-submit"), "{page:?}");
    let page = anna.open(&world.instance.url("/account")).await;
    assert!(page.body.contains("account at <bdi>Acme</bdi>"), "{page:?}");
    assert!(page.body.contains("Confirmed by the provider: "), "{page:?}");
    let output = world
        .instance
        .try_run(&["user", "set-password", "anna@acme.test", "--password-stdin"], "a new long password\n");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("the user's OpenID provider keeps the password"),
        "{output:?}"
    );
    let log = world.instance.log();
    assert!(!log.contains(CLIENT_SECRET), "{log}");
}

#[tokio::test]
async fn the_answer_of_a_provider_is_accepted_once_and_only_from_the_browser_that_left() {
    let provider = FakeProvider::start(anna());
    let world = World::prepare().start(&[Provider { name: "acme", issuer: &provider.issuer(), lines: "" }], "");
    let (attacker, url) = world.leave("acme").await;
    let returned = provider.approve(&url).await;

    // A browser without any cookie, and one with a sign-in of its own.
    let stranger = Browser::new(&world.instance);
    let page = stranger.open(&returned).await;
    assert_eq!(page.status, 400, "{page:?}");
    assert!(page.body.contains("Start the sign-in in this browser"), "{page:?}");
    let (victim, _) = world.leave("acme").await;
    let page = victim.open(&returned).await;
    assert_eq!(page.status, 400, "{page:?}");
    assert!(page.body.contains("This sign-in is over"), "{page:?}");
    for browser in [&stranger, &victim] {
        assert_eq!(world.status(browser, "/json").await, 302);
    }
    assert!(provider.state().redeemed.is_empty());

    // Neither attempt has used the answer up.
    let page = attacker.open(&returned).await;
    assert!(is_signed_in(&page), "{page:?}");
    assert_eq!(provider.state().redeemed.len(), 1);
    for browser in [&attacker, &victim, &stranger] {
        let page = browser.open(&returned).await;
        assert_eq!(page.status, 400, "{page:?}");
    }
    assert_eq!(provider.state().redeemed.len(), 1);
    assert_eq!(world.status(&attacker, "/json").await, 200);
}

#[tokio::test]
async fn a_second_trip_of_the_same_request_replaces_the_first() {
    let provider = FakeProvider::start(anna());
    let world = World::prepare().start(&[Provider { name: "acme", issuer: &provider.issuer(), lines: "" }], "");
    let (browser, page) = world.begin("/json").await;
    let first = provider.approve(&press(&browser, &page, "acme", "").await).await;
    let second = provider.approve(&press(&browser, &page, "acme", "").await).await;
    let refused = browser.open(&first).await;
    assert_eq!(refused.status, 400, "{refused:?}");
    // The page leads to the sign-in page of the same request.
    let start = refused.body.find("id=\"way\" href=\"").unwrap() + 15;
    let address = refused.body[start..].split('"').next().unwrap().replace("&#38;", "&");
    let again = browser.open(&world.instance.url(&address)).await;
    assert!(again.body.contains("id=\"upstream-acme\""), "{again:?}");
    assert!(is_signed_in(&browser.open(&second).await));
}

#[tokio::test]
async fn an_answer_after_the_end_of_its_request_signs_nobody_in() {
    let provider = FakeProvider::start(anna());
    let sections = "[sessions]\ninteraction_seconds = 3\n";
    let world = World::prepare().start(&[Provider { name: "acme", issuer: &provider.issuer(), lines: "" }], sections);
    let (browser, url) = world.leave("acme").await;
    let returned = provider.approve(&url).await;
    let state = query(&url, "state").unwrap();
    let page = world.instance.url(&format!("/oauth/login?interaction={}", state.split_once('.').unwrap().1));
    // An expired request begins again.
    until("the request has expired", async || browser.get(&page).await.status == 303).await;
    let refused = browser.open(&returned).await;
    assert_eq!(refused.status, 400, "{refused:?}");
    assert!(refused.body.contains("This sign-in is over"), "{refused:?}");
    assert!(provider.state().redeemed.is_empty());
}

/// RFC 9700 §4.4: one of two providers belongs to the attacker.
#[tokio::test]
async fn answers_of_two_providers_cannot_be_mixed_up() {
    let (honest, evil) = (FakeProvider::start(anna()), FakeProvider::start(anna()));
    let world = World::prepare().start(
        &[
            Provider { name: "acme", issuer: &honest.issuer(), lines: "" },
            Provider { name: "other", issuer: &evil.issuer(), lines: "" },
        ],
        "",
    );
    // The answer arrives at the callback of the other provider.
    let (browser, url) = world.leave("acme").await;
    let returned = honest.approve(&url).await;
    let moved = returned.replace("/upstream/acme/", "/upstream/other/");
    assert_ne!(moved, returned);
    let page = browser.open(&moved).await;
    assert_eq!(page.status, 400, "{page:?}");
    let page = browser.open(&with(&moved, "iss", None)).await;
    assert_eq!(page.status, 400, "{page:?}");
    assert!(evil.state().redeemed.is_empty(), "the attacker has received the code");
    assert!(is_signed_in(&browser.open(&returned).await));

    // The answer names another issuer, or none although the provider promises it. An error too.
    honest.state().redeemed.clear();
    for (iss, error) in [
        (Some(evil.issuer()), None),
        (None, None),
        (Some(evil.issuer()), Some("access_denied")),
        (None, Some("access_denied")),
    ] {
        let (browser, url) = world.leave("acme").await;
        honest.state().error = error;
        let page = browser.open(&with(&honest.approve(&url).await, "iss", iss.as_deref())).await;
        assert!(problem(&page).contains("could not be accepted"), "{page:?}");
        assert_eq!(page.status, 403);
    }
    honest.state().error = None;
    assert!(honest.state().redeemed.is_empty() && evil.state().redeemed.is_empty());

    // A code of the attacker's provider is refused by the honest one.
    let (browser, url) = world.leave("acme").await;
    let (_, evil_url) = world.leave("other").await;
    let code = query(&evil.approve(&evil_url).await, "code").unwrap();
    let page = browser.open(&with(&honest.approve(&url).await, "code", Some(&code))).await;
    assert!(problem(&page).contains("could not be accepted"), "{page:?}");
    assert!(evil.state().redeemed.is_empty());
}

#[tokio::test]
async fn the_code_of_another_trip_signs_nobody_in() {
    let provider = FakeProvider::start(anna());
    let world = World::prepare().start(&[Provider { name: "acme", issuer: &provider.issuer(), lines: "" }], "");
    let (_, stolen) = world.leave("acme").await;
    let code = query(&provider.approve(&stolen).await, "code").unwrap();
    // The provider refuses the verifier. A provider that does not check it returns another nonce.
    for checks_codes in [true, false] {
        provider.state().checks_codes = checks_codes;
        let (browser, url) = world.leave("acme").await;
        let injected = with(&provider.approve(&url).await, "code", Some(&code));
        let page = browser.open(&injected).await;
        assert!(problem(&page).contains("could not be accepted"), "{page:?}");
        assert_eq!(world.status(&browser, "/json").await, 302);
        // A refused answer has ended the trip, too.
        assert_eq!(browser.open(&injected).await.status, 400);
    }
    assert_eq!(provider.state().redeemed.len(), 2);
    assert!(world.users().is_empty());
}

#[tokio::test]
async fn the_same_subject_at_two_providers_is_two_users() {
    let (first, second) = (FakeProvider::start(anna()), FakeProvider::start(anna()));
    second.state().claims["email"] = "anna@other.test".into();
    let world = World::prepare().start(
        &[
            Provider { name: "acme", issuer: &first.issuer(), lines: "" },
            Provider { name: "other", issuer: &second.issuer(), lines: "" },
        ],
        "",
    );
    for (name, provider) in [("acme", &first), ("other", &second)] {
        let (_, page) = world.enter(name, provider).await;
        assert!(is_signed_in(&page), "{page:?}");
    }
    let subs: std::collections::BTreeSet<_> = world.users().iter().map(|user| user["sub"].to_string()).collect();
    assert_eq!(subs.len(), 2);
}

#[tokio::test]
async fn a_local_account_is_never_linked_by_its_address_or_shadowed() {
    let provider = FakeProvider::start(json!({ "sub": "1", "email": "anna@example.test", "email_verified": true }));
    let lines = "domains = [\"example.test\"]\nusername_claim = \"preferred_username\"";
    let world = World::prepare().start(&[Provider { name: "acme", issuer: &provider.issuer(), lines }], "");
    world.instance.add_anna();
    let before = world.instance.json(&["user", "show", "anna@example.test"]);
    let (browser, page) = world.enter("acme", &provider).await;
    assert!(problem(&page).contains("Another account"), "{page:?}");
    assert_eq!(world.status(&browser, "/json").await, 302);
    // A username that another user has.
    let local = ["user", "add", "ben@example.org", "--name", "Ben", "--username", "ben", "--password-stdin"];
    world.instance.run_with_input(&local, PASSWORD);
    provider.state().claims = json!({ "sub": "2", "preferred_username": "ben" });
    let (_, page) = world.enter("acme", &provider).await;
    assert!(problem(&page).contains("Another account"), "{page:?}");
    assert_eq!(world.instance.json(&["user", "show", "anna@example.test"]), before);
    assert_eq!(world.users().len(), 2);
    // The local user of the provider's domain still signs in with a password, at the address for it.
    let browser = Browser::new(&world.instance);
    let page = browser.open(&world.instance.url("/oauth/login?local")).await;
    let page = browser.sign_in(&page).await;
    assert_eq!(page.status, 200, "{page:?}");
    assert_eq!(world.status(&browser, "/json").await, 302);
    assert_eq!(browser.open(&world.instance.app_url("/json")).await.status, 200);
}

#[tokio::test]
async fn a_typed_name_leads_to_the_provider_of_its_domain_and_its_password_goes_nowhere() {
    let (acme, other) = (FakeProvider::start(anna()), FakeProvider::start(anna()));
    let world = World::prepare().start(
        &[
            Provider { name: "acme", issuer: &acme.issuer(), lines: "domains = [\"acme.test\"]" },
            Provider { name: "other", issuer: &other.issuer(), lines: "" },
        ],
        "",
    );
    let typed = "the password of anna at acme";
    let (browser, page) = world.begin("/json").await;
    let page = browser.submit(&page, &[("email", "anna@ACME.test"), ("password", typed)]).await;
    let url = left_for(&page);
    assert_eq!(query(&url, "login_hint").as_deref(), Some("anna@ACME.test"));
    let page = browser.open(&acme.approve(&url).await).await;
    assert!(is_signed_in(&page), "{page:?}");
    let requests = {
        let state = acme.state();
        format!("{:?} {:?}", state.authorizations, state.redeemed)
    };
    assert!(!requests.contains(typed), "{requests}");
    assert!(!world.instance.log().contains(typed));

    // Another provider does not receive the name.
    let (browser, page) = world.begin("/json").await;
    let url = press(&browser, &page, "other", "anna@acme.test").await;
    assert_eq!(query(&url, "login_hint"), None);
    // No password is accepted for a user of a provider, not even at the address for local users.
    world.instance.run(&["user", "set", "anna@acme.test", "--add-group", "any"]);
    let browser = Browser::new(&world.instance);
    let page = browser.open(&world.instance.url("/oauth/login?local")).await;
    let page = browser.submit(&page, &[("email", "anna@acme.test"), ("password", typed)]).await;
    assert!(problem(&page).contains("Incorrect"), "{page:?}");
}

#[tokio::test]
async fn users_who_are_not_admitted_see_why_and_are_not_stored() {
    let provider = FakeProvider::start(anna());
    let issuer = provider.issuer();
    let lines = "required = { tid = \"1\" }\ngroups_claim = \"groups\"\ndomains = [\"acme.test\"]";
    let mut world = World::prepare().start(&[Provider { name: "acme", issuer: &issuer, lines }], "");
    let claims = |more: Value| {
        let mut claims = anna();
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        claims
    };
    let overage = json!({ "tid": "1", "_claim_names": { "groups": "src1" }, "_claim_sources": { "src1": {} } });
    for (given, expected) in [
        (json!({}), "may not be used here"),
        (json!({ "tid": "2" }), "may not be used here"),
        (overage, "so many groups"),
        (json!({ "tid": "1", "email": null }), "neither an email address nor a username"),
        (json!({ "tid": "1", "aud": "other" }), "could not be accepted"),
    ] {
        provider.state().claims = claims(given.clone());
        let (browser, page) = world.enter("acme", &provider).await;
        assert_eq!(page.status, 403, "{given}: {page:?}");
        assert!(problem(&page).contains(expected), "{given}: {page:?}");
        assert_eq!(world.status(&browser, "/json").await, 302);
    }
    provider.state().error = Some("access_denied");
    let (browser, page) = world.enter("acme", &provider).await;
    assert!(problem(&page).contains("cancelled or denied"), "{page:?}");
    assert!(world.users().is_empty());
    // The page has the button for another attempt.
    provider.state().error = None;
    provider.state().claims = claims(json!({ "tid": "1" }));
    let page = browser.open(&provider.approve(&press(&browser, &page, "acme", "").await).await).await;
    assert!(is_signed_in(&page), "{page:?}");
    let failures = world.instance.json(&["audit", "list", "--kind", "sign_in_failed"]).to_string();
    assert!(
        failures.contains("upstream acme: denied") && failures.contains("upstream acme: groups_overage"),
        "{failures}"
    );

    // A user who is disabled here is refused, although the provider signs them in.
    world.instance.run(&["user", "disable", "anna@acme.test"]);
    assert_eq!(world.status(&browser, "/json").await, 302);
    let (_, page) = world.enter("acme", &provider).await;
    assert!(problem(&page).contains("is disabled"), "{page:?}");

    // Unknown users are refused with `linked_only`, and known ones are not.
    world.instance.run(&["user", "enable", "anna@acme.test"]);
    world.instance.stop();
    let lines = "arrival = \"linked_only\"\ndomains = [\"acme.test\"]";
    world.configure(&[Provider { name: "acme", issuer: &issuer, lines }], "");
    world.instance.start();
    let (_, page) = world.enter("acme", &provider).await;
    assert!(is_signed_in(&page), "{page:?}");
    provider.state().claims = json!({ "sub": "2", "email": "otto@acme.test" });
    let (_, page) = world.enter("acme", &provider).await;
    assert!(problem(&page).contains("is not linked"), "{page:?}");
    assert_eq!(world.users().len(), 1);
}

#[tokio::test]
async fn only_the_time_of_the_provider_proves_a_recent_sign_in() {
    let provider = FakeProvider::start(anna());
    let world = World::prepare().start(&[Provider { name: "acme", issuer: &provider.issuer(), lines: "" }], "");
    let (browser, page) = world.enter("acme", &provider).await;
    assert!(is_signed_in(&page), "{page:?}");
    let now = || SystemClock.now().seconds();
    for (auth_time, is_recent) in [(None, false), (Some(now() - 3600), false), (Some(now() - 100), true)] {
        provider.state().claims = anna();
        if let Some(auth_time) = auth_time {
            provider.state().claims["auth_time"] = json!(auth_time);
        }
        let page = browser.open(&world.instance.app_url("/recent")).await;
        let page = browser.open(&provider.approve(&press(&browser, &page, "acme", "").await).await).await;
        let asked = provider.state().authorizations.last().unwrap().get("max_age").cloned();
        assert_eq!(asked.as_deref(), Some("300"));
        assert_eq!(page.status == 200, is_recent, "{auth_time:?}: {page:?}");
        if !is_recent {
            assert!(problem(&page).contains("did not ask you to sign in again"), "{page:?}");
        }
        assert_eq!(world.status(&browser, "/recent").await, if is_recent { 200 } else { 302 }, "{auth_time:?}");
    }
}

#[tokio::test]
async fn the_level_of_a_sign_in_is_the_one_that_the_operator_grants() {
    let provider = FakeProvider::start(anna());
    let lines = "acr = { \"mfa\" = \"2\" }";
    let world = World::prepare().start(&[Provider { name: "acme", issuer: &provider.issuer(), lines }], "");
    // A value that the table lacks grants nothing.
    for (acr, is_granted) in [(json!(null), false), (json!("2"), false), (json!("mfa"), true)] {
        provider.state().claims["acr"] = acr.clone();
        provider.state().claims["amr"] = json!(["pwd", "otp", "unknown"]);
        let (browser, page) = world.begin("/two").await;
        let url = press(&browser, &page, "acme", "").await;
        assert_eq!(query(&url, "acr_values").as_deref(), Some("mfa"));
        browser.open(&provider.approve(&url).await).await;
        assert_eq!(world.status(&browser, "/two").await == 200, is_granted, "{acr}");
    }
}

#[tokio::test]
async fn a_client_key_in_the_token_authenticates_the_server_and_is_published() {
    let (provider, other) = (FakeProvider::start(anna()), FakeProvider::start(anna()));
    let world = World::prepare();
    world.instance.run(&["key", "generate-tls-key", "acme-client"]);
    let (issuer, lines) = (provider.issuer(), "client_key = \"acme-client\"");
    let world = world.start(
        &[
            Provider { name: "acme", issuer: &issuer, lines },
            Provider { name: "other", issuer: &other.issuer(), lines: "" },
        ],
        "",
    );
    let fetch = async |name: &str| {
        reqwest::get(world.instance.url(&format!("/oauth/upstream/{name}/jwks.json"))).await.unwrap()
    };
    let published: Value = serde_json::from_str(&fetch("acme").await.text().await.unwrap()).unwrap();
    let key = &published["keys"][0];
    assert_eq!((&key["kty"], &key["crv"], &key["d"]), (&json!("EC"), &json!("P-256"), &Value::Null), "{published}");
    for name in ["other", "unknown"] {
        assert_eq!(fetch(name).await.status(), 404, "{name}");
    }
    let (_, page) = world.enter("acme", &provider).await;
    assert!(is_signed_in(&page), "{page:?}");
    let redeemed = provider.state().redeemed[0].clone();
    assert!(redeemed.contains_key("client_assertion") && !redeemed.contains_key("client_secret"), "{redeemed:?}");
}

#[tokio::test]
async fn a_provider_that_does_not_answer_delays_only_its_own_users() {
    let world = World::prepare();
    let provider = NodeProvider::start(&world.redirect_uri("acme"));
    let issuer = provider.issuer();
    let world = world.start(&[Provider { name: "acme", issuer: &issuer, lines: "domains = [\"acme.test\"]" }], "");
    world.instance.add_anna();
    let (known, page) = world.begin("/json").await;
    let returned = provider.sign_in(&known, &press(&known, &page, "acme", "").await, "otto").await;
    assert!(is_signed_in(&known.open(&returned).await));
    let mut waiting = Vec::new();
    for _ in 0..24 {
        let (browser, page) = world.begin("/json").await;
        let url = press(&browser, &page, "acme", "").await;
        let returned = provider.sign_in(&browser, &url, "anna").await;
        waiting.push((browser, returned));
    }
    provider.signal("STOP");
    let pending: Vec<_> = waiting
        .into_iter()
        .map(|(browser, returned)| tokio::spawn(async move { browser.open(&returned).await.status }))
        .collect();
    // Local users sign in, and users who are signed in continue.
    let browser = Browser::new(&world.instance);
    let signed_in = async {
        let page = browser.open(&world.instance.app_url("/json")).await;
        browser.sign_in(&page).await
    };
    let page = tokio::time::timeout(Duration::from_secs(15), signed_in).await.expect("a local user waits");
    assert!(is_signed_in(&page), "{page:?}");
    assert_eq!(world.status(&known, "/json").await, 200);
    for status in pending {
        assert_eq!(status.await.unwrap(), 503);
    }
    provider.signal("CONT");
    let (browser, page) = world.begin("/json").await;
    let returned = provider.sign_in(&browser, &press(&browser, &page, "acme", "").await, "anna").await;
    assert!(is_signed_in(&browser.open(&returned).await));
}

#[tokio::test]
async fn providers_that_hang_delay_neither_other_providers_nor_local_users() {
    let hanging = [0; 3].map(|_| FakeProvider::start(anna()));
    let working = FakeProvider::start(anna());
    let issuers = hanging.each_ref().map(FakeProvider::issuer);
    let names = ["acme", "other", "third"];
    let world = World::prepare();
    for name in ["third.secret", "fourth.secret"] {
        write_secret(&world.instance.directory.path().join(name), CLIENT_SECRET);
    }
    let mut providers: Vec<_> =
        names.iter().zip(&issuers).map(|(name, issuer)| Provider { name, issuer, lines: "" }).collect();
    let issuer = working.issuer();
    providers.push(Provider { name: "fourth", issuer: &issuer, lines: "" });
    let world = world.start(&providers, "");
    world.instance.add_anna();
    let mut pending = Vec::new();
    for (name, provider) in names.iter().zip(&hanging) {
        provider.state().hangs = true;
        for _ in 0..8 {
            let (browser, url) = world.leave(name).await;
            let returned = provider.approve(&url).await;
            pending.push(tokio::spawn(async move { browser.open(&returned).await.status }));
        }
    }
    let work = async {
        until("each provider has eight requests", async || hanging.iter().all(|one| one.state().hanging >= 8)).await;
        let (_, page) = world.enter("fourth", &working).await;
        assert!(is_signed_in(&page), "{page:?}");
        let local = Browser::new(&world.instance);
        let page = local.open(&world.instance.app_url("/json")).await;
        assert!(is_signed_in(&local.sign_in(&page).await));
    };
    // The requests that hang have a timeout of 20 seconds.
    tokio::time::timeout(Duration::from_secs(15), work).await.expect("others wait");
    assert!(pending.iter().all(|one| !one.is_finished()));
}

#[tokio::test]
async fn an_error_that_a_browser_brings_is_an_answer_and_a_guess() {
    let provider = FakeProvider::start(anna());
    let world = World::prepare().start(
        &[Provider { name: "acme", issuer: &provider.issuer(), lines: "label = \"Acme\"" }],
        "[login]\nfailures_per_address = 4\n",
    );
    for error in ["server_error", "an unknown error", "temporarily_unavailable"] {
        provider.state().error = Some(error);
        let (browser, page) = world.enter("acme", &provider).await;
        assert_eq!(page.status, 403, "{error}: {page:?}");
        assert!(problem(&page).contains("<bdi>Acme</bdi> reported an error"), "{page:?}");
        assert!(page.body.contains("id=\"upstream-acme\""), "{page:?}");
        assert_eq!(world.status(&browser, "/json").await, 302);
    }
    let unavailable = "sealgate_upstream_sign_ins_total{outcome=\"unavailable\",upstream=\"acme\"}";
    assert_eq!(metric(&world.instance, unavailable).await, 0);
    let log = world.instance.log();
    assert!(log.contains("refused a sign-in with an error") && !log.contains("cannot sign a user in"), "{log}");
    // Each of them is a guess. On a slow machine, earlier ones no longer count.
    provider.state().error = Some("access_denied");
    for _ in 0..10 {
        let (_, page) = world.enter("acme", &provider).await;
        if page.status == 429 {
            break;
        }
        assert_eq!(page.status, 403, "{page:?}");
    }
    provider.state().error = None;
    let (_, page) = world.enter("acme", &provider).await;
    assert_eq!(page.status, 429, "{page:?}");
    assert!(provider.state().redeemed.is_empty());
}

/// The operator replaces the provider, and the new one gives the ids of the old one to other users.
#[tokio::test]
async fn another_issuer_under_the_same_name_does_not_inherit_its_users() {
    let (old, new) = (FakeProvider::start(anna()), FakeProvider::start(anna()));
    let (old_issuer, new_issuer) = (old.issuer(), new.issuer());
    let lines = "refresh_seconds = 1\ndomains = [\"acme.test\"]";
    let mut world = World::prepare().start(&[Provider { name: "acme", issuer: &old_issuer, lines }], "");
    let (browser, page) = world.enter("acme", &old).await;
    assert!(is_signed_in(&page), "{page:?}");
    let sub = world.users()[0]["sub"].clone();
    world.instance.stop();
    world.configure(&[Provider { name: "acme", issuer: &new_issuer, lines }], "");
    world.instance.start();
    // The connection of the previous process is closed.
    let _ = browser.client().get(world.instance.app_url("/json")).send().await;
    assert_eq!(world.status(&browser, "/json").await, 302);
    let (impostor, page) = world.enter("acme", &new).await;
    assert!(problem(&page).contains("have changed since your last sign-in"), "{page:?}");
    assert_eq!(world.status(&impostor, "/json").await, 302);
    world.instance.tells("give the new provider another name");
    assert!(new.state().refreshed.is_empty(), "the new provider has received a token of the old one");
    // A new id.
    new.state().claims = json!({ "sub": "id-of-otto", "email": "otto@acme.test", "email_verified": true });
    let (_, page) = world.enter("acme", &new).await;
    assert!(is_signed_in(&page), "{page:?}");
    // The same id in another claim.
    world.instance.stop();
    let claim = format!("{lines}\nsubject_claim = \"employee\"");
    world.configure(&[Provider { name: "acme", issuer: &old_issuer, lines: &claim }], "");
    world.instance.start();
    old.state().claims = json!({ "sub": "other", "employee": "id-of-anna", "email": "anna@acme.test" });
    let (_, page) = world.enter("acme", &old).await;
    assert!(problem(&page).contains("have changed since your last sign-in"), "{page:?}");
    // With the earlier settings, the user is the same as before.
    world.instance.stop();
    world.configure(&[Provider { name: "acme", issuer: &old_issuer, lines }], "");
    world.instance.start();
    old.state().claims = anna();
    let (_, page) = world.enter("acme", &old).await;
    assert!(is_signed_in(&page), "{page:?}");
    assert_eq!(world.instance.json(&["user", "show", "anna@acme.test"])["sub"], sub);
}

#[tokio::test]
async fn all_users_sign_in_at_the_only_provider_except_those_with_a_local_password() {
    let provider = FakeProvider::start(anna());
    let issuer = provider.issuer();
    let mut world = World::prepare()
        .start(&[Provider { name: "acme", issuer: &issuer, lines: "" }], "[login]\nonly_upstream = \"acme\"\n");
    world.instance.add_anna();
    let (browser, page) = world.begin("/json").await;
    let page = browser.open(&provider.approve(&left_for(&page)).await).await;
    assert!(is_signed_in(&page), "{page:?}");
    // A failed sign-in ends at a page, not in a loop, and the page has no field for a password.
    provider.state().error = Some("access_denied");
    let (browser, page) = world.begin("/json").await;
    let page = browser.open(&provider.approve(&left_for(&page)).await).await;
    assert!(problem(&page).contains("cancelled or denied"), "{page:?}");
    assert!(!page.body.contains("type=\"password\""), "{page:?}");
    provider.state().error = None;
    let page = browser.open(&provider.approve(&press(&browser, &page, "acme", "").await).await).await;
    assert!(is_signed_in(&page), "{page:?}");
    let local = Browser::new(&world.instance);
    let page = local.open(&world.instance.url("/oauth/login?local")).await;
    let page = local.sign_in(&page).await;
    assert_eq!(page.status, 200, "{page:?}");
    assert!(page.url.ends_with("/account"), "{page:?}");

    // Users of a provider that is no longer configured have no access.
    let (anna, page) = world.begin("/json").await;
    assert!(is_signed_in(&anna.open(&provider.approve(&left_for(&page)).await).await));
    world.instance.stop();
    world.configure(&[], "");
    world.instance.start();
    // The connection of the previous process is closed.
    let _ = anna.client().get(world.instance.app_url("/json")).send().await;
    until("the user has no access", async || world.status(&anna, "/json").await == 503).await;
    assert_eq!(anna.open(&world.instance.url("/account")).await.status, 503);
}
