//! Tests the page of tokens for the admin API.

use super::*;
use sealgate_domain::api_token::ApiScope;

const PAGE: &str = "/console/api-tokens";
const API: &str = "[api]\nenabled = true";

const NEW: [(&str, &str); 5] =
    [("action", "create"), ("name", "terraform"), ("users:read", "yes"), ("users:write", "yes"), ("days", "30")];

#[tokio::test]
async fn a_token_is_confirmed_and_shown_once() {
    let provider = provider_with(API).await;
    let anna = signed_in(&provider, ANNA).await;
    let page = anna.get(PAGE).await;
    assert!(
        page.text().contains("There are no API tokens.") && page.text().contains("https://id.test/api/v1/"),
        "{page:?}"
    );
    let question = press_only(&anna, PAGE, &NEW).await;
    assert!(is_confirmation(&question) && question.text().contains("terraform"), "{question:?}");
    assert!(question.text().contains("users:write") && !question.text().contains("admins:write"), "{question:?}");
    assert_eq!(provider.sealgate.store.api_tokens().await.unwrap(), []);
    let page = anna.submit(&question, &[("sure", "yes")]).await;
    let token = element(&page, "new-token").unwrap();
    let headers = [("authorization", format!("Bearer {token}"))];
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    assert_eq!(provider.request("GET", "/api/v1/users", &headers, "").await.status, 200);
    assert_eq!(provider.request("GET", "/api/v1/clients", &headers, "").await.status, 403);
    let [stored] = &provider.sealgate.store.api_tokens().await.unwrap()[..] else { panic!("one token") };
    assert_eq!((stored.creator, stored.name.as_str()), (Some(provider.anna.sub), "terraform"));
    assert_eq!(stored.scopes, [ApiScope::UsersRead, ApiScope::UsersWrite].into());
    assert_eq!(stored.expires_at, provider.clock.now().plus(Duration::from_hours(30 * 24)));
    // Neither a reload nor a second submission shows or creates another one.
    let again = anna.submit(&question, &[("sure", "yes")]).await;
    assert!(element(&again, "new-token").is_none() && !again.text().contains(&token), "{again:?}");
    assert_eq!(provider.sealgate.store.api_tokens().await.unwrap().len(), 1);
    let page = anna.get(PAGE).await;
    assert!(
        page.text().contains("terraform") && page.text().contains(ANNA) && !page.text().contains(&token),
        "{page:?}"
    );
    let id = stored.id().to_string();
    let question = press_only(&anna, PAGE, &[("action", "remove"), ("id", &id)]).await;
    assert!(is_confirmation(&question) && question.text().contains("terraform"), "{question:?}");
    let page = anna.submit(&question, &[("sure", "yes")]).await;
    assert!(page.text().contains("The token was removed."), "{page:?}");
    assert_eq!(provider.request("GET", "/api/v1/users", &headers, "").await.status, 401);
    let kinds = vec![AuditKind::ApiTokenCreated, AuditKind::ApiTokenRevoked];
    let filter = AuditFilter { kinds, ..AuditFilter::default() };
    let events = provider.sealgate.store.audit_page(&filter, None, 10).await.unwrap().records;
    let details: Vec<_> = events.iter().map(|record| record.event.detail.clone().unwrap()).collect();
    assert_eq!(details, [id.clone(), format!("{id}; scopes users:read users:write; until 2027-02-14T08:00:00Z")]);
    assert!(events.iter().all(|record| record.event.actor == Actor::Administrator(provider.anna.sub)));
}

#[tokio::test]
async fn only_administrators_open_the_page_and_only_with_the_api() {
    let provider = provider_with(API).await;
    let ben = signed_in(&provider, BEN).await;
    assert_eq!(ben.get(PAGE).await.status, 403);
    assert_eq!(ben.post(PAGE, &NEW).await.status, 403);
    let anna = signed_in(&provider, ANNA).await;
    assert!(anna.get("/console/users").await.text().contains("href=\"/console/api-tokens\""));
    let without = super::provider().await;
    let anna = signed_in(&without, ANNA).await;
    assert_eq!(anna.get(PAGE).await.status, 404);
    assert!(!anna.get("/console/users").await.text().contains("href=\"/console/api-tokens\""));
}

#[tokio::test]
async fn a_form_with_errors_creates_no_token() {
    let provider = provider_with(API).await;
    let anna = signed_in(&provider, ANNA).await;
    let page = press_only(&anna, PAGE, &[("action", "create"), ("name", " "), ("days", "30"), ("sure", "yes")]).await;
    assert!(page.text().contains("id=\"name-wrong\"") && page.text().contains("id=\"scopes-wrong\""), "{page:?}");
    let page =
        press_only(&anna, PAGE, &[("action", "create"), ("name", "a"), ("users:read", "yes"), ("days", "9999")]).await;
    assert_eq!(page.status, 400);
    let sold = press_only(&anna, PAGE, &[("action", "sell")]).await;
    assert_eq!(sold.status, 400);
    assert_eq!(provider.sealgate.store.api_tokens().await.unwrap(), []);
}

#[tokio::test]
async fn a_token_needs_a_recent_sign_in() {
    let provider = provider_with(API).await;
    let anna = signed_in(&provider, ANNA).await;
    let question = press_only(&anna, PAGE, &NEW).await;
    assert!(is_confirmation(&question), "{question:?}");
    provider.wait(5 * 60 + 1);
    assert_login(&anna.submit(&question, &[("sure", "yes")]).await);
    assert_eq!(provider.sealgate.store.api_tokens().await.unwrap(), []);
}
