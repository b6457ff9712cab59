//! Keys that verify the signed assertions of a client (RFC 7523 §3): keys of the client itself, or of
//! an issuer that vouches for a workload.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::oauth::jwk_set;
use crate::oauth::jwk_set::Algorithm;
use crate::oauth::strict_json;
use crate::oauth::verifying_keys::VerifyingKeys;
use crate::secret::base64url;

/// Maximum length of a client's keys in bytes, as the operator writes them.
pub const MAX_JWKS_LENGTH: usize = 32 * 1024;
/// Maximum number of a client's keys.
const MAX_CLIENT_KEYS: usize = 10;
/// Maximum length of the URL of a client's key set, in bytes.
const MAX_JWKS_URI_LENGTH: usize = 2048;
/// Maximum length of the subject of a workload, in bytes (OpenID Connect Core §2).
const MAX_SUBJECT_LENGTH: usize = 255;

/// Origin of the keys that verify a client's assertions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AssertionSource {
    /// Public keys of the client.
    Jwks(ClientJwks),
    /// URL of the client's key set. Only clients of the operator may have one, because this server
    /// fetches it.
    JwksUri(String),
    /// The client presents a token that a trusted issuer gives to its workload.
    Workload(Workload),
}

/// Workload that a trusted issuer identifies, such as a Kubernetes service account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// Name of a `[[trusted_issuer]]`.
    pub issuer: String,
    /// The exact `sub` of the issuer's tokens.
    pub subject: String,
}

impl Workload {
    /// Creates a workload.
    ///
    /// # Errors
    /// Returns an error if the subject is empty, too long, or not visible ASCII.
    pub fn new(issuer: &str, subject: &str) -> Result<Self, String> {
        let is_valid = (1..=MAX_SUBJECT_LENGTH).contains(&subject.len());
        if !is_valid || !subject.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!(
                "the subject {subject:?} is invalid; write the claim sub of the tokens, 1 to {MAX_SUBJECT_LENGTH} \
                 visible ASCII characters"
            ));
        }
        Ok(Self { issuer: issuer.to_owned(), subject: subject.to_owned() })
    }
}

/// Checks the URL of a client's key set.
///
/// # Errors
/// Returns an error unless it is an https URL without username and fragment.
pub fn check_jwks_uri(text: &str) -> Result<(), String> {
    let is_visible = text.len() <= MAX_JWKS_URI_LENGTH && text.bytes().all(|byte| byte.is_ascii_graphic());
    let url = url::Url::parse(text).ok().filter(|_| is_visible);
    let is_valid = |url: &url::Url| {
        url.scheme() == "https" && url.username().is_empty() && url.password().is_none() && url.fragment().is_none()
    };
    if url.is_some_and(|url| is_valid(&url)) {
        return Ok(());
    }
    Err(format!("the jwks_uri {text:?} is invalid; write an https URL without a username or fragment"))
}

/// Public keys of a client: a JWK set (RFC 7517 §5) with only the members that verify signatures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClientJwks(Value);

impl ClientJwks {
    /// Parses a JWK set, a single JWK, or a public key in PEM form (RFC 7468 §13).
    ///
    /// # Errors
    /// Returns an error that names the key, if any key is private, weak, or of an unsupported type.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_JWKS_LENGTH {
            return Err(format!("the keys have more than {MAX_JWKS_LENGTH} bytes"));
        }
        let listed = if text.trim_start().starts_with("-----BEGIN") { vec![pem(text)?] } else { listed(text)? };
        if listed.is_empty() || listed.len() > MAX_CLIENT_KEYS {
            return Err(format!("a client has 1 to {MAX_CLIENT_KEYS} keys, not {}", listed.len()));
        }
        for (key, number) in listed.iter().zip(1..) {
            if ["d", "k", "p", "q"].iter().any(|private| key.contains_key(*private)) {
                return Err(format!(
                    "key {number} is private or symmetric, so it is compromised now; generate a new key pair, and \
                     write only the public key"
                ));
            }
            if usable(std::slice::from_ref(key)) != 1 {
                return Err(format!(
                    "key {number} cannot be used; keys are RSA with 2048 to 8192 bits, EC on P-256, or OKP on Ed25519, \
                     for signatures"
                ));
            }
            if listed.len() > 1 && !key.contains_key("kid") {
                return Err(format!("key {number} has no kid, which each of several keys needs"));
            }
        }
        if usable(&listed) != listed.len() {
            return Err("two keys have the same kid".to_owned());
        }
        Ok(Self(document(&listed)))
    }

    /// Returns the set as a JSON value.
    pub fn as_value(&self) -> &Value {
        &self.0
    }

    /// Prepares the keys that an assertion with this key id names: all of them without a key id. A record
    /// that another program has written may have fewer usable keys.
    ///
    /// Anyone can send an assertion, so no other keys are prepared.
    pub fn verifying_keys(&self, kid: Option<&str>) -> VerifyingKeys {
        let is_named =
            |key: &&Value| key.get("kid").and_then(Value::as_str).zip(kid).is_none_or(|(own, kid)| own == kid);
        let listed = self.0.get("keys").and_then(Value::as_array).into_iter().flatten();
        let named = json!({ "keys": listed.filter(is_named).collect::<Vec<_>>() });
        let jwks = jwk_set::read(named.to_string().as_bytes()).unwrap_or_default();
        VerifyingKeys::from_jwks(&jwks, &algorithms())
    }
}

