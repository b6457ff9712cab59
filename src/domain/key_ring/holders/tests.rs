use std::time::Duration;

use super::*;
use crate::key_ring::MAX_KEYS_OF_NODE;
use crate::key_ring::{TokenHolder, statement};

const TIMES: KeyTimes = KeyTimes { publish: Duration::from_secs(100), keep: Duration::from_secs(50) };
const ISSUER: &str = "https://id.example";

fn at(seconds: u64) -> UnixTime {
    UnixTime::from_seconds(seconds)
}

/// Returns a test key. A test key signs a message by writing its modulus before the message, so
/// signatures of different keys differ.
fn jwk(name: &str) -> PublicJwk {
    PublicJwk::rsa(&base64url(name.as_bytes()), "AQAB")
}

fn kid(name: &str) -> String {
    jwk(name).thumbprint().unwrap()
}

fn signed(by: &str, message: &[u8]) -> Vec<u8> {
    [by.as_bytes(), message].concat()
}

fn verify(key: &PublicJwk, message: &[u8], signature: &[u8]) -> bool {
    [&key.components().unwrap().0[..], message].concat() == signature
}

/// Node whose token has these keys.
struct TestNode {
    holder: TokenHolder,
    kids: Vec<String>,
}

impl TestNode {
    fn new(name: &str, keys: &[&str]) -> Self {
        let holder = TokenHolder { node: name.to_owned(), issuer: ISSUER.to_owned() };
        Self { holder, kids: keys.iter().map(|name| kid(name)).collect() }
    }

