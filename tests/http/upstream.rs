//! Tests users of OpenID providers where the time or the store matters. `tests/blackbox/upstream.rs`
//! tests the rest through the whole program.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use sealgate_domain::client_logout::BackchannelLogout;
use sealgate_domain::redirect_uri::RedirectUri;
use sealgate_domain::session::{Session, SessionCookie, SessionId};
use sealgate_domain::source::SourceName;
use sealgate_store::engine::Engine;
use sealgate_store::{SignInPlace, UpstreamTokenKind};
use sealgate_system::clock::Clock;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::openid_provider::FakeProvider;
use crate::support::{Browser, Provider, Reply, Tokens, jwt_claims};

/// Time for which a sign-in at the provider is valid, in seconds.
const VALID: u64 = 600;

/// Server with one OpenID provider.
pub(crate) struct World {
    pub(crate) upstream: FakeProvider,
    pub(crate) provider: Provider,
    _files: TempDir,
}

impl World {
    /// `lines` are more lines of the section, and `sections` follow it.
    pub(crate) async fn start(lines: &str, sections: &str) -> Self {
        Self::start_with(lines, sections, async |section| Provider::with(&section).await).await
    }

    /// Does the same with a provider that `provider` creates from the sections.
    pub(crate) async fn start_with(
        lines: &str,
        sections: &str,
        provider: impl AsyncFnOnce(String) -> Provider,
    ) -> Self {
        let upstream = FakeProvider::start(json!({
            "sub": "id-of-anna", "email": "anna@acme.test", "email_verified": true, "name": "Anna", "sid": "session-1",
        }));
        let files = tempfile::tempdir().unwrap();
        let secret = files.path().join("secret");
        fs::write(&secret, "the secret at the provider").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        let section = format!(
            "[[upstream]]\nname = \"acme\"\nissuer = \"{}\"\nclient_id = \"sealgate\"\nclient_secret_file = \"{}\"\n\
             session_seconds = {VALID}\n{lines}\n{sections}",
            upstream.issuer(),
            secret.display()
        );
        let provider = provider(section).await;
        let world = Self { upstream, provider, _files: files };
        world.upstream.state().claims["auth_time"] = json!(world.now());
        world
    }

    pub(crate) fn now(&self) -> u64 {
        self.provider.clock.now().seconds()
    }

    /// Signs in at the provider from a sign-in page.
    pub(crate) async fn sign_in(&self, browser: &Browser<'_>, page: &Reply) -> Reply {
        let page = browser.submit(page, &[("upstream", "acme")]).await;
        let returned = self.approve(&page).await;
        browser.open(&returned).await
    }

    /// Signs in at the provider to which a page sends the browser. Returns the path to which the
    /// provider returns it.
    pub(crate) async fn approve(&self, page: &Reply) -> String {
        let text = page.text();
        let start = text.find("content=\"0; url=").unwrap_or_else(|| panic!("the page sends nowhere: {page:?}")) + 16;
        let url = text[start..].split('"').next().unwrap().replace("&#38;", "&").replace("&amp;", "&");
        self.upstream.state().now = Some(self.now());
        let returned = self.upstream.approve(&url).await;
        returned.strip_prefix("https://id.test").unwrap().to_owned()
    }

    /// Signs in for an authorization request of the client `c1`, and redeems the code.
    pub(crate) async fn tokens(&self, browser: &Browser<'_>) -> Tokens {
        let page = browser.open(&self.provider.c1().authorize(&[("scope", "openid email offline_access")])).await;
        let mut page = if is_sign_in(&page) { self.sign_in(browser, &page).await } else { page };
        if page.header("location").is_none() {
            page = browser.allow(&page).await;
        }
        let code = page.returned("code").unwrap_or_else(|| panic!("no code: {page:?}"));
        Tokens::of(&self.provider.c1().redeem(&code).await)
    }

