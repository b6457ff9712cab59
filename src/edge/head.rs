//! The raw head of an HTTP/1 request, before a parser sees it: where it ends, and whether it has one of the shapes that
//! two parsers read in two ways (RFC 9112 §11). Pure.
//!
//! The parser behind is lenient: it escapes spaces in the target, takes bare line feeds for line ends and drops a
//! `Content-Length` beside a `Transfer-Encoding`. Each of these hides from us what a second server may see.

/// What the bytes read so far are.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// No whole head yet.
    Partial,
    /// A whole head of this many bytes, its empty line included.
    Complete(usize),
}

/// The parser behind takes no more.
const MOST_FIELDS: usize = 256;

/// Looks for the head's end. `seen` is how many bytes of `bytes` an earlier call has looked at.
pub(super) fn find_end(bytes: &[u8], seen: usize) -> Head {
    const END: &[u8] = b"\r\n\r\n";
    let from = seen.saturating_sub(END.len() - 1);
    let tail = bytes.get(from..).unwrap_or_default();
    // A bare line feed before an empty line ends no head here, but `check` refuses every bare line feed, and the bytes
    // up to the next real end are bounded by the caller's limit and deadline.
    match memchr::memmem::find(tail, END) {
        Some(at) => Head::Complete(from + at + END.len()),
        None => Head::Partial,
    }
}

/// Why a head is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The request line is not `METHOD SP target SP HTTP/1.x`, or the target holds what may not stand there raw.
    RequestLine,
    /// A line does not end in CR LF, or holds a CR, LF or NUL elsewhere.
    LineEnd,
    /// A field line without a proper name, or one that continues the line before it.
    Field,
    /// Both `Content-Length` and `Transfer-Encoding`, or several of either, or one that says anything but a length in
    /// digits, or `chunked`.
    Framing,
    /// Several `Host`s, or one that is not that of the target (RFC 9112 §3.2).
    Host,
    /// CONNECT: nobody gets a tunnel here.
    Tunnel,
}

/// Checks a complete head, as [`find_end`] cut it.
///
/// # Errors
/// The first fault.
pub(super) fn check(head: &[u8]) -> Result<(), Fault> {
    let lines = head.strip_suffix(b"\r\n").ok_or(Fault::LineEnd)?;
    let clean = is_clean(lines);
    let mut rest = 0;
    let mut lines = memchr::memchr_iter(b'\n', lines).map(|end| {
        let line = lines.get(rest..=end).unwrap_or_default();
        rest = end + 1;
        without_end(line, clean)
    });
    let request = lines.next().and_then(Result::ok).filter(|line| is_request_line(line)).ok_or(Fault::RequestLine)?;
    if request.starts_with(b"CONNECT ") {
        return Err(Fault::Tunnel);
    }
    let (mut framings, mut host, mut count) = (0, None, 0);
    for line in lines {
        let line = line?;
        count += 1;
        let (name, value) =
            memchr::memchr(b':', line).and_then(|colon| line.split_at_checked(colon)).ok_or(Fault::Field)?;
        // A name may hold no white space: neither before the colon, nor at the start (a folded line).
        if name.is_empty() || !is_token(name) {
            return Err(Fault::Field);
        }
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if count > MOST_FIELDS || (!clean && any_byte(value, |byte| (byte < b' ' && byte != b'\t') || byte == 0x7f)) {
            return Err(Fault::Field);
        }
        if name.eq_ignore_ascii_case(b"content-length") {
            let length = (1..=18).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
            framings += if length { 1 } else { 2 };
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            // HTTP/1.0 has none (RFC 9112 §6.1).
            let chunked = value.eq_ignore_ascii_case(b"chunked") && request.ends_with(b"HTTP/1.1");
            framings += if chunked { 1 } else { 2 };
        } else if name.eq_ignore_ascii_case(b"host") && host.replace(value).is_some() {
            return Err(Fault::Host);
        }
    }
    if framings > 1 {
        return Err(Fault::Framing);
    }
    match (authority(request), host) {
        (Some(named), Some(host)) if !named.eq_ignore_ascii_case(host) => Err(Fault::Host),
        _ => Ok(()),
    }
}

/// The authority that the request line names, if it does.
fn authority(request: &[u8]) -> Option<&[u8]> {
    let target = request.split(|byte| *byte == b' ').nth(1)?;
    let after = target.windows(3).position(|window| window == b"://").filter(|_| target.first() != Some(&b'/'))? + 3;
    target.get(after..)?.split(|byte| matches!(byte, b'/' | b'?')).next()
}

/// A line without its CR LF. In a clean head it can hold no other.
fn without_end(line: &[u8], clean: bool) -> Result<&[u8], Fault> {
    let line = line.strip_suffix(b"\r\n").ok_or(Fault::LineEnd)?;
    if !clean && any_byte(line, |byte| byte == b'\r' || byte == 0) { Err(Fault::LineEnd) } else { Ok(line) }
}

/// Whether there are as many CRs as LFs and no other control but tabs: one look for what is nearly always so, and what
/// fault another head has is found out by and by.
fn is_clean(lines: &[u8]) -> bool {
    let is_other = |byte: u8| (byte < b' ' && !matches!(byte, b'\t' | b'\r' | b'\n')) || byte == 0x7f;
    let count = |wanted| memchr::memchr_iter(wanted, lines).count();
    !any_byte(lines, is_other) && count(b'\r') == count(b'\n')
}

