//! Messages of LDAP (RFC 4511): requests as bytes, and responses from bytes.

use sealgate_domain::search_filter::{AttributeName, SearchFilter};
use zeroize::Zeroizing;

use crate::ber::{
    BOOLEAN, ENUMERATED, INTEGER, Malformed, OCTETS, Reader, SEQUENCE, SET, integer, put, put_constructed, put_unsigned,
};
use crate::entry::LdapEntry;

/// Maximum length of a response message in bytes. An entry is one message.
pub(crate) const MAX_MESSAGE_BYTES: usize = 1024 * 1024;

/// OID of StartTLS (RFC 4511 §4.14.1).
const START_TLS: &str = "1.3.6.1.4.1.1466.20037";
/// OID of the control for paged results (RFC 2696).
const PAGED_RESULTS: &str = "1.2.840.113556.1.4.319";

/// Tags of operations and of the controls.
const BIND_REQUEST: u8 = 0x60;
const BIND_RESPONSE: u8 = 0x61;
const UNBIND_REQUEST: u8 = 0x42;
const SEARCH_REQUEST: u8 = 0x63;
const SEARCH_ENTRY: u8 = 0x64;
const SEARCH_DONE: u8 = 0x65;
const SEARCH_REFERENCE: u8 = 0x73;
const ABANDON_REQUEST: u8 = 0x50;
const EXTENDED_REQUEST: u8 = 0x77;
const EXTENDED_RESPONSE: u8 = 0x78;
const INTERMEDIATE_RESPONSE: u8 = 0x79;
const CONTROLS: u8 = 0xa0;
/// Tag of the referral in a result.
const REFERRAL: u8 = 0xa3;

/// Scope of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SearchScope {
    Base,
    Subtree,
}

/// Page of a paged search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageRequest {
    pub(crate) size: u32,
    /// Cookie of the previous page. Empty for the first page.
    pub(crate) cookie: Vec<u8>,
}

/// Search request.
#[derive(Debug, Clone)]
pub(crate) struct SearchRequest<'a> {
    pub(crate) base: &'a [u8],
    pub(crate) scope: SearchScope,
    pub(crate) filter: &'a SearchFilter,
    pub(crate) attributes: &'a [&'a str],
    /// Maximum number of entries. 0 if there is no limit.
    pub(crate) size_limit: u32,
    pub(crate) page: Option<PageRequest>,
}

/// Returns a simple bind request. The memory is zeroized on drop.
pub(crate) fn bind_request(id: i32, dn: &[u8], password: &[u8]) -> Zeroizing<Vec<u8>> {
    // The capacity suffices for the message, so no copy of the password stays in freed memory.
    let mut operation = Zeroizing::new(Vec::with_capacity(dn.len() + password.len() + 32));
    put_unsigned(&mut operation, INTEGER, 3);
    put(&mut operation, OCTETS, dn);
    put(&mut operation, 0x80, password);
    let mut content = Zeroizing::new(Vec::with_capacity(operation.len() + 32));
    put_unsigned(&mut content, INTEGER, id.unsigned_abs());
    put(&mut content, BIND_REQUEST, &operation);
    let mut message = Zeroizing::new(Vec::with_capacity(content.len() + 16));
    put(&mut message, SEQUENCE, &content);
    message
}

/// Returns a search request.
pub(crate) fn search_request(id: i32, search: &SearchRequest<'_>) -> Vec<u8> {
    message(id, |out| {
        put_constructed(out, SEARCH_REQUEST, |out| {
            put(out, OCTETS, search.base);
            let scope = match search.scope {
                SearchScope::Base => 0,
                SearchScope::Subtree => 2,
            };
            put_unsigned(out, ENUMERATED, scope);
            // Aliases are never dereferenced.
            put_unsigned(out, ENUMERATED, 0);
            put_unsigned(out, INTEGER, search.size_limit);
            put_unsigned(out, INTEGER, 0);
            put(out, BOOLEAN, &[0]);
            put_filter(out, search.filter);
            put_constructed(out, SEQUENCE, |out| {
                for attribute in search.attributes {
                    put(out, OCTETS, attribute.as_bytes());
                }
            });
        });
        if let Some(page) = &search.page {
            put_constructed(out, CONTROLS, |out| {
                put_constructed(out, SEQUENCE, |out| {
                    put(out, OCTETS, PAGED_RESULTS.as_bytes());
                    put_constructed(out, OCTETS, |out| {
                        put_constructed(out, SEQUENCE, |out| {
                            put_unsigned(out, INTEGER, page.size);
                            put(out, OCTETS, &page.cookie);
                        });
                    });
                });
            });
        }
    })
}

