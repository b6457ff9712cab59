//! Checks of the raw head of an HTTP/1 request, before Pingora parses it. Does no I/O.
//!
//! Finds the end of the head, and refuses heads that two parsers may read differently (RFC 9112
//! §11). Pingora's parser is lenient: it escapes spaces in the target, accepts bare line feeds as
//! line ends, and drops a `Content-Length` next to a `Transfer-Encoding`.

use std::sync::LazyLock;

use http::uri::Authority;
use memchr::memmem::Finder;

/// Result of the search for the end of a head.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HeadSearch {
    /// The head is incomplete.
    Partial,
    /// The head is complete. Its length in bytes includes the empty line.
    Complete(usize),
}

/// Maximum number of fields. Heads that exceed this limit or one of the two following limits are
/// refused here, because Pingora's parser would reject them without a response and without a log
/// line.
///
/// The test `accepted_heads_pass_the_parser` compares these checks with the parser.
const MAX_FIELDS: usize = 256;
const MAX_TARGET_LENGTH: usize = u16::MAX as usize - 1;
const MAX_NAME_LENGTH: usize = u16::MAX as usize - 1;

/// Finds the end of a head.
///
/// `seen` is the number of bytes that an earlier call has already searched.
pub(crate) fn find_end(bytes: &[u8], seen: usize) -> HeadSearch {
    const END: &[u8] = b"\r\n\r\n";
    static FINDER: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(END));
    let from = seen.saturating_sub(END.len() - 1);
    let tail = bytes.get(from..).unwrap_or_default();
    // Two bare line feeds do not end the head. [`check`] refuses them later. Until then, the size
    // limit and the deadline of the caller apply.
    match FINDER.find(tail) {
        Some(at) => HeadSearch::Complete(from + at + END.len()),
        None => HeadSearch::Partial,
    }
}

/// Framing of the body after a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyFraming {
    /// A `Content-Length`, or no body.
    Length,
    Chunked,
}

/// Reason for refusing a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadFault {
    /// The request line is not `METHOD SP target SP HTTP/1.x`, or the target contains bytes that
    /// must be percent-encoded.
    RequestLine,
    /// A line does not end in CR LF, or it contains another CR, another LF, or a NUL.
    LineEnd,
    /// A field line has no valid name, continues the previous line, or has a control character.
    /// Also used if there are too many fields.
    Field,
    /// `Content-Length` and `Transfer-Encoding` are both present, or one of them is repeated, or
    /// one of them has an invalid value.
    Framing,
    /// `Host` is repeated, or differs from the host of the target (RFC 9112 §3.2).
    Host,
    /// The method is CONNECT or TRACE. CONNECT would open a tunnel. TRACE would reveal the fields
    /// that an upstream receives.
    Method,
    /// A chunk of the body is malformed.
    Chunk,
}

impl HeadFault {
    /// Returns the reason as a word for the log and as a sentence for the client.
    pub(crate) const fn reason(self) -> (&'static str, &'static str) {
        match self {
            Self::RequestLine => {
                ("request_line", "The request line is malformed, or the target has bytes that must be percent-encoded.")
            }
            Self::LineEnd => (
                "line_end",
                "A line of the request's header section does not end in CR LF, or contains CR, \
                    LF or NUL.",
            ),
            Self::Field => {
                ("field", "A header field has an invalid name or a control character, or there are too many fields.")
            }
            Self::Framing => (
                "framing",
                "The body's length is ambiguous: send either one Content-Length or, over HTTP/1.1, \
                 Transfer-Encoding: chunked.",
            ),
            Self::Host => ("host", "The request must have exactly one Host, equal to the host in the request target."),
            Self::Method => ("method", "This method is not supported."),
            Self::Chunk => ("chunk", "A chunk of the request's body is malformed."),
        }
    }
}

/// Checks a complete head, whose end [`find_end`] has found.
///
/// # Errors
/// The first reason to refuse the head.
pub fn check(head: &[u8]) -> Result<(), HeadFault> {
    inspect(head).map(drop)
}

