//! Tests clients whose identifier is the URL of their metadata document. The documents come from the
//! test instead of the Internet; all other parts are those of production.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sealgate_core::tokens::documents::{ClientDocuments, DocumentFetcher};
use sealgate_domain::client::{Authority, ClientDecision, ClientId};
use sealgate_system::clock::Clock as _;
use sealgate_system::fetch::Document;
use serde_json::{Value, json};

use crate::steps::{assert_consent, assert_login};
use crate::support::{Client, Provider, Reply, Tokens, is_consent, jwt_claims};

const URL: &str = "https://agents.test/notes.json";
const ANNA: &str = "anna@example.test";
const CALLBACK: &str = "http://localhost:51004/cb";

const SETTINGS: &str = r#"
    [registration]
    mode = "off"
    document_hosts = ["agents.test"]
    [console]
    enabled = true
    [rate_limits]
    authorize = 10000
    [[app]]
    name = "notes"
    host = "notes.test"
    upstreams = ["http://127.0.0.1:8081"]
    agents = true
    client_hosts = ["agents.test"]
    scopes = { "notes:read" = "Read notes" }
    [[app]]
    name = "wiki"
    host = "wiki.test"
    upstreams = ["http://127.0.0.1:8082"]
    [[app]]
    name = "shop"
    host = "shop.test"
    upstreams = ["http://127.0.0.1:8083"]
    issuer_audience = false
    clients = ["https://agents.test/other.json"]
"#;

/// Member of the discovery document.
const MEMBER: &str = "client_id_metadata_document_supported";

/// Documents by URL, and the URLs that were fetched.
#[derive(Default)]
struct Documents {
    answers: Mutex<BTreeMap<String, Result<Document, String>>>,
    fetched: Mutex<Vec<String>>,
}

impl DocumentFetcher for Documents {
    fn fetch(&self, url: &str) -> Result<Document, String> {
        self.fetched.lock().unwrap().push(url.to_owned());
        let missing = || Err(format!("{url}: not found (404)"));
        self.answers.lock().unwrap().get(url).cloned().unwrap_or_else(missing)
    }
}

impl Documents {
    /// Publishes a document with these changes.
    fn publish(&self, url: &str, more: &Value, max_age: Option<u64>) {
        let mut document = json!({
            "client_id": url,
            "client_name": "Notes agent",
            "redirect_uris": ["http://localhost/cb", "http://127.0.0.1/cb"],
            "grant_types": ["authorization_code", "refresh_token"],
            "logo_uri": "https://agents.test/logo.png",
        });
        document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let max_age = max_age.map(Duration::from_secs);
        let document = Document { body: document.to_string().into_bytes(), max_age };
        self.answers.lock().unwrap().insert(url.to_owned(), Ok(document));
    }

    fn fetches(&self) -> usize {
        self.fetched.lock().unwrap().len()
    }
}

async fn provider(settings: &str) -> (Provider, Arc<Documents>) {
    let mut provider = Provider::with(settings).await;
    let documents = Arc::new(Documents::default());
    let fetcher = Arc::clone(&documents) as Arc<dyn DocumentFetcher>;
    Arc::get_mut(&mut provider.sealgate).unwrap().documents = Arc::new(ClientDocuments::with(fetcher));
    documents.publish(URL, &json!({}), None);
    (provider, documents)
}

/// Opens the authorization request of a client with this id.
async fn open(provider: &Provider, id: &str, more: &[(&str, &str)]) -> Reply {
    let fields = [&[("redirect_uri", CALLBACK)], more].concat();
    provider.browser().open(&Client::public(provider, id).authorize(&fields)).await
}

#[tokio::test]
async fn a_client_signs_in_with_the_url_of_its_document() {
    let (provider, documents) = provider(SETTINGS).await;
    let client = Client::public(&provider, URL);
    let fields = [("redirect_uri", CALLBACK), ("scope", "openid offline_access")];
    let browser = provider.browser();
    let page = browser.sign_in(&browser.open(&client.authorize(&fields)).await, ANNA).await;
    assert_consent(&page);
    for shown in ["agents.test: Notes agent", "localhost:51004", "<bdi>agents.test</bdi>. Not reviewed"] {
        assert!(page.text().contains(shown), "{shown}: {}", page.text());
    }
    assert!(page.text().contains("consent-on-device") && !page.text().contains("logo.png"), "{}", page.text());
    let code = browser.allow(&page).await.returned("code").unwrap();
    let exchange = [
        ("grant_type", "authorization_code"),
        ("code", &code),
        ("redirect_uri", CALLBACK),
        ("code_verifier", crate::support::VERIFIER),
    ];
    let tokens = Tokens::of(&client.token(&exchange).await);
    let (claims, id_token) = (jwt_claims(&tokens.access), jwt_claims(&tokens.id));
    assert_eq!((&claims["client_id"], &id_token["aud"]), (&json!(URL), &json!(URL)));
    assert_eq!(provider.userinfo(&tokens.access).await.status, 200);
    let refreshed = Tokens::of(&client.refresh(&tokens.refresh).await);
    // The token endpoint never reads a document.
    assert_eq!(*documents.fetched.lock().unwrap(), [URL]);
    assert_eq!(client.revoke(&refreshed.refresh).await.status, 200);
    // A second sign-in uses the consent and the cached document.
    let again = browser.open(&client.authorize(&fields)).await;
    assert!(again.returned("code").is_some(), "{again:?}");
    assert_eq!(documents.fetches(), 1);
}

