//! Tests the rotation of the signing key in the console.

use std::sync::Arc;

use sealgate_signer::Signer;

use super::*;
use crate::softhsm;
use crate::support::token_device;

const PAGE: &str = "/console/keys";
const ROTATE: [(&str, &str); 1] = [("action", "rotate")];

async fn published(provider: &Provider) -> usize {
    provider.get("/oauth/jwks").await.json()["keys"].as_array().unwrap().len()
}

#[tokio::test]
async fn a_rotation_needs_a_recent_administrator_a_form_token_and_a_confirmation() {
    let provider = provider().await;
    let (anna, ben) = (signed_in(&provider, ANNA).await, signed_in(&provider, BEN).await);
    let csrf = csrf_of(&anna.get(PAGE).await);
    let plan = press_only(&anna, PAGE, &ROTATE).await;
    assert!(is_confirmation(&plan) && plan.text().contains("a new key is generated"), "{plan:?}");
    let fields = [("csrf", csrf.as_str()), ("action", "rotate"), ("sure", "yes")];
    assert_eq!(ben.post(PAGE, &fields).await.status, 403);
    assert_eq!(anna.post(PAGE, &fields[1..]).await.status, 400);
    assert_eq!(anna.post(PAGE, &[fields[0], ("action", "remove")]).await.status, 400);
    provider.wait(301);
    let login = anna.post(PAGE, &fields).await;
    let login = anna.follow(login).await;
    assert_login(&login);
    assert!(is_confirmation(&anna.sign_in(&login, ANNA).await));
    assert_eq!(published(&provider).await, 1);
}

/// The test runs in a separate process, because it generates keys.
#[test]
fn a_rotation_publishes_one_key_however_often_the_form_is_sent() {
    let test = "console::keys::a_rotation_publishes_one_key_however_often_the_form_is_sent";
    softhsm::in_own_process(test, token_device::TOKEN_LABEL, |_| {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            let provider = provider().await;
            let forget = sealgate_store::engine::Changes { delete: vec![b"mkeys".to_vec()], ..Default::default() };
            sealgate_store::engine::Engine::commit(&*provider.engine, forget).await.unwrap();
            let signer = token_device::own_signer("rotated");
            let sealgate = provider
                .again_with(ON, Arc::clone(&provider.engine) as _, Arc::clone(&signer) as Arc<dyn Signer>)
                .await;
            let provider = Provider { sealgate, ..provider };
            let anna = signed_in(&provider, ANNA).await;
            let plan = press_only(&anna, PAGE, &ROTATE).await;
            let csrf = csrf_of(&plan);
            let fields = hidden_fields(plan.text());
            let mut fields: Vec<(&str, &str)> =
                fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            fields.push(("sure", "yes"));
            let (one, other) = tokio::join!(anna.post(PAGE, &fields), anna.post(PAGE, &fields));
            assert_eq!((one.status, one.location()), (303, other.location()), "{one:?}");
            let page = anna.follow(one).await;
            assert!(
                page.text().contains("The new key is published.") && page.text().contains("keys-rotating"),
                "{page:?}"
            );
            assert_eq!(published(&provider).await, 2);
            let filter = AuditFilter { kinds: vec![AuditKind::KeysChanged], ..AuditFilter::default() };
            let events = provider.sealgate.store.audit_page(&filter, None, 10).await.unwrap().records;
            assert!(
                events.iter().any(|record| record.event.actor == Actor::Administrator(provider.anna.sub)),
                "{events:?}"
            );
            // A second rotation is refused while the first is in progress.
            let page = anna.post(PAGE, &[("csrf", &csrf), ("action", "rotate"), ("sure", "yes")]).await;
            assert!(page.text().contains("id=\"keys-problem\"") && page.text().contains("in progress"), "{page:?}");
            assert_eq!(published(&provider).await, 2);
        });
    });
}
