//! Access tokens of other issuers: taken apart, and judged by what they say (RFC 7519, RFC 8725, RFC 9068 §4). The signature
//! is verified elsewhere, with a key of the one issuer that the token names.
//!
//! What another issuer calls somebody, or a group, is a name of its own: it never equals one of ours unless the operator
//! wrote down that it does.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::domain::secret::from_base64url;
use crate::domain::time::UnixTime;
use crate::domain::user::Email;
use crate::oauth::algorithm::Algorithm;
use crate::oauth::jwk_set::LONGEST_KID;
use crate::oauth::strict_json;

/// The longest token of anybody that is looked at, bytes.
pub const LONGEST: usize = 16 * 1024;

/// The longest `sub`, bytes (OpenID Connect Core §2).
const LONGEST_SUB: usize = 255;

/// What an issuer's tokens must be like, as the operator wrote it down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustTerms {
    /// Our short name for the issuer: letters, digits, `-` and `_`.
    pub name: String,
    /// The issuer, as `iss` has it byte for byte.
    pub issuer: String,
    /// Audiences of which a token must name one.
    pub audiences: Vec<String>,
    pub algorithms: Vec<Algorithm>,
    /// Whether the header must say `at+jwt` (RFC 9068 §2.1). Otherwise it may say `JWT`, or nothing.
    pub access_tokens_only: bool,
    /// Its clients whose tokens are taken; those of all when absent.
    pub clients: Option<Vec<String>>,
    /// How far its clock and ours may be apart.
    pub skew: Duration,
    /// Its longest token, bytes.
    pub longest: usize,
    /// Where its tokens say what our rules ask for.
    pub claims: ClaimNames,
}

/// The claims that an operator has mapped: a name, or a JSON pointer (RFC 6901) such as `/realm_access/roles`. What is not
/// mapped is not believed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClaimNames {
    /// Groups: a list of texts, or one text.
    pub groups: Option<String>,
    /// What is written before each group.
    pub group_prefix: String,
    /// Scopes: texts separated by spaces, or a list of them.
    pub scope: Option<String>,
    pub email: Option<String>,
    /// Whether addresses count although the token does not say `"email_verified": true`.
    pub emails_are_verified: bool,
    pub acr: Option<String>,
}

/// Why a token of another issuer is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ForeignFault {
    /// It is longer than the issuer's tokens may be.
    TooLong,
    /// Not a signed token in three parts, or not such JSON.
    Malformed,
    /// It demands extensions that we do not know (RFC 7515 §4.1.11).
    Critical,
    /// Signed in a way that the issuer's tokens are not.
    Algorithm,
    /// Of another kind than an access token.
    Kind,
    /// The issuer has no such key.
    UnknownKey,
    /// Not signed by that key.
    Signature,
    Issuer,
    Audience,
    /// Issued to a client whose tokens are not taken.
    Client,
    /// Expired, or it never would.
    Expired,
    /// Not valid yet, or issued in the future.
    NotYet,
    /// About nobody, or somebody whose name cannot be written.
    Subject,
    /// Bound to a key that whoever sends it must prove to have (RFC 7800), which is not asked for here.
    Bound,
    /// Nobody knows: the issuer's keys never came, or are too old.
    NoKeys,
}

impl ForeignFault {
    /// A word for logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::Malformed => "malformed",
            Self::Critical => "critical",
            Self::Algorithm => "algorithm",
            Self::Kind => "kind",
            Self::UnknownKey => "unknown_key",
            Self::Signature => "signature",
            Self::Issuer => "issuer",
            Self::Audience => "audience",
            Self::Client => "client",
            Self::Expired => "expired",
            Self::NotYet => "not_yet",
            Self::Subject => "subject",
            Self::Bound => "bound",
            Self::NoKeys => "no_keys",
        }
    }

    /// The claim or header parameter that decided; none where there is none to name.
    pub const fn claim(self) -> Option<&'static str> {
        match self {
            Self::TooLong | Self::Malformed | Self::Signature | Self::NoKeys => None,
            Self::Critical => Some("crit"),
            Self::Algorithm => Some("alg"),
            Self::Kind => Some("typ"),
            Self::UnknownKey => Some("kid"),
            Self::Issuer => Some("iss"),
            Self::Audience => Some("aud"),
            Self::Client => Some("client_id"),
            Self::Expired => Some("exp"),
            Self::NotYet => Some("nbf"),
            Self::Subject => Some("sub"),
            Self::Bound => Some("cnf"),
        }
    }
}

