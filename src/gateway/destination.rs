//! `Destination` (RFC 4918 §10.3): where a COPY or a MOVE of `WebDAV` writes. To the application it is a second path of the
//! request, so it is read like the first one, and its rule has to let the request through as well. Pure.

use http::HeaderMap;
use http::header::HeaderName;
use http::uri::Authority;

use crate::gateway::depth::RequestDepth;
use crate::gateway::path::CanonicalPath;
use crate::gateway::reading::Ambiguous;
use crate::gateway::route::{Routes, Rule};
use crate::gateway::subtree::Subtree;

pub(super) const DESTINATION: HeaderName = HeaderName::from_static("destination");

/// What a request names as its destination.
#[derive(Debug, Clone, Copy)]
pub(super) enum Destination<'a> {
    None,
    /// A path with this rule for the method.
    Ruled(&'a Rule),
    /// A path that no rule opens to the method.
    Closed,
}

/// Which rule the destination falls under. On whatever host it is: an application that takes no notice of the host takes
/// the path for its own. The rules below it are added to `below`, whatever `Depth` says: what is written over is deleted first, with
/// everything in it (RFC 4918 §9.8.4).
///
/// # Errors
/// When it can be read in more than one way, or is missing where the method needs one (RFC 4918 §10.3).
pub(super) fn destination<'a>(
    headers: &HeaderMap,
    method: &str,
    routes: &'a Routes,
    below: &mut Subtree<'a>,
) -> Result<Destination<'a>, Ambiguous> {
    let Some(field) = headers.get(DESTINATION) else {
        // A proxy that asks for a decision without it may pass it on to the application.
        let is_missing = matches!(method, "COPY" | "MOVE");
        return if is_missing { Err(Ambiguous::NotAbsolute) } else { Ok(Destination::None) };
    };
    let text = field.to_str().map_err(|_| Ambiguous::Character)?;
    let path = path(text).ok_or(Ambiguous::NotAbsolute)?;
    let path = CanonicalPath::parse_with(path, routes.characters())?;
    let Some(place) = routes.find(&path)? else { return Ok(Destination::Closed) };
    let Some(rule) = place.rule(method) else { return Ok(Destination::Closed) };
    below.add(routes, &path, place, method, RequestDepth::Infinity)?;
    Ok(Destination::Ruled(rule))
}

/// The path of a URL, or the text itself where it is a path.
fn path(text: &str) -> Option<&str> {
    let target = match text.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http") => {
            let (authority, target) = rest.split_at_checked(rest.find(['/', '?', '#'])?)?;
            is_plain_authority(authority).then_some(target)?
        }
        _ => text,
    };
    // To some `//host/path` is a host and a path, and to others a path.
    let is_path = target.starts_with('/') && !target.starts_with("//");
    // Neither has anything to do in a destination, and where one begins is where servers differ.
    (is_path && !target.contains(['?', '#'])).then_some(target)
}

/// Whether every parser ends an authority (RFC 3986 §3.2) where this one does: a host and perhaps a port. Browsers take a backslash
/// for a slash, skip tabs, and look for the host behind an empty authority (the URL standard, §4.4).
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
    fn a_destination_is_a_path_or_a_url_of_http() {
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
