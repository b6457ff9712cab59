//! Tests the links that users add and remove on the page "Security", with an OpenID provider.
//! `tests/blackbox/directory/linking.rs` tests directories.

use sealgate_domain::audit::{AuditEvent, AuditFilter, AuditKind};
use sealgate_domain::grant::EndReason;
use sealgate_domain::mail::{Mail, Notice};
use sealgate_domain::pending_link::LINK_LIFE;
use sealgate_domain::source::SourceLink;
use sealgate_domain::user::{PasswordHash, User, UserState};
use sealgate_domain::username::Username;
use sealgate_store::RenameOutcome;
use serde_json::json;

use crate::authenticator::Ceremony;
use crate::mailbox::{self, MAIL};
use crate::meddler::{At, Meddler};
use crate::second_factor::{answer, passkey, with_key};
use crate::steps::{with_anna, with_anna_and_ben};
use crate::support::{Browser, Provider, Reply, Tokens, is_login};
use crate::undo::{press, taken_to};
use crate::upstream::{World, is_sign_in};

const SECURITY: &str = "/account/security";
const LINK: &str = "/account/security/link?source=acme";
const CONFIRM: &str = "/account/security/link/confirm";
const UNLINK: &str = "/account/security/unlink";

async fn world() -> World {
    World::start("", "").await
}

/// Begins a link. Returns the page that sends the browser to the provider.
async fn begin(browser: &Browser<'_>) -> Reply {
    let page = browser.open(LINK).await;
    assert!(page.text().contains("id=\"link-submit\""), "{page:?}");
    browser.submit(&page, &[]).await
}

/// Begins a link and signs in at the provider. Returns the path of the answer.
async fn answered(world: &World, browser: &Browser<'_>) -> String {
    world.approve(&begin(browser).await).await
}

/// Returns the page that asks for confirmation.
async fn proven(world: &World, browser: &Browser<'_>) -> Reply {
    let page = browser.open(&answered(world, browser).await).await;
    assert!(page.text().contains("id=\"link-confirm\""), "{page:?}");
    page
}

async fn link(world: &World, browser: &Browser<'_>) -> Reply {
    let page = proven(world, browser).await;
    let done = browser.submit(&page, &[]).await;
    assert!(done.text().contains("Accounts linked"), "{done:?}");
    done
}

async fn user(world: &World, user: &User) -> User {
    world.provider.sealgate.store.user(user.sub).await.unwrap().unwrap()
}

/// Asserts that neither Anna nor Ben has a link, and that Anna's password is unchanged.
async fn assert_not_linked(world: &World) {
    let provider = &world.provider;
    for before in [&provider.anna, &provider.ben] {
        let now = user(world, before).await;
        assert_eq!((&now.source, now.password.is_some()), (&None, true), "{now:?}");
    }
}

fn is_refused_trip(page: &Reply) -> bool {
    page.status == 400 && page.text().contains("was started in another browser or another session")
}

async fn new_browser_of_anna(world: &World) -> Browser<'_> {
    with_anna(&world.provider).await
}

