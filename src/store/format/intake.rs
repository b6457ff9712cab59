//! Validation of imported records.
//!
//! Each record is decoded with the type of its table and encoded again. A record with content that
//! this program does not know is rejected. The key must match the content. Index entries in the
//! file are ignored, because indexes are derived from the records.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::engine::{Key, Value};
use crate::format::table::Table;
use crate::format::{record, table};
use crate::subjects::interactions::{kept_until, pending_entry};
use crate::subjects::keys::WrappedRecord;
use crate::subjects::revocations::Revocation;
use crate::subjects::{audit, client_logouts, factors, grants, registry, sessions};
use crate::{SignInAttempt, StoreError, format};
use sealgate_domain::account_links::AccountLinks;
use sealgate_domain::answers::{AnswerReport, ProcessId};
use sealgate_domain::api_token::ApiToken;
use sealgate_domain::app_credential::AppCredentials;
use sealgate_domain::app_password::AppPasswords;
use sealgate_domain::audit::{AuditEvent, AuditId};
use sealgate_domain::client::{Client, ClientId, INTERNAL_CLIENT};
use sealgate_domain::client_logo::LogoPicture;
use sealgate_domain::code::Code;
use sealgate_domain::consent::Consent;
use sealgate_domain::factors::Factors;
use sealgate_domain::grant::Grant;
use sealgate_domain::key_ring::{FurtherKeys, KeyRing};
use sealgate_domain::known_browser::KnownBrowsers;
use sealgate_domain::oauth::next_step::Interaction;
use sealgate_domain::profile::{is_line, is_visible};
use sealgate_domain::registration_token::RegistrationToken;
use sealgate_domain::secret::from_base64url;
use sealgate_domain::session::{AppSession, Session};
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::{Subject, User};

/// Record of an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportRecord {
    pub table: String,
    /// Key within the table, in base64url.
    pub key: String,
    /// Version of the record; `None` for index entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u8>,
    /// Content of the record; `None` for index entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Json>,
}

/// Maximum length of a client's or user's name, in characters.
const MAX_NAME_LENGTH: usize = 200;
/// Length in bytes of a key that cannot be derived from its record: the table byte, and a hash or
/// two half hashes.
const HASHED: usize = 33;

/// Accepted record, with its index entries.
pub(crate) struct Entry {
    /// Keys that must be unique: the key of the record, and the index keys of the user's e-mail
    /// address and username.
    pub(crate) claims: Vec<Key>,
    pub(crate) put: Vec<(Key, Value)>,
}

/// Decodes a record. Returns `None` for an index entry, and for a record that is not transferred.
///
/// # Errors
/// [`StoreError::Broken`] for a record that this program cannot have written.
pub(crate) fn read(record: &ExportRecord) -> Result<Option<Entry>, StoreError> {
    let broken = |what: &str| {
        let key: String = record.key.chars().take(60).collect();
        StoreError::Broken(format!("a record of table {}: {what} (key {key})", record.table))
    };
    let table = Table::from_name(&record.table).ok_or_else(|| broken("there is no such table"))?;
    let mut key = table::all(table);
    key.extend(from_base64url(&record.key).ok_or_else(|| broken("the key is not in base64url"))?);
    let value = match (record.version, &record.value) {
        (None, None) if matches!(table, Table::Index | Table::Expiry) => return Ok(None),
        (Some(version), Some(value)) => {
            let mut value = value.clone();
            let missing = format::missing(table, version).map_err(broken)?;
            missing.into_iter().try_for_each(|change| change(&mut value)).map_err(broken)?;
            value
        }
        _ => return Err(broken("only one of version and value is present")),
    };
    if stays_behind(table) || (table == Table::Meta && !table::is_meta_that_travels(&key)) {
        return Ok(None);
    }
    let read = Read { key, value };
    entry(table, &read).map_err(broken)
}

/// Returns whether the records of a table are useless in another store.
fn stays_behind(table: Table) -> bool {
    let here = [
        Table::Form,
        Table::Outbox,
        Table::DeadMail,
        Table::SentMail,
        Table::NoticeCount,
        Table::PendingRegistration,
        Table::Submission,
        Table::ClientLogout,
    ];
    here.contains(&table)
}

struct Read {
    key: Key,
    value: Json,
}

