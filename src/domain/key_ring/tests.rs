use std::time::Duration;

use proptest::prelude::*;

use super::*;

const TIMES: KeyTimes = KeyTimes { publish: Duration::from_secs(100), keep: Duration::from_secs(50) };

fn kid(letter: char) -> String {
    std::iter::repeat_n(letter, KID_LENGTH).collect()
}

fn at(seconds: u64) -> UnixTime {
    UnixTime::from_seconds(seconds)
}

/// Returns a ring whose key `a` has been active since time 0.
fn ring() -> KeyRing {
    let mut ring = KeyRing::default();
    ring.reconcile(&[kid('a')], at(0)).unwrap();
    ring
}

fn active(ring: &KeyRing, now: u64) -> Option<String> {
    ring.active(at(now), |_| true).map(|key| key.kid.clone())
}

fn state(ring: &KeyRing, letter: char, now: u64) -> KeyState {
    ring.state(ring.find(&kid(letter)).unwrap(), at(now))
}

#[test]
fn the_only_key_of_a_first_start_signs_at_once() {
    assert_eq!(active(&ring(), 0), Some(kid('a')));
    assert_eq!(ring().next_change(at(0)), None);
}

#[test]
fn unannounced_keys_are_named() {
    let unannounced = |kids: &[char]| KeyFault::Unannounced(kids.iter().map(|letter| kid(*letter)).collect());
    let both = [kid('a'), kid('b')];
    assert_eq!(KeyRing::default().reconcile(&both, at(0)).unwrap_err(), unannounced(&['a', 'b']));
    assert_eq!(ring().reconcile(&both, at(9)).unwrap_err(), unannounced(&['b']));
    assert_eq!(ring().reconcile(&[], at(9)).unwrap_err(), KeyFault::Missing(kid('a')));
    let mut later = ring();
    later.announce(&kid('b'), &[kid('a')], at(10)).unwrap();
    later.activate(&kid('b'), Some(at(500)), false, at(20), TIMES).unwrap();
    let fault = later.reconcile(&[kid('b')], at(30)).unwrap_err();
    let expected = KeyFault::NotYet { kid: kid('a'), next: kid('b'), at: at(500), now: at(30) };
    assert_eq!(fault, expected);
    assert!(later.reconcile(&[kid('b')], at(500)).is_ok());
}

#[test]
fn a_rotation_publishes_activates_retires_and_removes_in_order() {
    let mut ring = ring();
    ring.announce(&kid('b'), &[], at(1000)).unwrap();
    ring.activate(&kid('b'), None, false, at(1000), TIMES).unwrap();
    let states = |now| (state(&ring, 'a', now), state(&ring, 'b', now));
    assert_eq!(states(1000), (KeyState::Active, KeyState::PrePublished));
    assert_eq!(states(1099), (KeyState::Active, KeyState::PrePublished));
    assert_eq!(states(1100), (KeyState::Retired, KeyState::Active));
    assert_eq!(states(1149), (KeyState::Retired, KeyState::Active));
    assert_eq!(states(1150), (KeyState::Removed, KeyState::Active));
    assert_eq!((active(&ring, 1099), active(&ring, 1100)), (Some(kid('a')), Some(kid('b'))));
    assert_eq!((ring.next_change(at(1000)), ring.next_change(at(1100))), (Some(at(1100)), Some(at(1150))));
}

#[test]
fn a_key_is_activated_early_only_with_the_early_option() {
    let mut ring = ring();
    ring.announce(&kid('b'), &[], at(1000)).unwrap();
    let fault = ring.activate(&kid('b'), Some(at(1099)), false, at(1000), TIMES).unwrap_err();
    assert_eq!(fault, KeyFault::Early { published: 99, publish: TIMES.publish });
    ring.activate(&kid('b'), None, true, at(1000), TIMES).unwrap();
    assert_eq!(active(&ring, 1000), Some(kid('b')));
}

