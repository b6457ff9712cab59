//! Tests client and redirect URI: no redirect is sent until they are verified to match (RFC 6749
//! §4.1.2.1; RFC 9700 §4.1, §4.11; RFC 8252 §7.3).

use sealgate_domain::client::{Authority, Client, ClientDecision, ClientId, ClientState};
use sealgate_domain::redirect_uri::RedirectUri;
use serde_json::json;

use crate::register::Registered;
use crate::steps::{assert_code, assert_login, fields_of};
use crate::support::{Provider, Reply};

/// Asserts an error page (`ERR-PAGE`) that repeats the request only in the links to the other
/// language.
#[track_caller]
fn assert_page_without(reply: &Reply, sent: &str) {
    reply.assert_error_page();
    assert_eq!(reply.header("set-cookie"), None);
    let shown: String = reply.text().lines().filter(|line| !line.contains(" hreflang=")).collect();
    assert!(!shown.contains(sent), "{sent} is reflected");
}

async fn with_redirect_uris(uris: &[&str]) -> Provider {
    let provider = Provider::new().await;
    let redirect_uris = uris.iter().map(|uri| RedirectUri::parse(uri).unwrap()).collect();
    provider.add_client(Client { redirect_uris, ..provider.confidential("native") }).await;
    provider
}

async fn open(provider: &Provider, uri: &str) -> Reply {
    let client = crate::support::Client::confidential(provider, "native");
    provider.browser().open(&client.authorize(&[("redirect_uri", uri)])).await
}

#[tokio::test]
async fn auth_04_without_a_client_there_is_a_page() {
    let provider = Provider::new().await;
    provider.get(&provider.c1().authorize(&[("client_id", "-")])).await.assert_error_page();
    provider.get("/oauth/authorize").await.assert_error_page();
}

#[tokio::test]
async fn auth_05_an_unknown_client_gets_a_page() {
    let provider = Provider::new().await;
    for id in ["unknown", "C1", "c1 ", "c1\0", "c1%00", "<script>alert(1)</script>", &"x".repeat(3000)] {
        let reply = provider.get(&provider.c1().authorize(&[("client_id", id)])).await;
        assert_page_without(&reply, id);
    }
}

#[tokio::test]
async fn auth_06_an_empty_client_counts_as_none() {
    let provider = Provider::new().await;
    provider.get(&provider.c1().authorize(&[("client_id", "")])).await.assert_error_page();
}

#[tokio::test]
async fn auth_07_the_redirect_uri_is_required_even_if_only_one_is_registered() {
    let provider = Provider::new().await;
    for value in ["-", ""] {
        let page = provider.get(&provider.c1().authorize(&[("redirect_uri", value)])).await;
        page.assert_error_page();
        assert!(page.text().contains("Redirect address missing"), "{page:?}");
    }
}

#[tokio::test]
async fn auth_08_an_unregistered_host_gets_a_page() {
    let provider = Provider::new().await;
    for uri in [
        "https://evil.test/cb",
        "https://rp.test.evil.test/cb",
        "https://evil.test/https://rp.test/cb",
        "https://rp.test@evil.test/cb",
        "https://evil.test\\@rp.test/cb",
        "//rp.test/cb",
        "/cb",
        "javascript:alert(1)//https://rp.test/cb",
        "data:text/html,<script>alert(1)</script>",
    ] {
        let reply = provider.get(&provider.c1().authorize(&[("redirect_uri", uri)])).await;
        assert_page_without(&reply, uri);
    }
}

#[tokio::test]
async fn auth_09_redirect_uris_compare_byte_for_byte() {
    let provider = Provider::new().await;
    for uri in [
        "https://rp.test/cb/",
        "https://rp.test",
        "https://rp.test/",
        "HTTPS://RP.test/cb",
        "https://RP.test/cb",
        "http://rp.test/cb",
        "https://rp.test/CB",
        "https://rp.test/cb?x=1",
        "https://rp.test/cb?",
        "https://rp.test/cb#f",
        "https://rp.test/cb#",
        "https://rp.test:443/cb",
        "https://rp.test:/cb",
        "https://rp.test/%63b",
        "https://rp.test/./cb",
        "https://rp.test/x/../cb",
        "https://rp.test//cb",
        "https://rp.test/cb;x",
        "https://rp.test/cb%00",
        "https://rp.test/cb\0",
        "https://rp.test/cb\r\nSet-Cookie: a=b",
        "https://rp.test/cb ",
        " https://rp.test/cb",
        "\thttps://rp.test/cb",
        "https://rp.test./cb",
        "https://rp.test/cb\u{fe0f}",
    ] {
        let reply = provider.get(&provider.c1().authorize(&[("redirect_uri", uri)])).await;
        reply.assert_error_page();
    }
}

