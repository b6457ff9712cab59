//! The program's pure modules, and helpers of the targets. No code here uses a network, a disk or a token.

pub use sealgate_domain as domain;
pub use sealgate_domain::{factors, oauth, webauthn};

// The gateway's interpretation of paths, from the program's own files.
#[path = "../../src/gateway/characters.rs"]
#[allow(dead_code, reason = "the gate's other files use the rest")]
mod characters;
#[path = "../../src/gateway/path.rs"]
#[allow(dead_code, reason = "the gate's other files use the rest")]
mod path;
#[path = "../../src/gateway/reading.rs"]
#[allow(dead_code, reason = "the gate's other files use the rest")]
mod reading;
#[path = "../../src/gateway/work.rs"]
#[allow(dead_code, reason = "the gate's other files use the rest")]
mod work;

// The LDAP client's messages. Their encoder and decoder name each other from the root of the crate.
#[path = "../../src/ldap/ber.rs"]
#[allow(dead_code, reason = "the client's other files use the rest")]
mod ber;
#[path = "../../src/ldap/entry.rs"]
#[allow(dead_code, reason = "the client's other files use the rest")]
mod entry;
#[path = "../../src/ldap/message.rs"]
#[allow(dead_code, reason = "the client's other files use the rest")]
mod message;

use domain::client::{AuthMethod, Client, ClientDetails, ClientId, ClientState, ClientType, ConsentRule, GrantType};
use domain::group_filter::GroupFilter;
use domain::redirect_uri::RedirectUri;
use domain::scope::Scope;
use domain::search_filter::{AttributeName, SearchFilter};
use domain::time::UnixTime;

/// The redirect URIs of [`client`]: one plain, one with a query, one that matches any port.
pub const REDIRECT_URIS: [&str; 3] = ["https://rp.test/cb", "https://rp.test/cb?a=b", "http://127.0.0.1/cb"];

/// A client with all permissions.
pub fn client(client_type: ClientType) -> Client {
    Client {
        id: ClientId::parse("c1").expect("a valid id"),
        name: "Client".into(),
        client_type,
        auth_method: if client_type == ClientType::Public { AuthMethod::None } else { AuthMethod::ClientSecretBasic },
        secrets: Vec::new(),
        assertion_source: None,
        redirect_uris: REDIRECT_URIS.iter().map(|uri| RedirectUri::parse(uri).expect("a valid URI")).collect(),
        post_logout_redirect_uris: Vec::new(),
        scope: Scope::all(),
        grant_types: vec![GrantType::AuthorizationCode, GrantType::RefreshToken],
        consent: ConsentRule::Ask,
        state: ClientState::Enabled,
        created_at: UnixTime::from_seconds(0),
        details: ClientDetails::default(),
        owner: None,
        registration: None,
        refresh_retry_seconds: None,
        token_limit: None,
        level: None,
        service: None,
        backchannel_logout: None,
        logo: None,
        introspection: None,
        visible_groups: GroupFilter::default(),
        approval: None,
        disabled: None,
        from_configuration: false,
        incarnation: 0,
    }
}

/// Splits an input into two texts at its first line break.
pub fn two(text: &str) -> (&str, &str) {
    text.split_once('\n').unwrap_or((text, ""))
}

/// Returns the path of a request as the gateway interprets it, or `None` if it is ambiguous.
pub fn canonical(raw: &str) -> Option<Vec<u8>> {
    let path = path::CanonicalPath::parse(raw).ok()?;
    // No other interpretation may panic, for any path.
    let _ = path.interpretations().map(Iterator::count);
    let path = path.as_bytes().to_vec();
    let _ = reading::has_short_name(&path);
    Some(path)
}

/// Returns every interpretation of a path in which `;`, `%2F` and `%5C` are data, or `None` if it is
/// ambiguous or contains none of them.
pub fn readings(raw: &str) -> Option<Vec<Vec<u8>>> {
    let path = path::CanonicalPath::parse_with(raw, characters::Characters::ALL).ok()?;
    if !path.characters().is_any() {
        return None;
    }
    Some(path.interpretations().ok()?.map(|(text, _)| text.to_vec()).collect())
}

