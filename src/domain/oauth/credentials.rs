//! Client authentication at the token and revocation endpoints (RFC 6749 §2.3), and
//! bearer credentials (RFC 6750 §2.1).

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::GeneralPurposeConfig;

use crate::client::ClientId;
use crate::error::{ErrorCode, Refusal};
use crate::oauth::client_assertion;
use crate::oauth::client_assertion::ASSERTION_TYPE;
use crate::oauth::params::Params;
use crate::secret::Secret;

/// Base64 engine with optional padding, because clients send both forms.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Presented client credentials, not verified.
#[derive(Debug, Clone)]
pub struct ClientCredentials {
    /// The claimed id. `None` if the text is not a valid client id.
    pub id: Option<ClientId>,
    pub proof: ClientProof,
}

/// Presented proof of a client's identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientProof {
    /// Only the id was sent.
    None,
    Secret(Secret),
    /// Signed assertion (RFC 7523 §2.2).
    Assertion(Secret),
}

impl From<Option<Secret>> for ClientProof {
    fn from(secret: Option<Secret>) -> Self {
        secret.map_or(Self::None, Self::Secret)
    }
}

/// Refusal for all failed client authentications.
///
/// The response is the same for all reasons, so that it does not reveal which clients exist.
pub const FAILED: Refusal = Refusal::new(ErrorCode::InvalidClient, "Client authentication failed.");

/// Refusal of a request with several methods, even if each is correct (RFC 6749 §2.3).
const SEVERAL_METHODS: Refusal =
    Refusal::new(ErrorCode::InvalidRequest, "The client uses more than one authentication method.");

impl ClientCredentials {
    /// Parses the credentials of a request.
    ///
    /// # Errors
    /// `invalid_request` if the request mixes two methods or has two different ids.
    /// `invalid_client` if the request has no usable credentials.
    pub fn parse(authorization: &[&[u8]], form: &Params) -> Result<Self, Refusal> {
        let form_id = form.one("client_id")?;
        let form_secret = form.one("client_secret")?;
        let assertion = (form.one("client_assertion_type")?, form.one("client_assertion")?);
        if assertion != (None, None) {
            if !authorization.is_empty() || form_secret.is_some() {
                return Err(SEVERAL_METHODS);
            }
            let (Some(ASSERTION_TYPE), Some(assertion)) = assertion else { return Err(FAILED) };
            // The client id is optional (RFC 7521 §4.2). Tokens of workloads do not contain it.
            let id = form_id.map_or_else(|| client_assertion::claimed_client(assertion), ClientId::parse);
            return Ok(Self { id, proof: ClientProof::Assertion(Secret::new(assertion)) });
        }
        let header = match authorization {
            [] => None,
            [only] => Some(*only),
            _ => return Err(Refusal::invalid_request("There is more than one Authorization header.")),
        };
        let Some(header) = header else {
            let id = form_id.ok_or(FAILED)?;
            return Ok(Self { id: ClientId::parse(id), proof: form_secret.map(Secret::new).into() });
        };
        let (id, secret) = basic(header).ok_or(FAILED)?;
        if form_secret.is_some() {
            return Err(SEVERAL_METHODS);
        }
        if form_id.is_some_and(|other| other != id) {
            return Err(Refusal::invalid_request("The client_id differs from the one in the Authorization header."));
        }
        // Some libraries send `Basic cDE6` for a public client: an id with an empty password.
        let secret = Some(secret).filter(|secret| !secret.expose().is_empty());
        Ok(Self { id: ClientId::parse(&id), proof: secret.into() })
    }
}

/// Parses the id and the secret of a Basic header. Both are form-encoded, joined with a colon, and
/// base64-encoded together (RFC 6749 §2.3.1).
fn basic(header: &[u8]) -> Option<(String, Secret)> {
    let encoded = after_scheme(header, "basic")?;
    let decoded = zeroize::Zeroizing::new(LENIENT.decode(encoded).ok()?);
    let at = decoded.iter().position(|byte| *byte == b':')?;
    let id = form_decode(&decoded[..at])?;
    let secret = form_decode(&decoded[at + 1..])?;
    Some((id, Secret::new(secret)))
}

/// Username and password as user agents send them (RFC 7617 §2.1): UTF-8 without form encoding.
#[derive(Debug, Clone)]
pub struct NamedPassword {
    pub name: String,
    pub password: Secret,
}

/// Maximum length of a Basic header with a user's name and password, in bytes. An address has at
/// most 254 bytes and an application password 27.
const MAX_NAMED_PASSWORD_LENGTH: usize = 2048;

/// Parses name and password of a `Basic` header. Returns `None` for any other header.
pub fn named_password(header: &[u8]) -> Option<NamedPassword> {
    let encoded = after_scheme(header, "basic").filter(|encoded| encoded.len() <= MAX_NAMED_PASSWORD_LENGTH)?;
    let decoded = zeroize::Zeroizing::new(LENIENT.decode(encoded).ok()?);
    unencoded_password(&decoded)
}

/// Parses `NAME:PASSWORD`.
pub fn unencoded_password(text: &[u8]) -> Option<NamedPassword> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() <= MAX_NAMED_PASSWORD_LENGTH)?;
    let (name, password) = text.split_once(':')?;
    Some(NamedPassword { name: name.to_owned(), password: Secret::new(password) })
}

/// Returns whether a header has the `Basic` scheme, in any letter case. The credentials may be
/// invalid or missing.
pub fn is_basic(header: &[u8]) -> bool {
    const SCHEME: &[u8] = b"basic";
    let header = header.trim_ascii_start();
    let Some((scheme, rest)) = header.split_at_checked(SCHEME.len()) else { return false };
    scheme.eq_ignore_ascii_case(SCHEME) && !rest.first().is_some_and(u8::is_ascii_alphanumeric)
}

