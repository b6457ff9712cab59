//! Tests dynamic registration (RFC 7591, OpenID Connect Registration 1.0; cases REG-01 to REG-14).

use std::sync::Arc;
use std::time::Duration;

use sealgate_domain::client::{self, Authority, ClientDecision, ClientId};
use sealgate_domain::mail::{Mail, Notice};
use sealgate_domain::redirect_uri::RedirectUri;
use sealgate_domain::registration_token::RegistrationToken;
use sealgate_domain::scope::Scope;
use sealgate_domain::secret::Secret;
use sealgate_system::clock::Clock;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::mailbox::{self, MAIL};
use crate::steps::{assert_consent, with_anna};
use crate::support::{Client, ISSUER, Provider, REDIRECT_URI, Reply, Tokens};

pub(crate) const JSON: (&str, &str) = ("content-type", "application/json");
const OPEN: &str = "[registration]\nmode = \"open\"\n[rate_limits]\nregister = 1000";

/// Returns a provider with open registration.
pub(crate) async fn open() -> Provider {
    Provider::with(OPEN).await
}

pub(crate) async fn register(provider: &Provider, metadata: &Value) -> Reply {
    provider.request("POST", "/oauth/register", &[JSON], &metadata.to_string()).await
}

/// Returns the metadata of a client with one redirect URI and these members.
pub(crate) fn metadata(more: &Value) -> Value {
    let mut all = json!({"redirect_uris": [REDIRECT_URI]});
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    all
}

/// Client that has registered itself.
pub(crate) struct Registered {
    pub(crate) body: Value,
}

impl Registered {
    pub(crate) async fn new(provider: &Provider, more: &Value) -> Self {
        let reply = register(provider, &metadata(more)).await;
        assert_eq!(reply.status, 201, "{reply:?}");
        Self { body: reply.json() }
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        self.body[name].as_str().unwrap_or_else(|| panic!("no {name}: {}", self.body))
    }

    /// Returns the path of the client's own registration.
    pub(crate) fn path(&self) -> &str {
        self.text("registration_client_uri").strip_prefix(ISSUER).unwrap()
    }

    pub(crate) async fn manage(&self, provider: &Provider, method: &str, body: &str) -> Reply {
        manage(provider, method, self.path(), self.text("registration_access_token"), body).await
    }

    /// Returns the members that a PUT may contain, changed.
    pub(crate) fn update(&self, changes: &Value) -> Value {
        let mut all = metadata(&json!({"client_id": self.text("client_id")}));
        all.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        all
    }

    pub(crate) fn client<'a>(&self, provider: &'a Provider) -> Client<'a> {
        let mut client = Client::public(provider, self.text("client_id"));
        client.secret = self.body.get("client_secret").map(|secret| secret.as_str().unwrap().to_owned());
        client
    }
}

pub(crate) async fn manage(provider: &Provider, method: &str, path: &str, token: &str, body: &str) -> Reply {
    let headers = [("authorization", &*format!("Bearer {token}")), JSON];
    provider.request(method, path, &headers, body).await
}

#[tokio::test]
async fn reg_01_a_client_registers_and_works() {
    let provider = open().await;
    let reply = register(&provider, &metadata(&json!({"client_name": "Wiki"}))).await;
    assert_eq!((reply.status, reply.header("cache-control")), (201, Some("no-store")));
    let body = reply.json();
    assert_eq!(body["client_name"], "Wiki");
    assert_eq!(body["redirect_uris"], json!([REDIRECT_URI]));
    assert_eq!(body["grant_types"], json!(["authorization_code"]));
    assert_eq!(body["response_types"], json!(["code"]));
    assert_eq!(body["token_endpoint_auth_method"], "client_secret_basic");
    assert_eq!(body["client_id_issued_at"].as_u64(), Some(1_800_000_000));
    assert_eq!(body["client_secret_expires_at"].as_u64(), Some(0));
    let own = Registered { body };
    assert_eq!(own.text("registration_client_uri"), format!("{ISSUER}/oauth/register/{}", own.text("client_id")));
    for (member, least) in [("client_id", 22), ("client_secret", 43), ("registration_access_token", 43)] {
        assert!(own.text(member).len() >= least, "{member}");
    }
    let tokens = own.client(&provider).tokens("openid email").await;
    assert_eq!(provider.userinfo(&tokens.access).await.status, 200);
}