    async fn session(&self, browser: &Browser<'_>) -> Session {
        let cookie = SessionCookie::parse(&browser.cookie("__Host-sealgate").unwrap()).unwrap();
        self.provider.sealgate.store.session(cookie.id).await.unwrap().unwrap().value
    }
}

pub(crate) fn is_sign_in(page: &Reply) -> bool {
    page.header("location").is_none() && page.text().contains("id=\"upstream-acme\"")
}

#[tokio::test]
async fn a_sign_in_at_a_provider_is_valid_for_a_limited_time_also_for_tokens() {
    let world = World::start("", "").await;
    let (browser, client) = (world.provider.browser(), world.provider.c1());
    let tokens = world.tokens(&browser).await;
    world.provider.wait(VALID - 1);
    assert_eq!(world.provider.userinfo(&tokens.access).await.status, 200);
    let tokens = Tokens::of(&client.refresh(&tokens.refresh).await);
    world.provider.wait(1);
    world.provider.userinfo(&tokens.access).await.assert_error(401, "invalid_token");
    client.refresh(&tokens.refresh).await.assert_error(400, "invalid_grant");
    let silent = browser.open(&client.authorize(&[("prompt", "none")])).await;
    assert_eq!(silent.returned("error").as_deref(), Some("login_required"), "{silent:?}");
    let page = browser.open("/account").await;
    assert!(is_sign_in(&page), "{page:?}");
    // A new sign-in makes the session and the tokens valid again.
    world.tokens(&browser).await;
    assert_eq!(browser.open("/account").await.status, 200);
    Tokens::of(&client.refresh(&tokens.refresh).await);
}

/// The confirmation is part of the user's record, and each change of it empties the caches of all
/// nodes.
#[tokio::test]
async fn frequent_sign_ins_do_not_write_the_user_each_time() {
    let world = World::start("domains = [\"acme.test\"]", "").await;
    let confirmed = async || {
        world.tokens(&world.provider.browser()).await;
        let users = world.provider.sealgate.store.user_by_sign_in_name("anna@acme.test").await.unwrap();
        users.unwrap().source.unwrap().confirmed_at.unwrap().seconds()
    };
    let first = confirmed().await;
    assert_eq!(first, world.now());
    world.provider.wait(VALID / 4 - 1);
    assert_eq!(confirmed().await, first);
    world.provider.wait(1);
    assert_eq!(confirmed().await, world.now());
}

/// Users of a provider have no password here, so the page does not ask them for one. Whether an account
/// exists does not change the next page.
#[tokio::test]
async fn where_domains_belong_to_a_provider_the_name_is_entered_before_the_password() {
    const ANNA: &str = "anna@example.test";
    let asks_password = |page: &Reply| page.text().contains("id=\"password\"");
    let world = World::start("domains = [\"acme.test\"]", "").await;
    let browser = world.provider.browser();
    let page = browser.open("/account").await;
    assert!(page.text().contains("id=\"email\"") && !asks_password(&page), "{page:?}");
    let trip = browser.submit(&page, &[("email", "otto@ACME.test")]).await;
    assert!(trip.text().contains("content=\"0; url="), "{trip:?}");
    for name in ["nobody@other.test", ANNA] {
        let browser = world.provider.browser();
        let page = browser.open("/account").await;
        let page = browser.submit(&page, &[("email", name)]).await;
        assert_eq!((page.status, asks_password(&page)), (200, true), "{name}: {page:?}");
        assert!(
            page.text().contains(&format!("value=\"{name}\"")) && !page.text().contains("login-problem"),
            "{page:?}"
        );
        if name == ANNA {
            assert_eq!(browser.sign_in(&page, name).await.status, 200);
            assert_eq!(browser.open("/account").await.status, 200);
        }
    }
    // Without domains, and in an emergency, both fields are on one page.
    let page = browser.open("/oauth/login?local=yes").await;
    assert!(asks_password(&page), "{page:?}");
    let world = World::start("", "").await;
    assert!(asks_password(&world.provider.browser().open("/account").await));
}

