//! Tests the authorization request with a known client and redirect URI (OpenID Connect Core
//! §3.1.2; RFC 6749 §4.1).

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sealgate_domain::client::{Client, ClientDetails, ClientId, GrantType};
use sealgate_domain::scope::Scope;
use serde_json::json;

use crate::steps::{answer, assert_code, assert_consent, assert_login, fields_of, names, with_anna};
use crate::support::{self, ISSUER, Provider, REDIRECT_URI, Reply, Tokens, assert_random, jwt_claims, jwt_header};

/// Returns the answer to `c1`'s changed request in a browser without a session.
async fn answer_to(provider: &Provider, changes: &[(&str, &str)]) -> Reply {
    provider.browser().open(&provider.c1().authorize(changes)).await
}

#[tokio::test]
async fn auth_01_a_sign_in_returns_a_code_to_the_client() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let request = provider.c1().authorize(&[]);
    let page = browser.open(&request).await;
    assert_login(&page);
    let page = browser.sign_in(&page, "anna@example.test").await;
    assert_consent(&page);
    let reply = browser.allow(&page).await;
    assert_eq!(reply.status, 302);
    assert!(reply.location().starts_with(&format!("{REDIRECT_URI}?code=")));
    assert_eq!(names(&reply), ["code", "state", "iss"]);
    assert_eq!(reply.returned("state").as_deref(), Some("s1"));
    assert_eq!(reply.returned("iss").as_deref(), Some(ISSUER));
    let mut codes = vec![reply.returned("code").unwrap()];
    for _ in 0..7 {
        codes.push(assert_code(&browser.open(&request).await));
    }
    assert_random(codes.iter().map(|code| URL_SAFE_NO_PAD.decode(code).unwrap()));
}

#[tokio::test]
async fn auth_15_a_missing_response_type_is_an_invalid_request() {
    let provider = Provider::new().await;
    for value in ["-", ""] {
        answer_to(&provider, &[("response_type", value)]).await.assert_error_redirect("invalid_request");
    }
}

#[tokio::test]
async fn auth_16_every_other_response_type_is_refused() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    for value in
        ["token", "id_token", "code id_token", "code token", "none", "CODE", "code code", " code", "code,token"]
    {
        let reply = browser.open(&provider.c1().authorize(&[("response_type", value)])).await;
        reply.assert_error_redirect("unsupported_response_type");
        assert_eq!(names(&reply), ["error", "error_description", "state", "iss"], "{value}");
    }
}

#[tokio::test]
async fn auth_17_a_missing_scope_is_an_invalid_request() {
    let provider = Provider::new().await;
    for value in ["-", ""] {
        let reply = answer_to(&provider, &[("scope", value)]).await;
        reply.assert_error_redirect("invalid_request");
        let told = reply.returned("error_description").unwrap();
        assert!(told.contains("sealgate client set --default-scope"), "{told}");
    }
}

#[tokio::test]
async fn a_clients_default_scope_applies_to_requests_without_a_scope() {
    let provider = Provider::new().await;
    let of = |text: &str| Scope::parse(text).unwrap();
    let details = ClientDetails { default_scope: Some(of("openid email offline_access")), ..ClientDetails::default() };
    provider.add_client(Client { details, ..provider.confidential("spring") }).await;
    let client = support::Client::confidential(&provider, "spring");
    for absent in ["-", ""] {
        let tokens = client.redeem(&client.code(&[("scope", absent)]).await).await.json();
        assert_eq!(tokens["scope"], "openid email offline_access");
    }
    // Only the requested scope counts. Values that the client may no longer request are left out.
    let narrow = async |scope: &'static str| {
        let id = ClientId::parse("spring").unwrap();
        provider.sealgate.store.change_client(&id, |client| client.scope = of(scope)).await.unwrap();
        provider.browser().open(&client.authorize(&[("scope", "-")])).await
    };
    assert_login(&narrow("openid email").await);
    let named = client.authorize(&[("scope", "openid offline_access")]);
    provider.browser().open(&named).await.assert_error_redirect("invalid_scope");
    narrow("email").await.assert_error_redirect("invalid_request");
}

#[tokio::test]
async fn an_unknown_scope_is_named() {
    let provider = Provider::new().await;
    let told =
        async |scope: &str| answer_to(&provider, &[("scope", scope)]).await.returned("error_description").unwrap();
    assert_eq!(told("openid api:read email").await, "The scope has an unknown value: api:read");
    // Values with characters that an answer may not repeat are not repeated.
    for odd in ["openid a\"b", "openid a\\b", "openid ş", &format!("openid {}", "x".repeat(65))] {
        assert_eq!(told(odd).await, "The scope has an unknown value.", "{odd}");
    }
}

