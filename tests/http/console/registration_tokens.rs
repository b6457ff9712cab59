//! Tests the page of initial access tokens, which register clients.

use super::*;
use crate::meddler::At;
use sealgate_domain::grant::EndReason;
use sealgate_domain::registration_token::RegistrationToken;
use sealgate_domain::secret::SecretHash;

const PAGE: &str = "/console/registration-tokens";
const NEW: [(&str, &str); 4] = [("action", "create"), ("name", "CI runners"), ("days", "7"), ("registrations", "5")];

/// Registers a client over HTTP. Returns the response.
async fn register_over_http(provider: &Provider, token: &str) -> Reply {
    let authorization = format!("Bearer {token}");
    let headers = [("content-type", "application/json"), ("authorization", authorization.as_str())];
    let metadata = format!("{{\"client_name\":\"Runner\",\"redirect_uris\":[\"{REDIRECT_URI}\"]}}");
    provider.request("POST", "/oauth/register", &headers, &metadata).await
}

/// Creates a token for this number of clients. Returns the page that shows it, and the token.
async fn create(browser: &Browser<'_>, registrations: &str) -> (Reply, String) {
    let mut fields: [(&str, &str); 4] = NEW;
    fields[3].1 = registrations;
    let question = press_only(browser, PAGE, &fields).await;
    assert!(is_confirmation(&question) && question.text().contains("CI runners"), "{question:?}");
    let page = browser.submit(&question, &[("sure", "yes")]).await;
    let token = element(&page, "new-token").unwrap();
    (question, token)
}

async fn events(provider: &Provider, kind: AuditKind) -> Vec<AuditEvent> {
    provider.sealgate.audit.write(&provider.sealgate.store).await.unwrap();
    let filter = AuditFilter { kinds: vec![kind], ..AuditFilter::default() };
    let page = provider.sealgate.store.audit_page(&filter, None, 10).await.unwrap();
    page.records.into_iter().map(|record| record.event).collect()
}

#[tokio::test]
async fn a_token_registers_clients_until_it_is_used_up() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    assert!(anna.get(PAGE).await.text().contains("There are no registration tokens."));
    let (question, token) = create(&anna, "5").await;
    // Neither a second submission nor a reload shows or creates another one.
    let again = anna.submit(&question, &[("sure", "yes")]).await;
    assert!(element(&again, "new-token").is_none() && !again.text().contains(&token), "{again:?}");
    assert!(anna.get(PAGE).await.text().contains("0 of 5 clients registered"));
    let [stored] = &provider.sealgate.store.registration_tokens().await.unwrap()[..] else { panic!("one token") };
    let id = stored.id().to_string();
    assert_eq!((stored.creator, stored.left()), (Some(provider.anna.sub), 5));
    assert_eq!(stored.expires_at, provider.clock.now().plus(Duration::from_hours(7 * 24)));
    let mut last = String::new();
    for _ in 0..5 {
        let reply = register_over_http(&provider, &token).await;
        assert_eq!(reply.status, 201, "{reply:?}");
        last = reply.json()["client_id"].as_str().unwrap().to_owned();
    }
    register_over_http(&provider, &token).await.assert_bearer_error(401, "invalid_token");
    let page = anna.get(PAGE).await;
    assert!(page.text().contains("5 of 5 clients registered") && page.text().contains("Used up"), "{page:?}");
    assert!(page.text().contains(&format!("href=\"/console/clients/{last}\"")), "{page:?}");
    assert!(!page.text().contains(&token));
    let created = &events(&provider, AuditKind::RegistrationTokenCreated).await[0];
    assert_eq!(created.actor, Actor::Administrator(provider.anna.sub));
    assert_eq!(created.detail.as_deref(), Some(format!("{id}; clients 5; until 2027-01-22T08:00:00Z").as_str()));
    let registered = &events(&provider, AuditKind::ClientRegistered).await[0];
    assert_eq!(registered.detail.as_deref(), Some(format!("registration token {id}").as_str()));
}

#[tokio::test]
async fn a_revoked_token_registers_no_client_and_its_clients_stay() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let (_, token) = create(&anna, "20").await;
    let client = register_over_http(&provider, &token).await.json()["client_id"].as_str().unwrap().to_owned();
    let id = provider.sealgate.store.registration_tokens().await.unwrap()[0].id().to_string();
    let question = press_only(&anna, PAGE, &[("action", "revoke"), ("id", &id)]).await;
    assert!(is_confirmation(&question) && question.text().contains("CI runners"), "{question:?}");
    assert_eq!(register_over_http(&provider, &token).await.status, 201, "it is not revoked yet");
    let reply = anna.submit_only(&question, &[("sure", "yes")]).await;
    assert_eq!(reply.status, 303);
    assert!(anna.follow(reply).await.text().contains("The token was revoked."));
    register_over_http(&provider, &token).await.assert_bearer_error(401, "invalid_token");
    assert!(stored(&provider, &client).await.is_some());
    assert_eq!(events(&provider, AuditKind::RegistrationTokenRevoked).await[0].detail, Some(id));
    // The same form again finds nothing, and an expired token is not listed.
    assert_eq!(anna.submit(&question, &[("sure", "yes")]).await.status, 200);
    create(&anna, "1").await;
    provider.wait(7 * 24 * 3600);
    let anna = signed_in(&provider, ANNA).await;
    assert!(anna.get(PAGE).await.text().contains("There are no registration tokens."));
}