#[tokio::test]
async fn auth_13_localhost_matches_its_own_port_only() {
    let provider = with_redirect_uris(&["http://localhost:3000/cb", "http://localhost/any"]).await;
    assert_login(&open(&provider, "http://localhost:3000/cb").await);
    for uri in ["http://localhost:3001/cb", "http://localhost/cb", "http://localhost:8080/any"] {
        open(&provider, uri).await.assert_error_page();
    }
}

/// RFC 8252 §7.3: a native application uses an ephemeral port.
#[tokio::test]
async fn a_loopback_address_without_a_port_matches_every_port() {
    let provider = with_redirect_uris(&["http://127.0.0.1/cb", "http://[::1]/cb", "http://127.0.0.1:9/fixed"]).await;
    let client = crate::support::Client::confidential(&provider, "native");
    for uri in ["http://127.0.0.1:51004/cb", "http://[::1]:51004/cb", "http://127.0.0.1/cb"] {
        let reply =
            provider.browser().authorize(&client.authorize(&[("redirect_uri", uri)]), "anna@example.test").await;
        assert!(reply.location().starts_with(&format!("{uri}?code=")), "{}", reply.location());
    }
    for uri in [
        "http://127.0.0.1:51004/cb/",
        "http://127.0.0.1:51004/cb?x",
        "http://127.0.0.1:51004@evil.test/cb",
        "http://127.0.0.1:51004.evil.test/cb",
        "http://127.0.0.1:/cb",
        "http://127.0.0.1:00080/cb",
        "http://127.0.0.1:65536/cb",
        "http://127.1:80/cb",
        "http://localhost:51004/cb",
        "https://127.0.0.1:51004/cb",
        "http://[0:0:0:0:0:0:0:1]:51004/cb",
        "http://127.0.0.1:10/fixed",
        "http://127.0.0.1/fixed",
    ] {
        open(&provider, uri).await.assert_error_page();
    }
}

#[tokio::test]
async fn a_code_for_one_loopback_port_is_bound_to_it() {
    let provider = with_redirect_uris(&["http://127.0.0.1/cb"]).await;
    let client = crate::support::Client::confidential(&provider, "native");
    let reply = provider
        .browser()
        .authorize(&client.authorize(&[("redirect_uri", "http://127.0.0.1:4000/cb")]), "anna@example.test")
        .await;
    let code = assert_code(&reply);
    let redeem = async |uri: &str| {
        client.token(&[("grant_type", "authorization_code"), ("code", &code), ("redirect_uri", uri)]).await
    };
    redeem("http://127.0.0.1:4001/cb").await.assert_error(400, "invalid_grant");
    assert_eq!(redeem("http://127.0.0.1:4000/cb").await.status, 200);
}

#[tokio::test]
async fn auth_14_the_redirect_uri_is_checked_first() {
    let provider = Provider::new().await;
    for (name, value) in [
        ("response_type", "-"),
        ("response_type", "token"),
        ("scope", "-"),
        ("prompt", "none"),
        ("request", "x"),
        ("request_uri", "https://evil.test/"),
        ("response_mode", "form_post"),
    ] {
        let request = provider.c1().authorize(&[("redirect_uri", "https://evil.test/cb"), (name, value)]);
        provider.get(&request).await.assert_error_page();
    }
}

#[tokio::test]
async fn a_repeated_client_or_redirect_uri_gets_a_page() {
    let provider = Provider::new().await;
    let request = provider.c1().authorize(&[]);
    for (name, value) in fields_of(&request) {
        if name == "client_id" || name == "redirect_uri" {
            for second in [value.as_str(), "", "https://evil.test/cb"] {
                let second: String = url::form_urlencoded::byte_serialize(second.as_bytes()).collect();
                provider.get(&format!("{request}&{name}={second}")).await.assert_error_page();
                provider.get(&request.replace('?', &format!("?{name}={second}&"))).await.assert_error_page();
            }
        }
    }
}

