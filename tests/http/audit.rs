//! Tests the audit log: records contain actor, action, address and time, and no secret.

use sealgate_domain::audit::AuditKind as Kind;
use sealgate_domain::audit::{Actor, AuditFilter, AuditKind};
use sealgate_store::{AuditRecord, Fence};

use crate::steps::csrf_of;
use crate::support::{PASSWORD, Provider, Tokens};

/// Returns all matching records, the newest first.
async fn trail(provider: &Provider, filter: AuditFilter) -> Vec<AuditRecord> {
    provider.sealgate.audit.write(&provider.sealgate.store).await.unwrap();
    provider.sealgate.store.audit_page(&filter, None, 1000).await.unwrap().records
}

fn kinds(records: &[AuditRecord]) -> Vec<AuditKind> {
    records.iter().map(|record| record.event.kind).collect()
}

/// Clients refresh all day. The first refresh in an hour is recorded at once, and all further ones
/// as one record with a count. Refreshes from a different address are recorded separately.
#[tokio::test]
async fn refreshes_of_a_grant_are_one_record_an_hour_with_a_count() {
    let provider = Provider::new().await;
    let client = provider.c1();
    let mut tokens = client.tokens("openid offline_access").await;
    let refreshes = || AuditFilter { kinds: vec![Kind::TokensRefreshed], ..AuditFilter::default() };
    let counts = async || {
        provider.sealgate.audit.collect(provider.sealgate.clock.now());
        let records = trail(&provider, refreshes()).await;
        records.iter().map(|record| record.event.count).collect::<Vec<_>>()
    };
    for _ in 0..5 {
        tokens = Tokens::of(&client.refresh(&tokens.refresh).await);
        provider.wait(60);
    }
    assert_eq!(counts().await, [1], "the first is recorded immediately");
    provider.wait(3600);
    assert_eq!(counts().await, [4, 1]);
    for _ in 0..3 {
        tokens = Tokens::of(&client.refresh(&tokens.refresh).await);
    }
    assert_eq!(counts().await, [4, 1], "they are counted on");
    provider.wait(3600);
    assert_eq!(counts().await, [3, 4, 1]);
    provider.wait(7200);
    assert_eq!(counts().await, [3, 4, 1], "nothing was refreshed");
    tokens = Tokens::of(&client.refresh(&tokens.refresh).await);
    assert_eq!(counts().await, [1, 3, 4, 1], "a new sequence is recorded immediately");
    Tokens::of(&client.refresh(&tokens.refresh).await);
    provider.sealgate.audit.collect_all();
    let all = trail(&provider, refreshes()).await;
    assert_eq!(all.iter().map(|record| record.event.count).collect::<Vec<_>>(), [1, 1, 3, 4, 1]);
    for AuditRecord { event, .. } in &all {
        let first = &all.last().unwrap().event;
        assert!(event.grant.is_some() && event.session.is_some());
        assert_eq!((event.grant, event.session, &event.client), (first.grant, first.session, &first.client));
        assert_eq!((event.subject, event.address), (Some(provider.anna.sub), first.address));
    }
}

#[tokio::test]
async fn every_step_at_the_provider_is_audited() {
    let provider = Provider::new().await;
    let (client, browser) = (provider.c1(), provider.browser());
    let page = browser.open(&client.authorize(&[("scope", "openid offline_access")])).await;
    let page = browser.submit(&page, &[("email", "anna@example.test"), ("password", "wrong")]).await;
    let page = browser.sign_in(&page, "anna@example.test").await;
    let code = browser.allow(&page).await.returned("code").unwrap();
    let first = Tokens::of(&client.redeem(&code).await);
    provider.wait(1);
    let second = Tokens::of(&client.refresh(&first.refresh).await);
    client.revoke(&second.access).await;
    assert_eq!(client.refresh(&first.refresh).await.status, 400);
    browser.open(&format!("/oauth/logout?id_token_hint={}", first.id)).await;
    let all = trail(&provider, AuditFilter::default()).await;
    let expected = [
        Kind::SignInFailed,
        Kind::SignedOut,
        Kind::ReuseDetected,
        Kind::TokenRevoked,
        Kind::TokensRefreshed,
        Kind::TokensIssued,
        Kind::ConsentGiven,
        Kind::SignedIn,
    ];
    let mut kept = kinds(&all);
    let mut wanted = expected.to_vec();
    kept.sort_by_key(|kind| kind.as_str());
    wanted.sort_by_key(|kind| kind.as_str());
    assert_eq!(kept, wanted);
    assert!(all.is_sorted_by_key(|record| std::cmp::Reverse(record.event.at)));
    for record in &all {
        let event = &record.event;
        assert_eq!(event.subject, Some(provider.anna.sub), "{event:?}");
        assert_eq!(event.address.unwrap().to_string(), "192.0.2.1");
        assert_eq!(event.request_id.as_deref(), Some("request-1"));
        assert_eq!(event.actor == Actor::Stranger, event.kind == Kind::SignInFailed);
    }
    let text = serde_json::to_string(&all).unwrap();
    for secret in [PASSWORD, &code, &first.access, &first.refresh, &second.refresh] {
        assert!(!text.contains(secret), "{text}");
    }
}

