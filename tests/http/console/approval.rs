//! Tests the approval of clients, and who may re-enable a client.

use sealgate_domain::client::{Authority, ClientDecision, ConsentRule, SelfRegistration};
use sealgate_domain::secret::Secret;

use super::*;

/// Registers a client as Ben, a developer, and returns its id and page.
async fn of_ben(ben: &Browser<'_>) -> (String, String) {
    let id = element(&register(ben, &[]).await, "client-id").unwrap();
    let path = format!("/console/clients/{id}");
    (id, path)
}

async fn vouched_for(provider: &Provider, id: &str) -> bool {
    stored(provider, id).await.unwrap().is_vouched_for()
}

#[tokio::test]
async fn actions_of_developers_are_audited_as_theirs() {
    let provider = provider().await;
    let (ben, anna) = (signed_in(&provider, BEN).await, signed_in(&provider, ANNA).await);
    let (id, path) = of_ben(&ben).await;
    let fields: Vec<(&str, &str)> = form(&[("name", "Other")]).into_iter().chain([("action", "save")]).collect();
    press(&ben, &path, &fields).await;
    press(&ben, &path, &[("action", "rotate"), ("overlap_seconds", "0")]).await;
    press(&ben, &format!("/console/try/{id}"), &[("action", "switch-on")]).await;
    press(&ben, &path, &[("action", "disable")]).await;
    press(&anna, &path, &[("action", "approve")]).await;
    let (by_ben, by_anna) = (Actor::Developer(provider.ben.sub), Actor::Administrator(provider.anna.sub));
    let actors: Vec<Actor> = changes(&provider, &id).await.into_iter().map(|(actor, _)| actor).collect();
    assert_eq!(actors, [by_anna, by_ben, by_ben, by_ben, by_ben]);
    press(&ben, &path, &[("action", "delete"), ("sure", "yes")]).await;
    provider.sealgate.audit.write(&provider.sealgate.store).await.unwrap();
    let kinds = vec![AuditKind::ClientRegistered, AuditKind::ClientDeleted];
    let filter = AuditFilter { client: ClientId::parse(&id), kinds, ..AuditFilter::default() };
    let page = provider.sealgate.store.audit_page(&filter, None, 50).await.unwrap();
    assert!(page.records.len() == 2 && page.records.iter().all(|record| record.event.actor == by_ben));
    // Administrators see the user and the role, and the exported file names the role.
    assert!(anna.get("/console/audit").await.text().contains("<span class=\"tag\">Developer</span>"));
    let file = anna.get("/console/audit/export?format=csv").await;
    assert!(file.text().contains(&format!("developer {}", provider.ben.sub)), "{file:?}");
}

/// Returns the recorded changes of a client, the newest first.
async fn changes(provider: &Provider, id: &str) -> Vec<(Actor, String)> {
    provider.sealgate.audit.write(&provider.sealgate.store).await.unwrap();
    let filter =
        AuditFilter { client: ClientId::parse(id), kinds: vec![AuditKind::ClientChanged], ..AuditFilter::default() };
    let page = provider.sealgate.store.audit_page(&filter, None, 50).await.unwrap();
    page.records.into_iter().map(|record| (record.event.actor, record.event.detail.unwrap_or_default())).collect()
}

#[tokio::test]
async fn an_administrators_approval_of_a_developers_client_counts() {
    let provider = provider().await;
    let (ben, anna) = (signed_in(&provider, BEN).await, signed_in(&provider, ANNA).await);
    let (id, path) = of_ben(&ben).await;
    assert!(!vouched_for(&provider, &id).await);
    let page = ben.get(&path).await;
    assert!(page.text().contains("Not approved") && !page.text().contains("/rules\""), "{page:?}");
    assert_eq!(ben.get(&format!("{path}/rules")).await.status, 403);
    assert!(ben.get("/console/clients").await.text().contains("Not approved"));
    // An action whose button is not shown is rejected.
    for action in ["approve", "revoke-approval"] {
        assert_eq!(press(&ben, &path, &[("action", action)]).await.status, 403);
    }
    assert!(!vouched_for(&provider, &id).await);

    let page = press(&anna, &path, &[("action", "approve")]).await;
    assert!(page.text().contains("client-revoke-approval"), "{page:?}");
    assert!(vouched_for(&provider, &id).await);
    let by_anna = Actor::Administrator(provider.anna.sub);
    assert_eq!(changes(&provider, &id).await, [(by_anna, "approve".to_owned())]);
    press(&anna, &path, &[("action", "revoke-approval")]).await;
    assert!(!vouched_for(&provider, &id).await);
    assert_eq!(changes(&provider, &id).await[0], (by_anna, "revoke approval".to_owned()));
}