#[tokio::test]
async fn tokens_have_the_level_the_methods_and_the_time_of_the_provider() {
    let world = World::start("acr = { \"mfa\" = \"2\" }", "").await;
    let earlier = world.now() - 100;
    world.upstream.state().claims["auth_time"] = json!(earlier);
    world.upstream.state().claims["amr"] = json!(["pwd", "otp", "ngcmfa"]);
    for (acr, level, amr) in [("other", "1", &["otp", "pwd"][..]), ("mfa", "2", &["otp", "pwd", "mfa"])] {
        world.upstream.state().claims["acr"] = json!(acr);
        let tokens = world.tokens(&world.provider.browser()).await;
        for token in [&tokens.id, &tokens.access] {
            let claims = jwt_claims(token);
            assert_eq!((&claims["acr"], &claims["amr"]), (&json!(level), &json!(amr)), "{acr}");
            assert_eq!(claims["auth_time"], earlier);
        }
    }
}

#[tokio::test]
async fn own_second_factors_are_required_where_the_provider_does_not_suffice() {
    let world = World::start("acr = { \"mfa\" = \"2\" }", "[factors]\nlevel = \"2\"\n").await;
    let enter = async |acr: &str| {
        world.upstream.state().claims["acr"] = json!(acr);
        let browser = world.provider.browser();
        let page = browser.open("/account").await;
        let page = world.sign_in(&browser, &page).await;
        (page.status, page.text().contains("/oauth/enrol?"))
    };
    assert_eq!(enter("1").await, (200, true));
    assert_eq!(enter("mfa").await, (200, false));
}

#[tokio::test]
async fn a_session_keeps_the_tokens_of_the_provider_sealed_and_nothing_else_keeps_them() {
    let world = World::start("", "").await;
    let browser = world.provider.browser();
    world.tokens(&browser).await;
    let session = world.session(&browser).await;
    let sign_in = &session.sign_ins[0];
    let upstream = sign_in.upstream.as_ref().unwrap();
    assert_eq!((upstream.source.as_str(), upstream.sid.as_deref()), ("acme", Some("session-1")));
    let store = &world.provider.sealgate.store;
    let open = |kind, sealed| store.open_upstream_token(sign_in.subject, &upstream.source, kind, sealed);
    let id_token = open(UpstreamTokenKind::Id, upstream.id_token.as_ref().unwrap()).unwrap();
    assert_eq!(id_token.expose(), world.upstream.state().id_tokens[0]);
    let refresh = open(UpstreamTokenKind::Refresh, upstream.refresh_token.as_ref().unwrap()).unwrap();
    assert_eq!(refresh.expose(), "the refresh token of the provider");
    // A sealed token is bound to its kind and its provider.
    assert!(open(UpstreamTokenKind::Id, upstream.refresh_token.as_ref().unwrap()).is_err());
    let other = SourceName::parse("other").unwrap();
    let moved =
        store.open_upstream_token(sign_in.subject, &other, UpstreamTokenKind::Id, upstream.id_token.as_ref().unwrap());
    assert!(moved.is_err());
    // Another sign-in of the user keeps them.
    let mut renewed = session.clone();
    renewed.renew(sign_in.without_upstream(), session.cookie, None, world.provider.clock.now());
    assert_eq!(renewed.sign_ins[0].upstream, sign_in.upstream);

    // No record has a token, the state, the nonce or the verifier of the trip in readable form, and
    // only the session has the sealed ones.
    let trip = world.upstream.state().authorizations[0].clone();
    let verifier = world.upstream.state().redeemed[0]["code_verifier"].clone();
    let secrets = [id_token.expose(), refresh.expose(), &trip["state"], &trip["nonce"], &verifier];
    let mut holders = 0;
    for (key, value) in world.provider.engine.scan(b"", None, usize::MAX).await.unwrap() {
        let text = String::from_utf8_lossy(&value).into_owned();
        assert!(secrets.iter().all(|secret| !text.contains(secret)), "{text}");
        let has_token = text.contains("\"refresh_token\":\"");
        holders += usize::from(has_token);
        assert!(!has_token || key.first() == Some(&b's'), "{text}");
    }
    assert_eq!(holders, 1);
}