/// Checks a complete head like [`check`] and returns the framing of its body.
pub(crate) fn inspect(head: &[u8]) -> Result<BodyFraming, HeadFault> {
    let lines = head.strip_suffix(b"\r\n").ok_or(HeadFault::LineEnd)?;
    let clean = is_clean(lines);
    let mut rest = 0;
    let mut lines = memchr::memchr_iter(b'\n', lines).map(|end| {
        let line = lines.get(rest..=end).unwrap_or_default();
        rest = end + 1;
        strip_line_end(line, clean)
    });
    let request =
        lines.next().and_then(Result::ok).filter(|line| is_request_line(line)).ok_or(HeadFault::RequestLine)?;
    if request.starts_with(b"CONNECT ") || request.starts_with(b"TRACE ") {
        return Err(HeadFault::Method);
    }
    let (mut framings, mut host, mut count) = (0, None, 0);
    let mut framing = BodyFraming::Length;
    for line in lines {
        let line = line?;
        count += 1;
        let (name, value) =
            memchr::memchr(b':', line).and_then(|colon| line.split_at_checked(colon)).ok_or(HeadFault::Field)?;
        // White space is not part of a token. So the check also refuses white space before the
        // colon, and a line that continues the previous line.
        if name.is_empty() || name.len() > MAX_NAME_LENGTH || !is_token(name) {
            return Err(HeadFault::Field);
        }
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if count > MAX_FIELDS || (!clean && any_byte(value, |byte| (byte < b' ' && byte != b'\t') || byte == 0x7f)) {
            return Err(HeadFault::Field);
        }
        if name.eq_ignore_ascii_case(b"content-length") {
            let length = (1..=18).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
            framings += if length { 1 } else { 2 };
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            // HTTP/1.0 has no `Transfer-Encoding` (RFC 9112 §6.1).
            let chunked = value.eq_ignore_ascii_case(b"chunked") && request.ends_with(b"HTTP/1.1");
            framings += if chunked { 1 } else { 2 };
            framing = BodyFraming::Chunked;
        } else if name.eq_ignore_ascii_case(b"host") && host.replace(value).is_some() {
            return Err(HeadFault::Host);
        }
    }
    if framings > 1 {
        return Err(HeadFault::Framing);
    }
    if host.is_some_and(|host| host.contains(&b'@')) {
        return Err(HeadFault::Host);
    }
    match (authority(request), host) {
        (Some(named), host) if host.is_some_and(|host| host != named) || !is_authority(named) => Err(HeadFault::Host),
        _ => Ok(framing),
    }
}

