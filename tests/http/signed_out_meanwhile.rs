//! Tests sessions that end while one of their requests is about to write: the write is rejected.

use std::pin::Pin;

use sealgate_domain::grant::EndReason;
use sealgate_domain::user::{Role, User, UserState};
use sealgate_domain::webauthn::KeyAlgorithm;
use sealgate_store::engine::{Engine as _, Key, Value};
use sealgate_system::clock::Clock as _;

use tokio::sync::oneshot;

use crate::authenticator::Authenticator;
use crate::mailbox::{self, MAIL};
use crate::meddler::{At, Meddler};
use crate::security::{key_of, secret, send, with_app};
use crate::steps::{assert_code, assert_consent, assert_login, csrf_of, with_anna};
use crate::support::{Browser, PASSWORD, Provider, Reply, hidden_fields};
use crate::totp::code;

const APP_PASSWORDS: &str = r#"
    [[app]]
    name = "git"
    host = "git.test"
    upstreams = ["http://127.0.0.1:8081"]
    [[app.route]]
    path = "/"
    access = "signed_in"
    app_passwords = true
"#;

/// Returns all records of a table.
async fn rows(provider: &Provider, table: u8) -> Vec<(Key, Value)> {
    provider.engine.scan(&[table], None, 1000).await.unwrap()
}

/// Revokes all of Anna's sessions and tokens, as an administrator does.
async fn revoke(provider: &Provider) {
    let now = provider.clock.now();
    provider.sealgate.store.revoke_user(provider.anna.sub, EndReason::Administrator, now).await.unwrap();
}

/// Stops the request before its commit to the table (after `skip` commits), ends the session by
/// `end`, and resumes the request. Asserts that the request wrote nothing to the table.
fn assert_writes_nothing<'t>(
    provider: &'t Provider,
    meddler: &'t Meddler,
    (table, skip): (u8, usize),
    end: impl Future<Output = ()> + 't,
    request: impl Future<Output = Reply> + 't,
) -> Pin<Box<dyn Future<Output = Reply> + 't>> {
    let stop = meddler.stop_later(At::BeforeCommit, table, skip);
    let meanwhile = stop.meanwhile(async move {
        end.await;
        rows(provider, table).await
    });
    Box::pin(async move {
        let (reply, before) = tokio::join!(request, meanwhile);
        assert_eq!(rows(provider, table).await, before, "table {}: {reply:?}", char::from(table));
        reply
    })
}

async fn app_password(browser: &Browser<'_>) -> Reply {
    let page = browser.get("/account/app-passwords").await;
    let csrf = csrf_of(&page);
    browser.post("/account/app-passwords", &[("csrf", &csrf), ("app", "git"), ("name", "x")]).await
}

/// A sign-in that waits for its second step is no session, but would become one.
#[tokio::test]
async fn a_pending_sign_in_restarts_when_all_sessions_end() {
    for by_administrator in [true, false] {
        let provider = Provider::new().await;
        let (owner, secret) = with_app(&provider).await;
        provider.wait(60);
        let half = provider.browser();
        let page = half.open(&provider.c1().authorize(&[])).await;
        let page = half.sign_in(&page, "anna@example.test").await;
        assert!(page.text().contains("Verify it’s you"), "{page:?}");
        if by_administrator {
            revoke(&provider).await;
        } else {
            let sessions = owner.get("/account/sessions").await;
            let csrf = csrf_of(&sessions);
            let ended = owner.post("/account/sessions", &[("csrf", &csrf), ("others", "yes")]).await;
            assert_eq!(ended.status, 303, "{ended:?}");
        }
        let code = code(&secret, provider.clock.now().seconds());
        let login = half.submit(&page, &[("code", &code)]).await;
        assert_login(&login);
        assert!(half.get("/account").await.status != 200);
        // The request itself is still there.
        let page = half.sign_in(&login, "anna@example.test").await;
        assert_code(&half.submit(&page, &[("code", &code)]).await);
    }
}