/// A trip that has begun must not leave its secrets in the store either.
#[tokio::test]
async fn the_store_has_no_secret_of_a_trip() {
    let world = World::start("", "").await;
    let browser = world.provider.browser();
    let page = browser.open("/account").await;
    let page = browser.submit(&page, &[("upstream", "acme")]).await;
    let text = page.text();
    let start = text.find("content=\"0; url=").unwrap() + 16;
    let url = text[start..].split('"').next().unwrap().replace("&#38;", "&").replace("&amp;", "&");
    world.upstream.approve(&url).await;
    let trip = world.upstream.state().authorizations[0].clone();
    let mut trips = 0;
    for (_, value) in world.provider.engine.scan(b"", None, usize::MAX).await.unwrap() {
        let text = String::from_utf8_lossy(&value).into_owned();
        for secret in ["state", "nonce", "code_challenge"] {
            assert!(!text.contains(&trip[secret]), "{secret}: {text}");
        }
        trips += usize::from(
            serde_json::from_slice::<Value>(value.get(1..).unwrap_or_default())
                .is_ok_and(|record| record["upstream"]["begun"].is_object()),
        );
    }
    assert_eq!(trips, 1);
}

#[tokio::test]
async fn a_new_sign_in_is_requested_from_the_provider_and_must_be_proven() {
    let world = World::start("", "").await;
    let (browser, client) = (world.provider.browser(), world.provider.c1());
    world.tokens(&browser).await;
    world.provider.wait(120);
    let page = browser.open(&client.authorize(&[("prompt", "login")])).await;
    assert!(is_sign_in(&page), "{page:?}");
    // The provider has not asked the user.
    let refused = world.sign_in(&browser, &page).await;
    assert_eq!(refused.status, 403, "{refused:?}");
    let asked = world.upstream.state().authorizations.last().unwrap().clone();
    assert_eq!((asked["prompt"].as_str(), asked["max_age"].as_str()), ("login", "0"));
    world.upstream.state().claims["auth_time"] = json!(world.now());
    let done = world.sign_in(&browser, &refused).await;
    assert!(done.returned("code").is_some(), "{done:?}");

    // Without a page, nothing is sent to the provider.
    let trips = world.upstream.state().authorizations.len();
    let silent = world.provider.browser().open(&client.authorize(&[("prompt", "none")])).await;
    assert_eq!(silent.returned("error").as_deref(), Some("login_required"));
    assert_eq!(world.upstream.state().authorizations.len(), trips);
}

async fn send_logout(world: &World, claims: &Value) -> u16 {
    world.upstream.state().now = Some(world.now());
    let token = world.upstream.logout_token(claims);
    world.provider.post("/oauth/upstream/acme/logout", &[], &[("logout_token", token.as_str())]).await.status
}

/// Signs in as a second user in a browser that has a session.
async fn add_otto(world: &World, browser: &Browser<'_>) {
    let claims =
        json!({ "sub": "id-of-otto", "email": "otto@acme.test", "sid": "session-2", "auth_time": world.now() });
    let before = std::mem::replace(&mut world.upstream.state().claims, claims);
    let page = browser.open(&world.provider.c1().authorize(&[("prompt", "login")])).await;
    world.sign_in(browser, &page).await;
    world.upstream.state().claims = before;
}