#[tokio::test]
async fn only_listed_hosts_are_fetched() {
    let (provider, documents) = provider(SETTINGS).await;
    for id in [
        "https://agents.test.evil.test/notes.json",
        "https://evil.test/notes.json",
        "https://sub.agents.test/notes.json",
        "https://agents.test:443/notes.json",
        "https://agents.test:8443/notes.json",
        "https://evil@agents.test/notes.json",
        "https://agents.test/a/../notes.json",
        "https://agents.test/notes.json?x",
        "https://agents.test/notes.json#x",
        "https://agents.test/",
        "http://agents.test/notes.json",
        "HTTPS://agents.test/notes.json",
    ] {
        documents.publish(id, &json!({}), None);
        open(&provider, id, &[]).await.assert_error_page();
    }
    assert_eq!(documents.fetches(), 0);
    // Without the setting no document is fetched, and the discovery document does not change.
    let (off, documents) = self::provider("").await;
    open(&off, URL, &[]).await.assert_error_page();
    assert_eq!(documents.fetches(), 0);
    for address in ["/.well-known/openid-configuration", "/.well-known/oauth-authorization-server"] {
        assert_eq!(off.get(address).await.json().get(MEMBER), None);
        let document = provider.get(address).await.json();
        assert_eq!(document[MEMBER], json!(true));
        assert!(document["token_endpoint_auth_methods_supported"].as_array().unwrap().contains(&json!("none")));
    }
}

#[tokio::test]
async fn documents_that_break_a_rule_are_refused() {
    let (provider, documents) = provider(SETTINGS).await;
    for (number, more) in [
        json!({"client_id": "https://agents.test/0.jsoN"}),
        json!({"client_secret": "secret"}),
        json!({"token_endpoint_auth_method": "client_secret_post"}),
        json!({"redirect_uris": []}),
        json!({"redirect_uris": ["https://id.test/cb", CALLBACK]}),
        json!({"redirect_uris": ["https://wiki.test/cb", CALLBACK]}),
    ]
    .into_iter()
    .enumerate()
    {
        let url = format!("https://agents.test/{number}.json");
        documents.publish(&url, &more, None);
        open(&provider, &url, &[]).await.assert_error_page();
        assert!(provider.sealgate.store.client(&ClientId::parse(&url).unwrap()).await.unwrap().is_none(), "{more}");
    }
    // PKCE with S256 is required.
    for (method, challenge) in [("plain", crate::support::VERIFIER), ("-", "-")] {
        let fields = [("code_challenge_method", method), ("code_challenge", challenge)];
        let reply = open(&provider, URL, &fields).await;
        assert_eq!(reply.returned("error").as_deref(), Some("invalid_request"), "{reply:?}");
    }
    open(&provider, URL, &[("redirect_uri", "https://agents.test/cb")]).await.assert_error_page();
}

#[tokio::test]
async fn documents_and_failures_are_cached() {
    let (provider, documents) = provider(SETTINGS).await;
    // No age, a short one, and one of a week: five minutes, five minutes, and a day.
    for (max_age, kept) in [(None, 300), (Some(1), 300), (Some(3600), 3600), (Some(7 * 86_400), 86_400)] {
        let url = format!("https://agents.test/{}.json", max_age.unwrap_or_default());
        documents.publish(&url, &json!({}), max_age);
        let before = documents.fetches();
        assert_login(&open(&provider, &url, &[]).await);
        provider.clock.advance(Duration::from_secs(kept - 1));
        assert_login(&open(&provider, &url, &[]).await);
        assert_eq!(documents.fetches(), before + 1, "{max_age:?}");
        provider.clock.advance(Duration::from_secs(1));
        assert_login(&open(&provider, &url, &[]).await);
        assert_eq!(documents.fetches(), before + 2, "{max_age:?}");
    }
    let (url, before) = ("https://agents.test/later.json", documents.fetches());
    open(&provider, url, &[]).await.assert_error_page();
    documents.publish(url, &json!({}), None);
    provider.clock.advance(Duration::from_secs(59));
    open(&provider, url, &[]).await.assert_error_page();
    assert_eq!(documents.fetches(), before + 1);
    provider.clock.advance(Duration::from_secs(1));
    assert_login(&open(&provider, url, &[]).await);
}

