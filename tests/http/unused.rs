//! Tests self-registered clients: their number, limits by network, and the deletion of unused ones.

use std::sync::Arc;

use sealgate_domain::client::{Authority, ClientDecision, ClientId};
use sealgate_store::Swept;
use sealgate_system::clock::Clock;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::register::{JSON, Registered, metadata, register};
use crate::support::{Provider, Tokens};

const HOUR: &str =
    "[registration]\nmode = \"open\"\nmax_clients = 1\nunused_seconds = 3600\n[rate_limits]\nregister = 1000";

async fn sweep(provider: &Provider) -> Swept {
    provider.sealgate.store.sweep(provider.clock.now(), 1000).await.unwrap()
}

fn id(own: &Registered) -> ClientId {
    ClientId::parse(own.text("client_id")).unwrap()
}

async fn status(provider: &Provider) -> u16 {
    register(provider, &metadata(&json!({}))).await.status
}

#[tokio::test]
async fn an_unused_client_is_deleted() {
    let provider = Provider::with(HOUR).await;
    let own = Registered::new(&provider, &json!({})).await;
    provider.wait(3600);
    sweep(&provider).await;
    assert_eq!(own.manage(&provider, "GET", "").await.status, 200, "a little longer does no harm");
    assert_eq!(status(&provider).await, 503);
    provider.wait(660);
    assert_eq!(sweep(&provider).await.clients, [id(&own)]);
    own.manage(&provider, "GET", "").await.assert_bearer_error(401, "invalid_token");
    assert_eq!(status(&provider).await, 201);
    assert_eq!(status(&provider).await, 503);
}

#[tokio::test]
async fn a_client_that_has_received_a_token_is_kept() {
    let provider = Provider::with(HOUR).await;
    let own = Registered::new(&provider, &json!({})).await;
    let client = own.client(&provider);
    Tokens::of(&client.redeem(&client.code(&[]).await).await);
    provider.wait(40 * 86_400);
    assert_eq!(sweep(&provider).await.clients, []);
    assert_eq!(own.manage(&provider, "GET", "").await.status, 200);
    // A change of its registration does not make it unused.
    let update = own.update(&json!({"client_name": "Wiki"}));
    assert_eq!(own.manage(&provider, "PUT", &update.to_string()).await.status, 200);
    provider.wait(40 * 86_400);
    assert_eq!(sweep(&provider).await.clients, []);
    assert_eq!(status(&provider).await, 503);
}

#[tokio::test]
async fn a_code_of_a_just_deleted_client_is_refused() {
    let provider = Provider::with(HOUR).await;
    let own = Registered::new(&provider, &json!({})).await;
    let client = own.client(&provider);
    provider.wait(3600 + 659);
    let code = client.code(&[]).await;
    provider.wait(1);
    assert_eq!(sweep(&provider).await.clients, [id(&own)]);
    client.redeem(&code).await.assert_error(401, "invalid_client");
}

#[tokio::test]
async fn a_client_is_kept_while_it_is_approved() {
    let provider = Provider::with(HOUR).await;
    let own = Registered::new(&provider, &json!({})).await;
    let approval = ClientDecision { by: Authority::Operator, at: provider.clock.now() };
    let store = &provider.sealgate.store;
    store.change_client(&id(&own), |client| client.approval = Some(approval)).await.unwrap();
    provider.wait(86_400);
    assert_eq!(sweep(&provider).await.clients, []);
    store.change_client(&id(&own), |client| client.approval = None).await.unwrap();
    // The client expired while it was approved. The check at startup finds it.
    let provider = provider.restarted_with(HOUR).await;
    assert_eq!(sweep(&provider).await.clients, [id(&own)]);
}