fn entry(table: Table, read: &Read) -> Result<Option<Entry>, &'static str> {
    let entry = match table {
        Table::Client => client(read)?,
        Table::User => user(read)?,
        // These index entries are derived from the user's other records.
        Table::Email | Table::Username | Table::SourceLink | Table::Credential => {
            read.typed::<Subject>()?;
            return Ok(None);
        }
        Table::Factors => {
            let factors: Factors = read.typed()?;
            let mut entry = read.under(table::factors(factors.subject), &factors)?;
            for key in factors::credential_keys(&factors) {
                entry.claims.push(key.clone());
                entry.put.push((key, record::encode(&factors.subject).map_err(|_| "it cannot be encoded")?));
            }
            entry
        }
        Table::AppPasswords => {
            let passwords: AppPasswords = read.typed()?;
            read.under(table::app_passwords(passwords.subject), &passwords)?
        }
        Table::AppCredentials => {
            let credentials: AppCredentials = read.typed()?;
            if !credentials.is_consistent() {
                return Err("its credentials are too many, repeated or invalid");
            }
            read.under(table::app_credentials(credentials.subject), &credentials)?
        }
        Table::Consent => {
            let consent: Consent = read.typed()?;
            read.under(table::consent(consent.subject, &consent.client), &consent)?
        }
        Table::KnownBrowsers => {
            let browsers: KnownBrowsers = read.typed()?;
            read.under(table::known_browsers(browsers.subject), &browsers)?.until(browsers.expires_at)
        }
        Table::Grant => {
            let grant: Grant = read.typed()?;
            let entry = read.under(table::grant(grant.id), &grant)?;
            entry.with(grants::entries(&grant)).until(grant.expires_at)
        }
        Table::Session => {
            let session: Session = read.typed()?;
            let entry = read.under(table::session(session.id), &session)?;
            entry.with(sessions::entries(&session)).until(session.ends_at_latest())
        }
        Table::AppSession => {
            let session: AppSession = read.typed()?;
            let entry = read.under(table::app_session(session.id), &session)?;
            entry.with(std::iter::once(sessions::app_session_entry(&session))).until(session.expires_at)
        }
        Table::Code => {
            let code: Code = read.typed()?;
            read.hashed(&table::all(Table::Code), &code)?.until(code.expires_at)
        }
        Table::Interaction => {
            let interaction: Interaction = read.typed()?;
            let prefix = table::interactions(&interaction.browser);
            let entry = pending_entry(&read.key, &interaction);
            let intake = read.hashed(&prefix, &interaction)?.with(entry.into_iter());
            intake.until(kept_until(interaction.expires_at))
        }
        Table::SignInAttempt => {
            let attempt: SignInAttempt = read.typed()?;
            let prefix = table::sign_in_attempts(&attempt.browser);
            read.hashed(&prefix, &attempt)?.until(kept_until(attempt.expires_at))
        }
        Table::Once | Table::RevokedToken => {
            let until: UnixTime = read.typed()?;
            read.hashed(&table::all(table), &until)?.until(until)
        }
        Table::Audit => {
            let event: AuditEvent = read.typed()?;
            let id = read.key.get(1..).and_then(|id| id.try_into().ok()).map(AuditId::from_bytes);
            let id = id.filter(|id| id.at() == event.at).ok_or(ANOTHERS_KEY)?;
            read.under(table::audit(id), &event)?.with(audit::entries(id, &event))
        }
        Table::Index | Table::Expiry => return Err("it is an index entry, but has a value"),
        Table::Meta => meta(read)?,
        Table::AccountLinks => {
            let links: AccountLinks = read.typed()?;
            read.under(table::account_links(links.subject), &links)?
        }
        Table::Revocation => {
            let open: Revocation = read.typed()?;
            read.under(open.key(), &open)?.until(open.due_at())
        }
        Table::ClientLogo => {
            let picture: LogoPicture = read.typed()?;
            let id = read.key.get(1..).and_then(|id| std::str::from_utf8(id).ok()).and_then(ClientId::parse);
            read.under(table::client_logo(&id.ok_or(ANOTHERS_KEY)?), &picture)?
        }
        Table::RegistrationToken => {
            let token: RegistrationToken = read.typed()?;
            read.under(table::registration_token(&token.hash), &token)?.until(token.expires_at)
        }
        Table::ApiToken => {
            let token: ApiToken = read.typed()?;
            read.under(table::api_token(&token.hash), &token)?.until(token.expires_at)
        }
        Table::Form
        | Table::Outbox
        | Table::DeadMail
        | Table::SentMail
        | Table::NoticeCount
        | Table::PendingRegistration
        | Table::Submission
        | Table::ClientLogout => return Ok(None),
    };
    Ok(Some(entry))
}

const ANOTHERS_KEY: &str = "its key belongs to another record";