    fn with<T>(&self, judge: impl FnOnce(&Trust<'_>) -> T) -> T {
        let in_token = |kid: &str| self.kids.iter().any(|own| own == kid);
        judge(&Trust { holder: &self.holder, in_token: &in_token, verify: &verify })
    }

    /// Returns the kids of the keys that the node trusts.
    fn trusts(&self, ring: &KeyRing, now: u64) -> Vec<String> {
        self.with(|trust| ring.trusted(trust, at(now)).iter().map(|key| key.kid.clone()).collect())
    }

    /// Signs the due endorsements with these keys of the node. Returns their number.
    fn endorse(&self, ring: &mut KeyRing, names: &[&str], now: u64) -> usize {
        let due = self.with(|trust| ring.due_endorsements(trust, at(now)));
        for one in &due {
            let by = names.iter().find(|name| kid(name) == one.by).unwrap();
            ring.endorse(&one.kid, &one.by, &signed(by, &one.statement), at(now));
        }
        due.len()
    }
}

/// Adds an endorsement of `about` by `by` without any check.
fn sign(ring: &mut KeyRing, about: &str, by: &str) {
    let statement = statement(ring.find(&kid(about)).unwrap(), ISSUER).unwrap();
    ring.endorse(&kid(about), &kid(by), &signed(by, &statement), at(0));
}

/// Changes an entry, as an attacker with write access to the database can.
fn meddle(ring: &mut KeyRing, name: &str, change: impl FnOnce(&mut KeyLife)) {
    change(ring.find_mut(&kid(name)).unwrap());
}

/// Returns a ring of the nodes `a` and `b`, where `a` has admitted `b`. Each key has the name of
/// its node.
fn ring() -> (KeyRing, TestNode) {
    let (mut ring, node) = first();
    ring.admit("b", jwk("b"), at(0), TIMES).unwrap();
    sign(&mut ring, "b", "a");
    (ring, node)
}

/// Returns a ring that has only the key of the node `a`.
fn first() -> (KeyRing, TestNode) {
    let mut ring = KeyRing::default().of_node(Some("a"));
    ring.reconcile(&[kid("a")], at(0)).unwrap();
    ring.describe(&kid("a"), &jwk("a"));
    (ring, TestNode::new("a", &["a"]))
}

#[test]
fn a_node_trusts_its_own_keys_and_keys_that_they_have_endorsed() {
    let (mut ring, a) = ring();
    assert_eq!(a.trusts(&ring, 1), [kid("a"), kid("b")]);
    ring.admit("c", jwk("c"), at(1), TIMES).unwrap();
    assert_eq!(a.trusts(&ring, 1), [kid("a"), kid("b")], "an entry alone proves nothing");
    sign(&mut ring, "c", "b");
    assert_eq!(a.trusts(&ring, 1), [kid("a"), kid("b")], "b has endorsed the key, but a has not yet");
    assert_eq!(a.with(|trust| ring.untrusted(trust, at(1)).len()), 1);
    assert_eq!(a.endorse(&mut ring, &["a"], 1), 1);
    assert_eq!(a.trusts(&ring, 1), [kid("a"), kid("b"), kid("c")]);
    assert_eq!(a.endorse(&mut ring, &["a"], 2), 0);
}

#[test]
fn forged_key_ring_entries_are_not_trusted() {
    let (ring, a) = ring();
    let not_believed = |why: &str, meddled: &KeyRing, name: &str| {
        assert!(!a.trusts(meddled, 1).contains(&kid(name)), "{why}");
        let due = a.with(|trust| meddled.due_endorsements(trust, at(1)));
        assert!(due.iter().all(|due| due.kid != kid(name)), "{why}: the node would endorse the key");
    };

    let mut meddled = ring.clone();
    meddled.admit("b", jwk("thief"), at(0), TIMES).unwrap();
    not_believed("an entry without an endorsement", &meddled, "thief");
    sign(&mut meddled, "thief", "thief");
    not_believed("an entry that endorses itself", &meddled, "thief");

    let mut meddled = ring.clone();
    meddled.admit("b", jwk("thief"), at(0), TIMES).unwrap();
    let of_b = meddled.find(&kid("b")).unwrap().endorsed.clone();
    meddle(&mut meddled, "thief", |key| key.endorsed = of_b);
    not_believed("an endorsement of another entry", &meddled, "thief");

    let mut meddled = ring.clone();
    meddle(&mut meddled, "b", |key| key.jwk = Some(jwk("thief")));
    not_believed("another key under an endorsed kid", &meddled, "b");
    meddle(&mut meddled, "b", |key| key.kid = kid("thief"));
    not_believed("an endorsement of another key", &meddled, "thief");

    let mut meddled = ring.clone();
    meddle(&mut meddled, "b", |key| key.holder = Some("c".to_owned()));
    not_believed("a key that is given to another node", &meddled, "b");
    let mut meddled = ring.clone();
    meddle(&mut meddled, "b", |key| key.alg = Some("none".to_owned()));
    not_believed("another algorithm", &meddled, "b");

    // An entry has the kid of the key of node `a`, but the modulus of another key.
    let mut meddled = ring.clone();
    meddled.admit("b", jwk("thief"), at(0), TIMES).unwrap();
    meddle(&mut meddled, "a", |key| key.jwk = Some(jwk("mallory")));
    let statement = statement(meddled.find(&kid("thief")).unwrap(), ISSUER).unwrap();
    let by_mallory = Endorsement { by: kid("a"), signature: base64url(&signed("mallory", &statement)) };
    meddle(&mut meddled, "thief", |key| key.endorsed.push(by_mallory));
    not_believed("a signature by the public key in the node's own entry", &meddled, "thief");

    // An entry claims to be a key of node `a`, but no token has that key.
    let mut meddled = ring;
    meddled.admit("a", jwk("thief"), at(0), TIMES).unwrap();
    not_believed("an entry that claims to be a key of this node", &meddled, "thief");
    meddled.admit("d", jwk("accomplice"), at(0), TIMES).unwrap();
    sign(&mut meddled, "accomplice", "thief");
    not_believed("what that one endorses", &meddled, "accomplice");
}

#[test]
fn only_a_node_itself_vouches_for_its_further_keys() {
    let (mut ring, a) = ring();
    ring.admit("c", jwk("c"), at(0), TIMES).unwrap();
    sign(&mut ring, "c", "b");
    let due = a.with(|trust| ring.due_endorsements(trust, at(1)));
    let introduced = FirstKeyTrust { holder: "c".to_owned(), word_of: kid("b") };
    assert_eq!(due.iter().map(|due| due.introduced.clone()).collect::<Vec<_>>(), [Some(introduced)]);
    assert_eq!(a.endorse(&mut ring, &["a"], 1), 1, "the first key of c, which b has endorsed");
    // An attacker has stolen the token of node `c`.
    ring.admit("b", jwk("thief"), at(1), TIMES).unwrap();
    sign(&mut ring, "thief", "c");
    assert_eq!(a.endorse(&mut ring, &["a"], 1), 0);
    assert!(!a.trusts(&ring, 1).contains(&kid("thief")));
    // A node does not trust an endorsed key under its own name if the key is not in its token.
    ring.admit("a", jwk("other thief"), at(1), TIMES).unwrap();
    sign(&mut ring, "other thief", "c");
    sign(&mut ring, "other thief", "a");
    assert_eq!(a.endorse(&mut ring, &["a"], 1), 0);
    assert!(!a.trusts(&ring, 1).contains(&kid("other thief")));

    ring.admit("b", jwk("b2"), at(1), TIMES).unwrap();
    sign(&mut ring, "b2", "b");
    let due = a.with(|trust| ring.due_endorsements(trust, at(1)));
    assert_eq!(
        due.iter().map(|due| (due.kid.clone(), due.introduced.clone())).collect::<Vec<_>>(),
        [(kid("b2"), None)]
    );
    assert_eq!(a.endorse(&mut ring, &["a"], 1), 1, "the next key of b, which its current key has endorsed");
    assert!(a.trusts(&ring, 1).contains(&kid("b2")));
}

#[test]
fn a_removed_node_returns_with_a_key_endorsed_by_another() {
    let (mut ring, a) = ring();
    ring.admit("c", jwk("c"), at(0), TIMES).unwrap();
    sign(&mut ring, "c", "a");
    ring.retire_node("b", false, at(5), TIMES);
    ring.admit("b", jwk("b2"), at(6), TIMES).unwrap();
    sign(&mut ring, "b2", "c");
    assert_eq!(a.endorse(&mut ring, &["a"], 6), 1);
    assert_eq!(a.trusts(&ring, 6), [kid("a"), kid("b"), kid("c"), kid("b2")]);
}

/// Simulates twelve nodes that replace their keys each month, until each has the maximum number of
/// keys.
#[test]
fn a_ring_of_many_nodes_stays_small() {
    const MONTH: u64 = 1000;
    let name = |node: usize, month: u64| format!("{node}-{month}");
    let all: Vec<TestNode> = (0..12).map(|node| TestNode::new(&node.to_string(), &[])).collect();
    let mut ring = KeyRing::default().of_node(Some("0"));
    ring.reconcile(&[kid(&name(0, 0))], at(0)).unwrap();
    ring.describe(&kid(&name(0, 0)), &jwk(&name(0, 0)));
    let mut longest = 0;
    for month in 1..=u64::try_from(MAX_KEYS_OF_NODE).unwrap() + 3 {
        for (node, holder) in all.iter().enumerate() {
            let next = name(node, month);
            ring = ring.of_node(Some(&holder.holder.node));
            if month == 1 && node > 0 {
                ring.admit(&holder.holder.node, jwk(&next), at(month * MONTH), TIMES).unwrap();
            } else {
                // Each token keeps the two latest keys.
                let in_token = [kid(&name(node, month - 1))];
                ring.finish_rotation(&kid(&next), "01", &in_token, at(month * MONTH), TIMES).unwrap();
                ring.describe(&kid(&next), &jwk(&next));
                ring.activate(&kid(&next), None, false, at(month * MONTH), TIMES).unwrap();
            }
            // In the last months, each other node endorses the key with its active and its next
            // key.
            for other in (0..all.len()).filter(|_| month + 2 > MAX_KEYS_OF_NODE as u64) {
                ring.endorse(&kid(&next), &kid(&name(other, month)), &[1; 256], at(month * MONTH + 1));
                ring.endorse(&kid(&next), &kid(&name(other, month - 1)), &[1; 256], at(month * MONTH + 1));
                ring.endorse(&kid(&name(other, month)), &kid(&next), &[1; 256], at(month * MONTH + 1));
            }
        }
        longest = longest.max(serde_json::to_vec(&ring).unwrap().len());
        let now = at((month + 1) * MONTH - 1);
        ring.strip_removed(ring.at(now));
        let gone = ring.keys().iter().filter(|key| ring.state(key, now) == KeyState::Removed);
        assert!(gone.clone().all(|key| key.jwk.is_none() && key.alg.is_none() && key.endorsed.is_empty()));
        assert!(month < 3 || gone.count() >= 12, "the ring keeps the kids of removed keys");
    }
    assert!(longest < 256 * 1024, "{longest}");
}

#[test]
fn a_node_forgets_no_key_of_another_one() {
    let (mut ring, _) = ring();
    ring.retire_node("b", true, at(1), TIMES);
    for number in 1..200 {
        let now = number * 1000;
        let (next, before) = (kid(&number.to_string()), kid(&(number - 1).to_string()));
        ring.finish_rotation(&next, "01", &[kid("a"), before], at(now), TIMES).unwrap();
        ring.activate(&next, None, true, at(now), TIMES).unwrap();
    }
    assert!(ring.find(&kid("b")).is_some() && ring.find(&kid("a")).is_some());
    assert!(ring.find(&kid("100")).is_none(), "its own give way");
}

#[test]
fn endorsements_for_another_issuer_are_ignored() {
    let (ring, a) = ring();
    let elsewhere = TestNode { holder: TokenHolder { issuer: "https://other.example".to_owned(), ..a.holder }, ..a };
    assert_eq!(elsewhere.trusts(&ring, 1), [kid("a")]);
}

#[test]
fn a_removed_key_is_neither_trusted_nor_an_endorser() {
    let (mut ring, mut a) = ring();
    ring.retire_node("b", true, at(5), TIMES);
    assert_eq!(a.trusts(&ring, 5), [kid("a")]);

    let (mut ring, _) = self::ring();
    a.kids.push(kid("a2"));
    ring.announce(&kid("a2"), &[], at(5)).unwrap();
    ring.describe(&kid("a2"), &jwk("a2"));
    ring.remove_now(&kid("a"), at(6), |_| true).unwrap();
    assert_eq!(a.trusts(&ring, 6), [kid("a2")], "the only key that has endorsed the key of b is removed");

    // A node can remove the only key of another node without a successor, but not its own only key.
    let (ring, a) = self::ring();
    for now in [6, 200] {
        let mut ring = ring.clone();
        ring.remove_now(&kid("b"), at(now), |_| false).unwrap();
        assert_eq!(a.trusts(&ring, now), [kid("a")]);
        assert_eq!(ring.remove_now(&kid("a"), at(now), |_| false), Err(KeyFault::NoSuccessor(kid("a"))));
    }
}

#[test]
fn the_next_key_endorses_all_keys_before_the_current_key_is_removed() {
    let (mut ring, mut a) = ring();
    let b = TestNode::new("b", &["b"]);
    sign(&mut ring, "a", "b");
    ring.announce(&kid("a2"), &[], at(5)).unwrap();
    ring.describe(&kid("a2"), &jwk("a2"));
    a.kids.push(kid("a2"));
    assert_eq!(b.trusts(&ring, 5), [kid("a"), kid("b")]);
    assert_eq!(ring.distrusting_nodes(&kid("a2"), &["a".to_owned(), "b".to_owned(), "new".to_owned()], at(5)), ["b"]);
    // The keys of node `a` endorse each other, and the next key of `a` endorses the key of `b`.
    assert_eq!(a.endorse(&mut ring, &["a", "a2"], 5), 3);
    assert_eq!(b.endorse(&mut ring, &["b"], 5), 1);
    assert!(ring.distrusting_nodes(&kid("a2"), &["b".to_owned()], at(5)).is_empty());
    ring.activate(&kid("a2"), None, false, at(5), TIMES).unwrap();
    assert_eq!(ring.state(ring.find(&kid("a")).unwrap(), at(200)), KeyState::Removed);
    assert_eq!(a.trusts(&ring, 200), [kid("b"), kid("a2")]);
    assert_eq!(b.trusts(&ring, 200), [kid("b"), kid("a2")]);
    let endorsed = |name: &str| ring.find(&kid(name)).unwrap().endorsed.len();
    assert_eq!((endorsed("a2"), endorsed("b")), (2, 2));
    assert_eq!(a.endorse(&mut ring, &["a2"], 200), 0);
}

#[test]
fn each_node_has_its_own_signing_key_and_schedule() {
    let (mut ring, _) = ring();
    let active = |ring: &KeyRing, node: &str, now| {
        ring.clone().of_node(Some(node)).active(at(now), |_| true).map(|key| key.kid.clone())
    };
    assert_eq!((active(&ring, "a", 99), active(&ring, "b", 99)), (Some(kid("a")), None), "published for too short");
    assert_eq!((active(&ring, "a", 100), active(&ring, "b", 100)), (Some(kid("a")), Some(kid("b"))));
    let every = Duration::from_secs(1000);
    ring.begin_rotation("process", "01", at(960), at(900));
    assert!(ring.rotation_is_due(every, TIMES, at(900)));
    let mut of_b = ring.of_node(Some("b"));
    assert!(!of_b.rotation_is_due(every, TIMES, at(900)));
    assert_eq!((of_b.rotation_of("process"), of_b.is_unannounced("01")), (None, false));
    let mut ring = of_b.clone().of_node(Some("a"));
    assert_eq!(ring.rotation_of("process"), Some("01"));
    ring.finish_rotation(&kid("a2"), "01", &[], at(901), TIMES).unwrap();
    assert_eq!(ring.find(&kid("a2")).unwrap().activate_at, None, "the key waits for the other nodes");
    ring.activate(&kid("a2"), None, false, at(901), TIMES).unwrap();
    assert_eq!((active(&ring, "a", 1001), active(&ring, "b", 1001)), (Some(kid("a2")), Some(kid("b"))));
    of_b.announce(&kid("b2"), &[], at(901)).unwrap();
    of_b.remove_now(&kid("b"), at(902), |_| true).unwrap();
    assert_eq!((active(&of_b, "a", 902), active(&of_b, "b", 902)), (Some(kid("a")), Some(kid("b2"))));
}

#[test]
fn a_start_reports_why_a_node_cannot_sign() {
    let (mut ring, _) = ring();
    let fault = |node: &str, kids: &[&str], now| {
        let kids: Vec<String> = kids.iter().map(|name| kid(name)).collect();
        ring.clone().of_node(Some(node)).reconcile(&kids, at(now)).err()
    };
    assert_eq!(fault("c", &["c"], 5), Some(KeyFault::NotAdmitted(vec![kid("c")])));
    assert_eq!(fault("c", &["a"], 5), Some(KeyFault::OfAnother { kid: kid("a"), holder: "a".to_owned() }));
    assert_eq!(fault("b", &["b"], 5), Some(KeyFault::Waiting { kid: kid("b"), at: at(100) }));
    assert_eq!(fault("b", &["b"], 100), None);
    assert_eq!(fault("b", &[], 100), Some(KeyFault::Missing(kid("b"))));
    assert_eq!(fault("b", &["b", "x"], 100), Some(KeyFault::Unannounced(vec![kid("x")])));
    let announced = ring.clone().of_node(Some("c")).announce(&kid("c"), &[], at(5));
    assert_eq!(announced, Err(KeyFault::NotAdmitted(vec![kid("c")])), "by its own word");
    ring.retire_node("b", false, at(200), TIMES);
    let fault = |now| ring.clone().of_node(Some("b")).reconcile(&[kid("b")], at(now)).err();
    assert_eq!(fault(200), Some(KeyFault::NodeRetired("b".to_owned())));
    assert_eq!(ring.state(ring.find(&kid("b")).unwrap(), at(249)), KeyState::Retired);
    assert_eq!(ring.state(ring.find(&kid("b")).unwrap(), at(250)), KeyState::Removed);
}

#[test]
fn keys_are_kept_when_a_server_becomes_a_node_and_back() {
    let mut ring = KeyRing::default();
    ring.reconcile(&[kid("a")], at(0)).unwrap();
    let before = serde_json::to_string(&ring).unwrap();
    let mut ring = ring.of_node(Some("a"));
    ring.reconcile(&[kid("a")], at(1)).unwrap();
    ring.describe(&kid("a"), &jwk("a"));
    assert_eq!(ring.active(at(1), |_| true).unwrap().holder.as_deref(), Some("a"));
    let mut ring = ring.of_node(None);
    ring.reconcile(&[kid("a")], at(2)).unwrap();
    assert_eq!(serde_json::to_string(&ring).unwrap(), before);
}

#[test]
fn a_statement_is_not_a_token_signing_input() {
    let (ring, _) = ring();
    let text = String::from_utf8(statement(ring.find(&kid("b")).unwrap(), ISSUER).unwrap()).unwrap();
    assert_eq!(text, format!("sealgate key\n{ISSUER}\nb\n{}\nRS256\n{}", kid("b"), jwk("b").canonical().unwrap()));
    let odd = PublicJwk::rsa(r#"AQAB","x":"y"#, "AQAB");
    assert_eq!((odd.canonical(), odd.thumbprint()), (None, None));
    let mut ring = ring;
    meddle(&mut ring, "b", |key| key.holder = Some("b\nc".to_owned()));
    assert_eq!(statement(ring.find(&kid("b")).unwrap(), ISSUER), None);
}

/// A key of a further algorithm is endorsed like another key of its node, but endorses none.
#[test]
fn only_rs256_keys_endorse() {
    let mut ring = KeyRing::default().of_node(Some("a"));
    ring.reconcile(&[kid("a")], at(0)).unwrap();
    ring.describe(&kid("a"), &jwk("a"));
    ring.admit("b", jwk("b"), at(0), TIMES).unwrap();
    let further = PublicJwk::p256(&base64url(&[1; 32]), &base64url(&[2; 32]));
    let es256 = further.thumbprint().unwrap();
    ring.select(Algorithm::Es256);
    ring.reconcile_further(std::slice::from_ref(&es256), true, at(0)).unwrap();
    ring.describe(&es256, &further);
    assert_eq!(ring.find(&es256).unwrap().alg.as_deref(), Some("ES256"));
    ring.select(Algorithm::Rs256);
    let a = TestNode { kids: vec![kid("a"), es256.clone()], ..TestNode::new("a", &["a"]) };
    let due = a.with(|trust| ring.due_endorsements(trust, at(1)));
    assert!(due.iter().all(|one| one.by == kid("a")), "{due:?}");
    assert!(due.iter().any(|one| one.kid == es256), "the node's own key is endorsed for the others");
    let statement = due.iter().find(|one| one.kid == es256).unwrap().statement.clone();
    assert!(String::from_utf8(statement.clone()).unwrap().contains("\nES256\n"));
    // A signature in the name of the ES256 key counts for nothing.
    let b = TestNode::new("b", &["b"]);
    let mut forged = ring.clone();
    forged.endorse(&kid("b"), &es256, &signed("", b"x"), at(1));
    let by = forged.find(&es256).unwrap().clone();
    let life = forged.find(&kid("b")).unwrap().clone();
    let accept_all = |_: &PublicJwk, _: &[u8], _: &[u8]| true;
    let endorses = Trust { holder: &b.holder, in_token: &|_| true, verify: &accept_all }.endorses(&by, &life);
    assert!(!endorses);
    // The keys stay theirs when they are removed.
    ring.retire_node("a", true, at(2), TIMES);
    assert!(ring.find(&es256).unwrap().is_for(Algorithm::Es256), "{ring:?}");
}