/// Returns a request for StartTLS.
pub(crate) fn start_tls_request(id: i32) -> Vec<u8> {
    message(id, |out| put_constructed(out, EXTENDED_REQUEST, |out| put(out, 0x80, START_TLS.as_bytes())))
}

/// Returns a request to abandon the operation of another message.
pub(crate) fn abandon_request(id: i32, abandoned: i32) -> Vec<u8> {
    message(id, |out| put_unsigned(out, ABANDON_REQUEST, abandoned.unsigned_abs()))
}

/// Returns the notice that ends a connection.
pub(crate) fn unbind_request(id: i32) -> Vec<u8> {
    message(id, |out| put(out, UNBIND_REQUEST, &[]))
}

fn message(id: i32, fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut message = Vec::new();
    put_constructed(&mut message, SEQUENCE, |out| {
        put_unsigned(out, INTEGER, id.unsigned_abs());
        fill(out);
    });
    message
}

/// Appends a filter. The depth of its tree is limited where filters are parsed.
fn put_filter(out: &mut Vec<u8>, filter: &SearchFilter) {
    let comparison = |out: &mut Vec<u8>, tag, attribute: &AttributeName, value: &[u8]| {
        put_constructed(out, tag, |out| {
            put(out, OCTETS, attribute.as_str().as_bytes());
            put(out, OCTETS, value);
        });
    };
    let all = |out: &mut Vec<u8>, tag, filters: &[SearchFilter]| {
        put_constructed(out, tag, |out| filters.iter().for_each(|filter| put_filter(out, filter)));
    };
    match filter {
        SearchFilter::And(filters) => all(out, 0xa0, filters),
        SearchFilter::Or(filters) => all(out, 0xa1, filters),
        SearchFilter::Not(filter) => put_constructed(out, 0xa2, |out| put_filter(out, filter)),
        SearchFilter::Equal(attribute, value) => comparison(out, 0xa3, attribute, value),
        SearchFilter::Substrings(attribute, parts) => put_constructed(out, 0xa4, |out| {
            put(out, OCTETS, attribute.as_str().as_bytes());
            put_constructed(out, SEQUENCE, |out| {
                let last = parts.len().saturating_sub(1);
                for (number, part) in parts.iter().enumerate().filter(|(_, part)| !part.is_empty()) {
                    let tag = match number {
                        0 => 0x80,
                        number if number == last => 0x82,
                        _ => 0x81,
                    };
                    put(out, tag, part);
                }
            });
        }),
        SearchFilter::AtLeast(attribute, value) => comparison(out, 0xa5, attribute, value),
        SearchFilter::AtMost(attribute, value) => comparison(out, 0xa6, attribute, value),
        SearchFilter::Present(attribute) => put(out, 0x87, attribute.as_str().as_bytes()),
        SearchFilter::Approximate(attribute, value) => comparison(out, 0xa8, attribute, value),
        SearchFilter::Extensible { attribute, with_dn, rule, value } => put_constructed(out, 0xa9, |out| {
            if let Some(rule) = rule {
                put(out, 0x81, rule.as_str().as_bytes());
            }
            if let Some(attribute) = attribute {
                put(out, 0x82, attribute.as_str().as_bytes());
            }
            put(out, 0x83, value);
            if *with_dn {
                put(out, 0x84, &[0xff]);
            }
        }),
    }
}

/// Response message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResponseMessage {
    /// Number of the request. 0 for a notice without a request.
    pub(crate) id: i32,
    pub(crate) operation: ResponseOperation,
}

/// Operation of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ResponseOperation {
    Entry(LdapEntry),
    /// URLs of other servers that have a part of the subtree.
    Reference(Vec<String>),
    Done(OperationResult),
    /// Part of an answer that this client ignores.
    Intermediate,
}