#[tokio::test]
async fn a_user_links_an_account_of_a_provider_and_then_signs_in_there() {
    let world = World::start("groups_claim = \"groups\"", MAIL).await;
    world.upstream.state().claims["groups"] = json!(["staff"]);
    let (provider, client) = (&world.provider, world.provider.c1());
    provider.sealgate.store.change_user(provider.anna.sub, |user| user.groups = ["own".into()].into()).await.unwrap();
    let browser = new_browser_of_anna(&world).await;
    let tokens = client.tokens("openid offline_access").await;
    let page = browser.open(SECURITY).await;
    assert!(page.text().contains("Linked accounts") && page.text().contains("id=\"link-acme\""), "{page:?}");

    let page = proven(&world, &browser).await;
    for expected in ["anna@example.test", "anna@acme.test", "Your password here is removed"] {
        assert!(page.text().contains(expected), "{expected}: {page:?}");
    }
    assert!(!page.text().contains("id=\"link-administrator\""), "{page:?}");
    assert_not_linked(&world).await;
    let done = browser.submit(&page, &[]).await;
    assert!(done.text().contains("sign in with your account at <bdi>acme</bdi>"), "{done:?}");

    let linked = user(&world, &provider.anna).await;
    let source = linked.source.as_ref().unwrap();
    assert_eq!((source.link.source.as_str(), source.link.id.as_bytes()), ("acme", b"id-of-anna".as_slice()));
    assert!(source.linked.unwrap().by_user && linked.password.is_none(), "{linked:?}");
    assert_eq!(linked.email.as_ref().unwrap().as_str(), "anna@acme.test");
    assert!(linked.is_in_group("own") && linked.is_in_group("acme:staff"), "{linked:?}");
    // All access has ended, and the password is gone.
    let page = browser.open("/account").await;
    assert!(is_sign_in(&page), "{page:?}");
    client.refresh(&tokens.refresh).await.assert_error(400, "invalid_grant");
    let refused = browser.sign_in(&page, "anna@acme.test").await;
    assert!(refused.text().contains("Incorrect"), "{refused:?}");
    // The old address receives the notice, because the source determines the new one.
    let mails = mailbox::take(&provider.sealgate).await;
    let told: Vec<_> = mails.iter().map(|mail| (&mail.mail, mailbox::address(mail))).collect();
    let notice = Mail::Notice { notice: Notice::AccountLinked, count: 1 };
    assert_eq!(told, [(&notice, "anna@example.test".to_owned())]);

    let page = world.sign_in(&browser, &page).await;
    assert!(page.text().contains("anna@acme.test"), "{page:?}");
    let page = browser.open(SECURITY).await;
    assert!(page.text().contains("id=\"unlink\"") && !page.text().contains("id=\"link-acme\""), "{page:?}");
    let users = world.provider.sealgate.store.user_by_source_link(&source.link).await.unwrap().unwrap();
    assert_eq!(users.sub, provider.anna.sub);
    let store = &provider.sealgate.store;
    provider.sealgate.audit.write(store).await.unwrap();
    let filter = AuditFilter { kinds: vec![AuditKind::AccountLinked], ..AuditFilter::default() };
    let events = store.audit_page(&filter, None, 10).await.unwrap().records;
    assert_eq!(events.len(), 1);
    assert_eq!((events[0].event.subject, events[0].event.detail.as_deref()), (Some(provider.anna.sub), Some("acme")));
}

#[tokio::test]
async fn the_page_says_what_a_link_means_for_an_administrator() {
    let world = world().await;
    let role = sealgate_domain::user::Role::Admin;
    let store = &world.provider.sealgate.store;
    store.change_user(world.provider.anna.sub, |user| user.roles = [role].into()).await.unwrap();
    let browser = new_browser_of_anna(&world).await;
    let page = proven(&world, &browser).await;
    assert!(page.text().contains("id=\"link-administrator\""), "{page:?}");
}

#[tokio::test]
async fn an_account_of_another_user_is_not_linked() {
    let world = world().await;
    // The account has signed in before, as a user of its own.
    world.tokens(&world.provider.browser()).await;
    let browser = new_browser_of_anna(&world).await;
    let page = browser.open(&answered(&world, &browser).await).await;
    assert!(page.status == 409 && page.text().contains("sealgate user link"), "{page:?}");
    let csrf = crate::steps::csrf_of(&browser.open(LINK).await);
    assert_eq!(browser.post(CONFIRM, &[("csrf", &csrf)]).await.status, 409);
    assert_not_linked(&world).await;
}

#[tokio::test]
async fn a_name_of_another_user_stops_a_link_before_anything_changes() {
    let world = World::start("username_claim = \"nick\"", MAIL).await;
    let name = Username::parse("ben-at-work");
    let store = &world.provider.sealgate.store;
    let renamed = store.rename_user(world.provider.ben.sub, |ben| ben.username = name.clone()).await.unwrap();
    assert!(matches!(renamed, RenameOutcome::Renamed(_)));
    world.upstream.state().claims["nick"] = json!("ben-at-work");
    let browser = new_browser_of_anna(&world).await;
    let page = proven(&world, &browser).await;
    let refused = browser.submit(&page, &[]).await;
    assert!(refused.status == 409 && refused.text().contains("has the email address or username"), "{refused:?}");
    assert_not_linked(&world).await;
    assert_eq!(browser.open("/account").await.status, 200);
}