#[tokio::test]
async fn reg_01_supported_metadata_is_returned() {
    let provider = open().await;
    let more = json!({
        "grant_types": ["refresh_token", "authorization_code"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "client_secret_post",
        "scope": "openid email offline_access",
        "post_logout_redirect_uris": ["https://rp.test/bye"],
        "client_uri": "https://rp.test/",
        "initiate_login_uri": "https://rp.test/login",
        "tos_uri": "https://rp.test/terms",
        "policy_uri": "https://rp.test/privacy",
        "default_max_age": 3600,
        "subject_type": "public",
        "id_token_signed_response_alg": "RS256",
    });
    let own = Registered::new(&provider, &more).await;
    for (member, value) in more.as_object().unwrap() {
        let echoed = &own.body[member];
        if member == "grant_types" {
            assert_eq!(echoed, &json!(["authorization_code", "refresh_token"]));
        } else {
            assert_eq!(echoed, value, "{member}");
        }
    }
    let client = own.client(&provider);
    let tokens = client.tokens("openid email offline_access").await;
    Tokens::of(&client.refresh(&tokens.refresh).await);
    let reply = provider.browser().open(&client.authorize(&[("scope", "openid phone")])).await;
    reply.assert_error_redirect("invalid_scope");
}

#[tokio::test]
async fn reg_02_a_public_client_has_no_secret_and_needs_pkce() {
    let provider = open().await;
    let own = Registered::new(&provider, &json!({"token_endpoint_auth_method": "none"})).await;
    assert_eq!((own.body.get("client_secret"), own.body.get("client_secret_expires_at")), (None, None));
    let client = own.client(&provider);
    let without = client.authorize(&[("code_challenge", "-"), ("code_challenge_method", "-")]);
    provider.browser().open(&without).await.assert_error_redirect("invalid_request");
    client.tokens("openid").await;
}

#[tokio::test]
async fn reg_03_redirect_uris_are_required() {
    let provider = open().await;
    for body in [
        json!({}),
        json!({"redirect_uris": []}),
        json!({"redirect_uris": null}),
        json!({"redirect_uris": REDIRECT_URI}),
        json!({"redirect_uris": {"0": REDIRECT_URI}}),
        json!({"redirect_uris": [7]}),
        json!({"redirect_uris": [REDIRECT_URI, null]}),
        json!({"redirect_uris": [""]}),
        json!({"redirect_uris": vec![REDIRECT_URI; 21]}),
    ] {
        register(&provider, &body).await.assert_error(400, "invalid_redirect_uri");
    }
}

#[tokio::test]
async fn reg_04_unsafe_redirect_uris_are_refused() {
    let provider = open().await;
    let long = format!("https://rp.test/{}", "a".repeat(2000));
    for uri in [
        "https://rp.test/cb#fragment",
        "https://rp.test/cb#",
        "http://rp.test/cb",
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "/cb",
        "//rp.test/cb",
        "cb",
        "https://*.rp.test/cb",
        "https://rp.test/*",
        "com.example.app:/cb",
        "app://cb",
        "https://user@rp.test/cb",
        "https://user:password@rp.test/cb",
        "https://",
        "https:///cb",
        "https:rp.test/cb",
        "https:/rp.test/cb",
        "https:///rp.test/cb",
        "https:\\\\rp.test\\cb",
        "https://rp.test/c b",
        " https://rp.test/cb",
        "https://rp.test/cb\n",
        "https://rp.test\t/cb",
        "https://ğ.test/cb",
        "https://rp.test/<script>",
        "https://rp.test:99999/cb",
        "http://localhost.evil.test/cb",
        "http://127.0.0.1.evil.test/cb",
        "http://127.0.0.1@evil.test/cb",
        "http://evil.test#@127.0.0.1/cb",
        // Only "localhost, 127.0.0.1 and [::1] exactly", not other notations of the same address.
        "http://127.1/cb",
        "http://2130706433/cb",
        "http://0x7f.0.0.1/cb",
        "http://127.0.0.2/cb",
        "http://0.0.0.0/cb",
        "http://[0:0:0:0:0:0:0:1]/cb",
        "http://[::ffff:127.0.0.1]/cb",
        "http://localhost./cb",
        "http:localhost/cb",
        &long,
    ] {
        let reply = register(&provider, &json!({"redirect_uris": [uri]})).await;
        assert_eq!(reply.status, 400, "{uri}: {reply:?}");
        reply.assert_error(400, "invalid_redirect_uri");
        register(&provider, &json!({"redirect_uris": [REDIRECT_URI, uri]}))
            .await
            .assert_error(400, "invalid_redirect_uri");
        register(&provider, &metadata(&json!({"post_logout_redirect_uris": [uri]})))
            .await
            .assert_error(400, "invalid_redirect_uri");
    }
}

#[tokio::test]
async fn reg_06_https_and_loopback_redirect_uris_are_accepted() {
    let provider = open().await;
    let uris = [
        "http://localhost:3000/cb",
        "http://localhost/cb",
        "http://127.0.0.1/cb",
        "http://[::1]:9/cb",
        "https://rp.test",
        "https://rp.test/cb?tenant=1&x=%20",
        "https://RP.test:8443/cb",
        "https://192.0.2.1/cb",
        "https://xn--8ca.test/cb",
    ];
    let reply = register(&provider, &json!({"redirect_uris": uris})).await;
    assert_eq!((reply.status, &reply.json()["redirect_uris"]), (201, &json!(uris)));
}

#[tokio::test]
async fn reg_07_other_grants_and_response_types_are_refused() {
    let provider = open().await;
    for more in [
        json!({"grant_types": ["implicit"]}),
        json!({"grant_types": ["client_credentials"]}),
        json!({"grant_types": ["refresh_token"]}),
        json!({"grant_types": []}),
        json!({"grant_types": "authorization_code"}),
        json!({"response_types": ["token"]}),
        json!({"response_types": ["code id_token"]}),
        json!({"response_types": "code"}),
        json!({"response_types": []}),
        json!({"response_types": ["code", 7]}),
        json!({"grant_types": ["urn:ietf:params:oauth:grant-type:device_code", "refresh_token"]}),
    ] {
        register(&provider, &metadata(&more)).await.assert_error(400, "invalid_client_metadata");
    }
}

#[tokio::test]
async fn reg_09_unsupported_metadata_is_refused() {
    let provider = open().await;
    for more in [
        json!({"token_endpoint_auth_method": "private_key_jwt"}),
        json!({"token_endpoint_auth_method": "client_secret_jwt"}),
        json!({"token_endpoint_auth_method": "tls_client_auth"}),
        json!({"token_endpoint_auth_method": ["none"]}),
        json!({"id_token_signed_response_alg": "none"}),
        json!({"id_token_signed_response_alg": "HS256"}),
        json!({"id_token_encrypted_response_alg": "RSA-OAEP"}),
        json!({"userinfo_signed_response_alg": "RS256"}),
        json!({"userinfo_encrypted_response_alg": "RSA-OAEP"}),
        json!({"request_object_signing_alg": "RS256"}),
        json!({"subject_type": "pairwise"}),
        json!({"sector_identifier_uri": "https://rp.test/sector"}),
        json!({"application_type": "browser"}),
        json!({"scope": "foo bar"}),
        json!({"scope": "groups"}),
        json!({"scope": ["openid"]}),
        json!({"tos_uri": "http://rp.test/terms"}),
        json!({"policy_uri": "javascript:alert(1)"}),
        json!({"client_name": 7}),
        json!({"client_name": "x".repeat(201)}),
        json!({"default_max_age": -1}),
        json!({"default_max_age": "60"}),
        json!({"default_max_age": 1.5}),
        json!({"require_auth_time": "yes"}),
        json!({"post_logout_redirect_uris": "https://rp.test/bye"}),
        json!({"client_uri": "javascript:alert(1)"}),
    ] {
        let reply = register(&provider, &metadata(&more)).await;
        assert_eq!(reply.status, 400, "{more}: {reply:?}");
        reply.assert_error(400, "invalid_client_metadata");
    }
}

/// RFC 7591 §2: the server may replace unsupported values, and returns the registered ones.
#[tokio::test]
async fn unsupported_values_of_a_list_are_dropped_in_the_response() {
    let provider = open().await;
    let asked = json!({
        "grant_types": ["authorization_code", "urn:ietf:params:oauth:grant-type:device_code", "refresh_token", "implicit"],
        "response_types": ["code", "code id_token", "none"],
        "scope": "profile api:read openid groups offline_access",
    });
    let own = Registered::new(&provider, &asked).await;
    let registered = |body: &Value| {
        assert_eq!(body["grant_types"], json!(["authorization_code", "refresh_token"]));
        assert_eq!(body["response_types"], json!(["code"]));
        assert_eq!(body["scope"], "openid profile offline_access");
    };
    registered(&own.body);
    registered(&own.manage(&provider, "GET", "").await.json());
    registered(&own.manage(&provider, "PUT", &own.update(&asked).to_string()).await.json());
    own.client(&provider).tokens("openid profile offline_access").await;
    for scope in ["openid email", "openid groups"] {
        let reply = provider.browser().open(&own.client(&provider).authorize(&[("scope", scope)])).await;
        reply.assert_error_redirect("invalid_scope");
    }
    // Redirect URIs and authentication methods are never replaced: the client would not work with
    // other values.
    let uris = json!({"redirect_uris": [REDIRECT_URI, "http://rp.test/cb"]});
    register(&provider, &metadata(&uris)).await.assert_error(400, "invalid_redirect_uri");
    let method = json!({"token_endpoint_auth_method": "private_key_jwt"});
    register(&provider, &metadata(&method)).await.assert_error(400, "invalid_client_metadata");
}

#[tokio::test]
async fn an_update_keeps_the_default_scope_and_cannot_set_it() {
    let provider = open().await;
    let own =
        Registered::new(&provider, &json!({"default_scope": "openid profile", "scope": "openid profile email"})).await;
    let id = ClientId::parse(own.text("client_id")).unwrap();
    let without = own.client(&provider).authorize(&[("scope", "-")]);
    provider.browser().open(&without).await.assert_error_redirect("invalid_request");
    let default_scope = Some(Scope::parse("openid email").unwrap());
    provider.sealgate.store.change_client(&id, |client| client.details.default_scope = default_scope).await.unwrap();
    let update = own.update(&json!({"default_scope": "openid phone", "scope": "openid email"}));
    let reply = own.manage(&provider, "PUT", &update.to_string()).await;
    assert!(reply.status == 200 && reply.json().get("default_scope").is_none(), "{reply:?}");
    let code = own.client(&provider).code(&[("scope", "-")]).await;
    assert_eq!(own.client(&provider).redeem(&code).await.json()["scope"], "openid email");
}

/// A link to any other host could show the name of a trusted host.
#[tokio::test]
async fn the_consent_page_links_to_terms_and_policy_of_the_client() {
    let provider = open().await;
    let more = json!({"tos_uri": "https://rp.test/terms?a=1&b=2", "policy_uri": "https://bank.example/privacy"});
    let own = Registered::new(&provider, &more).await;
    let id = ClientId::parse(own.text("client_id")).unwrap();
    let consent = async || {
        let browser = with_anna(&provider).await;
        let page = browser.open(&own.client(&provider).authorize(&[("scope", "openid")])).await;
        assert_consent(&page);
        page.text().to_owned()
    };
    let terms = "<a id=\"consent-terms\" href=\"https://rp.test/terms?a=1&#38;b=2\" target=\"_blank\" \
        rel=\"noopener noreferrer\"><bdi>rp.test</bdi></a>";
    let page = consent().await;
    assert!(page.contains(terms) && !page.contains("bank.example"), "{page}");
    let approval = Some(ClientDecision { by: Authority::Operator, at: provider.sealgate.clock.now() });
    provider.sealgate.store.change_client(&id, |client| client.approval = approval).await.unwrap();
    let page = consent().await;
    assert!(page.contains(terms) && page.contains("href=\"https://bank.example/privacy\""), "{page}");
    // The approval covers the links that the page shows.
    for (changes, stays) in [
        (json!({}), true),
        (json!({"policy_uri": "https://rp.test/other"}), false),
        (json!({"tos_uri": "https://rp.test/other"}), false),
        (json!({"tos_uri": null}), false),
    ] {
        provider.sealgate.store.change_client(&id, |client| client.approval = approval).await.unwrap();
        let mut update = own.update(&more);
        update.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        assert_eq!(own.manage(&provider, "PUT", &update.to_string()).await.status, 200);
        let kept = provider.sealgate.store.client(&id).await.unwrap().unwrap();
        assert_eq!(kept.approval.is_some(), stays, "{changes}");
        assert_eq!(own.manage(&provider, "PUT", &own.update(&more).to_string()).await.status, 200);
    }
}

const WIKI: &str = r#"
    [[app]]
    name = "wiki"
    host = "wiki.id.test"
    upstreams = ["http://127.0.0.1:9"]
    [[app.route]]
    path = "/"
    access = "signed_in"
"#;

/// Without this note, the user would first learn of it from the application's 403.
#[tokio::test]
async fn administrators_are_notified_once_of_a_client_that_needs_approval() {
    let notify = "[registration]\nmode = \"open\"\nnotify = [\"ben@example.test\", \"gone@example.test\"]\n";
    let provider = Provider::with(&format!("{notify}{MAIL}{WIKI}")).await;
    let due = async || {
        let due = mailbox::due(&provider.sealgate.store, provider.sealgate.clock.now()).await;
        due.into_iter().map(|(_, message)| (mailbox::address(&message), message.mail)).collect::<Vec<_>>()
    };
    let expected =
        |count| vec![("ben@example.test".to_owned(), Mail::Notice { notice: Notice::ClientNeedsApproval, count })];
    let own = Registered::new(&provider, &json!({"client_name": "Notes"})).await;
    let address = own.client(&provider).authorize(&[("scope", "openid"), ("prompt", "consent")]);
    let browser = with_anna(&provider).await;
    for _ in 0..2 {
        let page = browser.open(&address).await;
        assert!(page.text().contains("id=\"consent-needs-approval\""), "{page:?}");
        browser.submit(&page, &[("consent-deny", "yes")]).await.assert_error_redirect("access_denied");
        assert_eq!(due().await, []);
    }
    for _ in 0..2 {
        let page = browser.open(&address).await;
        browser.allow(&page).await.returned("code").unwrap();
        assert_eq!(due().await, expected(1));
    }
    // An attacker can register many clients: further notifications are sent as one, an hour later.
    for _ in 0..3 {
        let other = Registered::new(&provider, &json!({})).await;
        other.client(&provider).code_in(&browser, &[("scope", "openid")]).await;
    }
    assert_eq!(due().await, expected(1));
    provider.wait(3600);
    assert_eq!(due().await, [expected(1), expected(3)].concat());
    // The page of an approved client does not mention the approval.
    let id = ClientId::parse(own.text("client_id")).unwrap();
    let approval = Some(ClientDecision { by: Authority::Operator, at: provider.sealgate.clock.now() });
    provider.sealgate.store.change_client(&id, |client| client.approval = approval).await.unwrap();
    let page = browser.open(&own.client(&provider).authorize(&[("scope", "openid"), ("prompt", "login")])).await;
    let page = browser.sign_in(&page, "anna@example.test").await;
    assert!(!page.text().contains("consent-needs-approval"), "{page:?}");
}

#[tokio::test]
async fn a_client_that_no_application_refuses_needs_no_approval() {
    for apps in [
        "",
        &WIKI.replace("[[app.route]]", "clients = [\"other\"]\n[[app.route]]"),
        &WIKI.replace("signed_in", "public"),
    ] {
        let provider = Provider::with(&format!("{OPEN}\n{apps}")).await;
        let own = Registered::new(&provider, &json!({})).await;
        let page = with_anna(&provider).await.open(&own.client(&provider).authorize(&[("scope", "openid")])).await;
        assert_consent(&page);
        assert!(!page.text().contains("consent-needs-approval"), "{apps}");
    }
}

#[tokio::test]
async fn reg_10_unknown_members_are_ignored() {
    let provider = open().await;
    let more = json!({
        "contacts": ["dev@rp.test"], "jwks": {"keys": []}, "logo_uri": "javascript:alert(1)", "client_name#tr": "Ş",
        "tos_uri": "https://rp.test/tos", "policy_uri": "https://rp.test/policy", "software_id": "x",
        "default_acr_values": ["1"], "request_uris": ["https://rp.test/r"], "x": {"y": [1, null, {"z": 1.5}]},
        "client_id": "chosen", "client_secret": "chosen", "registration_access_token": "chosen",
    });
    let own = Registered::new(&provider, &more).await;
    for member in ["client_id", "client_secret", "registration_access_token"] {
        assert_ne!(own.text(member), "chosen", "{member}");
    }
    assert!(!own.body.to_string().contains("javascript"));
}

#[tokio::test]
async fn reg_11_jwks_by_value_and_by_reference_exclude_each_other() {
    let provider = open().await;
    let both = json!({"jwks": {"keys": []}, "jwks_uri": "https://rp.test/jwks"});
    register(&provider, &metadata(&both)).await.assert_error(400, "invalid_client_metadata");
}

#[tokio::test]
async fn reg_12_a_body_that_is_no_json_object_is_refused() {
    let provider = open().await;
    let deep = format!("{{\"redirect_uris\":[\"{REDIRECT_URI}\"],\"x\":{}{}}}", "[".repeat(500), "]".repeat(500));
    for body in ["", "{", "[]", "null", "\"x\"", "7", "redirect_uris=https%3A%2F%2Frp.test%2Fcb", "{} {}", &deep] {
        let reply = provider.request("POST", "/oauth/register", &[JSON], body).await;
        reply.assert_error(400, "invalid_client_metadata");
    }
    let large = metadata(&json!({"x": "y".repeat(65_536)}));
    register(&provider, &large).await.assert_error(413, "invalid_request");
    for method in ["GET", "PUT", "DELETE"] {
        let reply = provider.request(method, "/oauth/register", &[], "").await;
        reply.assert_error(405, "method_not_allowed");
        assert_eq!(reply.header("allow"), Some("POST"));
    }
}

/// RFC 7591 §3.1: the content type is `application/json`. A page of another site cannot send it
/// without a preflight.
#[tokio::test]
async fn reg_12_the_body_is_labelled_as_json() {
    let provider = open().await;
    let body = metadata(&json!({})).to_string();
    for media_type in ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""] {
        let reply = provider.request("POST", "/oauth/register", &[("content-type", media_type)], &body).await;
        reply.assert_error(400, "invalid_client_metadata");
    }
    provider.request("POST", "/oauth/register", &[], &body).await.assert_error(400, "invalid_client_metadata");
    for media_type in ["application/json; charset=utf-8", "Application/JSON"] {
        let reply = provider.request("POST", "/oauth/register", &[("content-type", media_type)], &body).await;
        assert_eq!(reply.status, 201, "{media_type}");
    }
}