/// Reads bytes as a message of a directory. Everything in an accepted message comes from its bytes, and
/// an entry that is written again is read as the same entry.
pub fn check_response(bytes: &[u8]) {
    let length = message::message_length(bytes);
    if let Ok(Some(length)) = length {
        assert!((2..=message::MAX_MESSAGE_BYTES).contains(&length));
        // More bytes do not change the length.
        assert_eq!(message::message_length(&[bytes, &[0x30]].concat()), Ok(Some(length)));
    }
    let Ok(read) = message::response(bytes) else { return };
    assert!(length.is_err() || matches!(length, Ok(Some(length)) if length <= bytes.len()));
    let message::ResponseOperation::Entry(entry) = read.operation else { return };
    let values: usize = entry.attributes.iter().flat_map(|(_, values)| values).map(Vec::len).sum();
    assert!(entry.dn.len() + values <= bytes.len());
    let _ = (entry.name(), entry.is_partial("member"), entry.number("userAccountControl"));
    let written = written(read.id, &entry);
    let again = message::response(&written).expect("a written entry is valid");
    assert_eq!(again.operation, message::ResponseOperation::Entry(entry));
}

/// Writes the message of an entry as a server does.
fn written(id: i32, entry: &entry::LdapEntry) -> Vec<u8> {
    let mut out = Vec::new();
    ber::put_constructed(&mut out, ber::SEQUENCE, |out| {
        ber::put_unsigned(out, ber::INTEGER, id.unsigned_abs() & 0x7fff_ffff);
        ber::put_constructed(out, 0x64, |out| {
            ber::put(out, ber::OCTETS, &entry.dn);
            ber::put_constructed(out, ber::SEQUENCE, |out| {
                for (name, values) in &entry.attributes {
                    ber::put_constructed(out, ber::SEQUENCE, |out| {
                        ber::put(out, ber::OCTETS, name.as_bytes());
                        ber::put_constructed(out, ber::SET, |out| {
                            values.iter().for_each(|value| ber::put(out, ber::OCTETS, value));
                        });
                    });
                }
            });
        });
    });
    out
}

/// Searches with a filter of the configuration and a typed value. The value cannot change the structure
/// of the request: it is read back as one element with exactly its bytes.
pub fn check_search(filter: &str, typed: &[u8]) {
    let Ok(filter) = SearchFilter::parse(filter) else { return };
    let name = AttributeName::parse("uid").expect("a valid name");
    let both = SearchFilter::And(vec![filter, SearchFilter::Equal(name, typed.to_vec())]);
    let search = message::SearchRequest {
        base: b"dc=x",
        scope: message::SearchScope::Subtree,
        filter: &both,
        attributes: &["cn"],
        size_limit: 2,
        page: None,
    };
    let bytes = message::search_request(7, &search);
    let mut message = ber::Reader::new(ber::Reader::new(&bytes).expect(ber::SEQUENCE).expect("a message"));
    assert_eq!(message.expect(ber::INTEGER), Ok(&[7][..]));
    let mut search = ber::Reader::new(message.expect(0x63).expect("a search"));
    assert_eq!(message.next(), Ok(None));
    for tag in [ber::OCTETS, ber::ENUMERATED, ber::ENUMERATED, ber::INTEGER, ber::INTEGER, ber::BOOLEAN] {
        search.expect(tag).expect("a field before the filter");
    }
    let mut filter = ber::Reader::new(search.expect(0xa0).expect("the filter"));
    let mut attributes = ber::Reader::new(search.expect(ber::SEQUENCE).expect("the attributes"));
    assert_eq!((attributes.next(), search.next()), (Ok(Some((ber::OCTETS, &b"cn"[..]))), Ok(None)));
    filter.next().expect("valid").expect("the filter of the configuration");
    let mut comparison = ber::Reader::new(filter.expect(0xa3).expect("the comparison with the typed value"));
    assert_eq!(filter.next(), Ok(None));
    assert_eq!((comparison.expect(ber::OCTETS), comparison.expect(ber::OCTETS)), (Ok(&b"uid"[..]), Ok(typed)));
    assert_eq!(comparison.next(), Ok(None));
}