/// Returns the head with the non-ASCII bytes of its query percent-encoded (RFC 3986 §2.1). Returns
/// `None` if the query is UTF-8 or missing.
///
/// Old clients send queries that are not UTF-8. The encoded query decodes to the same bytes. The
/// path stays unchanged, because access decisions depend on its interpretation.
pub(crate) fn encode_query(head: &[u8]) -> Option<Vec<u8>> {
    let line = head.get(..memchr::memchr(b'\r', head)?)?;
    let start = memchr::memchr(b'?', line)?;
    let end = start + memchr::memchr(b' ', line.get(start..)?)?;
    let query = line.get(start..end)?;
    if str::from_utf8(query).is_ok() {
        return None;
    }
    let mut encoded = head.get(..start)?.to_vec();
    for byte in query {
        if byte.is_ascii() {
            encoded.push(*byte);
        } else {
            encoded.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
    encoded.extend_from_slice(head.get(end..)?);
    Some(encoded)
}

/// Returns the host and port in the request line, if its target is in absolute form.
fn authority(request: &[u8]) -> Option<&[u8]> {
    let target = request.split(|byte| *byte == b' ').nth(1)?;
    without_scheme(target)?.split(|byte| matches!(byte, b'/' | b'?')).next()
}

/// Returns the part of a target in absolute form that follows `http://` or `https://`.
fn without_scheme(target: &[u8]) -> Option<&[u8]> {
    let after = |scheme: &[u8]| {
        let (start, rest) = target.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    };
    if target.first() == Some(&b'/') { None } else { after(b"http://").or_else(|| after(b"https://")) }
}

fn is_authority(named: &[u8]) -> bool {
    !named.contains(&b'@') && !named.contains(&b'\\') && Authority::try_from(named).is_ok()
}

/// Removes the CR LF at the end of a line. `clean` is true if the head is known to contain no other
/// CR and no NUL.
fn strip_line_end(line: &[u8], clean: bool) -> Result<&[u8], HeadFault> {
    let line = line.strip_suffix(b"\r\n").ok_or(HeadFault::LineEnd)?;
    if !clean && any_byte(line, |byte| byte == b'\r' || byte == 0) { Err(HeadFault::LineEnd) } else { Ok(line) }
}

/// Returns whether the head has as many CRs as LFs and no other control characters except tabs.
///
/// Nearly every head passes this fast check. For other heads, slower checks find the error.
fn is_clean(lines: &[u8]) -> bool {
    let is_other = |byte: u8| (byte < b' ' && !matches!(byte, b'\t' | b'\r' | b'\n')) || byte == 0x7f;
    let count = |wanted| memchr::memchr_iter(wanted, lines).count();
    !any_byte(lines, is_other) && count(b'\r') == count(b'\n')
}

/// Returns whether any byte satisfies the predicate.
///
/// Reads all bytes without a branch, so that the compiler can vectorize the loop. Each request has
/// about a kilobyte to check.
fn any_byte(bytes: &[u8], predicate: impl Fn(u8) -> bool) -> bool {
    bytes.iter().fold(false, |found, byte| found | predicate(*byte))
}

fn is_request_line(line: &[u8]) -> bool {
    let mut words = line.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return false;
    };
    let has_target = match target {
        b"*" => method == b"OPTIONS",
        // The target of CONNECT has another form (RFC 9112 §3.2.3). `inspect` refuses CONNECT with
        // [`HeadFault::Method`].
        _ => method == b"CONNECT" || is_target(target),
    };
    !method.is_empty() && is_token(method) && has_target && matches!(version, b"HTTP/1.1" | b"HTTP/1.0")
}

/// Returns whether a request target is acceptable: a path, an absolute URL or `*` (RFC 9112 §3.2).
///
/// The next server could read other forms, such as `http:x` and `host:80/x`, as different paths.
/// The target must be UTF-8, without control characters and spaces. A fragment is refused, because
/// some parsers cut it off and others read it as part of the path. Other bytes that a URI must not
/// contain (RFC 3986 §2) are refused if Pingora's parser refuses them.
pub(crate) fn is_target(target: &[u8]) -> bool {
    let unclean = |byte| byte <= b' ' || matches!(byte, 0x7f | b'#' | b'<' | b'>');
    let has_form = target.first() == Some(&b'/') || target == b"*" || without_scheme(target).is_some();
    if !has_form || target.len() > MAX_TARGET_LENGTH || any_byte(target, unclean) {
        return false;
    }
    let (path, query) = target.split_at(memchr::memchr(b'?', target).unwrap_or(target.len()));
    memchr::memchr(b'`', path).is_none() && memchr::memchr(b'"', query).is_none() && str::from_utf8(target).is_ok()
}

/// Returns whether all bytes are token characters (RFC 9110 §5.6.2).
fn is_token(bytes: &[u8]) -> bool {
    /// Whether each byte is a token character.
    const TOKEN: [bool; 256] = {
        let mut token = [false; 256];
        let mut byte = 0;
        while byte < 128 {
            #[expect(clippy::cast_possible_truncation, reason = "below 128")]
            let char = byte as u8;
            token[byte] = char.is_ascii_alphanumeric()
                || matches!(
                    char,
                    b'!' | b'#'
                        | b'$'
                        | b'%'
                        | b'&'
                        | b'\''
                        | b'*'
                        | b'+'
                        | b'-'
                        | b'.'
                        | b'^'
                        | b'_'
                        | b'`'
                        | b'|'
                        | b'~'
                );
            byte += 1;
        }
        token
    };
    bytes.iter().all(|byte| TOKEN[usize::from(*byte)])
}

#[cfg(test)]
mod tests {
    use pingora::protocols::http::ServerSession;
    use proptest::prelude::*;

    use super::*;

    fn checked(head: &str) -> Result<(), HeadFault> {
        assert_eq!(find_end(head.as_bytes(), 0), HeadSearch::Complete(head.len()));
        check(head.as_bytes())
    }

    #[test]
    fn ordinary_heads_pass() {
        for head in [
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.0\r\nHost: a\r\n\r\n",
            "POST /a?b=c%20d HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nX-Empty:\r\n\r\n",
            "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /ş HTTP/1.1\r\nHost: a\r\nX-Name: İ:ı\r\n\r\n",
        ] {
            assert_eq!(checked(head), Ok(()), "{head:?}");
        }
    }

    #[test]
    fn ambiguous_framing_is_refused() {
        for fields in [
            "Content-Length: 3\r\nTransfer-Encoding: chunked",
            "Content-Length: 3\r\nContent-Length: 3",
            "Transfer-Encoding: chunked\r\ntransfer-encoding: identity",
            "Transfer-Encoding: xchunked",
            "Transfer-Encoding: chunked, identity",
            "Transfer-Encoding: \"chunked\"",
            "Transfer-Encoding:",
            "Content-Length: +4",
            "Content-Length: -1",
            "Content-Length: 0x4",
            "Content-Length: 4, 4",
            "Content-Length: 4 4",
            "Content-Length:",
            "Content-Length: 99999999999999999999",
        ] {
            assert_eq!(checked(&format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n")), Err(HeadFault::Framing));
        }
    }

    #[test]
    fn http_1_0_has_no_chunks() {
        assert_eq!(checked("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), Err(HeadFault::Framing));
        assert_eq!(checked("POST / HTTP/1.1\r\nTransfer-Encoding:\tChunked \r\n\r\n"), Ok(()));
    }

    #[test]
    fn repeated_or_contradicting_hosts_are_refused() {
        assert_eq!(checked("GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n"), Err(HeadFault::Host));
        assert_eq!(checked("GET http://b/x HTTP/1.1\r\nHost: a\r\n\r\n"), Err(HeadFault::Host));
        assert_eq!(checked("GET http://a:1?x HTTP/1.1\r\nHost: a:1\r\n\r\n"), Ok(()));
        assert_eq!(checked("GET http://A:1?x HTTP/1.1\r\nHost: a:1\r\n\r\n"), Err(HeadFault::Host));
        assert_eq!(checked("GET /go?to=http://b/ HTTP/1.1\r\nHost: a\r\n\r\n"), Ok(()));
    }

    #[test]
    fn connect_is_refused() {
        assert_eq!(checked("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n"), Err(HeadFault::Method));
    }

    #[test]
    fn too_many_fields_are_refused() {
        let head = |count: usize| format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(count));
        assert_eq!(checked(&head(256)), Ok(()));
        assert_eq!(checked(&head(257)), Err(HeadFault::Field));
    }

    #[test]
    fn bad_request_lines_are_refused() {
        for line in [
            "GET /a b HTTP/1.1",
            "GET  / HTTP/1.1",
            " GET / HTTP/1.1",
            "GET / HTTP/1.1 ",
            "GET /",
            "GET /\x01 HTTP/1.1",
            "GET /a#b HTTP/1.1",
            "GET /\x7f HTTP/1.1",
            "GET\t/\tHTTP/1.1",
            "PRI * HTTP/2.0",
            "G(T / HTTP/1.1",
            "GET http:/a HTTP/1.1",
            "GET http:a/b HTTP/1.1",
            "GET a:80/b HTTP/1.1",
            "GET a/b HTTP/1.1",
            "GET ?b HTTP/1.1",
            "GET ftp://a/b HTTP/1.1",
            "GET *a HTTP/1.1",
        ] {
            assert_eq!(checked(&format!("{line}\r\nHost: a\r\n\r\n")), Err(HeadFault::RequestLine), "{line:?}");
        }
        let mut latin = b"GET /\xe7 HTTP/1.1\r\n\r\n".to_vec();
        assert_eq!(encode_query(&latin), None);
        assert_eq!(check(&latin), Err(HeadFault::RequestLine));
        latin.truncate(4);
        assert_eq!(find_end(&latin, 0), HeadSearch::Partial);
    }

    #[test]
    fn bad_fields_are_refused() {
        for field in
            ["Transfer-Encoding : chunked", " folded: 1", "\tfolded", "nocolon", ": noname", "a b: c", "a: b\x01"]
        {
            assert_eq!(checked(&format!("GET / HTTP/1.1\r\n{field}\r\n\r\n")), Err(HeadFault::Field), "{field:?}");
        }
    }

    #[test]
    fn a_query_in_another_encoding_is_percent_encoded() {
        let encoded = |head: &[u8]| encode_query(head).map(|head| String::from_utf8(head).unwrap());
        let expected = "GET /a?b=%DE%FD&c=d HTTP/1.1\r\nX: y\r\n\r\n";
        assert_eq!(encoded(b"GET /a?b=\xde\xfd&c=d HTTP/1.1\r\nX: y\r\n\r\n").as_deref(), Some(expected));
        for head in ["GET /a?b=\u{15f} HTTP/1.1\r\n\r\n", "GET /a?b HTTP/1.1\r\nX: ?\r\n\r\n", "GET /a?b", "\r\n"] {
            assert_eq!(encoded(head.as_bytes()), None, "{head:?}");
        }
    }

    #[test]
    fn stray_line_ends_are_refused() {
        for head in [
            "GET / HTTP/1.1\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\n\nGET /evil HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\0\r\n\r\n",
            "\r\n\r\n",
        ] {
            assert!(matches!(check(head.as_bytes()), Err(HeadFault::LineEnd | HeadFault::RequestLine)), "{head:?}");
        }
    }

    /// Returns whether Pingora's parser accepts a complete head.
    fn parser_takes(head: &[u8]) -> bool {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let client = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (socket, _) = listener.accept().await.unwrap();
            drop(client);
            let mut session = ServerSession::new_http1(Box::new(pingora::protocols::l4::stream::Stream::from(socket)));
            session.set_pipelined_prefix(bytes::BytesMut::from(head));
            matches!(session.read_request().await, Ok(true))
        })
    }

    #[test]
    fn heads_of_the_maximum_size_pass_the_parser() {
        let path = |length| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(length - 1));
        let name = |length| format!("GET / HTTP/1.1\r\nHost: a\r\n{}: b\r\n\r\n", "a".repeat(length));
        let fields = |count| format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "a: b\r\n".repeat(count - 1));
        for (longest, longer) in [
            (path(MAX_TARGET_LENGTH), path(MAX_TARGET_LENGTH + 1)),
            (name(MAX_NAME_LENGTH), name(MAX_NAME_LENGTH + 1)),
            (fields(MAX_FIELDS), fields(MAX_FIELDS + 1)),
        ] {
            assert!(checked(&longest).is_ok() && parser_takes(longest.as_bytes()), "{}", longest.len());
            assert!(checked(&longer).is_err(), "{}", longer.len());
        }
    }

    proptest! {
        #[test]
        fn accepted_heads_pass_the_parser(
            method in "GET|OPTIONS|POST|[!-~]{1,5}",
            form in "/|http://a|http://|HTTPS://b/|[*]|a:|",
            target in "[!-~ş\\x7f]{0,12}",
            host in "a|b|[!-~]{0,6}",
            name in "[!-~]{1,8}|content-length|transfer-encoding",
            value in "[ -~ş\t]{0,8}|[0-9]{1,18}|chunked",
        ) {
            for target in [format!("{form}{target}"), form] {
                let head = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{name}: {value}\r\n\r\n");
                if check(head.as_bytes()).is_ok() {
                    prop_assert!(parser_takes(head.as_bytes()), "{head:?}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let HeadSearch::Complete(length) = find_end(&bytes, 0) {
                let _ = check(&bytes[..length]);
            }
            let _ = check(&bytes);
        }

        #[test]
        fn the_end_is_found_in_pieces_of_any_size(
            name in "[a-z]{1,8}", value in "[ -~]{0,20}", body in "[ -~\r\n]{0,30}", step in 1_usize..9,
        ) {
            let head = format!("GET / HTTP/1.1\r\n{name}: {value}\r\n\r\n");
            let bytes = format!("{head}{body}").into_bytes();
            let (mut seen, mut found) = (0, HeadSearch::Partial);
            while found == HeadSearch::Partial {
                let end = (seen + step).min(bytes.len());
                found = find_end(&bytes[..end], seen);
                seen = end;
            }
            prop_assert_eq!(found, HeadSearch::Complete(head.len()));
            prop_assert_eq!(check(head.as_bytes()), Ok(()));
        }
    }
}