#[tokio::test]
async fn reg_13_initiate_login_uri_is_https() {
    let provider = open().await;
    for wrong in ["http://rp.test/login", "/login", "javascript:alert(1)", "https:rp.test/login"] {
        let more = json!({"initiate_login_uri": wrong});
        register(&provider, &metadata(&more)).await.assert_error(400, "invalid_client_metadata");
    }
    let own = Registered::new(&provider, &json!({"initiate_login_uri": "https://rp.test/login"})).await;
    assert_eq!(own.text("initiate_login_uri"), "https://rp.test/login");
}

#[tokio::test]
async fn reg_14_software_statements_are_not_accepted() {
    let provider = open().await;
    let more = json!({"software_statement": "eyJhbGciOiJub25lIn0.e30."});
    register(&provider, &metadata(&more)).await.assert_error(400, "unapproved_software_statement");
}

#[tokio::test]
async fn reg_01_registration_can_be_off() {
    let provider = Provider::with("[registration]\nmode = \"off\"").await;
    register(&provider, &metadata(&json!({}))).await.assert_error(403, "access_denied");
    let reply = manage(&provider, "POST", "/oauth/register", "x", &metadata(&json!({})).to_string()).await;
    reply.assert_error(403, "access_denied");
}

/// Returns a provider that requires an initial access token, with one that is valid for a minute.
async fn with_initial_token(token: &str) -> Provider {
    let provider = Provider::with("[rate_limits]\nregister = 1000").await;
    let end = provider.clock.now().plus(Duration::from_mins(1));
    let token = RegistrationToken::new(Secret::new(token).hash(), provider.clock.now(), end);
    assert!(provider.sealgate.store.add_registration_token(&token).await.unwrap());
    provider
}

