//! Tests the console of a local issuer, whose host is below `.localhost`.

use sealgate_config::IssuerUrl;
use sealgate_domain::redirect_uri::RedirectUri;
use sealgate_domain::user::Role;

use super::{ANNA, ON, element, give, press, register, signed_in, stored};
use crate::steps::assert_code;
use crate::support::{Provider, is_consent};

const HERE: &str = "http://id.localhost:8080";

#[tokio::test]
async fn a_test_sign_in_at_an_issuer_below_localhost_keeps_the_client_readable() {
    let provider = Provider::changed(ON, |config| config.issuer = IssuerUrl::parse(HERE).unwrap()).await;
    give(&provider, provider.anna.sub, Some(Role::Developer)).await;
    let anna = signed_in(&provider, ANNA).await;
    let id = element(&register(&anna, &[]).await, "client-id").unwrap();
    let path = format!("/console/try/{id}");
    let page = press(&anna, &path, &[("action", "switch-on")]).await;
    assert!(page.text().contains("client-test-start"), "{page:?}");
    let mut reply = anna.submit(&page, &[("action", "start")]).await;
    if is_consent(&reply) {
        reply = anna.allow(&reply).await;
    }
    assert_code(&reply);
    let back = reply.location().strip_prefix(HERE).unwrap().to_owned();
    assert!(anna.get(&back).await.text().contains("It works."));
    let client = stored(&provider, &id).await.unwrap();
    assert_eq!(client.redirect_uris.len(), 2);
    // The client's form keeps the redirect URI that the console has added, and shows only the
    // client's own URIs.
    assert_eq!(anna.get(&format!("/console/clients/{id}")).await.status, 200);
    press(&anna, &path, &[("action", "switch-off")]).await;
    assert_eq!(stored(&provider, &id).await.unwrap().redirect_uris.len(), 1);
}

/// A record that could not be read back is not written, and the stored record is unchanged.
#[tokio::test]
async fn an_unreadable_record_is_not_written() {
    let provider = Provider::new().await;
    let before = stored(&provider, "c1").await.unwrap();
    let id = before.id.clone();
    let store = &provider.sealgate.store;
    let foreign = RedirectUri::of_application("http://rp.test/cb");
    let changed = store.change_client(&id, |client| client.redirect_uris.push(foreign.clone())).await;
    assert!(changed.is_err(), "{changed:?}");
    assert_eq!(stored(&provider, "c1").await.unwrap(), before);
    provider.c1().tokens("openid").await;
}
