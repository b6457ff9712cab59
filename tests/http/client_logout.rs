//! Tests logout tokens to clients (OpenID Connect Back-Channel Logout 1.0), with receivers that the
//! tests start.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use sealgate::app::client_logouts;
use sealgate_admin::command::{Command, SessionCommand, UserCommand};
use sealgate_admin::{CommandContext, UserRef, execute};
use sealgate_core::state::Sealgate;
use sealgate_domain::audit::{AuditFilter, AuditKind};
use sealgate_domain::client::{Client, ClientId};
use sealgate_domain::client_logout::{BackchannelLogout, MAX_SESSION_CLIENTS, SessionClient};
use sealgate_domain::redirect_uri::RedirectUri;
use sealgate_domain::session::{Session, SessionCookie, SessionId};
use sealgate_store::engine::Engine;
use sealgate_store::{AuditRecord, MAX_WAITING_LOGOUTS, MAX_WAITING_LOGOUTS_OF_CLIENT};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::logout_receiver::{Answer, LogoutReceiver};
use crate::steps::with_anna;
use crate::support::{Browser, ISSUER, PASSWORD, Provider, Tokens, form_action, is_login, jwt_claims, token_device};

const LOOPBACK: &str = "[tokens]\nlogout_networks = [\"127.0.0.1\"]";
const ANNA: &str = "anna@example.test";
const NEW: &str = "a longer password than before";
const ADDRESS: &str = "/.well-known/openid-configuration";

/// Sets where a client receives logout tokens.
async fn receives(provider: &Provider, client: &str, uri: &str) {
    let logout = BackchannelLogout { uri: RedirectUri::parse(uri).unwrap(), session_required: false };
    provider.change_client(client, |client: &mut Client| client.backchannel_logout = Some(logout.clone())).await;
}

/// Running sender of logout tokens.
struct Worker {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Worker {
    fn start(sealgate: &Arc<Sealgate>) -> Self {
        let (stop, stopped) = watch::channel(false);
        Self { stop, task: tokio::spawn(client_logouts::run(Arc::clone(sealgate), stopped)) }
    }

    async fn stop(self) {
        self.stop.send(true).unwrap();
        self.task.await.unwrap();
    }
}

async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let held = timeout(Duration::from_secs(30), async {
        while !holds().await {
            sleep(Duration::from_millis(10)).await;
        }
    });
    assert!(held.await.is_ok(), "it never came to that: {what}");
}

/// Waits until no logout is queued, so that all were sent.
async fn until_sent(provider: &Provider) {
    until("the queue is empty", async || provider.sealgate.store.next_client_logout(None).await.unwrap().is_none())
        .await;
}

/// Gets tokens of a client for Anna in this browser.
async fn tokens_in(provider: &Provider, browser: &Browser<'_>, client: &str) -> Tokens {
    let client = crate::support::Client::confidential(provider, client);
    let code = client.code_in(browser, &[("scope", "openid offline_access")]).await;
    Tokens::of(&client.redeem(&code).await)
}

fn session_of(browser: &Browser<'_>) -> SessionId {
    SessionCookie::parse(&browser.cookie("__Host-sealgate").unwrap()).unwrap().id
}

/// Returns the claims of the tokens that a receiver has, as (`sub`, `sid`).
fn signed_out(receiver: &LogoutReceiver) -> BTreeSet<(String, String)> {
    let text = |claims: &Value, name: &str| claims[name].as_str().unwrap().to_owned();
    receiver.received().iter().map(|logout| (text(&logout.claims(), "sub"), text(&logout.claims(), "sid"))).collect()
}

fn metric(sealgate: &Sealgate, outcome: &str) -> u64 {
    let name = format!("sealgate_client_logouts_total{{outcome=\"{outcome}\"}} ");
    let text = sealgate.metrics.text();
    text.lines().find_map(|line| line.strip_prefix(&name)).unwrap_or_else(|| panic!("{outcome}")).parse().unwrap()
}

async fn run(provider: &Provider, command: Command) {
    execute(&CommandContext::new(&provider.sealgate), command).await.unwrap();
}

