//! A process that was stopped for a while: clients give up and ask again, and nobody loses what is theirs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::Client;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::backup::{LIMITS, granted, refresh};
use crate::support::{Browser, Instance, Settings};

/// Clients that refresh all the time.
const CLIENTS: usize = 16;
/// After which a client gives up on an answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long the process is stopped.
const STOPPED: Duration = Duration::from_secs(4);

/// Refreshes until a new token has come at least `times` times, asking again with the token in hand whenever no answer comes.
/// Yields that token and how often no answer came.
async fn refresh_on(instance: Arc<Instance>, secret: String, mut token: String, times: usize) -> (String, usize) {
    let client = Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
    let (mut done, mut unanswered) = (0, 0);
    while done < times {
        let form = [("grant_type", "refresh_token"), ("refresh_token", token.as_str())];
        let request = client.post(instance.url("/oauth/token")).basic_auth("web", Some(&secret)).form(&form);
        let Ok(answer) = request.send().await else {
            unanswered += 1;
            continue;
        };
        let status = answer.status().as_u16();
        let Ok(body) = answer.json::<Value>().await else {
            unanswered += 1;
            continue;
        };
        match status {
            200 => {
                body["refresh_token"].as_str().unwrap().clone_into(&mut token);
                done += 1;
            }
            503 => unanswered += 1,
            _ => panic!("{status} after {done} refreshes and {unanswered} without an answer: {body}"),
        }
    }
    (token, unanswered)
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_ask_again_after_a_stop_keep_their_grants_and_reuse_still_ends_one() {
    let mut instance = Instance::prepare(&Settings { sections: LIMITS.into(), ..Settings::default() });
    let secret = instance.add_confidential_client("web");
    instance.start();
    let browser = Browser::new(&instance);
    let mut tokens = Vec::new();
    for _ in 0..CLIENTS {
        tokens.push(granted(&instance, &secret, &browser).await);
    }
    let instance = Arc::new(instance);
    let mut running = JoinSet::new();
    for token in tokens {
        running.spawn(refresh_on(Arc::clone(&instance), secret.clone(), token, 40));
    }
    // In the middle of it: answers are in all stages then.
    tokio::time::sleep(Duration::from_millis(300)).await;
    instance.signal("STOP");
    tokio::time::sleep(STOPPED).await;
    instance.signal("CONT");
    let ended = running.join_all().await;
    let unanswered: usize = ended.iter().map(|(_, unanswered)| unanswered).sum();
    assert!(unanswered >= CLIENTS, "hardly anybody noticed the stop: {unanswered}");

    // A token of which the child was used gives nothing, and ends the grant as soon as no request can be of before the stop.
    let (current, _) = ended.into_iter().next().unwrap();
    let (status, body) = refresh(&instance, &secret, &current).await;
    assert_eq!(status, 200, "{body}");
    let child = body["refresh_token"].as_str().unwrap().to_owned();
    assert_eq!(refresh(&instance, &secret, &child).await.0, 200);
    let deadline = Instant::now() + Duration::from_secs(30);
    let (status, body) = loop {
        let (status, body) = refresh(&instance, &secret, &current).await;
        if status != 503 || Instant::now() > deadline {
            break (status, body);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!((status, &body["error_description"]), (400, &"The refresh token was used before.".into()));
}
