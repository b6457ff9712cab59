//! Tests how administrators see and reset users' second factors.

use sealgate_system::metrics::EnrolmentShare;

use super::*;
use crate::factors::{app, key, record};

const RESET: [(&str, &str); 2] = [("action", "reset-factors"), ("sure", "yes")];

/// Returns a provider on which Ben has an app with blocked codes, a key, and seven recovery codes.
async fn with_factors() -> Provider {
    let provider = provider().await;
    let of_ben = record(provider.ben.sub, &[app("Telefon <b>")], &[key("security_key", "Blue key", 1)], 7);
    provider.sealgate.store.import(&[of_ben]).await.unwrap();
    provider
}

fn page_of(subject: Subject) -> String {
    format!("/console/users/{subject}")
}

async fn has_factors(provider: &Provider) -> bool {
    let factors = provider.sealgate.store.factors(provider.ben.sub).await.unwrap();
    factors.is_some_and(|factors| factors.value.has_any())
}

async fn events(provider: &Provider, kind: AuditKind) -> Vec<AuditEvent> {
    provider.sealgate.audit.write(&provider.sealgate.store).await.unwrap();
    let filter = AuditFilter { kinds: vec![kind], ..AuditFilter::default() };
    let page = provider.sealgate.store.audit_page(&filter, None, 100).await.unwrap();
    page.records.into_iter().map(|record| record.event).collect()
}

#[tokio::test]
async fn factors_are_on_the_users_page_and_the_strongest_is_in_the_list() {
    let provider = with_factors().await;
    let anna = signed_in(&provider, ANNA).await;
    let page = anna.get(&format!("{}/security", page_of(provider.ben.sub))).await;
    for told in
        ["Telefon &#60;b&#62;", "Authenticator app", "Blue key", "Security key", "Never used", "7 recovery codes"]
    {
        assert!(page.text().contains(told), "{told}: {page:?}");
    }
    assert!(page.text().contains("id=\"user-unblock-factors\""), "{page:?}");
    let own = anna.get(&format!("{}/security", page_of(provider.anna.sub))).await;
    assert!(own.text().contains("This user signs in with only a password."), "{own:?}");
    assert!(!own.text().contains("user-reset-factors"), "nobody shuts themselves out");

    let list = anna.get("/console/users").await;
    let cell = |email: &str| {
        let row = list.text().split("\n<tr>").skip(1).find(|row| row.contains(email)).unwrap().to_owned();
        row.split("data-label=\"Two-factor authentication\">").nth(1).unwrap().split('<').next().unwrap().to_owned()
    };
    assert_eq!((cell(ANNA), cell(BEN)), ("None".to_owned(), "Security key".to_owned()));
    assert!(!list.text().contains("id=\"without-factor\""), "nobody was counted yet");
    let counted = EnrolmentShare { none: 3, totp: 4, ..EnrolmentShare::default() };
    provider.sealgate.enrolment.set(counted, provider.clock.now());
    let told = element(&anna.get("/console/users").await, "without-factor").unwrap();
    assert!(told.starts_with("Without two-factor authentication: 3 of 7 users who can sign in (as of "), "{told}");
}

#[tokio::test]
async fn a_reset_is_confirmed_and_its_link_shown_once() {
    let provider = with_factors().await;
    let (anna, ben) = (signed_in(&provider, ANNA).await, signed_in(&provider, BEN).await);
    let path = page_of(provider.ben.sub);
    let page = press_only(&anna, &path, &RESET[..1]).await;
    assert!(is_confirmation(&page) && has_factors(&provider).await, "{page:?}");

    let page = press(&anna, &path, &RESET).await;
    let link = element(&page, "enrolment-link").unwrap_or_else(|| panic!("{page:?}"));
    assert!(link.starts_with(&format!("{ISSUER}/oauth/enrolment?token=")), "{link}");
    assert!(page.text().contains("until they set up a new one with the link"), "{page:?}");
    assert!(!has_factors(&provider).await);
    let again = anna.get(&format!("{path}/security")).await;
    assert!(element(&again, "enrolment-link").is_none() && !again.text().contains("token="), "{again:?}");
    assert_login(&ben.open("/account").await);
    assert!(anna.get("/console/users").await.text().contains("Waiting for the link"));

    provider.clock.set(provider.clock.now().plus(Duration::from_hours(24)));
    let anna = signed_in(&provider, ANNA).await;
    assert!(anna.get(&format!("{path}/security")).await.text().contains("the link has expired"));

    let by = Actor::Administrator(provider.anna.sub);
    let removed = events(&provider, AuditKind::FactorRemoved).await;
    let mut details: Vec<_> = removed.iter().map(|event| (event.actor, event.detail.as_deref().unwrap())).collect();
    details.sort_by_key(|(_, detail)| *detail);
    assert_eq!(details, [(by, "security_key Blue key"), (by, "totp Telefon <b>")]);
    assert_eq!(events(&provider, AuditKind::FactorsReset).await.len(), 1);
}

#[tokio::test]
async fn a_factor_reset_requires_a_recent_sign_in() {
    let provider = with_factors().await;
    let anna = signed_in(&provider, ANNA).await;
    let path = page_of(provider.ben.sub);
    let page = anna.get(&path).await;
    let csrf = csrf_of(&page);
    let fields = |csrf| [("csrf", csrf), RESET[0], RESET[1]];
    give(&provider, provider.anna.sub, Some(Role::Developer)).await;
    assert_eq!(anna.post(&path, &fields(&csrf)).await.status, 403, "a developer");
    give(&provider, provider.anna.sub, Some(Role::Admin)).await;
    assert_eq!(anna.post(&path, &fields("x")).await.status, 400, "another site's form");
    let own = page_of(provider.anna.sub);
    let own_csrf = csrf_of(&anna.get(&own).await);
    assert_eq!(anna.post(&own, &fields(&own_csrf)).await.status, 400, "themselves");
    assert!(provider.sealgate.store.factors(provider.anna.sub).await.unwrap().is_none(), "no reset");
    assert!(has_factors(&provider).await);

    // The page still opens after five minutes, but the button requires a new sign-in.
    provider.clock.set(provider.clock.now().plus(Duration::from_secs(301)));
    assert_eq!(anna.get(&path).await.status, 200);
    let reply = anna.post(&path, &fields(&csrf)).await;
    assert_login(&anna.follow(reply).await);
    assert!(has_factors(&provider).await);
}

#[tokio::test]
async fn unblocking_codes_keeps_all_factors() {
    let provider = with_factors().await;
    let anna = signed_in(&provider, ANNA).await;
    let path = page_of(provider.ben.sub);
    let page = press(&anna, &path, &[("action", "unblock-factors")]).await;
    assert!(page.status == 200 && !page.text().contains("user-unblock-factors"), "{page:?}");
    assert!(page.text().contains("Blue key") && has_factors(&provider).await, "{page:?}");
    let changed = events(&provider, AuditKind::UserChanged).await;
    assert_eq!(changed.first().and_then(|event| event.detail.as_deref()), Some("blocked factors"));
}