#[tokio::test]
async fn unused_clients_of_an_older_version_are_counted_and_expire_after_the_start() {
    let provider = Provider::with(HOUR).await;
    let own = Registered::new(&provider, &json!({})).await;
    let forget = |client: &mut sealgate_domain::client::Client| {
        client.registration.as_mut().unwrap().unused_until = None;
    };
    provider.sealgate.store.change_client(&id(&own), forget).await.unwrap();
    provider.wait(40 * 86_400);
    assert_eq!(sweep(&provider).await.clients, []);
    let provider = provider.restarted_with(HOUR).await;
    assert_eq!(provider.sealgate.store.self_registered_clients(), 1);
    assert_eq!(status(&provider).await, 503);
    assert_eq!(sweep(&provider).await.clients, []);
    provider.wait(3600 + 660);
    assert_eq!(sweep(&provider).await.clients, [id(&own)]);
    assert_eq!(status(&provider).await, 201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_registrations_do_not_exceed_the_limit() {
    let settings = "[registration]\nmode = \"open\"\nmax_clients = 5\n[rate_limits]\nregister = 1000";
    let provider = Arc::new(Provider::with(settings).await);
    let mut all = JoinSet::new();
    for _ in 0..64 {
        let provider = Arc::clone(&provider);
        all.spawn(async move { status(&provider).await });
    }
    let statuses = all.join_all().await;
    assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 5, "{statuses:?}");
    assert_eq!(provider.sealgate.store.self_registered_clients(), 5);
    // A rejected registration takes no place.
    assert_eq!(provider.restarted().await.sealgate.store.self_registered_clients(), 5);
}

#[tokio::test]
async fn a_deleted_client_is_subtracted_once() {
    let provider = Provider::with(HOUR).await;
    let own = Registered::new(&provider, &json!({})).await;
    assert_eq!(own.manage(&provider, "DELETE", "").await.status, 204);
    provider.sealgate.store.delete_client(&id(&own), provider.clock.now()).await.unwrap();
    // Deleting an operator's client makes no room for self-registered ones.
    provider.sealgate.store.delete_client(&ClientId::parse("c1").unwrap(), provider.clock.now()).await.unwrap();
    assert_eq!((status(&provider).await, status(&provider).await), (201, 503));
}

#[tokio::test]
async fn an_ipv6_site_may_register_ten_times_the_clients_of_a_network() {
    let provider = Provider::with("[registration]\nmode = \"open\"\n[rate_limits]\nregister = 3").await;
    let body = metadata(&json!({})).to_string();
    let register =
        async |address: &str| provider.request_from(address, "POST", "/oauth/register", &[JSON], &body).await.status;
    let mut registered = 0;
    for network in 0..40 {
        for attempt in 0..4 {
            match register(&format!("2001:db8:1:{network:x}::1")).await {
                201 => registered += 1,
                status => assert!(status == 429 && (attempt == 3 || registered == 30), "{status}"),
            }
        }
    }
    assert_eq!(registered, 30);
    assert_eq!(register("2001:db8:2::1").await, 201, "the neighbours are not meant");
    provider.wait(60);
    assert_eq!(register("2001:db8:1:ff::1").await, 201);
}

#[tokio::test]
async fn metadata_has_at_most_8_kib() {
    let provider = Provider::with("[registration]\nmode = \"open\"\n[rate_limits]\nregister = 1000").await;
    let of_size = |body: &Value, size: usize| {
        let empty = body.to_string().len();
        let mut body = body.clone();
        body["x"] = "x".repeat(size - empty).into();
        body.to_string()
    };
    let body = metadata(&json!({"x": ""}));
    let post = async |size| provider.request("POST", "/oauth/register", &[JSON], &of_size(&body, size)).await;
    post(8193).await.assert_error(413, "invalid_request");
    let reply = post(8192).await;
    assert_eq!(reply.status, 201);
    let own = Registered { body: reply.json() };
    let update = own.update(&json!({"x": ""}));
    own.manage(&provider, "PUT", &of_size(&update, 8193)).await.assert_error(413, "invalid_request");
    assert_eq!(own.manage(&provider, "PUT", &of_size(&update, 8192)).await.status, 200);
}

#[tokio::test]
async fn the_consent_page_shows_the_host_and_self_registration() {
    let provider = Provider::with(HOUR).await;
    let elsewhere = "https://elsewhere.test:8443/cb";
    let own = Registered::new(&provider, &json!({"client_name": "Payroll", "redirect_uris": [elsewhere]})).await;
    let client = own.client(&provider);
    let page = async |request: &str| {
        let browser = provider.browser();
        let login = browser.open(request).await;
        let page = browser.sign_in(&login, "anna@example.test").await;
        assert!(page.text().contains("consent-allow"), "{page:?}");
        page.text().to_owned()
    };
    let shown = page(&client.authorize(&[("redirect_uri", elsewhere)])).await;
    assert!(shown.contains("<bdi>elsewhere.test:8443</bdi>"), "{shown}");
    assert!(shown.contains("<bdi>Payroll</bdi> registered itself"), "{shown}");
    let turkish = page(&client.authorize(&[("redirect_uri", elsewhere), ("ui_locales", "tr")])).await;
    assert!(turkish.contains("kendiliğinden kaydoldu") && turkish.contains("Dönüş adresi"), "{turkish}");
    let approval = ClientDecision { by: Authority::Operator, at: provider.clock.now() };
    provider.sealgate.store.change_client(&id(&own), |client| client.approval = Some(approval)).await.unwrap();
    assert!(!page(&client.authorize(&[("redirect_uri", elsewhere)])).await.contains("consent-self-registered"));
    let of_operator = page(&provider.c1().authorize(&[])).await;
    assert!(of_operator.contains("<bdi>rp.test</bdi>") && !of_operator.contains("consent-self-registered"));
    // A developer's client: the page names the developer, and marks the client as new until it is
    // approved.
    let new = "<span class=\"tag\">New</span>";
    assert!(!of_operator.contains(new), "{of_operator}");
    let (ben, now) = (provider.ben.sub, provider.clock.now());
    let c1 = ClientId::parse("c1").unwrap();
    provider
        .sealgate
        .store
        .change_client(&c1, |client| (client.owner, client.created_at) = (Some(ben), now))
        .await
        .unwrap();
    let of_developer = page(&provider.c1().authorize(&[])).await;
    let whose = format!("<bdi>{}</bdi>. Not reviewed by", provider.ben.name);
    assert!(of_developer.contains(&whose) && of_developer.contains(new), "{of_developer}");
    provider.wait(31 * 24 * 3600);
    assert!(!page(&provider.c1().authorize(&[])).await.contains(new));
}
