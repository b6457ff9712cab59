//! Tests cached sessions of the gateway that are revoked during a lookup, with a fixed order of
//! events.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use sealgate_domain::session::{Session, SessionCookie, SessionId};
use sealgate_domain::user::UserState;

use crate::browser::Browser;
use crate::meddler::At;
use crate::world::{ANNA, World};

const COOKIE: &str = "__Host-sealgate";

/// The records behind a session end right after they were read: the request that has read them may
/// pass, the next one must not.
#[tokio::test]
async fn a_session_read_before_its_end_is_not_cached_afterwards() {
    for table in *b"asu" {
        let world = World::new().await;
        let browser = Browser::new(&world);
        browser.sign_in_at("https://wiki.test/a", ANNA).await;
        // The cache entry has expired: the next request reads the store.
        world.wait(31);
        let cookie = |host| SessionCookie::parse(&browser.cookie(host, COOKIE).unwrap()).unwrap().id;
        let (own, parent) = (cookie("wiki.test"), cookie("id.test"));
        let stop = world.meddler.stop(At::AfterGet, table);
        let racing = stop.meanwhile(async {
            let store = &world.sealgate.store;
            match table {
                b'a' => store.end_app_session(own).await.unwrap(),
                b's' => assert!(store.end_session(parent).await.unwrap()),
                _ => {
                    store.change_user(world.anna.sub, |user| user.state = UserState::Disabled).await.unwrap();
                }
            }
        });
        let (first, ()) = tokio::join!(browser.fetch("https://wiki.test/a"), racing);
        // Records that are read after the end show it at once.
        if table == b'u' {
            first.arrived();
        }
        for _ in 0..2 {
            browser.fetch("https://wiki.test/a").await.assert_refused(401, "login_required");
        }
    }
}

/// The user is read last. Either session ends after it was read.
#[tokio::test]
async fn a_session_that_ends_while_its_user_is_read_is_not_cached() {
    for ends_own in [true, false] {
        let world = World::new().await;
        let browser = Browser::new(&world);
        browser.sign_in_at("https://wiki.test/a", ANNA).await;
        world.wait(31);
        let cookie = |host| SessionCookie::parse(&browser.cookie(host, COOKIE).unwrap()).unwrap().id;
        let (own, parent) = (cookie("wiki.test"), cookie("id.test"));
        let stop = world.meddler.stop(At::AfterGet, b'u');
        let racing = stop.meanwhile(async {
            let store = &world.sealgate.store;
            if ends_own {
                store.end_app_session(own).await.unwrap();
            } else {
                assert!(store.end_session(parent).await.unwrap());
            }
        });
        let (first, ()) = tokio::join!(browser.fetch("https://wiki.test/a"), racing);
        first.arrived();
        for _ in 0..2 {
            browser.fetch("https://wiki.test/a").await.assert_refused(401, "login_required");
        }
    }
}

/// A sign-out whose commit times out and is applied afterwards.
#[tokio::test]
async fn a_session_end_that_timed_out_takes_effect_when_applied() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://wiki.test/a", ANNA).await;
    browser.fetch("https://wiki.test/a").await.arrived();
    let parent = SessionCookie::parse(&browser.cookie("id.test", COOKIE).unwrap()).unwrap().id;
    world.meddler.lose_answer(&[b"s", parent.as_bytes().as_slice()].concat());
    assert!(world.sealgate.store.end_session(parent).await.is_err());
    browser.fetch("https://wiki.test/a").await.arrived();
    world.meddler.apply_late().await;
    browser.fetch("https://wiki.test/a").await.assert_refused(401, "login_required");
}