#[tokio::test]
async fn the_audit_log_is_filtered_by_user_client_kind_and_time() {
    let provider = Provider::new().await;
    provider.c1().tokens("openid").await;
    let ben = provider.browser();
    provider.wait(100);
    ben.authorize(&provider.c2().authorize(&[]), "ben@example.test").await;
    let all = trail(&provider, AuditFilter::default()).await;
    let of_ben = trail(&provider, AuditFilter { subject: Some(provider.ben.sub), ..AuditFilter::default() }).await;
    assert_eq!(kinds(&of_ben), [AuditKind::ConsentGiven, AuditKind::SignedIn]);
    let c1 = Some("c1".to_owned().try_into().unwrap());
    let of_c1 = trail(&provider, AuditFilter { client: c1, ..AuditFilter::default() }).await;
    assert_eq!(kinds(&of_c1), [AuditKind::TokensIssued, AuditKind::ConsentGiven, AuditKind::SignedIn]);
    assert_eq!(all, [of_ben.clone(), of_c1.clone()].concat());
    let sign_ins = AuditFilter { kinds: vec![AuditKind::SignedIn], ..AuditFilter::default() };
    assert_eq!(trail(&provider, sign_ins).await.len(), 2);
    let since = AuditFilter { since: Some(of_ben[0].event.at), ..AuditFilter::default() };
    assert_eq!(trail(&provider, since).await, of_ben);
    let until = AuditFilter { until: Some(of_ben[0].event.at), ..AuditFilter::default() };
    assert_eq!(trail(&provider, until).await, of_c1);
    let (mut pages, mut after) = (Vec::new(), None);
    loop {
        let page = provider.sealgate.store.audit_page(&AuditFilter::default(), after, 2).await.unwrap();
        pages.extend(page.records);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(pages, all);
}

#[tokio::test]
async fn changes_of_the_own_account_are_audited() {
    let provider = Provider::new().await;
    let c1 = provider.c1();
    let (anna, elsewhere) = (provider.browser(), provider.browser());
    for browser in [&anna, &elsewhere] {
        browser.authorize(&c1.authorize(&[]), "anna@example.test").await;
    }
    let other = provider.sealgate.store.sessions_of_user(provider.anna.sub, None, 9).await.unwrap().sessions;
    let shown = anna.get("/account/sessions").await;
    let own = shown.text().split("<tr").find(|row| row.contains("This browser")).unwrap();
    let other = other.iter().map(|session| session.id.to_string()).find(|id| !own.contains(id)).unwrap();
    let of_other = format!("session {other}");
    let profile = [("name", "Anna Işık"), ("phone_number", "+90 555 111 22 33"), ("picture", "")];
    let password = [("current", PASSWORD), ("new", "one more good password"), ("again", "one more good password")];
    let end = format!("session:{other}");
    let session = [("end", end.as_str())];
    for (page, fields, expected) in [
        ("/account", &profile[..], Some((Kind::UserChanged, Some("name, phone number, picture")))),
        // Saving the same values writes no record, and neither does ending a session that has
        // ended.
        ("/account", &profile, None),
        ("/account/sessions", &session, Some((Kind::SessionsEnded, Some(of_other.as_str())))),
        ("/account/sessions", &session, None),
        ("/account/sessions", &[("others", "yes")], Some((Kind::SessionsEnded, Some("all others")))),
        ("/account/applications", &[("client", "c1")], Some((Kind::ConsentWithdrawn, Some("grants 0")))),
        ("/account/password", &password, Some((Kind::PasswordChanged, None))),
    ] {
        provider.wait(1);
        let before = trail(&provider, AuditFilter::default()).await.len();
        let form = anna.get(page).await;
        let csrf = csrf_of(&form);
        let fields = [&[("csrf", csrf.as_str())], fields].concat();
        assert_eq!(anna.post(page, &fields).await.status, 303, "{page}");
        let all = trail(&provider, AuditFilter::default()).await;
        let Some((kind, detail)) = expected else {
            assert_eq!(all.len(), before, "{:?}", all[0]);
            continue;
        };
        let event = &all[0].event;
        assert_eq!((all.len(), event.kind, event.detail.as_deref()), (before + 1, kind, detail));
        assert_eq!((event.actor, event.subject), (Actor::User, Some(provider.anna.sub)));
        assert!(event.address.is_some() && event.request_id.is_some() && event.session.is_some(), "{event:?}");
    }
}

/// A password typed into the address field is not recorded, and neither is an unknown address.
#[tokio::test]
async fn typed_addresses_of_unknown_users_are_not_audited() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[])).await;
    for typed in ["hunter2-typed-as-address", "nobody@example.test"] {
        browser.submit(&page, &[("email", typed), ("password", "x")]).await;
    }
    let all = trail(&provider, AuditFilter::default()).await;
    assert_eq!(kinds(&all), [AuditKind::SignInFailed]);
    assert_eq!((all[0].event.count, all[0].event.subject), (2, None));
    let text = serde_json::to_string(&all).unwrap();
    assert!(!text.contains("hunter2") && !text.contains("nobody"), "{text}");
}