#[tokio::test]
async fn a_logout_token_ends_only_its_users_sign_in_in_a_browser() {
    let world = World::start("", "").await;
    let browser = world.provider.browser();
    world.tokens(&browser).await;
    add_otto(&world, &browser).await;
    let subjects = async || -> Vec<_> {
        world.session(&browser).await.sign_ins.iter().map(|sign_in| sign_in.upstream.clone().unwrap().sid).collect()
    };
    assert_eq!(subjects().await, [Some("session-2".to_owned()), Some("session-1".to_owned())]);
    assert_eq!(send_logout(&world, &json!({ "sid": "session-1" })).await, 200);
    assert_eq!(subjects().await, [Some("session-2".to_owned())]);
    let page = browser.open("/account").await;
    assert!(page.status == 200 && page.text().contains("otto@acme.test"), "{page:?}");
    assert_eq!(send_logout(&world, &json!({ "sid": "session-2" })).await, 200);
    assert!(is_sign_in(&browser.open("/account").await));
    // The index has no entries of ended sign-ins.
    assert_eq!(world.provider.engine.scan(b"xo", None, usize::MAX).await.unwrap(), []);
}

#[tokio::test]
async fn a_logout_token_without_a_session_ends_the_tokens_of_the_user_too() {
    let world = World::start("", "").await;
    let (browser, client) = (world.provider.browser(), world.provider.c1());
    let tokens = world.tokens(&browser).await;
    assert_eq!(send_logout(&world, &json!({ "sub": "id-of-anna", "sid": "session-9" })).await, 200);
    assert_eq!(browser.open("/account").await.status, 200);
    let tokens = Tokens::of(&client.refresh(&tokens.refresh).await);
    assert_eq!(send_logout(&world, &json!({ "sub": "id-of-anna" })).await, 200);
    assert!(is_sign_in(&browser.open("/account").await));
    client.refresh(&tokens.refresh).await.assert_error(400, "invalid_grant");
    // An unknown user, and a user who has no session.
    assert_eq!(send_logout(&world, &json!({ "sub": "id-of-otto" })).await, 200);
    assert_eq!(send_logout(&world, &json!({ "sub": "id-of-anna" })).await, 200);
    // The user may sign in again.
    world.tokens(&browser).await;
}

#[tokio::test]
async fn a_sign_out_of_a_client_returns_to_it_through_the_provider() {
    let world = World::start("", "").await;
    world.upstream.state().ends_sessions = true;
    let uri = "https://rp.test/bye";
    let leave = async |browser: &Browser<'_>| {
        let tokens = world.tokens(browser).await;
        let query = crate::support::encode(&[
            ("id_token_hint", tokens.id.as_str()),
            ("post_logout_redirect_uri", uri),
            ("state", "of c1"),
        ]);
        let page = browser.get(&format!("/oauth/logout?{query}")).await;
        let text = page.text();
        let start = text.find("content=\"0; url=").unwrap_or_else(|| panic!("{page:?}")) + 16;
        let url = text[start..].split('"').next().unwrap().replace("&#38;", "&").replace("&amp;", "&");
        let returned = world.upstream.approve(&url).await;
        returned.strip_prefix("https://id.test").unwrap().to_owned()
    };
    let browser = world.provider.browser();
    let returned = leave(&browser).await;
    let other = world.provider.browser();
    assert_eq!(other.get(&returned).await.location(), "/oauth/signed-out");
    assert_eq!(browser.get("/oauth/upstream/acme/signed-out?state=other").await.location(), "/oauth/signed-out");
    assert_eq!(browser.get(&returned).await.location(), "https://rp.test/bye?state=of+c1");
    // Once.
    assert_eq!(browser.get(&returned).await.location(), "/oauth/signed-out");

    // A forged cookie leads only to registered addresses.
    let returned = leave(&browser).await;
    let cookie = browser.cookie("__Host-sealgate-departure").unwrap();
    let bytes = sealgate_domain::secret::from_base64url(&cookie).unwrap();
    let forged = String::from_utf8(bytes).unwrap().replace("rp.test", "evil.test");
    browser.set_cookie("__Host-sealgate-departure", &sealgate_domain::secret::base64url(forged.as_bytes()));
    assert_eq!(browser.get(&returned).await.location(), "/oauth/signed-out");
}