#[tokio::test]
async fn a_linked_user_has_one_link() {
    let world = world().await;
    let browser = new_browser_of_anna(&world).await;
    link(&world, &browser).await;
    let page = browser.open(SECURITY).await;
    world.sign_in(&browser, &page).await;
    for page in [LINK, CONFIRM] {
        let refused = browser.open(page).await;
        assert!(refused.status == 409 && refused.text().contains("already linked"), "{refused:?}");
    }
}

/// An attacker has a victim's browser finish the attacker's trip.
#[tokio::test]
async fn a_planted_answer_links_nobody_and_signs_nobody_in() {
    let world = world().await;
    let attacker = world.provider.browser();
    let page = attacker.open("/account").await;
    attacker.sign_in(&page, "ben@example.test").await;
    let planted = answered(&world, &attacker).await;
    let victim = new_browser_of_anna(&world).await;
    let stranger = world.provider.browser();
    for browser in [&victim, &stranger] {
        let page = browser.open(&planted).await;
        assert!(is_refused_trip(&page), "{page:?}");
    }
    assert!(is_sign_in(&stranger.open("/account").await));
    let page = victim.open(CONFIRM).await;
    assert!(is_refused_trip(&page), "{page:?}");
    assert!(world.upstream.state().redeemed.is_empty());
    assert_not_linked(&world).await;
    // The attacker's own browser can still finish it.
    let page = attacker.open(&planted).await;
    assert!(page.text().contains("id=\"link-confirm\""), "{page:?}");
    let page = victim.open(CONFIRM).await;
    assert!(is_refused_trip(&page), "{page:?}");
}

#[tokio::test]
async fn an_answer_belongs_to_the_session_that_began() {
    let world = world().await;
    let first = new_browser_of_anna(&world).await;
    let returned = answered(&world, &first).await;
    let second = new_browser_of_anna(&world).await;
    assert!(is_refused_trip(&second.open(&returned).await));
    // A new sign-in in the same browser has another cookie.
    world.provider.wait(10);
    let page = first.open(&world.provider.c1().authorize(&[("prompt", "login")])).await;
    first.sign_in(&page, "anna@example.test").await;
    assert!(is_refused_trip(&first.open(&returned).await));
    assert!(world.upstream.state().redeemed.is_empty());
    // The same for a proven account.
    proven(&world, &second).await;
    assert!(is_refused_trip(&first.open(CONFIRM).await));
    let page = second.open(&world.provider.c1().authorize(&[("prompt", "login")])).await;
    second.sign_in(&page, "anna@example.test").await;
    assert!(is_refused_trip(&second.open(CONFIRM).await));
    assert_not_linked(&world).await;
}

#[tokio::test]
async fn an_answer_is_used_once() {
    let world = world().await;
    let browser = new_browser_of_anna(&world).await;
    let returned = answered(&world, &browser).await;
    let page = browser.open(&returned).await;
    assert!(page.text().contains("id=\"link-confirm\""), "{page:?}");
    assert!(is_refused_trip(&browser.open(&returned).await));
    assert_eq!(world.upstream.state().redeemed.len(), 1);
    // A new trip replaces the first.
    let first = answered(&world, &browser).await;
    let second = answered(&world, &browser).await;
    assert!(is_refused_trip(&browser.open(&first).await));
    let page = browser.open(&second).await;
    assert!(page.text().contains("id=\"link-confirm\""), "{page:?}");
    let done = browser.submit(&page, &[]).await;
    assert!(done.text().contains("Accounts linked"), "{done:?}");
    assert!(is_sign_in(&browser.submit(&page, &[]).await));
}