fn form_decode(raw: &[u8]) -> Option<String> {
    let spaced: Vec<u8> = raw.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    Some(percent_encoding::percent_decode(&spaced).decode_utf8().ok()?.into_owned())
}

/// Returns whether a header has the `Bearer` scheme. The header may be malformed.
pub fn is_bearer(header: &[u8]) -> bool {
    header.split(|byte| *byte == b' ').next().is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer"))
}

/// Parses the token of a `Bearer` header. Returns `None` for another scheme, or if the rest is not
/// exactly one `b64token`.
pub fn bearer(header: &[u8]) -> Option<&str> {
    let token = after_scheme(header, "bearer")?;
    // Branch-free, because a token has about a kilobyte and is sent with each request.
    // In ASCII, `-`, `.` and `/` come directly before the digits.
    let is_valid =
        |byte: u8| matches!(byte, b'-'..=b'9') | byte.is_ascii_alphabetic() | matches!(byte, b'_' | b'~' | b'+' | b'=');
    let all_sound = token.iter().fold(true, |sound_yet, byte| sound_yet & is_valid(*byte));
    (!token.is_empty() && all_sound).then_some(token).and_then(|token| std::str::from_utf8(token).ok())
}

/// Returns the credentials after an authentication scheme and spaces. Schemes are case-insensitive
/// (RFC 9110 §11.1).
fn after_scheme<'a>(header: &'a [u8], scheme: &str) -> Option<&'a [u8]> {
    let (name, rest) = header.split_at_checked(scheme.len())?;
    if !name.eq_ignore_ascii_case(scheme.as_bytes()) || rest.first() != Some(&b' ') {
        return None;
    }
    Some(rest.trim_ascii())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn form(text: &str) -> Params {
        Params::parse(text.as_bytes()).unwrap()
    }

    fn header(id: &str, secret: &str) -> Vec<u8> {
        format!("Basic {}", LENIENT.encode(format!("{id}:{secret}"))).into_bytes()
    }

    #[test]
    fn both_ways_to_send_a_secret_are_read() {
        let basic = ClientCredentials::parse(&[&header("c1", "s%2Bx+y")], &form("client_id=c1")).unwrap();
        assert_eq!(basic.proof, ClientProof::Secret(Secret::new("s+x y")));
        let post = ClientCredentials::parse(&[], &form("client_id=c1&client_secret=s")).unwrap();
        assert_eq!(post.proof, ClientProof::Secret(Secret::new("s")));
    }

    #[test]
    fn an_assertion_excludes_other_credentials() {
        let kind = "client_assertion_type=urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
        let alone = ClientCredentials::parse(&[], &form(&format!("{kind}&client_assertion=x&client_id=c1"))).unwrap();
        assert_eq!((alone.id, alone.proof), (ClientId::parse("c1"), ClientProof::Assertion(Secret::new("x"))));
        for (text, code) in [
            (format!("{kind}&client_assertion=x&client_secret=s"), ErrorCode::InvalidRequest),
            (format!("{kind}&client_secret=s"), ErrorCode::InvalidRequest),
            (format!("{kind}&{kind}&client_assertion=x"), ErrorCode::InvalidRequest),
            (kind.to_owned(), ErrorCode::InvalidClient),
            ("client_assertion=x".to_owned(), ErrorCode::InvalidClient),
            ("client_assertion=x&client_assertion_type=saml2-bearer".to_owned(), ErrorCode::InvalidClient),
        ] {
            assert_eq!(ClientCredentials::parse(&[], &form(&text)).unwrap_err().code, code, "{text}");
        }
        let both = ClientCredentials::parse(&[&header("c1", "s")], &form(&format!("{kind}&client_assertion=x")));
        assert_eq!(both.unwrap_err().code, ErrorCode::InvalidRequest);
    }

    #[test]
    fn the_scheme_is_case_insensitive_with_any_number_of_spaces() {
        let raw = header("c1", "s");
        let spaced = [b"basic  ", &raw[6..]].concat();
        assert!(ClientCredentials::parse(&[&spaced], &form("")).is_ok());
    }

    #[test]
    fn mixed_methods_are_refused() {
        let refused = ClientCredentials::parse(&[&header("c1", "s")], &form("client_secret=s")).unwrap_err();
        assert_eq!(refused.code, ErrorCode::InvalidRequest);
        let refused = ClientCredentials::parse(&[&header("c1", "s")], &form("client_id=c2")).unwrap_err();
        assert_eq!(refused.code, ErrorCode::InvalidRequest);
    }

    #[test]
    fn broken_headers_fail_authentication() {
        for raw in ["Basic", "Basic ", "Basic !!!", "Basic YWJj", "Bearer x", "", "Basic\u{a0}eDp5"] {
            let refused = ClientCredentials::parse(&[raw.as_bytes()], &form("")).unwrap_err();
            assert_eq!(refused.code, ErrorCode::InvalidClient, "{raw}");
        }
    }

    #[test]
    fn a_bearer_header_has_exactly_one_token() {
        assert_eq!(bearer(b"bEARER abc"), Some("abc"));
        for wrong in [b"Bearer".as_slice(), b"Bearer ", b"Bearer a b", b"Basic x", b"Bearerabc", b"Bearer \xff"] {
            assert_eq!(bearer(wrong), None);
        }
        assert!(is_bearer(b"bEARER") && is_bearer(b"Bearer a b"));
        assert!(!is_bearer(b"") && !is_bearer(b"Bearerabc") && !is_bearer(b"Basic x"));
    }

    proptest! {
        #[test]
        fn no_header_causes_a_panic(raw in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = ClientCredentials::parse(&[&raw], &Params::default());
            let _ = bearer(&raw);
        }
    }
}