#[tokio::test]
async fn clients_of_administrators_are_approved() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let id = element(&register(&anna, &[]).await, "client-id").unwrap();
    assert!(vouched_for(&provider, &id).await);
    // A client from before approvals existed needs the approval of an administrator.
    let forget = |client: &mut Client| client.approval = None;
    provider.sealgate.store.change_client(&ClientId::parse(&id).unwrap(), forget).await.unwrap();
    assert!(!vouched_for(&provider, &id).await);
    // An operator's client needs no approval, and has none to revoke.
    for action in ["approve", "revoke-approval"] {
        press(&anna, "/console/clients/c1", &[("action", action)]).await.assert_error_page();
    }
    assert!(vouched_for(&provider, "c1").await);
}

#[tokio::test]
async fn a_relevant_change_by_a_developer_revokes_the_approval() {
    let provider = provider().await;
    let (ben, anna) = (signed_in(&provider, BEN).await, signed_in(&provider, ANNA).await);
    let (id, path) = of_ben(&ben).await;
    let save = async |browser: &Browser<'_>, changes: &[(&'static str, &'static str)]| {
        let fields: Vec<(&str, &str)> = form(changes).into_iter().chain([("action", "save")]).collect();
        assert!(press(browser, &path, &fields).await.text().contains("The client was saved."));
        vouched_for(&provider, &id).await
    };
    for change in [
        ("name", "Payroll"),
        ("redirect_uris", "https://elsewhere.test/cb"),
        ("redirect_uris", "https://rp.test/cb\nhttps://elsewhere.test/cb"),
        ("post_logout_redirect_uris", "https://elsewhere.test/out"),
        ("scope_phone", "yes"),
    ] {
        // An administrator changes the client and approves the result.
        save(&anna, &[]).await;
        press(&anna, &path, &[("action", "approve")]).await;
        assert!(save(&ben, &[]).await, "no changes");
        assert!(save(&ben, &[("description", "Other words"), ("scope_email", "-")]).await);
        press(&ben, &format!("/console/try/{id}"), &[("action", "switch-on")]).await;
        press(&ben, &path, &[("action", "rotate"), ("overlap_seconds", "0")]).await;
        press(&ben, &format!("/console/try/{id}"), &[("action", "switch-off")]).await;
        assert!(save(&anna, &[change]).await, "{change:?}: the administrator knows");
        save(&anna, &[]).await;
        assert!(!save(&ben, &[change]).await, "{change:?}");
        assert_eq!(changes(&provider, &id).await[0].1, "settings, approval lost");
        // Restoring the previous values does not restore the approval.
        assert!(!save(&ben, &[]).await, "{change:?}");
    }
}

#[tokio::test]
async fn a_change_of_its_own_registration_revokes_a_clients_approval() {
    let provider = provider().await;
    let id = ClientId::parse("c1").unwrap();
    let approve = |client: &mut Client| {
        let access_token = Secret::new("r").hash();
        client.registration =
            Some(SelfRegistration { access_token, used: true, approval_requested: false, unused_until: None });
        client.approval = Some(ClientDecision { by: Authority::Operator, at: UnixTime::from_seconds(1) });
        client.consent = ConsentRule::Ask;
    };
    provider.sealgate.store.change_client(&id, approve).await.unwrap();
    let put = async |body: serde_json::Value| {
        let headers = [("authorization", "Bearer r"), ("content-type", "application/json")];
        let reply = provider.request("PUT", "/oauth/register/c1", &headers, &body.to_string()).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        vouched_for(&provider, "c1").await
    };
    let same = serde_json::json!({
        "client_id": "c1", "client_name": "Client c1", "redirect_uris": [REDIRECT_URI],
        "grant_types": ["authorization_code", "refresh_token"],
    });
    assert!(put(same.clone()).await);
    for (member, value) in [
        ("redirect_uris", serde_json::json!([REDIRECT_URI, "https://elsewhere.test/cb"])),
        ("client_name", serde_json::json!("Payroll")),
        ("token_endpoint_auth_method", serde_json::json!("none")),
        // The consent page shows the host of this URI, and error pages link to it.
        ("client_uri", serde_json::json!("https://elsewhere.test/")),
        ("initiate_login_uri", serde_json::json!("https://elsewhere.test/in")),
        ("post_logout_redirect_uris", serde_json::json!(["https://elsewhere.test/out"])),
    ] {
        let mut changed = same.clone();
        changed[member] = value;
        assert!(!put(changed).await, "{member}");
        put(same.clone()).await;
        provider.sealgate.store.change_client(&id, approve).await.unwrap();
    }
}

