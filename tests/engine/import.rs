//! Accepted content of an import: records that this program could have written, each once.

use std::sync::Arc;

use sealgate_admin as admin;
use sealgate_domain::audit::{Actor, AuditEvent, AuditFilter, AuditId, AuditKind};
use sealgate_domain::client::{Client, ClientId};
use sealgate_domain::grant::{Grant, GrantId, GrantState};
use sealgate_domain::registration_token::RegistrationToken;
use sealgate_domain::scope::Scope;
use sealgate_domain::secret::{SecretHash, base64url};
use sealgate_domain::session::{Session, SessionId, SignIn};
use sealgate_domain::source::SourceName;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::{Email, Subject, User};
use sealgate_domain::username::Username;
use sealgate_store::engine::Engine;
use sealgate_store::memory::MemoryEngine;
use sealgate_store::{AddOutcome, AuditRecord, GrantFilter, Store};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

use crate::records;

const HERE: &str = "https://id.example.test";
const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);
const LATER: UnixTime = UnixTime::from_seconds(1_800_009_000);

fn anna() -> Subject {
    Subject::from_random([1; 16])
}

async fn empty() -> (Store, Arc<MemoryEngine>) {
    let engine = Arc::new(MemoryEngine::new());
    (Store::open(engine.clone(), 10).await.unwrap(), engine)
}

fn person(sub: Subject, email: &str) -> User {
    User {
        sub,
        username: Username::parse("anna").filter(|_| sub == anna()),
        email_verified: true,
        groups: ["staff".to_owned()].into(),
        ..records::person(1, email, "Anna", NOW)
    }
}

fn client(id: &str) -> Client {
    Client { name: "Wiki".into(), ..records::client(id, NOW) }
}

fn session() -> Session {
    let sign_in = SignIn::by_password(anna(), NOW);
    Session {
        id: SessionId::from_bytes([3; 16]),
        cookie: SecretHash::for_secret(b"cookie"),
        previous: None,
        sign_ins: vec![sign_in],
        created_at: NOW,
        last_seen_at: NOW,
        expires_at: LATER,
        idle_seconds: 3600,
        kept_until: None,
        user_agent: "Browser".into(),
        clients: Vec::new(),
        address: "192.0.2.1".parse().unwrap(),
    }
}

/// Returns a store with records in most tables.
async fn filled() -> (Store, Arc<MemoryEngine>) {
    let (store, engine) = empty().await;
    assert_eq!(store.add_user(&person(anna(), "anna@example.test")).await.unwrap(), AddOutcome::Added);
    assert_eq!(store.add_client(&client("wiki")).await.unwrap(), AddOutcome::Added);
    store.begin_session(&session()).await.unwrap();
    store.revoke_token("t", LATER).await.unwrap();
    store.use_logout_token(&SourceName::parse("corporate").unwrap(), "logout", LATER).await.unwrap();
    let token = RegistrationToken::new(SecretHash::for_secret(b"initial"), NOW, LATER);
    assert!(store.add_registration_token(&token).await.unwrap());
    let event = AuditEvent::new(NOW, AuditKind::UserCreated, Actor::Operator).for_subject(anna());
    store.keep_audit(&[AuditRecord { id: AuditId::new(NOW, 1), event }]).await.unwrap();
    (store, engine)
}

/// Returns the lines of an export, without the first and the last one.
async fn exported() -> Vec<Json> {
    let mut file = Vec::new();
    admin::export(&filled().await.0, HERE, NOW, &mut file).await.unwrap();
    let lines: Vec<Json> =
        file.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    lines[1..lines.len() - 1].to_vec()
}

/// Returns a file of these records, with a matching header and trailer.
fn file(records: &[Json]) -> Vec<u8> {
    let header = json!({"kind": "sealgate-export", "format": 1, "instance": HERE, "exported_at": NOW});
    let lines: Vec<String> = [&header].into_iter().chain(records).map(Json::to_string).collect();
    let text = lines.join("\n") + "\n";
    let last = json!({"records": records.len(), "sha256": admin::hex(&Sha256::digest(&text))});
    (text + &last.to_string() + "\n").into_bytes()
}

async fn import(records: &[Json]) -> Result<(Store, Arc<MemoryEngine>), String> {
    let (store, engine) = empty().await;
    let imported = admin::import(&store, HERE, &mut file(records).as_slice()).await;
    imported.map(|_| (store, engine)).map_err(|error| error.to_string())
}

async fn rows(engine: &MemoryEngine) -> Vec<(Vec<u8>, Vec<u8>)> {
    engine.scan(b"", None, 1000).await.unwrap()
}