/// The issuer that a token claims to be of, before anything about it is verified: only good for choosing whose keys and
/// terms it is judged by. `None` when it names none, or one twice.
pub fn claimed_issuer(token: &str) -> Option<String> {
    /// Every request pays for this reading, so that all else is skipped.
    #[derive(Deserialize)]
    struct Claimed {
        iss: String,
    }

    if token.len() > LONGEST {
        return None;
    }
    let mut parts = token.split('.');
    let (Some(_), Some(claims), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return None;
    };
    serde_json::from_slice(&from_base64url(claims)?).ok().map(|Claimed { iss }| iss)
}

/// A signed token taken apart; nothing about it is verified.
#[derive(Debug)]
pub struct Signed<'a> {
    /// How it says that it is signed: one of the terms' algorithms.
    pub algorithm: Algorithm,
    pub kid: Option<String>,
    pub signing_input: &'a str,
    pub signature: Vec<u8>,
    claims: Map<String, Value>,
}

impl<'a> Signed<'a> {
    /// Takes a token apart under these terms. Keys that the header brings along or points to (`jwk`, `jku`, `x5c`, `x5u`) are
    /// never looked at: whoever forges a token forges these too.
    ///
    /// # Errors
    /// `TooLong`, `Malformed`, `Critical`, `Algorithm`, `Kind`.
    pub fn parse(token: &'a str, terms: &TrustTerms) -> Result<Self, ForeignFault> {
        if token.len() > terms.longest {
            return Err(ForeignFault::TooLong);
        }
        let decoded = |part| from_base64url(part).ok_or(ForeignFault::Malformed);
        let (signing_input, signature) = token.rsplit_once('.').ok_or(ForeignFault::Malformed)?;
        // A third dot is no base64url.
        let (header, claims) = signing_input.split_once('.').ok_or(ForeignFault::Malformed)?;
        let header = strict_json::object(&decoded(header)?).ok_or(ForeignFault::Malformed)?;
        if header.contains_key("crit") {
            return Err(ForeignFault::Critical);
        }
        let text = |name: &str| match header.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(ForeignFault::Malformed),
        };
        let algorithm = text("alg")?.and_then(Algorithm::parse).filter(|named| terms.algorithms.contains(named));
        let algorithm = algorithm.ok_or(ForeignFault::Algorithm)?;
        if !is_access_token(text("typ")?, terms.access_tokens_only) {
            return Err(ForeignFault::Kind);
        }
        let kid = text("kid")?;
        if kid.is_some_and(|kid| kid.len() > LONGEST_KID) {
            return Err(ForeignFault::UnknownKey);
        }
        Ok(Self {
            algorithm,
            kid: kid.map(str::to_owned),
            signing_input,
            signature: decoded(signature)?,
            claims: strict_json::object(&decoded(claims)?).ok_or(ForeignFault::Malformed)?,
        })
    }

    /// What the token says, if that is what the terms ask for. To be believed only once the signature was verified.
    ///
    /// # Errors
    /// `Issuer`, `Subject`, `Audience`, `Client`, `Bound`, `Expired`, `NotYet`, or `Malformed` for a claim of another shape.
    pub fn judged(&self, terms: &TrustTerms, now: UnixTime) -> Result<Foreign, ForeignFault> {
        let claims = &self.claims;
        if claims.get("iss").and_then(Value::as_str) != Some(&terms.issuer) {
            return Err(ForeignFault::Issuer);
        }
        let sub = claims.get("sub").and_then(Value::as_str).filter(|sub| is_writable(sub));
        let sub = sub.ok_or(ForeignFault::Subject)?;
        let audiences = audiences(claims.get("aud")).ok_or(ForeignFault::Audience)?;
        if !audiences.iter().any(|audience| terms.audiences.contains(audience)) {
            return Err(ForeignFault::Audience);
        }
        if let Some(listed) = &terms.clients {
            let client = claims.get("client_id").or_else(|| claims.get("azp")).and_then(Value::as_str);
            if !client.is_some_and(|client| listed.iter().any(|known| known == client)) {
                return Err(ForeignFault::Client);
            }
        }
        if claims.contains_key("cnf") {
            return Err(ForeignFault::Bound);
        }
        let exp = instant(claims, "exp")?.ok_or(ForeignFault::Expired)?.plus(terms.skew);
        if now >= exp {
            return Err(ForeignFault::Expired);
        }
        let latest = now.plus(terms.skew);
        for name in ["nbf", "iat", "auth_time"] {
            if instant(claims, name)?.is_some_and(|start| start > latest) {
                return Err(ForeignFault::NotYet);
            }
        }
        Ok(Foreign {
            issuer: terms.name.clone(),
            sub: sub.to_owned(),
            audiences,
            scopes: mapped(claims, terms.claims.scope.as_deref()).map(scopes).unwrap_or_default(),
            groups: mapped(claims, terms.claims.groups.as_deref())
                .map(|groups| prefixed(groups, &terms.claims.group_prefix))
                .unwrap_or_default(),
            email: email(claims, &terms.claims),
            acr: mapped(claims, terms.claims.acr.as_deref()).and_then(Value::as_str).map(str::to_owned),
            auth_time: instant(claims, "auth_time")?,
            ends_at: exp,
        })
    }
}

