//! Tests garbage collection: expired records are deleted, a bounded number per pass, and the
//! backlog is counted.

use sealgate_store::SweepPlace;

use crate::support::Provider;

const CODES: usize = 20;

#[tokio::test]
async fn expired_records_are_counted_and_removed_in_bounded_passes() {
    let provider = Provider::with("[rate_limits]\ntoken = 1000").await;
    let browser = provider.browser();
    for _ in 0..CODES {
        provider.c1().code_in(&browser, &[("scope", "openid")]).await;
    }
    let store = &provider.sealgate.store;
    let now = || provider.sealgate.clock.now();
    assert_eq!(store.expired_pending(&SweepPlace::default(), now(), 1000).await.unwrap(), 0, "nothing has expired yet");
    provider.wait(3600);
    let pending = store.expired_pending(&SweepPlace::default(), now(), 1000).await.unwrap();
    assert!(pending >= CODES, "{pending}");
    assert_eq!(
        store.expired_pending(&SweepPlace::default(), now(), 7).await.unwrap(),
        7,
        "counted no further than asked"
    );
    let swept = store.sweep(now(), 8).await.unwrap();
    assert!(swept.removed + swept.rescheduled == 8 && swept.more, "{swept:?}");
    while store.sweep(now(), 8).await.unwrap().more {}
    assert_eq!(store.expired_pending(&SweepPlace::default(), now(), 1000).await.unwrap(), 0);
}