#[tokio::test]
async fn a_disabled_client_gets_a_page() {
    let provider = Provider::new().await;
    let client = Client { state: ClientState::Disabled, ..provider.confidential("off") };
    provider.add_client(client).await;
    provider.get(&crate::support::Client::confidential(&provider, "off").authorize(&[])).await.assert_error_page();
}

#[tokio::test]
async fn another_clients_redirect_uri_gets_a_page() {
    let provider = with_redirect_uris(&["https://other.test/cb"]).await;
    provider.get(&provider.c1().authorize(&[("redirect_uri", "https://other.test/cb")])).await.assert_error_page();
}

#[tokio::test]
async fn a_registered_query_precedes_the_response_parameters() {
    let provider = with_redirect_uris(&["https://rp.test/cb?tenant=a%20b"]).await;
    let reply = open(&provider, "https://rp.test/cb?tenant=a%20b").await;
    assert_login(&reply);
    let client = crate::support::Client::confidential(&provider, "native");
    let request = client.authorize(&[("redirect_uri", "https://rp.test/cb?tenant=a%20b"), ("prompt", "none")]);
    let reply = provider.get(&request).await;
    assert!(reply.location().starts_with("https://rp.test/cb?tenant=a%20b&error="), "{}", reply.location());
    reply.assert_error_redirect("login_required");
}

#[tokio::test]
async fn localhost_without_a_port_matches_every_port_of_native_clients_only() {
    let provider = crate::register::open().await;
    let uris = json!(["http://localhost/cb", "http://localhost:9/fixed"]);
    let register = async |kind: &str| {
        let more = json!({"redirect_uris": uris, "application_type": kind, "token_endpoint_auth_method": "none"});
        let own = Registered::new(&provider, &more).await;
        assert_eq!(own.text("application_type"), kind);
        own
    };
    let (native, web) = (register("native").await, register("web").await);
    let open = async |own: &Registered, uri: &str| {
        provider.browser().open(&own.client(&provider).authorize(&[("redirect_uri", uri)])).await
    };
    for uri in ["http://localhost:51004/cb", "http://localhost/cb", "http://localhost:9/fixed"] {
        assert_login(&open(&native, uri).await);
    }
    for uri in ["http://localhost:51004/cb2", "http://localhost:10/fixed", "http://localhost.evil.test:51004/cb"] {
        open(&native, uri).await.assert_error_page();
    }
    assert_login(&open(&web, "http://localhost/cb").await);
    open(&web, "http://localhost:51004/cb").await.assert_error_page();
    // The type is part of an update, and a web client that becomes native loses its approval.
    let id = ClientId::parse(web.text("client_id")).unwrap();
    let approval = Some(ClientDecision { by: Authority::Operator, at: provider.sealgate.clock.now() });
    for (kind, stays) in [("web", true), ("native", false), ("web", true)] {
        provider.sealgate.store.change_client(&id, |client| client.approval = approval).await.unwrap();
        let changes = json!({"redirect_uris": uris, "application_type": kind, "token_endpoint_auth_method": "none"});
        let reply = web.manage(&provider, "PUT", &web.update(&changes).to_string()).await;
        assert_eq!((reply.status, &reply.json()["application_type"]), (200, &json!(kind)));
        let client = provider.sealgate.store.client(&id).await.unwrap().unwrap();
        assert_eq!(client.approval.is_some(), stays, "{kind}");
    }
}

/// The page warns if any program on the device can receive the code.
#[tokio::test]
async fn the_consent_page_warns_of_clients_on_the_device() {
    let provider = crate::register::open().await;
    for (uris, warns) in [
        (json!(["http://127.0.0.1/cb", "http://localhost:9/cb"]), true),
        (json!(["http://127.0.0.1/cb", "https://rp.test/cb"]), false),
    ] {
        let own = Registered::new(&provider, &json!({"redirect_uris": uris})).await;
        let browser = provider.browser();
        let address = own.client(&provider).authorize(&[("redirect_uri", "http://127.0.0.1:51004/cb")]);
        let page = browser.sign_in(&browser.open(&address).await, "anna@example.test").await;
        assert!(page.text().contains("id=\"consent-return\"><bdi>127.0.0.1:51004</bdi>"), "{}", page.text());
        assert_eq!(page.text().contains("id=\"consent-on-device\""), warns, "{uris}");
    }
}