#[tokio::test]
async fn auth_18_a_scope_without_openid_is_invalid() {
    let provider = Provider::new().await;
    for value in ["profile email", "OPENID", "openid,profile", " ", "openidprofile"] {
        answer_to(&provider, &[("scope", value)]).await.assert_error_redirect("invalid_scope");
    }
}

#[tokio::test]
async fn auth_19_an_unknown_scope_is_invalid() {
    let provider = Provider::new().await;
    for value in ["openid foo:bar", "openid Profile", "openid\tprofile", "openid \u{a0}", "openid address"] {
        answer_to(&provider, &[("scope", value)]).await.assert_error_redirect("invalid_scope");
    }
}

#[tokio::test]
async fn auth_20_a_scope_that_the_client_may_not_request_is_invalid() {
    let provider = Provider::new().await;
    let scope = Scope::parse("openid email").unwrap();
    provider.add_client(Client { scope, ..provider.confidential("narrow") }).await;
    let client = support::Client::confidential(&provider, "narrow");
    let open = async |scope: &str| provider.browser().open(&client.authorize(&[("scope", scope)])).await;
    open("openid phone").await.assert_error_redirect("invalid_scope");
    open("openid offline_access").await.assert_error_redirect("invalid_scope");
    assert_login(&open("openid email").await);
}

/// RFC 6749 §4.1.2.1 defines `unauthorized_client` for this error.
#[tokio::test]
async fn a_client_without_the_code_grant_is_unauthorized() {
    let provider = Provider::new().await;
    let grant_types = vec![GrantType::RefreshToken];
    provider.add_client(Client { grant_types, ..provider.confidential("no-code") }).await;
    let client = support::Client::confidential(&provider, "no-code");
    provider.browser().open(&client.authorize(&[])).await.assert_error_redirect("unauthorized_client");
}

#[tokio::test]
async fn auth_23_a_repeated_state_is_an_invalid_request() {
    let provider = Provider::new().await;
    for second in ["s2", "s1", ""] {
        let reply = provider.browser().open(&format!("{}&state={second}", provider.c1().authorize(&[]))).await;
        assert_eq!(reply.returned("error").as_deref(), Some("invalid_request"));
        assert_eq!(names(&reply), ["error", "error_description", "iss"]);
    }
}

#[tokio::test]
async fn auth_25_every_repeated_known_parameter_is_an_invalid_request() {
    let provider = Provider::new().await;
    let challenge = support::challenge(support::VERIFIER);
    for (name, value) in [
        ("scope", "openid"),
        ("response_type", "code"),
        ("response_mode", "query"),
        ("nonce", "n1"),
        ("code_challenge", challenge.as_str()),
        ("code_challenge_method", "S256"),
        ("prompt", "login"),
        ("max_age", "100"),
        ("display", "page"),
        ("ui_locales", "tr"),
        ("claims_locales", "tr"),
        ("id_token_hint", "x"),
        ("login_hint", "x"),
        ("acr_values", "1"),
        ("claims", "{}"),
        ("request", "x"),
        ("request_uri", "https://rp.test/request"),
        ("registration", "{}"),
    ] {
        let request = provider.p1().authorize(&[(name, value)]);
        for second in ["x", value, ""] {
            let reply = provider.browser().open(&format!("{request}&{name}={second}")).await;
            reply.assert_error_redirect("invalid_request");
        }
    }
}

#[tokio::test]
async fn auth_26_unknown_parameters_are_ignored() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    let request = provider.c1().authorize(&[]);
    for more in [
        "extra=foobar",
        "extra=foobar&extra=2",
        "=x&=y",
        "&&&",
        "client_secret=secret",
        "utm_campaign=%FF%FE",
        "%FF=1",
        "code=x&error=y&iss=z",
        "STATE=other",
        "state%00=other",
    ] {
        let reply = browser.open(&format!("{request}&{more}")).await;
        assert_code(&reply);
        assert_eq!(names(&reply), ["code", "state", "iss"], "{more}");
        assert_eq!(reply.returned("state").as_deref(), Some("s1"), "{more}");
    }
}

