//! Tests the whole flow over sockets: sign-in, consent, code, tokens, UserInfo, refresh,
//! revocation, logout.

use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::support::{Browser, Instance, REDIRECT_URI, SIGNED_OUT_URI, Settings};

const VERIFIER: &str = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-.";

/// Authentication method of a client.
#[derive(Clone, Copy)]
pub(super) enum Proof<'a> {
    Public,
    Basic(&'a str),
    Post(&'a str),
}

pub(super) struct Client<'a> {
    pub(super) instance: &'a Instance,
    pub(super) browser: Browser,
    pub(super) id: &'a str,
    pub(super) proof: Proof<'a>,
}

impl Client<'_> {
    pub(super) fn authorize(&self, scope: &str) -> String {
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(VERIFIER));
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query
            .append_pair("client_id", self.id)
            .append_pair("response_type", "code")
            .append_pair("redirect_uri", REDIRECT_URI)
            .append_pair("scope", scope)
            .append_pair("state", "s1")
            .append_pair("nonce", "n1")
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        self.instance.url(&format!("/oauth/authorize?{}", query.finish()))
    }

    pub(super) async fn code(&self, scope: &str) -> String {
        let end = self.browser.go(&self.authorize(scope)).await;
        assert_eq!(end.returned("state").as_deref(), Some("s1"), "{end:?}");
        assert_eq!(end.returned("iss"), Some(self.instance.url("")));
        end.returned("code").unwrap()
    }

    async fn post(&self, path: &str, fields: &[(&str, &str)]) -> (u16, Value) {
        let mut fields = fields.to_vec();
        let mut request = self.browser.client().post(self.instance.url(path));
        match self.proof {
            Proof::Public => fields.push(("client_id", self.id)),
            Proof::Basic(secret) => request = request.basic_auth(self.id, Some(secret)),
            Proof::Post(secret) => fields.extend([("client_id", self.id), ("client_secret", secret)]),
        }
        let response = request.form(&fields).send().await.unwrap();
        let status = response.status().as_u16();
        (status, response.json().await.unwrap_or_default())
    }

    pub(super) async fn redeem(&self, code: &str) -> (u16, Value) {
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", REDIRECT_URI),
            ("code_verifier", VERIFIER),
        ];
        self.post("/oauth/token", &fields).await
    }

    pub(super) async fn refresh(&self, token: &str) -> (u16, Value) {
        self.post("/oauth/token", &[("grant_type", "refresh_token"), ("refresh_token", token)]).await
    }

    pub(super) async fn userinfo(&self, access_token: &str) -> (u16, Value) {
        let request = self.browser.client().get(self.instance.url("/oauth/userinfo")).bearer_auth(access_token);
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    /// Verifies a token with the published key that it names, and returns its claims.
    pub(super) async fn verified(&self, token: &str) -> Value {
        let keys: Value =
            self.browser.client().get(self.instance.url("/oauth/jwks")).send().await.unwrap().json().await.unwrap();
        let (input, signature) = token.rsplit_once('.').unwrap();
        let (header, claims) = input.split_once('.').unwrap();
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).unwrap();
        let header: Value = serde_json::from_slice(&decode(header)).unwrap();
        let key = keys["keys"].as_array().unwrap().iter().find(|key| key["kid"] == header["kid"]).unwrap();
        let component = |name: &str| decode(key[name].as_str().unwrap());
        let key = RsaPublicKeyComponents { n: component("n"), e: component("e") };
        key.verify(&RSA_PKCS1_2048_8192_SHA256, input.as_bytes(), &decode(signature)).unwrap();
        serde_json::from_slice(&decode(claims)).unwrap()
    }
}

pub(super) fn text(body: &Value, name: &str) -> String {
    body[name].as_str().unwrap_or_else(|| panic!("no {name} in {body}")).to_owned()
}

/// Performs all requests of a client, in order.
pub(super) async fn whole_flow(client: &Client<'_>) {
    let code = client.code("openid profile email phone offline_access").await;
    let (status, tokens) = client.redeem(&code).await;
    assert_eq!(status, 200, "{tokens}");
    assert_eq!(tokens["expires_in"], 900);
    let id_claims = client.verified(&text(&tokens, "id_token")).await;
    assert_eq!((&id_claims["nonce"], &id_claims["aud"]), (&"n1".into(), &client.id.into()));
    let access = text(&tokens, "access_token");
    assert_eq!(client.verified(&access).await["sub"], id_claims["sub"]);

    let (status, info) = client.userinfo(&access).await;
    assert_eq!((status, &info["name"], &info["sub"]), (200, &"Anna Şahin".into(), &id_claims["sub"]));

    let first = text(&tokens, "refresh_token");
    let (status, renewed) = client.refresh(&first).await;
    assert_eq!(status, 200, "{renewed}");
    let second = text(&renewed, "refresh_token");
    assert_ne!(first, second);

    let (status, refused) = client.refresh(&first).await;
    assert_eq!((status, &refused["error"]), (400, &"invalid_grant".into()));
    assert_eq!(client.refresh(&second).await.0, 400, "the family ends when an old token comes again");
    assert_eq!(client.userinfo(&text(&renewed, "access_token")).await.0, 401);

    let (_, tokens) = client.redeem(&client.code("openid offline_access").await).await;
    let refresh = text(&tokens, "refresh_token");
    assert_eq!(client.post("/oauth/revoke", &[("token", &refresh)]).await.0, 200);
    let (_, refused) = client.refresh(&refresh).await;
    assert!(text(&refused, "error_description").contains("revoked"), "{refused}");
    assert_eq!(client.userinfo(&text(&tokens, "access_token")).await.0, 401);

    let mut logout = url::Url::parse(&client.instance.url("/oauth/logout")).unwrap();
    logout
        .query_pairs_mut()
        .append_pair("id_token_hint", &text(&tokens, "id_token"))
        .append_pair("post_logout_redirect_uri", SIGNED_OUT_URI)
        .append_pair("state", "bye");
    let end = client.browser.get(logout.as_str()).await;
    assert_eq!(end.location(), Some(format!("{SIGNED_OUT_URI}?state=bye")));
    let silent = client.browser.get(&format!("{}&prompt=none", client.authorize("openid"))).await;
    assert_eq!(silent.returned("error").as_deref(), Some("login_required"));
}

#[tokio::test(flavor = "multi_thread")]
async fn public_and_confidential_clients_pass_the_whole_flow() {
    let mut instance = Instance::prepare(&Settings::default());
    instance.add_public_client("native");
    let secret = instance.add_confidential_client("web");
    instance.start();
    for (id, proof) in [("native", Proof::Public), ("web", Proof::Basic(&secret)), ("web", Proof::Post(&secret))] {
        let client = Client { instance: &instance, browser: Browser::new(&instance), id, proof };
        whole_flow(&client).await;
    }
    let metrics = reqwest::get(instance.admin_url("/metrics")).await.unwrap().text().await.unwrap();
    for series in [
        "sealgate_tokens_issued_total{kind=\"access_token\"} 9",
        "sealgate_requests_total{endpoint=\"token\",status=\"200\"} 9",
        "sealgate_replays_total{kind=\"refresh_token\"} 3",
        "sealgate_sign_ins_total{outcome=\"succeeded\"} 3",
        "sealgate_build_info",
    ] {
        assert!(metrics.contains(series), "{series}\n{metrics}");
    }
    assert_eq!(instance.stop(), Some(0));
    assert!(!instance.log().contains("RT_"), "the log contains a refresh token");
    assert!(!instance.log().contains("code="), "the log contains a code");
}