fn identify(world: &World, claims: Value) {
    let mut claims = claims;
    claims["auth_time"] = json!(world.now());
    world.upstream.state().claims = claims;
}

/// Signs in at the provider in a new browser. Returns the last page.
async fn enter(world: &World) -> Reply {
    let browser = world.provider.browser();
    let page = browser.open("/account").await;
    world.sign_in(&browser, &page).await
}

#[tokio::test]
async fn an_unverified_address_neither_keeps_its_owner_out_nor_becomes_theirs() {
    let world = World::start("domains = [\"acme.test\"]", "").await;
    let store = &world.provider.sealgate.store;
    let owner_of = async |address: &str| {
        let user = store.user_by_sign_in_name(address).await.unwrap();
        user.map(|user| user.source.map(|own| String::from_utf8(own.link.id.as_bytes().to_vec()).unwrap()))
    };
    let eve = |email: &str, verified: bool| json!({ "sub": "id-of-eve", "email": email, "email_verified": verified });
    // Eve enters Anna's address before Anna signs in.
    identify(&world, eve("anna@acme.test", false));
    assert_ne!(enter(&world).await.status, 403);
    assert_eq!(owner_of("anna@acme.test").await, None);
    let anna = json!({ "sub": "id-of-anna", "email": "anna@acme.test", "email_verified": true });
    identify(&world, anna.clone());
    assert_ne!(enter(&world).await.status, 403);
    assert_eq!(owner_of("anna@acme.test").await, Some(Some("id-of-anna".to_owned())));
    // And again afterwards, and in another spelling.
    for email in ["anna@acme.test", "ANNA@acme.test"] {
        identify(&world, eve(email, false));
        assert_ne!(enter(&world).await.status, 403);
        assert_eq!(owner_of("anna@acme.test").await, Some(Some("id-of-anna".to_owned())), "{email}");
    }
    // A verified address is unique.
    identify(&world, eve("anna@acme.test", true));
    assert_eq!(enter(&world).await.status, 403);
    assert_eq!(owner_of("anna@acme.test").await, Some(Some("id-of-anna".to_owned())));
    // A local user, whose address the provider does not verify.
    let local = &world.provider.ben;
    let address = local.email.as_ref().unwrap().as_str();
    identify(&world, json!({ "sub": "id-of-otto", "email": address, "email_verified": true }));
    assert_ne!(enter(&world).await.status, 403);
    assert_eq!(store.user_by_sign_in_name(address).await.unwrap().unwrap().sub, local.sub);
    // An address that was verified becomes free for its next owner.
    identify(&world, json!({ "sub": "id-of-anna", "email": "anna@acme.test", "email_verified": false }));
    assert_ne!(enter(&world).await.status, 403);
    assert_eq!(owner_of("anna@acme.test").await, None);
    identify(&world, eve("anna@acme.test", true));
    assert_ne!(enter(&world).await.status, 403);
    assert_eq!(owner_of("anna@acme.test").await, Some(Some("id-of-eve".to_owned())));
}

#[tokio::test]
async fn addresses_that_mail_servers_refuse_are_discarded() {
    let world = World::start("domains = [\"acme.test\"]\nusername_claim = \"nick\"", "").await;
    for email in ["anna@acme.test,x", "<anna@acme.test>", "anna@acme.test.", "anna@\u{ff41}cme.test", "anna"] {
        identify(
            &world,
            json!({ "sub": "id-of-anna", "nick": "anna-at-acme", "email": email, "email_verified": true }),
        );
        assert_ne!(enter(&world).await.status, 403, "{email}");
        let user = world.provider.sealgate.store.user_by_sign_in_name("anna-at-acme").await.unwrap().unwrap();
        assert_eq!((user.email, user.email_verified), (None, false), "{email}");
    }
}