/// Returns all algorithms that clients may sign with.
pub fn algorithms() -> [Algorithm; 4] {
    Algorithm::ALL.map(|(_, algorithm)| algorithm)
}

/// Returns the keys of a JWK set, or a single JWK.
fn listed(text: &str) -> Result<Vec<Map<String, Value>>, String> {
    let malformed = || "write a JWK set, a JWK, or a public key in PEM form".to_owned();
    let mut members = strict_json::object(text.as_bytes()).ok_or_else(malformed)?;
    match members.remove("keys") {
        None if members.contains_key("kty") => Ok(vec![members]),
        Some(Value::Array(keys)) => {
            let objects = keys.into_iter().map(|key| match key {
                Value::Object(members) => Ok(members),
                _ => Err(malformed()),
            });
            objects.collect()
        }
        _ => Err(malformed()),
    }
}

/// Returns a set with the public members of these keys.
fn document(keys: &[Map<String, Value>]) -> Value {
    const PUBLIC: [&str; 10] = ["kty", "crv", "x", "y", "n", "e", "kid", "alg", "use", "key_ops"];
    let public = |key: &Map<String, Value>| {
        let members = key.iter().filter(|(name, _)| PUBLIC.contains(&name.as_str()));
        members.map(|(name, value)| (name.clone(), value.clone())).collect::<Map<_, _>>()
    };
    json!({ "keys": keys.iter().map(public).collect::<Vec<_>>() })
}

/// Returns the number of keys that can verify signatures.
fn usable(keys: &[Map<String, Value>]) -> usize {
    ClientJwks(document(keys)).verifying_keys(None).len()
}

/// Parses a `PUBLIC KEY` in PEM form, as `openssl pkey -pubout` writes it.
fn pem(text: &str) -> Result<Map<String, Value>, String> {
    let fault = || {
        "the PEM text is no public key of RSA, P-256 or Ed25519; write it with: openssl pkey -in KEY -pubout".to_owned()
    };
    let body = text.trim().strip_prefix("-----BEGIN PUBLIC KEY-----").ok_or_else(fault)?;
    let body = body.strip_suffix("-----END PUBLIC KEY-----").ok_or_else(fault)?;
    let body: String = body.split_ascii_whitespace().collect();
    let der = STANDARD.decode(body).map_err(|_| fault())?;
    let key = spki(&der).ok_or_else(fault)?;
    key.as_object().cloned().ok_or_else(fault)
}

/// Parses a `SubjectPublicKeyInfo` (RFC 5280 §4.1.2.7) in DER.
fn spki(der: &[u8]) -> Option<Value> {
    /// Algorithm identifiers (RFC 5480 §2.1.1, RFC 8410 §3, RFC 8017 appendix C).
    const P256: &[u8] = b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07";
    const ED25519: &[u8] = b"\x06\x03\x2b\x65\x70";
    const RSA: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00";
    const SEQUENCE: u8 = 0x30;
    const BIT_STRING: u8 = 3;
    const INTEGER: u8 = 2;

    let (info, []) = element(der, SEQUENCE)? else { return None };
    let (algorithm, rest) = element(info, SEQUENCE)?;
    let (bits, []) = element(rest, BIT_STRING)? else { return None };
    // The first byte is the number of unused bits.
    let (&0, key) = bits.split_first()? else { return None };
    match (algorithm, key) {
        (P256, [4, point @ ..]) if point.len() == 64 => {
            let (x, y) = point.split_at(32);
            Some(json!({ "kty": "EC", "crv": "P-256", "x": base64url(x), "y": base64url(y) }))
        }
        (ED25519, key) => Some(json!({ "kty": "OKP", "crv": "Ed25519", "x": base64url(key) })),
        (RSA, key) => {
            let (numbers, []) = element(key, SEQUENCE)? else { return None };
            let (n, rest) = element(numbers, INTEGER)?;
            let (e, []) = element(rest, INTEGER)? else { return None };
            let number = |bytes: &[u8]| base64url(bytes.strip_prefix(&[0]).unwrap_or(bytes));
            Some(json!({ "kty": "RSA", "n": number(n), "e": number(e) }))
        }
        _ => None,
    }
}

/// Returns the content of the first DER element, which must have this tag, and the bytes after it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 => (usize::from(*rest.first()?), rest.get(1..)?),
        0x82 => (usize::from(u16::from_be_bytes(*rest.first_chunk()?)), rest.get(2..)?),
        _ => return None,
    };
    (found == tag).then(|| rest.split_at_checked(length)).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Keys that `openssl pkey -pubout` has written.
    const P256_PEM: &str = "-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEyv7Jno0LpVKVtMWAwzMWCxxXMQh7