#[tokio::test]
async fn trips_of_sign_ins_and_of_links_are_not_exchangeable() {
    let world = world().await;
    let browser = new_browser_of_anna(&world).await;
    // The answer of a sign-in, with the mark of a link.
    let page = browser.open(&world.provider.c1().authorize(&[("prompt", "login")])).await;
    let page = browser.submit(&page, &[("upstream", "acme")]).await;
    let returned = world.approve(&page).await;
    let state = returned.split("state=").nth(1).unwrap().split('&').next().unwrap().to_owned();
    let marked = returned.replace(&state, &format!("{}.link", state.split('.').next().unwrap()));
    assert!(is_refused_trip(&browser.open(&marked).await));
    let both = format!("{returned}&state={}.link", state.split('.').next().unwrap());
    assert_eq!(browser.open(&both).await.status, 400);
    // Unchanged, it signs its user in, and links nobody.
    let page = browser.open(&returned).await;
    assert!(crate::support::is_consent(&page), "{page:?}");
    assert_not_linked(&world).await;

    // The answer for a link signs nobody in, also after a sign-out.
    let world = self::world().await;
    let browser = new_browser_of_anna(&world).await;
    let returned = answered(&world, &browser).await;
    let page = browser.open("/oauth/logout").await;
    browser.submit(&page, &[("logout-confirm", "yes")]).await;
    assert!(is_refused_trip(&browser.open(&returned).await));
    assert!(is_sign_in(&browser.open("/account").await));
    let link = SourceLink {
        source: sealgate_domain::source::SourceName::parse("acme").unwrap(),
        id: sealgate_domain::source::SourceId::from_bytes(b"id-of-anna").unwrap(),
    };
    assert!(world.provider.sealgate.store.user_by_source_link(&link).await.unwrap().is_none());
}

#[tokio::test]
async fn an_answer_belongs_to_the_selected_user() {
    let world = world().await;
    let browser = new_browser_of_anna(&world).await;
    let returned = answered(&world, &browser).await;
    let other = with_anna_and_ben(&world.provider).await;
    assert!(is_refused_trip(&other.open(&returned).await));
    assert_not_linked(&world).await;
}

#[tokio::test]
async fn forms_of_other_sites_begin_and_confirm_no_link() {
    let world = world().await;
    let browser = new_browser_of_anna(&world).await;
    let page = browser.post("/account/security/link", &[("source", "acme")]).await;
    assert_eq!(page.status, 400, "{page:?}");
    assert!(world.upstream.state().authorizations.is_empty());
    let begun = crate::steps::csrf_of(&browser.open(LINK).await);
    let page = proven(&world, &browser).await;
    for fields in [&[][..], &[("csrf", "x")], &[("csrf", begun.as_str())]] {
        assert_eq!(browser.post(CONFIRM, fields).await.status, 400, "{fields:?}");
    }
    // The account was replaced in another tab after the page was shown.
    world.upstream.state().claims["sub"] = json!("id-of-otto");
    let other = proven(&world, &browser).await;
    assert_eq!(browser.submit(&page, &[]).await.status, 400);
    assert_not_linked(&world).await;
    browser.submit(&other, &[]).await;
    let linked = user(&world, &world.provider.anna).await;
    assert_eq!(linked.source.unwrap().link.id.as_bytes(), b"id-of-otto");
}

#[tokio::test]
async fn a_link_that_the_user_cancels_is_over() {
    let world = world().await;
    let browser = new_browser_of_anna(&world).await;
    let page = proven(&world, &browser).await;
    let after = browser.submit(&page, &[("cancel", "yes")]).await;
    assert!(after.text().contains("id=\"link-acme\""), "{after:?}");
    assert!(is_refused_trip(&browser.submit(&page, &[]).await));
    assert_not_linked(&world).await;
}