#[test]
fn a_schedule_can_be_changed_and_cancelled() {
    let mut ring = ring();
    ring.announce(&kid('b'), &[], at(0)).unwrap();
    ring.activate(&kid('b'), Some(at(200)), false, at(0), TIMES).unwrap();
    ring.activate(&kid('b'), Some(at(300)), false, at(0), TIMES).unwrap();
    assert_eq!((active(&ring, 299), active(&ring, 300)), (Some(kid('a')), Some(kid('b'))));
    ring.announce(&kid('c'), &[], at(0)).unwrap();
    let fault = ring.activate(&kid('c'), None, false, at(0), TIMES).unwrap_err();
    assert_eq!(fault, KeyFault::Scheduled { kid: kid('b'), at: at(300) });
    ring.retire(&kid('b'), at(10), TIMES).unwrap();
    assert_eq!(active(&ring, 1000), Some(kid('a')));
    assert_eq!((state(&ring, 'b', 59), state(&ring, 'b', 60)), (KeyState::Retired, KeyState::Removed));
}

#[test]
fn the_active_key_is_removed_only_when_another_takes_over() {
    let mut ring = ring();
    assert_eq!(ring.remove_now(&kid('a'), at(5), |_| true).unwrap_err(), KeyFault::NoSuccessor(kid('a')));
    assert!(matches!(ring.retire(&kid('a'), at(5), TIMES).unwrap_err(), KeyFault::State { .. }));
    ring.announce(&kid('b'), &[], at(5)).unwrap();
    ring.remove_now(&kid('a'), at(6), |_| true).unwrap();
    assert_eq!((active(&ring, 6), state(&ring, 'a', 6)), (Some(kid('b')), KeyState::Removed));
}

#[test]
fn a_retired_key_can_come_back() {
    let mut ring = ring();
    ring.announce(&kid('b'), &[], at(0)).unwrap();
    ring.activate(&kid('b'), None, false, at(0), TIMES).unwrap();
    ring.activate(&kid('a'), None, false, at(120), TIMES).unwrap();
    assert_eq!((active(&ring, 120), state(&ring, 'b', 120)), (Some(kid('a')), KeyState::Retired));
    assert_eq!(state(&ring, 'b', 170), KeyState::Removed);
    assert!(ring.activate(&kid('b'), None, false, at(170), TIMES).is_err(), "removed is for good");
}

#[test]
fn a_second_key_announced_before_the_first_start_does_not_take_over() {
    let mut ring = KeyRing::default();
    ring.announce(&kid('b'), &[kid('a')], at(0)).unwrap();
    assert_eq!(active(&ring, 1000), Some(kid('a')));
    assert_eq!(state(&ring, 'b', 1000), KeyState::PrePublished);
    assert!(matches!(ring.announce("short", &[], at(0)), Err(KeyFault::NotAKid(_))));
    assert_eq!(ring.announce(&kid('b'), &[], at(0)), Err(KeyFault::Known(kid('b'))));
}

/// Returns a ring whose RS256 key `a` and ES256 key `b` are active since time 0.
fn of_two_algorithms() -> KeyRing {
    let mut ring = KeyRing::default();
    ring.reconcile(&[kid('a')], at(0)).unwrap();
    ring.select(Algorithm::Es256);
    ring.reconcile_further(&[kid('b')], true, at(0)).unwrap();
    ring.of_algorithm(Algorithm::Rs256)
}

#[test]
fn each_algorithm_has_an_active_key() {
    let ring = of_two_algorithms();
    assert_eq!(ring.active(at(1), |_| true).unwrap().kid, kid('a'));
    let ring = ring.of_algorithm(Algorithm::Es256);
    assert_eq!(ring.active(at(1), |_| true).unwrap().kid, kid('b'));
    assert!(ring.of_algorithm(Algorithm::Ps256).awaits_first_key(at(1)));
}

#[test]
fn an_unannounced_key_of_a_further_algorithm_is_refused() {
    let mut ring = KeyRing::default();
    ring.reconcile(&[kid('a')], at(0)).unwrap();
    ring.select(Algorithm::Es256);
    let refused = ring.reconcile_further(&[kid('b')], false, at(1));
    assert_eq!(refused, Err(KeyFault::Unannounced(vec![kid('b')])));
    ring.announce(&kid('b'), &[], at(1)).unwrap();
    ring.reconcile_further(&[kid('b')], false, at(1)).unwrap();
    assert!(ring.active(at(1), |_| true).is_none() && ring.awaits_first_key(at(1)), "an operator announced it");
    ring.activate(&kid('b'), None, false, at(1), TIMES).unwrap();
    assert!(!ring.awaits_first_key(at(1)));
    let first = KeyRing::default().of_algorithm(Algorithm::Es256).announce(&kid('b'), &[], at(1));
    assert_eq!(first, Err(KeyFault::NotStarted));
}