#[tokio::test]
async fn a_known_parameter_that_is_not_utf_8_is_an_invalid_request() {
    let provider = Provider::new().await;
    for name in ["nonce", "scope", "prompt", "login_hint", "id_token_hint"] {
        let request = provider.c1().authorize(&[(name, "-")]);
        provider.browser().open(&format!("{request}&{name}=a%FF")).await.assert_error_redirect("invalid_request");
    }
    // A state that cannot be returned unchanged is not returned.
    let reply = provider.browser().open(&format!("{}&state=%FF", provider.c1().authorize(&[("state", "-")]))).await;
    assert_eq!(reply.returned("error").as_deref(), Some("invalid_request"));
    assert_eq!(names(&reply), ["error", "error_description", "iss"]);
    for name in ["client_id", "redirect_uri"] {
        let request = provider.c1().authorize(&[(name, "-")]);
        provider.get(&format!("{request}&{name}=a%FF")).await.assert_error_page();
    }
}

#[tokio::test]
async fn more_parameters_than_any_client_sends_are_refused() {
    let provider = Provider::new().await;
    let request = provider.c1().authorize(&[]);
    let of_length = |length: usize| format!("{request}{}", "&x=1".repeat(length - fields_of(&request).len()));
    assert_login(&provider.browser().open(&of_length(100)).await);
    provider.get(&of_length(101)).await.assert_error_page();
}

/// RFC 6749 §3.1. The tests of redirect URIs and PKCE cover the other parameters: an empty client
/// or redirect URI gives an error page, and an empty challenge method is rejected.
#[tokio::test]
async fn a_parameter_without_a_value_counts_as_left_out() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    for name in [
        "response_mode",
        "nonce",
        "code_challenge",
        "prompt",
        "max_age",
        "display",
        "ui_locales",
        "claims_locales",
        "id_token_hint",
        "login_hint",
        "acr_values",
        "claims",
        "request",
        "request_uri",
        "registration",
    ] {
        assert_code(&browser.open(&provider.c1().authorize(&[(name, "")])).await);
    }
}

#[tokio::test]
async fn auth_27_no_state_is_returned_without_one() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    for value in ["-", ""] {
        let reply = browser.open(&provider.c1().authorize(&[("state", value)])).await;
        assert_eq!(names(&reply), ["code", "iss"]);
        let refused = browser.open(&provider.c1().authorize(&[("state", value), ("prompt", "x")])).await;
        assert_eq!(names(&refused), ["error", "error_description", "iss"]);
    }
}

#[tokio::test]
async fn a_state_is_returned_unchanged() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    for state in [
        "a b+c%20d&e=f#g?h/i",
        "\r\nSet-Cookie: a=b\r\n\r\n<script>",
        "çığöşü 漢字 🦭",
        "\u{0}\u{1}\u{7f}",
        &"x".repeat(2048),
        "%41",
        "code=x&iss=https://evil.test",
    ] {
        for change in [("prompt", "-"), ("prompt", "bogus")] {
            let reply = browser.open(&provider.c1().authorize(&[("state", state), change])).await;
            assert_eq!(reply.returned("state").as_deref(), Some(state));
            assert_eq!(reply.returned("iss").as_deref(), Some(ISSUER));
            assert_eq!(reply.header("set-cookie"), None);
        }
    }
}

#[tokio::test]
async fn values_that_are_too_long_to_keep_are_refused() {
    let provider = Provider::new().await;
    let long = "x".repeat(2049);
    for name in ["nonce", "login_hint", "ui_locales", "acr_values"] {
        answer_to(&provider, &[(name, &long)]).await.assert_error_redirect("invalid_request");
    }
    let reply = answer_to(&provider, &[("state", &long)]).await;
    assert_eq!(reply.returned("error").as_deref(), Some("invalid_request"));
    assert_eq!(reply.returned("state"), None);
}

/// A control character takes six bytes in a record.
#[tokio::test]
async fn a_request_has_a_bounded_size_in_the_store() {
    let provider = Provider::new().await;
    let (long, wide) = ("x".repeat(2048), "\u{1}".repeat(1024));
    let fits = answer_to(&provider, &[("state", &long), ("nonce", &long)]).await;
    assert_login(&fits);
    for parameters in [
        &[("nonce", &long), ("login_hint", &long), ("acr_values", &long)][..],
        &[("nonce", &wide)],
        &[("login_hint", &wide)],
        &[("state", &wide)],
    ] {
        let parameters: Vec<_> = parameters.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let reply = answer_to(&provider, &parameters).await;
        assert_eq!(reply.returned("error").as_deref(), Some("invalid_request"), "{reply:?}");
    }
}