fn of<'r>(records: &'r mut [Json], table: &str) -> &'r mut Json {
    records.iter_mut().find(|record| record["table"] == table).unwrap_or_else(|| panic!("no {table}"))
}

#[tokio::test]
async fn an_import_equals_the_export_byte_for_byte() {
    let records = exported().await;
    for table in ["user", "email", "username", "client", "session", "revoked_token", "once", "audit", "index", "expiry"]
    {
        assert!(records.iter().any(|record| record["table"] == table), "{table}");
    }
    assert_eq!(rows(&import(&records).await.unwrap().1).await, rows(&filled().await.1).await);
}

#[tokio::test]
async fn an_invalid_record_of_a_table_is_refused() {
    for table in ["user", "client", "session", "revoked_token", "once", "audit", "email", "username"] {
        for value in [json!({"x": 1}), json!(null), json!("text"), json!([]), json!(-1)] {
            let mut records = exported().await;
            of(&mut records, table)["value"] = value.clone();
            let refused = import(&records).await.err().unwrap_or_else(|| panic!("{table}: {value}"));
            assert!(refused.contains(&format!("a record of table {table}")), "{refused}");
        }
    }
    for table in ["grant", "app_session", "code", "interaction", "sign_in_attempt", "consent"] {
        let mut records = exported().await;
        let key = base64url(&[7; 32]);
        records.push(json!({"table": table, "key": key, "version": 2, "value": {"x": 1}}));
        assert!(import(&records).await.is_err(), "{table}");
    }
}

#[tokio::test]
async fn records_with_unknown_members_are_refused() {
    for (table, member) in [("user", "/admin"), ("client", "/details/trusted"), ("session", "/sign_ins/0/strong")] {
        let mut records = exported().await;
        let (at, name) = member.rsplit_once('/').unwrap();
        of(&mut records, table)["value"].pointer_mut(at).unwrap()[name] = json!(true);
        let refused = import(&records).await.err().unwrap();
        assert!(refused.contains("content that this version does not know"), "{refused}");
    }
}

#[tokio::test]
async fn a_record_under_another_records_key_is_refused() {
    let bens = base64url(Subject::from_random([2; 16]).as_bytes());
    for (table, key) in [
        ("user", bens.as_str()),
        ("client", "d2lraTI"),
        ("session", &bens),
        ("audit", &bens),
        ("once", &bens),
        ("revoked_token", ""),
    ] {
        let mut records = exported().await;
        of(&mut records, table)["key"] = json!(key);
        let refused = import(&records).await.err().unwrap_or_else(|| panic!("{table}"));
        assert!(refused.contains("key belongs to another record"), "{table}: {refused}");
    }
}

#[tokio::test]
async fn duplicate_keys_addresses_and_usernames_are_refused() {
    for table in ["user", "client", "session", "audit", "once"] {
        let mut records = exported().await;
        let twice = of(&mut records, table).clone();
        records.push(twice.clone());
        assert!(import(&records).await.err().unwrap().contains("another record has the same key"), "{table}");
        // The duplicate is also refused in another commit.
        for number in 0..200_u8 {
            let key = base64url(SecretHash::for_secret(&[number]).as_bytes());
            records.insert(1, json!({"table": "revoked_token", "key": key, "version": 1, "value": 1}));
        }
        assert!(import(&records).await.err().unwrap().contains("another record has the same key"), "{table}");
    }
    let mut records = exported().await;
    let other = Subject::from_random([2; 16]);
    let value = serde_json::to_value(person(other, "ANNA@example.test")).unwrap();
    records.push(json!({"table": "user", "key": base64url(other.as_bytes()), "version": 1, "value": value}));
    assert!(import(&records).await.err().unwrap().contains("e-mail address"));
    let mut records = exported().await;
    let namesake = User { username: Username::parse("anna"), ..person(other, "ben@example.test") };
    let value = serde_json::to_value(namesake).unwrap();
    records.push(json!({"table": "user", "key": base64url(other.as_bytes()), "version": 1, "value": value}));
    assert!(import(&records).await.err().unwrap().contains("username"));
}

#[tokio::test]
async fn an_applications_own_client_is_refused() {
    for id in ["sealgate-app-wiki", "sealgate-app-~own"] {
        let mut records = exported().await;
        let value = serde_json::to_value(client(id)).unwrap();
        records.push(json!({"table": "client", "key": base64url(id.as_bytes()), "version": 1, "value": value}));
        let refused = import(&records).await.err().unwrap();
        assert!(refused.contains("is reserved for a protected application"), "{refused}");
    }
}