#[tokio::test]
async fn a_link_needs_a_recent_sign_in_and_expires() {
    let world = world().await;
    let browser = new_browser_of_anna(&world).await;
    let form = browser.open(LINK).await;
    let page = proven(&world, &browser).await;
    world.provider.wait(LINK_LIFE.as_secs() - 1);
    assert_eq!(browser.open(CONFIRM).await.status, 200);
    world.provider.wait(1);
    assert!(is_refused_trip(&browser.submit(&page, &[]).await));
    assert!(is_login(&browser.open(LINK).await));
    // The form was opened in time. After twenty minutes, it is too late for it, too.
    world.provider.wait(20 * 60 - LINK_LIFE.as_secs() + 1);
    assert!(is_login(&browser.submit(&form, &[]).await));
    assert!(is_login(&browser.submit(&page, &[]).await));
    assert_not_linked(&world).await;
}

#[tokio::test]
async fn a_changed_account_ends_a_link_that_was_begun() {
    type Change = fn(&mut User);
    let changes: [Change; 2] = [
        |user| user.password = Some(PasswordHash::new("$argon2id$other".to_owned())),
        |user| user.state = UserState::Disabled,
    ];
    for change in changes {
        let world = world().await;
        let browser = new_browser_of_anna(&world).await;
        let page = proven(&world, &browser).await;
        world.provider.sealgate.store.change_user(world.provider.anna.sub, change).await.unwrap();
        let refused = browser.submit(&page, &[]).await;
        assert!(is_refused_trip(&refused) || is_login(&refused), "{refused:?}");
        assert!(user(&world, &world.provider.anna).await.source.is_none());
    }
    // All access was revoked, and the user has signed in again.
    let world = world().await;
    let browser = new_browser_of_anna(&world).await;
    let returned = answered(&world, &browser).await;
    let store = &world.provider.sealgate.store;
    let now = sealgate_system::clock::Clock::now(&*world.provider.clock);
    store.revoke_user(world.provider.anna.sub, EndReason::Administrator, now).await.unwrap();
    let page = browser.open("/account").await;
    browser.sign_in(&page, "anna@example.test").await;
    assert!(is_refused_trip(&browser.open(&returned).await));
    assert!(store.account_links(world.provider.anna.sub).await.unwrap().is_none());
}

#[tokio::test]
async fn problems_of_the_provider_are_reported_and_link_nobody() {
    let world = world().await;
    let browser = new_browser_of_anna(&world).await;
    world.upstream.state().error = Some("access_denied");
    let page = browser.open(&answered(&world, &browser).await).await;
    assert!(page.status == 403 && page.text().contains("was cancelled or denied"), "{page:?}");
    world.upstream.state().error = None;
    world.upstream.state().iss = Some("https://other.test".to_owned());
    let page = browser.open(&answered(&world, &browser).await).await;
    assert!(page.status == 403 && page.text().contains("could not be accepted"), "{page:?}");
    world.upstream.state().iss = None;
    assert_not_linked(&world).await;
    link(&world, &browser).await;
}

/// The verifier and the nonce depend on the session. Neither is stored.
#[tokio::test]
async fn the_code_of_another_session_proves_nothing() {
    let world = world().await;
    let (first, second) = (new_browser_of_anna(&world).await, world.provider.browser());
    let page = second.open("/account").await;
    second.sign_in(&page, "ben@example.test").await;
    let (own, other) = (answered(&world, &first).await, answered(&world, &second).await);
    let code = |answer: &str| answer.split("code=").nth(1).unwrap().split('&').next().unwrap().to_owned();
    let mixed = own.replace(&code(&own), &code(&other));
    let page = first.open(&mixed).await;
    assert!(page.status == 403 && page.text().contains("could not be accepted"), "{page:?}");
    assert_not_linked(&world).await;
}

#[tokio::test]
async fn operators_can_reserve_links_for_administrators() {
    let world = World::start("linking = false", "").await;
    let browser = new_browser_of_anna(&world).await;
    assert!(!browser.open(SECURITY).await.text().contains("Linked accounts"));
    assert_eq!(browser.open(LINK).await.status, 404);
    let csrf = crate::steps::csrf_of(&browser.open("/account").await);
    assert_eq!(browser.post("/account/security/link", &[("source", "acme"), ("csrf", &csrf)]).await.status, 400);
    assert_eq!(browser.open("/account/security/link?source=other").await.status, 404);
}