#[tokio::test]
async fn a_token_needs_a_recent_sign_in_and_valid_fields() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let page = press_only(&anna, PAGE, &[("action", "create"), ("days", "1"), ("registrations", "1")]).await;
    assert!(page.text().contains("id=\"name-wrong\""), "{page:?}");
    for (field, value) in [("days", "400"), ("registrations", "7"), ("registrations", "")] {
        let mut fields = NEW;
        fields.iter_mut().filter(|(name, _)| *name == field).for_each(|(_, old)| *old = value);
        assert_eq!(press_only(&anna, PAGE, &fields).await.status, 400, "{field}");
    }
    let question = press_only(&anna, PAGE, &NEW).await;
    provider.wait(5 * 60 + 1);
    assert_login(&anna.submit(&question, &[("sure", "yes")]).await);
    assert_eq!(provider.sealgate.store.registration_tokens().await.unwrap(), []);
}

#[tokio::test]
async fn the_page_says_when_tokens_are_not_accepted() {
    for (mode, is_off) in [("token", false), ("off", true), ("open", true)] {
        let provider = provider_with(&format!("[registration]\nmode = \"{mode}\"")).await;
        let anna = signed_in(&provider, ANNA).await;
        assert_eq!(anna.get(PAGE).await.text().contains("registration-mode"), is_off, "{mode}");
        assert!(anna.get("/console/clients").await.text().contains(&format!("href=\"{PAGE}\"")));
    }
}

#[tokio::test]
async fn a_token_works_only_while_its_creator_is_an_enabled_administrator() {
    let provider = provider_with("admins = \"admins\"").await;
    let anna = provider.anna.sub;
    let (_, token) = create(&signed_in(&provider, ANNA).await, "20").await;
    let works = async || register_over_http(&provider, &token).await.status == 201;
    assert!(works().await);
    for role in [None, Some(Role::Developer)] {
        give(&provider, anna, role).await;
        register_over_http(&provider, &token).await.assert_bearer_error(401, "invalid_token");
    }
    // The group of administrators gives the role too.
    provider.change_user(anna, |user| user.groups = ["admins".to_owned()].into()).await;
    assert!(works().await);
    provider.change_user(anna, |user| user.state = UserState::Disabled).await;
    register_over_http(&provider, &token).await.assert_bearer_error(401, "invalid_token");
    provider.change_user(anna, |user| user.state = UserState::Enabled).await;
    assert!(works().await);
    assert!(provider.sealgate.store.delete_user(anna, provider.clock.now()).await.unwrap());
    register_over_http(&provider, &token).await.assert_bearer_error(401, "invalid_token");
    assert_eq!(provider.sealgate.store.registration_tokens().await.unwrap(), []);
}

#[tokio::test]
async fn a_revocation_of_all_access_deletes_the_registration_tokens_of_the_user() {
    let provider = provider().await;
    let (_, token) = create(&signed_in(&provider, ANNA).await, "20").await;
    let store = &provider.sealgate.store;
    let of_operator = RegistrationToken::new(
        SecretHash::for_secret(b"operator"),
        provider.clock.now(),
        provider.clock.now().plus(Duration::from_hours(1)),
    );
    assert!(store.add_registration_token(&of_operator).await.unwrap());
    store.revoke_user(provider.ben.sub, EndReason::Administrator, provider.clock.now()).await.unwrap();
    assert_eq!(register_over_http(&provider, &token).await.status, 201, "another user");
    store.revoke_user(provider.anna.sub, EndReason::Administrator, provider.clock.now()).await.unwrap();
    register_over_http(&provider, &token).await.assert_bearer_error(401, "invalid_token");
    assert_eq!(store.registration_tokens().await.unwrap(), std::slice::from_ref(&of_operator));
    assert_eq!(register_over_http(&provider, "operator").await.status, 201, "a token of an operator stays");
}

#[tokio::test]
async fn a_new_password_deletes_the_registration_tokens_of_the_user() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let (_, token) = create(&anna, "5").await;
    let page = anna.open("/account/password").await;
    let new = "quiet river under nine stones";
    let page = anna.submit(&page, &[("current", PASSWORD), ("new", new), ("again", new)]).await;
    assert!(page.text().contains("Your password was changed"), "{page:?}");
    register_over_http(&provider, &token).await.assert_bearer_error(401, "invalid_token");
}

/// The creator loses the role, or all access, between the check of the request and the commit.
#[tokio::test]
async fn a_token_whose_creator_leaves_meanwhile_registers_no_client() {
    let (provider, meddler) = Provider::meddled_with(ON).await;
    let anna = provider.anna.sub;
    for is_revoked in [false, true] {
        give(&provider, anna, Some(Role::Admin)).await;
        let (_, token) = create(&signed_in(&provider, ANNA).await, "5").await;
        let before = provider.sealgate.store.self_registered_clients();
        let stop = meddler.stop(At::BeforeCommit, b'l');
        let leave = async {
            if is_revoked {
                let now = provider.clock.now();
                provider.sealgate.store.revoke_user(anna, EndReason::Administrator, now).await.unwrap();
            } else {
                give(&provider, anna, None).await;
            }
        };
        let (reply, ()) = tokio::join!(register_over_http(&provider, &token), stop.meanwhile(leave));
        reply.assert_bearer_error(401, "invalid_token");
        assert_eq!(provider.sealgate.store.self_registered_clients(), before);
    }
}