fn meta(read: &Read) -> Result<Entry, &'static str> {
    if read.key == table::relying_party() {
        let host: String = read.typed()?;
        return read.under(table::relying_party(), &host);
    }
    if read.key.starts_with(&table::data_keys()) {
        let wrapped: WrappedRecord = read.typed()?;
        return read.under(table::data_key(&wrapped.wrapping_id), &wrapped);
    }
    if read.key.starts_with(&table::all_answers()) {
        let report: AnswerReport = read.typed()?;
        let process = read.key.get(table::all_answers().len()..).and_then(|id| id.try_into().ok());
        let process = process.map(ProcessId::from_bytes).ok_or(ANOTHERS_KEY)?;
        return Ok(read.under(table::answers(process), &report)?.until(report.expires_at));
    }
    if read.key == table::further_keys() {
        let further: FurtherKeys = read.typed()?;
        return read.under(table::further_keys(), &further);
    }
    let ring: KeyRing = read.typed()?;
    read.under(table::key_ring(), &ring)
}

fn client(read: &Read) -> Result<Entry, &'static str> {
    let client: Client = read.typed()?;
    if client.id.as_str().starts_with(INTERNAL_CLIENT) {
        return Err("its ID is reserved for a protected application");
    }
    if !is_line(&client.name, MAX_NAME_LENGTH) {
        return Err("its name is not one line of 1 to 200 visible characters");
    }
    let entry = read.under(table::client(&client.id), &client)?.with(client_logouts::feature_entries(&client));
    Ok(match client.registration.and_then(|own| own.unused_until) {
        Some(until) => entry.until(until),
        None => entry,
    })
}

fn user(read: &Read) -> Result<Entry, &'static str> {
    let is_nameless = read.value["email"].is_null() && read.value["username"].is_null();
    if read.value["sub"].is_string() && is_nameless {
        return Err("the user has neither an e-mail address nor a username");
    }
    let user: User = read.typed()?;
    let is_address_visible = user.email.as_ref().is_none_or(|email| is_visible(email.as_str()));
    if !is_line(&user.name, MAX_NAME_LENGTH) || !is_address_visible {
        return Err("its name or address has invisible characters, or the name has line breaks");
    }
    let mut entry = read.under(table::user(user.sub), &user)?;
    for name in registry::names(&user) {
        entry.claims.push(name.clone());
        entry.put.push((name, encoded(&user.sub)?));
    }
    Ok(entry)
}

impl Read {
    /// Decodes the content, and checks that this program knows all of it.
    fn typed<T: Serialize + DeserializeOwned>(&self) -> Result<T, &'static str> {
        let typed: T = serde_json::from_value(self.value.clone()).map_err(|_| "it does not fit the table")?;
        let encoded = serde_json::to_value(&typed).map_err(|_| "it cannot be encoded")?;
        if is_contained(&self.value, &encoded) {
            Ok(typed)
        } else {
            Err("it has content that this version does not know")
        }
    }

    /// Returns the entry of a record if `own` equals the key in the file. `own` is the key that was
    /// derived from the content.
    fn under(&self, own: Key, record: &impl record::Record) -> Result<Entry, &'static str> {
        if own != self.key {
            return Err(ANOTHERS_KEY);
        }
        Ok(Entry { put: vec![(own.clone(), encoded(record)?)], claims: vec![own] })
    }

    /// Returns the entry of a record if its key in the file consists of this prefix and a hash.
    fn hashed(&self, prefix: &[u8], record: &impl record::Record) -> Result<Entry, &'static str> {
        if self.key.len() != HASHED || !self.key.starts_with(prefix) {
            return Err(ANOTHERS_KEY);
        }
        self.under(self.key.clone(), record)
    }
}

impl Entry {
    fn with(mut self, entries: impl Iterator<Item = Key>) -> Self {
        self.put.extend(entries.map(|entry| (entry, Value::new())));
        self
    }

    /// Adds an entry to the expiry index.
    fn until(self, end: UnixTime) -> Self {
        let expiry = self.claims.first().map(|key| table::expiry(end, key));
        self.with(expiry.into_iter())
    }
}

fn encoded(record: &impl record::Record) -> Result<Value, &'static str> {
    record::encode(record).map_err(|_| "it cannot be encoded")
}

/// Returns whether decoding and encoding has kept all content. Members with the value null may be
/// missing.
fn is_contained(original: &Json, encoded: &Json) -> bool {
    match (original, encoded) {
        (Json::Object(original), Json::Object(encoded)) => {
            original.iter().all(|(name, value)| match encoded.get(name) {
                Some(encoded) => is_contained(value, encoded),
                None => value.is_null(),
            })
        }
        (Json::Array(original), Json::Array(encoded)) => {
            original.len() == encoded.len()
                && original.iter().zip(encoded).all(|(original, encoded)| is_contained(original, encoded))
        }
        (original, encoded) => original == encoded,
    }
}
