//! Deadlines, and the number of requests at one provider.

use std::time::Duration;

use super::harness::*;

#[tokio::test]
async fn a_provider_without_an_answer_is_given_up() {
    let fake = FakeProvider::start();
    let client = fake.open_with("timeout_seconds = 1");
    fake.change().answers.insert("/.well-known/openid-configuration".into(), Answer::Silence);
    let fault = client.provider.authorization_url(&Secrets::new("x").trip()).await.unwrap_err();
    assert_eq!(fault.kind().as_str(), "connect", "{fault}");
    fake.change().answers.clear();
    let waited = tokio::time::timeout(Duration::from_secs(30), async {
        while client.provider.authorization_url(&Secrets::new("x").trip()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    waited.await.unwrap();
    fake.change().answers.insert("/token".into(), Answer::Silence);
    let fault = unavailable(client.sign_in(&fake).await);
    assert!(fault.starts_with("connect: "), "{fault}");
}

#[tokio::test]
async fn a_silent_provider_has_a_limited_number_of_requests_and_does_not_delay_others() {
    let (silent, other) = (FakeProvider::start(), FakeProvider::start());
    let client = silent.open_with("timeout_seconds = 30");
    client.sign_in(&silent).await.unwrap();
    silent.change().answers.insert("/token".into(), Answer::Silence);
    let secrets = Secrets::new("one");
    let trip = secrets.trip();
    let answer = with_code("c");
    let mut waiting: Vec<_> = (0..64).map(|_| Box::pin(client.provider.sign_in(&answer, &trip))).collect();
    // Each of the waiting sign-ins is started.
    for sign_in in &mut waiting {
        assert!(
            std::future::poll_fn(|context| std::task::Poll::Ready(sign_in.as_mut().poll(context))).await.is_pending()
        );
    }
    assert!(unavailable(client.sign_in(&silent).await).starts_with("busy: "));
    other.open().sign_in(&other).await.unwrap();
    let waited = tokio::time::timeout(Duration::from_secs(30), async {
        while silent.change().silent.len() < 8 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    waited.await.unwrap();
    // One request of the sign-in before, and one for each thread.
    assert_eq!(silent.received("/token").len(), 9);
    drop(waiting);
    // The end of the test waits for the threads.
    silent.hang_up();
}

#[tokio::test]
async fn long_answers_are_refused() {
    let fake = FakeProvider::start();
    let client = fake.open();
    client.sign_in(&fake).await.unwrap();
    let long = |length| Answer::Json(200, format!("{{\"access_token\":\"{}\"}}", "a".repeat(length)));
    for length in [140_000, 300_000] {
        fake.change().answers.insert("/token".into(), long(length));
        let fault = unavailable(client.sign_in(&fake).await);
        assert!(fault.contains("too long") || fault.contains("limit"), "{fault}");
    }
    fake.change().answers.clear();
    fake.change().claims.as_object_mut().unwrap().remove("name");
    fake.change().answers.insert("/userinfo".into(), long(70_000));
    assert!(unavailable(client.sign_in(&fake).await).contains("more than 65536 bytes"));
}