#[tokio::test]
async fn auth_29_without_a_nonce_the_id_token_has_none() {
    let provider = Provider::new().await;
    for value in ["-", ""] {
        let code = provider.c1().code(&[("nonce", value)]).await;
        let tokens = Tokens::of(&provider.c1().redeem(&code).await);
        assert!(jwt_claims(&tokens.id).get("nonce").is_none());
    }
    let code = provider.c1().code(&[("nonce", "\"<ş>\\ \n")]).await;
    assert_eq!(jwt_claims(&Tokens::of(&provider.c1().redeem(&code).await).id)["nonce"], "\"<ş>\\ \n");
}

#[tokio::test]
async fn auth_31_the_mode_query_is_the_default() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    for value in ["query", ""] {
        let reply = browser.open(&provider.c1().authorize(&[("response_mode", value)])).await;
        assert!(reply.location().starts_with(&format!("{REDIRECT_URI}?code=")));
        assert_eq!(names(&reply), ["code", "state", "iss"]);
    }
}

/// Returns the parameters in the fragment of a redirect without a query.
fn fragment(reply: &Reply) -> Vec<(String, String)> {
    let url = url::Url::parse(reply.location()).unwrap();
    assert_eq!((reply.status, url.query()), (302, None));
    url::form_urlencoded::parse(url.fragment().unwrap().as_bytes()).into_owned().collect()
}

#[tokio::test]
async fn auth_32_the_mode_fragment_puts_codes_and_errors_there() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    let mode = ("response_mode", "fragment");
    let found = fragment(&browser.open(&provider.c1().authorize(&[mode])).await);
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["code", "state", "iss"]);
    assert_eq!((found[1].1.as_str(), found[2].1.as_str()), ("s1", ISSUER));
    let code = provider.c1().redeem(&found[0].1).await;
    assert_eq!(code.status, 200);
    for (change, error) in [
        (("scope", "profile"), "invalid_scope"),
        (("response_type", "token"), "unsupported_response_type"),
        (("prompt", "none consent"), "invalid_request"),
        (("request", "x"), "request_not_supported"),
    ] {
        let found = fragment(&browser.open(&provider.c1().authorize(&[mode, change])).await);
        assert_eq!(found[0], ("error".to_owned(), error.to_owned()));
        assert_eq!(found[3], ("iss".to_owned(), ISSUER.to_owned()));
    }
    let page = browser.open(&provider.c1().authorize(&[mode, ("prompt", "consent")])).await;
    let denied = browser.submit(&page, &[("consent-deny", "yes")]).await;
    assert_eq!(fragment(&denied)[0].1, "access_denied");
}

#[tokio::test]
async fn auth_33_other_modes_are_refused_in_the_query() {
    let provider = Provider::new().await;
    for value in ["form_post", "bogus", "QUERY", "query.jwt", "jwt", "web_message"] {
        answer_to(&provider, &[("response_mode", value)]).await.assert_error_redirect("invalid_request");
    }
    // It is ambiguous which of the two response modes is meant.
    let twice = format!("{}&response_mode=query", provider.c1().authorize(&[("response_mode", "fragment")]));
    provider.browser().open(&twice).await.assert_error_redirect("invalid_request");
}

#[tokio::test]
async fn auth_34_a_request_object_is_refused_never_ignored() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    for value in ["eyJhbGciOiJub25lIn0.eyJzdGF0ZSI6InMyIn0.", "x", "."] {
        let reply = browser.open(&provider.c1().authorize(&[("request", value)])).await;
        reply.assert_error_redirect("request_not_supported");
    }
}

#[tokio::test]
async fn auth_35_a_request_uri_is_refused_and_never_fetched() {
    let provider = Provider::new().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}/request.jwt", listener.local_addr().unwrap());
    for value in [uri.as_str(), "https://x", "urn:ietf:params:oauth:request_uri:x", "file:///etc/passwd"] {
        answer_to(&provider, &[("request_uri", value)]).await.assert_error_redirect("request_uri_not_supported");
    }
    assert!(tokio::time::timeout(Duration::from_millis(200), listener.accept()).await.is_err(), "it was fetched");
}

#[tokio::test]
async fn auth_37_a_registration_in_the_request_is_refused() {
    let provider = Provider::new().await;
    for value in ["{}", "x", r#"{"redirect_uris":["https://evil.test/"]}"#] {
        answer_to(&provider, &[("registration", value)]).await.assert_error_redirect("registration_not_supported");
    }
}