#[tokio::test]
async fn a_concurrently_ended_session_creates_no_application_password() {
    for how in ["revoked", "disabled", "password", "signed out"] {
        let (provider, meddler) = Provider::meddled_with(APP_PASSWORDS).await;
        let thief = with_anna(&provider).await;
        let store = &provider.sealgate.store;
        let end = async {
            match how {
                "revoked" => revoke(&provider).await,
                "disabled" => drop(store.change_user(provider.anna.sub, |anna| anna.state = UserState::Disabled).await),
                "password" => {
                    let owner = provider.browser();
                    let login = owner.open("/account/password").await;
                    let page = owner.sign_in(&login, "anna@example.test").await;
                    let new = "a longer password than before";
                    owner.submit(&page, &[("current", PASSWORD), ("new", new), ("again", new)]).await;
                }
                _ => drop(store.end_sessions_of_user(provider.anna.sub).await),
            }
        };
        let reply = assert_writes_nothing(&provider, &meddler, (b'k', 0), end, app_password(&thief)).await;
        assert_eq!(reply.location(), "/account/app-passwords", "{how}");
        assert_login(&thief.follow(reply).await);
        assert_eq!(store.app_passwords(provider.anna.sub).await.unwrap().passwords, [], "{how}");
    }
}

#[tokio::test]
async fn a_concurrently_used_session_continues() {
    let (provider, meddler) = Provider::meddled_with(APP_PASSWORDS).await;
    let browser = with_anna(&provider).await;
    let page = browser.get("/account/app-passwords").await;
    let csrf = csrf_of(&page);
    let form = [("csrf", csrf.as_str()), ("app", "git"), ("name", "x")];
    let stop = meddler.stop(At::BeforeCommit, b'k');
    let other_tab = async {
        provider.wait(120);
        assert_eq!(browser.get("/account").await.status, 200);
        provider.change_user(provider.anna.sub, |anna| anna.name = "Anna".to_owned()).await;
    };
    let (reply, ()) = tokio::join!(browser.post("/account/app-passwords", &form), stop.meanwhile(other_tab));
    let reply = browser.follow(reply).await;
    assert!(reply.text().contains("id=\"new-app-password\""), "{reply:?}");
}

#[tokio::test]
async fn a_concurrently_ended_session_adds_no_factor() {
    let now = |provider: &Provider| provider.clock.now().seconds();
    for kind in ["begun", "app", "key", "codes", "name"] {
        let (provider, meddler) = Provider::meddled().await;
        // Changing codes or a name requires an existing factor.
        let thief =
            if ["codes", "name"].contains(&kind) { with_app(&provider).await.0 } else { with_anna(&provider).await };
        let (at, request): (_, Pin<Box<dyn Future<Output = Reply>>>) = match kind {
            "begun" => (0, Box::pin(thief.get("/account/security/app"))),
            "app" => {
                let page = thief.open("/account/security/app").await;
                let typed = code(&secret(&page), now(&provider));
                let thief = &thief;
                (0, Box::pin(async move { send(thief, "/account/security/app", &page, &[("code", &typed)]).await }))
            }
            "key" => {
                let page = thief.open("/account/security/key").await;
                let made = key_of(&page, &Authenticator::new(KeyAlgorithm::Es256, &[9; 32]), |ceremony| ceremony);
                let thief = &thief;
                // The first commit uses the challenge up.
                (
                    1,
                    Box::pin(async move {
                        let fields = [("kind", "passkey"), ("credential", made.as_str())];
                        send(thief, "/account/security/key", &page, &fields).await
                    }),
                )
            }
            "codes" => {
                let page = thief.open("/account/security/codes").await;
                let thief = &thief;
                (0, Box::pin(async move { send(thief, "/account/security/codes", &page, &[]).await }))
            }
            _ => {
                let store = &provider.sealgate.store;
                let id = store.factors(provider.anna.sub).await.unwrap().unwrap().value.totp[0].id.to_string();
                let page = thief.open(&format!("/account/security/factor?id={id}")).await;
                let thief = &thief;
                (
                    0,
                    Box::pin(async move {
                        send(thief, "/account/security/factor", &page, &[("factor", &id), ("name", "mine")]).await
                    }),
                )
            }
        };
        let reply = assert_writes_nothing(&provider, &meddler, (b'f', at), revoke(&provider), request).await;
        assert_login(&thief.follow(reply).await);
    }
}

