//! Tests the assurance level that a client requires: administrators set it, developers see it.

use sealgate_domain::assurance::AssuranceLevel;

use super::*;

#[tokio::test]
async fn only_an_administrator_sets_a_clients_level() {
    let provider = provider().await;
    let (ben, anna) = (signed_in(&provider, BEN).await, signed_in(&provider, ANNA).await);
    let id = element(&register(&ben, &[]).await, "client-id").unwrap();
    let path = format!("/console/clients/{id}");
    let level = async || stored(&provider, &id).await.unwrap().level;

    let page = press(&anna, &path, &[("action", "level"), ("level", "2")]).await;
    assert!(page.text().contains("<option value=\"2\" selected>"), "{page:?}");
    assert_eq!(level().await, Some(AssuranceLevel::Two));
    provider.sealgate.audit.write(&provider.sealgate.store).await.unwrap();
    let filter = AuditFilter { client: ClientId::parse(&id), ..AuditFilter::default() };
    let trail = provider.sealgate.store.audit_page(&filter, None, 5).await.unwrap();
    let last = &trail.records[0].event;
    let by_anna = Actor::Administrator(provider.anna.sub);
    assert_eq!((last.kind, last.actor, last.detail.as_deref()), (AuditKind::ClientChanged, by_anna, Some("set level")));

    // The developer sees the level and cannot lower it: neither by a button that is not shown, nor
    // with the form.
    let page = ben.get(&path).await;
    assert!(page.text().contains("2: password and two-factor method"), "{page:?}");
    assert_eq!(ben.get(&format!("{path}/rules")).await.status, 403);
    assert_eq!(press(&ben, &path, &[("action", "level"), ("level", "1")]).await.status, 403);
    let fields: Vec<(&str, &str)> = form(&[]).into_iter().chain([("action", "save"), ("level", "1")]).collect();
    assert!(press(&ben, &path, &fields).await.text().contains("The client was saved."));
    assert_eq!(level().await, Some(AssuranceLevel::Two));

    for wrong in ["", "0", "4", "none"] {
        press(&anna, &path, &[("action", "level"), ("level", wrong)]).await.assert_error_page();
    }
    assert_eq!(level().await, Some(AssuranceLevel::Two));
    press(&anna, &path, &[("action", "level"), ("level", "1")]).await;
    assert_eq!(level().await, None);
}