YnH/U5ZeNqXEa7e7PsJmWcWDMASLxPbM8FQ3BTMUmzkYUO8Tziq9cntSrw==
-----END PUBLIC KEY-----\n";
    const RSA_PEM: &str = "-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAjSKvPUiLO20eIrWLos2S
TLC/THitJVliCq6x1Agukn8C9lcNy9JLnXJCMu/e4W0NoH562A0stPbF9R8vHIBg
/HCaFUXzbF/rvkNQxDB8LbAFzzOHgb5bf5SLa8oPRJYb8V6suODv0mkexnVFq6vo
KZTJTsilt7f8/SuM9oi1oeDXRbTa2LA69DExrUpdfb+ggOxL9O4rHb/pVYyFHQnB
9LZ6SM/1uouF/i/PyyO2xJzksOm1XGPg2Q0uz2UwzpydeYmcGWPchFx2gTG2DQXS
KT7rbvsF3yaEMJvNYul0lavtiCyw7dAS4HAK+08geiL+PnkV5x9SL22iEVj3N3m+
VwIDAQAB
-----END PUBLIC KEY-----\n";

    #[test]
    fn keys_are_a_set_a_key_or_pem() {
        let okp = json!({ "kty": "OKP", "crv": "Ed25519", "x": base64url(&[3; 32]), "kid": "o", "x5u": "https://x" });
        let one = ClientJwks::parse(&okp.to_string()).unwrap();
        let set = ClientJwks::parse(&json!({ "keys": [okp] }).to_string()).unwrap();
        assert_eq!(one, set);
        assert_eq!((one.verifying_keys(None).len(), one.0["keys"][0].get("x5u")), (1, None));
    }

    #[test]
    fn a_set_with_any_unusable_key_is_refused_as_a_whole() {
        let okp = |kid: &str| json!({ "kty": "OKP", "crv": "Ed25519", "x": base64url(&[3; 32]), "kid": kid });
        let mut private = okp("p");
        private["d"] = json!("x");
        let short = json!({ "kty": "RSA", "n": base64url(&[0x80; 128]), "e": "AQAB", "kid": "s" });
        let oct = json!({ "kty": "oct", "k": base64url(&[1; 32]), "kid": "h" });
        let encryption = json!({ "kty": "OKP", "crv": "Ed25519", "x": base64url(&[3; 32]), "use": "enc" });
        let nameless = json!({ "kty": "OKP", "crv": "Ed25519", "x": base64url(&[3; 32]) });
        for (keys, expected) in [
            (vec![okp("a"), private], "key 2 is private"),
            (vec![oct], "key 1 is private or symmetric"),
            (vec![short], "key 1 cannot be used"),
            (vec![encryption], "key 1 cannot be used"),
            (vec![okp("a"), okp("a")], "the same kid"),
            (vec![okp("a"), nameless], "key 2 has no kid"),
            (Vec::new(), "1 to 10 keys"),
            ((0..11).map(|number| okp(&number.to_string())).collect(), "1 to 10 keys"),
        ] {
            let fault = ClientJwks::parse(&json!({ "keys": keys }).to_string()).unwrap_err();
            assert!(fault.contains(expected), "{fault}");
        }
        for text in ["", "{}", "[]", "{\"keys\":{}}", "{\"keys\":[1]}", "-----BEGIN CERTIFICATE-----", "-----BEGIN"] {
            assert!(ClientJwks::parse(text).is_err(), "{text}");
        }
        assert!(ClientJwks::parse(&" ".repeat(MAX_JWKS_LENGTH + 1)).is_err());
    }

    #[test]
    fn a_pem_key_becomes_a_jwk() {
        for (text, kty) in [(P256_PEM, "EC"), (RSA_PEM, "RSA")] {
            let keys = ClientJwks::parse(text).unwrap();
            assert_eq!((&keys.0["keys"][0]["kty"], keys.verifying_keys(None).len()), (&json!(kty), 1));
        }
        let ed25519 = [b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00".as_slice(), &[3; 32]].concat();
        let text = format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----", STANDARD.encode(&ed25519));
        let keys = ClientJwks::parse(&text).unwrap();
        assert_eq!(keys.0, json!({"keys": [{ "kty": "OKP", "crv": "Ed25519", "x": base64url(&[3; 32]) }]}));
        for cut in 0..ed25519.len() {
            assert_eq!(spki(&ed25519[..cut]), None);
        }
        assert_eq!(spki(&[ed25519.as_slice(), &[0]].concat()), None);
    }

    #[test]
    fn a_jwks_uri_is_https() {
        assert!(check_jwks_uri("https://keys.test/jwks?x").is_ok());
        for wrong in ["http://keys.test/jwks", "https://u@keys.test/", "https://keys.test/#x", "keys", "https://k t/"] {
            assert!(check_jwks_uri(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_subject_is_visible_ascii() {
        assert!(Workload::new("k8s", "system:serviceaccount:jobs:backup").is_ok());
        for wrong in ["", " ", "a b", "ş", &"x".repeat(256)] {
            assert!(Workload::new("k8s", wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_text_causes_a_panic(text in ".{0,200}", der in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = ClientJwks::parse(&text);
            let _ = spki(&der);
        }
    }
}