/// Ends Anna's session in this browser in one of several ways.
async fn end(provider: &Provider, browser: &Browser<'_>, tokens: &Tokens, cause: &str) {
    let anna = || UserRef::Sub(provider.anna.sub);
    match cause {
        "the client signs out" => {
            let reply = browser.get(&format!("/oauth/logout?id_token_hint={}", tokens.id)).await;
            assert_eq!(reply.status, 302, "{reply:?}");
        }
        "the user signs out" => {
            let page = browser.open("/oauth/logout").await;
            browser.submit(&page, &[("logout-confirm", "yes")]).await;
        }
        "the user ends the session in the list" => {
            let page = browser.open("/account/sessions").await;
            let csrf = crate::steps::csrf_of(&page);
            let id = session_of(browser);
            let reply =
                browser.post(&form_action(page.text()), &[("csrf", &csrf), ("end", &format!("session:{id}"))]).await;
            assert_eq!(reply.status, 303, "{reply:?}");
        }
        "the user ends all sessions" => {
            let page = browser.open("/account/sessions").await;
            let csrf = crate::steps::csrf_of(&page);
            let reply = browser.post("/account/sessions", &[("csrf", &csrf), ("everything", "yes")]).await;
            assert_eq!(reply.status, 303, "{reply:?}");
        }
        "the user ends all others" => {
            let other = with_anna(provider).await;
            let page = other.open("/account/sessions").await;
            other.submit(&page, &[("others", "yes")]).await;
        }
        "the user changes the password" => {
            let page = browser.open("/account/password").await;
            let reply = browser.submit(&page, &[("current", PASSWORD), ("new", NEW), ("again", NEW)]).await;
            assert_eq!(reply.status, 200, "{reply:?}");
            // This browser stays signed in, but its clients have lost their tokens.
            assert_eq!(browser.get("/account").await.status, 200);
        }
        "an administrator ends the session" => {
            run(provider, Command::Session(SessionCommand::Revoke { sid: session_of(browser) })).await;
        }
        "an administrator ends all access" => run(provider, Command::User(UserCommand::Revoke(anna().into()))).await,
        "an administrator disables the user" => {
            run(provider, Command::User(UserCommand::Disable(anna().into()))).await;
        }
        "an administrator deletes the user" => run(provider, Command::User(UserCommand::Delete(anna().into()))).await,
        other => panic!("{other}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_end_of_a_session_reaches_its_clients_and_no_other() {
    for cause in [
        "the client signs out",
        "the user signs out",
        "the user ends the session in the list",
        "the user ends all sessions",
        "the user ends all others",
        "the user changes the password",
        "an administrator ends the session",
        "an administrator ends all access",
        "an administrator disables the user",
        "an administrator deletes the user",
    ] {
        let provider = Provider::with(LOOPBACK).await;
        let [first, second, third] = [(); 3].map(|()| LogoutReceiver::start());
        provider.add_client(provider.confidential("c3")).await;
        for (client, receiver) in [("c1", &first), ("c2", &second), ("c3", &third)] {
            receives(&provider, client, &receiver.uri()).await;
        }
        // Ben has tokens of c1 and c3 in his own session, Anna of c1 and c2 in hers.
        let (browser, other) = (provider.browser(), provider.browser());
        for client in ["c1", "c3"] {
            let client = crate::support::Client::confidential(&provider, client);
            let reply = other.authorize(&client.authorize(&[]), "ben@example.test").await;
            Tokens::of(&client.redeem(&reply.returned("code").unwrap()).await);
        }
        let tokens = tokens_in(&provider, &browser, "c1").await;
        let others = tokens_in(&provider, &browser, "c2").await;
        let worker = Worker::start(&provider.sealgate);
        end(&provider, &browser, &tokens, cause).await;
        until_sent(&provider).await;
        worker.stop().await;
        let sid = |tokens: &Tokens| jwt_claims(&tokens.id)["sid"].as_str().unwrap().to_owned();
        let anna = provider.anna.sub.to_string();
        assert_eq!(signed_out(&first), [(anna.clone(), sid(&tokens))].into(), "{cause}");
        assert_eq!(signed_out(&second), [(anna, sid(&others))].into(), "{cause}");
        assert_eq!(third.received().len(), 0, "{cause}");
        assert_eq!(metric(&provider.sealgate, "sent"), 2, "{cause}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_logout_token_has_the_form_of_the_specification() {
    let provider = Provider::with(LOOPBACK).await;
    let receiver = LogoutReceiver::start();
    receives(&provider, "c1", &receiver.uri()).await;
    let browser = provider.browser();
    let tokens = tokens_in(&provider, &browser, "c1").await;
    // Time passes before the token is sent.
    end(&provider, &browser, &tokens, "the user signs out").await;
    provider.wait(1000);
    let worker = Worker::start(&provider.sealgate);
    until_sent(&provider).await;
    worker.stop().await;
    let logouts = receiver.received();
    let [logout] = logouts.as_slice() else { panic!("{logouts:?}") };
    assert_eq!((logout.path.as_str(), logout.content_type.as_str()), ("/logout", "application/x-www-form-urlencoded"));
    let keys = provider.get("/oauth/jwks").await.json();
    let (header, mut claims) = (logout.part(0), logout.claims());
    assert_eq!((&header["typ"], &header["alg"]), (&json!("logout+jwt"), &json!("RS256")));
    assert_eq!(header["kid"], keys["keys"][0]["kid"]);
    let now = provider.sealgate.clock.now().seconds();
    let jti = claims.as_object_mut().unwrap().remove("jti").unwrap();
    assert!(jti.as_str().unwrap().len() >= 20, "{jti}");
    let sid = jwt_claims(&tokens.id)["sid"].clone();
    let expected = json!({
        "iss": ISSUER, "aud": "c1", "sub": provider.anna.sub, "sid": sid, "iat": now, "exp": now + 120,
        "events": { "http://schemas.openid.net/event/backchannel-logout": {} },
    });
    assert_eq!(claims, expected);
    // It is neither a hint nor an access token, and it opens no session.
    assert!(provider.sealgate.issuer.id_token_hint(&logout.token).is_none());
    provider.userinfo(&logout.token).await.assert_error(401, "invalid_token");
}

#[tokio::test]
async fn only_clients_that_receive_logout_tokens_get_a_sid() {
    let provider = Provider::new().await;
    receives(&provider, "c1", "https://rp.test/logout").await;
    provider.change_client("c2", |client| client.backchannel_logout = None).await;
    let browser = provider.browser();
    let tokens = tokens_in(&provider, &browser, "c1").await;
    let sid = jwt_claims(&tokens.id)["sid"].clone();
    assert_eq!(sid.as_str().unwrap().len(), 22);
    assert_ne!(sid, json!(session_of(&browser)));
    assert_eq!(jwt_claims(&tokens_in(&provider, &browser, "c2").await.id).get("sid"), None);
    // The same in each ID token of the session, and another one in another session.
    let again = tokens_in(&provider, &browser, "c1").await;
    let refreshed = Tokens::of(&provider.c1().refresh(&tokens.refresh).await);
    for tokens in [&again, &refreshed] {
        assert_eq!(jwt_claims(&tokens.id)["sid"], sid);
    }
    // The code was redeemed before the client received logout tokens, so its session does not list it.
    let earlier = tokens_in(&provider, &browser, "c2").await;
    receives(&provider, "c2", "https://rp.test/logout").await;
    assert_eq!(jwt_claims(&Tokens::of(&provider.c2().refresh(&earlier.refresh).await).id).get("sid"), None);
    let elsewhere = tokens_in(&provider, &provider.browser(), "c1").await;
    assert_ne!(jwt_claims(&elsewhere.id)["sid"], sid);
    assert_eq!(jwt_claims(&tokens.access).get("sid"), None);
}

#[tokio::test]
async fn discovery_names_logout_tokens_only_while_a_client_receives_them() {
    let provider = Provider::new().await;
    let before = provider.get(ADDRESS).await;
    receives(&provider, "c1", "https://rp.test/logout").await;
    receives(&provider, "c2", "https://rp.test/logout").await;
    let mut document = provider.get(ADDRESS).await.json();
    let members = document.as_object_mut().unwrap();
    for name in ["backchannel_logout_supported", "backchannel_logout_session_supported"] {
        assert_eq!(members.remove(name), Some(json!(true)), "{name}");
    }
    let claims = members["claims_supported"].as_array_mut().unwrap();
    claims.retain(|claim| claim != "sid");
    assert_eq!(document, before.json());
    provider.change_client("c1", |client| client.backchannel_logout = None).await;
    assert_ne!(provider.get(ADDRESS).await.text(), before.text());
    let store = &provider.sealgate.store;
    let c2 = provider.confidential("c2").id;
    assert!(store.delete_client(&c2, provider.sealgate.clock.now()).await.unwrap());
    assert_eq!(provider.get(ADDRESS).await.text(), before.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_client_does_not_delay_other_clients() {
    let provider = Provider::with(LOOPBACK).await;
    let [hanging, sound] = [(); 2].map(|()| LogoutReceiver::start());
    hanging.answers(Answer::Nothing);
    receives(&provider, "c1", &hanging.uri()).await;
    receives(&provider, "c2", &sound.uri()).await;
    let worker = Worker::start(&provider.sealgate);
    for number in 1..=3 {
        let browser = provider.browser();
        let tokens = tokens_in(&provider, &browser, "c1").await;
        tokens_in(&provider, &browser, "c2").await;
        end(&provider, &browser, &tokens, "the client signs out").await;
        until("the other client has the token", async || sound.received().len() == number).await;
    }
    // All went to the sound client while the first request to the hanging one had no answer.
    assert_eq!(hanging.received().len(), 1);
    until("the request has timed out", async || metric(&provider.sealgate, "failed") == 1).await;
    assert_eq!(metric(&provider.sealgate, "sent"), 3);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_logout_is_retried_until_the_client_accepts_it() {
    let provider = Provider::with(LOOPBACK).await;
    let [receiver, elsewhere] = [(); 2].map(|()| LogoutReceiver::start());
    receives(&provider, "c1", &receiver.uri()).await;
    let browser = provider.browser();
    let tokens = tokens_in(&provider, &browser, "c1").await;
    end(&provider, &browser, &tokens, "the user signs out").await;
    let worker = Worker::start(&provider.sealgate);
    let answers = [
        Answer::Status(500),
        Answer::Status(404),
        Answer::Status(401),
        Answer::Redirect(elsewhere.uri()),
        Answer::Status(204),
    ];
    receiver.answers(answers[0].clone());
    for (number, next) in (1..).zip(answers.iter().skip(1)) {
        until("an attempt failed", async || metric(&provider.sealgate, "failed") == number).await;
        until("it waits", async || {
            let first = provider.sealgate.store.next_client_logout(None).await.unwrap();
            first.is_some_and(|first| u64::from(first.value.attempts) == number)
        })
        .await;
        receiver.answers(next.clone());
        provider.wait(600);
    }
    until_sent(&provider).await;
    worker.stop().await;
    assert_eq!((receiver.received().len(), elsewhere.connections()), (5, 0));
    assert_eq!(metric(&provider.sealgate, "sent"), 1);
    // Each attempt has a token of its own.
    let ids: BTreeSet<String> = receiver.received().iter().map(|logout| logout.claims()["jti"].to_string()).collect();
    assert_eq!(ids.len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_and_an_expired_logout_are_given_up_and_recorded() {
    let provider = Provider::with(LOOPBACK).await;
    let receiver = LogoutReceiver::start();
    receives(&provider, "c1", &receiver.uri()).await;
    let worker = Worker::start(&provider.sealgate);
    receiver.answers(Answer::Status(400));
    let browser = provider.browser();
    let tokens = tokens_in(&provider, &browser, "c1").await;
    end(&provider, &browser, &tokens, "the user signs out").await;
    until("it was refused", async || metric(&provider.sealgate, "refused") == 1).await;
    until_sent(&provider).await;
    assert_eq!(receiver.received().len(), 1);

    receiver.answers(Answer::Status(503));
    let tokens = tokens_in(&provider, &browser, "c1").await;
    end(&provider, &browser, &tokens, "the user signs out").await;
    until("it failed", async || metric(&provider.sealgate, "failed") == 1).await;
    provider.wait(3601);
    until("it was given up", async || metric(&provider.sealgate, "expired") == 1).await;
    until_sent(&provider).await;
    worker.stop().await;
    let sealgate = &provider.sealgate;
    sealgate.audit.write(&sealgate.store).await.unwrap();
    let filter = AuditFilter { kinds: vec![AuditKind::LogoutNotAccepted], ..AuditFilter::default() };
    let records = sealgate.store.audit_page(&filter, None, 10).await.unwrap().records;
    let of = |record: &AuditRecord| (record.event.client.clone().unwrap().to_string(), record.event.detail.clone());
    let expected = ["status 503", "status 400"].map(|detail| ("c1".to_owned(), Some(detail.to_owned())));
    assert_eq!(records.iter().map(of).collect::<Vec<_>>(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn private_addresses_get_no_request_unless_they_are_listed() {
    let provider = Provider::with("[tokens]\nlogout_networks = [\"10.0.0.0/8\", \"127.0.0.2\"]").await;
    let receiver = LogoutReceiver::start();
    let browser = provider.browser();
    let worker = Worker::start(&provider.sealgate);
    for (number, host) in (1..).zip(["127.0.0.1", "localhost"]) {
        receives(&provider, "c1", &format!("http://{host}:{}/logout", receiver.port)).await;
        let tokens = tokens_in(&provider, &browser, "c1").await;
        end(&provider, &browser, &tokens, "the user signs out").await;
        until("it failed", async || metric(&provider.sealgate, "failed") >= number).await;
        provider.change_client("c1", |client| client.backchannel_logout = None).await;
        provider.wait(600);
        until_sent(&provider).await;
    }
    worker.stop().await;
    assert_eq!((receiver.connections(), metric(&provider.sealgate, "obsolete")), (0, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_cannot_be_reached_keeps_its_share_for_an_hour() {
    let provider = Provider::with(LOOPBACK).await;
    let receiver = LogoutReceiver::start();
    // The first address is private and not listed, so each attempt fails at once.
    receives(&provider, "c1", "https://10.0.0.1/logout").await;
    receives(&provider, "c2", &receiver.uri()).await;
    let browser = provider.browser();
    let tokens = tokens_in(&provider, &browser, "c2").await;
    let store = &provider.sealgate.store;
    let template = store.session(session_of(&browser)).await.unwrap().unwrap().value;
    let clients = vec![SessionClient { client: ClientId::parse("c1").unwrap(), subject: provider.anna.sub }];
    for number in 0..MAX_WAITING_LOGOUTS_OF_CLIENT + 5 {
        let id = SessionId::from_bytes(u128::try_from(number).unwrap().to_be_bytes());
        store.begin_session(&Session { id, clients: clients.clone(), ..template.clone() }).await.unwrap();
        assert!(store.end_session(id).await.unwrap());
    }
    // Another client still has room.
    end(&provider, &browser, &tokens, "the client signs out").await;
    let worker = Worker::start(&provider.sealgate);
    until("the other client has the token", async || receiver.received().len() == 1).await;
    until("the hour of all others has started", async || {
        let first = store.next_client_logout(None).await.unwrap();
        metric(&provider.sealgate, "sent") == 1 && first.is_some_and(|first| first.value.first_at.is_some())
    })
    .await;
    assert_eq!((metric(&provider.sealgate, "dropped"), metric(&provider.sealgate, "failed")), (5, 1));
    provider.wait(3601);
    // The pause may begin after that.
    until("all were given up", async || {
        provider.wait(1);
        store.next_client_logout(None).await.unwrap().is_none()
    })
    .await;
    worker.stop().await;
    let expired = u64::try_from(MAX_WAITING_LOGOUTS_OF_CLIENT).unwrap();
    assert_eq!((metric(&provider.sealgate, "expired"), metric(&provider.sealgate, "failed")), (expired, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_ends_the_session_and_counts_what_it_drops() {
    let provider = Provider::with(LOOPBACK).await;
    let receiver = LogoutReceiver::start();
    receives(&provider, "c1", &receiver.uri()).await;
    let browser = provider.browser();
    let tokens = tokens_in(&provider, &browser, "c1").await;
    let store = &provider.sealgate.store;
    let template = store.session(session_of(&browser)).await.unwrap().unwrap().value;
    for number in 0..MAX_WAITING_LOGOUTS / MAX_SESSION_CLIENTS {
        let clients = (0..MAX_SESSION_CLIENTS).map(|client| SessionClient {
            client: ClientId::parse(&format!("gone-{client}")).unwrap(),
            subject: provider.anna.sub,
        });
        let id = SessionId::from_bytes(u128::try_from(number).unwrap().to_be_bytes());
        store.begin_session(&Session { id, clients: clients.collect(), ..template.clone() }).await.unwrap();
        assert!(store.end_session(id).await.unwrap());
    }
    end(&provider, &browser, &tokens, "the client signs out").await;
    assert!(is_login(&browser.open("/account").await));
    let worker = Worker::start(&provider.sealgate);
    until("it is counted", async || metric(&provider.sealgate, "dropped") == 1).await;
    worker.stop().await;
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_nodes_sends_each_logout_once_and_the_other_continues() {
    let provider = Provider::with(LOOPBACK).await;
    provider.engine.share();
    let receiver = LogoutReceiver::start();
    receives(&provider, "c1", &receiver.uri()).await;
    let engine = Arc::clone(&provider.engine) as Arc<dyn Engine>;
    let other = provider.again_with(LOOPBACK, engine, token_device::signer()).await;
    let sign_out = async || {
        let browser = provider.browser();
        let tokens = tokens_in(&provider, &browser, "c1").await;
        end(&provider, &browser, &tokens, "the client signs out").await;
    };
    for _ in 0..12 {
        sign_out().await;
    }
    let holds =
        |node: &Sealgate| node.metrics.text().contains("sealgate_cluster_lease_held{name=\"client_logouts\"} 1");
    let mut nodes: Vec<_> =
        [&provider.sealgate, &other].map(|node| (Arc::clone(node), Worker::start(node))).into_iter().collect();
    until_sent(&provider).await;
    assert_eq!((receiver.received().len(), signed_out(&receiver).len()), (12, 12));
    until("one of them sends", async || nodes.iter().filter(|(node, _)| holds(node)).count() == 1).await;
    // The sender stops, and the second node continues.
    let sender = nodes.iter().position(|(node, _)| holds(node)).unwrap();
    nodes.remove(sender).1.stop().await;
    sign_out().await;
    until_sent(&provider).await;
    assert!(holds(&nodes[0].0));
    assert_eq!(receiver.received().len(), 13);
    nodes.remove(0).1.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_users_in_a_browser_each_is_signed_out_at_their_own_client() {
    let provider = Provider::with(LOOPBACK).await;
    let receiver = LogoutReceiver::start();
    receives(&provider, "c1", &receiver.uri()).await;
    let browser = provider.browser();
    let tokens = tokens_in(&provider, &browser, "c1").await;
    let page = browser.open(&provider.c1().authorize(&[("prompt", "login")])).await;
    let page = browser.sign_in(&page, "ben@example.test").await;
    let reply = browser.allow(&page).await;
    let bens = Tokens::of(&provider.c1().redeem(&reply.returned("code").unwrap()).await);
    let worker = Worker::start(&provider.sealgate);
    end(&provider, &browser, &tokens, "the user signs out").await;
    until_sent(&provider).await;
    worker.stop().await;
    let of = |tokens: &Tokens, user: &sealgate_domain::user::User| {
        (user.sub.to_string(), jwt_claims(&tokens.id)["sid"].as_str().unwrap().to_owned())
    };
    assert_eq!(signed_out(&receiver), [of(&tokens, &provider.anna), of(&bens, &provider.ben)].into());
    assert_eq!(ANNA, provider.anna.email.as_ref().unwrap().as_str());
}