/// Who sent a token of another issuer, as far as that issuer is believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    pub issuer: String,
    /// What the issuer calls them: 1 to 255 visible ASCII characters.
    pub sub: String,
    pub audiences: Vec<String>,
    pub scopes: BTreeSet<String>,
    pub groups: BTreeSet<String>,
    pub email: Option<Email>,
    pub acr: Option<String>,
    pub auth_time: Option<UnixTime>,
    /// From when on the token is not taken any more: its `exp`, and what clocks may differ.
    pub ends_at: UnixTime,
}

impl Foreign {
    /// Their name here: `issuer:sub`. With its colon it is nobody's of ours, and no other issuer's.
    pub fn name(&self) -> String {
        format!("{}:{}", self.issuer, self.sub)
    }

    /// About how much memory this takes, bytes: what stands in a token in short may be long here.
    pub fn size(&self) -> usize {
        /// Of a text, beside its bytes: its place in a tree or a list, and what an allocation costs.
        const TEXT: usize = 64;
        let texts = self.audiences.iter().chain(&self.scopes).chain(&self.groups).chain([&self.issuer, &self.sub]);
        texts.chain(&self.acr).map(|text| text.len() + TEXT).sum::<usize>() + size_of::<Self>()
    }
}

/// Whether the header's `typ` is an access token's; media types have no case, and may come without `application/`.
fn is_access_token(typ: Option<&str>, access_tokens_only: bool) -> bool {
    let Some(typ) = typ else { return !access_tokens_only };
    let typ = typ.to_ascii_lowercase();
    let bare = typ.strip_prefix("application/").unwrap_or(&typ);
    bare == "at+jwt" || (!access_tokens_only && bare == "jwt")
}

fn is_writable(sub: &str) -> bool {
    !sub.is_empty() && sub.len() <= LONGEST_SUB && sub.bytes().all(|byte| byte.is_ascii_graphic())
}

/// One audience or a list of them (RFC 7519 §4.1.3); nothing else.
fn audiences(value: Option<&Value>) -> Option<Vec<String>> {
    match value? {
        Value::String(one) => Some(vec![one.clone()]),
        Value::Array(list) => list.iter().map(|one| one.as_str().map(str::to_owned)).collect(),
        _ => None,
    }
}

/// A `NumericDate` (RFC 7519 §2), which may have a fraction; `None` when it is absent.
fn instant(claims: &Map<String, Value>, name: &str) -> Result<Option<UnixTime>, ForeignFault> {
    /// Beyond it a float is no exact number of seconds.
    const LAST: f64 = 9_007_199_254_740_991.0;
    let Some(value) = claims.get(name) else { return Ok(None) };
    let whole = value.as_u64().or_else(|| {
        let seconds = value.as_f64().filter(|seconds| (0.0..=LAST).contains(seconds))?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range was looked at")]
        Some(seconds as u64)
    });
    whole.map(|seconds| Some(UnixTime::from_seconds(seconds))).ok_or(ForeignFault::Malformed)
}

fn mapped<'c>(claims: &'c Map<String, Value>, name: Option<&str>) -> Option<&'c Value> {
    let name = name?;
    let Some(path) = name.strip_prefix('/') else { return claims.get(name) };
    let mut steps = path.split('/').map(|step| step.replace("~1", "/").replace("~0", "~"));
    let first = claims.get(&steps.next()?)?;
    steps.try_fold(first, |value, step| value.as_object()?.get(&step))
}

fn scopes(value: &Value) -> BTreeSet<String> {
    let words = |text: &str| text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    match value {
        Value::String(text) => words(text).into_iter().collect(),
        Value::Array(list) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => BTreeSet::new(),
    }
}

fn prefixed(value: &Value, prefix: &str) -> BTreeSet<String> {
    let list = match value {
        Value::Array(list) => list.as_slice(),
        one => std::slice::from_ref(one),
    };
    let sound = |group: &&str| !group.is_empty() && !group.chars().any(char::is_control);
    list.iter().filter_map(Value::as_str).filter(sound).map(|group| format!("{prefix}{group}")).collect()
}

fn email(claims: &Map<String, Value>, names: &ClaimNames) -> Option<Email> {
    let email = Email::parse(mapped(claims, names.email.as_deref())?.as_str()?)?;
    let verified = claims.get("email_verified");
    // An issuer that says no is believed, whatever it vouches for otherwise.
    let counts = match verified {
        Some(said) => said == &Value::Bool(true),
        None => names.emails_are_verified,
    };
    counts.then_some(email)
}

#[cfg(test)]
mod tests;