/// Whether any byte is such a one. Looks at all of them without a branch, many at a time: a head of a kilobyte, most of it
/// a token, is looked at for each request.
fn any_byte(bytes: &[u8], is_such: impl Fn(u8) -> bool) -> bool {
    bytes.iter().fold(false, |found, byte| found | is_such(*byte))
}

fn is_request_line(line: &[u8]) -> bool {
    let mut words = line.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return false;
    };
    // A tunnel's target has a form of its own, and is refused by itself.
    let has_target = method == b"CONNECT" || is_target(target);
    !method.is_empty() && is_token(method) && has_target && matches!(version, b"HTTP/1.1" | b"HTTP/1.0")
}

/// Whether a request target may be looked at: a path, an absolute URL or `*` (RFC 9112 §3.2), of which everything else
/// (`http:x`, `host:80/x`) would be one path to us and another to the next server; no control characters or spaces, UTF-8, and
/// no fragment, which one parser cuts off and the next takes for a part of the path.
pub(super) fn is_target(target: &[u8]) -> bool {
    let unclean = |byte| byte <= b' ' || byte == 0x7f || byte == b'#';
    let has_form = target.first() == Some(&b'/') || target == b"*" || is_absolute(target);
    has_form && !any_byte(target, unclean) && str::from_utf8(target).is_ok()
}

fn is_absolute(target: &[u8]) -> bool {
    let begins = |scheme: &[u8]| target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    begins(b"http://") || begins(b"https://")
}

/// RFC 9110 §5.6.2.
fn is_token(bytes: &[u8]) -> bool {
    /// Which bytes may stand in a token.
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
    use proptest::prelude::*;

    use super::*;

    fn checked(head: &str) -> Result<(), Fault> {
        assert_eq!(find_end(head.as_bytes(), 0), Head::Complete(head.len()));
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
            assert_eq!(checked(&format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n")), Err(Fault::Framing));
        }
    }

    #[test]
    fn http_1_0_has_no_chunks() {
        assert_eq!(checked("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), Err(Fault::Framing));
        assert_eq!(checked("POST / HTTP/1.1\r\nTransfer-Encoding:\tChunked \r\n\r\n"), Ok(()));
    }

    #[test]
    fn there_is_one_host_and_it_is_the_targets() {
        assert_eq!(checked("GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n"), Err(Fault::Host));
        assert_eq!(checked("GET http://b/x HTTP/1.1\r\nHost: a\r\n\r\n"), Err(Fault::Host));
        assert_eq!(checked("GET http://A:1?x HTTP/1.1\r\nHost: a:1\r\n\r\n"), Ok(()));
        assert_eq!(checked("GET /go?to=http://b/ HTTP/1.1\r\nHost: a\r\n\r\n"), Ok(()));
    }

    #[test]
    fn nobody_gets_a_tunnel() {
        assert_eq!(checked("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n"), Err(Fault::Tunnel));
    }

    #[test]
    fn too_many_fields_are_refused() {
        let head = |count: usize| format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(count));
        assert_eq!(checked(&head(256)), Ok(()));
        assert_eq!(checked(&head(257)), Err(Fault::Field));
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
            assert_eq!(checked(&format!("{line}\r\nHost: a\r\n\r\n")), Err(Fault::RequestLine), "{line:?}");
        }
        let mut latin = b"GET /\xe7 HTTP/1.1\r\n\r\n".to_vec();
        assert_eq!(check(&latin), Err(Fault::RequestLine));
        latin.truncate(4);
        assert_eq!(find_end(&latin, 0), Head::Partial);
    }

    #[test]
    fn bad_fields_are_refused() {
        for field in
            ["Transfer-Encoding : chunked", " folded: 1", "\tfolded", "nocolon", ": noname", "a b: c", "a: b\x01"]
        {
            assert_eq!(checked(&format!("GET / HTTP/1.1\r\n{field}\r\n\r\n")), Err(Fault::Field), "{field:?}");
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
            assert!(matches!(check(head.as_bytes()), Err(Fault::LineEnd | Fault::RequestLine)), "{head:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Head::Complete(length) = find_end(&bytes, 0) {
                let _ = check(&bytes[..length]);
            }
            let _ = check(&bytes);
        }

        #[test]
        fn the_end_is_found_however_the_bytes_arrive(
            name in "[a-z]{1,8}", value in "[ -~]{0,20}", body in "[ -~\r\n]{0,30}", step in 1_usize..9,
        ) {
            let head = format!("GET / HTTP/1.1\r\n{name}: {value}\r\n\r\n");
            let bytes = format!("{head}{body}").into_bytes();
            let (mut seen, mut found) = (0, Head::Partial);
            while found == Head::Partial {
                let end = (seen + step).min(bytes.len());
                found = find_end(&bytes[..end], seen);
                seen = end;
            }
            prop_assert_eq!(found, Head::Complete(head.len()));
            prop_assert_eq!(check(head.as_bytes()), Ok(()));
        }
    }
}