#[tokio::test]
async fn fetches_per_minute_are_limited() {
    let (provider, documents) = provider(SETTINGS).await;
    assert_login(&open(&provider, URL, &[]).await);
    for number in 0..40 {
        let url = format!("https://agents.test/flood-{number}.json");
        // The first fetch was that of the client.
        let status = if number < 29 { 400 } else { 503 };
        assert_eq!(open(&provider, &url, &[]).await.status, status, "{number}");
    }
    assert_eq!(documents.fetches(), 30);
    // Cached documents still work.
    assert_login(&open(&provider, URL, &[]).await);
    provider.clock.advance(Duration::from_mins(1));
    documents.publish("https://agents.test/flood-39.json", &json!({}), None);
    assert_login(&open(&provider, "https://agents.test/flood-39.json", &[]).await);
}

#[tokio::test]
async fn a_changed_document_changes_the_client_and_ends_its_approval() {
    let (provider, documents) = provider(SETTINGS).await;
    let id = ClientId::parse(URL).unwrap();
    assert_login(&open(&provider, URL, &[]).await);
    let approval = Some(ClientDecision { by: Authority::Operator, at: provider.clock.now() });
    provider.sealgate.store.change_client(&id, |client| client.approval = approval).await.unwrap();
    let stored = async || provider.sealgate.store.client(&id).await.unwrap().unwrap();
    provider.clock.advance(Duration::from_mins(5));
    assert_login(&open(&provider, URL, &[]).await);
    assert!(stored().await.approval.is_some());
    documents.publish(URL, &json!({"redirect_uris": ["https://agents.test/cb"], "client_name": "Bank"}), None);
    provider.clock.advance(Duration::from_mins(5));
    open(&provider, URL, &[]).await.assert_error_page();
    let client = stored().await;
    assert_eq!((client.name.as_str(), client.approval), ("agents.test: Bank", None));
    // A disabled client stays disabled, and its document is not read.
    let decision = ClientDecision { by: Authority::Operator, at: provider.clock.now() };
    provider.sealgate.store.change_client(&id, |client| client.disable(decision)).await.unwrap();
    provider.clock.advance(Duration::from_mins(5));
    let before = documents.fetches();
    open(&provider, URL, &[("redirect_uri", "https://agents.test/cb")]).await.assert_error_page();
    assert_eq!(documents.fetches(), before);
}

#[tokio::test]
async fn an_application_lists_clients_by_url_or_by_host() {
    let (provider, documents) = provider(SETTINGS).await;
    documents.publish("https://agents.test/other.json", &json!({}), None);
    let request = async |id: &str, resource: &str| {
        let fields = [("redirect_uri", CALLBACK), ("resource", resource), ("scope", "-")];
        let browser = provider.browser();
        let page = browser.open(&Client::public(&provider, id).authorize(&fields)).await;
        if page.text().contains("login-submit") { browser.sign_in(&page, ANNA).await } else { page }
    };
    let page = request(URL, "https://notes.test").await;
    assert!(is_consent(&page) && !page.text().contains("consent-needs-approval"), "{}", page.text());
    let reply = request(URL, "https://shop.test").await;
    assert_eq!(reply.returned("error").as_deref(), Some("invalid_target"), "{reply:?}");
    assert!(is_consent(&request("https://agents.test/other.json", "https://shop.test").await));
}

#[tokio::test]
async fn a_host_that_is_not_listed_any_more_ends_its_clients() {
    let (provider, _) = provider(SETTINGS).await;
    let client = Client::public(&provider, URL);
    let fields = [("redirect_uri", CALLBACK), ("scope", "openid offline_access")];
    let browser = provider.browser();
    let code = browser.authorize(&client.authorize(&fields), ANNA).await.returned("code").unwrap();
    let exchange = [
        ("grant_type", "authorization_code"),
        ("code", &code),
        ("redirect_uri", CALLBACK),
        ("code_verifier", crate::support::VERIFIER),
    ];
    let tokens = Tokens::of(&client.token(&exchange).await);
    assert_eq!(provider.userinfo(&tokens.access).await.status, 200);
    let other = provider
        .with_settings(&SETTINGS.replace("[\"agents.test\"]\n    [console]", "[\"x.test\"]\n    [console]"))
        .await;
    assert_eq!(other.userinfo(&tokens.access).await.status, 401);
    Client::public(&other, URL).refresh(&tokens.refresh).await.assert_error(401, "invalid_client");
}