/// First commit of a password change by the owner or a reset of the factors by an administrator: no
/// session has ended yet.
#[tokio::test]
async fn no_factor_is_added_after_a_revocation_has_started() {
    let (provider, meddler) = Provider::meddled().await;
    let thief = with_anna(&provider).await;
    let page = thief.open("/account/security/key").await;
    let made = key_of(&page, &Authenticator::new(KeyAlgorithm::Es256, &[9; 32]), |ceremony| ceremony);
    let fields = [("kind", "passkey"), ("credential", made.as_str())];
    // The revocation stops after it was opened and before it ends the first session.
    let stop = meddler.stop(At::AfterCommit, b'O');
    let (added, ()) =
        tokio::join!(stop.meanwhile(send(&thief, "/account/security/key", &page, &fields)), revoke(&provider));
    assert_eq!(added.status, 503, "{added:?}");
    let factors = provider.sealgate.store.factors(provider.anna.sub).await.unwrap();
    assert!(factors.is_none_or(|factors| !factors.value.has_any()));
}

#[tokio::test]
async fn a_first_factor_is_not_added_in_a_sign_in_whose_password_was_replaced() {
    let (provider, meddler) = Provider::meddled_with("[factors]\nlevel = \"2\"\nenrolment = \"self\"\n").await;
    let thief = provider.browser();
    let login = thief.open("/account").await;
    let choice = thief.sign_in(&login, "anna@example.test").await;
    let links = choice.text().split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let link = links.into_iter().find(|link| link.contains("with=totp")).unwrap().replace("&#38;", "&");
    let page = thief.get(&link).await;
    let typed = code(&secret(&page), provider.clock.now().seconds());
    let set = async {
        let hash = sealgate_domain::user::PasswordHash::new("$argon2id$another".to_owned());
        provider.change_user(provider.anna.sub, |anna| anna.password = Some(hash.clone())).await;
    };
    let fields = [("code", typed.as_str())];
    let reply = assert_writes_nothing(&provider, &meddler, (b'f', 0), set, thief.submit_only(&page, &fields)).await;
    assert_login(&thief.follow(reply).await);
}

#[tokio::test]
async fn a_concurrently_ended_session_changes_no_account_data_and_gets_no_code() {
    let (provider, meddler) = Provider::meddled_with(MAIL).await;
    let thief = with_anna(&provider).await;
    let form = thief.get("/account/address/new").await;
    let asked = thief.submit_only(&form, &[("address", "thief@evil.test")]);
    let mails = rows(&provider, b'q').await;
    assert_writes_nothing(&provider, &meddler, (b'A', 0), revoke(&provider), asked).await;
    assert_eq!(rows(&provider, b'q').await, mails, "nor is a code mailed");

    let thief = with_anna(&provider).await;
    let form = thief.get("/account/address/new").await;
    thief.submit(&form, &[("address", "thief@evil.test")]).await;
    let (code, _) = mailbox::code(&provider.sealgate).await;
    let page = thief.get("/account/address").await;
    let fields = [("code", code.as_str())];
    let moved = thief.submit_only(&page, &fields);
    assert_writes_nothing(&provider, &meddler, (b'u', 0), revoke(&provider), moved).await;

    let thief = with_anna(&provider).await;
    let page = thief.get("/account").await;
    let renamed = thief.submit_only(&page, &[("name", "Thief"), ("phone_number", ""), ("picture", "")]);
    assert_writes_nothing(&provider, &meddler, (b'u', 0), revoke(&provider), renamed).await;

    let thief = with_anna(&provider).await;
    let consent = thief.open(&provider.c2().authorize(&[])).await;
    assert_consent(&consent);
    let before = rows(&provider, b'c').await;
    let allowed = thief.allow(&consent);
    let reply = assert_writes_nothing(&provider, &meddler, (b'n', 0), revoke(&provider), allowed).await;
    assert_login(&reply);
    assert_eq!(rows(&provider, b'c').await, before, "nor a code");
    let user: User = provider.sealgate.store.user(provider.anna.sub).await.unwrap().unwrap();
    assert_eq!((user.email, user.name), (provider.anna.email.clone(), provider.anna.name.clone()));
}