#[tokio::test]
async fn the_end_of_a_user_at_the_provider_ends_other_sessions_and_credentials() {
    let world = World::start("domains = [\"acme.test\"]", "").await;
    let (one, other, client) = (world.provider.browser(), world.provider.browser(), world.provider.c1());
    let tokens = world.tokens(&one).await;
    world.tokens(&other).await;
    let store = &world.provider.sealgate.store;
    let anna = async || store.user_by_sign_in_name("anna@acme.test").await.unwrap().unwrap();
    let needs_sign_in =
        async || world.provider.sealgate.sources.needs_sign_in(&anna().await, world.provider.clock.now());
    assert!(!needs_sign_in().await);
    assert_eq!(send_logout(&world, &json!({ "sub": "id-of-anna" })).await, 200);
    // Passkeys and application passwords too, until the next sign-in there.
    assert!(needs_sign_in().await);
    for browser in [&one, &other] {
        assert!(is_sign_in(&browser.open("/account").await));
    }
    client.refresh(&tokens.refresh).await.assert_error(400, "invalid_grant");
    world.tokens(&one).await;
    assert!(!needs_sign_in().await);
}

#[tokio::test]
async fn a_user_has_a_limited_number_of_sign_ins_that_are_confirmed() {
    let world = World::start("domains = [\"acme.test\"]", "").await;
    for _ in 0..21 {
        enter(&world).await;
    }
    let source = SourceName::parse("acme").unwrap();
    let found = world.provider.sealgate.store.refreshable_sign_ins(&source, |_| true).await.unwrap();
    assert_eq!(found.len(), 20);
}

#[tokio::test]
async fn many_groups_of_the_provider_are_stored() {
    let world = World::start("domains = [\"acme.test\"]\ngroups_claim = \"groups\"", "").await;
    let groups: Vec<String> = (0..150).map(|number| format!("group-{number}")).collect();
    let claims = json!({ "sub": "id-of-anna", "email": "anna@acme.test", "email_verified": true, "groups": groups });
    identify(&world, claims);
    world.tokens(&world.provider.browser()).await;
    let user = world.provider.sealgate.store.user_by_sign_in_name("anna@acme.test").await.unwrap().unwrap();
    assert_eq!(user.source.unwrap().groups.len(), 150);
}