/// Another user gets the link between the decision and the commit.
#[tokio::test]
async fn of_two_users_who_link_an_account_at_once_one_is_refused() {
    let slot = std::sync::OnceLock::new();
    let world = World::start_with("", "", async |section| {
        let (provider, meddler) = Provider::meddled_with(&section).await;
        assert!(slot.set(meddler).is_ok());
        provider
    })
    .await;
    let meddler: &Meddler = slot.get().unwrap();
    let (anna, ben) = (new_browser_of_anna(&world).await, world.provider.browser());
    let page = ben.open("/account").await;
    ben.sign_in(&page, "ben@example.test").await;
    let (of_anna, of_ben) = (proven(&world, &anna).await, proven(&world, &ben).await);
    let stop = meddler.stop(At::BeforeCommit, b'u');
    let (late, early) = tokio::join!(anna.submit(&of_anna, &[]), stop.meanwhile(ben.submit(&of_ben, &[])));
    assert!(early.text().contains("Accounts linked"), "{early:?}");
    assert!(late.status == 409 && late.text().contains("already belongs to another account"), "{late:?}");
    let anna = user(&world, &world.provider.anna).await;
    assert!(anna.source.is_none() && anna.password.is_some(), "{anna:?}");
}

#[tokio::test]
async fn a_user_with_a_passkey_removes_the_link() {
    let world = World::start("groups_claim = \"groups\"\ndomains = [\"acme.test\"]", MAIL).await;
    world.upstream.state().claims["groups"] = json!(["staff"]);
    world.upstream.state().claims["email_verified"] = json!(true);
    let provider = &world.provider;
    let (browser, key) = with_key(provider, "passkey").await;
    link(&world, &browser).await;
    let page = browser.open(SECURITY).await;
    let signed = answer(&page, &key, |ceremony| ceremony);
    let page = passkey(&browser, &page, &signed).await;
    assert!(page.text().contains("id=\"unlink\""), "{page:?}");
    mailbox::take(&provider.sealgate).await;

    let page = browser.open(UNLINK).await;
    assert_eq!(browser.post(UNLINK, &[]).await.status, 400);
    assert!(user(&world, &provider.anna).await.source.is_some());
    let tokens = Tokens::of(
        &provider.c1().redeem(&provider.c1().code_in(&browser, &[("scope", "openid offline_access")]).await).await,
    );
    let done = browser.submit(&page, &[]).await;
    assert!(done.text().contains("Link removed"), "{done:?}");
    let unlinked = user(&world, &provider.anna).await;
    assert!(unlinked.source.is_none() && unlinked.is_enabled() && !unlinked.is_in_group("acme:staff"), "{unlinked:?}");
    provider.c1().refresh(&tokens.refresh).await.assert_error(400, "invalid_grant");
    // The user signs in with the passkey, and no longer at the provider.
    let page = browser.open(SECURITY).await;
    assert!(is_sign_in(&page), "{page:?}");
    let other = provider.browser();
    let sign_in = other.open(SECURITY).await;
    let refused = world.sign_in(&other, &sign_in).await;
    assert!(refused.status == 403 && refused.text().contains("Another account here"), "{refused:?}");
    let signed = answer(&page, &key, |ceremony| Ceremony { sign_count: ceremony.sign_count + 1, ..ceremony });
    let page = passkey(&browser, &page, &signed).await;
    assert!(page.text().contains("id=\"link-acme\""), "{page:?}");
    let events = provider.sealgate.audit.take_notices();
    let notices: Vec<_> = events.iter().filter_map(AuditEvent::notice).collect();
    assert!(notices.contains(&Notice::AccountUnlinked), "{notices:?}");
}

#[tokio::test]
async fn a_link_stays_if_the_user_could_not_sign_in_without_it() {
    let world = world().await;
    let browser = new_browser_of_anna(&world).await;
    link(&world, &browser).await;
    let page = browser.open(SECURITY).await;
    world.sign_in(&browser, &page).await;
    let refused = browser.open(UNLINK).await;
    assert!(refused.status == 409 && refused.text().contains("Add a passkey first"), "{refused:?}");
    assert!(refused.text().contains("href=\"/account/security/key\""), "{refused:?}");
    assert!(user(&world, &world.provider.anna).await.source.is_some());
}

