//! A user's factors as records, for tests of administration; they cannot be used to sign in.

#![allow(dead_code, reason = "each test binary uses its own part of the fixture")]

use sealgate_domain::secret::base64url;
use sealgate_domain::user::Subject;
use sealgate_store::ExportRecord;
use serde_json::{Value, json};

/// Time at which each factor was added, in seconds since 1970.
pub(crate) const ADDED: u64 = 1_700_000_000;

/// Ed25519 key in CBOR: RFC 8032 §7.1, test 1.
const COSE_KEY: [u8; 42] = [
    0xa4, 0x01, 0x01, 0x03, 0x27, 0x20, 0x06, 0x21, 0x58, 0x20, 0xd7, 0x5a, 0x98, 0x01, 0x82, 0xb1, 0x0a, 0xb7, 0xd5,
    0x4b, 0xfe, 0xd3, 0xc9, 0x64, 0x07, 0x3a, 0x0e, 0xe1, 0x72, 0xf3, 0xda, 0xa6, 0x23, 0x25, 0xaf, 0x02, 0x1a, 0x68,
    0xf7, 0x07, 0x51, 0x1a,
];

/// Returns an authenticator app with this name.
pub(crate) fn app(name: &str) -> Value {
    let id = base64url(&[name.len().try_into().unwrap_or(1); 16]);
    json!({
        "id": id, "name": name, "secret": base64url(&[7; 56]), "last_step": 57_000_000,
        "added_at": ADDED, "last_used_at": ADDED + 500,
    })
}

/// Returns a key with this name, of the kind `security_key` or `passkey`; `number` determines its
/// credential ID.
pub(crate) fn key(kind: &str, name: &str, number: u8) -> Value {
    json!({
        "id": base64url(&[number; 16]), "name": name, "added_at": ADDED + 60,
        "credential": {
            "id": base64url(&[number; 32]), "key": base64url(&COSE_KEY), "kind": kind, "sign_count": 0,
            "backup": "device_bound", "aaguid": base64url(&[0; 16]),
        },
    })
}

/// Returns a user's apps and keys, with this number of recovery codes, if any.
pub(crate) fn record(subject: Subject, totp: &[Value], keys: &[Value], recovery: usize) -> ExportRecord {
    let mut value = json!({
        "subject": subject, "handle": base64url(&[0x42; 32]), "totp": totp, "totp_failures": { "count": 50, "last": ADDED },
        "keys": keys, "recovery_failures": { "count": 0 }, "generation": 3,
    });
    if recovery > 0 {
        let hashes: Vec<String> = (0..recovery).map(|at| base64url(&[u8::try_from(at).unwrap_or(0); 32])).collect();
        value["recovery"] = json!({ "hashes": hashes, "created_at": ADDED + 120 });
    }
    ExportRecord {
        table: "factors".to_owned(),
        key: base64url(subject.as_bytes()),
        version: Some(6),
        value: Some(value),
    }
}