/// The logout token arrives before the session is stored.
#[tokio::test]
async fn a_session_that_ends_during_the_sign_in_is_not_created() {
    let world = World::start("", "").await;
    let browser = world.provider.browser();
    let page = browser.open("/account").await;
    world.upstream.state().hangs = true;
    let end = async {
        let waited = tokio::time::timeout(std::time::Duration::from_secs(30), async {
            while world.upstream.state().hanging == 0 {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        });
        waited.await.unwrap();
        assert_eq!(send_logout(&world, &json!({ "sid": "session-1" })).await, 200);
        world.upstream.state().hangs = false;
    };
    tokio::join!(world.sign_in(&browser, &page), end);
    assert!(is_sign_in(&browser.open("/account").await));
    // A later sign-in has another answer, even with the same session.
    world.provider.wait(1);
    let page = browser.open("/account").await;
    world.sign_in(&browser, &page).await;
    assert_eq!(browser.open("/account").await.status, 200);
}

/// A change of the user's factors moves the session to another id while the provider answers.
#[tokio::test]
async fn a_new_refresh_token_follows_a_session_that_has_moved() {
    let world = World::start("", "").await;
    let browser = world.provider.browser();
    world.tokens(&browser).await;
    let before = world.session(&browser).await;
    let sign_in = before.sign_ins[0].clone();
    let (subject, token) = (sign_in.subject, sign_in.upstream.unwrap().refresh_token.unwrap());
    let store = &world.provider.sealgate.store;
    let id = SessionId::from_bytes([7; 16]);
    let moved = store.move_session(before.id, None, |session| Some(Session { id, ..session.clone() })).await;
    assert!(moved.unwrap());
    let place = SignInPlace { session: before.id, subject };
    assert!(store.change_upstream_session(place, &token, |own| own.refresh_token = None).await.unwrap());
    let after = store.session(id).await.unwrap().unwrap().value;
    assert_eq!(after.sign_in_of(subject).unwrap().upstream.as_ref().unwrap().refresh_token, None);
    assert!(!store.change_upstream_session(place, &token, |_| ()).await.unwrap());
}

#[tokio::test]
async fn a_logout_token_names_a_user_also_if_the_id_is_another_claim() {
    let world = World::start("subject_claim = \"employee\"", "").await;
    let enter = async |number: &str| {
        let claims =
            json!({ "sub": format!("sub-{number}"), "employee": number, "email": format!("{number}@acme.test") });
        identify(&world, claims);
        let browser = world.provider.browser();
        world.tokens(&browser).await;
        browser
    };
    let (one, other) = (enter("4711").await, enter("4712").await);
    // The id is not the claim `sub` of the token.
    assert_eq!(send_logout(&world, &json!({ "sub": "4711" })).await, 200);
    assert_eq!(one.open("/account").await.status, 200);
    assert_eq!(send_logout(&world, &json!({ "sub": "sub-4711" })).await, 200);
    let page = one.open("/account").await;
    assert!(is_sign_in(&page), "{page:?}");
    assert!(!is_sign_in(&other.open("/account").await));
    assert_eq!(send_logout(&world, &json!({})).await, 400);
}

#[tokio::test]
async fn a_logout_token_of_the_provider_signs_its_user_out_at_clients() {
    let world = World::start("", "").await;
    let browser = world.provider.browser();
    let uri = RedirectUri::parse("https://rp.test/logout").unwrap();
    let logout = BackchannelLogout { uri, session_required: false };
    world.provider.change_client("c1", |client| client.backchannel_logout = Some(logout.clone())).await;
    let tokens = world.tokens(&browser).await;
    let subject = world.session(&browser).await.sign_ins[0].subject;
    add_otto(&world, &browser).await;
    assert_eq!(send_logout(&world, &json!({ "sid": "session-1" })).await, 200);
    let store = &world.provider.sealgate.store;
    let queued = store.next_client_logout(None).await.unwrap().unwrap();
    let sid = jwt_claims(&tokens.id)["sid"].clone();
    assert_eq!((queued.value.subject, json!(queued.value.sid)), (subject, sid));
    // Otto has no tokens of the client.
    assert!(store.remove_client_logout(&queued).await.unwrap());
    assert_eq!(send_logout(&world, &json!({ "sid": "session-2" })).await, 200);
    assert!(store.next_client_logout(None).await.unwrap().is_none());
}

/// The provider answers a background request after it has ended the user's access.
#[tokio::test]
async fn a_late_answer_does_not_restore_a_withdrawn_confirmation() {
    let world = World::start("domains = [\"acme.test\"]", "").await;
    let browser = world.provider.browser();
    world.tokens(&browser).await;
    let session = world.session(&browser).await;
    let place = SignInPlace { session: session.id, subject: session.sign_ins[0].subject };
    let sealgate = &world.provider.sealgate;
    let source = sealgate.sources.upstream(&SourceName::parse("acme").unwrap()).unwrap();
    world.upstream.state().hangs = true;
    let end = async {
        let waited = tokio::time::timeout(std::time::Duration::from_secs(30), async {
            while world.upstream.state().hanging == 0 {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        });
        waited.await.unwrap();
        assert_eq!(send_logout(&world, &json!({ "sub": "id-of-anna" })).await, 200);
        world.upstream.state().hangs = false;
    };
    let (refreshed, ()) = tokio::join!(sealgate.refresh_sign_in(source, place, None), end);
    refreshed.unwrap();
    let anna = sealgate.store.user(place.subject).await.unwrap().unwrap();
    assert_eq!(anna.source.unwrap().confirmed_at, None);
}
