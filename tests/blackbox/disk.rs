//! Tests a disk that fills up: writes are answered with 503, reads continue, and service returns
//! with free space.

use std::fs::{self, File};
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use serde_json::Value;

use crate::backup::{LIMITS, granted, refresh};
use crate::support::{Browser, Instance, Settings, Upstream, wait_until};

/// Free space of the disk above or below the configured reserve, in bytes. Large enough that other
/// users of the disk do not change the result.
const DISTANCE: u64 = 2 << 30;

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_stops_only_writes_until_there_is_space() {
    let upstream = Upstream::start();
    let settings = Settings { sections: LIMITS.into(), upstream: Some(upstream.url()), node: None };
    let mut instance = Instance::prepare(&settings);
    let secret = instance.add_confidential_client("web");
    let room = statvfs(instance.directory.path()).unwrap();
    let free = room.f_bavail * room.f_frsize;
    let distance = DISTANCE.min(free / 8);
    let text = fs::read_to_string(instance.config()).unwrap();
    let reserve = format!("[store]\nreserve_bytes = {}", free - distance);
    fs::write(instance.config(), text.replace("[store]", &reserve)).unwrap();
    instance.start();

    let browser = Browser::new(&instance);
    let token = granted(&instance, &secret, &browser).await;
    let (status, body) = refresh(&instance, &secret, &token).await;
    assert_eq!(status, 200, "{body}");
    let token = body["refresh_token"].as_str().unwrap().to_owned();
    let access_token = body["access_token"].as_str().unwrap().to_owned();
    browser.go(&instance.app_url("/")).await;

    let ballast = instance.directory.path().join("ballast");
    fallocate(File::create(&ballast).unwrap(), FallocateFlags::empty(), 0, 2 * distance).unwrap();

    let client = browser.client();
    let fields = [("grant_type", "refresh_token"), ("refresh_token", token.as_str())];
    let request = client.post(instance.url("/oauth/token")).basic_auth("web", Some(&secret)).form(&fields);
    let refused = request.send().await.unwrap();
    assert_eq!(refused.status(), 503);
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(refused.json::<Value>().await.unwrap()["error"], "temporarily_unavailable");

    for path in ["/oauth/jwks", "/.well-known/openid-configuration"] {
        assert_eq!(client.get(instance.url(path)).send().await.unwrap().status(), 200, "{path}");
    }
    // A browser without cookies, so that only the token counts.
    let other = Browser::new(&instance);
    let bearer = |url: String| other.client().get(url).bearer_auth(&access_token);
    assert_eq!(bearer(instance.url("/oauth/userinfo")).send().await.unwrap().status(), 200);
    assert_eq!(bearer(instance.app_url("/json")).send().await.unwrap().status(), 200, "a bearer token at the gate");
    assert_eq!(browser.get(&instance.app_url("/json")).await.status, 200, "a session at the gate");
    wait_until("the log tells", || instance.log().contains("the store accepts no writes"));

    fs::remove_file(&ballast).unwrap();
    let freed = Instant::now();
    let (status, body) = refresh(&instance, &secret, &token).await;
    assert_eq!(status, 200, "the token that was refused was not used up: {body}");
    assert!(freed.elapsed() < Duration::from_secs(5));
    assert_eq!(instance.stop(), Some(0));
}
