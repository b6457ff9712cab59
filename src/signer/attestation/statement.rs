//! Comparison of the two documents that a provider publishes about its keys: the JWK set and the
//! key statements.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rustls::pki_types::CertificateDer;
use serde_json::Value;

use crate::{KeyReport, PublicKey};
use sealgate_domain::oauth::jwk_set::{Algorithm, Numbers};

/// Maximum number of keys in a document.
const MAX_KEYS: usize = 256;

/// JWK members that only private or symmetric keys have (RFC 7518 §6.3.2, §6.4.1).
const PRIVATE: [&str; 8] = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"];

/// Statement about one key of the JWK set.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) key: PublicKey,
    pub(super) state: String,
    /// Contradictions between the statement and the JWK set, and attributes that a signing key must
    /// not have.
    pub(super) faults: Vec<String>,
    pub(super) attestation: PublishedAttestation,
}

/// Attestation of a key, as the provider publishes it.
#[derive(Debug)]
pub(super) enum PublishedAttestation {
    /// Certificate chain. The leaf is the first certificate.
    Chain(Vec<CertificateDer<'static>>),
    /// The provider publishes `not attested`.
    NotAttested,
    /// Any other value. Only its beginning is stored.
    Unreadable(String),
}

/// Parses both documents. Returns the statements about keys in the JWK set, and the errors that do
/// not concern a single statement.
///
/// # Errors
/// One line, if a document is malformed.
pub(super) fn parse(document: &Value, jwks: &Value, issuer: &str) -> Result<(Vec<Statement>, Vec<String>), String> {
    if document["issuer"].as_str() != Some(issuer) {
        return Err(format!("the statements are from the issuer {}, not from {issuer}", document["issuer"]));
    }
    let stated = list(document, "the document of statements")?;
    let published = list(jwks, "the key set")?;
    let mut faults = Vec::new();
    let mut statements = Vec::new();
    let mut seen = Vec::new();
    for jwk in published {
        let kid = text_member(jwk, "kid");
        if let Some(private) = PRIVATE.iter().find(|member| !jwk[**member].is_null()) {
            faults.push(format!("key {kid}: the key set contains \"{private}\", a part of the private key"));
        }
        let key = match public_key(jwk) {
            Ok(key) => key,
            Err(why) => {
                faults.push(format!("key {kid} in the key set: {why}"));
                continue;
            }
        };
        let mut of_key = stated.iter().filter(|statement| text_member(statement, "kid") == key.kid().as_str());
        match (of_key.next(), of_key.next()) {
            (Some(one), None) => statements.push(statement(one, key)),
            (None, _) => faults.push(format!("key {kid} is in the key set, but has no statement")),
            (Some(_), Some(_)) => faults.push(format!("key {kid} has several statements")),
        }
        seen.push(kid);
    }
    for statement in stated {
        let kid = text_member(statement, "kid");
        if !seen.contains(&kid) {
            faults.push(format!("key {kid} has a statement, but is not in the key set"));
        }
    }
    Ok((statements, faults))
}

fn list<'a>(document: &'a Value, name: &str) -> Result<&'a [Value], String> {
    match document["keys"].as_array() {
        Some(keys) if keys.is_empty() => Err(format!("{name} has no key")),
        Some(keys) if keys.len() <= MAX_KEYS => Ok(keys),
        Some(_) => Err(format!("{name} has more than {MAX_KEYS} keys")),
        None => Err(format!("{name} has no list \"keys\"")),
    }
}

fn public_key(jwk: &Value) -> Result<PublicKey, String> {
    let algorithm = Algorithm::parse(text_member(jwk, "alg"));
    let algorithm = algorithm.ok_or("its algorithm is not RS256, PS256, ES256 or EdDSA")?;
    let number =
        |name: &str| URL_SAFE_NO_PAD.decode(text_member(jwk, name)).map_err(|_| format!("\"{name}\" is not base64url"));
    let numbers = match (text_member(jwk, "kty"), text_member(jwk, "crv")) {
        ("RSA", _) => Numbers::Rsa { n: number("n")?, e: number("e")? },
        ("EC", "P-256") => Numbers::P256([vec![4], number("x")?, number("y")?].concat()),
        ("OKP", "Ed25519") => Numbers::Ed25519(number("x")?),
        _ => return Err(format!("is not a key for {algorithm}")),
    };
    let key = PublicKey::from_numbers(algorithm, &numbers).map_err(|error| error.to_string())?;
    if key.kid().as_str() != text_member(jwk, "kid") {
        return Err(format!("its kid differs from the thumbprint of its public key, {}", key.kid()));
    }
    Ok(key)
}

fn statement(value: &Value, key: PublicKey) -> Statement {
    let mut faults = Vec::new();
    if text_member(value, "alg") != key.algorithm().name() {
        faults.push(format!(
            "the statement gives the algorithm {}, but the key is for {}",
            value["alg"],
            key.algorithm()
        ));
    }
    if value["bits"].as_u64() != u64::try_from(key.bits()).ok() {
        faults.push(format!("the statement gives {} bits, but the key has {}", value["bits"], key.bits()));
    }
    let stated = &value["stated_by_token"];
    if stated.is_object() {
        faults.extend(report(stated, &key).faults(true));
        if text_member(stated, "kid") != key.kid().as_str() {
            faults.push(format!("the token's statement is about another key, {}", stated["kid"]));
        }
    } else {
        faults.push("the token has no statement about the key".into());
    }
    let attestation = match &value["attestation"] {
        Value::String(word) if word == "not attested" => PublishedAttestation::NotAttested,
        other => certificates(other)
            .map_or_else(|| PublishedAttestation::Unreadable(shortened(other)), PublishedAttestation::Chain),
    };
    Statement { key, state: text_member(value, "state").to_owned(), faults, attestation }
}

/// Converts the attributes in a statement to the report that [`KeyReport::faults`] checks.
fn report(stated: &Value, key: &PublicKey) -> KeyReport {
    let flag = |name: &str| stated[name].as_bool();
    KeyReport {
        kid: key.kid().clone(),
        id: text_member(stated, "id").to_owned(),
        label: text_member(stated, "label").to_owned(),
        alg: key.algorithm(),
        bits: key.bits(),
        sensitive: flag("sensitive"),
        always_sensitive: flag("always_sensitive"),
        extractable: flag("extractable"),
        never_extractable: flag("never_extractable"),
        local: flag("local"),
        can_sign: flag("can_sign"),
        can_decrypt: flag("can_decrypt"),
        can_unwrap: flag("can_unwrap"),
        always_authenticate: flag("always_authenticate"),
    }
}

fn certificates(attestation: &Value) -> Option<Vec<CertificateDer<'static>>> {
    let certificate = |text: &Value| STANDARD.decode(text.as_str()?).ok().map(CertificateDer::from);
    attestation["x5c"].as_array()?.iter().map(certificate).collect()
}

fn shortened(value: &Value) -> String {
    value.to_string().chars().take(80).collect()
}

fn text_member<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}
