//! Signed tokens of other issuers in compact form (RFC 7515), before their signatures are verified.
//! Also readers of single claims.

use serde_json::{Map, Value};

use crate::oauth::jwk_set::{Algorithm, MAX_KID_LENGTH};
use crate::oauth::strict_json;
use crate::secret::from_base64url;
use crate::time::UnixTime;

/// Parsed JWS whose signature and claims are not verified.
#[derive(Debug)]
pub struct Jws<'a> {
    algorithm: Algorithm,
    kid: Option<String>,
    typ: Option<String>,
    signing_input: &'a str,
    signature: Vec<u8>,
    claims: Map<String, Value>,
}

/// Reason to reject a JWS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JwsFault {
    /// The token exceeds the maximum length.
    TooLong,
    /// The token is not a JWS with three parts, or not the expected JSON.
    Malformed,
    /// The token requires extensions that are not supported (RFC 7515 §4.1.11).
    Critical,
    /// The token's algorithm is not permitted.
    Algorithm,
    /// No key can have the `kid` of the token.
    KeyId,
}

impl<'a> Jws<'a> {
    /// Parses a token of at most `longest` bytes, signed with one of these algorithms.
    ///
    /// Keys in the header (`jwk`, `jku`, `x5c`, `x5u`) are ignored, because an attacker could
    /// insert a key there and sign with it.
    ///
    /// # Errors
    /// [`JwsFault`].
    pub fn parse(token: &'a str, longest: usize, algorithms: &[Algorithm]) -> Result<Self, JwsFault> {
        if token.len() > longest {
            return Err(JwsFault::TooLong);
        }
        let decoded = |part| from_base64url(part).ok_or(JwsFault::Malformed);
        let (signing_input, signature) = token.rsplit_once('.').ok_or(JwsFault::Malformed)?;
        // A third dot makes the claims invalid base64url, so decoding rejects the token.
        let (header, claims) = signing_input.split_once('.').ok_or(JwsFault::Malformed)?;
        let header = strict_json::object(&decoded(header)?).ok_or(JwsFault::Malformed)?;
        if header.contains_key("crit") {
            return Err(JwsFault::Critical);
        }
        let text = |name: &str| match header.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(JwsFault::Malformed),
        };
        let algorithm = text("alg")?.and_then(Algorithm::parse).filter(|algorithm| algorithms.contains(algorithm));
        let algorithm = algorithm.ok_or(JwsFault::Algorithm)?;
        let kid = text("kid")?;
        if kid.is_some_and(|kid| kid.len() > MAX_KID_LENGTH) {
            return Err(JwsFault::KeyId);
        }
        Ok(Self {
            algorithm,
            kid: kid.map(str::to_owned),
            typ: text("typ")?.map(bare_type),
            signing_input,
            signature: decoded(signature)?,
            claims: strict_json::object(&decoded(claims)?).ok_or(JwsFault::Malformed)?,
        })
    }

    /// Returns the algorithm in the header, which is permitted.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Returns the key id in the header.
    pub fn kid(&self) -> Option<&str> {
        self.kid.as_deref()
    }

    /// Returns the type in the header, in lower case and without the prefix `application/`.
    pub fn typ(&self) -> Option<&str> {
        self.typ.as_deref()
    }

    /// Returns the signed text.
    pub fn signing_input(&self) -> &str {
        self.signing_input
    }

    /// Returns the signature.
    pub fn signature(&self) -> &[u8] {
        &self.signature
    }

    /// Returns the claims. They are trustworthy only if the signature is valid.
    pub fn claims(&self) -> &Map<String, Value> {
        &self.claims
    }
}

/// Returns a media type without the prefix `application/`, which may be omitted. Media types are
/// case-insensitive.
fn bare_type(typ: &str) -> String {
    let typ = typ.to_ascii_lowercase();
    typ.strip_prefix("application/").unwrap_or(&typ).to_owned()
}

/// Parses the claim `aud`: an audience or a list of audiences (RFC 7519 §4.1.3).
pub fn audiences(claims: &Map<String, Value>) -> Option<Vec<String>> {
    match claims.get("aud")? {
        Value::String(one) => Some(vec![one.clone()]),
        Value::Array(list) => list.iter().map(|one| one.as_str().map(str::to_owned)).collect(),
        _ => None,
    }
}

/// A claim is not a `NumericDate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MalformedInstant;

/// Parses a `NumericDate`, which may have a fraction (RFC 7519 §2). Returns `None` if the claim is
/// absent.
///
/// # Errors
/// [`MalformedInstant`] if the claim is no number, negative or too large.
pub fn instant(claims: &Map<String, Value>, name: &str) -> Result<Option<UnixTime>, MalformedInstant> {
    /// Largest float up to which all whole numbers are exact.
    const LAST: f64 = 9_007_199_254_740_991.0;
    let Some(value) = claims.get(name) else { return Ok(None) };
    let whole = value.as_u64().or_else(|| {
        let seconds = value.as_f64().filter(|seconds| (0.0..=LAST).contains(seconds))?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range was checked")]
        Some(seconds as u64)
    });
    whole.map(|seconds| Some(UnixTime::from_seconds(seconds))).ok_or(MalformedInstant)
}

/// Returns the value of a configured claim, which is a name or a JSON pointer (RFC 6901).
pub fn mapped<'c>(claims: &'c Map<String, Value>, name: Option<&str>) -> Option<&'c Value> {
    let name = name?;
    let Some(path) = name.strip_prefix('/') else { return claims.get(name) };
    let mut steps = path.split('/').map(|step| step.replace("~1", "/").replace("~0", "~"));
    let first = claims.get(&steps.next()?)?;
    steps.try_fold(first, |value, step| value.as_object()?.get(&step))
}