#[tokio::test]
async fn reg_01_an_initial_access_token_is_required_by_default_and_works_once() {
    let provider = with_initial_token("initial").await;
    let body = metadata(&json!({})).to_string();
    let missing = provider.request("POST", "/oauth/register", &[JSON], &body).await;
    assert_eq!((missing.status, missing.header("www-authenticate")), (401, Some("Bearer realm=\"sealgate\"")));
    let attempt = async |token: &str, body: &str| manage(&provider, "POST", "/oauth/register", token, body).await;
    attempt("wrong", &body).await.assert_bearer_error(401, "invalid_token");
    // A rejected registration does not use the token up.
    attempt("initial", "{}").await.assert_error(400, "invalid_redirect_uri");
    let registered = attempt("initial", &body).await;
    assert_eq!(registered.status, 201);
    attempt("initial", &body).await.assert_bearer_error(401, "invalid_token");
    // An initial token manages no registration, and a registration token registers no client.
    let own = Registered { body: registered.json() };
    manage(&provider, "GET", own.path(), "initial", "").await.assert_bearer_error(401, "invalid_token");
    attempt(own.text("registration_access_token"), &body).await.assert_bearer_error(401, "invalid_token");
}

#[tokio::test]
async fn reg_01_an_initial_access_token_expires() {
    let provider = with_initial_token("initial").await;
    provider.wait(60);
    let reply = manage(&provider, "POST", "/oauth/register", "initial", &metadata(&json!({})).to_string()).await;
    reply.assert_bearer_error(401, "invalid_token");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn reg_01_of_64_simultaneous_registrations_with_one_token_one_succeeds() {
    let provider = Arc::new(with_initial_token("initial").await);
    let mut registrations = JoinSet::new();
    for _ in 0..64 {
        let provider = Arc::clone(&provider);
        registrations.spawn(async move {
            let body = metadata(&json!({})).to_string();
            manage(&provider, "POST", "/oauth/register", "initial", &body).await
        });
    }
    let (won, lost): (Vec<_>, Vec<_>) =
        registrations.join_all().await.into_iter().partition(|reply| reply.status == 201);
    assert_eq!((won.len(), lost.len()), (1, 63));
    for reply in &lost {
        reply.assert_bearer_error(401, "invalid_token");
    }
}

#[tokio::test]
async fn reg_01_no_more_clients_register_than_the_operator_allows() {
    let provider = Provider::with("[registration]\nmode = \"open\"\nmax_clients = 2").await;
    let first = Registered::new(&provider, &json!({})).await;
    Registered::new(&provider, &json!({})).await;
    register(&provider, &metadata(&json!({}))).await.assert_error(503, "temporarily_unavailable");
    assert_eq!(first.manage(&provider, "DELETE", "").await.status, 204);
    Registered::new(&provider, &json!({})).await;
}

/// RFC 7592 §2.2 treats omitted members as null, and many programs send null for them.
#[tokio::test]
async fn reg_10_null_equals_absence() {
    let provider = open().await;
    let more = json!({
        "client_name": null, "scope": null, "grant_types": null, "response_types": null,
        "token_endpoint_auth_method": null, "post_logout_redirect_uris": null, "default_max_age": null,
        "require_auth_time": null, "jwks": null, "jwks_uri": "https://rp.test/jwks", "software_statement": null,
        "request_object_signing_alg": null, "subject_type": null,
    });
    let own = Registered::new(&provider, &more).await;
    let plain = Registered::new(&provider, &json!({})).await;
    for member in ["grant_types", "response_types", "token_endpoint_auth_method", "scope", "subject_type"] {
        assert_eq!(own.body[member], plain.body[member], "{member}");
    }
    let update = own.update(&json!({"client_secret": null, "registration_access_token": null, "client_name": null}));
    assert_eq!(own.manage(&provider, "PUT", &update.to_string()).await.status, 200);
}

#[tokio::test]
async fn reg_01_a_name_is_visible_text_on_one_line() {
    let provider = open().await;
    for name in [
        " ",
        "\u{a0}\u{2003}",
        "Wiki\nAllow everything",
        "Wiki\0",
        "\u{1b}[2J",
        "Wiki\u{85}",
        "\u{202e}ikiW",
        "Wi\u{200b}ki",
        "Wiki\u{2066}",
    ] {
        let more = json!({"client_name": name});
        register(&provider, &metadata(&more)).await.assert_error(400, "invalid_client_metadata");
    }
    let own = Registered::new(&provider, &json!({"client_name": "Şölen & <b>"})).await;
    assert_eq!(own.text("client_name"), "Şölen & <b>");
    let page = provider.browser().open(&own.client(&provider).authorize(&[])).await;
    assert!(!page.text().contains("<b>"));
}

/// A page there would receive the codes of the client's users.
#[tokio::test]
async fn a_client_has_no_redirect_uri_on_a_host_of_this_server_without_an_administrator() {
    let provider = Provider::with(&format!("{OPEN}\n{}", crate::app_passwords::APPS)).await;
    let uris = [
        &format!("{ISSUER}/cb"),
        "https://id.test:8443/cb",
        "https://ID.test/oauth/login",
        "https://id.test./cb",
        "https://wiki.test/.sealgate/callback",
        "https://git.test/cb?a=b",
    ];
    for uri in uris {
        let reply = register(&provider, &json!({"redirect_uris": [REDIRECT_URI, uri]})).await;
        reply.assert_error(400, "invalid_redirect_uri");
        assert!(reply.text().contains("administrator"), "{reply:?}");
        let after = json!({"redirect_uris": [REDIRECT_URI], "post_logout_redirect_uris": [uri]});
        register(&provider, &after).await.assert_error(400, "invalid_redirect_uri");
    }
    for uri in ["https://other.test/id.test", "https://id.test.rp.test/cb", "http://127.0.0.1/cb"] {
        assert_eq!(register(&provider, &json!({"redirect_uris": [uri]})).await.status, 201, "{uri}");
    }

    let own = Registered::new(&provider, &json!({})).await;
    let id = ClientId::parse(own.text("client_id")).unwrap();
    let update = |uri: &str| json!({"client_id": id, "redirect_uris": [REDIRECT_URI, uri]}).to_string();
    own.manage(&provider, "PUT", &update(uris[0])).await.assert_error(400, "invalid_redirect_uri");
    // A redirect URI that an administrator has added stays.
    let added = RedirectUri::parse(uris[0]).unwrap();
    let change = |client: &mut client::Client| client.redirect_uris.push(added.clone());
    provider.sealgate.store.change_client(&id, change).await.unwrap().unwrap();
    assert_eq!(own.manage(&provider, "PUT", &update(uris[0])).await.status, 200);
    own.manage(&provider, "PUT", &update(uris[4])).await.assert_error(400, "invalid_redirect_uri");
}