/// Result of an operation (RFC 4511 §4.1.9).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct OperationResult {
    pub(crate) code: i32,
    /// Text of the server for administrators.
    pub(crate) diagnostic: String,
    /// URLs of other servers, if the code is 10.
    pub(crate) referral: Vec<String>,
    /// Cookie of the page. Empty if there is no further page.
    pub(crate) cookie: Vec<u8>,
}

/// Returns the length of the first message in bytes. Returns `None` if more bytes are needed to
/// determine it.
pub(crate) fn message_length(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    if bytes.first().is_some_and(|tag| *tag != SEQUENCE) {
        return Err(Malformed);
    }
    let Some((header, content)) = crate::ber::header(bytes)? else { return Ok(None) };
    let length = header + content;
    if length > MAX_MESSAGE_BYTES { Err(Malformed) } else { Ok(Some(length)) }
}

/// Parses a response message.
pub(crate) fn response(bytes: &[u8]) -> Result<ResponseMessage, Malformed> {
    let mut content = Reader::new(Reader::new(bytes).expect(SEQUENCE)?);
    let id = integer(content.expect(INTEGER)?)?;
    let (tag, body) = content.next()?.ok_or(Malformed)?;
    let operation = match tag {
        SEARCH_ENTRY => ResponseOperation::Entry(entry(body)?),
        SEARCH_REFERENCE => ResponseOperation::Reference(texts(body)?),
        INTERMEDIATE_RESPONSE => ResponseOperation::Intermediate,
        BIND_RESPONSE | SEARCH_DONE | EXTENDED_RESPONSE => {
            let mut result = result(body)?;
            // Active Directory adds another element to its notice of disconnection.
            if let Some((CONTROLS, controls)) = content.next()? {
                result.cookie = cookie(controls)?;
            }
            ResponseOperation::Done(result)
        }
        _ => return Err(Malformed),
    };
    Ok(ResponseMessage { id, operation })
}

fn result(body: &[u8]) -> Result<OperationResult, Malformed> {
    let mut body = Reader::new(body);
    let code = integer(body.expect(ENUMERATED)?)?;
    body.expect(OCTETS)?;
    let diagnostic = text(body.expect(OCTETS)?);
    let referral = match body.next()? {
        Some((REFERRAL, referral)) => texts(referral)?,
        _ => Vec::new(),
    };
    Ok(OperationResult { code, diagnostic, referral, cookie: Vec::new() })
}

/// Returns the cookie of the control for paged results.
fn cookie(controls: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut controls = Reader::new(controls);
    while let Some((_, control)) = controls.next()? {
        let mut control = Reader::new(control);
        if control.expect(OCTETS)? != PAGED_RESULTS.as_bytes() {
            continue;
        }
        while let Some((tag, value)) = control.next()? {
            if tag == OCTETS {
                let mut value = Reader::new(Reader::new(value).expect(SEQUENCE)?);
                value.expect(INTEGER)?;
                return Ok(value.expect(OCTETS)?.to_vec());
            }
        }
    }
    Ok(Vec::new())
}

fn entry(body: &[u8]) -> Result<LdapEntry, Malformed> {
    let mut body = Reader::new(body);
    let dn = body.expect(OCTETS)?.to_vec();
    let mut attributes = Vec::new();
    let mut list = Reader::new(body.expect(SEQUENCE)?);
    while let Some((tag, attribute)) = list.next()? {
        if tag != SEQUENCE {
            return Err(Malformed);
        }
        let mut attribute = Reader::new(attribute);
        let name = text(attribute.expect(OCTETS)?);
        let mut set = Reader::new(attribute.expect(SET)?);
        let mut values = Vec::new();
        while let Some((tag, value)) = set.next()? {
            if tag != OCTETS {
                return Err(Malformed);
            }
            values.push(value.to_vec());
        }
        attributes.push((name, values));
    }
    Ok(LdapEntry { dn, attributes })
}