#[tokio::test]
async fn auth_38_optional_parameters_are_harmless() {
    let provider = Provider::new().await;
    for (name, value) in [
        ("display", "page"),
        ("display", "popup"),
        ("display", "touch"),
        ("display", "wap"),
        ("display", "bogus"),
        ("ui_locales", "se"),
        ("ui_locales", "tr en"),
        ("ui_locales", "x-klingon !!! tr_TR"),
        ("claims_locales", "se"),
        ("acr_values", "1 2"),
        ("acr_values", "urn:mace:incommon:iap:silver"),
    ] {
        assert_login(&answer_to(&provider, &[(name, value)]).await);
    }
}

#[tokio::test]
async fn auth_38_pages_use_the_first_supported_language() {
    let provider = Provider::new().await;
    for (locales, lang) in
        [("tr", "tr"), ("tr-TR en", "tr"), ("se tr en", "tr"), ("en tr", "en"), ("se", "en"), ("TR", "tr")]
    {
        let page = answer_to(&provider, &[("ui_locales", locales)]).await;
        assert!(page.text().contains(&format!("<html lang=\"{lang}\">")), "{locales}");
    }
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[("ui_locales", "tr")])).await;
    let page = browser.sign_in(&page, "anna@example.test").await;
    assert_consent(&page);
    assert!(page.text().contains("<html lang=\"tr\">"), "the next page speaks it too");
    let unknown = provider.get(&provider.c1().authorize(&[("client_id", "unknown"), ("ui_locales", "tr")])).await;
    assert!(unknown.text().contains("<html lang=\"tr\">"), "and an error page");
}

#[tokio::test]
async fn auth_40_a_login_hint_fills_the_form_and_does_nothing_else() {
    let provider = Provider::new().await;
    let page = answer_to(&provider, &[("login_hint", "anna@example.test")]).await;
    assert!(page.text().contains("value=\"anna@example.test\""));
    for hint in ["\"><script>alert(1)</script>", "' onfocus=alert(1) x='", "<!--", "&quot;>"] {
        let page = answer_to(&provider, &[("login_hint", hint)]).await;
        assert_login(&page);
        assert!(!page.text().contains("<script>") && !page.text().contains(&format!("value=\"{hint}")), "{hint}");
    }
    // The answer does not reveal whether the account exists.
    let unknown = answer_to(&provider, &[("login_hint", "nobody@example.test")]).await;
    let known = answer_to(&provider, &[("login_hint", "anna@example.test")]).await;
    assert_eq!(without_ids(&unknown).replace("nobody@", "anna@"), without_ids(&known));
}

/// Returns a page's text without the parts that differ between requests.
fn without_ids(page: &Reply) -> String {
    let differs = |line: &&str| ["action=", "name=\"csrf\"", " hreflang="].iter().any(|part| line.contains(part));
    page.text().lines().filter(|line| !differs(line)).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn auth_41_other_methods_are_refused() {
    let provider = Provider::new().await;
    let request = provider.c1().authorize(&[]);
    for method in ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW"] {
        let reply = provider.request(method, &request, &[("origin", "https://rp.test")], "").await;
        reply.assert_error(405, "method_not_allowed");
        assert_eq!(reply.header("allow"), Some("GET, HEAD, POST"), "{method}");
        assert_eq!(reply.header("access-control-allow-origin"), None);
    }
}

#[tokio::test]
async fn auth_45_the_claims_parameter_is_not_supported_and_changes_nothing() {
    let provider = Provider::new().await;
    let wishes = json!({"userinfo": {"name": {"essential": true}}, "id_token": {"email": null}}).to_string();
    for claims in [wishes.as_str(), "{", "[]", "null"] {
        let code = provider.c1().code(&[("claims", claims)]).await;
        let tokens = Tokens::of(&provider.c1().redeem(&code).await);
        let id = jwt_claims(&tokens.id);
        assert!(id.get("name").is_none() && id.get("email").is_none());
        let info = provider.userinfo(&tokens.access).await.json();
        assert_eq!(info, json!({"sub": provider.anna.sub.to_string()}));
    }
}

#[tokio::test]
async fn only_the_token_endpoint_issues_tokens() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    let reply = browser.open(&provider.c1().authorize(&[("scope", "openid"), ("access_token", "x")])).await;
    assert_eq!(answer(&reply).len(), 3);
    let tokens = Tokens::of(&provider.c1().redeem(&assert_code(&reply)).await);
    assert_eq!(jwt_header(&tokens.id)["alg"], "RS256");
}

#[tokio::test]
async fn the_order_of_parameters_does_not_matter() {
    let provider = Provider::new().await;
    let mut fields = fields_of(&provider.c1().authorize(&[]));
    fields.reverse();
    let query: String = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    assert_login(&provider.browser().open(&format!("/oauth/authorize?{query}")).await);
}