#[tokio::test]
async fn a_developer_cannot_enable_a_client_that_an_administrator_disabled() {
    let provider = provider().await;
    let (ben, anna) = (signed_in(&provider, BEN).await, signed_in(&provider, ANNA).await);
    let (id, path) = of_ben(&ben).await;
    let state = async || stored(&provider, &id).await.unwrap().state;
    let kept = async || stored(&provider, &id).await.unwrap().disabled.map(|disabled| disabled.by);

    press(&ben, &path, &[("action", "disable")]).await;
    assert_eq!(kept().await, Some(Authority::Owner(provider.ben.sub)));
    press(&ben, &path, &[("action", "enable")]).await;
    assert_eq!((state().await, kept().await), (ClientState::Enabled, None));

    // The administrator's decision is kept, whether the developer disabled the client before or
    // after.
    for first in [&anna, &ben] {
        press(first, &path, &[("action", "disable")]).await;
        press(&anna, &path, &[("action", "disable")]).await;
        press(&ben, &path, &[("action", "disable")]).await;
        assert_eq!(kept().await, Some(Authority::Administrator(provider.anna.sub)));
        let page = ben.get(&format!("{path}/danger")).await;
        assert!(page.text().contains("Only an administrator can enable it again"), "{page:?}");
        assert!(!page.text().contains("client-enable"));
        assert_eq!(press(&ben, &path, &[("action", "enable")]).await.status, 403);
        assert_eq!(state().await, ClientState::Disabled);
        press(&anna, &path, &[("action", "enable")]).await;
        assert_eq!(state().await, ClientState::Enabled);
    }
    // Records of older versions do not name who disabled the client: it may have been an
    // administrator.
    let change = |client: &mut Client| client.state = ClientState::Disabled;
    provider.sealgate.store.change_client(&ClientId::parse(&id).unwrap(), change).await.unwrap();
    press(&ben, &path, &[("action", "disable")]).await;
    assert_eq!(press(&ben, &path, &[("action", "enable")]).await.status, 403);
    assert_eq!(state().await, ClientState::Disabled);
}

/// The owner could enable the client again, so an administrator can take over the decision.
#[tokio::test]
async fn an_administrator_disables_a_client_that_its_owner_disabled() {
    let provider = provider().await;
    let (ben, anna) = (signed_in(&provider, BEN).await, signed_in(&provider, ANNA).await);
    let (id, path) = of_ben(&ben).await;
    let danger = format!("{path}/danger");
    let disables = |page: &Reply| page.text().contains("id=\"client-disable\"");
    press(&ben, &path, &[("action", "disable")]).await;
    let page = ben.get(&danger).await;
    assert!(!disables(&page) && page.text().contains("id=\"client-enable\""), "{page:?}");
    let page = anna.get(&danger).await;
    assert!(disables(&page) && element(&page, "client-disabled-by-owner").is_some(), "{page:?}");
    press(&anna, &path, &[("action", "disable")]).await;
    let page = anna.get(&danger).await;
    assert!(!disables(&page) && element(&page, "client-disabled-by-owner").is_none(), "{page:?}");
    press(&ben, &path, &[("action", "enable")]).await;
    assert_eq!(stored(&provider, &id).await.unwrap().state, ClientState::Disabled);
}
