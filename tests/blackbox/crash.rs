//! SIGKILL under load: what was acknowledged holds after the restart.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinSet;

use crate::support::{Browser, Instance, REDIRECT_URI, Settings};

/// Families of refresh tokens that are rotated at once, and restarts.
const FAMILIES: usize = 8;
const ROUNDS: usize = 3;

struct Client {
    http: reqwest::Client,
    token_endpoint: String,
    secret: String,
}

impl Client {
    async fn token(&self, fields: &[(&str, &str)]) -> Option<(u16, Value)> {
        let request = self.http.post(&self.token_endpoint).basic_auth("web", Some(&self.secret)).form(fields);
        let response = request.send().await.ok()?;
        let status = response.status().as_u16();
        Some((status, response.json().await.ok()?))
    }

    async fn redeem(&self, code: &str) -> Option<(u16, Value)> {
        self.token(&[("grant_type", "authorization_code"), ("code", code), ("redirect_uri", REDIRECT_URI)]).await
    }

    async fn refresh(&self, token: &str) -> Option<(u16, Value)> {
        self.token(&[("grant_type", "refresh_token"), ("refresh_token", token)]).await
    }
}

async fn code(instance: &Instance, browser: &Browser) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query
        .append_pair("client_id", "web")
        .append_pair("response_type", "code")
        .append_pair("redirect_uri", REDIRECT_URI)
        .append_pair("scope", "openid offline_access");
    let end = browser.go(&instance.url(&format!("/oauth/authorize?{}", query.finish()))).await;
    end.returned("code").unwrap_or_else(|| panic!("{end:?}"))
}

/// Rotates one family until the server dies; yields the last token that was acknowledged, and whether the request that
/// the kill cut off may have rotated it.
async fn rotate(client: Arc<Client>, mut token: String, stop: Arc<AtomicBool>) -> (String, bool) {
    loop {
        if stop.load(Ordering::SeqCst) {
            return (token, false);
        }
        match client.refresh(&token).await {
            Some((200, body)) => body["refresh_token"].as_str().unwrap().clone_into(&mut token),
            Some((503, _)) => {}
            Some((status, body)) => panic!("{status}: {body}"),
            None => return (token, true),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_sigkill_under_load() {
    let mut instance = Instance::prepare(&Settings {
        sections: "[rate_limits]\ntoken = 4000\nauthorize = 4000\npages = 4000".into(),
        ..Settings::default()
    });
    let secret = instance.add_confidential_client("web");
    for round in 0..ROUNDS {
        instance.start();
        let browser = Browser::new(&instance);
        let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(20)).build().unwrap();
        let client = Arc::new(Client { http, token_endpoint: instance.url("/oauth/token"), secret: secret.clone() });
        let (mut used, mut unused, mut families) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..FAMILIES {
            let redeemed = code(&instance, &browser).await;
            let (status, body) = client.redeem(&redeemed).await.unwrap();
            assert_eq!(status, 200, "{body}");
            families.push(body["refresh_token"].as_str().unwrap().to_owned());
            used.push(redeemed);
            unused.push(code(&instance, &browser).await);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let mut running = JoinSet::new();
        for token in families {
            running.spawn(rotate(Arc::clone(&client), token, Arc::clone(&stop)));
        }
        tokio::time::sleep(Duration::from_millis(400 + 300 * round as u64)).await;
        instance.kill();
        let last = running.join_all().await;

        instance.start();
        for code in unused {
            let (status, body) = client.redeem(&code).await.unwrap();
            assert_eq!(status, 200, "a code that was issued before the kill: {body}");
        }
        let mut alive = 0;
        for (token, in_flight) in last {
            match client.refresh(&token).await.unwrap() {
                (200, _) => alive += 1,
                // The kill may have come between the commit and the response: then the token is a rotated one.
                (400, body) => assert!(in_flight, "an acknowledged refresh token is lost: {body}"),
                (status, body) => panic!("{status}: {body}"),
            }
        }
        assert!(alive > 0, "no family survived, which no cut-off request explains");
        for code in used {
            let (status, body) = client.redeem(&code).await.unwrap();
            assert_eq!((status, &body["error"]), (400, &"invalid_grant".into()), "a redeemed code came back to life");
        }
        instance.kill();
    }
}
