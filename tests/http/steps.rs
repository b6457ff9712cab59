//! Steps shared by several tests, and tools of an attacker.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::RSA_PKCS1_SHA256;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::support::{Browser, Provider, Reply, hidden_fields, is_consent, is_login, jwt_claims, jwt_header};

/// Returns a browser in which Anna is signed in and has consented to `c1`.
pub(crate) async fn with_anna(provider: &Provider) -> Browser<'_> {
    let browser = provider.browser();
    provider.c1().code_in(&browser, &[]).await;
    browser
}

/// Returns the same browser with Ben signed in too, as the active user.
pub(crate) async fn with_anna_and_ben(provider: &Provider) -> Browser<'_> {
    let browser = with_anna(provider).await;
    provider.wait(10);
    let page = browser.open(&provider.c1().authorize(&[("prompt", "login")])).await;
    let page = browser.sign_in(&page, "ben@example.test").await;
    let reply = browser.allow(&page).await;
    assert!(reply.returned("code").is_some());
    browser
}

/// Returns the parameters of an authorization request's URL.
pub(crate) fn fields_of(address: &str) -> Vec<(String, String)> {
    let query = address.split_once('?').unwrap().1;
    url::form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

/// Sends an authorization request by POST and follows it.
pub(crate) async fn open_by_post(browser: &Browser<'_>, address: &str) -> Reply {
    let fields = fields_of(address);
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let reply = browser.post("/oauth/authorize", &fields).await;
    browser.follow(reply).await
}

/// Returns the CSRF token of a page's form.
pub(crate) fn csrf_of(page: &Reply) -> String {
    let fields = hidden_fields(page.text());
    fields.into_iter().find(|(name, _)| name == "csrf").expect("a csrf field").1
}

/// Returns the parameters in a redirect's query, in order.
pub(crate) fn answer(reply: &Reply) -> Vec<(String, String)> {
    url::Url::parse(reply.location()).unwrap().query_pairs().into_owned().collect()
}

/// Returns the names of the parameters in a redirect's query.
pub(crate) fn names(reply: &Reply) -> Vec<String> {
    answer(reply).into_iter().map(|(name, _)| name).collect()
}

/// Asserts a redirect to the client with a code, and returns the code.
#[track_caller]
pub(crate) fn assert_code(reply: &Reply) -> String {
    assert_eq!(reply.status, 302, "{reply:?}");
    reply.returned("code").unwrap_or_else(|| panic!("no code: {}", reply.location()))
}

#[track_caller]
pub(crate) fn assert_login(reply: &Reply) {
    assert!(reply.status == 200 && is_login(reply), "not the sign-in page: {reply:?}");
}

#[track_caller]
pub(crate) fn assert_consent(reply: &Reply) {
    assert!(reply.status == 200 && is_consent(reply), "not the consent page: {reply:?}");
}

/// Returns a token with the same header and changed claims, signed with the attacker's own key.
/// `alg` is RS256 or none.
pub(crate) fn forged(token: &str, alg: &str, change: impl FnOnce(&mut Value)) -> String {
    let (mut header, mut claims) = (jwt_header(token), jwt_claims(token));
    header["alg"] = json!(alg);
    change(&mut claims);
    let write = |part: &Value| URL_SAFE_NO_PAD.encode(serde_json::to_vec(part).unwrap());
    let input = format!("{}.{}", write(&header), write(&claims));
    if alg == "none" {
        return format!("{input}.");
    }
    let key = KeyPair::generate(KeySize::Rsa2048).unwrap();
    let mut signature = vec![0; key.public_modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), input.as_bytes(), &mut signature).unwrap();
    format!("{input}.{}", URL_SAFE_NO_PAD.encode(signature))
}

/// Returns a token with changed claims and the original signature.
pub(crate) fn altered(token: &str, change: impl FnOnce(&mut Value)) -> String {
    let parts: Vec<&str> = token.split('.').collect();
    let mut claims = jwt_claims(token);
    change(&mut claims);
    let claims = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&claims).unwrap());
    format!("{}.{claims}.{}", parts[0], parts[2])
}