/// 5,000 failures from 5,000 addresses cost a few hundred records and a few commits.
#[tokio::test]
async fn identical_failures_are_merged_and_counted() {
    let provider = Provider::with("[login]\nfailures_per_account = 1").await;
    let mut browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[])).await;
    for number in 0..5000 {
        browser.address = format!("10.0.{}.{}", number / 250, number % 250);
        browser.submit(&page, &[("email", "ben@example.test"), ("password", "x")]).await;
    }
    provider.c1().tokens("openid").await;
    let all = trail(&provider, AuditFilter::default()).await;
    let failures: Vec<_> = all.iter().filter(|record| record.event.is_unauthenticated()).collect();
    assert_eq!(failures.iter().map(|record| record.event.count).sum::<u64>(), 5000);
    assert_eq!(failures.len(), 256);
    assert_eq!(all.len(), 256 + 3, "other events are kept too");
}

#[tokio::test]
async fn audit_records_are_limited_by_age_and_number() {
    let provider = Provider::new().await;
    let store = &provider.sealgate.store;
    let keep = std::time::Duration::from_hours(24);
    let now = || sealgate_system::clock::Clock::now(&*provider.clock);
    provider.c1().tokens("openid").await;
    trail(&provider, AuditFilter::default()).await;
    provider.wait(24 * 3600);
    provider.c1().tokens("openid").await;
    assert_eq!(trail(&provider, AuditFilter::default()).await.len(), 5, "the second time the consent is remembered");
    assert_eq!(store.trim_audit(&Fence::default(), now(), keep, 1000, 100).await.unwrap(), 3);
    assert_eq!(store.trim_audit(&Fence::default(), now(), keep, 1000, 100).await.unwrap(), 0);
    let left = trail(&provider, AuditFilter::default()).await;
    assert_eq!(left.len(), 2);
    assert_eq!(store.trim_audit(&Fence::default(), now(), keep, 1, 100).await.unwrap(), 1, "the oldest gives way");
    let now_left = trail(&provider, AuditFilter { subject: Some(provider.anna.sub), ..AuditFilter::default() }).await;
    assert_eq!(now_left, left[..1]);
    provider.wait(24 * 3600);
    assert_eq!(store.trim_audit(&Fence::default(), now(), keep, 1000, 100).await.unwrap(), 1);
    let rows = store.export(&sealgate_store::Position::default()).await.unwrap().unwrap().0;
    // The records are deleted together with their index entries by user, client and age.
    assert!(rows.iter().all(|row| row.table != "audit"));
    let index = rows.iter().filter(|row| row.table == "index").count();
    assert_eq!(index, 6, "two sessions of one person, two grants of one person and one client: {rows:?}");
}

#[tokio::test]
async fn no_form_is_kept_where_it_is_disabled() {
    let provider = Provider::with("[audit]\nkeep_days = 0").await;
    provider.c1().tokens("openid").await;
    assert_eq!(trail(&provider, AuditFilter::default()).await, []);
}