#[test]
fn an_active_key_of_a_further_algorithm_must_be_in_the_token() {
    let mut ring = of_two_algorithms().of_algorithm(Algorithm::Es256);
    assert_eq!(ring.reconcile_further(&[], false, at(1)), Err(KeyFault::Missing(kid('b'))));
    let (announced, found) = ("RS256".to_owned(), Algorithm::Es256);
    let refused = ring.reconcile_further(&[kid('a'), kid('b')], false, at(1));
    assert_eq!(refused, Err(KeyFault::WrongAlgorithm { kid: kid('a'), announced, found }));
}

#[test]
fn rotations_of_algorithms_are_independent() {
    let mut ring = of_two_algorithms();
    ring.begin_rotation("n", "01", at(960), at(900));
    ring.select(Algorithm::Es256);
    assert_eq!(ring.rotation_of("n"), None);
    ring.begin_rotation("n", "02", at(960), at(900));
    ring.finish_rotation(&kid('c'), "02", &[], at(900), TIMES).unwrap();
    assert_eq!(ring.find(&kid('b')).unwrap().retire_at, ring.find(&kid('c')).unwrap().activate_at);
    assert_eq!(ring.find(&kid('a')).unwrap().retire_at, None);
    assert_eq!((ring.unannounced_ids().len(), ring.all_unannounced_ids()), (0, vec!["01".to_owned()]));
    assert_eq!(ring.of_algorithm(Algorithm::Rs256).rotation_of("n"), Some("01"));
}

/// An earlier version reads and writes the first record, and does not know the other one.
#[test]
fn keys_of_further_algorithms_are_in_a_record_of_their_own() {
    let mut only = KeyRing::default();
    only.reconcile(&[kid('a')], at(0)).unwrap();
    let both = of_two_algorithms();
    let record = |ring: &KeyRing| serde_json::to_string(&ring.clone().without_further()).unwrap();
    assert_eq!(record(&both), record(&only));
    assert!(only.further().is_empty());
    let further: FurtherKeys = serde_json::from_str(&serde_json::to_string(&both.further()).unwrap()).unwrap();
    let read: KeyRing = serde_json::from_str(&record(&both)).unwrap();
    assert_eq!(read.with_further(further.clone()), both);
    // A key is never in both records.
    assert_eq!(both.clone().with_further(further), both);
}

proptest! {
    #[test]
    fn exactly_one_key_signs_and_none_signs_early_except_in_an_emergency(
        steps in proptest::collection::vec((0_u8..6, 0_usize..5, 0_u64..80, 0_u64..300), 1..40),
    ) {
        let mut ring = ring();
        let mut now = 0;
        let mut emergency = false;
        for (step, key, pause, ahead) in steps {
            now += pause;
            let kid = kid(char::from(b"abcde"[key]));
            // Rejected steps are part of the test.
            let _ = match step {
                0 => ring.announce(&kid, &[], at(now)),
                1 => ring.activate(&kid, Some(at(now + ahead)), false, at(now), TIMES),
                2 => ring.activate(&kid, None, false, at(now), TIMES),
                3 => ring.retire(&kid, at(now), TIMES),
                4 => ring.remove(&kid, at(now), TIMES),
                _ => {
                    emergency = true;
                    ring.remove_now(&kid, at(now), |_| true)
                }
            };
            for later in now..now + 500 {
                let signs = ring.active(at(later), |_| true);
                prop_assert!(signs.is_some(), "no key signs at {later}: {ring:?}");
                let signs = signs.unwrap();
                prop_assert!(
                    emergency || signs.published_at == at(0) || signs.published_at.plus(TIMES.publish) <= at(later),
                    "{signs:?} signs early at {later}"
                );
                let active = ring.keys().iter().filter(|key| key.state(at(later)) == KeyState::Active);
                prop_assert_eq!(active.count(), 1);
            }
        }
    }
}
