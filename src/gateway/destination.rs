//! `Destination` (RFC 4918 §10.3): the target of a `WebDAV` COPY or MOVE. Pure.
//!
//! The application acts on the destination as on a second path of the request. So the gateway
//! parses the destination like the path, and the rule of the destination must allow the request
//! too.

use http::HeaderMap;
use http::header::HeaderName;
use http::uri::Authority;

use crate::path::CanonicalPath;
use crate::place_index::{RequestDepth, Subtree};
use crate::reading::Ambiguous;
use crate::route::{Routes, Rule};

pub(super) const DESTINATION: HeaderName = HeaderName::from_static("destination");

/// Destination of a request.
#[derive(Debug, Clone, Copy)]
pub(super) enum Destination<'a> {
    None,
    /// The path of the destination has this rule for the method.
    Ruled(&'a Rule),
    /// The path of the destination has no rule for the method.
    Closed,
}

/// Returns the rule of the destination, and adds the rules below the destination to `below`. `rule` is
/// the rule of the request.
///
/// The host of the destination is ignored, because some applications ignore it too. `Depth` is
/// ignored, because the application first deletes everything at an overwritten destination (RFC
/// 4918 §9.8.4).
///
/// # Errors
/// If the destination can be read in more than one way, or if a COPY or MOVE has no destination
/// (RFC 4918 §10.3).
pub(super) fn destination<'a>(
    headers: &HeaderMap,
    routes: &'a Routes,
    rule: &Rule,
    below: &mut Subtree<'a>,
) -> Result<Destination<'a>, Ambiguous> {
    let Some(field) = headers.get(DESTINATION) else {
        // With forward authentication, the application may receive a `Destination` that the proxy
        // did not send to the gateway.
        let is_missing = matches!(below.method(), "COPY" | "MOVE");
        return if is_missing { Err(Ambiguous::NotAbsolute) } else { Ok(Destination::None) };
    };
    let text = field.to_str().map_err(|_| Ambiguous::Character)?;
    let path = path(text).ok_or(Ambiguous::NotAbsolute)?;
    let path = CanonicalPath::parse_with(path, routes.characters())?;
    let Some(place) = routes.find(&path)? else { return Ok(Destination::Closed) };
    let Ok(ruled) = below.rule(place) else { return Ok(Destination::Closed) };
    // The upstream of the request would read the destination as one of its own paths, and another
    // rule may protect that path.
    if ruled.upstream != rule.upstream {
        return Ok(Destination::Closed);
    }
    below.add(routes, &path, place, RequestDepth::Infinity)?;
    Ok(Destination::Ruled(ruled))
}

/// Returns the path of a URL, or the text itself if the text is a path.
pub(super) fn path(text: &str) -> Option<&str> {
    let target = match text.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http") => {
            let (authority, target) = rest.split_at_checked(rest.find(['/', '?', '#'])?)?;
            is_plain_authority(authority).then_some(target)?
        }
        _ => text,
    };
    // Servers disagree on whether `//host/path` starts with a host.
    let is_path = target.starts_with('/') && !target.starts_with("//");
    // Servers disagree on where a query or fragment starts. A destination needs neither.
    (is_path && !target.contains(['?', '#'])).then_some(target)
}

/// Returns whether the authority (RFC 3986 §3.2) is a host with an optional port, and so ends at
/// the same byte for every parser.
///
/// Browsers read a backslash as a slash, skip tabs, and look for the host after an empty authority
/// (URL Standard §4.4).
fn is_plain_authority(authority: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b':' | b'[' | b']');
    let has_host_and_port = |parsed: &Authority| {
        let port = authority.strip_prefix(parsed.host());
        !parsed.host().is_empty() && port.is_some_and(|port| port.is_empty() || parsed.port_u16().is_some())
    };
    authority.bytes().all(is_plain) && authority.parse().is_ok_and(|parsed| has_host_and_port(&parsed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_a_path_or_an_http_url() {
        for text in ["/a/b", "http://x/a/b", "HTTPS://x_y:8443/a/b", "http://other.test/a/b", "http://[::1]:80/a/b"] {
            assert_eq!(path(text), Some("/a/b"), "{text}");
        }
        for text in
            ["", "a/b", "//x/a", "http://x", "http://x//a", "ftp://x/a", "http:/a", "/a?b", "/a#b", "http://x?/a"]
        {
            assert_eq!(path(text), None, "{text}");
        }
        for authority in [
            "", ":80", "x:y", "x:1:2", "a@x", "@x", "x@", "x\\y", "\\x", "x\ty", "x y", "x%2fy", "[::1", "::1", "ş",
            "x;y",
        ] {
            assert_eq!(path(&format!("https://{authority}/a")), None, "{authority}");
        }
    }
}
