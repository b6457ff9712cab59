//! Tests logout tokens of the running program: after a crash, and in the reports for operators.

use std::net::TcpListener;

use crate::flow::{Client, Proof, text};
use crate::logout_receiver::{Answer, LogoutReceiver};
use crate::support::{Browser, Instance, Settings, free_port, wait_until};

const LOOPBACK: &str = "[tokens]\nlogout_networks = [\"127.0.0.0/8\"]\n";

/// Returns a running instance with a client that receives logout tokens at this port, and the
/// client's secret.
fn instance(port: u16) -> (Instance, String) {
    let mut instance = Instance::prepare(&Settings { sections: LOOPBACK.to_owned(), ..Settings::default() });
    let secret = instance.add_confidential_client("web");
    let uri = format!("http://127.0.0.1:{port}/logout");
    let set = ["client", "set", "web", "--backchannel-logout-uri", &uri, "--backchannel-logout-session-required"];
    let client = instance.json(&set);
    assert_eq!(
        (&client["backchannel_logout_uri"], &client["backchannel_logout_session_required"]),
        (&uri.into(), &true.into())
    );
    instance.start();
    (instance, secret)
}

fn client<'i>(instance: &'i Instance, secret: &'i str) -> Client<'i> {
    Client { instance, browser: Browser::new(instance), id: "web", proof: Proof::Basic(secret) }
}

/// Signs in at the client. Returns the `sid` of its ID token, and the ID token.
async fn sign_in(client: &Client<'_>) -> (String, String) {
    let (status, tokens) = client.redeem(&client.code("openid").await).await;
    assert_eq!(status, 200, "{tokens}");
    let id_token = text(&tokens, "id_token");
    (text(&client.verified(&id_token).await, "sid"), id_token)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_logout_is_sent_after_a_crash() {
    // Nothing listens at the port yet.
    let port = free_port();
    let (mut instance, secret) = instance(port);
    let (sid, id_token) = sign_in(&client(&instance, &secret)).await;
    let client_before = client(&instance, &secret);
    let other = sign_in(&client_before).await.1;
    let reply = client_before.browser.get(&instance.url(&format!("/oauth/logout?id_token_hint={other}"))).await;
    assert_eq!(reply.status, 302, "{reply:?}");
    drop(client_before);
    // An administrator's command ends the first session.
    let ended = instance.json(&["session", "revoke-all", "--user", "anna@example.test"]);
    assert_eq!(ended["sessions_ended"], 1, "{ended}");
    instance.kill();

    let receiver = LogoutReceiver::at(TcpListener::bind(("127.0.0.1", port)).unwrap());
    instance.start();
    wait_until("both logouts arrive", || receiver.received().len() == 2);
    let client = client(&instance, &secret);
    let mut sids = Vec::new();
    for logout in receiver.received() {
        let claims = client.verified(&logout.token).await;
        assert_eq!((&claims["aud"], &claims["iss"]), (&"web".into(), &instance.url("").into()), "{claims}");
        sids.push(text(&claims, "sid"));
    }
    assert!(sids.contains(&sid) && sids[0] != sids[1], "{sids:?}");
    assert_eq!(instance.stop(), Some(0));
    assert!(!instance.log().contains(&id_token) && !instance.log().contains("logout_token="), "a token was logged");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_finds_the_client_that_does_not_accept_logouts() {
    let receiver = LogoutReceiver::start();
    receiver.answers(Answer::Status(400));
    let (mut instance, secret) = instance(receiver.port);
    sign_in(&client(&instance, &secret)).await;
    instance.run(&["user", "revoke", "anna@example.test"]);
    instance.tells("the client refused a logout token");
    wait_until("it is in the audit log", || {
        let events = instance.json(&["audit", "list", "--kind", "logout_not_accepted"]);
        events["events"][0]["client_id"] == "web"
    });
    receiver.answers(Answer::Status(503));
    sign_in(&client(&instance, &secret)).await;
    instance.run(&["user", "revoke", "anna@example.test"]);
    instance.tells("the client did not accept a logout token");
    assert_eq!(instance.stop(), Some(0));
}