#[tokio::test]
async fn field_names_are_classified() {
    for (table, member, value, told) in [
        ("client", "name", "\u{202e}ikiW", "its name is not one line of 1 to 200 visible characters"),
        ("user", "name", "An\u{200b}na", "its name"),
        ("user", "email", "a\u{ad}@b.test", "its name or address has invisible characters"),
    ] {
        let mut records = exported().await;
        of(&mut records, table)["value"][member] = json!(value);
        let refused = import(&records).await.err().unwrap();
        assert!(refused.contains(told), "{table} {member}: {refused}");
    }
}

#[tokio::test]
async fn indexes_are_derived_from_the_records_and_not_read_from_the_file() {
    let mut records = exported().await;
    let ben = Subject::from_random([2; 16]);
    let mine = |record: &Json| !matches!(record["table"].as_str(), Some("index" | "expiry" | "email" | "username"));
    records.retain(mine);
    // Otherwise Ben's address would lead to Anna, and Anna's sessions would be Ben's.
    let address = SecretHash::for_secret(b"ben@example.test");
    records.push(json!({"table": "email", "key": base64url(address.as_bytes()), "version": 1, "value": anna()}));
    let name = SecretHash::for_secret(b"ben");
    records.push(json!({"table": "username", "key": base64url(name.as_bytes()), "version": 1, "value": anna()}));
    let entry = [&b"u"[..], ben.as_bytes(), b"s", &[3; 16]].concat();
    records.push(json!({"table": "index", "key": base64url(&entry)}));
    records.push(json!({"table": "expiry", "key": base64url(&[0, 0, 0, 0, b'u'])}));
    let (store, engine) = import(&records).await.unwrap();
    assert_eq!(rows(&engine).await, rows(&filled().await.1).await);
    assert_eq!(store.user_by_email(&Email::parse("ben@example.test").unwrap()).await.unwrap(), None);
    assert!(store.user_by_email(&Email::parse("anna@example.test").unwrap()).await.unwrap().is_some());
    assert_eq!(store.sessions_of_user(ben, None, 10).await.unwrap().sessions, []);
    assert_eq!(store.sessions_of_user(anna(), None, 10).await.unwrap().sessions.len(), 1);
    let trail = AuditFilter { subject: Some(anna()), ..AuditFilter::default() };
    assert_eq!(store.audit_page(&trail, None, 10).await.unwrap().records.len(), 1);
    // An index entry must have no value.
    records.push(json!({"table": "index", "key": base64url(b"x"), "version": 1, "value": 1}));
    assert!(import(&records).await.is_err());
}

#[tokio::test]
async fn grants_are_found_by_user_and_client_after_an_import() {
    let mut records = exported().await;
    let grant = Grant {
        id: GrantId::from_bytes([9; 16]),
        client: ClientId::parse("wiki").unwrap(),
        subject: anna(),
        session: session().id,
        scope: Scope::all(),
        resource: None,
        auth_time: NOW,
        acr: "1".into(),
        amr: vec!["pwd".into()],
        created_at: NOW,
        expires_at: LATER,
        state: GrantState::Active,
        refresh: None,
        is_service: false,
    };
    let value = serde_json::to_value(&grant).unwrap();
    records.push(json!({"table": "grant", "key": base64url(&[9; 16]), "version": 1, "value": value}));
    let (store, _) = import(&records).await.unwrap();
    for filter in [
        GrantFilter { subject: Some(anna()), ..GrantFilter::default() },
        GrantFilter { client: Some(grant.client.clone()), ..GrantFilter::default() },
    ] {
        assert_eq!(store.grants(&filter, None, 10).await.unwrap().grants, std::slice::from_ref(&grant));
    }
    // Garbage collection finds it too.
    let swept = store.sweep(UnixTime::from_seconds(LATER.seconds() + 86_400), 1000).await.unwrap();
    assert!(swept.removed >= 4, "{swept:?}");
    assert_eq!(store.grant(grant.id).await.unwrap().map(|loaded| loaded.value), None);
}

#[tokio::test]
async fn data_after_the_last_line_is_refused() {
    for behind in ["x", "{}", "\n"] {
        let mut longer = file(&exported().await);
        longer.extend_from_slice(behind.as_bytes());
        let (store, _) = empty().await;
        assert!(admin::import(&store, HERE, &mut longer.as_slice()).await.is_err(), "{behind:?}");
    }
}

/// The token may have been used since the backup.
#[tokio::test]
async fn a_backup_restores_no_initial_token() {
    let (store, _engine) = filled().await;
    let initial = SecretHash::for_secret(b"initial");
    assert!(store.registration_token(&initial).await.unwrap().is_some_and(|token| token.works(NOW)));
    store.take_back_after_restore(NOW).await.unwrap();
    assert!(store.registration_token(&initial).await.unwrap().is_none());
}
