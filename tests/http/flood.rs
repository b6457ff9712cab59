//! Tests attackers who begin sign-ins and finish none: they lock out no user and leave no records
//! behind.

use sealgate_store::engine::{Changes, Engine};
use sealgate_store::{ExportRecord, Position};
use sealgate_system::clock::Clock;

use crate::steps::{assert_code, assert_consent};
use crate::support::{Provider, is_login};

/// Begins a sign-in from this address and returns the status.
async fn begin(provider: &Provider, address: &str) -> u16 {
    provider.request_from(address, "GET", &provider.c1().authorize(&[]), &[], "").await.status
}

#[tokio::test]
async fn an_ipv6_site_may_start_ten_times_the_requests_of_a_network() {
    let provider = Provider::with("[rate_limits]\nauthorize = 3").await;
    let mut begun = 0;
    for network in 0..256 {
        for _ in 0..3 {
            match begin(&provider, &format!("2001:db8:1:{network:x}::1")).await {
                303 => begun += 1,
                status => assert_eq!(status, 429),
            }
        }
    }
    assert_eq!((begun, provider.sealgate.store.open_interactions()), (30, 30));
    assert_eq!(begin(&provider, "2001:db8:2::1").await, 303, "the neighbours are not meant");
    provider.wait(60);
    assert_eq!(begin(&provider, "2001:db8:1:ff::1").await, 303);
}

#[tokio::test]
async fn the_oldest_idle_sign_in_is_evicted_when_there_are_too_many() {
    let provider = Provider::with("[sessions]\nmax_interactions = 20").await;
    let anna = provider.browser();
    let page = anna.open(&provider.c1().authorize(&[])).await;
    let consent = anna.sign_in(&page, "anna@example.test").await;
    assert_consent(&consent);
    provider.wait(60);
    for number in 0..200 {
        assert_eq!(begin(&provider, &format!("198.51.100.{number}")).await, 303);
        assert!(provider.sealgate.store.open_interactions() <= 20);
    }
    // A user who begins now has as long as the flood allows, and Anna's sign-in is unaffected.
    let mut ben = provider.browser();
    ben.address = "203.0.113.1".into();
    let login = ben.open(&provider.c2().authorize(&[])).await;
    assert!(is_login(&login));
    for number in 0..10 {
        begin(&provider, &format!("198.51.101.{number}")).await;
        provider.wait(60);
    }
    assert_code(&anna.allow(&consent).await);
    assert_eq!(provider.restarted().await.sealgate.store.open_interactions(), 19);
}

/// 64 concurrent requests for the last place do not exceed the limit.
#[tokio::test]
async fn concurrent_sign_ins_do_not_exceed_the_limit() {
    let provider = Provider::with("[sessions]\nmax_interactions = 5").await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..64 {
        let sealgate = std::sync::Arc::clone(&provider.sealgate);
        let address = provider.c1().authorize(&[]);
        tasks.spawn(async move {
            let mut request = http::Request::get(address).body(bytes::Bytes::new()).unwrap();
            request.extensions_mut().insert(sealgate_edge::origin::Origin {
                address: [198, 51, 100, number].into(),
                secure: true,
                ..sealgate_edge::origin::Origin::unknown()
            });
            let (head, body) = request.into_parts();
            let route = sealgate_provider::route(&sealgate.config, head.uri.path());
            sealgate_provider::dispatch(&sealgate, route, &head, body).await.status().as_u16()
        });
    }
    assert!(tasks.join_all().await.iter().all(|status| *status == 303));
    assert_eq!(provider.sealgate.store.open_interactions(), 5);
    assert_eq!(provider.restarted().await.sealgate.store.open_interactions(), 5);
}

#[tokio::test]
async fn an_unfinished_sign_in_is_removed_half_a_day_after_its_expiry() {
    let provider = Provider::new().await;
    begin(&provider, "192.0.2.1").await;
    provider.wait(900 + 12 * 3600 - 60);
    provider.sealgate.store.sweep(provider.clock.now(), 100).await.unwrap();
    assert_eq!(provider.sealgate.store.open_interactions(), 1, "its page can still be sent");
    provider.wait(2 * 60);
    provider.sealgate.store.sweep(provider.clock.now(), 100).await.unwrap();
    assert_eq!(provider.sealgate.store.open_interactions(), 0);
    assert!(expiring(&provider).await.is_empty());
}

#[tokio::test]
async fn a_finished_sign_in_leaves_no_entry_behind() {
    let provider = Provider::new().await;
    provider.c1().code(&[]).await;
    assert_eq!(expiring(&provider).await, ["c", "d", "s"], "of the code, the browser and the session");
}

/// Returns the tables of the records in the expiry index.
async fn expiring(provider: &Provider) -> Vec<String> {
    let rows: Vec<ExportRecord> = provider.sealgate.store.export(&Position::default()).await.unwrap().unwrap().0;
    let of_expiry = rows.iter().filter(|row| row.table == "expiry");
    let keys = of_expiry.map(|row| sealgate_domain::secret::from_base64url(&row.key).unwrap());
    let mut tables: Vec<_> = keys.map(|key| char::from(key[4]).to_string()).collect();
    tables.sort();
    tables
}

#[tokio::test]
async fn an_unreadable_record_does_not_stop_the_sweeper() {
    let provider = Provider::new().await;
    let record = [b"g".as_slice(), &[7; 16]].concat();
    let damage = vec![(record.clone(), b"\x01{".to_vec()), ([b"e\0\0\0\0".as_slice(), &record].concat(), Vec::new())];
    provider.engine.commit(Changes { put: damage, ..Changes::default() }).await.unwrap();
    begin(&provider, "192.0.2.1").await;
    provider.wait(900 + 12 * 3600 + 60);
    let store = &provider.sealgate.store;
    let sweep = async || store.sweep(provider.clock.now(), 1).await.unwrap();
    assert_eq!((sweep().await.rescheduled, sweep().await.removed), (1, 1));
    assert_eq!(store.open_interactions(), 0);
    assert_eq!(provider.engine.get(&record).await.unwrap().as_deref(), Some(b"\x01{".as_slice()), "it is kept");
    provider.wait(2 * 86_400);
    assert_eq!((sweep().await.rescheduled, sweep().await.rescheduled), (1, 0), "it is checked again a day later");
}