/// A disk takes as long for one write as for all that are queued, so they are written together.
#[tokio::test]
async fn uses_of_many_sessions_are_written_concurrently() {
    const SESSIONS: u8 = 70;
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://id.test/dashboard", ANNA).await.arrived();
    let store = &world.sealgate.store;
    let own = SessionCookie::parse(&browser.cookie("id.test", COOKIE).unwrap()).unwrap().id;
    let known = store.session(own).await.unwrap().unwrap().value;
    world.wait(120);
    let mut ids = Vec::new();
    for number in 0..SESSIONS {
        let cookie = SessionCookie::new(SessionId::from_bytes([number; 16]), [number; 24]);
        store.begin_session(&Session { id: cookie.id, cookie: cookie.hash(), ..known.clone() }).await.unwrap();
        let other = Browser::new(&world);
        other.set_cookie("id.test", COOKIE, cookie.value().expose());
        other.fetch("https://id.test/dashboard").await.arrived();
        ids.push(cookie.id);
    }
    assert_eq!(world.meddler.most_in_flight(), 1);
    world.site.note_uses().await;
    let most = world.meddler.most_in_flight();
    assert!((32..=64).contains(&most), "{most} at once");
    for id in ids {
        let seen = store.session(id).await.unwrap().unwrap().value.last_seen_at;
        assert_eq!(seen, world.sealgate.clock.now());
    }
}

/// Every thread has its own copies of cached tokens and sessions. After the answer to a revocation, no
/// thread lets a request pass, and after its end, every thread does.
#[test]
fn a_revocation_takes_effect_on_all_threads_at_once() {
    const THREADS: usize = 16;
    const CHANGES: usize = 20;
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let main = runtime();
    let world = main.block_on(World::new());
    let token = format!("Bearer {}", main.block_on(world.access_token("openid profile")));
    let browser = Browser::new(&world);
    main.block_on(browser.sign_in_at("https://wiki.test/a", ANNA)).arrived();
    let cookie = format!("{COOKIE}={}", browser.cookie("wiki.test", COOKIE).unwrap());
    let credentials = [[("authorization", token.as_str())], [("cookie", cookie.as_str())]];
    // An odd number while access changes. Afterwards, a multiple of four while access is permitted.
    let changes = AtomicUsize::new(0);
    let checked: [AtomicUsize; THREADS] = [const { AtomicUsize::new(0) }; THREADS];
    thread::scope(|scope| {
        for own in &checked {
            let (world, changes, credentials) = (&world, &changes, &credentials);
            scope.spawn(move || {
                let _end = End(changes);
                runtime().block_on(async {
                    loop {
                        let before = changes.load(Ordering::SeqCst);
                        if before > 2 * CHANGES {
                            return;
                        }
                        for fields in credentials {
                            let reply = world.call("GET", "https://wiki.test/a", fields).await;
                            if before % 2 == 0 && before == changes.load(Ordering::SeqCst) {
                                assert_eq!(reply.arrived.is_some(), before % 4 == 0, "{fields:?} {before}: {reply:?}");
                                assert!(reply.arrived.is_some() || reply.status == 401, "{reply:?}");
                            }
                        }
                        own.store(before, Ordering::SeqCst);
                        thread::yield_now();
                    }
                });
            });
        }
        for number in 0..CHANGES {
            // Each thread has checked since the last change, so that it has copies.
            while checked.iter().any(|own| own.load(Ordering::SeqCst) < 2 * number) {
                assert!(changes.load(Ordering::SeqCst) <= 2 * CHANGES, "a thread has failed");
                thread::yield_now();
            }
            changes.fetch_add(1, Ordering::SeqCst);
            let state = if number % 2 == 0 { UserState::Disabled } else { UserState::Enabled };
            main.block_on(world.sealgate.store.change_user(world.anna.sub, |user| user.state = state)).unwrap();
            changes.fetch_add(1, Ordering::SeqCst);
        }
        drop(End(&changes));
    });
}

/// Ends all threads of the test when it is dropped, also if one of them fails.
struct End<'c>(&'c AtomicUsize);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(usize::MAX / 2, Ordering::SeqCst);
    }
}