#[tokio::test]
async fn a_concurrently_signed_out_administrator_changes_nothing() {
    let new_client =
        [("name", "Wiki"), ("type", "public"), ("redirect_uris", "https://rp.test/cb"), ("scope_email", "yes")];
    let of_ben = |provider: &Provider| format!("/console/users/{}", provider.ben.sub);
    for (table, what) in [
        (b'l', "client"),
        (b'u', "password"),
        (b'u', "role"),
        (b'u', "address"),
        (b'u', "deletion"),
        (b'f', "factors"),
        (b'O', "revoke"),
    ] {
        let (provider, meddler) = Provider::meddled_with("[console]\nenabled = true\n").await;
        provider.change_user(provider.anna.sub, |anna| anna.roles = [Role::Admin].into()).await;
        let thief = with_anna(&provider).await;
        let path = if what == "client" { "/console/clients/new".to_owned() } else { of_ben(&provider) };
        let csrf = csrf_of(&thief.get(&path).await);
        let fields: &[(&str, &str)] = match what {
            "client" => &new_client,
            "password" => &[("action", "reset-password"), ("sure", "yes")],
            "role" => &[("action", "save"), ("role_admin", "yes"), ("groups", ""), ("sure", "yes")],
            "address" => &[("action", "save-profile"), ("email", "ben@evil.test"), ("name", "Ben"), ("sure", "yes")],
            "deletion" => &[("action", "delete"), ("sure", "yes")],
            "factors" => &[("action", "reset-factors"), ("sure", "yes")],
            _ => &[("action", "revoke"), ("sure", "yes")],
        };
        let mut all = [&[("csrf", csrf.as_str())], fields].concat();
        // The confirmation of a role has a digest of the sign-in data.
        let mut digest = None;
        if what == "role" {
            let question = thief.post(&path, &all[..all.len() - 1]).await;
            digest = hidden_fields(question.text()).into_iter().find(|(name, _)| name == "sign_in_data");
            assert!(digest.is_some(), "{question:?}");
        }
        all.extend(digest.iter().map(|(name, digest)| (name.as_str(), digest.as_str())));
        let end = async {
            provider.sealgate.store.end_sessions_of_user(provider.anna.sub).await.unwrap();
        };
        let reply = assert_writes_nothing(&provider, &meddler, (table, 0), end, thief.post(&path, &all)).await;
        assert_eq!((reply.status, reply.location()), (303, path.as_str()), "{what}");
    }
}

/// A session that changes its identifier while all sessions are being ended is ended under the new
/// one. The attacker has a copy of the cookie, and ends "all other sessions" in a loop.
#[tokio::test]
async fn a_session_renewed_during_a_revocation_ends() {
    let (provider, meddler) = Provider::meddled().await;
    let thief = with_anna(&provider).await;
    let csrf = csrf_of(&thief.get("/account/sessions").await);
    let fields = [("csrf", csrf.as_str()), ("others", "yes")];
    let ((held, is_held), (go, goes)) = (oneshot::channel(), oneshot::channel());
    let (moved, has_moved) = oneshot::channel();
    let stop = meddler.stop(At::BeforeCommit, b's');
    tokio::join!(
        async {
            assert_eq!(thief.post("/account/sessions", &fields).await.status, 303);
            moved.send(()).unwrap();
        },
        stop.meanwhile(async {
            held.send(()).unwrap();
            goes.await.unwrap();
        }),
        async {
            is_held.await.unwrap();
            // The session changes its identifier after the revocation has read it under the old
            // one.
            let stop = meddler.stop(At::AfterGet, b's');
            let release = async {
                go.send(()).unwrap();
                has_moved.await.unwrap();
            };
            tokio::join!(revoke(&provider), stop.meanwhile(release));
        }
    );
    let left = provider.sealgate.store.sessions_of_user(provider.anna.sub, None, 10).await.unwrap().sessions;
    assert!(left.is_empty(), "{left:?}");
    assert_login(&thief.open("/account").await);
}

#[tokio::test]
async fn a_session_is_not_renewed_across_a_password_change() {
    let (provider, meddler) = Provider::meddled().await;
    let thief = with_anna(&provider).await;
    let owner = provider.browser();
    owner.set_cookie("__Host-sealgate", &thief.cookie("__Host-sealgate").unwrap());
    let csrf = csrf_of(&thief.get("/account/sessions").await);
    let page = owner.get("/account/password").await;
    let new = "a longer password than before";
    let stop = meddler.stop(At::BeforeCommit, b's');
    let change = async {
        let changed = owner.submit(&page, &[("current", PASSWORD), ("new", new), ("again", new)]).await;
        assert!(changed.text().contains("class=\"done\""), "{changed:?}");
    };
    let fields = [("csrf", csrf.as_str()), ("others", "yes")];
    tokio::join!(thief.post("/account/sessions", &fields), stop.meanwhile(change));
    assert_login(&thief.open("/account").await);
    assert_eq!(owner.get("/account").await.status, 200);
}
