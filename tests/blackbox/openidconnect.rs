//! Tests the unmodified `openidconnect` crate as a relying party.

use openidconnect::core::{CoreAuthenticationFlow, CoreClient, CoreProviderMetadata};
use openidconnect::{
    AccessTokenHash, AuthorizationCode, ClientId, ClientSecret, CsrfToken, IssuerUrl, Nonce, OAuth2TokenResponse,
    PkceCodeChallenge, RedirectUrl, RefreshToken, Scope, TokenResponse, core::CoreUserInfoClaims,
};

use crate::support::{Browser, Instance, REDIRECT_URI, Settings};

#[tokio::test(flavor = "multi_thread")]
async fn the_openidconnect_crate_signs_in_refreshes_and_reads_userinfo() {
    let mut instance = Instance::prepare(&Settings::default());
    let secret = instance.add_confidential_client("web");
    instance.start();
    let http = reqwest::ClientBuilder::new().redirect(reqwest::redirect::Policy::none()).no_proxy().build().unwrap();
    let metadata =
        CoreProviderMetadata::discover_async(IssuerUrl::new(instance.url("")).unwrap(), &http).await.unwrap();
    let client =
        CoreClient::from_provider_metadata(metadata, ClientId::new("web".into()), Some(ClientSecret::new(secret)))
            .set_redirect_uri(RedirectUrl::new(REDIRECT_URI.into()).unwrap());

    let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
    let (address, state, nonce) = client
        .authorize_url(CoreAuthenticationFlow::AuthorizationCode, CsrfToken::new_random, Nonce::new_random)
        .add_scopes(["profile", "email", "offline_access"].map(|scope| Scope::new(scope.into())))
        .set_pkce_challenge(challenge)
        .url();
    let end = Browser::new(&instance).go(address.as_str()).await;
    assert_eq!(end.returned("state").as_ref(), Some(state.secret()));

    let code = AuthorizationCode::new(end.returned("code").unwrap());
    let tokens = client.exchange_code(code).unwrap().set_pkce_verifier(verifier).request_async(&http).await.unwrap();
    let id_token = tokens.id_token().unwrap();
    let claims = id_token.claims(&client.id_token_verifier(), &nonce).unwrap();
    assert_eq!(claims.email().unwrap().as_str(), "anna@example.test");
    if let Some(expected) = claims.access_token_hash() {
        let verifier = client.id_token_verifier();
        let actual = AccessTokenHash::from_token(
            tokens.access_token(),
            id_token.signing_alg().unwrap(),
            id_token.signing_key(&verifier).unwrap(),
        );
        assert_eq!(actual.unwrap(), *expected);
    }
    let info: CoreUserInfoClaims = client
        .user_info(tokens.access_token().to_owned(), Some(claims.subject().clone()))
        .unwrap()
        .request_async(&http)
        .await
        .unwrap();
    assert_eq!(info.name().unwrap().get(None).unwrap().as_str(), "Anna Şahin");

    let old = RefreshToken::new(tokens.refresh_token().unwrap().secret().clone());
    let renewed = client.exchange_refresh_token(&old).unwrap().request_async(&http).await.unwrap();
    assert_ne!(renewed.refresh_token().unwrap().secret(), old.secret());
    assert!(client.exchange_refresh_token(&old).unwrap().request_async(&http).await.is_err());
}