/// Otherwise users could leave a source before it disables their account.
#[tokio::test]
async fn links_of_administrators_and_of_the_source_stay() {
    let world = world().await;
    let browser = world.provider.browser();
    world.tokens(&browser).await;
    let refused = |page: &Reply| page.status == 403 && page.text().contains("Only an administrator");
    assert!(refused(&browser.open(UNLINK).await));
    let page = browser.open(SECURITY).await;
    assert!(page.text().contains("id=\"linked\"") && !page.text().contains("id=\"unlink\""), "{page:?}");

    let world = self::world().await;
    let (provider, store) = (&world.provider, &world.provider.sealgate.store);
    let link = SourceLink {
        source: sealgate_domain::source::SourceName::parse("acme").unwrap(),
        id: sealgate_domain::source::SourceId::from_bytes(b"id-of-anna").unwrap(),
    };
    let now = sealgate_system::clock::Clock::now(&*provider.clock);
    let revocation = store.new_revocation(provider.anna.sub, EndReason::Administrator, now);
    assert!(matches!(store.link_user(&revocation, &link).await.unwrap(), sealgate_store::LinkOutcome::Changed(..)));
    let browser = provider.browser();
    let page = browser.open(SECURITY).await;
    let page = world.sign_in(&browser, &page).await;
    assert!(page.text().contains("Linked: ") && !page.text().contains("id=\"unlink\""), "{page:?}");
    assert!(refused(&browser.open(UNLINK).await));
}

/// A provider on which users type their address must not give a local user the address of another.
#[tokio::test]
async fn an_unverified_address_of_the_source_goes_with_the_link() {
    let world = World::start("", MAIL).await;
    let provider = &world.provider;
    world.upstream.state().claims["email"] = json!("boss@corp.test");
    let (browser, key) = with_key(provider, "passkey").await;
    link(&world, &browser).await;
    let page = browser.open(SECURITY).await;
    passkey(&browser, &page, &answer(&page, &key, |ceremony| ceremony)).await;
    let refused = browser.submit(&browser.open(UNLINK).await, &[]).await;
    assert!(refused.status == 409 && refused.text().contains("neither a verified email"), "{refused:?}");
    let name = Username::parse("anna");
    let renamed = provider.sealgate.store.rename_user(provider.anna.sub, |anna| anna.username = name.clone()).await;
    assert!(matches!(renamed.unwrap(), RenameOutcome::Renamed(_)));
    let done = browser.submit(&browser.open(UNLINK).await, &[]).await;
    assert!(done.text().contains("Link removed"), "{done:?}");
    let unlinked = user(&world, &provider.anna).await;
    assert_eq!((unlinked.source, unlinked.email), (None, None));
    let owner = provider.sealgate.store.user_by_sign_in_name("boss@corp.test").await.unwrap();
    assert!(owner.is_none(), "{owner:?}");
}

/// A linked account of an attacker would open the account again.
#[tokio::test]
async fn an_undo_closes_an_account_that_was_linked_meanwhile() {
    let world = World::start("", MAIL).await;
    let thief = new_browser_of_anna(&world).await;
    let undo = taken_to(&thief, &world.provider, "thief@evil.test").await;
    link(&world, &thief).await;
    let done = press(&world.provider.browser(), &undo).await;
    assert_eq!(done.status, 200, "{done:?}");
    assert_eq!(user(&world, &world.provider.anna).await.state, UserState::Disabled);
}

/// A stolen password alone must not add a way to sign in.
#[tokio::test]
async fn users_who_need_an_enrolment_link_link_no_account() {
    let world = World::start("", &format!("{MAIL}[factors]\nenrolment = \"administrator\"\n")).await;
    let browser = new_browser_of_anna(&world).await;
    assert_eq!(browser.open(LINK).await.status, 403);
    assert_not_linked(&world).await;
}
