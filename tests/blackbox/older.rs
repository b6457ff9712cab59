//! Tests how the server and the command line handle stores of older and newer versions.

use std::sync::Arc;

use sealgate_config::SledConfig;
use sealgate_store::engine::{Changes, Engine, Key, Outcome, Value};
use sealgate_store::sled::SledEngine;

use crate::backup::{LIMITS, granted, refresh};
use crate::support::{Browser, Instance, Settings};

/// Key of the store's format record.
const FORMAT: &[u8] = b"mformat";

pub(crate) fn engine(instance: &Instance) -> SledEngine {
    let store = SledConfig { path: instance.store(), cache_bytes: 64 << 20, reserve_bytes: 0, queue: 64 };
    SledEngine::open(&store, Arc::new(())).unwrap()
}

async fn rows(instance: &Instance) -> Vec<(Key, Value)> {
    engine(instance).scan(b"", None, usize::MAX).await.unwrap()
}

/// Changes the records of a stopped server's store one by one.
async fn edit(instance: &Instance, change: impl Fn(&[u8], &mut Value)) {
    let mut put = rows(instance).await;
    for (key, value) in &mut put {
        change(key, value);
    }
    let changes = Changes { put, ..Changes::default() };
    assert_eq!(engine(instance).commit(changes).await.unwrap(), Outcome::Committed);
}

/// Converts a sign-in to the format without times for its steps.
fn in_one_moment(text: &str) -> String {
    let (before, after) = ("\"steps\":[{\"method\":\"password\",\"at\":", "}]");
    let mut parts = text.split(before);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let (at, rest) = part.split_once(after).unwrap();
        format!("{text}\"at\":{at},\"steps\":[\"password\"]{rest}")
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_the_first_format_is_served_and_one_of_a_newer_version_is_refused() {
    let mut instance = Instance::prepare(&Settings { sections: LIMITS.into(), ..Settings::default() });
    let secret = instance.add_confidential_client("web");
    instance.start();
    let browser = Browser::new(&instance);
    let kept = granted(&instance, &secret, &browser).await;
    assert_eq!(instance.stop(), Some(0));
    // Rewrites the store in the format of the first version, in which a session contained the
    // replaced cookie.
    edit(&instance, |key, value| match (key, value.first_mut()) {
        (FORMAT, _) => *value = b"\x011".to_vec(),
        (_, Some(version)) => {
            *version = 1;
            let text = String::from_utf8(value.clone()).unwrap();
            let text = text.replace("\"previous\":null", "\"previous_cookie\":[\"x\",7]");
            *value = in_one_moment(&text).into_bytes();
        }
        (_, None) => {}
    })
    .await;
    assert!(rows(&instance).await.iter().any(|(_, value)| String::from_utf8_lossy(value).contains("previous_cookie")));
    assert!(rows(&instance).await.iter().any(|(_, value)| String::from_utf8_lossy(value).contains("[\"password\"]")));

    instance.run(&["export", "--to", instance.directory.path().join("as-it-lies").to_str().unwrap()]);
    instance.run(&["check"]);
    assert!(rows(&instance).await.contains(&(FORMAT.to_vec(), b"\x011".to_vec())), "who only reads it takes it up");

    instance.start();
    instance.tells("the store was upgraded to a newer format; older versions of sealgate refuse it");
    // The browser is still signed in, and grants are still valid.
    granted(&instance, &secret, &browser).await;
    assert_eq!(refresh(&instance, &secret, &kept).await.0, 200);
    assert_eq!(instance.stop(), Some(0));
    let of_client = |(key, _): &(Key, Value)| key == b"lweb";
    let served = rows(&instance).await;
    assert!(served.contains(&(FORMAT.to_vec(), b"\x017".to_vec())));
    assert_eq!(served.iter().find(|row| of_client(row)).unwrap().1[0], 1, "an unchanged record was rewritten");

    edit(&instance, |key, value| {
        if key == FORMAT {
            *value = b"\x0199".to_vec();
        }
    })
    .await;
    let newer = rows(&instance).await;
    let refused = "the store has format 99, and this version reads up to 7; use the version of sealgate that wrote it, or a newer one";
    for command in [&["user", "list"][..], &["check"], &["export", "--to", "-"]] {
        let output = instance.try_run(command, "");
        assert!(!output.status.success());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(refused), "{command:?}: {said}");
    }
    instance.launch();
    assert_eq!(instance.wait_for_end(), Some(1));
    assert!(instance.log().contains(refused), "{}", instance.log());
    assert_eq!(rows(&instance).await, newer);
}
