//! Signing keys and messages.

use std::sync::Arc;

use super::*;
use crate::mailbox::MAIL;
use crate::softhsm;
use crate::support::token_device;
use sealgate_domain::audit::{AuditFilter, AuditKind};
use sealgate_domain::mail::{Mail, MailId, MailMessage, Notice};
use sealgate_domain::user::Email;
use sealgate_signer::Signer;

/// Queues a message to Ben that is sent in ten minutes. Returns its ID.
async fn queue(provider: &Provider) -> String {
    let (id, nonce) = (MailId::from_bytes(random(&OsEntropy)), random(&OsEntropy));
    let mail = Mail::Notice { notice: Notice::PasswordChanged, count: 1 };
    let language = provider.sealgate.config.pages.default_language;
    let message = MailMessage { to: Email::parse(BEN), language, at: provider.clock.now(), origin: None, mail };
    let later = provider.clock.now().plus(Duration::from_mins(10));
    let waiting = provider.sealgate.store.new_mail((id, nonce), Some(provider.ben.sub), &message, later).unwrap();
    assert!(provider.sealgate.store.add_mail(&[waiting]).await.unwrap());
    id.to_string()
}

#[tokio::test]
async fn queued_messages_are_listed_retried_and_deleted() {
    let provider = provider_with(MAIL).await;
    let program = Program::with(&provider, &[ApiScope::MailRead, ApiScope::MailWrite]).await;
    let id = queue(&provider).await;
    let due = async || {
        let list = program.get("mails").await;
        // The list has no contents.
        assert!(!list.text().contains("password has been changed"), "{list:?}");
        let mails = list.json()["mails"].as_array().unwrap().clone();
        mails
            .iter()
            .map(|mail| (mail["id"].clone(), mail["sub"].clone(), mail["due_at"].as_u64().unwrap()))
            .collect::<Vec<_>>()
    };
    let (now, ben) = (provider.clock.now().seconds(), json!(provider.ben.sub));
    assert_eq!(due().await, [(json!(id), ben.clone(), now + 600)]);
    assert_eq!(program.send("POST", &format!("mails/{id}/retry"), &[], "").await.status, 204);
    assert_eq!(due().await, [(json!(id), ben, now)]);
    // A retried message is retried again at once.
    assert_eq!(program.send("POST", &format!("mails/{id}/retry"), &[], "").await.status, 204);
    assert_eq!(program.send("DELETE", &format!("mails/{id}"), &[], "").await.status, 204);
    assert_eq!(due().await, []);
    for (method, path) in [("POST", format!("mails/{id}/retry")), ("DELETE", format!("mails/{id}"))] {
        assert_eq!(code(&program.send(method, &path, &[], "").await, 404), "not_found");
    }
    let filter = AuditFilter { kinds: vec![AuditKind::MailChanged], ..AuditFilter::default() };
    let events = provider.sealgate.store.audit_page(&filter, None, 10).await.unwrap().records;
    let details: Vec<_> = events.iter().map(|record| record.event.detail.clone().unwrap()).collect();
    assert_eq!(details, [format!("delete {id}"), format!("retry {id}"), format!("retry {id}")]);
    assert!(events.iter().all(|record| record.event.actor.to_string().starts_with("api token ")));
}

/// The test runs in a separate process, because it generates keys.
#[test]
fn a_rotation_publishes_a_key_of_the_algorithm() {
    let test = "api::objects::a_rotation_publishes_a_key_of_the_algorithm";
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
            let program = Program::with(&provider, &[ApiScope::KeysRead, ApiScope::KeysWrite]).await;
            assert_eq!(program.get("keys").await.json()["keys"].as_array().unwrap().len(), 1);
            for (query, status) in [("?algorithm=EdDSA", 422), ("?algorithm=none", 400), ("?alg=RS256", 400)] {
                let refused = program.send("POST", &format!("keys/rotate{query}"), &[], "").await;
                assert_eq!(refused.status, status, "{query}: {refused:?}");
            }
            let writer = Program::with(&provider, &[ApiScope::KeysWrite]).await;
            // A token that cannot read the keys does not see them.
            let rotated = writer.send("POST", "keys/rotate?algorithm=RS256", &[], "").await;
            assert_eq!((rotated.status, rotated.text()), (204, ""), "{rotated:?}");
            let keys = program.get("keys").await.json();
            assert_eq!(keys["keys"].as_array().unwrap().len(), 2, "{keys}");
            let running = program.send("POST", "keys/rotate", &[], "").await;
            assert_eq!(code(&running, 422), "invalid");
            assert!(running.text().contains("a rotation is in progress"), "{running:?}");
            assert_eq!(provider.get("/oauth/jwks").await.json()["keys"].as_array().unwrap().len(), 2);
        });
    });
}