fn texts(body: &[u8]) -> Result<Vec<String>, Malformed> {
    let mut body = Reader::new(body);
    let mut texts = Vec::new();
    while let Some((_, content)) = body.next()? {
        texts.push(text(content));
    }
    Ok(texts)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    }

    #[test]
    fn requests_have_the_bytes_of_the_standard() {
        let bind = hex("30 0c 02 01 01 60 07 02 01 03 04 00 80 00");
        assert_eq!(*bind_request(1, b"", b""), bind);
        assert_eq!(unbind_request(3), hex("30 05 02 01 03 42 00"));
        assert_eq!(abandon_request(6, 5), hex("30 06 02 01 06 50 01 05"));
        let filter = SearchFilter::parse("(&(a=b)(!(c=*))(d=x*y*z))").unwrap();
        let search = SearchRequest {
            base: b"dc=x",
            scope: SearchScope::Subtree,
            filter: &filter,
            attributes: &["cn"],
            size_limit: 2,
            page: Some(PageRequest { size: 500, cookie: Vec::new() }),
        };
        let expected = "30 6d 02 01 02 63 3f 04 04 64633d78 0a 01 02 0a 01 00 02 01 02 02 01 00 01 01 00 \
            a0 22 a3 06 04 01 61 04 01 62 a2 03 87 01 63 a4 13 04 01 64 30 0e";
        let bytes = search_request(2, &search);
        // Up to the parts of the last filter.
        let prefix = hex(expected);
        assert_eq!(bytes.get(7..7 + 20), prefix.get(7..7 + 20));
        assert!(String::from_utf8_lossy(&bytes).contains(PAGED_RESULTS));
    }

    #[test]
    fn an_entry_and_a_result_are_parsed() {
        let bytes = hex("30 1b 02 01 02 64 16 04 04 64633d78 30 0e 30 0c 04 02 636e 31 06 04 01 61 04 01 ff");
        let entry =
            LdapEntry { dn: b"dc=x".to_vec(), attributes: vec![("cn".to_owned(), vec![b"a".to_vec(), vec![0xff]])] };
        assert_eq!(response(&bytes), Ok(ResponseMessage { id: 2, operation: ResponseOperation::Entry(entry) }));
        let bytes = hex("30 0f 02 01 01 61 0a 0a 01 31 04 00 04 03 62 61 64");
        let result = OperationResult { code: 49, diagnostic: "bad".to_owned(), ..OperationResult::default() };
        assert_eq!(response(&bytes), Ok(ResponseMessage { id: 1, operation: ResponseOperation::Done(result) }));
    }

    #[test]
    fn the_cookie_of_a_page_is_read() {
        let mut bytes = Vec::new();
        put_constructed(&mut bytes, SEQUENCE, |out| {
            put_unsigned(out, INTEGER, 4);
            put_constructed(out, SEARCH_DONE, |out| {
                put_unsigned(out, ENUMERATED, 0);
                put(out, OCTETS, b"");
                put(out, OCTETS, b"");
            });
            put_constructed(out, CONTROLS, |out| {
                put_constructed(out, SEQUENCE, |out| put(out, OCTETS, b"1.2.3"));
                put_constructed(out, SEQUENCE, |out| {
                    put(out, OCTETS, PAGED_RESULTS.as_bytes());
                    put(out, BOOLEAN, &[0]);
                    put_constructed(out, OCTETS, |out| {
                        put_constructed(out, SEQUENCE, |out| {
                            put_unsigned(out, INTEGER, 0);
                            put(out, OCTETS, b"next");
                        });
                    });
                });
            });
        });
        let ResponseOperation::Done(result) = response(&bytes).unwrap().operation else { panic!("not a result") };
        assert_eq!(result.cookie, b"next");
    }

    #[test]
    fn a_message_over_the_limit_is_refused_before_it_is_read() {
        assert_eq!(message_length(&[0x30]), Ok(None));
        assert_eq!(message_length(&[0x30, 0x05]), Ok(Some(7)));
        assert_eq!(message_length(&[0x30, 0x83, 0x10, 0, 0]), Err(Malformed));
        assert_eq!(message_length(&[0x16, 3, 3]), Err(Malformed));
    }

    proptest! {
        #[test]
        fn no_message_makes_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..64), at in any::<prop::sample::Index>()) {
            let _ = response(&bytes);
            let mut valid = hex("30 1b 02 01 02 64 16 04 04 64633d78 30 0e 30 0c 04 02 636e 31 06 04 01 61 04 01 ff");
            let at = at.index(valid.len());
            valid[at] = bytes.first().copied().unwrap_or_default();
            let _ = response(&valid);
        }
    }
}
